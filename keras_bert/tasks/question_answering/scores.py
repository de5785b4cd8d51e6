"""The official figures of SQuAD: exact match and F1 of answers, and the best threshold for giving none.

Written from the published algorithm (Rajpurkar et al., 2016 and 2018, and their evaluation scripts); on the same files
the figures are those of the scripts. Answers are compared as the scripts do it: in lower case, without ASCII
punctuation and without the words a, an and the. That was made for English. `language` takes the rules of MLQA instead
(Lewis et al., 2019), which know the articles of seven languages and count Chinese by characters.
"""

import dataclasses
import functools
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

from keras_bert.program.errors import InputError

# In MLQA's rules any language loses the punctuation of Unicode, and articles of its own.
_MLQA_ARTICLES = {
    "ar": "ال",
    "de": r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "en": r"\b(?:a|an|the)\b",
    "es": r"\b(?:un|una|unos|unas|el|la|los|las)\b",
    "hi": None,
    "vi": r"\b(?:của|là|cái|chiếc|những)\b",
    "zh": None,
}
LANGUAGES = tuple(_MLQA_ARTICLES)
# Where words are not parted by spaces, each of these characters counts as a word.
_CHINESE_CHARACTER = re.compile("([\u4e00-\u9fa5])")
_ENGLISH_ARTICLES = re.compile(_MLQA_ARTICLES["en"])
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
# The scripts' default: odds that are probabilities never exceed it.
DEFAULT_NULL_THRESHOLD = 1.0


def normalized_answer(text: str, language: str | None = None) -> str:
    """Normalises an answer for scoring: its words with one space between them.

    Args:
        language: None for the rules of SQuAD, or a language of MLQA.

    >>> normalized_answer("The  U.S., an island")
    'us island'
    >>> normalized_answer("《红楼梦》 1791", "zh")
    '红 楼 梦 1791'

    Raises:
        InputError: the language is not one of `LANGUAGES`.
    """
    text = text.lower()
    if language is None:
        text = _ENGLISH_ARTICLES.sub(" ", text.translate(_ASCII_PUNCTUATION))
        return " ".join(text.split())
    _check_language(language)
    text = "".join(character for character in text if not _is_punctuation(character))
    if _MLQA_ARTICLES[language]:
        text = re.sub(_MLQA_ARTICLES[language], " ", text)
    if language == "zh":
        text = _CHINESE_CHARACTER.sub(r" \1 ", text)
    return " ".join(text.split())


def _check_language(language: str) -> None:
    if language not in _MLQA_ARTICLES:
        raise InputError(f"language must be one of {', '.join(LANGUAGES)}. Received: {language!r}")


@functools.cache
def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P") or character in string.punctuation


@dataclasses.dataclass(frozen=True)
class QuestionScore:
    """What one predicted answer earns: `exact` is 0 or 1, `f1` from 0 to 1."""

    exact: int
    f1: float


def score_question(
    answers: Sequence[str], prediction: str, *, as_in_1_1: bool = False, language: str | None = None
) -> QuestionScore:
    """Compares a predicted answer with the right ones and returns the best score.

    Args:
        answers: none for a question that its context does not answer: then the empty text is right.
        as_in_1_1: the rules of SQuAD 1.1, which differ where nothing is left of an answer, such as of "the": it counts
            as an answer there, and has the F1 0.

    >>> score_question(["in Paris", "Paris"], "the city of Paris")
    QuestionScore(exact=0, f1=0.5)
    """
    right_answers = [normalized_answer(answer, language) for answer in answers]
    if not as_in_1_1:
        right_answers = [text for text in right_answers if text] or [""]
    elif not right_answers:
        raise InputError("SQuAD 1.1 has an answer for every question. Score this one by the rules of 2.0.")
    found = normalized_answer(prediction, language)
    empty_f1 = 0.0 if as_in_1_1 else 1.0
    return QuestionScore(
        max(int(text == found) for text in right_answers),
        max(_f1(text.split(), found.split(), empty_f1) for text in right_answers),
    )


def _f1(right_answers: list[str], found: list[str], empty_f1: float) -> float:
    """Returns the harmonic mean of precision and recall of the words; `empty_f1` when neither text has any."""
    if not right_answers and not found:
        return empty_f1
    num_same = sum((Counter(right_answers) & Counter(found)).values())
    if not num_same:
        return 0.0
    precision, recall = num_same / len(found), num_same / len(right_answers)
    return 2 * precision * recall / (precision + recall)


