"""The capabilities of the families: each cell of the table in docs/families.md is a test here.

`python tests/encoders/test_family_capabilities.py` prints the table.
"""

import dataclasses
import functools
import re

import distributed_runs
import keras
import numpy as np
import pytest
from encoder_contract import inputs_of
from places import DOCS
from tiny_families import VOCABULARIES, config, fewest_layers

from keras_bert import BertPretrainer, InputError, SequenceClassifier, enable_lora, registry
from keras_bert.models.encoder_base import PACKING, UNPADDING, encoder_class, make_encoder
from keras_bert.optimization import AdamW

PAGE = DOCS / "families.md"
FAMILIES = {"roberta": "RoBERTa", "albert": "ALBERT", "distilbert": "DistilBERT", "electra": "ELECTRA"}
FAMILIES |= {"mobilebert": "MobileBERT", "modernbert": "ModernBERT", "xlnet": "XLNet"}
FAMILIES |= {"longformer": "Longformer", "big_bird": "BigBird"}
FAMILIES |= {"xlm-roberta": "XLM-RoBERTa", "camembert": "CamemBERT", "mpnet": "MPNet", "deberta-v2": "DeBERTa"}
FAMILIES |= {"nomic_bert": "NomicBERT", "gte": "GTE", "jina_embeddings_v3": "jina v3", "eurobert": "EuroBERT"}
FAMILIES |= {"gemma3_text": "Gemma", "neobert": "NeoBERT"}
TEXTS = ["the fox", "a dog, the dog", "fox fox the fox", "dog"]
LABELS = np.array([0, 1, 0, 1], "int32")


def new_classifier(family, **arguments):
    keras.utils.set_random_seed(5)
    without_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    small = config(family, **without_dropout, **fewest_layers(family))
    model = SequenceClassifier(small, labels=["fox", "dog"], **arguments)
    model.vocabulary = VOCABULARIES[family]
    return model


def batch_of(family):
    batch = inputs_of([[1] * 8, [1] * 5 + [0] * 3, [1] * 2 + [0] * 6, [1] * 8], config(family).vocab_size)
    if config(family).type_vocab_size < 2:
        del batch["segment_ids"]
    return batch


