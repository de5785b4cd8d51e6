"""A tag for every word of a sentence: named entities, parts of speech. Words -> pieces, and the rows of the model.

A word's tag stands at its first piece; the other pieces, [CLS], [SEP] and padding have the label -1 and count nowhere,
as in TF Model Garden.
"""

import bisect
import dataclasses
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.tasks.tagging import tag_schemes
from keras_bert.tasks.tokenized_texts import take_ranges

# Of fewer words it is not said that they are probably tags.
_FEW_WORDS = 50


@dataclasses.dataclass(frozen=True)
class TaggedSentences:
    """Sentences in words, with or without tags.

    Attributes:
        words: for each sentence its words, one or more, none of them empty.
        tags: for each sentence a tag per word; or None.
        documents: for each sentence the number of its document, rising; one document when None.
        source: where they are from, for messages.
        locations: where each sentence begins, for messages ("line 12"); "sentence 3" when None.
        weights: for each sentence a number of 0 or more, what it counts in training; or None.
        texts: for each sentence the plain text that its words were found in, None for one that was given in words; None
            when all were.
        spans: with `texts`, for each sentence where its words are in the text, in characters.

    Raises:
        InputError: there are none, one is empty, words and tags disagree, or a weight is no such number.
    """

    words: Sequence[Sequence[str]]
    tags: Sequence[Sequence[str]] | None = None
    documents: Sequence[int] | None = None
    source: str = "the examples"
    locations: Sequence[str] | None = None
    weights: Sequence[float] | None = None
    texts: Sequence[str | None] | None = None
    spans: Sequence[Sequence[tuple[int, int]]] | None = None

    def __post_init__(self):
        if not self.words:
            raise InputError(f"{self.source}: there is no sentence.")
        if self.weights is not None:
            if len(self.weights) != len(self.words):
                raise InputError(f"{self.source}: {len(self.words)} sentences but {len(self.weights)} weights.")
            for number, weight in enumerate(self.weights):
                if not 0 <= weight < math.inf:
                    raise InputError(
                        f"{self.source}: the weight of {self.place(number)} must be a number of 0 or more. "
                        f"Received: {weight}"
                    )
        if self.tags is not None and len(self.tags) != len(self.words):
            raise InputError(f"{self.source}: {len(self.words)} sentences but tags of {len(self.tags)}.")
        for number, words in enumerate(self.words):
            if not words or not all(word.strip() for word in words):
                raise InputError(f"{self.source}: {self.place(number)} has no words, or an empty one.")
            if self.tags is not None and len(self.tags[number]) != len(words):
                raise InputError(
                    f"{self.source}: {self.place(number)} has {len(words)} words but {len(self.tags[number])} tags."
                )

    def __len__(self):
        return len(self.words)

    def place(self, number: int) -> str:
        return self.locations[number] if self.locations else f"sentence {number + 1}"

    @property
    def all_tags(self) -> list[str]:
        return [tag for tags in self.tags or () for tag in tags]


def in_one_scheme(sentences: TaggedSentences) -> tuple[TaggedSentences, tag_schemes.TagScheme | None, list[str]]:
    """Brings entity tags into a legal form: IOB1 becomes BIO, an entity that begins in the middle gets its beginning.

    Returns:
        The sentences, the scheme of their tags (None when they mark no entities), and what was changed or is
        suspicious, in words.

    Raises:
        InputError: the tags are of several schemes, or stand where the words belong.
    """
    notes = _swapped_columns(sentences)
    scheme = tag_schemes.find_scheme(sentences.all_tags, sentences.source)
    if scheme is None:
        return sentences, None, notes
    repaired = [tag_schemes.write_tags(tag_schemes.read_entities(tags), len(tags), scheme) for tags in sentences.tags]
    wrong = [number for number, tags in enumerate(sentences.tags) if repaired[number] != list(tags)]
    if not wrong:
        return sentences, scheme, notes
    if scheme == tag_schemes.BIO and tag_schemes.is_iob1(sentences.tags):
        note = "the tags are IOB1, and became BIO"
    else:
        locations = ", ".join(map(sentences.place, wrong[:3])) + (", ..." if len(wrong) > 3 else "")
        note = (
            f"{len(wrong)} sentences have tags that {scheme.name} does not allow, such as an entity that begins "
            f"with I-; they were put right as conlleval reads them. They begin at {locations}"
        )
    return dataclasses.replace(sentences, tags=repaired), scheme, [*notes, note]


