import gzip
import json

import pytest
from bounded_memory import memory_below

from data_prep.finetuning.labelled_text import (
    read_choices,
    read_labelled_text,
    read_multi_label_text,
    read_scored_text,
    read_sources_and_targets,
)
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.examples import in_label_order


def columns_of(found):
    return found.texts, found.second_texts, found.labels


def test_tab_separated_text_has_no_quoting(write):
    path = write("a.tsv", 'text\tlabel\nHe said "yes.\tgood\n"No\tbad\n')
    assert columns_of(read_labelled_text(path)) == (['He said "yes.', '"No'], None, ["good", "bad"])


def test_comma_separated_text_has_quoting_and_line_breaks_inside_quotes(write):
    path = write("a.csv", 'label,text\r\ngood,"Yes, he said\n""yes"""\r\nbad,No\r\n')
    assert columns_of(read_labelled_text(path)) == (['Yes, he said\n"yes"', "No"], None, ["good", "bad"])


def test_json_lines_may_have_numbers_as_labels(write):
    path = write("a.jsonl", '{"text": "Yes", "label": 1}\n\n{"label": 0, "text": "No", "other": null}\n')
    assert columns_of(read_labelled_text(path)) == (["Yes", "No"], None, ["1", "0"])


def test_columns_can_be_numbers_in_files_without_a_header(write):
    path = write("a.tsv", "x\t1\tYes\tOh yes\nx\t0\tNo\tOh no\n")
    for columns in ((2, 3, 1), ("2", "3", "1")):
        names = dict(zip(("text_column", "second_text_column", "label_column"), columns, strict=True))
        found = read_labelled_text(path, has_header=False, **names)
        assert columns_of(found) == (["Yes", "No"], ["Oh yes", "Oh no"], ["1", "0"])


def test_columns_can_be_numbers_in_files_with_a_header_but_names_go_first(write):
    path = write("a.tsv", "1\ttext\nname\tYes\n")
    assert columns_of(read_labelled_text(path, text_column=1, label_column="1")) == (["Yes"], None, ["name"])


def test_a_byte_order_mark_blank_lines_and_spaces_are_no_text(write):
    path = write("a.tsv", "\ufefftext \tlabel\r\n\r\n Yes \t good\r\n")
    assert columns_of(read_labelled_text(path)) == (["Yes"], None, ["good"])


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_a_blank_line_in_a_table_of_one_column_is_an_empty_text(write, name):
    # Otherwise the answers would not match the lines of the file.
    path = write(name, "\ntext\none\n\ntwo\n\n \n")
    with pytest.raises(InputError, match=f"{name}: 1 of 3 .*line 4: the text in column 'text' is empty"):
        read_labelled_text(path, label_column=None)
    assert read_labelled_text(path, label_column=None, may_be_empty=True).texts == ["one", "", "two"]


