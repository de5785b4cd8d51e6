"""Learning rates at every step of a run equal their formulas in plain Python."""

import math

import pytest
from optimization.test_optimization import copy_of

from keras_bert.optimization import (
    PhasedSchedule,
    WarmupConstant,
    WarmupCosineDecay,
    WarmupLinearDecay,
    WarmupPolynomialDecay,
    WarmupTrapezoid,
)
from keras_bert.program.errors import InputError


def in_warmup_or(after, peak, warmup):
    return lambda step: peak * step / warmup if step < warmup else after(step)


# (schedule, the same as a function of the step)
SCHEDULES = {
    "linear": (WarmupLinearDecay(2e-4, 50, 8), in_warmup_or(lambda step: 2e-4 * (1 - min(step, 50) / 50), 2e-4, 8)),
    "polynomial": (
        WarmupPolynomialDecay(6e-3, 50, 8, power=0.5),
        in_warmup_or(lambda step: 6e-3 * math.sqrt(1 - min(step, 50) / 50), 6e-3, 8),
    ),
    "polynomial with an end": (
        WarmupPolynomialDecay(1e-3, 40, 4, power=2.0, end_rate=2e-4),
        in_warmup_or(lambda step: 8e-4 * (1 - min(step, 40) / 40) ** 2 + 2e-4, 1e-3, 4),
    ),
    "cosine": (
        WarmupCosineDecay(1e-3, 50, 10),
        in_warmup_or(lambda step: 1e-3 * (1 + math.cos(math.pi * (min(step, 50) - 10) / 40)) / 2, 1e-3, 10),
    ),
    "cosine without a fall": (WarmupCosineDecay(1e-3, 10, 10), in_warmup_or(lambda step: 0.0, 1e-3, 10)),
    "trapezoid": (
        WarmupTrapezoid(1e-3, 50, 10, num_decay_steps=20),
        in_warmup_or(lambda step: 1e-3 if step < 30 else 1e-3 * (50 - min(step, 50)) / 20, 1e-3, 10),
    ),
    "constant": (WarmupConstant(1e-3, 50, 10), in_warmup_or(lambda step: 1e-3, 1e-3, 10)),
    "phases": (
        PhasedSchedule(WarmupLinearDecay(1e-3, 30, 5), WarmupCosineDecay(4e-4, 20, 4), 30),
        lambda step: (
            in_warmup_or(lambda s: 1e-3 * (1 - s / 30), 1e-3, 5)(step)
            if step < 30
            else in_warmup_or(lambda s: 2e-4 * (1 + math.cos(math.pi * (min(s, 20) - 4) / 16)), 4e-4, 4)(step - 30)
        ),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_step_has_the_rate_of_the_formula_also_after_serialisation(name):
    schedule, expected = SCHEDULES[name]
    copy = copy_of(schedule)
    assert type(copy) is type(schedule)
    peak = max(expected(step) for step in range(60))
    for step in range(60):
        assert float(copy(step)) == float(schedule(step)), step
        assert float(schedule(step)) == pytest.approx(expected(step), rel=1e-5, abs=1e-6 * peak), step


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WarmupCosineDecay(-1.0, 5), "peak must be a number of at least 0. Received: -1.0"),
        (lambda: WarmupConstant(1.0, 0), "num_train_steps must be a whole number of at least 1. Received: 0"),
        (lambda: WarmupConstant(1.0, 5, 6), "num_warmup_steps must be .* at most 5. Received: 6"),
        (lambda: WarmupPolynomialDecay(1.0, 5, power=0.0), "power must be a number above 0. Received: 0.0"),
        (lambda: WarmupPolynomialDecay(1.0, 5, end_rate=2.0), "end_rate must be .* at most 1. Received: 2"),
        (
            lambda: WarmupTrapezoid(1.0, 10, 4, num_decay_steps=7),
            "num_decay_steps must be .* at least 1 and at most 6. Received: 7",
        ),
        (
            lambda: WarmupTrapezoid(1.0, 10, 4, num_decay_steps=0),
            "num_decay_steps must be .* at least 1 and at most 6. Received: 0",
        ),
        (lambda: PhasedSchedule(None, None, 0), "num_first_steps must be a whole number of at least 1. Received: 0"),
    ],
)
def test_invalid_numbers_of_a_schedule_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: WarmupConstant(0.0, 1),
        lambda: WarmupConstant(1.0, 1, 1),
        lambda: WarmupConstant(1.0, 5, 0),
        lambda: WarmupPolynomialDecay(1.0, 5, end_rate=1.0),
        lambda: WarmupPolynomialDecay(1.0, 5, end_rate=0.0, power=1e-3),
        lambda: WarmupTrapezoid(1.0, 10, 4, num_decay_steps=6),
        lambda: WarmupTrapezoid(1.0, 10, 4, num_decay_steps=1),
        lambda: PhasedSchedule(WarmupConstant(1.0, 1), WarmupConstant(1.0, 1), 1),
    ],
)
def test_the_smallest_and_largest_valid_numbers_are_accepted(make):
    assert math.isfinite(float(make()(0)))
