"""Learns a byte-level BPE with the library Hugging Face tokenizers, which selects the merges."""

import json
from collections import Counter
from collections.abc import Iterator

from data_prep.vocabulary.word_counts import learner_scale, text_with_counts
from keras_bert.program.errors import InputError
from keras_bert.tokenization.byte_pair import BytePairTokenizer, byte_alphabet
from keras_bert.tokenization.byte_pair_words import split_words
from keras_bert.tokenization.tokenizer import ROBERTA_SPECIAL_TOKENS

# In the order of RoBERTa's ids.
_SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def byte_pair_words(stretch: str, do_lower_case: bool) -> list[str]:
    """Returns the words of a stretch after a space, as byte-level BPE splits text: "don't" -> [" don", "'t"].

    Args:
        stretch: text without white space.
        do_lower_case: not used; byte-level BPE keeps text as it is.
    """
    return split_words(f" {stretch}")


def learn_byte_pair(
    counts: Counter[str], *, vocab_size: int, min_frequency: int = 2, show_progress: bool = False
) -> BytePairTokenizer:
    """Learns a tokenizer from the counts of words (`count_words` with `byte_pair_words`).

    The tokens are RoBERTa's special tokens, the 256 bytes, and the results of the merges, the most frequent first.

    Raises:
        InputError: `vocab_size` leaves no room for merges.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    num_fixed = len(_SPECIAL_TOKENS) + len(byte_alphabet())
    if vocab_size <= num_fixed:
        raise InputError(
            f"vocab_size={vocab_size} is too small: special tokens and bytes take {num_fixed}. Use a larger one."
        )
    scale = learner_scale(counts)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=max(1, round(min_frequency * scale)),
        # If all bytes are given as special tokens, their ids, which break ties, are fixed.
        special_tokens=[*_SPECIAL_TOKENS, *byte_alphabet()],
        initial_alphabet=list(byte_alphabet()),
        limit_alphabet=len(byte_alphabet()),
        show_progress=show_progress,
    )
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(_written_bytes(counts, scale), trainer)
    model = json.loads(learner.to_str())["model"]
    return BytePairTokenizer(model["vocab"], [tuple(pair) for pair in model["merges"]], ROBERTA_SPECIAL_TOKENS)


def _written_bytes(counts: Counter[str], scale: float) -> Iterator[str]:
    """Yields each word as often as it should occur, with its bytes written as in vocab.json."""
    alphabet = byte_alphabet()
    written = Counter()
    for word, count in counts.items():
        written["".join(alphabet[byte] for byte in word.encode("utf-8", "surrogateescape"))] += count
    return text_with_counts(written, scale)
