"""Learning rates at every step of a run equal their formulas in plain Python."""

import json
import math
from fractions import Fraction

import keras
import pytest

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
    "linear": (
        WarmupLinearDecay(2e-4, 50, 8),
        in_warmup_or(lambda step: 2e-4 * (1 - min(step, 50) / 50), 2e-4, 8),
    ),
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
    "cosine without a fall": (
        WarmupCosineDecay(1e-3, 10, 10),
        in_warmup_or(lambda step: 0.0, 1e-3, 10),
    ),
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
def test_every_step_has_the_rate_of_the_formula(name):
    schedule, expected = SCHEDULES[name]
    peak = max(expected(step) for step in range(60))
    for step in range(60):
        assert float(schedule(step)) == pytest.approx(expected(step), rel=1e-5, abs=1e-6 * peak), step


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_survives_serialisation(name):
    schedule, _ = SCHEDULES[name]
    copy = keras.saving.deserialize_keras_object(json.loads(json.dumps(keras.saving.serialize_keras_object(schedule))))
    assert type(copy) is type(schedule)
    assert [float(copy(step)) for step in range(60)] == [float(schedule(step)) for step in range(60)]


def test_a_polynomial_of_power_1_is_the_line():
    line, polynomial = WarmupLinearDecay(1e-3, 50, 5), WarmupPolynomialDecay(1e-3, 50, 5)
    assert [float(line(step)) for step in range(55)] == [float(polynomial(step)) for step in range(55)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WarmupCosineDecay(-1.0, 5), "a finite number of at least 0. Received: -1.0"),
        (lambda: WarmupCosineDecay(math.nan, 5), "a finite number of at least 0. Received: nan"),
        (lambda: WarmupConstant(1.0, 0), "num_train_steps must be at least 1. Received: 0"),
        (lambda: WarmupConstant(1.0, 5, 6), "between 0 and num_train_steps=5. Received: 6"),
        (lambda: WarmupPolynomialDecay(1.0, 5, power=0.0), "a finite number above 0. Received: 0.0"),
        (
            lambda: WarmupPolynomialDecay(1.0, 5, end_rate=2.0),
            "between 0 and the highest learning rate 1.0. Received: 2",
        ),
        (lambda: WarmupTrapezoid(1.0, 10, 4, num_decay_steps=7), "between 1 and .* = 6. Received: 7"),
        (lambda: WarmupTrapezoid(1.0, 10, 4, num_decay_steps=0), "between 1 and .* = 6. Received: 0"),
        (lambda: PhasedSchedule(None, None, 0), "first phase must have at least 1 step. Received: 0"),
    ],
)
def test_invalid_numbers_of_a_schedule_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


# Exact arithmetic, so that a boundary is at exactly one step. From the published formulas: the linear warm-up and the
# polynomial of google-research/bert optimization.py, the cosine of arXiv 1608.03983, the cool-down of arXiv 2405.18392.
def exact_warmup(peak, step, warmup):
    return Fraction(peak) * Fraction(step) / warmup


def exact_polynomial(peak, step, total, power=1, end=0):
    left = 1 - min(Fraction(step), total) / total
    return (Fraction(peak) - Fraction(end)) * left**power + Fraction(end)


def exact_cosine_at(peak, share):
    """At quarters of the decay, where the cosine is known exactly: 1, sqrt(1/2), 0, -sqrt(1/2), -1."""
    cosines = {Fraction(0): 1, Fraction(1, 3): Fraction(1, 2), Fraction(1, 2): 0, Fraction(2, 3): Fraction(-1, 2)}
    return Fraction(peak) / 2 * (1 + (cosines | {Fraction(1): Fraction(-1)})[share])


def exact_trapezoid(peak, step, total, decay):
    return Fraction(peak) if step <= total - decay else Fraction(peak) * max(total - Fraction(step), 0) / decay


