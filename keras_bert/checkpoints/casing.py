"""Whether a vocabulary is cased, and whether that agrees with what a checkpoint says."""

from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.families import FAMILIES, WORD_PIECE
from keras_bert.program.errors import InputError
from keras_bert.tokenization.tokenizer import TokenTable

# Of bert-base-cased's tokens with letters 24 % have capitals, of multilingual-cased's 19 %; of the uncased and the
# Chinese vocabulary's 2 tokens have. Smaller vocabularies, and scripts without capitals, say nothing.
_FEWEST_TOKENS = 1000
_SHARE_OF_CAPITALS = 0.02


def is_cased(vocabulary: TokenTable) -> bool | None:
    """Returns whether a vocabulary tells capitals from small letters, or None when it is too small to say."""
    words = [token for token in vocabulary.tokens if not token.startswith(("[", "<"))]
    capitals = sum(any(map(str.isupper, word)) for word in words)
    letters = sum(any(map(str.islower, word)) for word in words) + capitals
    return capitals > _SHARE_OF_CAPITALS * letters if letters >= _FEWEST_TOKENS else None


def with_casing(checkpoint: BertCheckpoint, do_lower_case: bool | None) -> BertCheckpoint:
    """Returns the checkpoint with the casing that the user gave, that its files say, or that its vocabulary has.

    Raises:
        InputError: what its files say contradicts its vocabulary and the user gave nothing.
    """
    if do_lower_case is not None:
        return checkpoint.replace(config=checkpoint.config.replace(do_lower_case=do_lower_case))
    is_wordpiece = FAMILIES[checkpoint.config.model_type].tokenizer == WORD_PIECE
    if checkpoint.model_class is not None or not is_wordpiece:
        return checkpoint  # our own folder, whose casing trained it; or a kind of tokenizer that leaves letters alone
    cased = is_cased(checkpoint.vocabulary) if checkpoint.vocabulary else None
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
