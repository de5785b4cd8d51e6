"""Google's tokenizer, reimplemented from its description with Python's own `unicodedata`.

A reference for Python 3.11, whose `unicodedata` is Unicode 14.0 like our table. It shares no code with keras_bert.
"""

import unicodedata

CJK_BLOCKS = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F)]
CJK_BLOCKS += [(0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]


def google_tokens(text: str | bytes, token_ids: dict[str, int], do_lower_case: bool) -> list[str]:
    """Tokens of `text`; `token_ids` is the vocabulary."""
    return [piece for word in google_words(text, do_lower_case) for piece in _pieces(word, token_ids)]


def google_words(text: str | bytes, do_lower_case: bool) -> list[str]:
    """Words of `text`, before they are cut into pieces."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "ignore")
    words = []
    for chunk in "".join(map(_cleaned, text)).split():
        if do_lower_case:
            chunk = unicodedata.normalize("NFD", chunk.lower())
            chunk = "".join(character for character in chunk if unicodedata.category(character) != "Mn")
        chunk = "".join(f" {character} " if _is_symbol(character) else character for character in chunk)
        words += [word for word in chunk.split(" ") if word]
    return words


def _cleaned(character: str) -> str:
    category = unicodedata.category(character)
    if character in "\t\n\r" or category == "Zs":
        return " "
    if character in "\0\ufffd" or category in ("Cc", "Cf"):
        return ""
    is_cjk = any(first <= ord(character) <= last for first, last in CJK_BLOCKS)
    return f" {character} " if is_cjk else character


def _is_symbol(character: str) -> bool:
    is_ascii_symbol = "!" <= character <= "~" and not character.isalnum()
    return is_ascii_symbol or unicodedata.category(character)[0] == "P"


def _pieces(word: str, token_ids: dict[str, int]) -> list[str]:
    if len(word) > 200:
        return ["[UNK]"]
    pieces: list[str] = []
    rest = word
    while rest:
        candidates = (("##" if pieces else "") + rest[:end] for end in range(len(rest), 0, -1))
        piece = next((candidate for candidate in candidates if candidate in token_ids), None)
        if piece is None:
            return ["[UNK]"]
        rest = rest[len(piece) - (2 if pieces else 0) :]
        pieces.append(piece)
    return pieces
