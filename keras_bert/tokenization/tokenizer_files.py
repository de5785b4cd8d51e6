"""How many tokens the files of a tokenizer may have."""

from keras_bert.program.errors import InputError

# Tokens of a vocabulary, and merges: XLM-V has 902,000 tokens, Gemma 515,000 merges.
MOST_TOKENS = 1 << 20


def check_count(count: int, what: str, where: str, most: int = MOST_TOKENS) -> None:
    """Raises `InputError` if the file `where` has more than `most` of `what`, such as "tokens"."""
    if count > most:
        raise InputError(f"{where} has {count:,} {what}. At most {most:,} are supported. Give the right file.")