BAD_FILES = {
    "short.tsv": ("text\tlabel\nYes\tgood\n\nNo\n", "line 4 has 1 columns, but 2 are expected, as in the first line"),
    "long.csv": ("text,label\nYes, he said,good\n", "line 2 has 3 columns, but 2 are expected"),
    "names.tsv": ("sentence\tquality\nYes\tgood\n", "no column 'text' for the text. .* 'sentence', 'quality'"),
    "semicolons.csv": ("text;label\nYes;good;1\n", "line 2 has 3 columns, but 2 are expected"),
    "tabs.csv": ("text\tlabel\nYes\tgood\n", "has tabs between its values. .* Name the file .tsv"),
    "commas.tsv": ("text,label\nYes,good\n", "has commas between its values. .* Name the file .csv"),
    "no_header.tsv": ("Yes\tgood\nNo\tbad\n", "use --nohas_header"),
    "label.tsv": ("text\tquality\nYes\tgood\n", "line 1, the header: there is no column 'label' for the label"),
    "keys.jsonl": ('{"body": "Yes", "label": 1}', "no column 'text' for the text. .* 'body', 'label'"),
    "empty_text.tsv": ("text\tlabel\n \tgood\n", "line 2: the text in column 'text' is empty"),
    "empty_label.tsv": ("text\tlabel\nYes\t\n", "line 2: the label in column 'label' is empty"),
    "null.jsonl": ('{"text": null, "label": "a"}', "line 1: the text in column 'text' is None"),
    "fraction.jsonl": ('{"text": "a", "label": 0.5}', "the label in column 'label' must be a string. Received: 0.5"),
    "bad.jsonl": ('{"text": "a"\n', "line 1 is not JSON"),
    "list.jsonl": ("[1]\n", "line 1 must be a JSON object. Received: list"),
    "quote.csv": ('text,label\n"Yes,good\nNo,bad\n', "line 2 is not CSV"),
    "header_only.tsv": ("text\tlabel\n", "header_only.tsv has no rows below the header"),
    # Without an even number of columns, the first line decides.
    "header_only.csv": ("text;label\n", "header_only.csv has no rows below the header"),
    "empty.tsv": ("", "empty.tsv has no rows"),
    "binary.tsv": (b"text\tlabel\na\0\tb\n", "is binary, not text: line 2"),
    "latin1.tsv": ("text\tlabel\ncafé\tb\n".encode("latin-1"), "is not UTF-8: byte 0xe9 in line 2"),
    "windows.tsv": ("text\tlabel\n“café”\tb\n".encode("cp1252"), "iconv -f WINDOWS-1252 -t UTF-8"),
    "other.tsv": (b"text\tlabel\n\xac\x90\tb\n", "Find out its encoding, .*iconv -f ENCODING"),
    "table.xlsx": (b"PK", "labelled text is read from .tsv, .csv, .jsonl"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_with_line_and_reason(write, name):
    content, message = BAD_FILES[name]
    path = write(name, content)
    with pytest.raises(InputError, match=message) as caught:
        read_labelled_text(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["a.ndjson", "a.JSONL", "a.json1", "a.json", "a.txt"])
def test_json_is_known_by_its_content_where_the_name_does_not_tell(write, name):
    rows = '{"text": "Yes", "label": 1}\n{"text": "No", "label": 0}'
    assert read_labelled_text(write(name, rows)).labels == ["1", "0"]
    assert read_labelled_text(write("A.TSV", "text\tlabel\nYes\tgood\n")).labels == ["good"]


TABLE, LINES = "a.csv", "a.jsonl"
MARKS = [("[1, 0]", "[0, 1]"), ("[1 0 0]", "[0 0 1]"), ("[True, False]", "[False, False]")]
CHOICES = '{"text": "a", "c": ["b", "c"], "label": 0}\n{"text": "a", "c": ["b"], "label": 0}'
NUMBERS = {"text_column": 0, "label_column": 5, "has_header": False}
REFUSED = [
    (read_labelled_text, TABLE, "Yes,good\n", NUMBERS, "no column 5 .* the numbers 0 to 1"),
    (read_labelled_text, TABLE, "text,label\n ,a\nb,\n", {"skip_missing": True}, "2 of 2 rows have no value"),
    *(
        (read_scored_text, TABLE, f"text,label\nYes,{score}\n", {}, f"line 2: the score .* Received: '{score}'")
        for score in ("good", "nan", "inf", "true")
    ),
    # More than 32 bits can hold.
    *(
        (read_scored_text, LINES, f'{{"text": "a", "label": {score}}}', {}, "line 1: the score .* Received: .{,200}$")
        for score in ("1e300", "-1e39", "9" * 400, '"1e300"')
    ),
    # A decimal comma is for semicolons only.
    (read_scored_text, TABLE, 'text,label\nEin Film,"0,5"\n', {}, "the score .* must be a number. Received: '0,5'"),
    (read_choices, LINES, CHOICES, {"choice_columns": ["c"]}, "line 2 has 1 choices, but 2"),
    (read_choices, LINES, '{"text": "a", "b": ""}', {"choice_columns": ["b"]}, "line 1: the choice .*'b' is empty"),
    (read_multi_label_text, LINES, '{"text": "a", "label": [[0, 4, "X"]]}', {}, r"line 1: a label .* Received: \[0, 4"),
    (
        read_multi_label_text,
        TABLE,
        "text,label\nYes,\"['a'; 'b']\"\n",
        {},
        "line 2: .* no list. Received: ..'a'; 'b'..",
    ),
    *(
        (read_multi_label_text, TABLE, f'text,label\nYes,"{first}"\nYes,"{second}"\n', {}, "names are not there")
        for first, second in MARKS
    ),
    (read_multi_label_text, LINES, '{"text": "a", "label": [1, 0.0]}\n' * 2, {}, "--label_column=praise,joy"),
]


@pytest.mark.parametrize(("read", "name", "content", "options", "message"), REFUSED)
def test_values_that_cannot_be_used_are_refused_with_their_place(write, read, name, content, options, message):
    with pytest.raises(InputError, match=message):
        read(write(name, content), **options)


def test_scores_are_numbers(write):
    assert read_scored_text(write("a.tsv", "text\tlabel\nYes\t 2.5 \nNo\t-1e-1\n")).labels == [2.5, -0.1]
    assert read_scored_text(write("a.jsonl", '{"text": "Yes", "label": 3}')).labels == [3.0]


def test_several_labels_stand_in_one_column(write):
    assert read_multi_label_text(write("a.tsv", "text\tlabel\nYes\ta, b\nNo\t\n")).labels == [["a", "b"], []]
    assert read_multi_label_text(write("a.tsv", "text\tlabel\nYes\ta|b\n"), label_separator="|").labels == [["a", "b"]]
    rows = '{"text": "Yes", "label": ["a", "b, c", 3]}\n{"text": "No", "label": []}\n{"text": "So", "label": 7}'
    assert read_multi_label_text(write("a.jsonl", rows)).labels == [["a", "b, c", "3"], [], ["7"]]


def test_several_labels_stand_in_columns_of_0_and_1(write):
    path = write("a.csv", "text,toxic,rude\nYes,0,1\nNo,0,0\nSo,1,True\n")
    assert read_multi_label_text(path, label_column=["toxic", "rude"]).labels == [["rude"], [], ["toxic", "rude"]]
    with pytest.raises(InputError, match="line 2: the label in column 'toxic' must be 0 or 1. Received: '0.5'"):
        read_multi_label_text(write("a.csv", "text,toxic,rude\nYes,0.5,1\n"), label_column=["toxic", "rude"])


def test_choices_stand_in_columns_or_in_a_list(write):
    expected = (["He"], [["sings", "sits"]], ["1"])
    path = write("a.tsv", "He\tsings\tsits\t1\n")
    assert read_choices(path, text_column=0, choice_columns=[1, 2], label_column=3, has_header=False) == expected
    path = write("a.jsonl", '{"text": "He", "endings": ["sings", "sits"], "label": 1}')
    assert read_choices(path, choice_columns=["endings"]) == expected
    assert read_choices(path, choice_columns=["endings"], label_column=None)[2] is None


def test_bad_rows_can_be_left_out(write):
    path = write("a.tsv", "text\tlabel\nYes\tgood\nNo\n \tbad\nSo\tgood\tx\nNo\tbad\n")
    left_out = []
    assert read_labelled_text(path, left_out=left_out).texts == ["Yes", "No"]
    reasons = [message.partition(": ")[2][:20] for message in left_out]
    assert reasons == ["line 3 has 1 columns", "line 4: the text in ", "line 5 has 3 columns"]
    with pytest.raises(InputError, match="there is no column 'stars'"):
        read_labelled_text(path, label_column="stars", left_out=left_out)


def test_half_a_surrogate_pair_is_replaced(write):
    assert read_labelled_text(write("a.jsonl", r'{"text": "cut \ud83d", "label": 1}')).texts == ["cut \ufffd"]


def test_choices_may_share_their_beginning(write):
    rows = "It rains.,He,sings,runs,1\nOn stage,,a man sings,a cat runs,0\n"
    path = write("swag.csv", f"sent1,sent2,ending0,ending1,label\n{rows}")
    found = read_choices(path, text_column="sent1", choice_columns=["ending0", "ending1"], choice_prefix_column="sent2")
    assert found == (["It rains.", "On stage"], [["He sings", "He runs"], ["a man sings", "a cat runs"]], ["1", "0"])


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("text;label\nNun ja, gut;0,5\nSchlecht;-1\n", [("Nun ja, gut", 0.5), ("Schlecht", -1.0)]),
        ('text;label\n"Halb; halb";1,25\n"Zwei\nZeilen, ja";2\n', [("Halb; halb", 1.25), ("Zwei\nZeilen, ja", 2.0)]),
        ("\ufefftext;label\nEin Film;3\n", [("Ein Film", 3.0)]),
        ("text,label\none; two,0.5\nthree; four,1\n", [("one; two", 0.5), ("three; four", 1.0)]),
        ('text,label\n"a; b, c",2\n', [("a; b, c", 2.0)]),
    ],
)
def test_commas_and_semicolons_are_told_apart(write, content, rows):
    found = read_scored_text(write("scores.csv", content))
    assert list(zip(found.texts, found.labels, strict=True)) == rows


