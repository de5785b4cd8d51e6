"""The exported signature `explain` gives the explanations of `model.explain`."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_families import config_of, fewest_layers
from tiny_models import CHOICES, CONFIG, SECOND_TEXTS, TEXTS, VOCABULARY, made_signatures

from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tasks.multiple_choice.model import MultipleChoice
from keras_bert.tasks.question_answering.model import SpanClassifier
from keras_bert.tasks.tagging.model import TokenClassifier

# Rows of one token make Keras warn that the softmax of a single score is always 1.
pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis")
SHALLOW = CONFIG.replace(num_hidden_layers=1)


def made(config, model_class=SequenceClassifier, **arguments):
    keras.utils.set_random_seed(1)
    model = model_class(config, **arguments)
    model.vocabulary = VOCABULARY
    return model


@pytest.fixture(params=["without a graph", pytest.param("exported", marks=pytest.mark.slow)])
def signatures_of(request):
    """Function that makes the signatures of a model: operation by operation, which is fast, or of its export."""
    if request.param == "exported":
        return load
    request.getfixturevalue("without_graphs")
    return lambda model, path, **options: made_signatures(model, options)


def load(model, path, **options):
    loaded = tf.saved_model.load(model.export_for_serving(path, **options))
    loaded.signatures.whole = loaded  # signatures do not keep their variables
    return loaded.signatures


def exported(model, path, signatures_of=load, **options):
    """Returns the signature `explain` of a model, as a function from lists to arrays."""
    signatures = signatures_of(model, path, explain=True, **options)

    def ask(**inputs):
        found = signatures["explain"](**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in found.items()}

    return ask


def assert_equal(found, explanations):
    """Compares the rows of a signature's outputs with the explanations of `model.explain`."""
    assert len(found["label"]) == len(explanations)
    for row, explanation in enumerate(explanations):
        tokens = [token.decode() for token in found["tokens"][row] if token]
        assert tokens == [token.token for token in explanation.tokens]
        scores = [token.score for token in explanation.tokens]
        np.testing.assert_allclose(found["scores"][row][: len(scores)], scores, rtol=1e-5, atol=1e-5)
        assert np.abs(scores).max() > 1e-3
        assert not found["scores"][row][len(scores) :].any()
        assert found["label"][row].decode() == explanation.target
        outputs = [found["output"][row], found["baseline_output"][row]]
        assert outputs == pytest.approx([explanation.output, explanation.baseline_output], rel=1e-5, abs=1e-5)
        for column, token in enumerate(explanation.tokens):
            start, end, text = (int(found[name][row][column]) for name in ("starts", "ends", "texts"))
            if token.text is None:
                assert (start, end, text) == (-1, -1, -1)
            else:
                whole = explanation.texts[text]
                assert whole.encode()[start:end].decode() == whole[token.start : token.end]
                assert len(whole.encode()[:start].decode()) == token.start


def check(model, path, x, inputs, **options):
    ask = exported(model, path, **options)
    assert_equal(ask(**inputs), model.explain(x, max_seq_length=options.get("max_seq_length")))
    return ask


def test_texts_of_any_length_are_explained_as_in_python(tmp_path):
    model = made(SHALLOW, labels=["animal", "none", "größer"])
    texts = [text for text in TEXTS[:7] if text]
    ask = check(model, tmp_path / "single", texts, {"text": texts}, max_seq_length=40, core_operations=True)
    assert ask(text=np.array([], "S"))["scores"].shape == (0, 1)


def test_pairs_are_explained_as_in_python(tmp_path, signatures_of):
    model = made(SHALLOW, labels=["score"], problem_type="regression")
    x = (TEXTS[:3], SECOND_TEXTS[:3])
    inputs = {"text": x[0], "text_b": x[1]}
    check(model, tmp_path / "pairs", x, inputs, signatures_of=signatures_of, text_pairs=True)


def test_the_most_probable_choice_is_explained_as_in_python(tmp_path, signatures_of):
    model = made(SHALLOW, MultipleChoice)
    inputs = {"prompt": TEXTS[:3], "choices": CHOICES}
    ask = check(model, tmp_path / "choices", (TEXTS[:3], CHOICES), inputs, signatures_of=signatures_of)
    nothing = ask(prompt=["the fox"], choices=[["", ""]])
    assert (nothing["label"].tolist(), nothing["output"].tolist(), nothing["scores"].any()) == ([b""], [0.0], False)


