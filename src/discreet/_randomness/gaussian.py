"""Exact draws of rounded Gaussian noise v on the integers: P(v) = Φ((v + ½)/σ) − Φ((v − ½)/σ), σ² rational.

For an integer S, S + v is S + N(0, σ²) rounded to the nearest integer. So every privacy guarantee of the
noise N(0, σ²) applies by post-processing, in any dimension and without assumptions about floating point.

A draw is a random sign and the integer m with q(m + ½) < U ≤ q(m − ½), where q(x) = 2Φ(−x/σ) and U is uniform
on (0, 1). Double precision gives a candidate m. It is confirmed by error bounds on q or, if these do not
decide, by ball arithmetic with more bits of the same U. So draws take about as long as in floating point, and
their distribution is exact. Proof: ``proofs/regression.md``, *Rounded Gaussian*.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet._numerics.enclosures import Ball, ball
from discreet._numerics.search import first_true
from discreet._randomness.cells import Uniform
from discreet._typing import FloatArray
from discreet.errors import InvalidInputError

if TYPE_CHECKING:
    from discreet._randomness.entropy import Source

_BITS = 63
_FAR = 9.25
"""For x beyond this, 2Φ(−x) is less than 2⁻⁶³."""
_SPACING = 32
_TERMS = 13
_ULP = 2.0**-50
_MOST_FLOAT = 2.0**45
_BLOCK = 64


def rounded_gaussian(variance: Fraction, source: Source) -> int:
    """Draw one integer; see :func:`rounded_gaussians`."""
    return rounded_gaussians(variance, 1, source)[0]


def rounded_gaussians(variance: Fraction | int, size: int, source: Source) -> list[int]:
    """Draw ``size`` independent integers v from rounded Gaussian noise, exactly.

    Their probabilities are P(v) = Φ((v + ½)/σ) − Φ((v − ½)/σ), where σ² = ``variance``.

    >>> from discreet._randomness.entropy import SeededEntropy
    >>> rounded_gaussians(Fraction(25), 5, SeededEntropy(1))
    [-4, 3, 2, 2, -4]
    """
    exact = Fraction(variance)
    if exact <= 0:
        raise InvalidInputError("must be positive", "variance", variance)
    words = _words(size, source)
    negative, heads = words & np.uint64(1), words >> np.uint64(1)
    candidates, certain = _candidates(float(exact), heads)
    values: list[int] = np.where(negative, -candidates, candidates).tolist()
    for at in np.flatnonzero(~certain).tolist():
        size_of_it = _decide(exact, int(heads[at]), int(candidates[at]), source)
        values[at] = -size_of_it if negative[at] else size_of_it
    return values


def _words(size: int, source: Source) -> npt.NDArray[np.uint64]:
    """Draw uniform words of 64 bits."""
    blocks = []
    for start in range(0, size, _BLOCK):
        number = min(_BLOCK, size - start)
        blocks.append(source.below(1 << 64 * number).to_bytes(8 * number, "little"))
    return np.frombuffer(b"".join(blocks), dtype="<u8")


def _candidates(variance: float, heads: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], Any]:
    """Return the candidate m for each U in [k, k + 1]·2⁻⁶³, and whether it is certain.

    ``heads`` contains the k. A candidate is certain if q(m + ½) < U ≤ q(m − ½) is proved for all such U.
    """
    from scipy.special import ndtri

    sigma = math.sqrt(variance)
    if not 1e-3 < sigma < _MOST_FLOAT:
        return np.zeros(heads.shape, dtype=np.int64), np.zeros(heads.shape, dtype=bool)
    low = heads.astype(np.float64) * 2.0**-_BITS  # rounded, which the margin covers
    high = low + 2.0**-_BITS
    size = np.floor(-ndtri((low + high) / 4) * sigma + 0.5)
    outer, inner = (size + 0.5) / sigma, np.maximum(size - 0.5, 0.0) / sigma
    above = low > _tail(outer) * (1 + margin(outer))
    below = (size == 0) | (high < _tail(inner) * (1 - margin(inner)))
    return size.astype(np.int64), above & below


def margin(x: FloatArray) -> FloatArray:
    """Return a bound on the relative error of :func:`_tail`, including that from rounding its argument."""
    return (16 + 2 * (x + 1) ** 2) * _ULP


def _tail(x: FloatArray) -> FloatArray:
    """Return 2Φ(−x) for x ≥ 0 with a relative error below 16·2⁻⁵⁰, or the bound 1 if x ≥ ``_FAR``."""
    values, coefficients = _table()
    node = np.minimum(np.rint(x * _SPACING), len(values) - 1).astype(np.intp)
    step = x - node / _SPACING  # exact: the two are within a factor 2, or node is 0
    ratio = coefficients[node, -1]
    for power in range(_TERMS - 2, -1, -1):
        ratio = ratio * step + coefficients[node, power]
    return np.where(x < _FAR, values[node] * ratio, 1.0)


@cache
def _table() -> tuple[FloatArray, FloatArray]:
    """Return q(x) = 2Φ(−x) at the nodes j/32, and its Taylor coefficients there divided by q."""
    from flint import ctx

    nodes = range(int(_FAR * _SPACING) + 2)
    values = np.empty(len(nodes))
    coefficients = np.empty((len(nodes), _TERMS))
    with ctx.workprec(256):
        for node in nodes:
            row = taylor(ball(Fraction(node, _SPACING)), _TERMS)
            values[node] = float(row[0].mid())
            coefficients[node] = [float((entry / row[0]).mid()) for entry in row]
    return values, coefficients


def taylor(at: Ball, terms: int) -> list[Ball]:
    """Return the Taylor coefficients of q(x) = 2Φ(−x) at x = ``at``.

    They follow from q' = −2φ and φ⁽ⁱ⁺¹⁾ = −xφ⁽ⁱ⁾ − iφ⁽ⁱ⁻¹⁾.
    """
    density = (-at * at / 2).exp() * 2 / (2 * type(at).pi()).sqrt()
    derivatives = [(at / ball(2).sqrt()).erfc(), -density, at * density]
    for order in range(1, terms):
        derivatives.append(-at * derivatives[-1] - order * derivatives[-2])
    return [derivatives[i] / math.factorial(i) for i in range(terms)]


def _decide(variance: Fraction, head: int, guess: int, source: Source) -> int:
    """Return the integer m for a U whose first 63 bits are ``head``, by ball arithmetic.

    Further bits of U are drawn as needed. ``guess`` only determines where the search starts.
    """
    uniform = Uniform(source, head, _BITS)

    def is_reached(size: int) -> bool:
        """Return whether U ≥ q(size + ½)."""
        return not uniform.below(lambda: (ball(2 * size + 1) / ball(8 * variance).sqrt()).erfc())

    return first_true(is_reached, guess)
