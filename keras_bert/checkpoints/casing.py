"""Detects whether a vocabulary is cased, and compares that with the settings of a checkpoint."""

from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.program.errors import InputError
from keras_bert.tokenization.kinds import as_tokenizer
from keras_bert.tokenization.tokenizer import TokenTable
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

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
    """Gives a checkpoint a tokenizer of the casing that the user states, else its files, else its tokens.

    Raises `InputError` if files and vocabulary contradict each other, and the user gave no `do_lower_case`.
    """
    tokenizer, vocabulary = checkpoint.tokenizer, checkpoint.vocabulary
    if do_lower_case is not None:
        config = checkpoint.config.replace(do_lower_case=do_lower_case)
        return checkpoint.replace(config=config, tokenizer=as_tokenizer(vocabulary, do_lower_case))
    if isinstance(tokenizer, Vocabulary):
        return checkpoint.replace(tokenizer=WordPieceTokenizer(tokenizer, not is_cased(tokenizer)))
    # Our own folders may have any casing.
    if isinstance(tokenizer, WordPieceTokenizer) and checkpoint.model_class is None:
        configured = tokenizer.do_lower_case
        if is_cased(tokenizer) == configured:
            has = "is cased: its tokens with capitals could never be found" if configured else "has no capitals"
            raise InputError(
                f"{checkpoint.path}: do_lower_case is {str(configured).lower()}, and the vocabulary {has}. Give "
                f"do_lower_case={not configured}, or {configured} if you are sure."
            )
    return checkpoint
