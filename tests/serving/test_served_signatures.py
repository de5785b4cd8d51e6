"""Every kind of exported model answers as in Python, alone and in batches that a server has padded."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
import tiny_models
from signature_questions import as_lists, as_tensors, assert_same, example, questions
from tiny_models import CHOICES, MASKED_TEXTS, VOCABULARY, assert_same_answers

from keras_bert import InputError, registry
from keras_bert.embeddings.text_vectors import encode_texts, sentence_embeddings
from keras_bert.serving import load
from keras_bert.serving.graph import row_groups
from keras_bert.serving.graph.eight_bit_weights import quantize
from keras_bert.tasks.masked_lm.answers import Fill, FilledMask, FilledText
from keras_bert.tasks.masked_lm.mask_filling import fill_masks
from keras_bert.tasks.question_answering.answers import Candidate
from keras_bert.tasks.tagging.answers import TagsAnswer
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

# Rows of one token make Keras warn that the softmax of a single score is always 1.
pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis")
# `predict` refuses the empty text at the end.
TEXTS, SECOND_TEXTS = tiny_models.TEXTS[:-1], tiny_models.SECOND_TEXTS[:-1]
# `predict` refuses texts without [MASK], and masks that are cut off.
FILLED_TEXTS = [MASKED_TEXTS[0], MASKED_TEXTS[1], MASKED_TEXTS[4]]


@pytest.fixture(scope="module", params=["without a graph", pytest.param("exported", marks=pytest.mark.slow)])
def signatures_of(request, served):
    """Function of the name of a model -> its signatures: operation by operation, which is fast, or of its export."""
    is_eager = request.param == "without a graph"
    tf.config.run_functions_eagerly(is_eager)
    yield functools.cache((lambda name: tiny_models.made_signatures(*served[0][name])) if is_eager else loader(served))
    tf.config.run_functions_eagerly(False)


def loader(served):
    loaded = []  # signatures do not keep their variables

    def load(name):
        loaded.append(tf.saved_model.load(served[1][name]))
        return loaded[-1].signatures

    return load


@pytest.fixture(scope="module")
def ask(signatures_of):
    """Calls a signature of a model with plain lists, and returns arrays."""

    def call(name, signature="serving_default", **inputs):
        return answer_of(signatures_of(name)[signature], inputs)

    return call


def answer_of(signature, inputs):
    return {key: value.numpy() for key, value in signature(**as_tensors(inputs)).items()}


def model_of(served, name):
    return served[0][name][0]


# Model -> the inputs of its `serving_default`, the texts of `predict`, and its options.
ASKED = {
    "single": ({"text": TEXTS}, TEXTS, {}),
    "several": ({"text": TEXTS, "text_b": SECOND_TEXTS}, (TEXTS, SECOND_TEXTS), {}),
    "score": ({"text": TEXTS}, TEXTS, {"max_seq_length": 20}),
    "choice": ({"prompt": TEXTS[:3], "choices": CHOICES}, (TEXTS[:3], CHOICES), {}),
    "masked": ({"text": FILLED_TEXTS}, FILLED_TEXTS, {"top_k": 3}),
    "tagger": ({"text": TEXTS}, TEXTS, {}),
    "answerer": ({"question": SECOND_TEXTS, "context": TEXTS}, (SECOND_TEXTS, TEXTS), {}),
    "sentence": ({"text": TEXTS}, TEXTS, {}),
    "encoder": ({"text": TEXTS}, TEXTS, {}),
}


@pytest.mark.parametrize("name", ASKED)
def test_answers_of_signatures_are_the_objects_of_predict(name, served, ask):
    inputs, texts, options = ASKED[name]
    model = model_of(served, name)
    # `encode` cuts long texts into windows as the export does; `predict` cuts them off.
    ask_in_python = {"masked": functools.partial(fill_masks, model), "sentence": getattr(model, "encode", None)}
    ask_in_python["encoder"] = functools.partial(sentence_embeddings, model)
    expected = (ask_in_python.get(name) or model.predict)(texts, **options)
    assert_same_answers(registry.served_answers(ask(name, **inputs), inputs), as_served(expected))


def as_served(answer):
    """Returns an answer of `predict` without what the outputs of `serving_default` do not give."""
    unknown = {
        TagsAnswer: {"words": (), "tags": [], "probabilities": (), "log_probabilities": None},
        Candidate: {"start_logit": None, "end_logit": None},
        FilledText: {"filled_text": None},
        FilledMask: {"start": None},
        Fill: {"token_id": None, "text": None},
    }
    if isinstance(answer, (list, tuple)):
        return type(answer)(map(as_served, answer))
    if not dataclasses.is_dataclass(answer):
        return answer
    known = {field.name: as_served(getattr(answer, field.name)) for field in dataclasses.fields(answer)}
    return type(answer)(**{**known, **unknown.get(type(answer), {})})


# The same for LiteRT and ONNX exports, with texts that `predict` refuses.
ALL_TEXTS = {"text": tiny_models.TEXTS}
PORTABLE = {
    **dict.fromkeys(("single", "score", "sentence", "tagger"), ALL_TEXTS),
    "choice": {"prompt": TEXTS[:6], "choices": [*CHOICES, ["a", "b", ""], ["c", "c", "c"], [""] * 3]},
    "masked": {"text": MASKED_TEXTS},
    "answerer": {"question": [*SECOND_TEXTS, "", "who"], "context": [*TEXTS, "the fox", "\u200b"]},
}


@pytest.fixture(scope="module")
def portable(served, tmp_path_factory):
    """Function of the name of a model -> its ONNX export, loaded."""

    def load_export(name):
        model, options = served[0][name]
        options = {key: value for key, value in options.items() if key != "top_k"}
        folder = model.export_for_serving(tmp_path_factory.mktemp("portable") / name, format="onnx", **options)
        return load(folder, "onnxruntime")

    return functools.cache(load_export)


@pytest.mark.parametrize("name", PORTABLE)
def test_a_portable_export_returns_what_the_saved_model_returns(name, portable, ask):
    signature = portable(name).signatures["serving_default"]
    found, expected = signature(**PORTABLE[name]), ask(name, **PORTABLE[name])
    assert signature.outputs == tuple(found) == tuple(sorted(expected))
    for key, values in expected.items():
        dtype, axes = signature.output_tensors[key].dtype, signature.output_tensors[key].shape[1:]
        assert np.dtype({"float": "float32", "string": object}.get(dtype, dtype)) == values.dtype == found[key].dtype
        assert all(axis in (None, size) for axis, size in zip(axes, found[key].shape[1:], strict=True))
        ours = found[key][..., :3] if name == "masked" and key != "positions" else found[key]  # its top_k is 3
        if dtype == "string":
            assert ours.tolist() == values.tolist()
        else:
            np.testing.assert_allclose(ours, values, atol=1e-5)


def test_a_portable_tagger_without_entities_returns_its_words(portable, monkeypatch):
    model, text = portable("tagger"), ["Größe is 中", ""]
    monkeypatch.setattr(model, "labels", tuple("NVXYZ"))
    found = model.signatures["serving_default"](text=text)
    assert found["starts"].tolist() == [[0, 8, 11], [-1] * 3]
    [answer, nothing] = registry.served_answers(found, {"text": text})
    [expected] = model.predict(text[:1])
    assert_same_answers(answer, dataclasses.replace(expected, log_probabilities=None))
    assert nothing.words == ()


@pytest.mark.parametrize(
    ("name", "inputs", "received"),
    [
        ("choice", {"prompt": ["a"], "choices": ["b"]}, r"prompt \[N\]. Received: prompt \[1\] of strings, choices"),
        ("choice", {"prompt": ["a", "b"], "choices": [["c"]]}, r"prompt \[2\] of strings, choices \[1, 1\] of strings"),
        ("choice", {"prompt": "a"}, r"takes strings in N rows, one or more: choices \[N, C\], prompt"),
        ("tagger", {"text": []}, r"Received: text \[0\]"),
        ("tagger", {"text": [1]}, r"Received: text \[1\] of int32"),
    ],
)
def test_a_portable_export_says_what_it_takes(name, inputs, received, portable):
    with pytest.raises(InputError, match=received):
        portable(name).signatures["serving_default"](**inputs)


def test_a_tagger_answers_about_lists_of_words_as_in_python(served, ask):
    words = [["the", "fox", "中"], ["a", "fox", ""]]
    inputs = {"words": words, "num_words": [3, 2]}
    expected = model_of(served, "tagger").predict([words[0], words[1][:2]])
    expected = [dataclasses.replace(answer, log_probabilities=None) for answer in expected]
    assert_same_answers(registry.served_answers(ask("tagger", "words", **inputs), inputs), expected)


def test_prompts_may_have_fewer_choices_than_others_or_none(ask):
    fewer = ask("choice", prompt=["the", "fox", "of"], choices=[["a", "b", "c"], ["d", "e", ""], ["", "", ""]])
    alone = ask("choice", prompt=["fox"], choices=[["d", "e"]])
    np.testing.assert_allclose(fewer["probabilities"][1], [*alone["probabilities"][0], 0], atol=1e-5)
    assert fewer["choice"].tolist()[1:] == [alone["choice"][0], -1]
    assert (fewer["text"][2], fewer["probability"][2]) == (b"", 0)
    examples = [example(prompt=["the"], choices=["a", "b", "c"]), example(prompt=["of"])]
    from_examples = ask("choice", "examples", examples=examples)
    np.testing.assert_allclose(from_examples["probabilities"], fewer["probabilities"][[0, 2]], atol=1e-5)


def test_vectors_and_scores_of_a_sentence_encoder_are_those_of_python(served, ask):
    model = model_of(served, "sentence")
    for signature, prompt in (("embed", ""), ("embed_query", "query")):
        found = ask("sentence", signature, text=TEXTS)["embedding"]
        np.testing.assert_allclose(found, model.encode(TEXTS, prompt=prompt), atol=1e-5)
    cosines = (model.encode(TEXTS) * model.encode(SECOND_TEXTS)).sum(axis=1)
    np.testing.assert_allclose(ask("sentence", "score", text=TEXTS, text_b=SECOND_TEXTS)["score"], cosines, atol=1e-5)


def test_features_have_a_vector_and_the_bytes_of_every_token(served, ask):
    encoder, tokenizer = model_of(served, "encoder"), WordPieceTokenizer(VOCABULARY)
    answer = ask("encoder", "features", text=TEXTS)
    for row, (text, encoded) in enumerate(zip(TEXTS, encode_texts(encoder, TEXTS), strict=True)):
        length, ids = answer["lengths"][row], np.array([encoded.ids])
        assert length == len(encoded.ids)
        inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
        np.testing.assert_allclose(answer["vectors"][row, :length], encoder(inputs)["sequence_output"][0], atol=1e-5)
        assert not answer["vectors"][row, length:].any()
        spans = [(-1, -1), *byte_spans(tokenizer, text)[: length - 2], (-1, -1)]
        found = list(zip(answer["starts"][row].tolist(), answer["ends"][row].tolist(), strict=True))
        assert found == spans + [(-1, -1)] * (len(found) - len(spans))


def byte_spans(tokenizer, text):
    """Returns the byte offsets of the reference tokenizer's tokens."""
    _, starts, ends = tokenizer.tokenize_with_offsets(text)
    return [(len(text[:start].encode()), len(text[:end].encode())) for start, end in zip(starts, ends, strict=True)]


