import gzip
import json

import pytest

from data_prep.finetuning.conll import read_tagged_sentences
from keras_bert.program.errors import InputError


def test_columns_are_parted_by_tabs_or_blanks(write):
    for text in ("EU\tNNP\tB-ORG\nrejects\tVBZ\tO\n", "EU NNP B-ORG\r\nrejects  VBZ O\r\n"):
        found = read_tagged_sentences(write("a.conll", text))
        assert (found.words, found.tags) == ([["EU", "rejects"]], [["B-ORG", "O"]])


def test_words_may_have_blanks_where_tabs_part_the_columns(write):
    assert read_tagged_sentences(write("a.conll", "New York\tB-LOC\n")).words == [["New York"]]


def test_any_blank_line_ends_a_sentence(write):
    found = read_tagged_sentences(write("a.conll", "\n\na\tO\n\t\nb\tO\n\n\nc\tB-X"))
    assert found.words == [["a"], ["b"], ["c"]]
    assert found.locations == ["line 3", "line 5", "line 8"]


def test_documents_are_numbered(write):
    found = read_tagged_sentences(write("a.conll", "-DOCSTART- -X- O\n\na x O\n\nb x O\n-DOCSTART- -X- O\n\nc x O\n"))
    assert (found.words, found.documents) == ([["a"], ["b"], ["c"]], [0, 0, 1])
    universal = "# newdoc id = 1\n# text = a\na\tO\n\n# newdoc\nb\tO\n"
    assert read_tagged_sentences(write("a.conll", universal)).documents == [0, 1]


def test_comments_stand_between_sentences_and_hashes_are_words(write):
    found = read_tagged_sentences(write("a.conll", "# sent_id = 1\n# text = # one\n#\tO\none\tO\n\n#tag\tB-X\n# \tO\n"))
    assert found.words == [["#", "one"], ["#tag", "#"]]
    # MultiCoNER's comments have as many columns as its words.
    found = read_tagged_sentences(write("a.conll", "# id 5f-a\tdomain=en\na _ _ O\n\n# id 6f-b\tdomain=en\n# _ _ O\n"))
    assert found.words == [["a"], ["#"]]
    assert read_tagged_sentences(write("a.conll", "a O\n\n# O\n")).words == [["a"], ["#"]]


def test_columns_can_be_chosen(write):
    path = write("a.conll", "1 The DET O\n2 dog NOUN B-X\n")
    found = read_tagged_sentences(path, text_column="1", label_column=-2)
    assert (found.words, found.tags) == ([["The", "dog"]], [["DET", "NOUN"]])


def test_words_can_be_read_alone(write):
    found = read_tagged_sentences(write("a.conll", "a\nb\n\nc\n"), has_tags=False)
    assert (found.words, found.tags) == ([["a", "b"], ["c"]], None)


def test_json_lines_have_lists(write):
    rows = [{"tokens": ["a", "b"], "tags": ["O", "B-X"]}, {"tokens": ["c"], "tags": ["O"]}]
    path = write("a.jsonl", "\n".join(map(json.dumps, rows)))
    found = read_tagged_sentences(path)
    assert (found.words, found.tags) == ([["a", "b"], ["c"]], [["O", "B-X"], ["O"]])
    assert read_tagged_sentences(path, has_tags=False).tags is None


def test_the_files_of_wnut_are_read_whole(shared_data):
    names = ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated")
    assert [len(read_tagged_sentences(shared_data("wnut17", name))) for name in names] == [3394, 1009, 1287]


