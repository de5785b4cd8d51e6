"""Texts of realistic lengths, as rows of token ids, from a folder with GLUE, SQuAD and a vocabulary.

They are 205 sentences of SST-2's dev set, 154 pairs of MRPC's and 153 questions of SQuAD 1.1 with their paragraphs.
"""

import os
import random
from collections.abc import Sequence

import numpy as np

from data_prep.finetuning.squad import read_squad
from keras_bert.program.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary

# One text, or two.
Text = tuple[str, ...]
NUM_SENTENCES, NUM_PAIRS, NUM_QUESTIONS = 205, 154, 153


def read_mix(data: str, seed: int = 1) -> tuple[list[Text], Vocabulary]:
    """Returns shuffled texts, and their vocabulary.

    Raises:
        InputError: a file is missing.
    """
    sentences = [(row[0],) for row in _rows(data, "SST-2")]
    pairs = [(row[3], row[4]) for row in _rows(data, "MRPC")]
    squad = read_squad(os.path.join(data, "squad", "dev-v1.1.json"), has_answers=False)
    questions = list(zip(squad.questions, squad.contexts, strict=True))
    vocabulary = Vocabulary.from_file(os.path.join(data, "vocab", "bert-base-uncased-vocab.txt"))
    texts = []
    for found, number in ((sentences, NUM_SENTENCES), (pairs, NUM_PAIRS), (questions, NUM_QUESTIONS)):
        texts += random.Random(seed).sample(found, number)
    random.Random(seed).shuffle(texts)
    return texts, vocabulary


def _rows(data: str, task: str) -> list[list[str]]:
    path = os.path.join(data, "glue", task, "dev.tsv")
    try:
        with open(path, encoding="utf-8-sig") as file:
            return [line.rstrip("\n").split("\t") for line in file][1:]
    except OSError as error:
        raise InputError(f"--data: {path} cannot be read: {error.strerror}") from None


def token_rows(
    texts: Sequence[Text], vocabulary: Vocabulary, max_seq_length: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns (input_ids, segment_ids) of every text, int32 `[S]` without padding, S at most `max_seq_length`."""
    from keras_bert.tasks.text_rows import text_rows
    from keras_bert.tokenization.graph_wordpiece import GraphTokenizer

    tokenizer, rows = GraphTokenizer(vocabulary), {}
    for number_of_texts in (1, 2):
        places = [place for place, text in enumerate(texts) if len(text) == number_of_texts]
        if not places:
            continue
        columns = [[texts[place][column] for place in places] for column in range(number_of_texts)]
        second_texts = columns[1] if number_of_texts == 2 else None
        found = text_rows(columns[0], second_texts, tokenizer, max_seq_length).rows
        for place, first, last in zip(places, found.splits[:-1], found.splits[1:], strict=True):
            rows[place] = tuple(found.tokens[name][first:last] for name in ("input_ids", "segment_ids"))
    return [rows[place] for place in range(len(texts))]
