"""Optimisers with BERT's exclusions, and learning rate schedules with warm-up.

adamw.py          AdamW, with lower learning rates for lower layers if requested
lamb.py           LAMB, for large batches
moments.py        the common base: moments, exclusions, gradient clipping
muon.py           Muon for the matrices of an encoder's layers, AdamW for the rest
schedules.py      learning rate schedules: warm-up and decay
stable_adamw.py   AdamW whose update is clipped for each variable
"""

from keras_bert.optimization.adamw import AdamW
from keras_bert.optimization.lamb import LAMB
from keras_bert.optimization.muon import Muon
from keras_bert.optimization.schedules import (
    FOR_ONE_FIT,
    GrowingBatchSchedule,
    OneFitDecay,
    PhasedSchedule,
    WarmupConstant,
    WarmupCosineDecay,
    WarmupLinearDecay,
    WarmupPolynomialDecay,
    WarmupTrapezoid,
)
from keras_bert.optimization.stable_adamw import StableAdamW

__all__ = [
    "FOR_ONE_FIT",
    "LAMB",
    "AdamW",
    "GrowingBatchSchedule",
    "Muon",
    "OneFitDecay",
    "PhasedSchedule",
    "StableAdamW",
    "WarmupConstant",
    "WarmupCosineDecay",
    "WarmupLinearDecay",
    "WarmupPolynomialDecay",
    "WarmupTrapezoid",
]