JSON_COLUMNS = '{{"tokens": {}, "tags": {}}}'
REFUSED = [
    ("a.conll", "", {}, "a.conll has no words"),
    ("a.conll", "\n# x\n", {}, "a.conll has no words"),
    ("a.conll", "a\tO\nb\n", {}, "line 2 has 1 columns, but 2 are expected, as in the first line with a word"),
    ("a.conll", "a O\nb x O\n", {}, "line 2 has 3 columns, but 2 are expected.*separated by blanks here"),
    ("a.conll", "a\n", {}, "line 1 has no column -1 for the tag"),
    ("a.conll", "a\tO\n\tO\n", {}, "line 2: the word in column 0 is empty"),
    ("a.conll", "a\tO\nb\t\n", {}, "line 2: the tag in column -1 is empty"),
    ("a.conll", b"caf\xe9\tO\n", {}, "is not UTF-8: byte 0xe9 in line 1"),
    ("a.conll", b"a\0\tO\n", {}, "is binary, not text: line 1"),
    ("a.conll", "a O\n", {"text_column": "word"}, "columns of CoNLL files are numbered.*Received: 'word'"),
    ("a.conll", "a O\n", {"text_column": 5}, "line 1 has no column 5 for the word. It has 2"),
    ("a.jsonl", JSON_COLUMNS.format('"a b"', '["O"]'), {}, "line 1: .* must be a list of strings. Received: 'a b'"),
    ("a.jsonl", JSON_COLUMNS.format('["a"]', '["O", "O"]'), {}, "line 1 has 1 words but 2 tags"),
    ("a.json", '{"tokens": ["a"]}', {}, "a.json must be a list of objects"),
    ("a.csv", "text,label\nAda,X\n", {}, "not read from CSV. Export JSON Lines"),
    ("a.spacy", b"\x78\x9c", {}, "a.spacy is a DocBin of spaCy. Write JSON Lines from it: .*doc.to_json"),
]


@pytest.mark.parametrize(("name", "content", "columns", "message"), REFUSED)
def test_a_bad_file_is_refused_with_its_line(write, name, content, columns, message):
    with pytest.raises(InputError, match=message):
        read_tagged_sentences(write(name, content), **columns)


def test_lists_of_hugging_face_have_their_own_names_and_numbers(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "0", "tokens": ["Ada", "wrote"], "ner_tags": [1, 0]}\n')
    found = read_tagged_sentences(path, labels=["O", "B-PER"])
    assert (found.words, found.tags) == ([["Ada", "wrote"]], [["B-PER", "O"]])
    with pytest.raises(InputError, match="line 1: the tags in 'ner_tags' are numbers. Give their names in the order"):
        read_tagged_sentences(path)
    with pytest.raises(InputError, match="line 1: a tag .* must be a name or a number from 0 to 0. Received: 1"):
        read_tagged_sentences(path, labels=["O"])
    path.write_text('{"words": ["Ada"], "tags": ["B-PER"]}\n')
    assert read_tagged_sentences(path).tags == [["B-PER"]]
    path.write_text('{"words": ["Ada"]}\n')
    with pytest.raises(InputError, match="there is no column 'tags' for the tags"):
        read_tagged_sentences(path)


WORD = "1\tAda\tl\tNOUN\tNN\t_\t0\troot\t_\t{}\n\n"


@pytest.mark.parametrize(
    ("name", "content", "tags"),
    [
        ("a.conll", "Ada B-PER\n", [["B-PER"]]),
        ("a.conll", "Ada\nwrote\n", None),
        ("a.jsonl", '{"tokens": ["Ada"], "tags": ["O"]}\n', [["O"]]),
        ("a.jsonl", '{"tokens": ["Ada"]}\n', None),
        ("a.jsonl", '{"tokens": ["Ada"], "id": 1}\n{"tokens": ["a"], "id": 2}\n', None),
        ("a.jsonl", '{"text": "Ada", "answer": "accept"}\n{"text": "Ada", "spans": []}\n', [["O"], ["O"]]),
        ("a.jsonl", '{"text": "Ada", "label": null}\n{"text": "Ada"}\n', None),
        ("a.conllu", WORD.format("_") + WORD.format("NER=B-PER"), [["O"], ["B-PER"]]),
        ("a.conllu", f"1-1{WORD[1:]}".format("NER=B-PER").rstrip() + "\n" + WORD.format("_"), None),
    ],
)
def test_tags_are_read_where_there_are_some(tmp_path, name, content, tags):
    path = tmp_path / name
    path.write_text(content)
    assert read_tagged_sentences(path, has_tags=None).tags == tags