def test_what_tokenize_gives_is_what_tokens_takes(ask):
    for name, texts in (("single", TEXTS), ("masked", MASKED_TEXTS), ("encoder", TEXTS), ("score", TEXTS)):
        rows = ask(name, "tokenize", text=texts)
        from_rows = ask(name, "tokens", input_ids=rows["input_ids"].tolist(), lengths=rows["lengths"].tolist())
        for key, values in ask(name, text=texts).items():
            if values.dtype == np.float32:
                np.testing.assert_allclose(from_rows[key], values, atol=1e-5)
            else:
                assert from_rows[key].tolist() == values.tolist()


def test_a_mask_has_the_bytes_that_it_stands_in(ask):
    rows = ask("masked", "tokenize", text=["中[MASK] fox[MASK]", "[MASK]a"])
    tokens = ("中", "[MASK]", "fox", "[MASK]", "[SEP]")
    assert rows["input_ids"][0].tolist()[1:6] == [VOCABULARY.ids[token] for token in tokens]
    assert rows["starts"].tolist() == [[-1, 0, 3, 10, 13, -1], [-1, 0, 6, -1, -1, -1]]
    assert rows["ends"].tolist() == [[-1, 3, 9, 13, 19, -1], [-1, 6, 7, -1, -1, -1]]


