"""Composition of privacy profiles: discretise each upwards, convolve, and read δ(ε) off the result.

For output distributions P, Q let h(γ) = sup_A P(A) − γ Q(A), so that δ(ε) = h(e^ε). h is convex and
non-increasing with h(0) = 1, and so is its supremum over all neighbouring pairs. Taken over both orders of
each pair, the supremum also satisfies h(γ) = 1 − γ + γ h(1/γ), which gives δ at negative ε. Such a curve
belongs to a pair of distributions that dominates all the others, and the product of dominating pairs
dominates an adaptive composition (Zhu, Dong and Wang 2022).

*Discretise*: between grid points ε = iΔ replace h by its chords in γ. A chord lies above a convex curve, so
the result is pessimistic; it is the curve of a discrete pair whose likelihood ratios are the e^{iΔ} and whose
masses are the changes of slope ("connect the dots", Doroshenko et al. 2022). *Convolve*: the masses are first
multiplied by e^{θ·loss}, with θ near the best Chernoff exponent for the wanted ε or δ, so that rounding
errors of the Fourier transforms are small relative to δ(ε) and not just relative to 1. The shortest
distributions are convolved first, and negligible tails are cut off, so that the work hardly grows with the
number of parts. The distribution at one θ gives a bound on δ at every ε, to which bounds on all numerical
errors are added. Derivation: ``proofs/accounting.md``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from discreet._numerics.search import boundary
from discreet._typing import FloatArray
from discreet.privacy.curves import Curve

_GRID_POINTS = 1 << 17
_GRID_DEVIATIONS = 24.0  # a grid of _GRID_POINTS spans so many standard deviations of the composed loss
_UNIT_ROUNDOFF = 2.0**-53
_MAX_FINITE_LOSS = 600.0  # losses beyond e^600 are counted as infinite
_TAIL_MASS = 1e-16
_CUT_MASS = 1e-15  # mass that may be cut off at either end of a long tilted distribution
_MAX_DIRECT_MULTIPLICATIONS = (
    1 << 17
)  # below this many multiplications a direct convolution beats the transforms
_MAX_UNCUT_LENGTH = 2048  # distributions up to this length are not cut


class Losses(NamedTuple):
    """A discrete distribution of the privacy loss under P.

    ``masses[i]`` is the probability of the loss (first + i)·Δ, and ``infinite`` that of an infinite loss.
    """

    masses: FloatArray
    first: int
    infinite: float


def discretise(curve: Curve, reach: float, step: float) -> Losses:
    """Return a loss distribution on multiples of ``step`` up to ``reach`` that dominates ``curve``'s."""
    if curve.response is not None:
        return _response(curve.end, float(curve.response[1]), step)
    if step > 700.0:  # one cell is beyond the doubles: every loss above 0 counts as infinite
        lost = float(np.clip(curve.profiles(np.zeros(1)), 0.0, 1.0)[0])
        return Losses(np.array([1.0 - lost]), 0, lost)
    # A loss beyond the doubles counts as infinite: what is left of δ there is in ``infinite``.
    number = max(1, math.ceil(min(reach, 700.0) / step * (1 - 1e-13)))
    losses = np.asarray(step * np.arange(number + 1), dtype=np.float64)
    delta = np.minimum.accumulate(np.clip(curve.profiles(losses), 0.0, 1.0))
    ratio = np.exp(losses)
    # Differences of e^ε may be small against e^ε: not by subtraction.
    gaps = ratio[:-1] * math.expm1(step)
    change = _changes(-np.diff(delta) / gaps)
    if (change < 0).any():
        # h is convex and at most its bounds, so it lies below the lower convex hull of the bounds too.
        hull = _lower_hull(np.append(0.0, np.cumsum(gaps)), delta)
        widths = ratio[hull[:-1]] * np.expm1(step * np.diff(hull))
        change = np.zeros(number)
        change[hull[1:] - 1] = np.maximum(_changes(-np.diff(delta[hull]) / widths), 0.0)
    positive = change * ratio[1:] * (1 + 16 * _UNIT_ROUNDOFF)
    mirrored = change  # h(γ) = 1 − γ + γ h(1/γ) says P(−loss) = Q(loss) = e^{−loss} P(loss)
    infinite = float(delta[-1])
    rest = 1.0 - infinite - float(positive.sum()) - float(mirrored.sum())
    return Losses(np.concatenate([mirrored[::-1], [max(0.0, rest)], positive]), -number, infinite)


def _changes(falls: FloatArray) -> FloatArray:
    """Return the difference between each slope and the next; after the last slope comes 0."""
    return np.asarray(falls - np.append(falls[1:], 0.0))