@pytest.mark.parametrize(
    ("signatures_of", "labels"),
    [
        ("without a graph", ["O", "B-PER", "I-PER"]),
        pytest.param("exported", ["O", "B-PER", "I-PER"], marks=pytest.mark.slow),
        pytest.param("without a graph", ["NOUN", "VERB"], marks=pytest.mark.slow),
    ],
    indirect=["signatures_of"],
)
def test_the_tag_of_a_word_is_explained_as_in_python(tmp_path, signatures_of, labels):
    model = made(SHALLOW, TokenClassifier, labels=labels, doc_stride=6)
    texts = [text for text in TEXTS[:6] if text]
    # Sentences are longer than a row.
    options = {"signatures_of": signatures_of, "max_seq_length": 24}
    ask = check(model, tmp_path / "tags", texts, {"text": texts, "word": [-1] * len(texts)}, **options)
    text, words = TEXTS[0], model.predict(TEXTS[:1], max_seq_length=24)[0]
    numbers = range(len(words.words))
    tags = [model.labels[label] for label in words.log_probabilities.argmax(axis=1)]
    found = ask(text=[text] * len(numbers), word=[*numbers])
    targets = [*zip(numbers, tags, strict=True)]
    assert_equal(found, model.explain([text] * len(numbers), targets, max_seq_length=24))
    for row, word in enumerate(numbers):
        of_words = found["words"][row]
        assert word in of_words
        for number, start, end in zip(of_words, found["starts"][row], found["ends"][row], strict=True):
            assert (number < 0) if start < 0 else (text[start:end] == words.words[number])
    nothing = ask(text=["the fox", "", "the"], word=[2, -1, 0])
    assert [label.decode().partition(":")[0] in labels for label in nothing["label"]] == [False, False, True]
    assert (nothing["output"][:2].tolist(), nothing["scores"][:2].any()) == ([0.0, 0.0], False)
    assert ask(text=np.array([], "S"), word=np.array([], "i4"))["words"].shape == (0, 1)


@pytest.mark.parametrize(
    ("signatures_of", "null_threshold"),
    [
        ("without a graph", 0.0),
        pytest.param("exported", 0.0, marks=pytest.mark.slow),
        pytest.param("without a graph", None, marks=pytest.mark.slow),
    ],
    indirect=["signatures_of"],
)
def test_an_answer_is_explained_as_in_python(tmp_path, signatures_of, null_threshold):
    model = made(SHALLOW, SpanClassifier, null_threshold=null_threshold, doc_stride=8, max_query_length=6)
    questions, contexts = ["who is it?", "the city voted on what day?", "中文?", "who?"], [*TEXTS[:4]]
    inputs = {"question": questions, "context": contexts}
    ask = check(
        model, tmp_path / "answers", (questions, contexts), inputs, signatures_of=signatures_of, max_seq_length=32
    )
    found = ask(**inputs)
    assert all(set(row) == {-1, 0, 1} for row in found["texts"].tolist())
    assert ask(question=["", "who?"], context=["the fox", ""])["label"].tolist() == [b"no answer"] * 2
    if null_threshold is not None:
        assert set(found["label"]) & {b"no answer"} < set(found["label"])


@pytest.mark.slow
@pytest.mark.parametrize("family", ["albert", "longformer"])
def test_families_are_explained_as_in_python(tmp_path, family):
    fields = ("hidden_size", "num_attention_heads", "intermediate_size", "initializer_range")
    shape = {name: getattr(CONFIG, name) for name in fields} | fewest_layers(family)
    config = config_of(family, **shape, vocab_size=len(VOCABULARY), max_position_embeddings=48)
    check(made(config, labels=["a", "b"]), tmp_path / family, TEXTS[:3], {"text": TEXTS[:3]})


def test_what_has_no_such_signature_is_refused(tmp_path):
    with pytest.raises(
        InputError, match="explain is for exports of SequenceClassifier, .*MultipleChoice only. Received: MaskedLM"
    ):
        made(CONFIG, MaskedLM).export_for_serving(tmp_path / "masked", explain=True)
    with pytest.raises(InputError, match="needs weights that are not int8"):
        made(CONFIG, labels=["a", "b"]).export_for_serving(tmp_path / "int8", explain=True, weights="int8")
    with pytest.raises(InputError, match="texts in one row. The model has a doc_stride"):
        made(CONFIG, labels=["a", "b"], doc_stride=9).export_for_serving(tmp_path / "windows", explain=True)
