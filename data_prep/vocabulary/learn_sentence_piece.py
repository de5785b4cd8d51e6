"""Learns a SentencePiece model with the library sentencepiece, which selects the pieces."""

import io
from collections import Counter

from keras_bert.program.errors import InputError
from keras_bert.tokenization.sentence_piece import ALBERT_SPECIAL_TOKENS, SentencePieceTokenizer
from keras_bert.tokenization.sentence_piece_model import plain

# ALBERT's settings, except that words are counted first: github.com/google-research/albert, README.
_SETTINGS = {
    "model_type": "unigram",
    "pad_id": 0,
    "unk_id": 1,
    "bos_id": -1,
    "eos_id": -1,
    "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
    "user_defined_symbols": ["(", ")", '"', "-", ".", "–", "£", "€"],
    "normalization_rule_name": "nmt_nfkc",
}
# The result depends on the number of threads, so this must not depend on the machine.
_NUM_THREADS = 4


def sentence_piece_words(stretch: str, do_lower_case: bool) -> list[str]:
    """Returns the words of a stretch of text without white space: "Café" -> ["cafe"]."""
    return plain(stretch).split() if do_lower_case else [stretch]


def learn_sentence_piece(
    counts: Counter[str],
    *,
    vocab_size: int,
    do_lower_case: bool = True,
    character_coverage: float = 0.9999,
    show_progress: bool = False,
) -> SentencePieceTokenizer:
    """Learns a unigram model from the counts of words (`count_words` with `sentence_piece_words`).

    The tokens are <pad> <unk> [CLS] [SEP] [MASK], eight symbols that are always separate tokens, and pieces in the
    order of their probability. There are fewer than `vocab_size` if the text has too few words. Raises `InputError` if
    `vocab_size` is too small for the characters of the text.

    Reference: Kudo 2018, "Subword Regularization", section 3.2.
    """
    from sentencepiece import SentencePieceTrainer

    lines = (f"{word}\t{count}" for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=lines,
            model_writer=model,
            input_format="tsv",
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            character_coverage=character_coverage,
            num_threads=_NUM_THREADS,
            minloglevel=0 if show_progress else 2,
            **_SETTINGS,
        )
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"sentencepiece cannot learn {vocab_size} tokens from this text: {error}. Use another vocab_size, or more "
            "text."
        ) from None
    return SentencePieceTokenizer(model.getvalue(), ALBERT_SPECIAL_TOKENS, do_lower_case)