@functools.lru_cache(maxsize=4)
def trained(family, jit_compile=False, run_eagerly=False, **arguments):
    """Returns a classifier after five steps, and the losses."""
    model = new_classifier(family, **arguments)
    model.compile(optimizer=AdamW(1e-3), jit_compile=jit_compile, run_eagerly=run_eagerly)
    losses = model.fit(batch_of(family), LABELS, batch_size=4, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    return model, losses


# (family, capability) -> what the table says where it does not say yes.
WITHOUT = {
    (family, "packed rows, no padding"): "no: blocks and windows count columns" for family in ("longformer", "big_bird")
}
WITHOUT |= {(family, "LiteRT export"): "no: it lacks an operation" for family in ("longformer", "big_bird")}
WITHOUT |= {(family, "ONNX export"): "no: its attention is not written" for family in ("longformer", "big_bird")}
WITHOUT[("mobilebert", "ONNX export")] = "no: its layers are not written"


def check_packing_and_unpadding(family, tmp_path, request):
    encoder = make_encoder(config(family))
    if (family, "packed rows, no padding") in WITHOUT:
        assert not {PACKING, UNPADDING} & set(encoder.supports)
        batch = batch_of(family)
        with pytest.raises(InputError, match=f"{family} cannot take packed rows"):
            encoder(batch | {"cls_positions": np.array([[0], [0], [0], [0]])})
        return
    # test_families.py compares their vectors with those of single and of padded rows.
    assert {PACKING, UNPADDING} <= set(encoder.supports)


def check_two_devices(family, tmp_path, request):
    on_four_devices = request.getfixturevalue("on_four_devices")
    one, two = (on_four_devices(distributed_runs.train, family, layout) for layout in ("one", "mirrored2"))
    differences = [np.abs(a - b).max() for a, b in zip(one["after"], two["after"], strict=True)]
    assert max(differences) <= 1e-6
    assert max(np.abs(a - b).max() for a, b in zip(one["before"], one["after"], strict=True)) > 1e-3


def check_bfloat16(family, tmp_path, request):
    model, losses = trained(family, run_eagerly=True, dtype="mixed_bfloat16")
    assert model.encoder.blocks_in_order()[0].compute_dtype == "bfloat16"
    np.testing.assert_allclose(losses, trained(family, run_eagerly=True)[1], atol=0.05)


def check_xla(family, tmp_path, request):
    (compiled, losses), (plain, expected) = trained(family, jit_compile=True), trained(family, run_eagerly=True)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for one, other in zip(compiled.weights, plain.weights, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=1e-4)


def check_lora(family, tmp_path, request):
    model = new_classifier(family)
    frozen = [model.encoder.embeddings, *model.encoder.blocks_in_order()]
    before = [(weight, np.asarray(weight)) for part in frozen for weight in part.weights]
    enable_lora(model, rank=2)
    model.compile(optimizer=AdamW(1e-2), run_eagerly=True, jit_compile=False)
    model.fit(batch_of(family), LABELS, batch_size=4, epochs=3, verbose=0)
    for weight, expected in before:
        np.testing.assert_array_equal(np.asarray(weight), expected)
    model.save_pretrained(tmp_path / "merged")
    found = np.asarray(SequenceClassifier.from_pretrained(tmp_path / "merged")(batch_of(family)))
    np.testing.assert_allclose(found, model(batch_of(family)), atol=1e-5)
    assert np.abs(found - np.asarray(new_classifier(family)(batch_of(family)))).max() > 1e-2


def check_8_bit(family, tmp_path, request):
    import tensorflow as tf

    model = new_classifier(family)
    folder = model.export_for_serving(tmp_path / "export", weights="int8")
    exported = tf.saved_model.load(folder)
    found = exported.signatures["serving_default"](text=tf.constant(TEXTS))["probabilities"]
    expected = [list(answer.probabilities.values()) for answer in model.predict(TEXTS)]
    assert 0 < np.abs(found.numpy() - np.array(expected)).max() < 0.05


def check_pretraining(family, tmp_path, request):
    keras.utils.set_random_seed(5)
    model = BertPretrainer(distributed_runs.config(family=family))
    model.compile(optimizer=AdamW(1e-2))
    data = distributed_runs.features()
    if config(family).type_vocab_size < 2:
        del data["segment_ids"]
    history = model.fit(data, batch_size=40, epochs=8, verbose=0).history
    assert history["loss"][-1] < 0.95 * history["loss"][0]


def checked_elsewhere(*arguments):
    """Tasks: tests/test_scenarios.py. LiteRT and ONNX:
    tests/test_scenarios.py, tests/serving/test_onnx_exports.py. JAX: tests/test_jax_backend.py."""


CHECKS = {
    "six tasks from text, and their exports": checked_elsewhere,
    "packed rows, no padding": check_packing_and_unpadding,
    "pre-training": check_pretraining,
    "two devices = one": check_two_devices,
    "bfloat16": check_bfloat16,
    "XLA": check_xla,
    "LoRA": check_lora,
    "8-bit export": check_8_bit,
    "LiteRT export": checked_elsewhere,
    "ONNX export": checked_elsewhere,
    "the core on JAX": checked_elsewhere,
}
WITHOUT[("xlnet", "ONNX export")] = "no: its attention is not written"
PACKED = ("roberta", "distilbert", "electra", "modernbert", "gemma3_text", "mobilebert", "longformer", "big_bird")
PACKED += ("xlnet", "mpnet", "deberta-v2")
# The short run tests nearly every capability with ALBERT, whose layers are shared, and one with each other family.
# Its other tests compare two devices (test_distributed_model.py), compile with XLA (test_block_runner.py), export 8-bit
# weights (test_served_signatures.py), and train every family (test_families.py).
SHORT = {
    *(("albert", name) for name in CHECKS if name not in ("two devices = one", "XLA", "8-bit export")),
    *((name, "packed rows, no padding") for name in PACKED),
}


# These are computed as another family.
ALIKE = {"xlm-roberta": "roberta", "camembert": "roberta"}


def cells():
    names = [name for name, check in CHECKS.items() if check is not checked_elsewhere]
    for family in (family for family in FAMILIES if family not in ALIKE):
        for name in names:
            yield pytest.param(family, name, marks=[] if (family, name) in SHORT else [pytest.mark.slow])


@pytest.mark.parametrize(("family", "name"), list(cells()))
def test_a_family_can_do_it(family, name, tmp_path, request):
    CHECKS[name](family, tmp_path, request)


@pytest.mark.parametrize("family", ALIKE)
def test_a_family_is_computed_as_another(family):
    one, other = registry.family(family), registry.family(ALIKE[family])
    names = {"defaults", "sizes", "tokenizer", "hugging_face", "keras_hub"}
    fields = [field.name for field in dataclasses.fields(one) if field.name not in names]
    assert [getattr(one, name) for name in fields] == [getattr(other, name) for name in fields]
    assert {**one.defaults, "vocab_size": None} == {**other.defaults, "vocab_size": None}
    assert encoder_class(config(family)) is encoder_class(config(ALIKE[family]))


def table() -> list[str]:
    lines = [f"| | {' | '.join(FAMILIES.values())} |", "|---" * (len(FAMILIES) + 1) + "|"]
    return lines + [
        f"| {name} | {' | '.join(WITHOUT.get((family, name), 'yes') for family in FAMILIES)} |" for name in CHECKS
    ]


def test_the_page_has_the_table():
    [shown] = re.findall(r"<!-- capabilities -->\n\n(.*?)\n\n<!-- end -->", PAGE.read_text("utf-8"), re.S)
    assert shown.split("\n") == table()


if __name__ == "__main__":
    print("\n".join(table()))
