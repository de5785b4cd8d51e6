"""Texts with their token ids and rows, for people who port the tokenizer to another language."""

from keras_bert.records.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from keras_bert.records.token_rows import join_segments
from keras_bert.tokenization.token_lists import PythonForm
from keras_bert.tokenization.tokenizer import Tokenizer

# Case, accents, white space, punctuation, scripts without spaces, right-to-left scripts, signs outside of the first
# plane, control characters, names of special tokens, long words, and texts that are empty.
_TEXTS = (
    "A wonderful film.",
    "the quick brown fox jumps over the lazy dog",
    "It's 3.14, isn't it? (No: 2.72!)",
    "don't  can\tnot\nwon\r\nt  ",
    "  leading and trailing  ",
    "Ünïcödé ÀÉÎÕÜ naïve café",
    "e\u0301te\u0301 ﬁnd Ǆ ŉ ½ ²",
    "ΟΔΥΣΣΕΥΣ Σ ΑΣ.",
    "İstanbul IĞDIR ıi Straße ẞ",
    "中文和 English 混在一起。",
    "日本語のテキスト、カタカナ",
    "한국어 문장",
    "Москва и мир",
    "العربية עברית",
    "हिन्दी ไทย",
    "👩‍🚀 🇫🇷 emoji 😀!",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𠀀",
    "zero\u200bwidth soft\u00adhyphen \ufeffmark \u0000null",
    "no-break\u00a0space thin\u2009space line\u2028separator",
    "[CLS] [MASK] [SEP] <s> <mask> </s>",
    "http://example.org/path?q=1&r=2#x user@example.org",
    "C++ #hashtag $5.00 50% a_b x^2 `code` ~tilde",
    "“quotes” ‘single’ — dash – en … dots",
    "unbelievablenesses antidisestablishmentarianism",
    "x" * 210,
    "1234567890 3,000,000 1st",
    "UPPER lower MiXeD",
    "",
    " ",
)
_PAIR = ("who is it ?", "It is the quick brown fox, of course.")
_LENGTHS = (12, 32)


def tokenizer_vectors(tokenizer: Tokenizer) -> dict:
    """Returns test vectors of a tokenizer as JSON values.

    `texts`: a list of {text, ids, starts, ends}; offsets count Unicode characters of the text. `rows`: a list of
    {texts, max_seq_length, input_ids, input_mask, segment_ids}: a text, or a pair, as a row of the model.
    """
    special_tokens = tokenizer.special_tokens
    texts = []
    for text in _TEXTS:
        ids, starts, ends = tokenizer.tokenize_with_offsets(text)
        texts.append({"text": text, "ids": list(ids), "starts": list(starts), "ends": list(ends)})
    form, rows = PythonForm(tokenizer), []
    for parts in (_PAIR[1:], _PAIR):
        for length in _LENGTHS:
            found, _ = join_segments([form.tokenize([part]) for part in parts], length, form.vocabulary)
            row = found.padded(length)
            numbers = {name: row[name][0].tolist() for name in (INPUT_IDS, INPUT_MASK, SEGMENT_IDS)}
            rows.append({"texts": list(parts), "max_seq_length": length, **numbers})
    roles = ("cls", "sep", "pad", "unk", "mask")
    ids = {role: tokenizer.ids[getattr(special_tokens, role)] for role in roles}
    return {
        "about": "Offsets count Unicode code points. Rows have their special tokens; texts have none.",
        "special_tokens": ids,
        "separators_between_two_texts": special_tokens.num_between,
        "texts": texts,
        "rows": rows,
    }