# Powers of two, which float32 divides and multiplies without rounding: equality is exact.
PEAK = 0.5
BOUNDARIES = {
    # (schedule, step): the exact rate just before each boundary, at it and just after it; also between two updates.
    "linear": (
        WarmupLinearDecay(PEAK, 64, 16),
        {
            **{step: exact_warmup(PEAK, step, 16) for step in (0, 1, 15, 15.5)},
            **{step: exact_polynomial(PEAK, step, 64) for step in (16, 16.5, 17, 63, 63.5, 64, 64.5, 65, 1000)},
        },
    ),
    "linear without warm-up": (
        WarmupLinearDecay(PEAK, 64),
        {step: exact_polynomial(PEAK, step, 64) for step in (0, 0.5, 1, 63, 64, 65)},
    ),
    "linear that is all warm-up": (
        WarmupLinearDecay(PEAK, 16, 16),
        {**{step: exact_warmup(PEAK, step, 16) for step in (0, 15, 15.5)}, 16: Fraction(0), 17: Fraction(0)},
    ),
    "polynomial": (
        WarmupPolynomialDecay(PEAK, 64, 16, power=2.0, end_rate=0.125),
        {
            **{step: exact_warmup(PEAK, step, 16) for step in (0, 15, 15.5)},
            **{step: exact_polynomial(PEAK, step, 64, 2, 0.125) for step in (16, 16.5, 32, 63, 63.5, 64, 65, 1000)},
        },
    ),
    "cosine": (
        WarmupCosineDecay(PEAK, 64, 16),
        {
            **{step: exact_warmup(PEAK, step, 16) for step in (0, 15, 15.5)},
            **{16 + 48 * share: exact_cosine_at(PEAK, share) for share in map(Fraction, ("0", "1/3", "1/2", "2/3"))},
            **{step: exact_cosine_at(PEAK, Fraction(1)) for step in (64, 64.5, 65, 1000)},
        },
    ),
    "trapezoid": (
        WarmupTrapezoid(PEAK, 64, 16, num_decay_steps=32),
        {
            **{step: exact_warmup(PEAK, step, 16) for step in (0, 15, 15.5)},
            **{step: exact_trapezoid(PEAK, step, 64, 32) for step in (16, 31, 31.5, 32, 32.5, 33, 63, 64, 65, 1000)},
        },
    ),
    "constant": (
        WarmupConstant(PEAK, 64, 16),
        {
            **{step: exact_warmup(PEAK, step, 16) for step in (0, 15, 15.5)},
            **{step: Fraction(PEAK) for step in (16, 16.5, 17, 64, 65)},
        },
    ),
    "phases": (
        # At the boundary, the first has fallen to 0.25 and the second is at its peak: every step is in one phase.
        PhasedSchedule(WarmupLinearDecay(PEAK, 64, 16), WarmupTrapezoid(2.0, 32, 0, num_decay_steps=16), 32),
        {
            **{step: exact_warmup(PEAK, step, 16) for step in (0, 15)},
            **{step: exact_polynomial(PEAK, step, 64) for step in (16, 31, 31.5)},
            **{step: exact_trapezoid(2.0, step - 32, 32, 16) for step in (32, 32.5, 33, 47, 48, 49, 63, 64, 65)},
        },
    ),
    "phases of which the second warms up": (
        PhasedSchedule(WarmupConstant(PEAK, 8), WarmupLinearDecay(1.0, 64, 16), 8),
        {
            **{step: Fraction(PEAK) for step in (0, 7, 7.5)},
            **{step: exact_warmup(1, step - 8, 16) for step in (8, 8.5, 9, 23)},
            **{step: exact_polynomial(1, step - 8, 64) for step in (24, 25, 71, 72, 73)},
        },
    ),
}


@pytest.mark.parametrize("name", BOUNDARIES)
def test_on_both_sides_of_each_boundary_the_rate_is_exact(name):
    schedule, expected = BOUNDARIES[name]
    # A cosine has rounding errors in the last bits of float32.
    error = 1e-7 if name == "cosine" else 0
    for step, rate in expected.items():
        found = Fraction(float(schedule(float(step))))
        assert abs(found - rate) <= error, f"step {step}: {float(found)} instead of {float(rate)}"


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WarmupConstant(math.inf, 5), "a finite number of at least 0. Received: inf"),
        (lambda: WarmupConstant(1.0, 5, -1), "between 0 and num_train_steps=5. Received: -1"),
        (lambda: WarmupPolynomialDecay(1.0, 5, power=math.inf), "a finite number above 0. Received: inf"),
        (lambda: WarmupPolynomialDecay(1.0, 5, end_rate=-0.5), "between 0 and the highest .* Received: -0.5"),
        (lambda: PhasedSchedule(None, None, -1), "first phase must have at least 1 step. Received: -1"),
    ],
)
def test_numbers_beyond_the_ends_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
