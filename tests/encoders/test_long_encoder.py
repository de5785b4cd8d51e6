"""Longformer and BigBird: global tokens, linear memory, extended checkpoints, texts, bad input."""

import json

import numpy as np
import pytest
import tensorflow as tf
from numpy_bert import scatter_weights
from tiny_checkpoints import VOCABULARY, change_json, random_checkpoint
from tiny_families import VOCABULARIES, config, config_of, sentence_pieces

from keras_bert import BertConfig, InputError, MultipleChoice, SpanClassifier
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.checkpoints.pretrained import model_of
from keras_bert.checkpoints.resizing import extended_to_long_rows, with_layers, with_positions
from keras_bert.models.encoder_base import Encoder, make_encoder
from keras_bert.tokenization.kinds import find_vocabulary

SHAPE = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
SHAPE |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
FAMILIES = ("longformer", "big_bird")


def encoder_of(family, length, **values):
    offset = 2 if family == "longformer" else 0
    encoder = make_encoder(config_of(family, **SHAPE, max_position_embeddings=length + offset, **values))
    scatter_weights(encoder)
    return encoder


def rows(*lengths, vocab_size=40):
    draw, mask = np.random.default_rng(0), np.arange(max(lengths)) < np.array(lengths)[:, None]
    ids = draw.integers(5, vocab_size, mask.shape) * mask
    return {"input_ids": ids.astype("int32"), "input_mask": mask.astype("int32"), "segment_ids": 0 * ids}


def outputs(model, batch):
    return np.asarray(model(batch)["sequence_output"])


def test_a_longformer_sees_beyond_its_windows_through_global_tokens():
    encoder, batch = encoder_of("longformer", 30), rows(30)
    changed = batch | {"input_ids": batch["input_ids"].copy()}
    changed["input_ids"][0, 29] = 6
    for marked, is_seen in (([], False), ([29], True), ([3], True)):
        with_mask = {"global_mask": np.isin(np.arange(30), marked).astype("int32")[None]}
        moved = np.abs(outputs(encoder, batch | with_mask) - outputs(encoder, changed | with_mask))[0, 10].max()
        assert (moved > 1e-6) == is_seen, marked


def test_a_token_without_a_mask_is_global_if_it_is_the_first():
    encoder, batch = encoder_of("longformer", 12), rows(12, 7)
    first = np.zeros((2, 12), "int32")
    first[:, 0] = 1
    np.testing.assert_allclose(outputs(encoder, batch), outputs(encoder, batch | {"global_mask": first}), atol=1e-6)
    assert np.abs(outputs(encoder, batch) - outputs(encoder, batch | {"global_mask": 0 * first})).max() > 1e-3


@pytest.mark.parametrize(("model_class", "marked"), [(SpanClassifier, [0, 1, 2]), (MultipleChoice, [5, 6, 7, 8, 9])])
def test_the_question_or_the_choice_is_global(model_class, marked):
    model = model_class(config_of("longformer", **SHAPE, max_position_embeddings=14))
    scatter_weights(model)
    batch = rows(12, 10)
    batch["input_ids"][:, [3, 4, 9]] = model.config.sep_token_id
    mask = np.tile(np.isin(np.arange(12), [*marked, 10, 11] if model_class is MultipleChoice else marked), (2, 1))
    batch = {name: values if model_class is SpanClassifier else values[None] for name, values in batch.items()}
    masks = {"global_mask": mask.astype("int32").reshape(batch["input_ids"].shape)}
    found, expected, other = (model(batch | more) for more in ({}, masks, {"global_mask": 1 - masks["global_mask"]}))
    one, two, three = (
        np.concatenate([np.ravel(part) for part in tf.nest.flatten(each)]) for each in (found, expected, other)
    )
    np.testing.assert_allclose(one, two, atol=1e-5)
    assert np.abs(one - three).max() > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_no_tensor_grows_faster_than_the_rows(family):
    encoder = encoder_of(family, 1024, attention_window=16, block_size=16)

    def largest(length):
        batch = {name: tf.TensorSpec((1, length), tf.int32) for name in ("input_ids", "input_mask", "segment_ids")}
        graph = tf.function(encoder, autograph=False).get_concrete_function(batch).graph
        return max(output.shape.num_elements() or 0 for op in graph.get_operations() for output in op.outputs)

    assert largest(1024) <= 2 * largest(512) < 512 * 512


