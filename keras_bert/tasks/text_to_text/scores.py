"""BLEU and ROUGE of written texts, by the packages sacrebleu and rouge-score."""

import importlib.util
from collections.abc import Sequence

from keras_bert.program.errors import InputError, how_to_install
from keras_bert.program.user_inputs import as_list

_PACKAGES = ("sacrebleu", "rouge_score")
_ROUGE = ("rouge1", "rouge2", "rougeL")


def has_text_scores() -> bool:
    """Returns whether the packages are installed."""
    return all(importlib.util.find_spec(name) is not None for name in _PACKAGES)


def text_scores(written: Sequence[str], targets: Sequence[str]) -> dict[str, float]:
    """Returns `bleu` from 0 to 100 (sacrebleu's default), and `rouge1`, `rouge2` and `rougeL`, F1 from 0 to 1.

    Raises `InputError` if there are no texts, not as many targets, or a package is not installed.

    Reference: Post, 2018, arXiv 1804.08771; Lin, 2004, as in google-research/rouge, without stemming.
    """
    bleu, _ = _bleu(written, targets)
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(_ROUGE)
    found = [scorer.score(target, text) for text, target in zip(written, targets, strict=True)]
    means = {name: sum(scores[name].fmeasure for scores in found) / len(found) for name in _ROUGE}
    return {"bleu": bleu, **means}


def bleu_signature(written: Sequence[str], targets: Sequence[str]) -> str:
    """Returns sacrebleu's signature, which names its version and settings."""
    return _bleu(written, targets)[1]


def _bleu(written: Sequence[str], targets: Sequence[str]) -> tuple[float, str]:
    written, targets = as_list(written, "written texts"), as_list(targets, "targets")
    if not len(written) or len(written) != len(targets):
        raise InputError(
            f"Written texts and targets must be equally many, at least one. Received: {len(written)} and {len(targets)}"
        )
    if not has_text_scores():
        raise InputError(f"BLEU and ROUGE need sacrebleu and rouge-score. {how_to_install('generation')}")
    from sacrebleu.metrics import BLEU

    metric = BLEU()
    score = metric.corpus_score(written, [targets]).score
    return float(score), str(metric.get_signature())
