"""`TextToText` computes and writes what transformers' EncoderDecoderModel does; see parity/record_text_to_text.py."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from places import TESTS
from slow_parameters import slow_except
from tiny_models import made_signatures

from keras_bert import BertConfig, Encoder, InputError, MaskedLM, TextToText, Vocabulary
from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.formats import read_checkpoint
from keras_bert.checkpoints.model_weights import model_weights
from keras_bert.checkpoints.safetensors_file import read_safetensors, write_safetensors
from keras_bert.models.decoder import Decoder
from keras_bert.serving import load
from keras_bert.tasks.base import text_task
from keras_bert.tasks.text_to_text import signatures, task
from keras_bert.tasks.text_to_text.search_options import SearchOptions
from run_scripts.readable_answers import readable_answers

GOLDEN = np.load((TESTS / "family_golden") / "text_to_text.npz")
END, NEW_TOKENS = 3, 14
TOKENS = [*tiny.SPECIAL_TOKENS, *tiny.LETTERS, *"012345"]
SOURCES, TARGETS = ["a b c", "d e", "f g h a"], ["c b a", "e d", "a h g f"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The recorded model as `EncoderDecoderModel.save_pretrained` writes it."""
    path = tmp_path_factory.mktemp("theirs")
    shape = {**json.loads(str(GOLDEN["config"])), "model_type": "bert"}
    decoder = {**shape, "is_decoder": True, "add_cross_attention": True}
    (path / "config.json").write_text(
        json.dumps({"model_type": "encoder-decoder", "encoder": shape, "decoder": decoder})
    )
    weights = {name: StoredTensor.of(array) for name, array in recorded_weights().items()}
    with open(path / "model.safetensors", "wb") as file:
        write_safetensors(file, weights, {"format": "pt"})
    (path / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    return path


def recorded_weights():
    return {name.removeprefix("weights/"): GOLDEN[name] for name in GOLDEN.files if name.startswith("weights/")}


@pytest.fixture(scope="module")
def theirs(folder):
    return TextToText.from_pretrained(folder)


def features(ids):
    return {"input_ids": ids, "input_mask": (ids > 0).astype("int32"), "segment_ids": np.zeros_like(ids)}


def batch():
    targets = GOLDEN["targets"].astype("int32")
    mask = (targets > 0).astype("int32")
    return {**features(GOLDEN["sources"].astype("int32")), "target_ids": targets, "target_mask": mask}


@pytest.fixture
def without_graphs(eagerly, monkeypatch):
    """Trains and predicts without graphs, because making them takes longer than a few steps."""

    def untraced(model, key, function, names):
        return lambda batch: function({name: batch[name] for name in names})

    monkeypatch.setattr(task, "traced_on_features", untraced)


def small(num_blocks=1, **arguments):
    config = tiny.config(TOKENS, num_hidden_layers=num_blocks, intermediate_size=24, max_position_embeddings=12)
    return tiny.made(TextToText, config, Vocabulary(TOKENS), seed=3, **arguments)


def test_logits_equal_those_of_transformers(folder):
    theirs, real = TextToText.from_pretrained(folder, dtype="float64"), GOLDEN["targets"][:, 1:] > 0
    np.testing.assert_allclose(np.asarray(theirs(batch()))[real], GOLDEN["logits"][real], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["torch_loss", "smoothed_loss"])
def test_the_smoothed_loss_equals_those_of_torch_and_transformers(theirs, name):
    (term,) = theirs.loss_terms(batch(), None, theirs(batch()), None)
    np.testing.assert_allclose(float(term.value), GOLDEN[name], rtol=2e-6)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("greedy", {"num_beams": 1}),
        ("beams", {"num_beams": 4, "num_answers": 4}),
        ("long_beams", {"num_beams": 4, "length_penalty": 2.0, "min_new_tokens": 5}),
    ],
)
def test_generated_tokens_equal_those_of_transformers(theirs, name, options):
    found = theirs.generate(features(GOLDEN["sources"].astype("int32")), SearchOptions(max_new_tokens=14, **options))
    ids, wanted = np.asarray(found.ids).reshape(-1, NEW_TOKENS), GOLDEN[f"{name}/ids"]
    assert [up_to_end(row) for row in ids] == [up_to_end(row) for row in wanted]
    if name != "greedy":
        np.testing.assert_allclose(np.asarray(found.scores).reshape(-1), GOLDEN[f"{name}/scores"], atol=1e-5)


def up_to_end(ids):
    ids = ids.tolist()
    return ids[: ids.index(END) + 1] if END in ids else ids


