"""Optimisers and learning rates: AdamW and LAMB with BERT's exclusions, schedules with warm-up.

adamw.py       AdamW with BERT's exclusions, and lower rates for lower layers
lamb.py        LAMB, for large batches
moments.py     their common part: moments, exclusions, gradient clipping
schedules.py   learning rates: warm-up and decay
"""

from keras_bert.optimization.adamw import AdamW, rate_multipliers
from keras_bert.optimization.lamb import LAMB
from keras_bert.optimization.schedules import (
    OneFitDecay,
    PhasedSchedule,
    WarmupConstant,
    WarmupCosineDecay,
    WarmupLinearDecay,
    WarmupPolynomialDecay,
    WarmupTrapezoid,
)

__all__ = [
    "LAMB",
    "AdamW",
    "OneFitDecay",
    "PhasedSchedule",
    "WarmupConstant",
    "WarmupCosineDecay",
    "WarmupLinearDecay",
    "WarmupPolynomialDecay",
    "WarmupTrapezoid",
    "rate_multipliers",
]
