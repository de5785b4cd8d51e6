"""The official scores of SQuAD: exact match and F1 of answers, and the best no-answer threshold.

Written from the published algorithm (Rajpurkar et al., 2016 and 2018, and their evaluation scripts); on the same files
the scores equal those of the scripts. So do thresholds, except one that does not give its score, see `best_threshold`.
Answers are compared in lower case, without ASCII punctuation and without the English articles. `language` selects the
rules of MLQA instead (Lewis et al., 2019), which know the articles of seven languages and split Chinese into
characters.
"""

import dataclasses
import functools
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

from keras_bert.program.errors import InputError
from keras_bert.program.options import check_choice

# MLQA removes Unicode punctuation, and the articles of the language.
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
# Chinese has no spaces between words, so each of these characters counts as a word.
_CHINESE_CHARACTER = re.compile("([\u4e00-\u9fa5])")
_ENGLISH_ARTICLES = re.compile(_MLQA_ARTICLES["en"])
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
# The scripts' default: odds that are probabilities never exceed it.
DEFAULT_NULL_THRESHOLD = 1.0


def normalized_answer(text: str, language: str | None = None) -> str:
    """Normalises an answer for scoring: returns its words, separated by single spaces.

    `language` is None for the rules of SQuAD, or a language of MLQA. Raises `InputError` for others.

    >>> normalized_answer("The  U.S., an island")
    'us island'
    >>> normalized_answer("《红楼梦》 1791", "zh")
    '红 楼 梦 1791'
    """
    text = text.lower()
    if language is None:
        text = _ENGLISH_ARTICLES.sub(" ", text.translate(_ASCII_PUNCTUATION))
        return " ".join(text.split())
    check_choice("language", language, LANGUAGES)
    text = "".join(character for character in text if not _is_punctuation(character))
    if _MLQA_ARTICLES[language]:
        text = re.sub(_MLQA_ARTICLES[language], " ", text)
    if language == "zh":
        text = _CHINESE_CHARACTER.sub(r" \1 ", text)
    return " ".join(text.split())


@functools.cache
def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P") or character in string.punctuation


@dataclasses.dataclass(frozen=True)
class QuestionScore:
    """The scores of one predicted answer: `exact` is 0 or 1, `f1` from 0 to 1."""

    exact: int
    f1: float


def score_question(
    answers: Sequence[str], prediction: str, *, as_in_1_1: bool = False, language: str | None = None
) -> QuestionScore:
    """Compares a predicted answer with all right answers, and returns the best scores.

    Args:
        answers: the right answers; empty if the context does not answer the question, so that "" is right.
        as_in_1_1: whether to use the rules of SQuAD 1.1. They differ for answers that normalise to "", such as "the":
            these count as answers, with an F1 of 0.
        language: None for the rules of SQuAD, or a language of MLQA.

    Raises:
        InputError: `answers` is empty under the rules of SQuAD 1.1, or the language is unknown.

    >>> score_question(["in Paris", "Paris"], "the city of Paris")
    QuestionScore(exact=0, f1=0.5)
    """
    right_answers = [normalized_answer(answer, language) for answer in answers]
    if not as_in_1_1:
        right_answers = [text for text in right_answers if text] or [""]
    elif not right_answers:
        raise InputError(
            "In SQuAD 1.1 every question must have an answer. Received: a question without one. Use the rules of 2.0."
        )
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


def squad_scores(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    *,
    null_odds: Mapping[str, float] | None = None,
    null_threshold: float = DEFAULT_NULL_THRESHOLD,
    as_in_1_1: bool = False,
    language: str | None = None,
) -> dict[str, float | int]:
    """Returns the official scores of predicted answers.

    Args:
        answers: question id -> texts of its answers; empty if the context does not answer the question.
        predictions: question id -> predicted text; "" for no answer. Questions without a prediction get 0; predictions
            for unknown ids are ignored.
        null_odds: question id -> score of no answer, to find the best thresholds; or None.
        null_threshold: a prediction counts as no answer if its `null_odds` exceed this.
        as_in_1_1, language: see `score_question`.

    Returns:
        The keys of the script for 2.0: `exact` and `f1`, in percent, and `total`, the number of questions. The same
        keys with the prefixes `HasAns_` and `NoAns_` are for the questions with and without an answer, if there are
        any. With `null_odds` also `best_exact`, `best_exact_thresh`, `best_f1` and `best_f1_thresh`.

    Raises:
        InputError: there are no questions, or a question has no null odds.
    """
    if not answers:
        raise InputError("There is no question to score.")
    raw = {
        name: score_question(texts, predictions[name], as_in_1_1=as_in_1_1, language=language)
        if name in predictions
        else QuestionScore(0, 0.0)
        for name, texts in answers.items()
    }
    scores = raw
    if null_odds is not None:
        missing = [name for name in answers if name not in null_odds]
        if missing:
            raise InputError(
                f"Every question must have null odds. Received: {len(missing)} questions without, such as "
                f"{missing[0]!r}. Add a number for each."
            )
        no_answer = {True: QuestionScore(0, 0.0), False: QuestionScore(1, 1.0)}
        scores = {
            name: no_answer[bool(answers[name])] if null_odds[name] > null_threshold else score
            for name, score in raw.items()
        }
    results = _means(list(scores.values()))
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
    """Returns the best mean score, in percent, that a threshold on `null_odds` can give, and the threshold.

    A prediction is kept unless its odds exceed the threshold. At first all predictions are "no answer", which is right
    for questions without an answer. Then predictions are added in the order of their odds; the best sum is kept. If no
    prediction is worth adding, the threshold is 0, as in the scripts, or below all odds where 0 would keep predictions.
    Questions with equal odds are added one by one, as in the scripts, although no threshold divides them.

    Args:
        answers, null_odds: see `squad_scores`.
        predictions: question id -> predicted text, before any threshold is applied.
        earned: question id -> score of the prediction, 0 to 1.
    """
    current = best = float(sum(not texts for texts in answers.values()))
    names = sorted((name for name in null_odds if name in earned), key=null_odds.__getitem__)
    lowest = null_odds[names[0]] if names else 1.0
    threshold = 0.0 if lowest > 0 else lowest - 1.0
    for name in names:
        if answers[name]:
            current += earned[name]
        elif predictions.get(name):
            current -= 1
        if current > best:
            best, threshold = current, null_odds[name]
    return 100.0 * best / len(earned), threshold


def _means(scores: Sequence[QuestionScore]) -> dict[str, float | int]:
    return {
        "exact": 100.0 * sum(score.exact for score in scores) / len(scores),
        "f1": 100.0 * sum(score.f1 for score in scores) / len(scores),
        "total": len(scores),
    }
