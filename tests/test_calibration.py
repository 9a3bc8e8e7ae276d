"""A small version of benchmarks/calibration.py."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.calibration import Calibration, cases


def test_the_figures_see_what_is_wrong():
    rng = np.random.default_rng(1)
    fair, narrow = Calibration("", rng.random(5000)), Calibration("", rng.beta(0.5, 0.5, 5000))
    assert fair.p_value > 1e-4
    assert fair.rmse < 0.02
    assert narrow.p_value < 1e-9
    assert narrow.coverage(0.9) < 0.8


@pytest.mark.slow
def test_answers_are_calibrated():
    """Ranks are uniform and 90 % intervals hold: seeded, each at 1e-7 or six standard errors."""
    for case in cases(np.random.default_rng(7), 300):
        found = case()
        independent = "pooled" not in found.name  # groups of one repetition share their hyperparameters
        assert not independent or found.p_value > 1e-7, found.name
        assert abs(found.coverage(0.9) - 0.9) < 6 * np.sqrt(0.09 / 300), found.name
