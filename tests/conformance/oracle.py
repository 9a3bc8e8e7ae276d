"""Brute force: every dataset, every adjacent pair, every outcome. Slow, plain, independent of the library."""

from __future__ import annotations

import itertools

import numpy as np

import discreet


def datasets(n: int, k: int) -> list[tuple[int, ...]]:
    """All count vectors of n records over k levels."""
    records = itertools.combinations_with_replacement(range(k), n)
    return sorted(tuple(map(chosen.count, range(k))) for chosen in records)


def neighbours(c: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All count vectors that replacing one record can lead to."""
    result = []
    for i, j in itertools.permutations(range(len(c)), 2):
        if c[i] > 0:
            moved = list(c)
            moved[i] -= 1
            moved[j] += 1
            result.append(tuple(moved))
    return result


def distribution_matrix(m: discreet.Mechanism) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """All datasets, and log P(outcome | dataset) with one column per outcome of any dataset."""
    points = datasets(m.n, m.k)
    distributions = [m.log_pmf(c) for c in points]
    column: dict[tuple[int, ...], int] = {}
    for outputs, _ in distributions:
        for row in map(tuple, outputs.tolist()):
            column.setdefault(row, len(column))
    matrix = np.full((len(points), len(column)), -np.inf)
    for i, (outputs, log_probability) in enumerate(distributions):
        matrix[i, [column[row] for row in map(tuple, outputs.tolist())]] = log_probability
    return points, matrix


def worst_delta(points: list[tuple[int, ...]], matrix: np.ndarray, epsilon: float) -> float:
    """max over adjacent pairs of Σ_r (P(r|x) − e^ε P(r|x'))₊."""
    index = {c: i for i, c in enumerate(points)}
    distribution = np.exp(matrix)
    return max(
        float(np.maximum(distribution[index[c]] - np.exp(epsilon) * distribution[index[d]], 0).sum())
        for c in points
        for d in neighbours(c)
    )


def worst_loss(points: list[tuple[int, ...]], matrix: np.ndarray) -> float:
    """max over adjacent pairs and outcomes of log P(r|x) − log P(r|x')."""
    index = {c: i for i, c in enumerate(points)}
    worst = -np.inf
    for c in points:
        for d in neighbours(c):
            x, y = matrix[index[c]], matrix[index[d]]
            both = np.isfinite(x) | np.isfinite(y)
            with np.errstate(invalid="ignore"):
                worst = max(worst, float(np.max(x[both] - y[both])))
    return worst
