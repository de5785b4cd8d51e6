"""XLNet computes what the official code computed.

`data_prep/test_permutation_records.py` proves that its predictions know earlier tokens only.
`family_golden/xlnet.npz` has weights under the names of TensorFlow 1, inputs and outputs, recorded from
zihangdai/xlnet: with a memory, segments, padding on the left and hidden tokens.
"""

import json

import numpy as np
import pytest
from encoders.test_transformer_xl import assert_distances_from_3_count_as_one
from numpy_bert import scatter_weights
from places import REAL_DATA, TESTS
from sentence_piece_checks import published_pieces
from sentencepiece import SentencePieceProcessor
from tiny_families import config_of

from keras_bert import Encoder, InputError, MaskedLM, load_vocabulary
from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.conversion import convert_checkpoint
from keras_bert.checkpoints.tensorflow_checkpoint import read_tensorflow_checkpoint, write_tensorflow_checkpoint
from keras_bert.encoders.xlnet.encoder import XLNetEncoder
from keras_bert.layers.numbered_mask import MASKED, columns_with_first_last
from keras_bert.layers.relative_attention import shift_to_keys

GOLDEN = np.load((TESTS / "family_golden") / "xlnet.npz")
DATA = REAL_DATA / "family"
SIZES = {"d_head": 4, "d_inner": 32, "d_model": 16, "ff_activation": "gelu", "n_head": 4, "n_layer": 2}
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="KERAS_BERT_DATA does not name the folder of real data")


def rows_first(name):
    """Returns a recorded array with the batch on the first axis instead of the last."""
    values = GOLDEN[name]
    return np.moveaxis(values, -1, 0) if name in ("ids", "seg", "imask", "perm", "tm") else values.swapaxes(-3, -2)


def write_golden(folder, **changes):
    variables = {name[2:]: StoredTensor.of(GOLDEN[name]) for name in GOLDEN.files if name.startswith("w/")}
    variables["model/lm_loss/bias"] = StoredTensor.of(np.linspace(-1, 1, 50, dtype="float32"))
    folder.mkdir()
    (folder / "xlnet_config.json").write_text(json.dumps({**SIZES, "n_token": 50, "untie_r": True, **changes}))
    write_tensorflow_checkpoint(str(folder / "xlnet_model.ckpt"), variables)
    return folder


def test_both_streams_and_the_memory_are_those_of_the_official_code(tmp_path):
    # The record is in float32. In float64 no rounding of this machine is added to its own.
    model = MaskedLM.from_pretrained(write_golden(tmp_path / "xlnet"), dtype="float64")
    memory = list(GOLDEN["mems"].swapaxes(1, 2).astype("float64"))
    hidden = (rows_first("perm") + rows_first("imask")[:, None] > 0).astype("float64")
    hidden = np.pad(hidden, [[0, 0], [0, 0], [memory[0].shape[1], 0]])
    columns = rows_first("tm").argmax(2).astype("int32")
    own = np.pad(np.eye(10, dtype="float64"), [[0, 0], [memory[0].shape[1], 0]])
    streams = model.encoder.streams(
        rows_first("ids"),
        rows_first("seg"),
        ((hidden * (1 - own)) * MASKED)[:, None],
        memory=memory,
        queries=np.zeros((2, 3, 16)) + np.asarray(model.masked_lm_head.mask_embedding),
        query_columns=columns,
        query_bias=(np.take_along_axis(hidden, columns[:, :, None], axis=1) * MASKED)[:, None],
    )
    np.testing.assert_allclose(streams.queries, rows_first("out"), rtol=0, atol=1e-6)
    for old, state, expected in zip(memory, streams.states, GOLDEN["new_mems"].swapaxes(1, 2), strict=False):
        # It was recorded with reuse_len 6.
        new = np.concatenate([old, np.asarray(state)[:, :6]], axis=1)[:, -old.shape[1] :]
        np.testing.assert_allclose(new, expected, rtol=0, atol=1e-6)


