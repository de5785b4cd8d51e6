"""Schemes of tags, and scores of entities: equal to those of seqeval and to values computed by hand."""

import warnings

import numpy as np
import pytest

from keras_bert import InputError
from keras_bert.tasks.tagging.report import write_tag_report
from keras_bert.tasks.tagging.scores import entity_scores, tag_accuracy
from keras_bert.tasks.tagging.tag_schemes import (
    BILOU,
    BIO,
    BIOES,
    BMES,
    IOB1,
    Entity,
    TagLabels,
    canonical_tags,
    find_scheme,
    is_iob1,
    read_entities,
    tag_order,
    write_tags,
)

ENTITIES = [Entity(0, 3, "PER"), Entity(3, 4, "PER"), Entity(5, 7, "LOC")]
WRITTEN = {
    BIO: "B-PER I-PER I-PER B-PER O B-LOC I-LOC",
    BIOES: "B-PER I-PER E-PER S-PER O B-LOC E-LOC",
    BILOU: "B-PER I-PER L-PER U-PER O B-LOC L-LOC",
    BMES: "B-PER M-PER E-PER S-PER O B-LOC E-LOC",
}
WRITTEN_IOB1 = "I-PER I-PER I-PER B-PER O I-LOC I-LOC"


@pytest.mark.parametrize("scheme", WRITTEN, ids=lambda scheme: scheme.name)
def test_entities_are_written_and_read_in_every_scheme(scheme):
    tags = WRITTEN[scheme].split()
    assert write_tags(ENTITIES, 7, scheme) == tags
    assert read_entities(tags) == ENTITIES
    assert find_scheme(tags) == scheme


def test_iob1_is_read_written_and_told_from_bio():
    assert write_tags(ENTITIES, 7, IOB1) == WRITTEN_IOB1.split()
    assert read_entities(WRITTEN_IOB1.split()) == ENTITIES
    assert is_iob1([WRITTEN_IOB1.split(), ["O", "I-LOC"]])
    for others in ([WRITTEN[BIO].split()], [["O", "I-LOC"], ["O", "B-LOC"]], [["O"]]):
        assert not is_iob1(others)


@pytest.mark.parametrize(
    ("tags", "entities"),
    [
        ("O I-PER I-PER", [Entity(1, 3, "PER")]),
        ("B-PER I-LOC", [Entity(0, 1, "PER"), Entity(1, 2, "LOC")]),
        ("E-PER I-PER", [Entity(0, 1, "PER"), Entity(1, 2, "PER")]),
        ("B-PER O E-PER", [Entity(0, 1, "PER"), Entity(2, 3, "PER")]),
        ("B-a-b I-a-b", [Entity(0, 2, "a-b")]),
        ("O O", []),
    ],
)
def test_illegal_sequences_are_read_as_conlleval_reads_them(tags, entities):
    assert read_entities(tags.split()) == entities


def test_tags_are_in_the_order_of_their_types():
    assert tag_order(["I-PER", "O", "B-PER", "B-LOC"]) == ["O", "B-LOC", "B-PER", "I-PER"]
    assert tag_order(["VERB", "NOUN"]) == ["NOUN", "VERB"]


@pytest.mark.parametrize(
    ("tags", "canonical"),
    [
        ("B I O", "B-ENTITY I-ENTITY O"),
        ("b i- o", "B-ENTITY I-ENTITY O"),
        ("B M E S", "B-ENTITY M-ENTITY E-ENTITY S-ENTITY"),
        ("B I E S O", "B-ENTITY I-ENTITY E-ENTITY S-ENTITY O"),
        ("PER-B PER-I O", "B-PER I-PER O"),
        ("B_PER I_PER O", "B-PER I-PER O"),
        ("b-per i-per o", "B-per I-per O"),
        ("PER_S PER_B PER_E PER_I O", "S-PER B-PER E-PER I-PER O"),
        ("PER LOC O", "I-PER I-LOC O"),
        ("B-PER I-PER O", "B-PER I-PER O"),
        ("NOUN VERB O", "NOUN VERB O"),
        ("N V S O", "N V S O"),
        ("U L O", "U L O"),
        ("B-PER LOC O", "B-PER LOC O"),
    ],
)
def test_other_spellings_are_read_where_there_is_one_reading(tags, canonical):
    found = canonical_tags(tags.split())
    assert " ".join(found[tag] for tag in tags.split()) == canonical


