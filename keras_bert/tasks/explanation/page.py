"""Explanations as HTML without scripts or files beside it: a page, and a part of a notebook."""

import os
from collections.abc import Sequence

from keras_bert.program.printing import LONGEST_LINE, html_text
from keras_bert.tasks.explanation.explaining import Explanation, TokenScore
from keras_bert.tasks.report_files import write_text

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.7 system-ui, sans-serif; }
body { max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
section { border-top: 1px solid #8888; padding: 1rem 0; }
h1 { font-size: 1.1rem; margin: 0 0 .3rem; }
p { margin: .4rem 0; }
.note { font-size: .85rem; opacity: .75; }
"""
# Styles are in the elements, because notebooks drop style sheets.
_TITLE = "font-size:1.1rem;margin:0 0 .3rem"
_TEXT = "white-space:pre-wrap;overflow-wrap:anywhere"
_MARKS = {
    "for": "color:inherit;background:rgba(30,130,230,{:.3f})",
    "against": "color:inherit;background:rgba(230,90,30,{:.3f});text-decoration:underline dotted",
}
_MOST_OPAQUE = 0.65
_LONGEST_TARGET = 500


def write_explanation_page(path: str | os.PathLike, explanations: Sequence[Explanation]) -> None:
    """Writes explanations as an HTML page: each word is marked by the sum of the scores of its pieces.

    Raises:
        InputError: the file cannot be written.
    """
    write_text(path, explanation_page(explanations))


def explanation_page(explanations: Sequence[Explanation]) -> str:
    """Returns explanations as an HTML page that needs no script and no other file; texts are escaped."""
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Explanations</title><style>{_STYLE}</style>\n<h1>Explanations</h1>\n{explanation_part(explanations)}"
        "</html>\n"
    )


def explanation_part(explanations: Sequence[Explanation]) -> str:
    """Returns explanations as a part of an HTML page, as notebooks show it; texts are escaped."""
    return (
        f'<p class="note">{_mark("for", 0.5, "blue")} speaks for the answer, {_mark("against", 0.5, "orange")} against '
        "it. Point at a word to see its number.</p>\n" + "".join(map(_section, explanations))
    )


def _section(explanation: Explanation) -> str:
    words = _words(explanation.tokens)
    largest = max((abs(score) for score in words.values()), default=0.0) or 1.0
    texts = "".join(
        f'<p style="{_TEXT}">{_marked(text, number, words, largest)}</p>\n'
        for number, text in enumerate(explanation.texts)
    )
    note = explanation.method.replace("_", " ")
    if explanation.output is not None:
        note += (
            f"; output {explanation.output:.4f}, of the baseline {explanation.baseline_output:.4f}, completeness error "
            f"{explanation.completeness_error:.1e}"
        )
    target = html_text(explanation.target, _LONGEST_TARGET)
    return f'<section><h2 style="{_TITLE}">{target}</h2>\n{texts}<p class="note">{note}</p></section>\n'


def _words(tokens: Sequence[TokenScore]) -> dict[tuple[int, int, int], float]:
    """Returns (text, start, end) of each word -> the sum of the scores of its pieces."""
    words: dict = {}
    for token in tokens:
        if token.text is not None:
            key = token.text, token.word_start, token.word_start + len(token.word)
            words[key] = words.get(key, 0.0) + token.score
    return words


def _marked(text: str, number: int, words: dict, largest: float) -> str:
    parts, done = [], 0
    for (_, start, end), score in sorted(item for item in words.items() if item[0][0] == number):
        start = max(start, done)
        if start >= end:
            continue
        share = _MOST_OPAQUE * abs(score) / largest
        kind = "for" if score > 0 else "against"
        parts.append(html_text(text[done:start], LONGEST_LINE))
        parts.append(_mark(kind, share, html_text(text[start:end], LONGEST_LINE), f' title="{score:+.4f}"'))
        done = end
    return "".join([*parts, html_text(text[done:], LONGEST_LINE)])


def _mark(kind: str, share: float, html: str, attributes: str = "") -> str:
    return f'<mark class="{kind}" style="{_MARKS[kind].format(share)}"{attributes}>{html}</mark>'
