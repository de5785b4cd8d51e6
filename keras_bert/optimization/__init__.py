"""How BERT is optimised: AdamW and LAMB with BERT's exclusions, learning rates with warm-up."""

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