@pytest.mark.parametrize("tags", ["NOUN VERB O", "O"])
def test_other_tags_have_no_scheme(tags):
    assert find_scheme(tags.split()) is None


def test_labels_tell_what_a_tagger_answers():
    old = TagLabels.of(["O", "B-PER", "I-PER", "X", "[CLS]", "[SEP]", "[PAD]"])
    assert (old.scheme, old.is_answer) == (BIO, (True, True, True, False, False, False, False))
    assert TagLabels.of(["O", "I-PER", "I-LOC", "B-LOC"]).scheme == IOB1
    assert TagLabels.of(["O", "PER", "LOC"]).names == ("O", "I-PER", "I-LOC")
    assert TagLabels.of(["O", "PER", "LOC"]).answer_scheme == BIO
    upos = TagLabels.of(["NOUN", "X", "[PAD]"])
    assert (upos.scheme, upos.is_answer) == (None, (True, True, False))


GOLD = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG", "I-ORG"], ["B-LOC"]]
PREDICTED = [["B-PER", "I-PER", "O", "B-ORG"], ["O", "B-ORG", "O"], ["B-LOC"]]


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
def test_scores_of_any_sequence_are_those_of_seqeval(letters):
    """Its default mode is that of conlleval."""
    seqeval = pytest.importorskip("seqeval.metrics", reason="make install adds seqeval")
    generator = np.random.default_rng(len(letters))
    gold = random_tags(generator, letters)
    predicted = [
        [guess if generator.random() < 0.3 else tag for tag, guess in zip(*pair, strict=True)]
        for pair in zip(gold, [tags for tags in (generator.permutation(one).tolist() for one in gold)], strict=True)
    ]
    scores = entity_scores(gold, predicted)
    assert 0.2 < scores.micro.f1 < 0.9
    measure = seqeval.sequence_labeling.precision_recall_fscore_support
    for average, rows in (("micro", [scores.micro]), ("macro", [scores.macro]), (None, scores.types)):
        expected = np.transpose(np.atleast_2d(np.transpose(measure(gold, predicted, average=average)[:3])))
        np.testing.assert_allclose([[one.precision, one.recall, one.f1] for one in rows], expected.T)
    assert [one.support for one in scores.types] == measure(gold, predicted, average=None)[3].tolist()
    both = (gold, scores.micro.support), (predicted, scores.micro.predicted)
    assert [len(seqeval.sequence_labeling.get_entities(tags)) for tags, _ in both] == [count for _, count in both]


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


def test_accuracy_of_other_tags_counts_words():
    assert tag_accuracy([["NOUN", "VERB"], ["X"]], [["NOUN", "NOUN"], ["X"]]) == 2 / 3


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: entity_scores([], []), "nothing to score"),
        (lambda: entity_scores([["O"]], []), "tags for every sentence. Received: 1 and 0"),
        (
            lambda: entity_scores([["O"], ["O"]], [["O"], ["O", "O"]]),
            "Sentence 2 has 1 right tags but 2 predicted ones",
        ),
        (lambda: entity_scores([["E-PER", "L-PER"]], [["O", "O"]]), "the right tags: the tags are of several schemes"),
        (lambda: entity_scores(["B-A", "O"], ["B-B", "O"]), "must have a list of tags. Received: 'B-A' and 'B-B'"),
        (lambda: tag_accuracy(["B-A", "O"], ["B-B", "O"]), "must have a list of tags. Received: 'B-A' and 'B-B'"),
        (lambda: entity_scores([["NOUN"]], [["X"]]), "the right tags mark no entities: expected tags like B-PER"),
        (
            lambda: scheme_of("B-PER O X PER"),
            "a.conll: .*some tags mark entities .B-PER, .... and others do not: PER, X",
        ),
        (lambda: scheme_of("PER-B B-LOC O"), "some tags mark entities .B-.* and others do not"),
        (lambda: scheme_of("B-PER PER O"), "some tags mark entities .B-.* and others do not"),
        (lambda: scheme_of("B-PER b_x Y"), "some tags mark entities .B-.* and others do not"),
        (lambda: scheme_of("E-PER L-LOC"), "of several schemes: their first letters are E, L"),
        (lambda: scheme_of("B-PER L-PER E-PER"), "of several schemes"),
    ],
)
def test_tags_that_have_no_one_reading_or_cannot_be_compared_are_refused(read, message):
    with pytest.raises(InputError, match=message):
        read()


