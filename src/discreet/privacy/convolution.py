"""Composition of privacy profiles: discretise each upwards, convolve, and read δ(ε) off the result.

For output laws P, Q let h(γ) = sup_A P(A) − γ Q(A), so that δ(ε) = h(e^ε). h is convex and non-increasing
with h(0) = 1, and the supremum over all neighbouring pairs, in both orders, is so too; it also satisfies
h(γ) = 1 − γ + γ h(1/γ), which gives the negative ε. Such a curve belongs to a pair of laws that dominates all
the others, and the product of dominating pairs dominates an adaptive composition (Zhu, Dong and Wang 2022).

*Discretise*: between grid points ε = iΔ replace h by its chords in γ. A chord lies above a convex curve, so
the result is pessimistic; it is the curve of a discrete pair whose likelihood ratios are the e^{iΔ} and whose
masses are the changes of slope ("connect the dots", Doroshenko et al. 2022). *Convolve*: by FFT, after the
masses were multiplied by e^{θ·loss}, with θ near the best Chernoff exponent for the wanted ε, so that the
rounding errors of the transform are small against δ(ε) and not only against 1. A bound on those errors
is added. Derivation and numerical slack: ``proofs/accounting.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]

_POINTS = 1 << 17
_UNIT = 2.0**-53
_LONGEST = 600.0  # losses beyond e^600 are counted as infinite
_TAIL = 1e-16


class Profile(NamedTuple):
    """Upper bounds on δ(ε), elementwise for an array of ε ≥ 0, and from where on δ no longer falls."""

    delta: Callable[[FloatArray], FloatArray]
    end: float


class Losses(NamedTuple):
    """A discrete law of the privacy loss: P-masses of the losses (first + i)·Δ, and of an infinite one."""

    masses: FloatArray
    first: int
    infinite: float


def discretise(profile: Profile, reach: float, step: float) -> Losses:
    """The pessimistic discrete law of a profile on the grid of multiples of ``step``, up to ``reach``."""
    number = max(1, math.ceil(reach / step * (1 - 1e-13)))
    losses = np.asarray(step * np.arange(number + 1), dtype=np.float64)
    delta = np.minimum.accumulate(np.clip(profile.delta(losses), 0.0, 1.0))
    ratio = np.exp(losses)
    # h is convex and at most its bounds, so it lies below the lower convex hull of the bounds too.
    kept = _lower_hull(ratio, delta)
    slope = np.diff(delta[kept]) / np.diff(ratio[kept])
    change = np.diff(np.append(slope, 0.0))  # after the last point h is flat: the rest is infinite loss
    positive = np.zeros(number)
    positive[kept[1:] - 1] = np.maximum(change, 0.0) * ratio[kept[1:]]
    mirrored = positive / ratio[1:]  # h(γ) = 1 − γ + γ h(1/γ) says P(−loss) = Q(loss) = e^{−loss} P(loss)
    infinite = float(delta[-1])
    rest = 1.0 - infinite - float(positive.sum()) - float(mirrored.sum())
    return Losses(np.concatenate([mirrored[::-1], [max(0.0, rest)], positive]), -number, infinite)


def _lower_hull(x: FloatArray, y: FloatArray) -> npt.NDArray[np.intp]:
    """Indices of the lower convex hull of points with increasing x, ends included."""
    kept: list[int] = []
    for index in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if (y[b] - y[a]) * (x[index] - x[b]) >= (y[index] - y[b]) * (x[b] - x[a]):
                kept.pop()
            else:
                break
        kept.append(index)
    return np.array(kept)


def grid(profiles: Sequence[tuple[Profile, int]]) -> tuple[list[tuple[Losses, int]], float]:
    """Every profile on one grid that is fine enough and on which the whole composition fits."""
    total = sum(count for _, count in profiles)
    reaches = [min(_LONGEST, _reach(profile, _TAIL / total)) for profile, _ in profiles]
    whole = sum(2 * reach * count for reach, (_, count) in zip(reaches, profiles, strict=True))
    step = max(whole / _POINTS, max(reaches) / 8192, 1e-12)
    # The losses that matter most end on a grid point, so that a loss with few values, such as ±ε, keeps them.
    main = max(zip(reaches, (count for _, count in profiles), strict=True), key=math.prod)[0]
    step = main / math.floor(main / step) if main >= step else step
    parts = [(discretise(p, reach, step), count) for reach, (p, count) in zip(reaches, profiles, strict=True)]
    return parts, step


def _reach(profile: Profile, tail: float) -> float:
    high = min(1.0, profile.end)
    while high < min(profile.end, _LONGEST) and profile.delta(np.array([high]))[0] > tail:
        high = min(2 * high, profile.end)
    low = 0.0
    for _ in range(20):
        middle = (low + high) / 2
        if profile.end > middle and profile.delta(np.array([middle]))[0] > tail:
            low = middle
        else:
            high = middle
    return high


def composed_delta(parts: Sequence[tuple[Losses, int]], step: float, epsilon: float) -> float:
    """An upper bound on δ(ε) of the composition of discrete laws, each spent ``count`` times."""
    if any(losses.infinite >= 1.0 or not losses.masses.any() for losses, _ in parts):
        return 1.0
    tilt = _tilt(parts, step, epsilon)
    length = 1 + sum(count * (len(losses.masses) - 1) for losses, count in parts)
    size = 1 << (length - 1).bit_length()
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    log_scale, first, log_finite, powers = 0.0, 0, 0.0, 0
    for losses, count in parts:
        places = step * (losses.first + np.arange(len(losses.masses)))
        with np.errstate(divide="ignore"):
            logs = np.log(losses.masses) + tilt * places
        log_total = _log_sum(logs)
        spectrum *= np.fft.rfft(np.exp(logs - log_total), size) ** count
        log_scale += count * log_total
        first += count * losses.first
        log_finite += count * (math.log1p(-losses.infinite) if losses.infinite < 1 else -math.inf)
        powers += count
    masses = np.fft.irfft(spectrum, size)[:length]
    places = step * (first + np.arange(length))
    # A grid point stands for losses that may lie above it by rounding: they count as a little larger.
    raised = places + 4e-13 * float(np.abs(places).max())
    beyond = raised > epsilon
    with np.errstate(over="ignore"):
        weights = np.exp(np.minimum(log_scale - tilt * places[beyond], 700.0))
        weights *= -np.expm1(epsilon - raised[beyond])
    error = 8 * _UNIT * (powers + 1) * math.log2(size)
    slack = error * float(np.linalg.norm(weights))
    finite = max(0.0, float(weights @ masses[beyond])) + slack
    # Exponents up to |log_scale| + tilt·|place| are rounded before they are exponentiated.
    largest = abs(log_scale) + tilt * float(np.abs(places).max()) + abs(epsilon)
    finite *= 1 + 16 * _UNIT * (powers + 4) * (1 + largest)
    return min(1.0, -math.expm1(log_finite) * (1 + 1e-12) + finite)


def _tilt(parts: Sequence[tuple[Losses, int]], step: float, epsilon: float) -> float:
    """θ ≥ 0 near the minimum of ln E[e^{θ(loss − ε)}]: any is valid, a good one keeps rounding small."""

    def exponent(theta: float) -> float:
        total = -theta * epsilon
        for losses, count in parts:
            present = np.flatnonzero(losses.masses)
            places = step * (losses.first + present)
            total += count * _log_sum(np.log(losses.masses[present]) + theta * places)
        return total

    best, least = 0.0, exponent(0.0)
    for theta in np.geomspace(1e-2, 1e4, 25):
        value = exponent(float(theta))
        if value < least:
            best, least = float(theta), value
        elif value > least + 50:
            break
    return best


def _log_sum(logs: FloatArray) -> float:
    top = float(np.max(logs))
    return top + math.log(float(np.sum(np.exp(logs - top))))