def test_a_checkpoint_of_the_official_code_comes_back_unchanged(tmp_path):
    folder = write_golden(tmp_path / "xlnet")
    convert_checkpoint(folder, tmp_path / "ours")
    convert_checkpoint(tmp_path / "ours", tmp_path / "back", "google")
    before = read_tensorflow_checkpoint(str(folder / "xlnet_model.ckpt"))
    after = read_tensorflow_checkpoint(str(tmp_path / "back" / "bert_model.ckpt"))
    assert set(before) == set(after)
    for name, tensor in before.items():
        np.testing.assert_array_equal(tensor.read(), after[name].read(), err_msg=name)
    values = json.loads((tmp_path / "back" / "xlnet_config.json").read_text())
    assert {name: values[name] for name in SIZES} == SIZES


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_layer": 3}, "has the shape .2, 4, 4., but the config has 3 layers"),
        ({"d_inner": 31}, "intermediate_dense/kernel has the shape .16, 32., but its config requires .16, 31."),
        ({"d_head": 8}, "d_head=8 and n_head=4 do not make d_model=16"),
        ({"attn_type": "uni"}, "attn_type is 'uni', .* Only 'bi' is supported"),
        ({"clamp_len": 0}, "clamp_len must be positive, or -1"),
    ],
)
def test_a_config_of_another_model_is_refused(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        Encoder.from_pretrained(write_golden(tmp_path / "xlnet", **changes))


def test_the_first_token_of_a_sequence_moves_behind_its_last():
    mask = np.array([[1, 1, 1, 2, 2, 0], [0, 0, 1, 1, 1, 1], [1, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]], "int32")
    columns, origins, is_first = (np.asarray(values) for values in columns_with_first_last(mask))
    assert origins.tolist() == [[1, 2, 0, 4, 3, 5], [0, 1, 3, 4, 5, 2], [1, 2, 3, 0, 4, 5], [0, 1, 2, 3, 4, 5]]
    np.testing.assert_array_equal(np.take_along_axis(origins, columns, axis=1), np.tile(np.arange(6), (4, 1)))
    assert is_first.astype(int).tolist() == [[1, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0] * 6]


def test_scores_of_distances_are_shifted_to_their_keys():
    scores = np.arange(2 * 3 * 8, dtype="float32").reshape(1, 2, 3, 8)  # 3 queries, 5 keys
    expected = [[[scores[0, head, row, 3 - row + key] for key in range(5)] for row in range(3)] for head in range(2)]
    np.testing.assert_array_equal(np.asarray(shift_to_keys(scores, 5))[0], expected)


def small_model(**changes):
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    model = MaskedLM(config_of("xlnet", vocab_size=40, max_position_embeddings=16, **{**sizes, **changes}))
    scatter_weights(model)
    return model


def test_predictions_do_not_know_any_predicted_token_without_an_order():
    model = small_model()
    ids = np.array([[9, 8, 17, 30, 12, 7, 0]], "int32")
    inputs = {"input_ids": ids, "input_mask": (ids > 0).astype("int32"), "segment_ids": 0 * ids}
    inputs["masked_lm_positions"] = np.array([[2, 4, 0]], "int32")  # the last is not used
    before = np.asarray(model(inputs)["masked_lm_logits"])[0, :2]
    hidden, known = ids.copy(), ids.copy()
    hidden[0, [2, 4]], known[0, 3] = 6, 31
    np.testing.assert_array_equal(np.asarray(model(inputs | {"input_ids": hidden})["masked_lm_logits"])[0, :2], before)
    assert np.abs(np.asarray(model(inputs | {"input_ids": known})["masked_lm_logits"])[0, :2] - before).min() > 0


def test_memory_gets_no_gradient():
    import tensorflow as tf

    encoder = small_model().encoder
    ids = np.array([[9, 8, 17]], "int32")
    memory = [tf.Variable(np.random.default_rng(0).normal(size=(1, 4, 16)).astype("float32")) for _ in range(3)]
    with tf.GradientTape() as tape:
        states = encoder.streams(ids, 0 * ids, np.zeros((1, 1, 1, 7), "float32"), memory=memory).states
        loss = tf.reduce_sum(tf.square(states[-1]))
    assert tape.gradient(loss, memory) == [None] * 3


def test_distances_beyond_clamp_len_count_as_one():
    encoder = small_model(clamp_len=3, num_hidden_layers=1).encoder
    ids, bias = np.array([[9]], "int32"), np.zeros((1, 1, 1, 7), "float32")
    assert_distances_from_3_count_as_one(lambda memory: encoder.streams(ids, 0 * ids, bias, memory=[memory]).states[-1])


def test_left_padding_does_not_change_answers():
    encoder = small_model().encoder
    assert isinstance(encoder, XLNetEncoder)
    ids, segments = np.array([[9, 8, 17, 30]], "int32"), np.array([[0, 0, 1, 1]], "int32")
    alone = encoder({"input_ids": ids, "input_mask": 0 * ids + 1, "segment_ids": segments})
    padded, of_padded = np.pad(ids, [[0, 0], [3, 0]]), np.pad(segments, [[0, 0], [3, 0]])
    moved = encoder({"input_ids": padded, "input_mask": (padded > 0).astype("int32"), "segment_ids": of_padded})
    np.testing.assert_allclose(moved["pooled_output"], alone["pooled_output"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(moved["sequence_output"][:, 3:], alone["sequence_output"], rtol=0, atol=1e-5)


@needs_data
def test_texts_get_the_tokens_of_the_official_code():
    file = DATA / "vocab" / "xlnet-spiece.model"
    tokenizer, processor = load_vocabulary(file), SentencePieceProcessor(model_file=str(file))
    assert (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, tokenizer.mask_id) == (3, 4, 5, 6)
    texts = ["Émile saw  ``Zürich''.", "Was it ÅNGSTRÖM's? No!", "naïve cafés (1984) - ﬁn", "The fox's 12,5 % tail"]
    for text in texts:
        assert tokenizer.tokenize(text) == published_pieces(processor, text, lower_case=False)
        assert tokenizer.graph().tokenize([text]).to_list() == [tokenizer.encode(text)]