@pytest.mark.parametrize("shared", [False, True])
def test_a_model_is_written_as_transformers_writes_it(theirs, shared, tmp_path):
    model = theirs if not shared else TextToText(theirs.config, shared=True)
    model.save_pretrained(tmp_path / "saved", Vocabulary(TOKENS), format="huggingface")
    written = {
        name: tensor.read() for name, tensor in read_safetensors(tmp_path / "saved" / "model.safetensors").items()
    }
    wanted = recorded_weights()
    assert {name for name in written if "pooler" not in name} == set(wanted)
    if shared:
        twice = [name for name in written if name.replace("decoder.bert.", "encoder.") in written.keys() - {name}]
        assert {name for name in wanted if name.startswith("encoder.")} == {
            name.replace("decoder.bert.", "encoder.") for name in twice
        }
        for name in twice:
            np.testing.assert_array_equal(written[name], written[name.replace("decoder.bert.", "encoder.")])
    else:
        for name, array in wanted.items():
            np.testing.assert_array_equal(written[name], array)
        assert read_checkpoint(tmp_path / "saved").config == theirs.config
    tokens = json.loads((tmp_path / "saved" / "generation_config.json").read_text())
    assert (tokens["decoder_start_token_id"], tokens["eos_token_id"], tokens["pad_token_id"]) == (2, 3, 0)


def test_new_tokens_and_positions_leave_the_decoder_as_it_is(theirs, folder):
    larger = TextToText.from_pretrained(folder, new_tokens=["dog"], max_position_embeddings=30)
    assert not larger.new_parts.untrained()
    found = np.asarray(larger(batch()))
    assert found.shape[-1] == len(TOKENS) + 1
    np.testing.assert_allclose(found[..., :-1], np.asarray(theirs(batch())), atol=1e-6)


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("decoder", {"add_cross_attention": False}, "needs is_decoder and add_cross_attention, both true"),
        ("decoder", {"num_hidden_layers": 1}, "They differ in num_hidden_layers"),
        ("encoder", {"model_type": "vit"}, "the encoder is 'vit'. Only an encoder and a decoder of the model type"),
    ],
)
def test_other_encoders_and_decoders_of_transformers_are_refused(folder, tmp_path, part, changes, message):
    values = json.loads((folder / "config.json").read_text())
    values[part] |= changes
    (tmp_path / "config.json").write_text(json.dumps(values))
    shutil.copy(folder / "model.safetensors", tmp_path)
    with pytest.raises(InputError, match=message):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tie_word_embeddings": False}, r"whose output table is that of its tokens\. Received: tie_word_embeddings="),
        ({"type_vocab_size": 0}, r"type_vocab_size=0 \(fixed there: 1\)"),
        ({"embedding_size": 8}, r"embedding_projection=True \(fixed there: False\)"),
        ({"pooler_act": "gelu"}, r"pooler_act=gelu \(fixed there: tanh\)"),
    ],
)
def test_configs_that_folders_of_transformers_cannot_hold_are_not_written(tmp_path, changes, message):
    model = TextToText(small().config.replace(**changes))
    with pytest.raises(InputError, match=message + ".* Write it with format='keras_bert'"):
        model.save_pretrained(tmp_path / "folder", format="huggingface")
    assert not list(tmp_path.iterdir())


def test_steps_with_the_cache_equal_the_whole_target(theirs):
    inputs = batch()
    targets, source = inputs["target_ids"], theirs.encoder(inputs)["sequence_output"]
    decoder = Decoder(theirs.config, theirs.decoder, theirs.cross_attention)
    whole = np.asarray(decoder.vectors(targets, source, inputs["input_mask"]))
    sources, bias = decoder.read_source(source), decoder.source_bias(inputs["input_mask"])
    cache = decoder.empty_cache(len(targets), targets.shape[1])
    for column in range(targets.shape[1]):
        found, cache = decoder.step(targets[:, column : column + 1], column, cache, sources, bias)
        np.testing.assert_allclose(np.asarray(found)[:, 0], whole[:, column], atol=1e-5)


@pytest.mark.parametrize("shared", slow_except([True], [False, True]))
def test_the_decoder_starts_as_the_encoder(shared, bert, tmp_path, without_graphs):
    encoder = Encoder.from_pretrained(bert)
    model = TextToText.from_pretrained(bert, shared=shared)
    own = {name: np.asarray(weight) for name, weight in model_weights(model).items()}
    for name, weight in model_weights(encoder).items():
        np.testing.assert_array_equal(own[name], np.asarray(weight))
        if not shared and "pooler" not in name:
            np.testing.assert_array_equal(own[f"decoder{name.removeprefix('encoder')}"], np.asarray(weight))
    assert any(name.startswith("decoder/") for name in own) != shared
    assert "cross_attention" in model.new_parts.untrained()
    model.fit(SOURCES, TARGETS, epochs=1, verbose=0)
    model.save_pretrained(tmp_path / "saved")
    loaded = [TextToText.from_pretrained(tmp_path / "saved")]
    if shared:
        model.save(tmp_path / "saved.keras")
        loaded.append(keras.saving.load_model(tmp_path / "saved.keras"))
    options = {"num_beams": 1, "max_new_tokens": 4}
    wanted = model.predict(SOURCES, **options)
    for other in loaded:
        assert other.shared == shared
        assert other.predict(SOURCES, **options) == wanted


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """The folder of an encoder."""
    keras.utils.set_random_seed(1)
    path = tmp_path_factory.mktemp("bert") / "bert"
    config = tiny.config(TOKENS, intermediate_size=24, max_position_embeddings=12)
    MaskedLM(config).save_pretrained(path, Vocabulary(TOKENS))
    return path


