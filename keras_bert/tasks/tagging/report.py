"""The evaluation report of a tagger: scores of each entity type, and the worst errors; and its tags as a CoNLL file."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from keras_bert.tasks.classification.scores import SCORES_OF_LABELS
from keras_bert.tasks.report_files import aligned, draw_labels, write_errors, write_table, write_text
from keras_bert.tasks.tagging.examples import TaggedSentences
from keras_bert.tasks.tagging.scores import TagLists, count_table, entity_scores
from keras_bert.tasks.tagging.tag_schemes import find_scheme, read_entities

_HEADER = ("type", *SCORES_OF_LABELS)


def write_tag_report(
    folder: str | os.PathLike,
    words: TagLists,
    gold: TagLists,
    predicted: TagLists,
    losses: Sequence[float],
    scores: Mapping[str, float],
) -> None:
    """Writes the report on a tagger. Existing files are replaced.

        report.txt       scores and the table, for people
        entities.tsv     precision, recall and F1 of each type, then micro and macro
        entities.png     the same as a picture
        errors.tsv       the sentences with a wrong tag, the highest loss first

    If tags mark no entities, tags.tsv and tags.png are written instead of the entity files, with a line for each tag.

    Raises `InputError` if the files cannot be written.

    Args:
        words, gold, predicted: N lists of words, and of their tags.
        losses: N losses.
        scores: name -> value, the first lines of `report.txt`.
    """
    marks_entities = find_scheme(tag for tags in (*gold, *predicted) for tag in tags) is not None
    if marks_entities:
        name, describe = "entities", _entities_in_words
        table = entity_scores(gold, predicted).rows
    else:
        name, describe, table = "tags", _wrong_words, _tag_table(gold, predicted)
    write_table(os.path.join(folder, f"{name}.tsv"), _HEADER, table)
    pairs = list(zip(words, gold, predicted, strict=True))
    columns = {
        "text": [" ".join(sentence) for sentence in words],
        "right": [describe(sentence, right, found) for sentence, right, found in pairs],
        "predicted": [describe(sentence, found, right) for sentence, right, found in pairs],
        "loss": losses,
    }
    num_wrong = write_errors(folder, "sentence", columns, [list(right) != list(found) for _, right, found in pairs])
    counts = [["sentences", len(words)], ["words", sum(map(len, words))]]
    text = aligned(["", "value"], [*counts, *([key, float(value)] for key, value in scores.items())])
    text += "\n" + aligned(_HEADER, table)
    text += f"\n{num_wrong} of {len(words)} sentences have a wrong tag: errors.tsv\n"
    write_text(os.path.join(folder, "report.txt"), text)
    draw_labels(os.path.join(folder, f"{name}.png"), table, "Types" if marks_entities else "Tags")


def _tag_table(gold: TagLists, predicted: TagLists) -> list[list]:
    """Returns the rows of the table for tags that mark no entities, counted by word."""
    pairs = [pair for tags in zip(gold, predicted, strict=True) for pair in zip(*tags, strict=True)]
    right = Counter(one for one, other in pairs if one == other)
    return count_table(right, Counter(other for _, other in pairs), Counter(one for one, _ in pairs))


def _entities_in_words(words: Sequence[str], tags: Sequence[str], _: Sequence[str]) -> str:
    """`Ada Lovelace (PER), London (LOC)`."""
    entities = read_entities(tags)
    return ", ".join(f"{' '.join(words[entity.start : entity.end])} ({entity.type})" for entity in entities)


def _wrong_words(words: Sequence[str], tags: Sequence[str], others: Sequence[str]) -> str:
    """`flies (VERB), fast (ADV)`: the words whose tags differ."""
    rows = zip(words, tags, others, strict=True)
    return ", ".join(f"{word} ({tag})" for word, tag, other in rows if tag != other)


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
