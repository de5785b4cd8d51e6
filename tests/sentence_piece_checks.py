"""Texts for SentencePiece, and the comparison of its graph with Python."""

import itertools
import re
import unicodedata

import tokenizer_comparison
from generated_texts import generated_texts

from keras_bert.tokenization.sentence_piece_model import SentencePieceModel


def texts_of(seed, count):
    texts = (text.decode("utf-8", "ignore") for _, text in generated_texts(seed, ("the", "##est", "2010,")))
    # Python's Unicode may be newer than 14.0. The rules ignore context, which matters only for a final sigma.
    texts = (text for text in texts if not re.search("[\u03a3\U0001d6ba]", text))
    return list(itertools.islice(texts, count))


def is_tie(tokenizer, ids, others):
    """Whether two ways to divide a text are equally probable: "000" into "0" "00", and into "00" "0"."""
    scores = [piece.score for piece in SentencePieceModel.from_bytes(tokenizer.effective_model).pieces]
    sums = [sum(scores[number] for number in row) for row in (ids, others)]
    return ids != others and tokenizer.decode(ids) == tokenizer.decode(others) and abs(sums[0] - sums[1]) < 1e-4


def graph_differences(tokenizer, texts):
    """The texts for which the graph gives other ids or offsets than Python, without exact ties."""
    return tokenizer_comparison.graph_differences(tokenizer, texts, may_differ=is_tie)


def published_text(text, lower_case):
    """Reimplements `preprocess_text` of google-research/albert and zihangdai/xlnet, which keeps case."""
    text = " ".join(text.strip().split())
    text = text.replace("``", '"').replace("''", '"')
    marks_apart = unicodedata.normalize("NFKD", text)
    text = "".join(letter for letter in marks_apart if not unicodedata.combining(letter))
    return text.lower() if lower_case else text


def published_pieces(processor, text, lower_case=True):
    """The pieces of both: those of the library, but numbers and following commas are separated."""
    pieces = []
    for piece in processor.encode(published_text(text, lower_case), out_type=str):
        if len(piece) > 1 and piece.endswith(",") and piece[-2].isdigit():
            inner = processor.encode(piece[:-1].replace("▁", ""), out_type=str)
            if not piece.startswith("▁") and inner[0].startswith("▁"):
                inner = inner[1:] if inner[0] == "▁" else [inner[0][1:], *inner[1:]]
            pieces += [*inner, ","]
        else:
            pieces.append(piece)
    return pieces