def test_texts_and_scores_are_those_of_the_ids(theirs, without_graphs):
    """The recorded model reverses its sources a little."""
    (answer,) = theirs.predict(["f g h a"], num_beams=4, num_answers=3, max_new_tokens=NEW_TOKENS)
    ids = [TOKENS.index(token) for token in ["[CLS]", "f", "g", "h", "a", "[SEP]"]]
    found = theirs.generate(features(np.array([ids], "int32")), SearchOptions(4, NEW_TOKENS, num_answers=3))
    texts = [text_task(theirs).text_of(row) for row in np.asarray(found.ids)[0]]
    assert answer.alternatives == tuple(zip(texts, np.asarray(found.scores)[0].tolist(), strict=True))
    assert (answer.text, answer.score) == answer.alternatives[0]
    assert len(set(texts)) == 3
    scores = theirs.evaluate(SOURCES, TARGETS, verbose=0)
    assert scores["perplexity"] == pytest.approx(np.exp(scores["loss"]))
    assert scores["loss"] < theirs.evaluate(SOURCES, SOURCES, verbose=0)["loss"]


def test_a_model_trains_in_bfloat16(without_graphs):
    model = small(dtype="mixed_bfloat16")
    model.fit(SOURCES, TARGETS, epochs=1, verbose=0)
    assert len(model.predict(SOURCES, max_new_tokens=2)) == 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SearchOptions(num_beams=2, num_answers=3), "num_answers must be at most num_beams=2. Received: 3"),
        (lambda: SearchOptions(max_new_tokens=5, min_new_tokens=5), "min_new_tokens must be below max_new_tokens=5"),
        (lambda: small().predict(["a"], max_new_tokens=13), "A target may have 12 tokens"),
        (lambda: small().fit(["a"], ["a " * 12]), "the target of example 1 has more than 11 tokens"),
        (lambda: small().fit(["a", " "], ["a", "b"]), "its text is ' '"),
        (lambda: small().fit(["a"], ["a", "b"]), "1 sources but targets for 2"),
        (lambda: small().fit(["a", "b"], ["a", "b"], sample_weight=[1.0, -1.0]), "the weight of example 2 must be a"),
        (
            lambda: small(label_smoothing=1.0),
            "label_smoothing must be a number of at least 0 and below 1. Received: 1.0",
        ),
        (lambda: small().predict(["a"], beams=3), "predict on texts has no option beams"),
        (lambda: TextToText(BertConfig.from_size("modernbert-base")), "needs the blocks of a BertEncoder"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert message in str(error.value)


def test_words_are_joined_from_pieces():
    model = small()
    model.vocabulary = Vocabulary([*TOKENS[:-1], "##s"])
    piece = len(TOKENS) - 1
    rows = [[2, 5, piece, 6, 3, 0], [2, piece, 5, 3, 0, 0]]
    assert [text_task(model).text_of(row) for row in rows] == ["as b", "##s a"]
    in_graph = signatures._text_of(tf.constant(rows), tf.constant(model.vocabulary.tokens), model.vocabulary)
    assert in_graph.numpy().tolist() == [b"as b", b"##s a"]


def test_a_signature_writes_what_the_model_writes(without_graphs):
    model = small()
    options = {"num_beams": 3, "max_new_tokens": 7, "length_penalty": 0.5, "num_answers": 2}
    wanted = model.predict(SOURCES, **options)
    signature = made_signatures(model, options)["serving_default"]
    for sources in (SOURCES, SOURCES[1:2]):
        found = signature(text=tf.constant(sources))
        answers = [wanted[SOURCES.index(source)] for source in sources]
        assert [text.decode() for text in found["written"].numpy()] == [answer.text for answer in answers]
        np.testing.assert_allclose(found["score"].numpy(), [answer.score for answer in answers], atol=1e-5)
        shown = readable_answers({name: values.numpy() for name, values in found.items()}, {"text": sources})
        for lines, answer in zip(shown, answers, strict=True):
            assert lines.split("\n") == [f"  {text}  {score:.4f}" for text, score in answer.alternatives]


@pytest.mark.slow
def test_an_export_has_its_options_and_no_scores(tmp_path):
    model = small()
    loaded = load(model.export_for_serving(tmp_path / "export", core_operations=True, max_new_tokens=2))
    found, expected = loaded.predict(SOURCES), model.predict(SOURCES, max_new_tokens=2)
    assert [answer.text for answer in found] == [answer.text for answer in expected]
    with pytest.raises(InputError, match="predict of this export has no option num_beams. It has: batch_size"):
        loaded.predict(SOURCES, num_beams=2)
    with pytest.raises(InputError, match="An export writes texts and gives no scores to targets"):
        loaded.evaluate(SOURCES, TARGETS)