def _swapped_columns(sentences: TaggedSentences) -> list[str]:
    """Raises `InputError` when words are entity tags and tags are not; notes when they look like other tags."""
    words = [word for words in sentences.words for word in words]
    tags = sentences.all_tags
    num_tags, num_words = (sum(map(tag_schemes.is_entity_tag, column)) for column in (tags, words))
    ask = "are the columns swapped? In files, --text_column and --label_column choose them"
    has_entities = set(words) != {tag_schemes.OUTSIDE}
    if num_words >= 0.95 * len(words) and num_tags < len(tags) / 2 and (has_entities or len(words) >= _FEW_WORDS):
        raise InputError(
            f"{sentences.source}: the words are tags ({_some(words)}) and the tags are not ({_some(tags)}): {ask}."
        )
    # The word says most of the tag in all data that can be learnt; where words were tags, it would say little.
    pairs = Counter(zip(words, tags, strict=True))
    best = dict.fromkeys(words, 0)
    for (word, _), count in pairs.items():
        best[word] = max(best[word], count)
    num_kinds = len(set(tags))
    if len(tags) < _FEW_WORDS or len(best) == 1 or num_kinds <= 2 * len(best) or sum(best.values()) > 0.4 * len(tags):
        return []
    return [
        f"there are {num_kinds} different tags ({_some(tags)}), and only {len(best)} different words ({_some(words)}): "
        f"{ask}"
    ]


def _some(values: Sequence[str]) -> str:
    """The first few different ones of values, shortened."""
    return ", ".join(value[:20] for value in list(dict.fromkeys(values))[:3]) + ", ..."


def in_scheme(sentences: TaggedSentences, scheme: tag_schemes.TagScheme | None) -> TaggedSentences:
    """Returns the sentences with their entities written in a scheme, whatever scheme they are in.

    Tags that mark no entities stay as they are, and so do all where `scheme` is None.

    Raises:
        InputError: the tags are of several schemes.
    """
    if scheme is None or tag_schemes.find_scheme(sentences.all_tags, sentences.source) is None:
        return sentences
    tags = [tag_schemes.write_tags(tag_schemes.read_entities(tags), len(tags), scheme) for tags in sentences.tags]
    return dataclasses.replace(sentences, tags=tags)


def labels_of(sentences: TaggedSentences) -> list[str]:
    """Returns the labels of a tagger for these sentences, O first.

    Of entities all tags of the scheme are labels, so that a later file may have an `I-LOC` where this has `B-LOC` only.
    IOB1 counts as BIO.

    >>> labels_of(TaggedSentences([["Ada", "wrote"]], [["B-PER", "O"]]))
    ['O', 'B-PER', 'I-PER']

    Raises:
        InputError: there are no tags, all are the same, or they are of several schemes.
    """
    found = set(sentences.all_tags)
    if len(found) < 2:
        raise InputError(
            f"{sentences.source}: a tagger needs words with two different tags or more. Received: "
            f"{', '.join(found) or 'no tags'}. Was the right column named as the tag?"
        )
    scheme = tag_schemes.find_scheme(found, sentences.source)
    if scheme is not None:
        letters = {scheme.begin, scheme.inside, scheme.end, scheme.single}
        types = {tag[2:] for tag in found - {tag_schemes.OUTSIDE}}
        found = {tag_schemes.OUTSIDE, *(f"{letter}-{name}" for name in types for letter in letters)}
    return tag_schemes.tag_order(found)


def tag_ids(sentences: TaggedSentences, labels: Sequence[str]) -> list[list[int]]:
    """Returns the place in `labels` of every tag.

    Raises:
        InputError: there is another tag; the message names it.
    """
    ids = {label: number for number, label in enumerate(labels)}
    result = []
    for number, tags in enumerate(sentences.tags):
        unknown = next((tag for tag in tags if tag not in ids), None)
        if unknown is not None:
            raise InputError(
                f"{sentences.source}: the tag {unknown!r} in the sentence at {sentences.place(number)} does not occur "
                f"in training. The tags are: {', '.join(labels)}"
            )
        result.append([ids[tag] for tag in tags])
    return result