def _response(loss: float, infinite: float, step: float) -> Losses:
    """Return losses ±ε on the grid; a mass between two points is split, preserving its P- and Q-totals."""
    number = max(1, math.ceil(loss / step))
    number += number * step < loss  # what lies beyond the last point would be moved down to it
    masses = np.zeros(2 * number + 1)
    for sign in (1, -1):
        mass = (1 - infinite) / (1 + math.exp(min(-sign * loss, 700.0))) * (1 + 4 * _UNIT_ROUNDOFF)
        below = min(math.floor(sign * loss / step), number - 1)
        # How far above the lower point, rounded up: the share of the upper one grows with it.
        above = max(0.0, sign * loss - below * step) + 4 * _UNIT_ROUNDOFF * loss
        share = min(1.0, math.expm1(-above) / math.expm1(-step))
        masses[below + number] += mass * (1 - share)
        masses[below + number + 1] += mass * share
    return Losses(masses, -number, min(1.0, infinite * (1 + 4 * _UNIT_ROUNDOFF)))


def _lower_hull(x: FloatArray, y: FloatArray) -> npt.NDArray[np.intp]:
    """Return the indices of the lower convex hull of points with increasing x, ends included."""
    hull: list[int] = []

    def above(index: int) -> bool:
        """Return whether the last point of the hull is on or above the line between its neighbours."""
        a, b = hull[-2:]
        return bool((y[b] - y[a]) * (x[index] - x[b]) >= (y[index] - y[b]) * (x[b] - x[a]))

    for index in range(len(x)):
        while len(hull) > 1 and above(index):
            hull.pop()
        hull.append(index)
    return np.array(hull)


def grid(spent: Sequence[tuple[Curve, int]]) -> tuple[list[tuple[Losses, int]], float]:
    """Return every curve as losses on one grid for the whole composition, with its count; and the step."""
    tail = _TAIL_MASS / sum(count for _, count in spent)
    parts = [(curve, count, _reach(curve, tail)) for curve, count in spent]
    whole = math.fsum(2 * reach * count for _, count, reach in parts)
    variance = math.fsum(count * min(reach**2, _variance(curve, reach)) for curve, count, reach in parts)
    span = min(whole, _GRID_DEVIATIONS * math.sqrt(variance) + 2 * max(reach for _, _, reach in parts))
    step = max(span / _GRID_POINTS, 1e-300)
    common = _common_step([curve.response for curve, _ in spent])
    if common is not None and span / common <= 2 * _GRID_POINTS:
        step = common  # every loss is a grid point: nothing is lost to the grid
    else:
        # The losses that matter most end on a grid point, so that one with few values keeps them.
        main = max(parts, key=lambda part: part[1] * part[2])[2]
        step = main / math.floor(main / step) if main >= step else step
    return [(discretise(curve, reach, step), count) for curve, count, reach in parts], step


def _variance(curve: Curve, reach: float) -> float:
    """Return approximately E[loss²], which is twice the area under the tail of δ."""
    if curve.response:
        return reach * reach
    losses = np.linspace(0.0, reach, 257)
    return 4 * float(np.sum(np.clip(curve.profiles(losses), 0.0, 1.0))) * reach / 256