def extended(family, length, **values):
    base = "roberta" if family == "longformer" else "bert"
    vocabulary = None if base == "roberta" else VOCABULARY
    old = config_of(base, **{**SHAPE, "vocab_size": len(VOCABULARY)}, max_position_embeddings=14)
    original = random_checkpoint(form.MASKED_LM, config=old, vocabulary=vocabulary)
    checkpoint = extended_to_long_rows(original, length)
    return original, checkpoint.replace(config=checkpoint.config.replace(**values))


@pytest.mark.parametrize("length", [12, 20, 30])
def test_the_rows_before_the_first_position_are_not_repeated(length):
    """A RoBERTa has two rows that no token gets: rows 2 to 13 are its 12 positions."""
    old = config_of("roberta", **{**SHAPE, "vocab_size": len(VOCABULARY)}, max_position_embeddings=14)
    checkpoint = random_checkpoint(config=old, vocabulary=None)
    table = checkpoint.tensors[form.POSITION_EMBEDDINGS].read()
    longer = with_positions(checkpoint, length + 2).tensors[form.POSITION_EMBEDDINGS].read()
    expected = np.concatenate([table[:2], table[2:], table[2:], table[2:8]])[: length + 2]
    np.testing.assert_array_equal(longer, expected)


@pytest.mark.parametrize(("values", "equal", "different"), [({}, 12, None), ({"attention_window": 8}, 5, 7)])
def test_an_extended_roberta_equals_the_original_in_short_rows(values, equal, different):
    original, checkpoint = extended("longformer", 100, **values)
    assert checkpoint.config.max_sequence_length == 100
    one, other = (model_of(Encoder, part) for part in (original, checkpoint))
    batch = rows(equal, equal - 2, vocab_size=10)
    np.testing.assert_allclose(outputs(one, batch), outputs(other, batch), atol=1e-5)
    if different:
        # The first layer cuts what a token sees.
        batch = rows(different, vocab_size=10)
        assert np.abs(outputs(one, batch) - outputs(other, batch)).max() > 1e-6


def test_an_extended_bert_equals_the_original_in_short_rows(tmp_path):
    original, checkpoint = extended("big_bird", 768)
    for format in ("keras_bert", "huggingface"):
        write_checkpoint(checkpoint, tmp_path / format, format)
        read = read_checkpoint(tmp_path / format, do_lower_case=True)
        assert (read.config.model_type, read.config.max_position_embeddings) == ("big_bird", 768)
        one, other = (model_of(Encoder, part) for part in (original, read))
        batch = rows(12, 5, vocab_size=10)
        np.testing.assert_allclose(outputs(one, batch), outputs(other, batch), atol=1e-5)
    # Position 12 has the row of position 0, and 720 tokens have sparse attention.
    table = checkpoint.tensors[form.POSITION_EMBEDDINGS].read()
    np.testing.assert_array_equal(table[14:28], table[:14])
    full = model_of(Encoder, checkpoint.replace(config=checkpoint.config.replace(attention_type="original_full")))
    for length, is_equal in ((704, True), (720, False)):
        batch = rows(length, vocab_size=10)
        difference = np.abs(outputs(full, batch) - outputs(other, batch)).max()
        assert (difference < 1e-5) == is_equal, (length, difference)


def test_a_layer_keeps_its_window():
    checkpoint = random_checkpoint(
        config=config_of("longformer", **SHAPE | {"num_hidden_layers": 3}, attention_window=[2, 4, 6]), vocabulary=None
    )
    assert with_layers(checkpoint, [0, 2]).config.windows == (2, 6)


