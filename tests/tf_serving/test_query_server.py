"""A server can be asked from the command line, and its answers are readable."""

import contextlib
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from places import PROJECT

from keras_bert.program.errors import InputError
from run_scripts import query_server
from run_scripts.questions import print_answers, read_rows
from run_scripts.readable_answers import printable, readable_answers


@pytest.fixture
def query(run_here):
    """Runs the command: (*arguments, input=b"") -> exit code, standard output, standard error."""

    def run(*arguments, input=b""):
        code, shown = run_here(query_server, *arguments, input=input)
        return code, shown.out, shown.err

    return run


def strings(*values) -> np.ndarray:
    return np.array(values, object)


def lines(outputs, **inputs) -> list[str]:
    [answer] = readable_answers(outputs, {name: [value] for name, value in inputs.items()})
    return answer.split("\n")


def test_texts_from_flags_are_answered_over_both_transports(server, query):
    expected = "a long text\n  long   0.7333\n  short  0.2667\n\na\n  short  0.8000\n  long   0.2000\n\n"
    for place in ([f"--url={server.url}"], [f"--url={server.address}", "--grpc"]):
        assert query(*place, "--model=toy", "--text=a long text", "--text=a") == (0, expected, "")


def test_lines_of_standard_input_are_answered_in_their_order(server, query):
    texts = [b"x" * (number % 9 + 1) for number in range(70)] + [b"\xff\xffabc", b""]
    texts[3], texts[69] = b"", b""  # each blank line is an empty text
    code, shown, _ = query(f"--url={server.url}", "--model=toy", "--json", input=b"\n".join(texts) + b"\r\n")
    assert code == 0
    answers = [json.loads(line) for line in shown.splitlines()]
    expected = [len(text) / (len(text) + 4) for text in texts]
    assert [answer["probabilities"][1] for answer in answers] == pytest.approx(expected)
    assert answers[0]["label"] == "short"


def test_each_line_is_a_question_and_those_before_a_wrong_one_are_answered():
    class Model:
        folder, columns = "it", ("prompt", "choices")

        def ask(self, prompts, choices):
            return [f"  {len(some)}" for some in choices]

    rows = read_rows([b"a\tx\ty\n", b"\tx\n", b"\n", b"b\tx\n"], Model.columns)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), pytest.raises(InputError, match="Line 3 .* no choices.* a blank line"):
        print_answers(Model(), rows, 32, with_questions=True)
    assert shown.getvalue() == "a\n  2\n\n(empty text)\n  1\n\n"
    assert list(read_rows([b"\r\n", b"a\n"], ("text",))) == [(b"",), (b"a",)]
    assert list(read_rows([b"\n", b"a\tb\n"], ("text", "text_b"))) == [(b"", b""), (b"a", b"b")]
    for line in (b"\n", b"Who?\n", b"Who?\t \n"):
        with pytest.raises(InputError, match="Line 1 cannot be asked: it has no context after a tab"):
            list(read_rows([line], ("question", "context")))


def test_other_signatures_are_listed_by_name(server, query):
    code, shown, _ = query(f"--url={server.url}", "--model=toy", "--signature=length", "--text=abc", "--label=stable")
    assert (code, shown) == (0, "abc\n  length  3\n\n")


def test_status_and_metadata_are_shown(server, query):
    for place in ([f"--url={server.url}"], [f"--url=http://{server.address}", "--grpc"]):
        assert query(*place, "--model=toy", "--status", "--wait=5") == (0, "version 2  END\nversion 3  AVAILABLE\n", "")
        code, shown, _ = query(*place, "--model=toy", "--metadata", "--version=3")
        assert code == 0
        assert shown.startswith("toy, version 3\n\nadd\n  takes a  float [?, ?]\n  takes b  float [?, ?]\n  gives ")
        assert "serving_default\n  takes text  string [?]\n  gives label  string [?]\n" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--model=other --text=a", "NOT_FOUND"),
        ("--model=toy --text=a --version=2", "NOT_FOUND"),
        ("--model=toy --signature=no --text=a", "has no signature 'no'. It has: add, classify, echo, length,"),
        ("--model=toy --signature=add --text=a", "takes a, b in add"),
        ("--model=toy --text=a --text_b=b", "The model toy takes single texts"),
        ("--model=toy", "No text was given. Use --text=..., or write texts to standard input"),
        ("--model=toy --url=https://h --ca_file=no.pem --text=a", "Cannot read --ca_file=no.pem"),
        ("--model=toy --url=ftp://127.0.0.1:1 --grpc --text=a", "With --grpc, --url must be host:port"),
        ("--model=toy --url=127.0.0.1:8501 --text=a", "Write http://host:port"),
    ],
)
def test_what_cannot_be_asked_is_one_clear_line(server, query, arguments, message):
    code, shown, error = query(f"--url={server.url}", *arguments.split())
    assert (code, shown, error.count("\n")) == (1, "", 1)
    assert error.startswith("error: ")
    assert message in error


