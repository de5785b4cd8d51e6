"""Learns a byte-level BPE with the library Hugging Face tokenizers, which selects the merges."""

import json
from collections import Counter
from collections.abc import Iterator

from data_prep.vocabulary.word_counts import learner_scale, text_with_counts
from keras_bert.program.errors import InputError
from keras_bert.tokenization.byte_pair import BytePairTokenizer, byte_alphabet, word_spans
from keras_bert.tokenization.nfc import nfc
from keras_bert.tokenization.tokenizer import MODERN_BERT_SPECIAL_TOKENS, ROBERTA_SPECIAL_TOKENS

# In the order of RoBERTa's ids.
_SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
# The runs of spaces that are tokens of ModernBERT.
_SPACES = tuple(" " * count for count in range(24, 1, -1))


def byte_pair_words(stretch: str, do_lower_case: bool) -> list[str]:
    """Returns the words of a stretch without white space, after a space, in their case: "don't" -> [" don", "'t"]."""
    text = f" {stretch}"
    return [text[first:last] for first, last in word_spans(text)]


def modern_byte_pair_words(stretch: str, do_lower_case: bool) -> list[str]:
    """As `byte_pair_words`, after normalisation to NFC."""
    return byte_pair_words(nfc(stretch), do_lower_case)


def learn_byte_pair(
    counts: Counter[str],
    *,
    vocab_size: int,
    min_frequency: int = 2,
    is_modern: bool = False,
    show_progress: bool = False,
) -> BytePairTokenizer:
    """Learns a tokenizer from the counts of words (`count_words` with `byte_pair_words`).

    The tokens are RoBERTa's special tokens, the 256 bytes, and the results of the merges, the most frequent first.
    `is_modern` makes it one for ModernBERT, from `modern_byte_pair_words`: with BERT's special tokens, NFC, and runs of
    24 to 2 spaces as the last tokens. Raises `InputError` if `vocab_size` leaves no room for merges.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    special_tokens = MODERN_BERT_SPECIAL_TOKENS.names if is_modern else _SPECIAL_TOKENS
    added = _SPACES if is_modern else ()
    num_fixed = len(special_tokens) + len(byte_alphabet()) + len(added)
    if vocab_size <= num_fixed:
        raise InputError(
            f"vocab_size={vocab_size} is too small: special tokens and bytes take {num_fixed}. Use a larger one."
        )
    scale = learner_scale(counts)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(added),
        min_frequency=max(1, round(min_frequency * scale)),
        # If all bytes are given as special tokens, their ids, which break ties, are fixed.
        special_tokens=[*special_tokens, *byte_alphabet()],
        initial_alphabet=list(byte_alphabet()),
        limit_alphabet=len(byte_alphabet()),
        show_progress=show_progress,
    )
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(_written_bytes(counts, scale), trainer)
    model = json.loads(learner.to_str())["model"]
    ids, merges = model["vocab"], [tuple(pair) for pair in model["merges"]]
    if not is_modern:
        return BytePairTokenizer(ids, merges, ROBERTA_SPECIAL_TOKENS)
    ids |= {spaces: number for number, spaces in enumerate(added, start=len(ids))}
    return BytePairTokenizer(ids, merges, MODERN_BERT_SPECIAL_TOKENS, normalizes=True, added_tokens=added)


def _written_bytes(counts: Counter[str], scale: float) -> Iterator[str]:
    """Yields each word as often as it should occur, with its bytes written as in vocab.json."""
    alphabet = byte_alphabet()
    written = Counter()
    for word, count in counts.items():
        written["".join(alphabet[byte] for byte in word.encode("utf-8", "surrogateescape"))] += count
    return text_with_counts(written, scale)
