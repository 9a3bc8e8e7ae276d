"""Vectorised exact samplers, for many independent draws at once; see also ``discreet._randomness.integers``.

A uniform real number is represented by its first 64 bits, and compared with thresholds whose first 64 bits
are in a table. If these bits are equal, further bits of both numbers are computed until they differ. So every
comparison is exact, and no output distribution is rounded. The tables come from rigorous enclosures. Proofs:
``proofs/samplers.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil, comb, isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._numerics.enclosures import Ball, above, ball, enclose, round_up
from discreet._randomness.cells import Uniform
from discreet._randomness.entropy import Source
from discreet._randomness.integers import geometric as one_geometric

IntArray = npt.NDArray[np.int64]
WordArray = npt.NDArray[np.uint64]
Value = Callable[[], Ball]
"""A function that returns a ball around a number in (0, 1]; higher working precision makes it narrower."""

_FEW = 24  # up to this many parts of a composition a loop over Python ints is faster than arrays
_LEAST_RATE_BITS = 36  # below a rate of 2⁻³⁶ noise may leave 64 bits: then one by one, in Python ints
_LARGEST_SUM = 1 << 62  # of 64-bit integers
_DIGIT = 1024
_TAIL = 24  # a table ends where e^{−24} is left; beyond it the distribution begins anew
_WORD = 1 << 64
_MAX_GAPS = 1 << 16  # at a time, so that 64 bits hold their sum


def words(source: Source, count: int) -> WordArray:
    """Draw ``count`` independent uniform words of 64 bits."""
    return np.frombuffer(source.bytes(8 * count), dtype="<u8")


def geometric(k: int, rate: Fraction, source: Source) -> IntArray:
    """Draw k independent G ≥ 0 with P(G ≥ g) = e^{−rate·g} exactly.

    For rates below 2⁻³⁶, where G may exceed 64 bits, the array contains Python integers.
    """
    p, q = rate.numerator, rate.denominator
    if p << _LEAST_RATE_BITS < q:
        return np.array([one_geometric(p, q, source) for _ in range(k)], dtype=object)
    if p * _DIGIT >= 8 * q:
        table = _tail_table(rate)
        drawn = table.draw(k, source)
        again = (drawn == len(table.ascending)).nonzero()[0]
        if len(again):  # no memory: what lies beyond the table has the same distribution, moved
            drawn[again] += geometric(len(again), rate, source)
        return drawn
    drawn = geometric(k, rate * _DIGIT, source)
    drawn *= _DIGIT
    drawn += _digit_table(rate).draw(k, source)
    return drawn


def two_sided_geometric(k: int, rate: Fraction, source: Source) -> IntArray:
    """Draw k independent X in ℤ with P(X = x) = tanh(rate/2) e^{−rate·|x|} exactly."""
    both = geometric(2 * k, rate, source)
    return both[:k] - both[k:]


def successes(trials: int, chance: Value, source: Source) -> IntArray:
    """Draw exactly which of many independent trials succeed, each with probability ``chance`` < ½.

    Returns the indices of the successes. Trials with a slightly larger probability 1 − e^{−rate}, with a
    rational rate, are simulated by drawing the geometric gaps between successes. Each of these successes is
    then kept with probability chance/(1 − e^{−rate}).
    """
    rate = round_up(above(enclose(lambda: -(-chance()).log1p())))
    keep = _Threshold(lambda: chance() / -ball(-rate).expm1())
    expected = int(trials * rate)
    block = min(expected + 4 * isqrt(expected) + 4, _MAX_GAPS)
    blocks, last = [np.empty(0, dtype=np.int64)], -1
    while last < trials:
        places = last + np.cumsum(geometric(block, rate, source) + 1)
        last = int(places[-1])
        blocks.append(places[places < trials].astype(np.int64))
    candidates = np.concatenate(blocks)
    drawn, target = words(source, len(candidates)), np.uint64(keep.word)
    accepted = drawn < target
    for i in np.flatnonzero(drawn == target):
        accepted[i] = keep.exceeds(keep.word, source)
    return candidates[accepted]


def lattice_noise(k: int, epsilon: Fraction, source: Source) -> IntArray:
    """Draw v in ℤᵏ with Σv = 0 and P(v) ∝ exp(−ε‖v‖₁/2) exactly, in O(k).

    v is the difference of two geometric vectors A and B of rate ε/2, given that they have the same sum m. A
    is drawn and accepted with probability p(m)/max p (about 0.7 on average), where p is the distribution of
    its sum. B is then a uniform composition of m.
    """
    if k == 2:
        first = two_sided_geometric(1, epsilon, source)
        return np.concatenate([first, -first])
    while True:
        positive = geometric(k, epsilon / 2, source)
        total = int(positive.sum())
        if _same_sum(k, epsilon / 2, total).exceeds(int(words(source, 1)[0]), source):
            return positive - composition(total, k, source)


def composition(total: int, parts: int, source: Source) -> IntArray:
    """Draw ``parts`` non-negative integers that sum to ``total``, uniformly among all such vectors."""
    if parts <= _FEW or total > _LARGEST_SUM:
        kind = object if total > _LARGEST_SUM else np.int64
        return np.array(uniform_composition(total, parts, source), dtype=kind)
    places = total + parts - 1
    if 2 * (parts - 1) <= places:
        bars = subset(parts - 1, places, source)
    else:
        free = np.ones(places, dtype=bool)
        free[subset(total, places, source)] = False
        bars = np.flatnonzero(free)
    return np.diff(bars, prepend=-1, append=places) - 1


def uniform_composition(n: int, k: int, source: Source) -> tuple[int, ...]:
    """Draw k non-negative integers that sum to n, uniformly, for few k: k − 1 bars in n + k − 1 places."""
    places = n + k - 1
    bars: set[int] = set()
    for j in range(places - k + 1, places):
        candidate = source.below(j + 1)
        bars.add(j if candidate in bars else candidate)
    ordered = [-1, *sorted(bars), places]
    return tuple(b - a - 1 for a, b in pairwise(ordered))


def subset(size: int, places: int, source: Source) -> IntArray:
    """Draw a uniform subset of {0, …, places − 1}: the first ``size`` distinct values of a uniform stream."""
    chosen = np.empty(0, dtype=np.int64)
    taken = np.zeros(places, dtype=bool) if places <= 64 * size else None
    while len(chosen) < size:  # never more than are missing, so that no value has to be thrown away
        fresh = below(places, size - len(chosen), source)
        if taken is None:
            chosen = np.unique(np.concatenate([chosen, fresh]))
        else:
            taken[fresh] = True
            chosen = np.flatnonzero(taken)
    return chosen


def below(bound: int, count: int, source: Source) -> IntArray:
    """Draw ``count`` independent integers, uniform on {0, …, bound − 1}, for bound ≤ 2⁶³."""
    values = words(source, count)
    uneven = np.uint64(_WORD - 1 - _WORD % bound)  # words above would make small values likelier
    while len(bad := np.flatnonzero(values > uneven)):
        values = values.copy()
        values[bad] = words(source, len(bad))
    return (values % np.uint64(bound)).astype(np.int64)


class _Threshold:
    """A number r that is compared with uniform numbers, by the first 64 bits and if these agree by more."""

    def __init__(self, value: Value) -> None:
        self.value, self.word = value, enclosed_digits(value, 64)

    def exceeds(self, word: int, source: Source) -> bool:
        """Return whether r exceeds a uniform number whose first 64 bits are ``word``."""
        return word < self.word or (word == self.word and Uniform(source, word).below(self.value))


@dataclass(frozen=True)
class _Table:
    """A distribution on {0, …, K}, given by its tail probabilities s₁ > … > s_K.

    A draw is the number of tail probabilities that exceed a uniform number."""

    ascending: WordArray
    """First 64 bits of the tail probabilities, in increasing order."""
    tail: Callable[[int], Value]

    def draw(self, count: int, source: Source) -> IntArray:
        size, drawn = len(self.ascending), words(source, count)
        at = self.ascending.searchsorted(drawn, side="right")
        result = size - at
        same = ((at > 0) & (self.ascending[at - 1] == drawn)).nonzero()[0]
        for i in same:  # the word is that of tail s_{size − at + 1}: continue both
            result[i] += Uniform(source, int(drawn[i])).below(self.tail(int(result[i]) + 1))
        return result


def enclosed_digits(value: Value, bits: int, extra: int = 64) -> int:
    """Return ⌊2^bits · r⌋ for the irrational number r that ``value`` encloses.

    The computation starts with ``extra`` more bits of precision than ``bits``.
    """
    from flint import arb, ctx

    precision = bits + extra
    while True:
        with ctx.workprec(precision):
            floor: Any = (value() * arb(2) ** bits).floor()
            if floor.is_exact() and floor.is_finite():
                return int(floor.unique_fmpz())
        precision *= 2


@lru_cache(maxsize=64)
def _tail_table(rate: Fraction) -> _Table:
    """Return the table of min(G, K), where G is geometric with tails e^{−rate·g} and K = ⌈24/rate⌉."""
    return _Table(_powers(rate, ceil(_TAIL / rate)), lambda g: lambda: _exponential(g * rate))


@lru_cache(maxsize=64)
def _digit_table(rate: Fraction) -> _Table:
    """Return the table of G mod 1024 for a geometric G.

    Its tail probabilities are (e^{−rate·g} − e^{−1024·rate})/(1 − e^{−1024·rate}).
    """

    def tail(g: int) -> Value:
        rest = (_DIGIT - g) * rate  # e^{−rate·g}(1 − e^{−rest}), without cancellation for tiny rates
        return lambda: _exponential(g * rate) * ball(-rest).expm1() / ball(-_DIGIT * rate).expm1()

    listed = [enclosed_digits(tail(g), 64) for g in range(_DIGIT - 1, 0, -1)]
    return _Table(np.array(listed, dtype=np.uint64), tail)


def _exponential(exponent: Fraction) -> Ball:
    """Return e^{−exponent}."""
    return (-ball(exponent)).exp()


def _powers(rate: Fraction, last: int) -> WordArray:
    """Return ⌊2⁶⁴ e^{−rate·g}⌋ for g = last, …, 1, from integers that enclose the powers."""
    extra = 64
    while True:
        bits = 64 + extra
        low = high = 1 << bits
        floor = enclosed_digits(lambda: _exponential(rate), bits)
        result = []
        for _ in range(last):
            low, high = low * floor >> bits, (high * (floor + 1) >> bits) + 1
            result.append(low >> extra)
            if high >> extra != low >> extra:
                break
        else:
            return np.array(result[::-1], dtype=np.uint64)
        extra *= 2


@lru_cache(maxsize=4096)
def _same_sum(k: int, rate: Fraction, total: int) -> _Threshold:
    """Return p(total)/max p as a threshold, where p is the distribution of a sum of k geometric variables."""
    mode = _likeliest_sum(k, rate)
    return _Threshold(lambda: _exponential((total - mode) * rate) * _binomial_ratio(total, mode, k))


def _binomial_ratio(total: int, mode: int, k: int) -> Any:
    """Return C(total + k − 1, k − 1) / C(mode + k − 1, k − 1)."""
    from flint import fmpq

    if total == mode:  # a ball around 1 would not tell its digits
        return 1
    if k <= 64:
        return fmpq(comb(total + k - 1, k - 1), comb(mode + k - 1, k - 1))
    logs = [ball(x).lgamma() for x in (total + k, mode + 1, total + 1, mode + k)]
    return (logs[0] + logs[1] - logs[2] - logs[3]).exp()


@lru_cache(maxsize=64)
def _likeliest_sum(k: int, rate: Fraction) -> int:
    """Return the whole number m at which C(m + k − 1, k − 1) e^{−rate·m} is largest.

    It is the least m with e^{−rate}(m + k) < m + 1.
    """

    def zero() -> Ball:
        """Return the real m at which both sides are equal; it is not a whole number."""
        ratio = _exponential(rate)
        return (k * ratio - 1) / (1 - ratio)

    return max(0, enclosed_digits(zero, 0) + 1)
