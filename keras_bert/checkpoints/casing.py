"""Detects whether a vocabulary is cased, and compares that with the settings of a checkpoint."""

from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.program.errors import InputError
from keras_bert.registry import WORD_PIECE
from keras_bert.tokenization.tokenizer import TokenTable
from keras_bert.tokenization.vocabulary import Vocabulary

# Share of tokens with letters that have capitals: 24 % in bert-base-cased, 19 % in multilingual-cased. The uncased and
# the Chinese vocabulary have 2 such tokens. Smaller vocabularies, and scripts without capitals, allow no conclusion.
_FEWEST_TOKENS = 1000
_SHARE_OF_CAPITALS = 0.02


def is_cased(vocabulary: TokenTable) -> bool | None:
    """Returns whether a vocabulary is cased, or None if it is too small to tell."""
    words = [token for token in vocabulary.tokens if not token.startswith(("[", "<"))]
    capitals = sum(any(map(str.isupper, word)) for word in words)
    letters = sum(any(map(str.islower, word)) for word in words) + capitals
    return capitals > _SHARE_OF_CAPITALS * letters if letters >= _FEWEST_TOKENS else None


def with_casing(checkpoint: BertCheckpoint, do_lower_case: bool | None) -> BertCheckpoint:
    """Sets `do_lower_case` of a checkpoint: from the user, else from its files, else from its vocabulary.

    Raises:
        InputError: files and vocabulary contradict each other, and the user gave no `do_lower_case`.
    """
    if do_lower_case is not None:
        return checkpoint.replace(config=checkpoint.config.replace(do_lower_case=do_lower_case))
    vocabulary = checkpoint.vocabulary
    is_wordpiece = (
        isinstance(vocabulary, Vocabulary) if vocabulary else checkpoint.config.family.tokenizer == WORD_PIECE
    )
    if checkpoint.model_class is not None or not is_wordpiece:
        return checkpoint  # our own folder, which states its casing; or a tokenizer without lower-casing
    cased = is_cased(vocabulary) if vocabulary else None
    if checkpoint.says_casing:
        configured = checkpoint.config.do_lower_case
        if cased is not None and cased == configured:
            has = "is cased: its tokens with capitals could never be found" if cased else "has no capitals"
            raise InputError(
                f"{checkpoint.path}: do_lower_case is {str(configured).lower()}, and the vocabulary {has}. Give "
                f"do_lower_case={not configured}, or {configured} if you are sure."
            )
        return checkpoint
    return checkpoint.replace(config=checkpoint.config.replace(do_lower_case=not cased))
