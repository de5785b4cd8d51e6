"""Compares two learners of WordPiece vocabularies on the same word counts: Hugging Face tokenizers, and tf.text's.

Nine tenths of the documents are learnt from and one tenth is tested on. Printed for each learner and size: tokens that
came out, seconds, and on the tested words: tokens per word, share of unknown words, share of the pieces that occur.

Command: python -m benchmarks.vocabulary_learners TEXT_FILE [SIZE ...]
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def _tokenizers(counts: Counter[str], size: int) -> list[str]:
    from data_prep.build_vocabulary import learn_vocabulary

    return learn_vocabulary(counts, vocab_size=size).vocabulary.tokens


def _tokenizers_all_characters(counts: Counter[str], size: int) -> list[str]:
    from data_prep.build_vocabulary import learn_vocabulary

    return learn_vocabulary(counts, vocab_size=size, character_coverage=1.0).vocabulary.tokens


def _tf_text(counts: Counter[str], size: int) -> list[str]:
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib

    from keras_bert.tokenization.vocabulary import SPECIAL_TOKENS

    words = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return wordpiece_tokenizer_learner_lib.learn(words, size, list(SPECIAL_TOKENS), lower_thresh=2)


LEARNERS: dict[str, Callable[[Counter[str], int], list[str]]] = {
    "tokenizers": _tokenizers,
    "tokenizers, all characters": _tokenizers_all_characters,
    "tf.text": _tf_text,
}


def measure(tokens: list[str], counts: Counter[str]) -> tuple[float, float, float]:
    """Returns tokens per word, the share of unknown words, and the share of `tokens` that occur at all."""
    from keras_bert.tokenization.vocabulary import Vocabulary
    from keras_bert.tokenization.wordpiece import WordPieceTokenizer

    tokenizer = WordPieceTokenizer(Vocabulary(tokens))
    num_tokens = num_unknown = 0
    used = set()
    for word, count in counts.items():
        ids = tokenizer.encode(word)
        used.update(ids)
        num_tokens += count * len(ids)
        num_unknown += count * (tokenizer.vocabulary.unk_id in ids)
    return num_tokens / counts.total(), num_unknown / counts.total(), len(used) / len(tokens)


def main() -> None:
    """Prints a line a learner and size."""
    from data_prep.text.corpus import read_documents
    from data_prep.text.word_counts import count_words

    documents = list(read_documents(sys.argv[1]))
    train = count_words((document for number, document in enumerate(documents) if number % 10), True)
    test = count_words(documents[::10], True)
    print(f"learnt from {train.total():,} words ({len(train):,} different), tested on {test.total():,}")
    for size in map(int, sys.argv[2:] or ["8000", "30000"]):
        for name, learn in LEARNERS.items():
            start = time.perf_counter()
            tokens = learn(train, size)
            seconds = time.perf_counter() - start
            per_word, unknown, used = measure(tokens, test)
            print(
                f"{name}, {size}: {len(tokens)} tokens, {seconds:.1f} s, {per_word:.4f} tokens per word, {unknown:.4%} "
                f"of words unknown, {used:.1%} of tokens used",
                flush=True,
            )


if __name__ == "__main__":
    main()