def test_semicolons_are_found_without_a_header(write):
    path = write("a.csv", "Ein Film, gut;1\nDumm;0\nSo, so, la, la;1\n")
    found = read_labelled_text(path, text_column=0, label_column=1, has_header=False)
    assert (found.texts, found.labels) == (["Ein Film, gut", "Dumm", "So, so, la, la"], ["1", "0", "1"])


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("['praise', 'joy']", ["praise", "joy"]),
        ("['praise' 'joy']", ["praise", "joy"]),
        ('["a, b", "c"]', ["a, b", "c"]),
        ("['it\\'s']", ["it's"]),
        ("('praise',)", ["praise"]),
        ("{'joy'}", ["joy"]),
        ("[]", []),
        ("[3, 17]", ["3", "17"]),
        ("[other]", ["[other]"]),
        ("(other)", ["(other)"]),
    ],
)
def test_a_list_that_python_wrote_into_a_cell_is_a_list(write, cell, labels):
    quoted = '"' + cell.replace('"', '""') + '"'
    assert read_multi_label_text(write("a.csv", f"text,label\nYes,{quoted}\nNo,x\n")).labels == [labels, ["x"]]


def test_numbers_of_labels_are_names_as_before(write):
    rows = "".join(json.dumps({"text": "Yes", "label": labels}) + "\n" for labels in ([1, 0], [0], [27, 1]))
    assert read_multi_label_text(write("a.jsonl", rows)).labels == [["1", "0"], ["0"], ["27", "1"]]


