"""Entity scores equal those of a reimplementation of conlleval, and values computed by hand."""

import warnings

import numpy as np
import pytest

from keras_bert.program.errors import InputError
from keras_bert.tasks.tagging.scores import entity_scores, tag_accuracy
from keras_bert.tasks.tagging.tag_schemes import BILOU, BIO, BIOES, BMES, read_entities, write_tags

GOLD = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG", "I-ORG"], ["B-LOC"]]
PREDICTED = [["B-PER", "I-PER", "O", "B-ORG"], ["O", "B-ORG", "O"], ["B-LOC"]]


def conlleval(gold, predicted):
    """Precision, recall and F1 in percent as conlleval counts: word by word, tracking the open entities and whether
    they match.

    Reference: the rules for the beginning and the end of a chunk that the shared tasks of CoNLL-2000 to 2003 print.
    """

    def parts(tag):
        return ("O", "") if tag == "O" else tuple(tag.split("-", 1))

    def ends(previous, current):
        (before, its_type), (now, now_type) = previous, current
        return before != "O" and (now in "BSO" or its_type != now_type or before in "ES")

    def starts(previous, current):
        (before, its_type), (now, now_type) = previous, current
        return now != "O" and (now in "BS" or its_type != now_type or before in "OES")

    correct = found_gold = found_predicted = 0
    for tags, guesses in zip(gold, predicted, strict=True):
        is_right = False
        previous, previous_guess = ("O", ""), ("O", "")
        for tag, guess in zip([*tags, "O"], [*guesses, "O"], strict=True):
            tag, guess = parts(tag), parts(guess)
            if is_right:
                both_end = ends(previous, tag), ends(previous_guess, guess)
                if all(both_end):
                    correct += 1
                if any(both_end):
                    is_right = False
            begins, guess_begins = starts(previous, tag), starts(previous_guess, guess)
            is_right = is_right or (begins and guess_begins and tag[1] == guess[1])
            found_gold, found_predicted = found_gold + begins, found_predicted + guess_begins
            previous, previous_guess = tag, guess
    return correct, found_gold, found_predicted


def random_tags(generator, letters, size=300):
    tags = ["O", *(f"{letter}-{kind}" for letter in letters for kind in ("PER", "LOC"))]
    weights = np.full(len(tags), 1.0)
    weights[0] = 3
    lengths = generator.integers(1, 9, size)
    return [generator.choice(tags, length, p=weights / weights.sum()).tolist() for length in lengths]


def test_scores_are_those_counted_by_hand():
    scores = entity_scores(GOLD, PREDICTED)
    assert (scores.micro.support, scores.micro.predicted) == (4, 4)
    assert (scores.micro.precision, scores.micro.recall, scores.micro.f1) == (0.5, 0.5, 0.5)
    assert [(row.name, row.precision, row.recall, row.support, row.predicted) for row in scores.types] == [
        ("LOC", 1.0, 0.5, 2, 1),
        ("ORG", 0.0, 0.0, 1, 2),
        ("PER", 1.0, 1.0, 1, 1),
    ]
    assert scores.macro.f1 == pytest.approx((2 / 3 + 0 + 1) / 3)
    assert scores.accuracy == 6 / 8
    assert [row.name for row in scores.rows] == ["LOC", "ORG", "PER", "micro", "macro"]


def test_a_type_that_is_only_predicted_counts_in_the_mean_of_types():
    scores = entity_scores([["B-PER", "O"]], [["B-PER", "B-LOC"]])
    assert [(row.name, row.f1, row.support, row.predicted) for row in scores.types] == [
        ("LOC", 0.0, 0, 1),
        ("PER", 1.0, 1, 1),
    ]
    assert (scores.macro.f1, scores.micro.f1) == (0.5, pytest.approx(2 / 3))


