import pytest

from keras_bert.program.errors import InputError
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


def test_iob1_is_read_and_told_from_bio():
    assert read_entities(WRITTEN_IOB1.split()) == ENTITIES
    assert is_iob1([WRITTEN_IOB1.split(), ["O", "I-LOC"]])
    assert not is_iob1([WRITTEN[BIO].split()])
    assert not is_iob1([["O", "I-LOC"], ["O", "B-LOC"]])
    assert not is_iob1([["O"]])


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


def test_other_tags_have_no_scheme():
    assert find_scheme(["NOUN", "VERB", "O"]) is None
    assert find_scheme(["O"]) is None


def test_tags_of_which_some_mark_no_entities_are_refused():
    with pytest.raises(InputError, match=r"a.conll: some tags mark entities .B-PER, .... and others do not: PER, X"):
        find_scheme(["B-PER", "O", "X", "PER"], "a.conll")


def test_two_schemes_in_one_file_are_refused():
    with pytest.raises(InputError, match="a.conll: the tags are of several schemes: their first letters are E, L"):
        find_scheme(["E-PER", "L-LOC"], "a.conll")


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


def test_the_rest_is_named():
    for tags in ("PER-B B-LOC O", "B-PER PER O", "B-PER b_x Y"):
        with pytest.raises(InputError, match="a.conll: some tags mark entities .B-.* and others do not"):
            find_scheme(tags.split(), "a.conll")
    with pytest.raises(InputError, match="a.conll: the tags are of several schemes"):
        find_scheme(["B-PER", "L-PER", "E-PER"], "a.conll")


def test_iob1_is_written():
    assert write_tags(ENTITIES, 7, IOB1) == WRITTEN_IOB1.split()


def test_labels_tell_what_a_tagger_answers():
    old = TagLabels.of(["O", "B-PER", "I-PER", "X", "[CLS]", "[SEP]", "[PAD]"])
    assert (old.scheme, old.is_answer) == (BIO, (True, True, True, False, False, False, False))
    assert TagLabels.of(["O", "I-PER", "I-LOC", "B-LOC"]).scheme == IOB1
    assert TagLabels.of(["O", "PER", "LOC"]).names == ("O", "I-PER", "I-LOC")
    assert TagLabels.of(["O", "PER", "LOC"]).answer_scheme == BIO
    upos = TagLabels.of(["NOUN", "X", "[PAD]"])
    assert (upos.scheme, upos.is_answer) == (None, (True, True, False))
