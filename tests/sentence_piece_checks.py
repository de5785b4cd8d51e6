"""Texts for SentencePiece, and the comparison of its graph with Python."""

import itertools
import re

from generated_texts import generated_texts

from keras_bert.tokenization.sentence_piece_model import SentencePieceModel


def texts_of(seed, count):
    texts = (text.decode("utf-8", "ignore") for _, text in generated_texts(seed, ("the", "##est", "2010,")))
    # Python's Unicode may be newer than 14.0. The rules ignore context, which matters only for a final sigma.
    texts = (text for text in texts if not re.search("[\u03a3\U0001d6ba]", text))
    return list(itertools.islice(texts, count))


def in_bytes(text, places):
    lengths = [len(character.encode("utf-8", "surrogateescape")) for character in text]
    sums = [0, *itertools.accumulate(lengths)]
    return [sums[place] for place in places]


def is_tie(tokenizer, ids, others):
    """Whether two ways to divide a text are equally probable: "000" into "0" "00", and into "00" "0"."""
    scores = [piece.score for piece in SentencePieceModel.from_bytes(tokenizer.effective_model).pieces]
    sums = [sum(scores[number] for number in row) for row in (ids, others)]
    return ids != others and tokenizer.decode(ids) == tokenizer.decode(others) and abs(sums[0] - sums[1]) < 1e-4


def graph_differences(tokenizer, texts):
    """The texts for which the graph gives other ids or offsets than Python, without exact ties."""
    encoded = [text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape") for text in texts]
    rows = zip(*(part.to_list() for part in tokenizer.graph().tokenize_with_offsets(encoded)), strict=True)
    only_ids = tokenizer.graph().tokenize(encoded).to_list()
    different = []
    for data, row, ids_of_graph in zip(encoded, rows, only_ids, strict=True):
        ids, starts, ends = tokenizer.tokenize_with_offsets(data)
        text = data.decode("utf-8", "surrogateescape")
        assert ids == tokenizer.encode(data)
        assert ids_of_graph == row[0]
        if row != (ids, in_bytes(text, starts), in_bytes(text, ends)) and not is_tie(tokenizer, ids, row[0]):
            different.append(text)
    return different