def test_serving_apis_have_their_fixed_names(ask):
    examples = [example(text=[text]) for text in TEXTS]
    classified, answer = ask("single", "classify", inputs=examples), ask("single", text=TEXTS)
    assert classified.keys() == {"classes", "scores"}
    np.testing.assert_allclose(classified["scores"], answer["probabilities"], atol=1e-6)
    assert classified["classes"].tolist() == answer["labels"].tolist()
    regressed = ask("score", "regress", inputs=examples)
    np.testing.assert_allclose(regressed["outputs"], ask("score", text=TEXTS)["score"], atol=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [(example(other=["x"]), "text .* is required but could not be found"), ("no example", "Could not parse example")],
)
def test_an_example_without_its_text_is_refused(ask, given, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ask("single", "examples", examples=[given])


def test_empty_batches_and_rows_without_columns_are_fine(signatures_of):
    single, choice = signatures_of("single"), signatures_of("choice")
    for num_rows in (0, 2):
        lengths = tf.zeros([num_rows], tf.int32)
        answer = single["tokens"](input_ids=tf.zeros([num_rows, 0], tf.int32), lengths=lengths)
        assert answer["probabilities"].shape == (num_rows, 3)
        for num_choices in (0, 2):
            prompt, choices = tf.fill([num_rows], "the"), tf.fill([num_rows, num_choices], "")
            answer = choice["serving_default"](prompt=prompt, choices=choices)
            assert answer["probabilities"].shape == (num_rows, num_choices)
            assert answer["choice"].numpy().tolist() == [-1] * num_rows

    nothing = tf.constant([], tf.string)
    assert [single["serving_default"](text=nothing)[name].shape for name in ("label", "labels")] == [(0,), (0, 3)]
    assert signatures_of("masked")["serving_default"](text=nothing)["tokens"].shape[::2] == (0, 3)


def test_tokens_beyond_the_model_are_cut(ask):
    row = [2, *[5, 6, 7, 8] * 12]
    cut = ask("single", "tokens", input_ids=[row[:48]], lengths=[48])["probabilities"]
    np.testing.assert_allclose(ask("single", "tokens", input_ids=[row], lengths=[49])["probabilities"], cut, atol=1e-6)


def test_an_empty_second_text_means_a_single_one(ask):
    answer = ask("several", text=TEXTS[:3], text_b=["", "", ""])["probabilities"]
    single = ask("several", "tokenize", text=TEXTS[:3])
    rows = {"input_ids": single["input_ids"], "lengths": single["lengths"]}
    rows["segment_ids"] = np.zeros_like(rows["input_ids"])
    np.testing.assert_allclose(answer, ask("several", "tokens", **rows)["probabilities"], atol=1e-6)
    rows["segment_ids"] = rows["segment_ids"] + 1
    assert np.abs(answer - ask("several", "tokens", **rows)["probabilities"]).max() > 1e-3


def test_only_masks_that_are_read_have_a_place(ask):
    assert ask("masked", text=["the fox", "a [mask] in small letters", "[ MASK ]"])["tokens"].shape == (3, 0, 3)
    assert ask("masked", text=["[MASK] " + "the " * 50 + "[MASK]"])["positions"].tolist() == [[1]]
    expected = ask("masked", text=["the [MASK] fox"])
    rows = {"input_ids": [[2, VOCABULARY.ids["the"], 4, VOCABULARY.ids["fox"], 3, 4, 4]], "lengths": [5]}
    answer = ask("masked", "tokens", **rows)
    assert (answer["positions"].tolist(), answer["tokens"].tolist()) == ([[2]], expected["tokens"].tolist())


def filled_up(requests: list[dict]) -> dict:
    """Joins requests as TensorFlow Serving's `pad_variable_length_inputs`: with the first element of each tensor."""
    joined = {}
    for name in requests[0]:
        arrays = [np.array(request[name]) for request in requests]
        widest = np.max([array.shape for array in arrays], axis=0)
        sizes = [[(0, most - size) for most, size in zip(widest, array.shape, strict=True)] for array in arrays]
        filled = [np.pad(a, [(0, 0), *s[1:]], constant_values=a.flat[0]) for a, s in zip(arrays, sizes, strict=True)]
        joined[name] = np.concatenate(filled).tolist()
    return joined


def choice_rows(num_choices, length):
    ids = np.full((1, num_choices, length), 7)
    ids[:, :, 0], ids[:, :, -1] = VOCABULARY.cls_id, VOCABULARY.sep_id
    ids[0, :, 1] = 5 + np.arange(num_choices)
    segments = np.zeros_like(ids)
    segments[:, :, 2:] = 1
    return {"input_ids": ids, "segment_ids": segments, "lengths": np.full((1, num_choices), length)}


def rows(*lengths, segments=False):
    request = {"input_ids": [[2, *range(5, 3 + length), 3] for length in lengths], "lengths": list(lengths)}
    return {**request, "segment_ids": [[0, 0, *[1] * (length - 2)] for length in lengths]} if segments else request


CHOICES_OF_TWO_AND_THREE = [{"prompt": ["the"], "choices": [choices]} for choices in (["a", "b"], ["a", "c", "of"])]
MASKED_ROWS = [{"input_ids": [[2, 4, 9, 3]], "lengths": [4]}, {"input_ids": [[2, 8, 4, 9, 4, 4, 3]], "lengths": [7]}]


@pytest.mark.parametrize(
    ("name", "signature", "requests"),
    [
        ("single", "tokens", [rows(4), rows(9), rows(6, 6)]),
        ("several", "tokens", [rows(4, segments=True), rows(9, segments=True)]),
        ("encoder", "tokens", [rows(4), rows(9)]),
        ("sentence", "tokens", [rows(4), rows(9)]),
        ("masked", "tokens", MASKED_ROWS),
        ("choice", "tokens", [choice_rows(2, 5), choice_rows(4, 8), choice_rows(3, 4)]),
        ("choice", "serving_default", CHOICES_OF_TWO_AND_THREE),
    ],
)
def test_a_batch_that_a_server_filled_up_has_the_answers_of_its_requests(ask, name, signature, requests):
    together = ask(name, signature, **filled_up(requests))
    first = 0
    for request in requests:
        alone = ask(name, signature, **{key: np.array(values).tolist() for key, values in request.items()})
        for key, values in alone.items():
            part = together[key][first : first + len(values)]
            inside = part[tuple(slice(size) for size in values.shape)]
            if values.dtype == np.float32:
                np.testing.assert_allclose(inside, values, atol=1e-5, err_msg=key)
            else:
                assert inside.tolist() == values.tolist(), key
            if part.size != values.size:
                padding = np.delete(part, np.s_[: values.shape[1]], axis=1)
                assert set(padding.reshape(-1)) <= {0.0, b"", -1}
        first += len(next(iter(alone.values())))


def test_eight_bits_are_the_nearest_that_there_are():
    numbers, scale = quantize(np.array([[1.27, 0], [-0.5, 0], [0.004, 0]]), axis=0)
    assert (numbers.dtype, numbers.tolist()) == (np.int8, [[127, 0], [-50, 0], [0, 0]])
    np.testing.assert_allclose(scale, [[0.01, 1]], rtol=1e-6)


@pytest.fixture
def with_graphs():
    was_eager = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(False)
    yield
    tf.config.run_functions_eagerly(was_eager)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["int8", "bfloat16"])
