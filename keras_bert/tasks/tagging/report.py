"""The evaluation report of a tagger: scores of each entity type, and the worst errors; and its tags as a CoNLL file."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from keras_bert.tasks.report_files import BLUE, GREY, ORANGE, aligned, draw, write_table, write_text
from keras_bert.tasks.tagging.examples import TaggedSentences
from keras_bert.tasks.tagging.scores import EntityScores, TagLists, entity_scores
from keras_bert.tasks.tagging.tag_schemes import find_scheme, read_entities

_HEADER = ("type", "precision", "recall", "f1", "occurs", "predicted")
_MOST_TYPES_DRAWN = 40
_LONGEST_NAME = 24


def write_tag_report(
    folder: str | os.PathLike,
    words: TagLists,
    gold: TagLists,
    predicted: TagLists,
    losses: Sequence[float],
    scores: Mapping[str, float],
) -> None:
    """Writes the report on a tagger.

        report.txt       scores and the table, for people
        entities.tsv     precision, recall and F1 of each type, then micro and macro
        entities.png     the same as a picture
        errors.tsv       the sentences with a wrong tag, the highest loss first

    If tags mark no entities, tags.tsv and tags.png are written instead of the entity files, with a line for each tag.

    Args:
        folder: the folder to write to. Existing files are replaced.
        words: N lists of words.
        gold, predicted: N lists of tags.
        losses: N losses.
        scores: name -> value, the first lines of `report.txt`.

    Raises:
        InputError: the files cannot be written.
    """
    marks_entities = find_scheme(tag for tags in (*gold, *predicted) for tag in tags) is not None
    table = _entity_rows(entity_scores(gold, predicted)) if marks_entities else _tag_rows(gold, predicted)
    name = "entities" if marks_entities else "tags"
    write_table(os.path.join(folder, f"{name}.tsv"), _HEADER, table)
    describe = _entities_in_words if marks_entities else _wrong_words
    wrong = [
        number
        for number in np.argsort(-np.asarray(losses), kind="stable")
        if list(gold[number]) != list(predicted[number])
    ]
    write_table(
        os.path.join(folder, "errors.tsv"),
        ["sentence", "text", "right", "predicted", "loss"],
        (
            [
                number + 1,
                " ".join(words[number]),
                describe(words[number], gold[number], predicted[number]),
                describe(words[number], predicted[number], gold[number]),
                float(losses[number]),
            ]
            for number in wrong
        ),
    )
    counts = [["sentences", len(words)], ["words", sum(map(len, words))]]
    text = aligned(["", "value"], [*counts, *([key, float(value)] for key, value in scores.items())])
    text += "\n" + aligned(_HEADER, table)
    text += f"\n{len(wrong)} of {len(words)} sentences have a wrong tag: errors.tsv\n"
    write_text(os.path.join(folder, "report.txt"), text)
    _draw(os.path.join(folder, f"{name}.png"), table, "Types" if marks_entities else "Tags")


def _entity_rows(scores: EntityScores) -> list[list]:
    return [[row.name, row.precision, row.recall, row.f1, row.support, row.predicted] for row in scores.rows]


def _tag_rows(gold: TagLists, predicted: TagLists) -> list[list]:
    """Returns the rows of the table for tags that mark no entities, counted by word."""
    pairs = [pair for tags in zip(gold, predicted, strict=True) for pair in zip(*tags, strict=True)]
    right = Counter(one for one, other in pairs if one == other)
    occurs, guessed = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    return [
        [
            tag,
            right[tag] / guessed[tag] if guessed[tag] else 0.0,
            right[tag] / occurs[tag] if occurs[tag] else 0.0,
            2 * right[tag] / (guessed[tag] + occurs[tag]),
            occurs[tag],
            guessed[tag],
        ]
        for tag in sorted(occurs | guessed)
    ]


def _entities_in_words(words: Sequence[str], tags: Sequence[str], _: Sequence[str]) -> str:
    """`Ada Lovelace (PER), London (LOC)`."""
    entities = read_entities(tags)
    return ", ".join(f"{' '.join(words[entity.start : entity.end])} ({entity.type})" for entity in entities)


def _wrong_words(words: Sequence[str], tags: Sequence[str], others: Sequence[str]) -> str:
    """`flies (VERB), fast (ADV)`: the words whose tags differ."""
    rows = zip(words, tags, others, strict=True)
    return ", ".join(f"{word} ({tag})" for word, tag, other in rows if tag != other)


def _draw(path: str, table: list[list], title: str) -> None:
    rows = sorted(table, key=lambda row: -row[4])[:_MOST_TYPES_DRAWN] if len(table) > _MOST_TYPES_DRAWN else table

    def on(axis):
        heights = np.arange(len(rows))
        for offset, column, color, name in (
            (-0.25, 1, GREY, "precision"),
            (0, 2, ORANGE, "recall"),
            (0.25, 3, BLUE, "F1"),
        ):
            axis.barh(heights + offset, [row[column] for row in rows], 0.23, color=color, label=name)
        names = [row[0] if len(row[0]) <= _LONGEST_NAME else row[0][: _LONGEST_NAME - 1] + "…" for row in rows]
        labels = [f"{name} ({row[4]})" for name, row in zip(names, rows, strict=True)]
        axis.set_yticks(heights, labels, parse_math=False)
        axis.invert_yaxis()
        axis.set_xlim(0, 1)
        axis.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        axis.set_title(f"{title}, and how often they occur", loc="left", fontsize=10)

    draw(path, (7.0, 1.4 + 0.5 * len(rows)), on)


def conll_lines(sentences: TaggedSentences, predicted: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields the lines of a CoNLL file: a line per word with its tags, and an empty line after each sentence.

    Columns are separated by spaces, as conlleval requires, or by tabs if a word contains a space. If there are several
    documents, each begins with a -DOCSTART- line with the same number of columns.
    """
    separator = "\t" if any(len(word.split()) > 1 for words in sentences.words for word in words) else " "
    tags = [predicted] if sentences.tags is None else [sentences.tags, predicted]
    documents = sentences.documents or [0] * len(sentences)
    previous = -1 if documents[-1] else 0
    for number, words in enumerate(sentences.words):
        if documents[number] != previous:
            yield separator.join(["-DOCSTART-", *["O"] * len(tags)])
            yield ""
            previous = documents[number]
        for columns in zip(words, *(column[number] for column in tags), strict=True):
            yield separator.join(columns)
        yield ""
