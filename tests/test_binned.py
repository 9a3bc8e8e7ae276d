"""Quantiles and the distribution function of a number released in bins."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet import InvalidInput
from discreet.inference.comparisons import BinnedDistribution


def test_draws_of_known_shares_are_inverted() -> None:
    """Two draws that agree: the interval is a point, and both directions are straight lines in a bin."""
    shares = np.array([[0.2, 0.3, 0.4, 0.1]] * 2)
    found = BinnedDistribution.of(["[0, 10)", "[10, 20)", "[20, 40]", "missing"], shares)
    quarters = found.quantile((0.25, 2 / 9, 0.9))
    assert [row.mean for row in quarters] == pytest.approx([10 + 10 * (0.225 - 0.2) / 0.3, 10, 35.5])
    assert [row.mean for row in found.cdf((0, 10, 15, 40, 99))] == pytest.approx([0, 2 / 9, 3.5 / 9, 1, 1])
    assert all(row.low == row.high == pytest.approx(row.mean) for row in quarters)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_release_in_bins_has_quantiles(relation: str) -> None:
    """20,000 records, ε = 1: the median and a share are about where the records have them."""
    ages = np.random.default_rng(1).triangular(0, 30, 90, 20_000)
    done = discreet.release(
        ages.tolist(), edges=tuple(range(0, 91, 5)), epsilon=1, prior=1, relation=relation
    )
    found = discreet.Release.from_json(done.to_json()).distribution()
    (median,) = found.quantile(0.5)
    (young,) = found.cdf(30)
    assert median.mean == pytest.approx(float(np.median(ages)), abs=1.5)
    assert young.mean == pytest.approx(1 / 3, abs=0.03)
    assert median.low is not None
    assert median.high is not None
    assert 0 < median.high - median.low < 2


def test_what_has_no_finite_bins_is_refused() -> None:
    levels = discreet.release(["a", "b"] * 20, levels=("a", "b"), epsilon=1, prior=(1, 1))
    with pytest.raises(InvalidInput, match="no bins"):
        levels.distribution()
    infinite = BinnedDistribution.of
    with pytest.raises(InvalidInput, match="finite edges"):
        infinite(["[-inf, 0)", "[0, inf]"], np.ones((2, 2)))
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        infinite(["[0, 1)", "[1, 2]"], np.ones((2, 2))).quantile(1.5)