def test_variants_are_smaller_and_nearly_as_right(served, with_graphs, name):
    size, full_size = (variables_size(served[1][one]) for one in (name, "single"))
    assert size < 0.6 * full_size, "the vectors of a tiny model are much of it"
    load = loader(served)
    answer = answer_of(load(name)["serving_default"], {"text": TEXTS})["probabilities"]
    assert answer.dtype == np.float32
    exact = [list(row.probabilities.values()) for row in model_of(served, "single").predict(TEXTS)]
    assert 1e-6 < np.abs(answer - exact).max() < 0.1


def variables_size(folder):
    return tf.io.gfile.stat(f"{folder}/variables/variables.data-00000-of-00001").length


@pytest.mark.parametrize("name", ["single", "encoder", "choice", "masked"])
def test_groups_of_rows_have_the_answers_of_all_at_once(served, ask, name, monkeypatch):
    asked = ("tokens", "features")  # the signatures of texts use the same functions
    asked_questions = [one for one in questions() if one.model == name and one.signature in asked]
    expected_answers = [ask(name, question.signature, **question.inputs) for question in asked_questions]
    monkeypatch.setattr(row_groups, "TOKENS_AT_ONCE", 1)
    signatures = tiny_models.made_signatures(*served[0][name])
    for question, expected in zip(asked_questions, expected_answers, strict=True):
        answer = answer_of(signatures[question.signature], question.inputs)
        assert_same(*map(as_lists, (answer, expected)))


def test_the_model_sees_no_more_tokens_at_once_than_allowed(monkeypatch):
    monkeypatch.setattr(row_groups, "TOKENS_AT_ONCE", 30)
    seen = []

    def forward(ids, mask, segments):
        seen.append(tuple(ids.shape))
        return tf.cast(tf.reduce_sum(ids * mask, axis=1, keepdims=True), tf.float32)

    for num_rows, groups in ((0, [(0, 12)]), (1, [(1, 12)]), (5, [(2, 12), (2, 12), (1, 12)])):
        ids = tf.random.uniform([num_rows, 12], maxval=9, dtype=tf.int32)
        sums = row_groups.run_rows(forward, [ids, tf.ones_like(ids), ids], 1)
        assert sums.numpy().tolist() == tf.cast(tf.reduce_sum(ids, 1, keepdims=True), tf.float32).numpy().tolist()
        assert seen == groups
        seen.clear()