def encode_sentences(
    words: Sequence[Sequence[str]],
    tags: Sequence[Sequence[int]] | None,
    tokenizer,
    max_seq_length: int,
    first_sentence_id: int = 0,
) -> tuple[dict[str, np.ndarray], Counter]:
    """Makes rows [CLS] pieces [SEP]. A sentence that is too long is cut between words into several rows.

    A word that leaves no piece (a control character), or more pieces than a row has room for, becomes one [UNK], so
    that every word has a place and every tag survives.

    Args:
        words: N lists of words.
        tags: N lists of label ids; without them the first pieces get the label 0, so that they are known.
        tokenizer: a `GraphTokenizer`.
        first_sentence_id: the number of the first sentence.

    Returns:
        dict of `input_ids`, `input_mask`, `segment_ids`, `label_ids`, int64 (rows, max_seq_length), `sentence_id` and
        `sub_sentence_id` (rows, 1); and counts: `cut_sentences`, `unknown_words`.

    Reference: TF Model Garden `tagging_data_lib.py`.
    """
    room = max_seq_length - 2
    if room < 1:
        raise ValueError(f"max_seq_length must be at least 3. Received: {max_seq_length}")
    pieces, piece_splits, num_unknown = _pieces_of_words(
        [word for sentence in words for word in sentence], tokenizer, room
    )
    labels = np.zeros(len(piece_splits) - 1, np.int64)
    if tags is not None:
        labels[:] = [tag for sentence in tags for tag in sentence]
    piece_labels = np.full(len(pieces), features.NO_LABEL, np.int64)
    piece_labels[piece_splits[:-1]] = labels

    rows = _rows(np.cumsum([0, *map(len, words)]), piece_splits, room)
    sentence_ids, sub_sentence_ids, first_words, stop_words = np.array(rows, np.int64).T
    firsts = piece_splits[first_words]
    lengths = piece_splits[stop_words] - firsts
    column = np.arange(max_seq_length)
    is_piece = (column >= 1) & (column <= lengths[:, None])
    begin = np.ones_like(lengths)
    vocabulary = tokenizer.vocabulary
    ids = np.where(is_piece, take_ranges(pieces, firsts, is_piece, begin), vocabulary.pad_id)
    ids[:, 0] = vocabulary.cls_id
    ids[np.arange(len(ids)), lengths + 1] = vocabulary.sep_id
    batch = {
        features.INPUT_IDS: ids,
        features.INPUT_MASK: (column <= lengths[:, None] + 1).astype(np.int64),
        features.SEGMENT_IDS: np.zeros_like(ids),
        features.LABEL_IDS: np.where(is_piece, take_ranges(piece_labels, firsts, is_piece, begin), features.NO_LABEL),
        features.SENTENCE_ID: first_sentence_id + sentence_ids[:, None],
        features.SUB_SENTENCE_ID: sub_sentence_ids[:, None],
    }
    return batch, Counter(cut_sentences=len(set(sentence_ids[sub_sentence_ids > 0])), unknown_words=num_unknown)


def _pieces_of_words(words: list[str], tokenizer, room: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns the pieces of all words, int64 (pieces,), where each word's begin, (words + 1,), and how many words
    became [UNK] because they left no piece or too many."""
    tokens = tokenizer.tokenize(words)
    ids, lengths = tokens.values.numpy().astype(np.int64), tokens.row_lengths().numpy()
    is_replaced = (lengths == 0) | (lengths > room)
    if not is_replaced.any():
        return ids, np.concatenate([[0], np.cumsum(lengths)]), 0
    new_lengths = np.where(is_replaced, 1, lengths)
    pieces = np.full(new_lengths.sum(), tokenizer.vocabulary.unk_id, np.int64)
    pieces[~np.repeat(is_replaced, new_lengths)] = ids[~np.repeat(is_replaced, lengths)]
    return pieces, np.concatenate([[0], np.cumsum(new_lengths)]), int(is_replaced.sum())


def _rows(word_splits: np.ndarray, piece_splits: np.ndarray, room: int) -> list[tuple[int, int, int, int]]:
    """Returns (sentence, part of it, first word, word after the last) of each row: words go into it while they fit."""
    rows = []
    piece_splits = piece_splits.tolist()
    for sentence, (first, stop) in enumerate(zip(word_splits[:-1].tolist(), word_splits[1:].tolist(), strict=True)):
        part = 0
        while first < stop:
            # The last word whose pieces still fit.
            after = bisect.bisect_right(piece_splits, piece_splits[first] + room, first, stop + 1) - 1
            rows.append((sentence, part, first, after))
            first, part = after, part + 1
    return rows
