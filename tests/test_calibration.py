"""A small version of benchmarks/calibration.py."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.calibration import CASES, Calibration, calibrations, picture


def test_the_figures_see_what_is_wrong() -> None:
    rng = np.random.default_rng(1)
    fair = Calibration("", rng.random((5000, 1)), rng.random(5000))
    narrow = Calibration("", rng.beta(0.5, 0.5, (5000, 1)), rng.beta(0.5, 0.5, 5000))
    assert fair.p_value > 1e-4
    assert fair.tarp < 3 * fair.alone
    assert narrow.p_value < 1e-9
    assert narrow.tarp > 0.05
    assert narrow.coverage(0.9) < 0.8
    assert picture([fair, narrow]).count("<polyline") == 2


def test_every_repetition_can_be_made_again() -> None:
    first, again = (list(calibrations(3, only=("ε 0.1",))) for _ in range(2))
    assert isinstance(first[0], Calibration)
    assert isinstance(again[0], Calibration)
    assert (first[0].ranks == again[0].ranks).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "repetitions"),
    [
        ("proportion, 2 levels, n 100, ε 0.1", 400),
        ("proportion, 5 levels", 300),
        ("add/remove, 2 levels", 300),
        ("add/remove, 10 levels, ε 0.5: total", 200),
        ("table", 200),
        ("pooled, 50 groups", 60),
        ("discrete Laplace", 400),
        ("clamped", 400),
        ("mean, n 400", 100),
        ("weighted shares, 3 levels", 200),
        ("regress, gaussian", 40),
        ("likelihood", 60),
    ],
)
def test_answers_are_calibrated(name: str, repetitions: int) -> None:
    """Seeded. Ranks and expected coverage (Kolmogorov) at 1e-8, intervals at six errors."""
    (found,) = calibrations(repetitions, seed=7, only=(name,))
    assert isinstance(found, Calibration)
    assert found.p_value > 1e-8
    assert found.tarp < math.sqrt(math.log(2e8) / 2 / repetitions)
    assert abs(found.coverage(0.9) - 0.9) < 6 * math.sqrt(0.09 / repetitions)


def test_every_kind_of_answer_has_a_row() -> None:
    names = " ".join(case.name for case in CASES)
    for kind in (
        "proportion",
        "add/remove",
        "table",
        "pooled",
        "noisy counts",
        "mean",
        "weighted",
        "regress",
        "NumPyro",
    ):
        assert kind in names
