"""The exact laws of :mod:`discreet.randomness.integers` for many cells at once, from blocks of entropy.

A uniform real number is known by its first 64 bits, and is compared with numbers whose first 64 bits are in
a table. Only where they agree is it unknown which is larger: then both are continued until they differ. So
every comparison is decided between the real numbers themselves, and no output law is rounded anywhere. The
bits of the tables come from enclosures. Proofs: ``proofs/samplers.md``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from math import ceil, comb, isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.numerics.enclosures import Ball, above, ball, enclose, round_up
from discreet.randomness.entropy import Source
from discreet.randomness.integers import geometric as one_geometric
from discreet.randomness.integers import lattice_noise as one_by_one

IntArray = npt.NDArray[np.int64]
WordArray = npt.NDArray[np.uint64]
Digits = Callable[[int], int]
"""For a number r in (0, 1]: bits ↦ ⌊2^bits · r⌋."""

_FEW = 24  # below this many cells a loop over Python ints is faster than arrays
_SMALLEST_RATE = Fraction(1, 2**36)  # below, noise may leave 64 bits: then one by one, in Python ints
_DIGIT = 1024
_TAIL = 24  # a table ends where e^{−24} is left; beyond it the law begins anew
_WORD = 1 << 64
_MOST_GAPS = 1 << 16  # at a time, so that 64 bits hold their sum


def words(source: Source, count: int) -> WordArray:
    """``count`` independent uniform words of 64 bits."""
    return np.frombuffer(source.bytes(8 * count), dtype="<u8")


def geometric(k: int, rate: Fraction, source: Source) -> IntArray:
    """k independent G ≥ 0 with P(G ≥ g) = e^{−rate·g} exactly.

    Where 64 bits may not hold it (rates below 2⁻³⁶) the array is one of Python ints.
    """
    if rate < _SMALLEST_RATE:
        one = rate.numerator, rate.denominator
        return np.array([one_geometric(*one, source) for _ in range(k)], dtype=object)
    if rate * _DIGIT >= 8:
        table, jump = _tail_table(rate), ceil(_TAIL / rate)
        drawn = table.draw(k, source)
        again = np.flatnonzero(drawn == jump)
        if len(again):  # no memory: what lies beyond the table has the same law, moved
            drawn[again] += geometric(len(again), rate, source)
        return drawn
    drawn = geometric(k, rate * _DIGIT, source)
    drawn *= _DIGIT
    drawn += _digit_table(rate).draw(k, source)
    return drawn


def two_sided_geometric(k: int, rate: Fraction, source: Source) -> IntArray:
    """k independent X in ℤ with P(X = x) = tanh(rate/2) e^{−rate·|x|} exactly."""
    both = geometric(2 * k, rate, source)
    return both[:k] - both[k:]


def successes(trials: int, chance: Callable[[], Ball], source: Source) -> IntArray:
    """Which of so many independent trials succeed, each with an irrational probability below ½, exactly.

    Trials with a probability of 1 − e^{−rate}, rational and hardly larger, need no more than the gaps
    between those that succeed; of these each is kept with the quotient of the probabilities.
    """
    rate = round_up(above(enclose(lambda: -(-chance()).log1p())))
    keep = _digits(lambda: chance() / -ball(-rate).expm1())
    expected = int(trials * rate)
    block = min(expected + 4 * isqrt(expected) + 4, _MOST_GAPS)
    found, last = [np.empty(0, dtype=np.int64)], -1
    while last < trials:
        places = last + np.cumsum(geometric(block, rate, source) + 1)
        last = int(places[-1])
        found.append(places[places < trials].astype(np.int64))
    candidates = np.concatenate(found)
    drawn, target = words(source, len(candidates)), np.uint64(keep(64))
    kept = drawn < target
    for i in np.flatnonzero(drawn == target):
        kept[i] = _continued(keep, 64, source)
    return candidates[kept]


def lattice_noise(k: int, epsilon: Fraction, source: Source) -> IntArray:
    """v in ℤᵏ with Σv = 0 and P(v) ∝ exp(−ε‖v‖₁/2) exactly, in O(k): the difference of two compositions.

    A and B are geometric vectors of rate ε/2, given that they have the same sum m. A is drawn freely and kept
    with probability p(m)/max p for p the law of its sum, about 0.7; B is then a uniform composition of m.
    """
    if k == 2:
        first = two_sided_geometric(1, epsilon, source)
        return np.concatenate([first, -first])
    rate = epsilon / 2
    if rate < _SMALLEST_RATE:
        return np.array(one_by_one(k, epsilon, source), dtype=object)
    while True:
        positive = geometric(k, rate, source)
        total = int(positive.sum())
        if _accepted(_same_sum(k, rate, total), source):
            return positive - composition(total, k, source)


def composition(total: int, parts: int, source: Source) -> IntArray:
    """All ways to write ``total`` as an ordered sum of ``parts`` non-negative integers, equally likely."""
    if parts <= _FEW:
        return np.array(uniform_composition(total, parts, source), dtype=np.int64)
    places = total + parts - 1
    if 2 * (parts - 1) <= places:
        bars = subset(parts - 1, places, source)
    else:
        free = np.ones(places, dtype=bool)
        free[subset(total, places, source)] = False
        bars = np.flatnonzero(free)
    return np.diff(bars, prepend=-1, append=places) - 1


def uniform_composition(n: int, k: int, source: Source) -> tuple[int, ...]:
    """The same for few parts and any n: k − 1 bars in n + k − 1 places, one by one (Floyd's method)."""
    places = n + k - 1
    bars: set[int] = set()
    for j in range(places - k + 1, places):
        candidate = source.below(j + 1)
        bars.add(j if candidate in bars else candidate)
    ordered = [-1, *sorted(bars), places]
    return tuple(b - a - 1 for a, b in pairwise(ordered))


def subset(size: int, places: int, source: Source) -> IntArray:
    """A uniform subset of {0, …, places − 1}: the first ``size`` distinct values of a uniform stream."""
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
    """``count`` independent integers, uniform on {0, …, bound − 1}, bound ≤ 2⁶³."""
    values = words(source, count)
    uneven = np.uint64(_WORD - 1 - _WORD % bound)  # words above would make small values likelier
    while len(bad := np.flatnonzero(values > uneven)):
        values = values.copy()
        values[bad] = words(source, len(bad))
    return (values % np.uint64(bound)).astype(np.int64)


@dataclass(frozen=True)
class _Table:
    """A law on {0, …, K} by its tails s₁ > s₂ > … > s_K: the number of tails above a uniform number."""

    ascending: WordArray
    """First 64 bits of the tails, s_K first."""
    tails: Callable[[int], Digits]

    @cached_property
    def _listed(self) -> list[int]:
        return [int(word) for word in self.ascending]

    def draw(self, count: int, source: Source) -> IntArray:
        size, drawn = len(self.ascending), words(source, count)
        if count <= _FEW:
            at = np.array([bisect_right(self._listed, word) for word in drawn.tolist()], dtype=np.int64)
        else:
            at = np.searchsorted(self.ascending, drawn, side="right")
        result = size - at
        same = np.flatnonzero((at > 0) & (self.ascending[at - 1] == drawn))
        for i in same:  # the word is that of tail s_{size − at + 1}: continue both
            result[i] += _continued(self.tails(int(result[i]) + 1), 64, source)
        return result


def _continued(digits: Digits, known: int, source: Source) -> bool:
    """Whether a uniform number is below r, both having the same first ``known`` bits."""
    while True:
        word = int(words(source, 1)[0])
        target = digits(known + 64) - (digits(known) << 64)
        if word != target:
            return word < target
        known += 64


def _accepted(digits: Digits, source: Source) -> bool:
    """True with probability r exactly."""
    word, target = int(words(source, 1)[0]), digits(64)
    return word < target or (word == target and _continued(digits, 64, source))


def enclosed_digits(value: Callable[[], Ball], bits: int, extra: int = 64) -> int:
    """⌊2^bits · r⌋ for the irrational r that ``value`` encloses; begins with ``extra`` bits more."""
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
    """G ∧ K for G geometric, K = ⌈24/rate⌉: tails e^{−rate·g}."""
    return _Table(_powers(rate, ceil(_TAIL / rate)), lambda g: _digits(lambda: _decayed(g * rate)))


@lru_cache(maxsize=64)
def _digit_table(rate: Fraction) -> _Table:
    """G mod 1024 for G geometric: tails (e^{−rate·g} − e^{−1024·rate})/(1 − e^{−1024·rate})."""

    def tails(g: int) -> Digits:
        def value() -> Ball:
            rest = (_DIGIT - g) * rate  # e^{−rate·g}(1 − e^{−rest}), without cancellation for tiny rates
            return _decayed(g * rate) * ball(-rest).expm1() / ball(-_DIGIT * rate).expm1()

        return _digits(value)

    listed = [tails(g)(64) for g in range(_DIGIT - 1, 0, -1)]
    return _Table(np.array(listed, dtype=np.uint64), tails)


def _decayed(exponent: Fraction) -> Ball:
    """e^{−exponent}."""
    return (-ball(exponent)).exp()


def _digits(value: Callable[[], Ball]) -> Digits:
    return lambda bits: enclosed_digits(value, bits)


def _powers(rate: Fraction, last: int) -> WordArray:
    """⌊2⁶⁴ e^{−rate·g}⌋ for g = last, …, 1, from integers that enclose the powers."""
    extra = 64
    while True:
        bits = 64 + extra
        low = high = 1 << bits
        floor = enclosed_digits(lambda: _decayed(rate), bits)
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
def _same_sum(k: int, rate: Fraction, total: int) -> Digits:
    """Digits of p(total)/max p for p the law of the sum of k geometric values of that rate."""
    mode = _likeliest_sum(k, rate)
    if total == mode:
        return lambda bits: 1 << bits

    def value() -> Ball:
        return _decayed((total - mode) * rate) * _binomial_ratio(total, mode, k)

    first = enclosed_digits(value, 64)
    return lambda bits: first if bits == 64 else enclosed_digits(value, bits)


def _binomial_ratio(total: int, mode: int, k: int) -> Any:
    """C(total + k − 1, k − 1) / C(mode + k − 1, k − 1)."""
    from flint import fmpq

    if k <= 64:
        return fmpq(comb(total + k - 1, k - 1), comb(mode + k - 1, k - 1))
    logs = [ball(x).lgamma() for x in (total + k, mode + 1, total + 1, mode + k)]
    return (logs[0] + logs[1] - logs[2] - logs[3]).exp()


@lru_cache(maxsize=64)
def _likeliest_sum(k: int, rate: Fraction) -> int:
    """The m with the largest C(m + k − 1, k − 1) e^{−rate·m}: the least m with e^{−rate}(m + k) < m + 1."""
    from flint import ctx

    precision = 128
    while True:
        with ctx.workprec(precision):
            ratio = _decayed(rate)
            least = ((ratio * k - 1) / (1 - ratio)).ceil()
            if least.is_exact() and least.is_finite():
                return max(0, int(least.unique_fmpz()))
        precision *= 2