def score_questions(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    *,
    as_in_1_1: bool = False,
    language: str | None = None,
) -> dict[str, QuestionScore]:
    """Scores each question by its id. One without a prediction earns nothing. Others than these are ignored."""
    nothing = QuestionScore(0, 0.0)
    return {
        name: score_question(texts, predictions[name], as_in_1_1=as_in_1_1, language=language)
        if name in predictions
        else nothing
        for name, texts in answers.items()
    }


def squad_scores(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    *,
    null_odds: Mapping[str, float] | None = None,
    null_threshold: float = DEFAULT_NULL_THRESHOLD,
    as_in_1_1: bool = False,
    language: str | None = None,
) -> dict[str, float | int]:
    """Returns the official figures of predicted answers.

    Args:
        answers: for each id of a question the texts of its answers; none for one that its context does not answer.
        predictions: for each id the predicted text, empty for no answer.
        null_odds: for each id how much speaks for no answer. The best thresholds are found with them.
        null_threshold: where `null_odds` is over it, the prediction counts as no answer.
        as_in_1_1: the rules of SQuAD 1.1, see `score_question`.
        language: None for the rules of SQuAD, or a language of MLQA.

    Returns:
        The keys of the script for 2.0, in percent: `exact`, `f1`, `total`; with `HasAns_` and `NoAns_` before them the
        same for the questions that have an answer and for those that have none, where there are such; and with
        `null_odds` also `best_exact`, `best_exact_thresh`, `best_f1` and `best_f1_thresh`.

    Raises:
        InputError: there is no question, or one has no odds.
    """
    if not answers:
        raise InputError("There is no question to score.")
    raw = score_questions(answers, predictions, as_in_1_1=as_in_1_1, language=language)
    if null_odds is not None:
        _check_odds(answers, null_odds)
    scores = raw if null_odds is None else _with_threshold(raw, answers, null_odds, null_threshold)
    results = _means(scores.values())
    for prefix, wants_answer in (("HasAns", True), ("NoAns", False)):
        part = [scores[name] for name, texts in answers.items() if bool(texts) == wants_answer]
        if part:
            results |= {f"{prefix}_{key}": value for key, value in _means(part).items()}
    if null_odds is not None:
        for metric in ("exact", "f1"):
            earned = {name: getattr(score, metric) for name, score in raw.items()}
            best, threshold = best_threshold(answers, predictions, earned, null_odds)
            results |= {f"best_{metric}": best, f"best_{metric}_thresh": threshold}
    return results


def best_threshold(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    earned: Mapping[str, float],
    null_odds: Mapping[str, float],
) -> tuple[float, float]:
    """Returns the best mean that a threshold on `null_odds` gives, in percent, and that threshold.

    A prediction is kept where its odds are not over the threshold. Start with all questions unanswered: those without
    an answer are right. Then answer them in the order of their odds, and remember where the sum was highest.

    Args:
        predictions: the answers without any threshold; where they already are empty nothing can be won back.
        earned: what each prediction earns, 0 to 1.
    """
    current = best = float(sum(not texts for texts in answers.values()))
    threshold = 0.0
    for name in sorted((name for name in null_odds if name in earned), key=null_odds.__getitem__):
        if answers[name]:
            current += earned[name]
        elif predictions.get(name):
            current -= 1
        if current > best:
            best, threshold = current, null_odds[name]
    return 100.0 * best / len(earned), threshold


def _check_odds(answers: Mapping[str, Sequence[str]], null_odds: Mapping[str, float]) -> None:
    missing = [name for name in answers if name not in null_odds]
    if missing:
        raise InputError(
            f"{len(missing)} questions have no null odds, such as {missing[0]!r}. Give a number for every question."
        )


def _with_threshold(scores, answers, null_odds, threshold) -> dict[str, QuestionScore]:
    unanswered = {True: QuestionScore(0, 0.0), False: QuestionScore(1, 1.0)}
    return {
        name: unanswered[bool(answers[name])] if null_odds[name] > threshold else score
        for name, score in scores.items()
    }


def _means(scores) -> dict[str, float | int]:
    scores = list(scores)
    return {
        "exact": 100.0 * sum(score.exact for score in scores) / len(scores),
        "f1": 100.0 * sum(score.f1 for score in scores) / len(scores),
        "total": len(scores),
    }
