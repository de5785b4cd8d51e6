"""Optimisers with BERT's exclusions, and learning rate schedules with warm-up.

adamw.py       AdamW, with lower learning rates for lower layers if requested
lamb.py        LAMB, for large batches
moments.py     the common base: moments, exclusions, gradient clipping
schedules.py   learning rate schedules: warm-up and decay
"""

from keras_bert.optimization.adamw import AdamW, rate_multipliers
from keras_bert.optimization.lamb import LAMB
from keras_bert.optimization.schedules import (
    FOR_ONE_FIT,
    OneFitDecay,
    PhasedSchedule,
    WarmupConstant,
    WarmupCosineDecay,
    WarmupLinearDecay,
    WarmupPolynomialDecay,
    WarmupTrapezoid,
)

__all__ = [
    "FOR_ONE_FIT",
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
