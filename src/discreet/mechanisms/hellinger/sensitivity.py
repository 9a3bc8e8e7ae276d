"""The sensitivity of the posterior to one record: local, global and smooth, in Hellinger distance.

The exponential mechanisms score a candidate r by u(x, r) = −H(posterior(x), r) under replace-one. With
w(t) = Γ(t+½)/(Γ(t)√t), replacing a record of category i by one of category j moves the posterior Dir(a),
a = α + c, by H = √(1 − w(aᵢ−1)·w(aⱼ)), and that is the sensitivity of u between the two datasets. Nothing
here enumerates datasets; the theorems are proved in ``proofs/sensitivity.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._declarations import as_counts, as_epsilon, as_prior, as_size
from discreet._numerics.hellinger import from_gap
from discreet._typing import EpsilonLike, FloatArray
from discreet.errors import InvalidInputError

_SERIES = (1 / 8, -1 / 192, 1 / 640, -17 / 14336, 31 / 18432, -691 / 180224, 5461 / 425984)
_SERIES_FROM = 12
_MAX_PARAMETER = 10**300  # beyond it −log w is no longer a normal float64


def log_w(t: npt.ArrayLike) -> FloatArray:
    """Return log w(t) = lnΓ(t+½) − lnΓ(t) − ½ ln t, elementwise, with relative error below 1e-14.

    Parameters
    ----------
    t
        Positive numbers.

    Returns
    -------
    FloatArray
        The logarithms.

    Notes
    -----
    For t ≥ 12 the value comes from the asymptotic series −1/(8t) + 1/(192t³) − …, which encloses
    it. Below 12 it comes from the recurrence log w(t) = log w(t+1) + ½ ln(1 − 1/(2t+1)²). All terms of that
    sum have the same sign.

    Examples
    --------
    >>> round(float(np.exp(2 * log_w(1.0))), 6) == round(math.pi / 4, 6)
    True
    """
    t = np.asarray(t, dtype=np.float64)
    small = t < _SERIES_FROM
    inverse = 1.0 / np.where(small, t + _SERIES_FROM, t)
    series = np.zeros_like(inverse)
    for coefficient in reversed(_SERIES):
        series = series * (inverse * inverse) + coefficient
    result = np.array(-series * inverse)
    result[small] += 0.5 * _log_raise(np.add.outer(t[small], np.arange(_SERIES_FROM))).sum(axis=-1)
    return result


def _log_raise(t: FloatArray) -> FloatArray:
    """Return ln(1 − 1/(2t+1)²), from the factors 4t(t+1)/(2t+1)² where the difference would cancel."""
    inverse = 1.0 / (2.0 * t + 1.0)
    far = t > 0.5
    difference = np.log1p(np.where(far, -inverse * inverse, 0.0))
    factors = np.log(np.where(far, 1.0, 4.0 * t * (t + 1.0) * (inverse * inverse)))
    return np.where(far, difference, factors)


def step_distance(t: npt.ArrayLike, s: npt.ArrayLike) -> FloatArray:
    """Return the Hellinger distance √(1 − w(t)w(s)) by which replacing one record moves the posterior.

    Parameters
    ----------
    t
        The posterior parameter aᵢ of the level that the record leaves, minus 1.
    s
        The posterior parameter aⱼ of the level that it joins.

    Returns
    -------
    FloatArray
        Distances, with relative error below 1e-14.

    Examples
    --------
    >>> round(float(step_distance(4.0, 5.0)), 4)
    0.2336
    """
    return from_gap(-(log_w(t) + log_w(s)))


def local_sensitivity(counts: Iterable[Any], prior: float | Sequence[float]) -> float:
    """Return the largest Hellinger distance to the posterior of a dataset with one record replaced.

    Parameters
    ----------
    counts
        The counts c, one for each level.
    prior
        Parameters α of the Dirichlet prior, one for each level or one for all.

    Returns
    -------
    float
        LS(c), which is the largest √(1 − w(aᵢ−1)w(aⱼ)) over i with cᵢ ≥ 1 and j ≠ i, where a = α + c. It
        depends on the data, so noise scaled by it is not private.

    Examples
    --------
    >>> round(local_sensitivity((4, 4), prior=1), 12)
    0.233629480709
    """
    log_affinity, _ = next(_extremes(*_check(counts, prior)))
    return float(from_gap(-log_affinity).max())


def global_sensitivity(n: int, prior: Sequence[float], sensitivity: str = "tight") -> float:
    """Return the largest local sensitivity of any dataset of n records.

    Parameters
    ----------
    n
        Number of records.
    prior
        Parameters α of the Dirichlet prior, one for each level.
    sensitivity
        ``tight`` gives the exact value for n and α. ``paper`` gives √(1 − π/4), the constant of the papers,
        which is a bound if every αᵢ ≥ 1.

    Returns
    -------
    float
        The sensitivity.

    Raises
    ------
    InvalidInputError
        If ``sensitivity="paper"`` is not a bound for this prior, or a value is out of range.

    Examples
    --------
    >>> round(global_sensitivity(100, (0.5, 0.5, 0.5)), 5)
    0.60281
    >>> round(global_sensitivity(100, (1, 1, 1), "paper"), 5)
    0.46325
    """
    n, alpha = as_size(n), as_prior(prior)
    _check_range(n, alpha)
    if sensitivity == "paper":
        if min(alpha) < 1:
            raise InvalidInputError(
                f"sensitivity='paper' is too small for prior={prior!r}, which has a parameter below 1: "
                "take sensitivity='tight'"
            )
        return math.sqrt(1 - math.pi / 4)
    if sensitivity != "tight":
        raise InvalidInputError("must be 'tight' or 'paper'", "sensitivity", sensitivity)
    if len(alpha) > 2:
        return float(step_distance(*sorted(alpha)[:2]))
    return float(step_distance(alpha, np.array(alpha[::-1]) + float(n - 1)).max())


def smooth_sensitivity(
    counts: Iterable[Any],
    prior: float | Sequence[float],
    *,
    gamma: EpsilonLike | None = None,
    beta: EpsilonLike | None = None,
) -> float:
    """Return the γ- or β-smooth sensitivity of the Hellinger distance.

    Parameters
    ----------
    counts
        The counts c, one for each level.
    prior
        Parameters α of the Dirichlet prior, one for each level or one for all.
    gamma
        The smoothness γ in S_γ(c), the largest 1/(1/LS(c') + γd) over all datasets c', where d = ‖c−c'‖₁/2.
    beta
        The smoothness β in S_β(c), the largest LS(c')e^{−βd} over all datasets c'. Give exactly one of γ and
        β.

    Returns
    -------
    float
        The sensitivity. Between neighbours 1/S_γ moves by at most γ, and log S_β by at most β, up to relative
        rounding of 1e-14.

    Raises
    ------
    InvalidInputError
        If not exactly one of ``gamma`` and ``beta`` is given.

    Examples
    --------
    >>> round(smooth_sensitivity((4, 4), prior=1, gamma=1), 6)
    0.233629
    >>> round(smooth_sensitivity((40, 40), prior=1, beta="0.1"), 6)
    0.078451
    """
    name, smoothness = ("beta", beta) if gamma is None else ("gamma", gamma)
    if smoothness is None or (gamma is not None and beta is not None):
        raise InvalidInputError(f"give exactly one of gamma and beta, not gamma={gamma!r} and beta={beta!r}")
    rate = float(as_epsilon(smoothness, name))
    c, alpha = _check(counts, prior)
    best = 0.0
    for log_affinity, moved in _extremes(c, alpha):
        local = from_gap(-log_affinity)
        with np.errstate(over="ignore"):  # γd = ∞: too far to matter
            value = local * np.exp(-rate * moved) if gamma is None else 1 / (1 / local + rate * moved)
        best = max(best, float(value.max()))
    return best


def _extremes(c: tuple[int, ...], alpha: tuple[float, ...]) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield, for every possible optimum, log affinities of steps and the numbers of records moved before.

    1/√(1−w(t)w(s)) is concave in the records moved, so it is best to move none (the local sensitivity, first
    here), to empty i and then step between i and the smallest other category, or to empty two categories and
    then step between them. If there are only two categories, one cannot be emptied without filling the other.
    """
    prior, count = np.array(alpha), _floats(c)
    one_less = _floats(max(m - 1, 0) for m in c)
    empty, less, full = log_w(prior + np.array([np.zeros(len(c)), one_less, count]))
    partner = _smallest_other(full)  # w increases, so the best j is the smallest other aⱼ
    yield (less + partner)[count > 0], np.zeros(1)
    if len(c) == 2:
        yield empty + log_w(prior[::-1] + float(sum(c) - 1)), np.abs(count - 1)
        return
    yield empty + partner, np.abs(count - 1)
    efficient = _efficient(c, alpha)
    empty, count = empty[efficient], count[efficient]
    for i in range(1, len(efficient)):
        yield empty[i] + empty[:i], count[i] + count[:i] - 1


def _smallest_other(values: FloatArray) -> FloatArray:
    """Return, for each i, the smallest of ``values[j]`` over all j ≠ i."""
    first, second = np.argpartition(values, 1)[:2]
    result = np.full_like(values, values[first])
    result[first] = values[second]
    return result


def _efficient(c: tuple[int, ...], alpha: tuple[float, ...]) -> list[int]:
    """Return the occupied categories for which fewer than two others are at most as large in both α and c."""
    efficient: list[int] = []
    lowest: list[int] = []
    for i in sorted((i for i, count in enumerate(c) if count), key=lambda i: (alpha[i], c[i])):
        if len(lowest) < 2 or c[i] < lowest[1]:
            efficient.append(i)
            lowest = sorted([*lowest, c[i]])[:2]
    return efficient


def _floats(values: Iterable[int]) -> FloatArray:
    return np.array([float(value) for value in values])


def _check(
    counts: Iterable[Any], prior: float | Sequence[float]
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    try:
        values = tuple(counts)
        n = sum(int(value) for value in values)
    except (TypeError, ValueError, OverflowError):  # whose message would quote a private count
        raise InvalidInputError("counts must be a sequence of whole numbers, one per level") from None
    checked = as_counts(counts if isinstance(counts, Mapping) else values, len(values), n)
    alpha = as_prior(prior, len(checked))
    _check_range(as_size(n), alpha)
    return checked, alpha


def _check_range(n: int, alpha: tuple[float, ...]) -> None:
    if n > _MAX_PARAMETER or max(alpha) > _MAX_PARAMETER:
        raise InvalidInputError("n and every parameter of prior must be at most 1e300")