def test_line_ends_of_old_macintosh_programs_are_read(write):
    expected = (["Yes, he\u2028 said", "No"], None, ["good", "bad"])
    assert columns_of(read_labelled_text(write("a.csv", 'text,label\r"Yes, he\u2028 said",good\rNo,bad\r'))) == expected
    assert (
        columns_of(read_labelled_text(write("a.tsv", "\ufefftext\tlabel\rYes, he\u2028 said\tgood\rNo\tbad\r\n")))
        == expected
    )
    # In a file with other line ends it belongs to a value.
    assert read_labelled_text(write("a.csv", 'text,label\r\n"a\rb",good\r\n')).texts == ["a\rb"]


def test_a_value_may_be_longer_than_csv_readers_usually_take(write):
    text = "word " * 40_000
    assert read_labelled_text(write("a.csv", f'text,label\n"{text}",good\n')).texts == [text.strip()]


LARGE = {
    "a.tsv": b"ab\t" * 6_000_000,
    "a.csv": b'text,label\n"' + (b"no mark " * 1_000 + b"\n") * 2_200,
    "a.jsonl": b"[]," * 6_000_000,
    "a.jsonl.gz": gzip.compress(b"a" * 30_000_000),
    "a.json.gz": gzip.compress(b"[" + b"[]," * 6_000_000),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_row_is_refused_before_it_fills_the_memory(write, name):
    path = write(name, LARGE[name])
    message = "more than 16,000,000 bytes|row that begins in line 2|50 times"
    with memory_below(100_000_000), pytest.raises(InputError, match=message):
        read_labelled_text(path)


MISSING = {
    "a.tsv": "text\tlabel\na\t1\n \t2\nb\t\nc\t3\n",
    "a.csv": 'text,label\na,1\n,2\nb," "\nc,3\n',
    "a.jsonl": '{"text":"a","label":1}\n{"text":null,"label":2}\n{"text":"b","label":NaN}\n{"text":"c","label":3}',
}


@pytest.mark.parametrize("name", MISSING)
@pytest.mark.parametrize("read", [read_labelled_text, read_scored_text])
def test_rows_without_a_value_are_counted_or_left_out(write, caplog, name, read):
    path = write(name, MISSING[name])
    where = 2 if name == "a.jsonl" else 3
    with pytest.raises(InputError, match=f"{name}: 2 of 4 rows .* number 1, .* at line {where}: the text in"):
        read(path)
    found = read(path, skip_missing=True)
    assert (found.texts, list(map(float, found.labels))) == (["a", "c"], [1.0, 3.0])
    assert "2 of 4 rows were left out, because a value is missing." in caplog.text


def test_the_first_row_does_not_decide_which_columns_there_are(write, caplog):
    path = write("a.jsonl", '{"text":"a"}\n{"label":1}\n{"text":"c","label":3}\n')
    with pytest.raises(InputError, match="2 of 3 rows .* number 0, counted from 0, at line 1: there is no column 'lab"):
        read_labelled_text(path)
    assert columns_of(read_labelled_text(path, skip_missing=True)) == (["c"], None, ["3"])
    path = write("b.jsonl", '{"source":"a"}\n{"source":"b","target":"c"}\n')
    assert read_sources_and_targets(path, needs_targets=False) == (["a", "b"], None)
    assert "1 of 2 rows have labels, so none are read" in caplog.text
    assert read_sources_and_targets(path, needs_targets=False, skip_missing=True) == (["b"], ["c"])


def test_choices_targets_and_sets_of_labels_may_be_missing_too(write):
    path = write("a.jsonl", '{"text":"a","c":["x",null],"label":0}\n{"text":"b","c":["x","y"],"label":1}')
    with pytest.raises(InputError, match="1 of 2 rows .* line 1: the choice in column 'c' is None"):
        read_choices(path, choice_columns=["c"])
    assert read_choices(path, choice_columns=["c"], skip_missing=True) == (["b"], [["x", "y"]], ["1"])
    path = write("b.tsv", "source\ttarget\na\t\nb\tc\n")
    assert read_sources_and_targets(path, skip_missing=True) == (["b"], ["c"])
    path = write("c.jsonl", '{"text":"a","label":[null]}\n{"text":"b","label":null}\n{"text":"c","label":[]}')
    assert read_multi_label_text(path, skip_missing=True).labels == [[]]


def test_endless_numbers_as_labels_and_column_names_are_texts(write):
    number = "9" * 5000
    found = read_labelled_text(write("a.tsv", f"text\t{number}\na\t{number}\nb\t10\n"), label_column=number)
    assert in_label_order(found.labels) == ["10", number]
    with pytest.raises(InputError, match="no column 'x'"):
        read_labelled_text(write("a.tsv", f"text\t{number}\na\t{number}\n"), label_column="x")
