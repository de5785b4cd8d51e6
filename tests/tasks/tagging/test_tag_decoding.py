"""Tags are decoded under the rules of their scheme, in Python and in the graph."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
import tiny

from keras_bert import InputError, TokenClassifier
from keras_bert.tasks.tagging import graph_tagging
from keras_bert.tasks.tagging.decoding import allowed_transitions, decode_tags
from keras_bert.tasks.tagging.tag_schemes import TagLabels, read_entities, write_tags
from keras_bert.tasks.tagging.task import TaggingTask

LABELS = {
    "BIO": ["I-A", "O", "B-A", "B-B", "I-B"],
    "IOB1": ["O", "I-A", "I-B", "B-A"],
    "BIOES": ["O", "B-A", "I-A", "E-A", "S-A", "S-B"],
    "BILOU": ["U-A", "L-A", "I-A", "B-A", "O", "B-B", "L-B"],
    "BMES": ["S-A", "E-A", "M-A", "B-A", "S-B"],
    "with labels of no word": ["[CLS]", "O", "X", "B-A", "I-A"],
}
VOCABULARY = tiny.vocabulary("ada lace in london")
CONFIG = tiny.config(VOCABULARY, max_position_embeddings=16)


def allowed_sequences(labels, length):
    """All sequences of label ids that their scheme gives back when their entities are read and written again."""
    for ids in itertools.product([n for n, is_answer in enumerate(labels.is_answer) if is_answer], repeat=length):
        tags = [labels.names[label] for label in ids]
        if write_tags(read_entities(tags), length, labels.scheme) == tags:
            yield ids


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_the_best_allowed_sequence_is_found_in_python_and_in_the_graph(labels):
    labels, draw = TagLabels.of(labels), np.random.default_rng(1)
    allowed = allowed_transitions(labels, "viterbi")
    lengths = [0, 1, 1, 2, 3, 4, 0, 4, 3, 4, 2, 4]
    if labels.labels[0] == "S-A":
        lengths = [length for length in lengths if length]
    logits = draw.integers(0, 3, (sum(lengths), len(labels.labels))).astype(np.float64)  # many ties
    splits = np.cumsum([0, *lengths])
    expected = []
    for first, length in zip(splits, lengths, strict=False):
        rows = logits[first : first + length]
        sequences = [(sum(rows[np.arange(length), list(ids)]), ids) for ids in allowed_sequences(labels, length)]
        best = max(total for total, _ in sequences)
        expected += min((ids for total, ids in sequences if total == best), key=lambda ids: ids[::-1])
    answers = np.where(labels.is_answer, logits, -np.inf)
    assert decode_tags(answers, splits, allowed).tolist() == expected
    served = np.where(labels.is_answer, logits, np.finfo(np.float32).min)
    found = graph_tagging.decode_tags(tf.constant(served), tf.constant(splits, tf.int64), allowed)
    assert found.numpy().tolist() == expected
    assert (answers.argmax(axis=1) != expected).any()


def test_no_words_and_only_valid_ones_stay_as_they_are():
    allowed = allowed_transitions(TagLabels.of(LABELS["BIO"]), "viterbi")
    for logits, splits in ((np.zeros((0, 5)), [0, 0]), (np.zeros((0, 5)), [0]), (np.eye(5)[[2, 0, 1]], [0, 3])):
        expected = logits.argmax(axis=1).tolist()
        assert decode_tags(logits, splits, allowed).tolist() == expected
        found = graph_tagging.decode_tags(tf.constant(logits), tf.constant(splits, tf.int64), allowed)
        assert found.numpy().tolist() == expected


@pytest.mark.parametrize(
    ("labels", "decoding", "message"),
    [
        (["NOUN", "VERB"], "viterbi", "needs labels that mark entities.* Received: NOUN, VERB. Give decoding='indep"),
        (
            ["O", "B-A", "I-A", "E-A", "B-B"],
            "viterbi",
            "In BIOES, no sequence of tags may have B-B: other labels of the s",
        ),
        (["O", "S-A", "I-B", "E-B"], "viterbi", "may have I-B, E-B: .* or give decoding='independent'"),
        (["O", "I-A", "B-B"], "viterbi", "In IOB1, no sequence of tags may have B-B"),
        (["O", "B-A"], "beam", "decoding must be one of viterbi, independent. Received: 'beam'"),
    ],
)
def test_labels_that_fit_no_sequence_are_refused(labels, decoding, message):
    with pytest.raises(InputError, match=message):
        allowed_transitions(TagLabels.of(labels), decoding)


def test_words_that_are_decoded_by_themselves_have_no_rules():
    assert allowed_transitions(TagLabels.of(["O", "B-A", "I-A", "E-A", "B-B"]), "independent") is None


def new_model(**arguments):
    return tiny.made(TokenClassifier, CONFIG, VOCABULARY, ["O", "B-PER", "I-PER"], seed=0, **arguments)


@pytest.mark.parametrize(
    ("decoding", "tags", "probabilities"),
    [("viterbi", ["B-PER", "I-PER"], [0.2, 0.7]), ("independent", ["B-PER", "I-PER"], [0.5, 0.7])],
)
def test_answers_have_the_probabilities_of_the_decoded_tags(decoding, tags, probabilities):
    task = TaggingTask(new_model(decoding=decoding))
    examples = task.examples([["ada", "lace"]])
    rows = task.rows(examples)
    outputs = np.log(np.full((4, 3), 1 / 3, np.float32))
    outputs[rows.first_tokens] = np.log([[0.3, 0.2, 0.5], [0.1, 0.2, 0.7]])
    (answer,) = task.answers(examples, rows, outputs)
    assert answer.tags == tags
    assert answer.probabilities == pytest.approx(probabilities, rel=1e-6)
    (explained,) = task.explained_rows(examples, rows, outputs, [None])
    assert explained.target == ("B-PER: ada" if decoding == "viterbi" else "I-PER: ada")


def test_the_decoding_is_saved(tmp_path):
    new_model(decoding="viterbi").save_pretrained(tmp_path / "viterbi")
    new_model().save_pretrained(tmp_path / "usual")
    assert TokenClassifier.from_pretrained(tmp_path / "viterbi").decoding == "viterbi"
    assert TokenClassifier.from_pretrained(tmp_path / "usual").decoding == "independent"
    assert TokenClassifier.from_pretrained(tmp_path / "usual", decoding="viterbi").decoding == "viterbi"
    assert TokenClassifier.from_config(new_model(decoding="viterbi").get_config()).decoding == "viterbi"
