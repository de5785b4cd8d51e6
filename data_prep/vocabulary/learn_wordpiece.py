"""Learns a WordPiece vocabulary with the library Hugging Face tokenizers, which selects the pieces."""

import string
from collections import Counter

from data_prep.vocabulary.word_counts import learner_scale, text_with_counts
from keras_bert.program.errors import InputError
from keras_bert.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

# Every vocabulary includes these characters, even if the text does not contain them.
_ALWAYS_SPELT = string.ascii_letters + string.digits + string.punctuation


def learn_wordpiece(
    counts: Counter[str],
    *,
    vocab_size: int,
    do_lower_case: bool = True,
    min_frequency: int = 2,
    character_coverage: float = 0.9999,
    num_unused_tokens: int = 0,
    show_progress: bool = False,
) -> Vocabulary:
    """Learns a WordPiece vocabulary from the counts of normalised words (`word_counts.count_words`).

    The tokens come in this order: [PAD] [UNK] [CLS] [SEP] [MASK], unused slots, characters, characters that continue a
    word, and pieces of several characters, the most useful first. Raises `InputError` if there are no words, or
    `vocab_size` is too small.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    characters = _characters(counts, character_coverage, do_lower_case)
    known = {word: count for word, count in counts.items() if characters.issuperset(word)}
    # The characters that occur inside words, and always ASCII letters and digits.
    continuing = {character for word in known for character in word[1:]}
    continuing |= {character for character in characters if character.isascii() and character.isalnum()}
    first_tokens = [
        *SPECIAL_TOKENS,
        *(f"[unused{number}]" for number in range(num_unused_tokens)),
        *sorted(characters),
        *(f"##{character}" for character in sorted(continuing)),
    ]
    if vocab_size < len(first_tokens):
        raise InputError(
            f"vocab_size={vocab_size} is too small: special tokens, unused slots and the characters of the text take "
            f"{len(first_tokens)}. Use a larger one, or a lower character_coverage."
        )
    scale = learner_scale(counts)
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=max(1, round(min_frequency * scale)),
        # The learner numbers pieces in the random order of its hash tables, and breaks ties by number. If all
        # characters are given as special tokens, the numbers are fixed, and so is the result.
        special_tokens=first_tokens,
        initial_alphabet=sorted(characters),
        limit_alphabet=len(characters),
        continuing_subword_prefix="##",
        show_progress=show_progress,
    )
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(text_with_counts(known, scale), trainer)
    ids = tokenizer.get_vocab()
    return Vocabulary(sorted(ids, key=ids.get))


def _characters(counts: Counter[str], coverage: float, do_lower_case: bool) -> set[str]:
    """Returns the most frequent characters that make up `coverage` of the text, and the ASCII characters."""
    character_counts = Counter()
    for word, count in counts.items():
        for character in word:
            character_counts[character] += count
    characters = set(_ALWAYS_SPELT.lower() if do_lower_case else _ALWAYS_SPELT)
    left_out = (1.0 - coverage) * character_counts.total()
    for character, count in sorted(character_counts.items(), key=lambda item: (item[1], item[0])):
        left_out -= count
        # A small tolerance allows for the rounding of 1 - coverage.
        if left_out < -1e-6:
            characters.add(character)
    return characters