@pytest.mark.parametrize(
    "rows",
    [
        ['{"text": null, "label": []}', '{"text": "Ada", "label": [[0, 3, "PER"]]}'],
        ['{"tokens": null, "tags": []}', '{"tokens": ["Ada"], "tags": ["B-PER"]}'],
        ['{"tags": []}', '{"words": ["Ada"], "tags": ["B-PER"]}'],
    ],
)
def test_a_first_row_without_words_decides_nothing(write, rows):
    path = write("a.jsonl", "\n".join(rows))
    with pytest.raises(InputError, match="1 of 2 rows .* number 0, counted from 0, at line 1: "):
        read_tagged_sentences(path)
    assert read_tagged_sentences(path, skip_missing=True).tags == [["B-PER"]]


@pytest.mark.parametrize(
    ("with_tags", "without"),
    [
        ({"tokens": ["Ada"], "ner_tags": ["B-PER"]}, {"tokens": ["a"]}),
        ({"tokens": ["Ada"], "ner_tags": ["B-PER"]}, {"tokens": ["a"], "ner_tags": None}),
        ({"text": "Ada", "label": [[0, 3, "PER"]]}, {"text": "a", "label": None}),
        ({"text": "Ada", "label": [[0, 3, "PER"]]}, {"text": "a"}),
        ({"data": {"text": "Ada"}, "annotations": [{"result": []}]}, {"data": {"text": "a"}, "annotations": []}),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_it_does_not_matter_which_row_lacks_tags(write, caplog, with_tags, without, is_first):
    rows = [with_tags, without] if is_first else [without, with_tags]
    path = write("a.jsonl", "\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match="1 of 2 rows have no value where one is needed"):
        read_tagged_sentences(path)
    found = read_tagged_sentences(path, has_tags=None)
    assert (found.tags, sorted(found.words)) == (None, [["Ada"], ["a"]])
    assert "a.jsonl: 1 of 2 rows have labels, so none are read. To read them, leave out" in caplog.text
    for has_tags in (True, None):
        found = read_tagged_sentences(path, has_tags=has_tags, skip_missing=True)
        assert (found.words, found.tags) == ([["Ada"]], [["O" if "data" in with_tags else "B-PER"]])


@pytest.mark.parametrize("sign", "\u00a0\u202f\u2009\u3000\u2028\u0085\v\f\x1c")
def test_only_blanks_and_tabs_separate(write, sign):
    found = read_tagged_sentences(write("a.conll", f"a{sign}b  B-X\n{sign}c\t O\n\nd O\n"))
    assert (found.words, found.tags) == ([[f"a{sign}b", f"{sign}c"], ["d"]], [["B-X", "O"], ["O"]])
    assert read_tagged_sentences(write("a.conll", f"a{sign}b\tB-X\n")).words == [[f"a{sign}b"]]


def test_comments_of_germeval_and_ontonotes_are_no_words(write):
    germeval = "#\thttp://a [2009]\n1\tAda\tB-X\tO\n\n#\tb [2009]\n2\t#\tO\tO\n#\t#\tO\tO\n"
    found = read_tagged_sentences(write("a.conll", germeval), text_column=1, label_column=2)
    assert (found.words, found.tags) == ([["Ada"], ["#", "#"]], [["B-X"], ["O", "O"]])
    ontonotes = "#begin document (a); part 000\na 0 O\n#end document\n#begin document (b)\nb 0 O"
    found = read_tagged_sentences(write("a.conll", ontonotes))
    assert (found.words, found.documents) == ([["a"], ["b"]], [0, 1])
    found = read_tagged_sentences(write("a.conll", "#id=1\na O\n\n#sent_id = 2\n#\nb O\n\n#a=b O\n#tag O\n"))
    assert found.words == [["a"], ["b"], ["#a=b", "#tag"]]
    # The first line is the word "#": it has as many columns as the first line that is certainly of a word.
    assert read_tagged_sentences(write("a.conll", "#\tO\na\tB-X\n")).words == [["#", "a"]]
    assert read_tagged_sentences(write("a.conll", "#tag\n#other\n"), has_tags=False).words == [["#tag", "#other"]]


def test_a_json_file_has_a_list_of_rows(write):
    rows = '[{"tokens": ["a"], "tags": ["O"]}, {"tokens": ["b"], "tags": ["B-X"]}]'
    found = read_tagged_sentences(write("a.json", rows))
    assert (found.words, found.locations) == ([["a"], ["b"]], ["item 1", "item 2"])


ROWS = ['{"text": "Ada wrote", "label": [[0, 3, "PER"]]}', '{"text":"It rained","label":[]}']
PAIRS = ['["Ada wrote", {"entities": [[0, 3, "PER"]]}]', '["It rained", {"entities": []}]']


@pytest.mark.parametrize("name", ["a.ndjson", "a.JSONL", "a.json1", "a.json", "a.txt", "a.tsv", "a", "a.conll"])
@pytest.mark.parametrize("rows", [ROWS, PAIRS])
def test_json_is_known_by_its_content_where_the_name_does_not_tell(write, name, rows):
    forms = [(name, "\n".join(rows) + "\n"), (name, "\n\n" + "\r\n".join(rows)), (name + ".GZ", "\n".join(rows))]
    if name not in ("a.ndjson", "a.JSONL"):
        values = list(map(json.loads, rows))
        forms += [(name, json.dumps(values)), (name, json.dumps(values, indent=1))]
    for name, text in forms:
        found = read_tagged_sentences(write(name, gzip.compress(text.encode()) if name.endswith(".GZ") else text))
        assert (found.words, found.tags) == ([["Ada", "wrote"], ["It", "rained"]], [["B-PER", "O"], ["O", "O"]])


@pytest.mark.parametrize("content", ['{ O\n" O\na O\n', "[\tO\n{\tO\n", '{\n"a"\n'])
def test_braces_and_quotes_are_words_too(write, content):
    assert len(read_tagged_sentences(write("a.train", content), has_tags=False).words[0]) == content.count("\n")


EMPTY_WORDS = '{"tokens": ["a", null], "tags": ["O", "O"]}\n{"tokens": [""], "tags": ["O"]}\n'
EMPTY_WORDS += '{"tokens": ["c"], "tags": ["B-X"]}'


@pytest.mark.parametrize(
    ("name", "content", "first"),
    [
        ("a.tsv", "a\tO\nb\t\n\n\tO\n\nc\tB-X\n", "number 0, counted from 0, at line 2: the tag in column -1 is empty"),
        ("a.jsonl", EMPTY_WORDS, r"number 0, counted from 0, at line 1: the words in 'tokens' are \['a', None\]"),
    ],
)
def test_sentences_without_a_word_or_tag_are_counted_or_left_out(write, caplog, name, content, first):
    with pytest.raises(InputError, match=f"{name}: 2 of 3 rows have no value .*{first}.* --skip_missing"):
        read_tagged_sentences(write(name, content))
    assert read_tagged_sentences(write(name, content), skip_missing=True).words == [["c"]]
    assert "2 of 3 rows were left out" in caplog.text


def test_half_of_a_surrogate_pair_is_replaced_in_words_and_tags(write):
    found = read_tagged_sentences(write("a.jsonl", '{"tokens": ["a\\ud800"], "tags": ["\\udfff"]}'))
    assert (found.words, found.tags) == ([["a\ufffd"]], [["\ufffd"]])