def scheme_of(tags):
    return find_scheme(tags.split(), "a.conll")


def test_other_spellings_have_the_same_scores():
    expected = entity_scores([["B-PER", "I-PER", "O"]], [["B-PER", "O", "O"]])
    for form in (lambda tag: tag.lower(), lambda tag: "O" if tag == "O" else f"PER_{tag[0]}"):
        gold, predicted = ([[form(tag) for tag in tags]] for tags in (["B-PER", "I-PER", "O"], ["B-PER", "O", "O"]))
        assert entity_scores(gold, predicted).micro == expected.micro


SENTENCES = [["Ada", "Lovelace", "wrote"], ["London\tcalls", "IBM"], ["Paris"]]
RIGHT = [["B-PER", "I-PER", "O"], ["B-LOC", "O"], ["B-LOC"]]
FOUND = [["B-PER", "O", "O"], ["B-LOC", "B-ORG"], ["B-LOC"]]


def lines(path):
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


def test_the_report_has_every_type_and_the_worst_sentences_first(tmp_path):
    pytest.importorskip("matplotlib")
    write_tag_report(tmp_path, SENTENCES, RIGHT, FOUND, [0.5, 2.0, 3.0], {"f1": 4 / 7})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "entities.png",
        "entities.tsv",
        "errors.tsv",
        "report.txt",
    ]
    assert lines(tmp_path / "entities.tsv") == [
        ["type", "precision", "recall", "f1", "occurs", "predicted"],
        ["LOC", "1", "1", "1", "2", "2"],
        ["ORG", "0", "0", "0", "0", "1"],
        ["PER", "0", "0", "0", "1", "1"],
        ["micro", "0.5", "0.666667", "0.571429", "3", "4"],
        ["macro", "0.333333", "0.333333", "0.333333", "3", "4"],
    ]
    assert lines(tmp_path / "errors.tsv") == [
        ["sentence", "text", "right", "predicted", "loss"],
        ["2", "London calls IBM", "London calls (LOC)", "London calls (LOC), IBM (ORG)", "2"],
        ["1", "Ada Lovelace wrote", "Ada Lovelace (PER)", "Ada (PER)", "0.5"],
    ]
    text = (tmp_path / "report.txt").read_text("utf-8")
    assert "f1         0.5714" in text
    assert "LOC       1.0000" in text
    assert "2 of 3 sentences have a wrong tag: errors.tsv" in text
    assert (tmp_path / "entities.png").read_bytes().startswith(b"\x89PNG")


def test_tags_that_mark_no_entities_are_counted_by_word(tmp_path):
    write_tag_report(tmp_path, [["it", "flies"]], [["PRON", "VERB"]], [["PRON", "NOUN"]], [1.0], {"accuracy": 0.5})
    assert lines(tmp_path / "tags.tsv")[1:] == [
        ["NOUN", "0", "0", "0", "0", "1"],
        ["PRON", "1", "1", "1", "1", "1"],
        ["VERB", "0", "0", "0", "1", "0"],
    ]
    assert lines(tmp_path / "errors.tsv")[1] == ["1", "it flies", "flies (VERB)", "flies (NOUN)", "1"]