def test_the_tokenizer_of_a_big_bird_keeps_case(tmp_path):
    encoder = make_encoder(config("big_bird"))
    encoder.vocabulary = VOCABULARIES["big_bird"]
    encoder.save_pretrained(tmp_path / "model", format="huggingface")
    settings = json.loads((tmp_path / "model" / "tokenizer_config.json").read_text())
    assert (settings["tokenizer_class"], settings["do_lower_case"]) == ("BigBirdTokenizer", False)
    change_json(tmp_path / "model" / "tokenizer_config.json", without=["do_lower_case", "keep_accents"])
    assert find_vocabulary(tmp_path / "model").encode("The") == VOCABULARIES["big_bird"].encode("The")
    assert sentence_pieces().encode("The") != VOCABULARIES["big_bird"].encode("The")


def test_ids_of_the_published_vocabulary(shared_data):
    """sentencepiece 0.2.3 with the published model; transformers' BigBirdTokenizer gives the same ids."""
    from keras_bert.tokenization.sentence_piece import SentencePieceTokenizer

    tokenizer = SentencePieceTokenizer.from_file(
        shared_data("family", "vocab", "bigbird-gpt2.model"), do_lower_case=False
    )
    assert len(tokenizer) == BertConfig.from_size("bigbird-base").vocab_size
    assert (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id, tokenizer.pad_id) == (65, 66, 67, 0)


@pytest.mark.parametrize(
    ("family", "values", "message"),
    [
        ("longformer", {"attention_window": 7}, "attention_window must be even and positive. Received: 7"),
        ("longformer", {"attention_window": 0}, "attention_window must be even and positive. Received: 0"),
        ("longformer", {"attention_window": [4, -2]}, "attention_window must be even and positive. Received: -2"),
        ("longformer", {"attention_window": "4"}, "attention_window must be even and positive. Received: '4'"),
        ("longformer", {"attention_window": [4, 4, 4]}, "has 3 numbers for 2 layers"),
        ("big_bird", {"block_size": 3}, "max_position_embeddings must be divisible by block_size"),
        ("big_bird", {"block_size": 4}, "are 4 blocks of 4 tokens .* too few for num_random_blocks=1, which needs 7"),
        ("big_bird", {"num_hidden_groups": 1}, "layers cannot share weights"),
    ],
)
def test_configs_that_cannot_be_computed_are_refused(family, values, message):
    with pytest.raises(InputError, match=f"LongConfig: .*{message}"):
        config_of(family, **SHAPE, **{"max_position_embeddings": 16, **values})


@pytest.mark.parametrize(
    ("family", "more", "message"),
    [
        ("longformer", {"global_mask": np.ones((1, 5), "int32")}, r"shape of input_ids, \[1, 8\]. Received: \[1, 5\]"),
        ("longformer", {"global_mask": np.ones((1, 8), "int32")}, "8 global tokens in a row, more than .*=3"),
        ("big_bird", {"global_mask": np.ones((1, 8), "int32")}, "big_bird takes no global_mask"),
        ("big_bird", {"cls_positions": np.zeros((1, 1), "int32")}, "big_bird cannot take packed rows"),
        ("big_bird", {"input_mask": np.array([[1] * 4 + [2] * 4])}, "big_bird cannot take packed rows"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(family, more, message):
    encoder = encoder_of(family, 16, max_global_tokens=3)
    with pytest.raises(InputError, match=message):
        encoder(rows(8) | more)
    with pytest.raises(InputError, match="A sequence length of 17 is more than this model's 16 positions"):
        encoder(rows(17))


def test_other_wrong_uses_are_refused():
    with pytest.raises(InputError, match="LongEncoder has no output_attentions"):
        make_encoder(config("big_bird"), output_attentions=True)
    old = random_checkpoint(config=config_of("albert", **SHAPE), vocabulary=None)
    with pytest.raises(InputError, match="family albert cannot be extended to long rows. Use one of: roberta, bert"):
        extended_to_long_rows(old, 4096)
    old = random_checkpoint(config=config_of("bert", **SHAPE), vocabulary=None)
    with pytest.raises(InputError, match="max_positions must be above the 512 positions of memory. Received: 512"):
        extended_to_long_rows(old, 512)
    with pytest.raises(
        InputError, match="memory cannot get 1000 positions. LongConfig: max_position_embeddings must be"
    ):
        extended_to_long_rows(old, 1000)
