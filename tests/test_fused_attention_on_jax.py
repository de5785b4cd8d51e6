"""Encoders with Keras on JAX train packed rows without a bias for every pair of tokens, and equal the plain form.

They run if `jax` is installed in this Python or in the one that KERAS_BERT_JAX_PYTHON names.
"""

import json

import numpy as np
import pytest
from on_jax import needs_jax, output_on_jax

from keras_bert.layers.attention import SelfAttention
from keras_bert.layers.numbered_mask import SequenceNumbers
from keras_bert.program.errors import InputError

COMMON = """
import json, sys
import jax, keras, numpy as np
from jax import numpy as jnp
from keras_bert.accelerate import numbered_attention
from keras_bert.encoders.rotary import encoder as rotary
from keras_bert.config import BertConfig
from keras_bert.models.encoder_base import make_encoder

assert keras.config.backend() == "jax"
rotary.LONG_ROW = 32  # so that short rows have windows
SIZES = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
SIZES |= {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0, "max_position_embeddings": 4096}
CONFIGS = {
    "bert": BertConfig.from_size("tiny", num_hidden_layers=2, **SIZES),
    "modernbert": BertConfig.from_size("modernbert-base", num_hidden_layers=4, local_attention=8, **SIZES),
}
fuse = {True: keras.config.enable_flash_attention, False: keras.config.disable_flash_attention}

def packed_rows(length):
    numbers = np.zeros((2, length), "int32")
    numbers[0, : length // 2], numbers[0, length // 2 : -4] = 1, 2
    numbers[1, : length // 3], numbers[1, length // 3 :] = 1, 2
    starts = np.array([[0, length // 2], [0, length // 3]], "int32")
    ids = np.random.default_rng(0).integers(5, 50, (2, length)).astype("int32")
    return {"input_ids": ids, "input_mask": numbers, "segment_ids": 0 * ids, "cls_positions": starts}
"""

# The largest differences between both forms, relative to the largest numbers; and what other sequences get.
EQUALITY = """
numbered_attention.FEWEST_KEYS = 16
rows, draw, found = packed_rows(48), np.random.default_rng(1), {}
numbers, columns = rows["input_mask"], np.array([[3, 30], [5, 47]], "int32")
vectors, upstream = (jnp.asarray(draw.normal(size=(2, 48, 16)), "float32") for _ in range(2))
for name, dtype in (("bert", "float32"), ("modernbert", "float32"), ("modernbert", "mixed_bfloat16")):
    keras.utils.set_random_seed(1)
    encoder = make_encoder(CONFIGS[name], dtype=dtype)

    def outputs(vectors):
        inputs = rows | {"token_vectors": vectors}
        all_tokens = encoder(inputs, training=True)["sequence_output"]
        return all_tokens, encoder.vectors_at(inputs, columns, training=True)["sequence_output"]

    def compute(vectors, upstream):
        states, gradients_of = jax.vjp(outputs, vectors)
        upstream, is_token = upstream.astype(states[0].dtype), numbers[..., None] > 0
        some, of_second = upstream[:, :2], upstream * (numbers[..., None] == 2)
        both = gradients_of((upstream * is_token, some)), gradients_of((of_second, 0 * some))
        return [states[0] * is_token, states[1], both[0][0], both[1][0]]

    results = {}
    for fused, switch in fuse.items():
        switch()
        run = jax.jit(lambda *given: compute(*given))  # a new function, since the switch is read when it is traced
        results[fused] = [np.asarray(part, "float64") for part in run(vectors, upstream)]
    pairs = list(zip(results[True], results[False]))
    found[f"{name} {dtype}"] = {
        "differences": [np.abs(a - b).max() / np.abs(b).max() for a, b in pairs],
        "is_other_form": any((a != b).any() for a, b in pairs),
        "inside": np.abs(results[True][3][numbers == 2]).max(),
        "of_others": np.abs(results[True][3][numbers == 1]).max(),
    }

from family_training import new_model, outputs_before_and_after
padded = rows | {"input_mask": (np.arange(48) < [[48], [31]]).astype("int32")}
steps = {}
for fused, switch in fuse.items():
    switch()
    keras.utils.set_random_seed(1)
    model = new_model(CONFIGS["modernbert"])
    outputs_before_and_after(model, padded, np.array([0, 1], "int32"))
    steps[fused] = model.get_weights()
found["step"] = max(float(np.abs(a - b).max()) for a, b in zip(steps[True], steps[False]))
print(json.dumps(found))
"""


def run_on_jax(program, **variables):
    return json.loads(output_on_jax(COMMON + program, **variables).splitlines()[-1])


@pytest.mark.slow  # tests/accelerate/test_numbered_attention.py is the fast sibling
@needs_jax
def test_packed_rows_train_as_with_the_plain_form_and_sequences_do_not_see_each_other():
    found = run_on_jax(EQUALITY)
    assert found.pop("step") < 1e-6
    for name, numbers in found.items():
        tolerance = 0.05 if "bfloat16" in name else 1e-5
        assert max(numbers["differences"]) < tolerance, name
        assert numbers["is_other_form"], name
        assert numbers["inside"] > 0.1, name
        assert numbers["of_others"] == 0.0, name


@pytest.mark.parametrize(
    ("dropout", "arguments", "message"),
    [
        (0.1, {"training": True}, "has no dropout. Received: attention dropout 0.1. Set it to 0"),
        (0.0, {"return_attention": True}, "has no probabilities to return. Received: return_attention=True"),
        (0.1, {}, "needs Keras on JAX. Received: Keras on tensorflow"),
    ],
)
def test_what_fused_attention_cannot_compute_is_one_error(dropout, arguments, message):
    layer, numbers = SelfAttention(2, dropout=dropout), np.ones((1, 3), "int32")
    with pytest.raises(InputError, match=f"Fused attention {message}"):
        layer(np.ones((1, 3, 4), "float32"), SequenceNumbers(None, numbers), **arguments)
