"""Texts of the lengths that real use has, as rows of token ids: sentences, pairs of sentences, questions about texts.

Of the folder --data (else the environment variable KERAS_BERT_DATA), which holds GLUE and SQuAD as they are published
and a vocabulary:

* mixed: 205 sentences of SST-2's dev set, 154 pairs of MRPC's, 153 questions of SQuAD 1.1's with their paragraphs.
* sst2, mrpc, squad, wikipedia: 512 texts of one kind; the last are paragraphs of Wikipedia.

Without data the texts are the documentation of installed Python packages, which is what the quickstart reads: 205
sentences, 154 pairs of them and 153 of a sentence and a paragraph; the vocabulary is learnt from them.
"""

import os
import random
from collections.abc import Callable, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary

# A text, or two; and how many of each kind are mixed.
Text = tuple[str, ...]
NUM_SENTENCES, NUM_PAIRS, NUM_QUESTIONS = 205, 154, 153
NUM_OF_ONE_KIND = 512
MIXES = ("mixed", "sst2", "mrpc", "squad", "wikipedia")
PACKAGES = ("numpy", "python")
VOCAB_SIZE = 8000


def read_mix(name: str, data: str | None, seed: int = 1) -> tuple[list[Text], Vocabulary, str]:
    """Returns shuffled texts, their vocabulary, and what to say of them.

    Raises:
        InputError: a file is missing, or there is no data and the mix is not `mixed`.
    """
    if name not in MIXES:
        raise InputError(f"There is no mix {name!r}. There are: {', '.join(MIXES)}")
    if not data:
        if name != "mixed":
            raise InputError(f"The mix {name!r} needs --data (or KERAS_BERT_DATA), a folder with GLUE and SQuAD.")
        return documentation_mix(PACKAGES, VOCAB_SIZE, seed)
    readers = {"sst2": _read_sst2, "mrpc": _read_mrpc, "squad": _read_squad, "wikipedia": _read_wikipedia}
    if name == "mixed":
        parts = [("sst2", NUM_SENTENCES), ("mrpc", NUM_PAIRS), ("squad", NUM_QUESTIONS)]
    else:
        parts = [(name, NUM_OF_ONE_KIND)]
    texts = []
    for part, number in parts:
        texts += _some(readers[part], data, number, seed)
    random.Random(seed).shuffle(texts)
    vocabulary = Vocabulary.from_file(os.path.join(data, "vocab", "bert-base-uncased-vocab.txt"))
    return texts, vocabulary, " + ".join(f"{number} of {part}" for part, number in parts)


def documentation_mix(packages: Sequence[str], vocab_size: int, seed: int = 1) -> tuple[list[Text], Vocabulary, str]:
    """Returns what `read_mix` does, of the documentation of installed packages."""
    from data_prep.text.sentences import split_documents
    from data_prep.vocabulary.learn_wordpiece import learn_wordpiece
    from data_prep.vocabulary.word_counts import count_words
    from run_scripts.documentation_text import read_packages

    paragraphs = [paragraph for module in read_packages(packages) for paragraph in module.paragraphs]
    counts = count_words([paragraphs], do_lower_case=True)
    vocabulary = learn_wordpiece(counts, vocab_size=vocab_size, do_lower_case=True)
    draw = random.Random(seed)
    draw.shuffle(paragraphs)
    sentences = [sentence for document in split_documents([paragraphs]) for sentence in document]
    draw.shuffle(sentences)
    long = [paragraph for paragraph in paragraphs if len(paragraph.split()) >= 40] or paragraphs
    texts = [(draw.choice(sentences),) for _ in range(NUM_SENTENCES)]
    texts += [(draw.choice(sentences), draw.choice(sentences)) for _ in range(NUM_PAIRS)]
    texts += [(draw.choice(sentences), draw.choice(long)) for _ in range(NUM_QUESTIONS)]
    draw.shuffle(texts)
    return texts, vocabulary, f"documentation of {', '.join(packages)}, as there is no --data"


def _some(read: Callable[[str], list[Text]], data: str, number: int, seed: int) -> list[Text]:
    try:
        texts = read(data)
    except OSError as error:
        raise InputError(f"--data: {error.filename} cannot be read: {error.strerror}") from None
    return random.Random(seed).sample(texts, min(number, len(texts)))


def _rows(data: str, task: str) -> list[list[str]]:
    with open(os.path.join(data, "glue", task, "dev.tsv"), encoding="utf-8-sig") as file:
        return [line.rstrip("\n").split("\t") for line in file][1:]


def _read_sst2(data):
    return [(row[0],) for row in _rows(data, "SST-2")]


def _read_mrpc(data):
    return [(row[3], row[4]) for row in _rows(data, "MRPC")]


def _read_squad(data):
    from data_prep.finetuning.squad import read_squad

    questions = read_squad(os.path.join(data, "squad", "dev-v1.1.json"), has_answers=False)
    return list(zip(questions.questions, questions.contexts, strict=True))


def _read_wikipedia(data):
    with open(os.path.join(data, "corpus", "wikipedia_articles.txt"), encoding="utf-8") as file:
        return [(line.strip(),) for line in file if line.strip()]


def token_rows(
    texts: Sequence[Text], vocabulary: Vocabulary, max_seq_length: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns (input_ids, segment_ids) of every text, int32 `[S]` without padding, S at most `max_seq_length`."""
    from keras_bert.tasks.classification.rows import encode_texts
    from keras_bert.tokenization.graph_wordpiece import GraphTokenizer

    tokenizer, rows = GraphTokenizer(vocabulary), {}
    for number_of_texts in (1, 2):
        places = [place for place, text in enumerate(texts) if len(text) == number_of_texts]
        if not places:
            continue
        columns = [[texts[place][column] for place in places] for column in range(number_of_texts)]
        batch, _ = encode_texts(columns[0], columns[1] if number_of_texts == 2 else None, tokenizer, max_seq_length)
        for place, ids, mask, segments in zip(
            places, batch["input_ids"], batch["input_mask"], batch["segment_ids"], strict=True
        ):
            rows[place] = (ids[: mask.sum()], segments[: mask.sum()])
    return [rows[place] for place in range(len(texts))]
