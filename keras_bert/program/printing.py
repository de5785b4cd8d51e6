"""Makes text from files, users and servers safe to show: control characters, very long lines, secrets in URLs.

Everything that people see passes one of four places: the message of an `InputError`, the two streams of a command, the
notes of `tasks/base.py`, and the writers of Markdown and HTML. Files of data keep their texts exactly.
"""

import html
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

# Longer lines of a command's output are shortened.
LONGEST_LINE = 10_000
# The words that replace the middle of a longer text have fewer characters.
_LONGEST_GAP = 50
# Format characters that join the letters of Persian and Indian words, and emojis.
_JOINERS = "\u200c\u200d"
# The bound keeps the search linear.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s'\"<>]+")
_USER = re.compile(r"(?<=://)[^/\s]*@")
_VALUE = re.compile(r"(?<==)[^&;#]+")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]|#~$])")


def printable(text: str | bytes, longest: int | None = None) -> str:
    r"""Returns a text that prints on one line.

    White space becomes a space. Other characters without a form of their own become U+FFFD, one for one: controls such
    as ESC, marks that reverse the order of letters, halves of surrogate pairs, and bytes that are not UTF-8.

    >>> printable("a\tb\x1b[31m\u202e") == "a b\ufffd[31m\ufffd"
    True

    Args:
        longest: a longer text, of 100 characters or more, loses its middle, so that it has no more than this.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if longest is not None and len(text) > longest:
        room = longest - _LONGEST_GAP
        start, end = room * 2 // 3, len(text) - room // 3
        text = f"{text[:start]} [... {end - start:,} characters ...] {text[end:]}"
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign in _JOINERS else " " if sign.isspace() else "\ufffd" for sign in text
    )


def without_secrets(text: str) -> str:
    """Returns a text whose URLs have no user, password or values of a query.

    >>> without_secrets("Cannot read https://ada:word@host/a.csv?sig=123&x=4 now")
    'Cannot read https://***@host/a.csv?sig=***&x=*** now'
    """
    return _URL.sub(_hidden, text) if "://" in text else text


def _hidden(match: re.Match) -> str:
    url = match[0].rstrip(".,:;)")  # they belong to the sentence
    is_web = url.lower().startswith("http")
    # In abfs://container@account the first part is no secret.
    address = _USER.sub(lambda user: "***@" if is_web or ":" in user[0] else user[0], url)
    address, mark, query = address.partition("?")
    path, sharp, anchor = address.partition("#")
    if "=" not in query and is_web and query:
        query = "***"  # in other URLs, such as gs://, a question mark belongs to a pattern of names
    return path + sharp + _VALUE.sub("***", anchor) + mark + _VALUE.sub("***", query) + match[0][len(url) :]


def recordable(value: Any) -> Any:
    """Returns JSON values as files record them: strings have no secrets of URLs and can be written as UTF-8."""
    if isinstance(value, str):
        return without_secrets(value).encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {name: recordable(inner) for name, inner in value.items()}
    return [recordable(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def markdown(text: str, longest: int | None = None) -> str:
    r"""Returns Markdown, on one line, that shows `text` as it is, in a paragraph or a cell of a table.

    >>> print(markdown("<b> a|b"))
    &lt;b&gt; a\|b
    """
    return _MARKDOWN.sub(r"\\\1", html.escape(printable(text, longest), quote=False))


def html_text(text: str, longest: int | None = None) -> str:
    """Returns HTML that shows `text` as it is; line breaks are kept."""
    return "\n".join(html.escape(printable(line, longest)) for line in text.split("\n"))


class PrintableStream:
    """A text stream that writes printable lines to another one.

    Args:
        stream: where the lines are written. It also does all other operations.
        has_secrets: whether `without_secrets` is applied too.
    """

    def __init__(self, stream: TextIO, has_secrets: bool = False):
        self.exact = stream
        self._has_secrets = has_secrets

    def write(self, text: str) -> int:
        # A progress line begins with a carriage return. Tabs separate columns.
        start = "\r" if text.startswith("\r") else ""
        shown = without_secrets(text) if self._has_secrets else text
        lines = shown.removeprefix(start).split("\n")
        lines = [printable(line, LONGEST_LINE) if len(line) > LONGEST_LINE else line for line in lines]
        cells = ("\t".join(map(printable, line.split("\t"))) for line in lines)
        self.exact.write(start + "\n".join(cells))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name):
        return getattr(self.exact, name)


def print_data(text: str) -> None:
    r"""Prints JSON for other programs on standard output: nothing is shortened.

    Characters that `printable` replaces are escaped instead, as JSON can: ESC becomes \u001b.
    """
    shown = "".join(sign if sign.isprintable() or sign in "\n" + _JOINERS else _escaped(sign) for sign in text)
    print(shown, file=getattr(sys.stdout, "exact", sys.stdout), flush=True)


def _escaped(sign: str) -> str:
    units = sign.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[first : first + 4]}" for first in range(0, len(units), 4))