def test_a_model_must_be_named(query):
    code, _, error = query("--text=a")
    assert (code, "--model" in error) == (2, True)


def test_asking_needs_no_tensorflow(server):
    program = (
        "import sys, run_scripts.query_server as q; before = set(sys.modules)\n"
        f"sys.argv = ['q', '--url={server.url}', '--model=toy', '--text=a']\n"
        "try: q.command()\n"
        "except SystemExit as end: print(end.code)\n"
        "print([name for name in ('tensorflow', 'keras', 'grpc', 'google.protobuf') if name in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=PROJECT)
    assert result.stdout.splitlines()[-1] == "[]", result.stderr


def test_a_long_context_is_shortened_around_its_answer():
    context = b"so " * 50 + b"Ada wrote the \xc3\xa9 program" + b" so" * 50
    start = context.index(b"Ada")
    outputs = {"answer": strings("Ada"), "start": [start], "end": [start + 3], "probability": [0.75]}
    outputs |= {"answers": strings(["Ada", "Ada wrote"]), "starts": [[start] * 2], "ends": [[start + 3, start + 9]]}
    outputs |= {"probabilities": [[0.75, 0.0625]], "is_null": [[False, False]]}
    marked, best, other = lines(outputs, question="Who?", context=context)
    assert marked.startswith("  ... so so")
    assert marked.endswith("so so ...")
    assert " so [[Ada]] wrote the \u00e9 program so " in marked
    assert (best, other.strip()) == ("  Ada  0.7500", "Ada wrote  0.0625")
    outputs |= {"answer": strings(""), "start": [-1], "end": [-1]}
    assert lines(outputs, question="Who?", context=context)[0].strip() == "(no answer)  0.7500"


def test_tokens_are_shown_with_their_parts_of_the_text():
    outputs = {"input_ids": [[101, 7, 8, 102, 0]], "lengths": [4]}
    outputs |= {"starts": [[-1, 0, 2, -1, -1]], "ends": [[-1, 2, 6, -1, -1]]}
    assert lines(outputs, text="\u00e9fox!") == ["  101 \u00e9/7 fox!/8 102"]
    assert lines(outputs, text="\u00e9fox!", text_b="b") == ["  101 7 8 102"]


def test_outputs_of_other_models_are_listed():
    assert lines({"classes": strings(["a", "b"]), "scores": [[0.25, 0.75]]}) == ["  b  0.7500", "  a  0.2500"]
    choice = {"choice": [1], "text": strings("no"), "probability": [0.75], "probabilities": [[0.25, 0.75, 0]]}
    assert "choice" in lines(choice)[0]  # without the choices of the question
    outputs = {"b": [[1.5, 2]], "a": [b"x\xff"], "long": np.arange(20).reshape(1, 4, 5)}
    assert lines(outputs) == ["  a     x\ufffd", "  b     1.5000 2.0000", "  long  0 1 2 3 4 5 ...  (4 x 5)"]
    assert readable_answers({"a": np.zeros([0, 2])}, {}) == []


def test_nothing_that_steers_a_terminal_is_printed():
    assert printable("a\x1b[31m\tb\r\n\u202ec\u200dd\xa0e") == "a\ufffd[31m b  \ufffdc\u200dd e"
    label = lines({"label": strings("x"), "labels": strings(["\x1b[2Jx"]), "probability": [1], "probabilities": [[1]]})
    assert label == ["  \ufffd[2Jx  1.0000"]