@pytest.mark.parametrize("letters", ["BI", "BIES"])
def test_scores_of_any_sequence_are_those_of_conlleval_and_of_seqeval(letters):
    seqeval = pytest.importorskip("seqeval.metrics", reason="make install adds seqeval")
    generator = np.random.default_rng(len(letters))
    gold = random_tags(generator, letters)
    predicted = [
        [guess if generator.random() < 0.3 else tag for tag, guess in zip(*pair, strict=True)]
        for pair in zip(gold, [tags for tags in (generator.permutation(one).tolist() for one in gold)], strict=True)
    ]
    scores = entity_scores(gold, predicted)
    correct, found_gold, found_predicted = conlleval(gold, predicted)
    assert 0.2 < scores.micro.f1 < 0.9
    assert scores.micro.f1 == pytest.approx(2 * correct / (found_gold + found_predicted))
    assert scores.micro.f1 == pytest.approx(seqeval.f1_score(gold, predicted))
    assert scores.macro.f1 == pytest.approx(seqeval.f1_score(gold, predicted, average="macro"))
    assert (scores.micro.support, scores.micro.predicted) == (found_gold, found_predicted)
    by_type = seqeval.sequence_labeling.precision_recall_fscore_support(gold, predicted, average=None)
    assert [[one.precision, one.recall, one.f1, one.support] for one in scores.types] == [
        pytest.approx(row) for row in zip(*by_type, strict=True)
    ]


@pytest.mark.parametrize("scheme", [BIO, BIOES, BILOU, BMES], ids=lambda scheme: scheme.name)
def test_the_scheme_does_not_matter(scheme):
    gold, predicted = (
        [write_tags(read_entities(tags), len(tags), scheme) for tags in both] for both in (GOLD, PREDICTED)
    )
    assert entity_scores(gold, predicted) == entity_scores(GOLD, PREDICTED)
    assert entity_scores(gold, PREDICTED) == entity_scores(GOLD, PREDICTED)


def test_without_entities_all_scores_are_zero_and_nobody_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nothing = entity_scores([["O", "O"]], [["O", "O"]])
        missed = entity_scores([["O", "B-LOC"]], [["O", "O"]])
    assert (nothing.types, nothing.micro.f1, nothing.macro.support, nothing.accuracy) == ((), 0.0, 0, 1.0)
    assert (missed.micro.precision, missed.micro.recall, missed.micro.f1, missed.accuracy) == (0.0, 0.0, 0.0, 0.5)


def test_accuracy_of_other_tags_is_that_of_seqeval():
    seqeval = pytest.importorskip("seqeval.metrics", reason="make install adds seqeval")
    gold, predicted = [["NOUN", "VERB"], ["X"]], [["NOUN", "NOUN"], ["X"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert tag_accuracy(gold, predicted) == seqeval.accuracy_score(gold, predicted) == 2 / 3
    with pytest.raises(InputError, match="the right tags mark no entities: expected tags like B-PER, I-PER and O"):
        entity_scores(gold, predicted)


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        ([], [], "nothing to score"),
        ([["O"]], [], "tags for every sentence. Received: 1 and 0"),
        ([["O"], ["O"]], [["O"], ["O", "O"]], "Sentence 2 has 1 right tags but 2 predicted ones"),
        ([["E-PER", "L-PER"]], [["O", "O"]], "the right tags: the tags are of several schemes"),
    ],
)
def test_tags_that_cannot_be_compared_are_refused(gold, predicted, message):
    with pytest.raises(InputError, match=message):
        entity_scores(gold, predicted)


def test_other_spellings_have_the_same_scores():
    expected = entity_scores([["B-PER", "I-PER", "O"]], [["B-PER", "O", "O"]])
    for form in (lambda tag: tag.lower(), lambda tag: "O" if tag == "O" else f"PER_{tag[0]}"):
        gold, predicted = ([[form(tag) for tag in tags]] for tags in (["B-PER", "I-PER", "O"], ["B-PER", "O", "O"]))
        assert entity_scores(gold, predicted).micro == expected.micro


@pytest.mark.parametrize("score", [entity_scores, tag_accuracy])
def test_tags_of_one_sentence_are_not_taken_for_several(score):
    with pytest.raises(InputError, match="Sentence 1 must have a list of tags. Received: 'B-A' and 'B-B'"):
        score(["B-A", "O"], ["B-B", "O"])
