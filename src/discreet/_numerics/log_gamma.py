"""Differences of log-Gamma functions without cancellation, for parameters of 10⁻³ to 10³⁰."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray, IntArray

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _log_one_minus_square(a: FloatArray, b: FloatArray, y: FloatArray) -> FloatArray:
    """Return ln(1 − y²) = ln(ab/m²), computed from y if it is small, and otherwise from a and b.

    Here m = (a+b)/2 and y = (a−b)/2m.
    """
    far = np.abs(y) >= 0.5
    value = np.asarray(np.log1p(-np.where(far, 0.0, y * y)))
    middle = 0.5 * (a[far] + b[far])
    value[far] = np.log(a[far] / middle) + np.log(b[far] / middle)
    return value


def log_rising(a: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    """Return lnΓ(a + x) − lnΓ(1 + x), the log-weight of a Dirichlet-multinomial count, stable for large x."""
    t = np.asarray(x, dtype=np.float64) + 1.0
    d = np.asarray(a, dtype=np.float64) - 1.0
    leading = (t + d - 0.5) * np.log1p(d / t) + d * np.log(t) - d
    return leading + stirling_remainder(t + d) - stirling_remainder(t)


def log_predictive(prior: Sequence[float], rows: IntArray) -> FloatArray:
    """Return log DirMult(row; prior, n) of each row of counts, up to a constant."""
    columns = [log_rising(a, column) for a, column in zip(prior, rows.T, strict=True)]
    return np.asarray(np.sum(columns, axis=0), dtype=np.float64)


def reduced_log_gamma(start: float, u: FloatArray) -> FloatArray:
    """Return lnΓ(start + u) minus an affine function of u, without cancellation for large ``start``.

    Callers use the result g only in ½(g(u) + g(v)) − g((u+v)/2), where affine functions cancel.
    """
    centre = start + 0.5 * float(u[-1])
    y = (u - 0.5 * float(u[-1])) / centre
    log = np.log1p(y)
    curve = entropy_curve(y)
    return centre * curve - 0.5 * log + stirling_remainder(centre * (1.0 + y))


_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
_SMALLEST_STIRLING_ARGUMENT = 10


def _stirling_series(t: FloatArray) -> FloatArray:
    inverse_square = 1.0 / (t * t)
    series = np.zeros_like(t)
    for coefficient in reversed(_STIRLING):
        series = series * inverse_square + coefficient
    return np.asarray(series / t, dtype=np.float64)


def stirling_remainder(t: npt.ArrayLike) -> FloatArray:
    """Return lnΓ(t) − [(t − ½) ln t − t + ½ ln 2π] for t > 0, without cancellation for large t."""
    from scipy.special import gammaln

    t = np.asarray(t, dtype=np.float64)
    small = np.minimum(t, 10.0)
    direct = gammaln(small) - ((small - 0.5) * np.log(small) - small + _HALF_LOG_2PI)
    return np.asarray(np.where(t >= 10.0, _stirling_series(np.maximum(t, 10.0)), direct), dtype=np.float64)


def log_factorial_excess(x: FloatArray) -> FloatArray:
    """Return log Γ(x+1) − x log x + x for x ≥ 0, without cancellation for large x."""
    from scipy.special import gammaln, xlogy

    large = np.maximum(x, 10.0)
    result = np.asarray(_stirling_series(large) + 0.5 * np.log(large) + _HALF_LOG_2PI)
    small = x < 10
    if np.any(small):
        few = x[small]
        result[small] = gammaln(few + 1) - xlogy(few, few) + few
    return result


def log_gamma_step(a: npt.ArrayLike, r: npt.ArrayLike) -> FloatArray:
    """Return lnΓ(a + r) − lnΓ(a) for a, r > 0, elementwise, without cancellation for large a."""
    a, r = np.asarray(a, dtype=np.float64), np.asarray(r, dtype=np.float64)
    remainders = stirling_remainder(a + r) - stirling_remainder(a)
    return np.asarray((a - 0.5) * np.log1p(r / a) + r * np.log(a + r) - r + remainders, dtype=np.float64)


def entropy_curve(y: FloatArray) -> FloatArray:
    """Return (1+y)ln(1+y) − y, near 0 by its series y² Σ_{j≥2} (−y)^{j−2} / (j(j−1)), which avoids
    cancellation."""
    near = np.where(np.abs(y) < 0.05, y, 0.0)
    series = np.zeros_like(near)
    for j in range(16, 1, -1):
        series = series * -near + 1.0 / (j * (j - 1))
    far = (1.0 + y) * np.log1p(y) - y
    return np.asarray(np.where(np.abs(y) < 0.05, series * near * near, far), dtype=np.float64)


def log_gamma_gap(a: npt.ArrayLike, b: npt.ArrayLike, difference: npt.ArrayLike | None = None) -> FloatArray:
    """Return f(a, b) = ½(lnΓ(a) + lnΓ(b)) − lnΓ((a+b)/2), elementwise.

    The relative error is below 2⁻⁴⁵ for a and b from 10⁻³ to 10³⁰ that differ by 1 or more, as counts do. If
    they are closer, the absolute error is about 2⁻⁵⁶/m, from the Stirling remainders. Beyond 10³⁰ the error
    grows with ln(a/b).

    With m = (a+b)/2 and y = (a−b)/(a+b) the leading terms of Stirling's formula cancel analytically:
    2y·artanh(y) + ln(1−y²) loses a factor of three where the plain form loses all digits. Small arguments
    are first raised by the recurrence, f(a, b) = f(a+1, b+1) − ½ ln(1 − ((a−b)/2m)²). ``difference`` is
    a − b where it is known better than from the rounded a and b. Error analysis: ``proofs/envelope.md``.
    """
    a, b = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
    apart = a - b if difference is None else np.broadcast_to(np.asarray(difference, np.float64), a.shape)
    gap = _large_gap(
        np.maximum(a, _SMALLEST_STIRLING_ARGUMENT), np.maximum(b, _SMALLEST_STIRLING_ARGUMENT), apart
    )
    small = np.minimum(a, b) < _SMALLEST_STIRLING_ARGUMENT
    if small.any():
        x, y, d = a[small], b[small], apart[small]
        raised = _large_gap(x + _SMALLEST_STIRLING_ARGUMENT, y + _SMALLEST_STIRLING_ARGUMENT, d)
        for j in range(_SMALLEST_STIRLING_ARGUMENT):
            raised = raised - 0.5 * _log_one_minus_square(x + j, y + j, d / (x + y + 2 * j))
        gap = np.asarray(gap)
        gap[small] = raised
    return np.asarray(np.maximum(gap, 0.0), dtype=np.float64)


def _large_gap(a: FloatArray, b: FloatArray, difference: FloatArray) -> FloatArray:
    middle = 0.5 * (a + b)
    y = difference / (a + b)
    log_square = _log_one_minus_square(a, b, y)
    far = np.abs(y) >= 0.5
    slope = np.asarray(2.0 * np.arctanh(np.where(far, 0.0, y)))
    slope[far] = np.log(a[far] / middle[far]) - np.log(b[far] / middle[far])
    leading = middle * (y * slope + log_square) - 0.5 * log_square
    remainder = 0.5 * (_stirling_series(a) + _stirling_series(b)) - _stirling_series(middle)
    return np.asarray(0.5 * leading + remainder, dtype=np.float64)
