"""Goodness of fit of drawn outputs against a claimed distribution, with one stated false-alarm rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import chi2

ALPHA_SUITE = 1e-6
"""False-alarm rate of the whole suite; every statistical test takes ALPHA_SUITE / TESTS of it."""
TESTS = 400
"""No more statistical tests than this run, slow ones and repetitions over parameters included."""
ALPHA = ALPHA_SUITE / TESTS


def chi_square(observed: np.ndarray, expected: np.ndarray) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom; cells expecting fewer than 10 are pooled."""
    order = np.argsort(expected)
    # Every cell below 10 goes into the pool, and more of them until the pool itself reaches 10.
    pooled = (expected[order] < 10) | (np.cumsum(expected[order]) < 10)
    number = int(pooled.sum())
    while 0 < number < len(order) and expected[order[:number]].sum() < 10:
        number += 1
    small, large = order[:number], order[number:]
    seen = np.append(observed[large], observed[small].sum())
    wanted = np.append(expected[large], expected[small].sum())
    keep = wanted > 0
    assert seen[~keep].sum() == 0, "an outcome of probability zero occurred"
    seen, wanted = seen[keep], wanted[keep]
    return float(((seen - wanted) ** 2 / wanted).sum()), max(len(wanted) - 1, 0)


def fit(
    drawn: Sequence[Sequence[int]] | np.ndarray, outputs: np.ndarray, probability: np.ndarray
) -> list[tuple[float, int]]:
    """Chi-square of the joint distribution, then of each coordinate's marginal distribution."""
    rows = np.asarray(drawn)
    low = np.minimum(rows.min(axis=0), outputs.min(axis=0))
    shape = tuple(int(top) for top in np.maximum(rows.max(axis=0), outputs.max(axis=0)) - low + 1)
    known = np.ravel_multi_index(tuple((outputs - low).T), shape)
    seen = np.ravel_multi_index(tuple((rows - low).T), shape)
    order = np.argsort(known)
    place = order[np.minimum(np.searchsorted(known[order], seen), len(known) - 1)]
    assert (known[place] == seen).all(), "an output outside the claimed support occurred"
    observed = np.bincount(place, minlength=len(known)).astype(float)
    expected = len(drawn) * probability / probability.sum()
    result = [chi_square(observed, expected)]
    for column in outputs.T:
        low = int(column.min())
        result.append(chi_square(np.bincount(column - low, observed), np.bincount(column - low, expected)))
    return result


def combined_p(fits: Sequence[Sequence[tuple[float, int]]]) -> float:
    """One p-value for many fits: the smallest of them and of their pooled marginals, times their number."""
    parts = [part for one in fits for part in one]
    pooled = [one[1] for one in fits]  # first coordinate only: fits of different cases are independent
    parts.append((sum(s for s, _ in pooled), sum(df for _, df in pooled)))
    ps = [chi2.sf(statistic, df) if df else 1.0 for statistic, df in parts]
    return float(min(1.0, len(ps) * min(ps)))