def _common_step(responses: Sequence[tuple[Fraction, Fraction] | None]) -> float | None:
    """Return the largest step that divides every loss, as a double; None if there is none."""
    numerator, denominator = 0, 1
    for response in responses:
        if response is None or denominator > 1 << 60:
            return None
        loss = response[0]
        scale = math.lcm(denominator, loss.denominator)
        numerator = math.gcd(numerator * (scale // denominator), loss.numerator * (scale // loss.denominator))
        denominator = scale
    return numerator / denominator if numerator else None


def _reach(curve: Curve, tail: float) -> float:
    """Return approximately the least ε at which δ is at most ``tail``."""
    if curve.response:
        return curve.end

    def left(loss: float) -> bool:
        return loss < curve.end and bool(curve.profiles(np.array([loss]))[0] > tail)

    high = min(1.0, curve.end)
    while high < _MAX_FINITE_LOSS and left(high):
        high = min(2 * high, curve.end)
    return min(_MAX_FINITE_LOSS, boundary(lambda loss: not left(loss), high, 0.0, relative=0.0, steps=20))


@dataclass(frozen=True)
class _Distribution:
    """A tilted distribution of the total loss on the grid, with bounds on its numerical errors."""

    masses: FloatArray
    first: int
    error: float = 0.0
    """Bound on the 2-norm of the rounding errors of the transforms."""
    dropped: float = 0.0
    """Bound on the mass that was cut off."""

    def __lt__(self, other: _Distribution) -> bool:
        return len(self.masses) < len(other.masses)

    def convolve(self, other: _Distribution) -> _Distribution:
        a, b = self.masses, other.masses
        error = 1.001 * (self.error + other.error)
        if len(a) * len(b) <= _MAX_DIRECT_MULTIPLICATIONS or min(len(a), len(b)) <= 16:
            masses = np.convolve(a, b)
        else:
            from scipy import fft

            length = len(a) + len(b) - 1
            size = fft.next_fast_len(length, real=True)
            spectrum = fft.rfft(a, size)
            spectrum *= spectrum if a is b else fft.rfft(b, size)
            masses = np.maximum(fft.irfft(spectrum, size)[:length], 0.0)
            norms = float(np.linalg.norm(a) + np.linalg.norm(b) + np.linalg.norm(masses))
            error += 8 * _UNIT_ROUNDOFF * math.log2(size) * norms
        return _Distribution(masses, self.first + other.first, error, self.dropped + other.dropped)._cut()

    def _cut(self) -> _Distribution:
        if len(self.masses) <= _MAX_UNCUT_LENGTH:
            return self
        sums = np.cumsum(self.masses)
        low = int(np.searchsorted(sums, _CUT_MASS))
        high = int(np.searchsorted(sums, sums[-1] - _CUT_MASS)) + 1
        if high - low > 0.9 * len(sums):
            return self
        # What was cut is at most this, and what the transforms' error may hide there.
        lost = 2 * _CUT_MASS + 4 * _UNIT_ROUNDOFF * len(sums) + self.error * math.sqrt(len(sums))
        return _Distribution(self.masses[low:high], self.first + low, self.error, self.dropped + lost)

    def power(self, count: int) -> _Distribution:
        square, result = self, self if count & 1 else None
        while count := count >> 1:
            square = square.convolve(square)
            if count & 1:
                result = square if result is None else result.convolve(square)
        assert result is not None
        return result


class Composition:
    """Bounds on δ(ε) and ε(δ) for a composition of curves, each used ``count`` times."""

    def __init__(self, spent: Sequence[tuple[Curve, int]]) -> None:
        self._parts, self._step = grid(spent)
        self._nothing = any(losses.infinite >= 1.0 or not losses.masses.any() for losses, _ in self._parts)
        self._distributions: dict[float, tuple[_Distribution, float]] = {}

    @cached_property
    def _atoms(self) -> tuple[FloatArray, FloatArray, npt.NDArray[np.intp], FloatArray]:
        """Concatenated log-masses and losses of all curves, the start of each curve, and its count."""
        present = [np.flatnonzero(losses.masses) for losses, _ in self._parts]
        pairs = list(zip(self._parts, present, strict=True))
        logs = np.concatenate([np.log(losses.masses[support]) for (losses, _), support in pairs])
        places = np.concatenate([self._step * (losses.first + support) for (losses, _), support in pairs])
        starts = np.cumsum([0, *map(len, present[:-1])])
        return logs, places, starts, np.array([count for _, count in self._parts], dtype=np.float64)

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """Return K(θ) = Σ count·ln E[e^{θ·loss}; loss finite] and its first two derivatives."""
        logs, places, starts, counts = self._atoms
        exponent = logs + tilt * places
        top = np.maximum.reduceat(exponent, starts)
        lengths = np.diff(np.append(starts, len(logs)))
        weight = np.exp(exponent - np.repeat(top, lengths))
        size = np.add.reduceat(weight, starts)
        mean = np.add.reduceat(weight * places, starts) / size
        square = np.add.reduceat(weight * (places - np.repeat(mean, lengths)) ** 2, starts) / size
        with np.errstate(over="ignore"):  # infinite sums of absurd histories only steer the tilt
            return float(counts @ (top + np.log(size))), float(counts @ mean), float(counts @ square)

    @cached_property
    def _largest_tilt(self) -> float:
        _, places, starts, counts = self._atoms
        lengths = np.diff(np.append(starts, len(places)))
        farthest = float(np.max(np.repeat(np.maximum(counts, 1.0), lengths) * np.abs(places)))
        return 1e6 / max(farthest, 1e-290)

    def _tilt(self, enough: Callable[[float, float, float, float], bool]) -> float:
        """Return about the least θ ≥ 0 that meets a condition on (θ, K, K', K''), as all larger θ do."""
        if enough(0.0, *self.cumulants(0.0)):
            return 0.0
        high = math.log(self._largest_tilt)

        def steep(log_tilt: float) -> bool:
            return enough(math.exp(log_tilt), *self.cumulants(math.exp(log_tilt)))

        return math.exp(boundary(steep, high, high + math.log(1e-18), relative=0.0, absolute=math.log(1.05)))

    def _distribution(self, tilt: float) -> tuple[_Distribution, float]:
        """Return the total loss's distribution tilted by e^{θ·loss}, and its log normalising constant."""
        if tilt not in self._distributions:
            heap: list[_Distribution] = []
            log_scale = 0.0
            for losses, count in self._parts:
                places = self._step * (losses.first + np.arange(len(losses.masses)))
                with np.errstate(divide="ignore"):
                    logs = np.log(losses.masses) + tilt * places
                top = float(np.max(logs))
                masses = np.exp(logs - top)
                size = float(masses.sum())
                log_scale += count * (top + math.log(size))
                heap.append(_Distribution(masses / size, losses.first).power(count))
            heapq.heapify(heap)
            while len(heap) > 1:
                shortest = heapq.heappop(heap)
                heapq.heapreplace(heap, shortest.convolve(heap[0]))
            if len(self._distributions) > 8:
                self._distributions.clear()
            self._distributions[tilt] = heap[0], log_scale
        return self._distributions[tilt]

    @cached_property
    def _infinite(self) -> float:
        """An upper bound on the probability of an infinite loss."""
        finite = math.fsum(count * math.log1p(-losses.infinite) for losses, count in self._parts)
        return -math.expm1(finite) * (1 + 1e-12)

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on δ(ε)."""
        if self._nothing:
            return 1.0
        bounds = [self._delta(epsilon, tilt) for tilt in self._distributions]
        if bounds and min(slack - 0.01 * value for value, slack in bounds) <= 0:
            return min(value for value, slack in bounds if slack <= 0.01 * value)
        tilt = self._tilt(lambda _theta, _k, mean, _variance: mean >= epsilon)
        return min(value for value, _ in [*bounds, self._delta(epsilon, tilt)])

    def _delta(self, epsilon: float, tilt: float) -> tuple[float, float]:
        """Return an upper bound on δ(ε) with one tilt θ, and the part of it that covers numerical errors."""
        distribution, log_scale = self._distribution(tilt)
        step = self._step
        steps = min(epsilon / step * (1 - 1e-15), 1e300)  # infinite where the step is far below ε
        start = min(max(0, math.floor(steps) - 1 - distribution.first), len(distribution.masses))
        places = step * (distribution.first + np.arange(start, len(distribution.masses)))
        farthest = step * max(abs(distribution.first), abs(distribution.first + len(distribution.masses)))
        # A grid point is rounded: it counts as a little larger.
        raised = places + 8 * _UNIT_ROUNDOFF * farthest
        if len(places) and log_scale - tilt * places[0] > 300.0:
            return 1.0, 1.0  # a tilt for other ε says nothing here
        weights = np.exp(log_scale - tilt * places)
        weights *= -np.expm1(np.minimum(epsilon - raised, 0.0))
        finite = float(weights @ distribution.masses[start:])
        # No loss beyond ε weighs more than this: sup_x e^{−θx}(1 − e^{−x}) = θ^θ/(1 + θ)^{1 + θ}.
        heaviest = log_scale - tilt * epsilon - math.log1p(tilt)
        heaviest -= tilt * math.log1p(1 / tilt) if tilt > 0 else 0.0
        slack = distribution.error * float(np.linalg.norm(weights)) * 1.001
        slack += distribution.dropped * math.exp(min(heaviest, 700.0)) * 1.001
        # Exponents up to |log_scale| + θ·|place| are rounded before they are exponentiated.
        powers = sum(count for _, count in self._parts)
        largest = abs(log_scale) + tilt * farthest + abs(epsilon)
        rounding = (
            16 * _UNIT_ROUNDOFF * (powers + len(distribution.masses) + 4)
            + 16 * _UNIT_ROUNDOFF * (powers + 4) * largest
        )
        value = (finite + slack) * (1 + rounding)
        return min(1.0, self._infinite + value), slack + rounding * finite

    def epsilon(self, delta: float) -> float:
        """Return the approximate least ε with δ(ε) ≤ ``delta``; infinite where there is none."""
        if self._nothing or self._infinite >= delta:
            return math.inf
        wanted = math.log(delta - self._infinite)

        def enough(theta: float, k: float, mean: float, variance: float) -> bool:
            # δ(K'(θ)) is about e^{K − θK'}/(θ(1 + θ)√(2πK'')).
            size = 0.5 * math.log(2 * math.pi * max(variance, 1e-300))
            small = math.log(max(theta, 1e-300)) + math.log1p(theta) + size
            return mean >= 0 and k - theta * mean - max(small, 0.0) <= wanted

        tilt = self._tilt(enough)

        def holds(epsilon: float) -> bool:
            return self._delta(epsilon, tilt)[0] <= delta

        if holds(0.0):
            return 0.0
        (distribution, _), step = self._distribution(tilt), self._step
        low, high = max(0, -distribution.first), len(distribution.masses)
        at = boundary(lambda at: holds(step * (distribution.first + at)), high, low)
        right = step * (distribution.first + at)
        if at == high and not holds(right):
            return math.inf
        return boundary(holds, right, right - step, relative=1e-11, steps=40)
