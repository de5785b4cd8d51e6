"""The windows and answers of google-research/bert `run_squad.py`, reimplemented from its description.

A reference with loops over words and tokens, based on google_tokenizer.py. It shares no code with keras_bert.
"""

import dataclasses

from google_tokenizer import google_tokens

# The characters that separate words in Google's code; other white space does not.
_BLANKS = " \t\r\n\u202f"


@dataclasses.dataclass
class Window:
    """One row: its tokens, the columns of the answer, and the columns whose token has its maximal context here."""

    tokens: list[str]
    start: int
    end: int
    scoring_columns: list[int]


def google_windows(context, question, answer, token_ids, *, length, stride, longest_question, do_lower_case=True):
    """Returns the windows of one question. `answer` is (text, first character), or None when there is none."""

    def tokenize(text):
        return google_tokens(text, token_ids, do_lower_case)

    words, word_of_character = _words(context)
    tokens, first_token_of_word = [], []
    for word in words:
        first_token_of_word.append(len(tokens))
        tokens += tokenize(word)
    first_token_of_word.append(len(tokens))

    answer_tokens = None
    if answer is not None:
        text, start = answer
        first = first_token_of_word[word_of_character[start]]
        last = first_token_of_word[word_of_character[start + len(text) - 1] + 1] - 1
        answer_tokens = _tightened(tokens, first, last, tokenize(text))

    asked = tokenize(question)[:longest_question]
    room = length - len(asked) - 3
    begins = [0]
    while begins[-1] + room < len(tokens):
        begins.append(begins[-1] + min(room, stride))
    spans = [(begin, min(begin + room, len(tokens))) for begin in begins]

    windows = []
    for number, (begin, end) in enumerate(spans):
        offset = len(asked) + 2
        columns = (0, 0)
        if answer_tokens and begin <= answer_tokens[0] and answer_tokens[1] < end:
            columns = tuple(token - begin + offset for token in answer_tokens)
        scoring = [token - begin + offset for token in range(begin, end) if _best_span(spans, token) == number]
        windows.append(Window(["[CLS]", *asked, "[SEP]", *tokens[begin:end], "[SEP]"], *columns, scoring))
    return windows


def _words(context):
    words, word_of_character = [], []
    in_word = False
    for character in context:
        if character in _BLANKS:
            in_word = False
        elif in_word:
            words[-1] += character
        else:
            words.append(character)
            in_word = True
        word_of_character.append(len(words) - 1)
    return words, word_of_character


def _tightened(tokens, first, last, wanted):
    """Returns the first span of the words' tokens that is exactly the answer, or else all of the tokens."""
    for begin in range(first, last + 1):
        for end in range(last, begin - 1, -1):
            if tokens[begin : end + 1] == wanted:
                return begin, end
    return first, last


def _best_span(spans, token):
    scores = [
        min(token - begin, end - 1 - token) + 0.01 * (end - begin) if begin <= token < end else -1
        for begin, end in spans
    ]
    return scores.index(max(scores))
