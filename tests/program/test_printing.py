"""What people are shown: no control characters, no endless lines, no secrets, whatever files and users have put in."""

import io
import json
import logging
import pickle
import shutil
import subprocess
import sys

import pytest

from data_prep.pretraining.record_folder import RecordFolder
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError, UntrainedWarning
from keras_bert.program.printing import (
    PrintableStream,
    html_text,
    markdown,
    print_data,
    printable,
    recordable,
    without_secrets,
)
from keras_bert.tf_serving.server.page import page_html

# ESC with a colour, a title and a mark of C1; NUL, DEL; marks that reverse letters; half of a pair.
EVIL = "a\x1b[31mb\x1b]0;t\x07\x9b2J\x00\x7f\u202ec\u2066\u200f\ud800"
SECRETS = ("word", "ada", "abc", "123", "T0K")


def is_clean(text):
    return all(sign.isprintable() or sign in "\n\t" for sign in text)


def test_a_printable_text_has_one_line_and_keeps_its_letters():
    assert is_clean(printable(EVIL + "\r\n\v\x85\u2028"))
    assert len(printable(EVIL)) == len(EVIL)
    for text in ("Größe 中文 العربية עברית", "می\u200cخواهم", "👩\u200d🚀"):
        assert printable(text) == text
    assert printable(b"caf\xc3\xa9 \xff") == "café \ufffd"


def test_a_long_text_is_shortened_in_its_middle():
    text = printable("a" * 10_000_000 + "end", 300)
    assert text == "a" * 166 + " [... 9,999,754 characters ...] " + "a" * 80 + "end"
    assert printable(text, 300) == text
    assert printable("a" * 300, 300) == "a" * 300


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ada:word@host:80/a/b.csv", "https://***@host:80/a/b.csv"),
        ("https://T0K@host/a", "https://***@host/a"),
        ("http://ada:wo#r?d@host/a", "http://***@host/a"),
        ("S3://ada:word@bucket/*.txt", "S3://***@bucket/*.txt"),
        ("https://host/a?X-Amz-Signature=abc&x=123#t=T0K", "https://host/a?X-Amz-Signature=***&x=***#t=***"),
        ("https://host/a?abc", "https://host/a?***"),
        ("https://host/a#access_token=T0K", "https://host/a#access_token=***"),
        ("https://a/https://ada:word@host/x", "https://a/https://***@host/x"),
        ("zip://*.txt::https://ada:word@host/x?sig=123", "zip://*.txt::https://***@host/x?sig=***"),
        ("gs://bucket/date=2024/part-?.txt", "gs://bucket/date=2024/part-?.txt"),
        ("abfs://container@account.dfs/x", "abfs://container@account.dfs/x"),
        ("who? a=b", "who? a=b"),
    ],
)
def test_urls_are_shown_without_secrets(url, shown):
    assert without_secrets(f"Cannot read {url}, '{url}'") == f"Cannot read {shown}, '{shown}'"
    assert without_secrets(url) == shown
    assert not any(secret in shown for secret in SECRETS)


def test_secrets_are_found_in_linear_time():
    # In quadratic time each of these would take an hour.
    assert without_secrets("a" * 3_000_000 + "://" + ":" * 1_000_000)
    assert without_secrets("://a@b?" * 300_000)


@pytest.mark.parametrize("kind", [InputError, UntrainedWarning])
def test_every_message_is_one_clean_line_of_bounded_length(kind):
    error = kind(f"https://ada:word@host?sig=123 {EVIL}\nnext line " + "x" * 10_000_000 + " Do that.")
    assert is_clean(str(error))
    assert "\n" not in str(error)
    assert len(str(error)) < 5_000
    assert str(error).startswith("https://***@host?sig=*** a")
    assert str(error).endswith(" Do that.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_command_prints_clean_lines_everywhere(capsys, monkeypatch):
    def main():
        print("out", EVIL, "x" * 1_000_000, sep="\n")
        sys.stdout.writelines([EVIL, "a\tb\n"])
        print_data(json.dumps([EVIL, "中", "y" * 50_000], ensure_ascii=False))
        print("\rprogress", file=sys.stderr)
        logging.getLogger("data_prep.x").warning("log %s of %s", EVIL, "https://ada:word@host")
        print(f"warning {EVIL}", file=sys.stderr)
        raise InputError(f"{EVIL} https://host/?sig=123")

    monkeypatch.setattr(sys, "argv", ["command"])
    with pytest.raises(SystemExit):
        run_command(main, lambda: None)
    out, err = capsys.readouterr()
    assert is_clean(out)
    assert is_clean(err.replace("\rprogress\n", "", 1))
    assert len(out.split("\n")[2]) < 11_000
    assert "\na\tb" not in out
    assert "a\tb\n" in out
    assert json.loads(out.splitlines()[-1]) == [EVIL, "中", "y" * 50_000]
    assert "中" in out
    assert [line[:7] for line in err.splitlines() if "a\ufffd" in line] == ["log a\ufffd[", "warning", "error: "]
    assert not any(secret in err for secret in ("word", "123"))
    monkeypatch.setattr(sys, "argv", ["command", f"https://ada:word@host/{EVIL}"])
    with pytest.raises(SystemExit):
        run_command(lambda: None, lambda: None)
    assert "***@host" in (err := capsys.readouterr().err)
    assert is_clean(err)


def test_the_stream_of_a_command_does_the_rest_as_before():
    inner = io.StringIO()
    stream = PrintableStream(inner)
    assert stream.write("a\x1b\r\n") == 4
    assert stream.getvalue() == "a\ufffd \n"
    assert not stream.isatty()
    assert stream.exact is inner


def test_markdown_and_html_show_texts_as_they_are():
    text = f"<script>|`*_[x](y)&lt;\n---\n# {EVIL}"
    assert markdown(text).startswith(r"&lt;script&gt;\|\`\*\_\[x\](y)&amp;lt; --- \# a")
    assert is_clean(markdown(text))
    assert "\n" not in markdown(text)
    assert html_text('<b>"\n' + EVIL).startswith("&lt;b&gt;&quot;\na")
    assert is_clean(html_text(EVIL))


def test_what_is_recorded_has_no_secrets_and_can_be_written():
    given = {"input_file": ["https://ada:word@host/x?sig=123", "caf\udce9.txt"], "steps": 3, "none": None}
    assert recordable(given) == {"input_file": ["https://***@host/x?sig=***", "caf?.txt"], "steps": 3, "none": None}


def test_a_run_is_resumed_with_another_signature(tmp_path):
    folder = [RecordFolder(f"{tmp_path}/", {"input_file": [f"https://host/x?sig={sig}"]}) for sig in ("abc", "123")]
    folder[0].write_progress([])
    assert "abc" not in (tmp_path / "unfinished.json").read_text()
    assert folder[1].read_progress() == {}


def test_the_page_of_the_server_replaces_the_same_characters():
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    page = page_html().decode()
    script = page[page.index("function printable") : page.index("function showError")]
    texts = [EVIL, "Größe 中文 العربية", "می\u200cخواهم 👩\u200d🚀", "a\n\tb\u2028"]
    code = f"{script}; console.log(JSON.stringify({json.dumps(texts)}.map(printable)))"
    shown = json.loads(subprocess.run([node, "-e", code], capture_output=True, check=True, text=True).stdout)
    assert shown == [printable(EVIL), texts[1], texts[2], "a\n\tb\ufffd"]
    assert "child instanceof Node ? child : printable(child)" in page  # every element is made there
