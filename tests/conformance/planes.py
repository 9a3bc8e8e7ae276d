"""Families of two parameters beside integrals over the plane, written from the definition alone.

The law of θ has density e^{χ·θ − νA(θ)}. Two posteriors with χ_P − χ_Q = v have the loss v·θ + C_Q − C_P, so
the best event is a half-plane, and δ(ε) an integral from its edge on. Axes: along v, and one that is not
correlated with it at the mode; Gauss's rule on pieces of both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from scipy import optimize

from discreet._typing import FloatArray
from discreet.posterior_sampling.family import Family

_NODE, _WEIGHT = np.polynomial.legendre.leggauss(8)
_REACH = 36.0
STARS = [(k, k * k) for k in range(1, 6)]


def pieces(low: float, high: float) -> tuple[FloatArray, FloatArray]:
    ends = np.linspace(low, high, max(2, math.ceil((high - low) / 1.5) + 1))
    half = np.diff(ends)[:, None] / 2
    return (ends[:-1, None] + half * (1 + _NODE)).ravel(), (half * _WEIGHT).ravel()


class Plane:
    """One law, in coordinates along v and across."""

    def __init__(self, a: Callable[..., Any], chi: FloatArray, nu: float, v: FloatArray, start: Any) -> None:
        def height(t: FloatArray) -> float:
            return float(chi @ t - nu * a(*t))

        self.a, self.chi, self.nu, self.v = a, chi, nu, v
        found = optimize.minimize(lambda t: -height(t), start, method="Nelder-Mead", tol=1e-8)
        self.mode, axes = found.x, np.eye(2) * 1e-3
        curved = (
            np.array(
                [
                    [
                        sum(s * u * height(self.mode + s * p + u * q) for s in (1, -1) for u in (1, -1))
                        for q in axes
                    ]
                    for p in axes
                ]
            )
            / -4e-6
        )
        spread = np.linalg.inv(curved)
        self.deviation = math.sqrt(v @ spread @ v)
        across = np.array([-v[1], v[0]])
        self.axes = spread @ v / self.deviation, across / math.sqrt(across @ curved @ across)
        self.top = height(self.mode)
        self.unit = math.log(abs(np.linalg.det(self.axes)))

    @cached_property
    def mass(self) -> float:
        """ln ∫ e^{χ·θ − νA(θ)} dθ."""
        z, weight = pieces(-_REACH, _REACH)
        return math.log(self.along(z) @ weight) + self.top + self.unit

    def along(self, z: FloatArray) -> FloatArray:
        """The density of the first coordinate, up to a constant."""
        other, weight = pieces(-_REACH, _REACH)
        t = [m + z[:, None] * p + other * q for m, p, q in zip(self.mode, *self.axes, strict=True)]
        with np.errstate(all="ignore"):
            height = self.chi[0] * t[0] + self.chi[1] * t[1] - self.nu * self.a(*t) - self.top
            return np.exp(np.where(np.isnan(height), -np.inf, height)) @ weight

    def delta(self, other: float, epsilon: float) -> float:
        """∫ max(0, p − e^ε q), q of the mass e^other at χ − v."""
        middle = float(self.v @ self.mode) + other - self.mass
        edge = max((epsilon - middle) / self.deviation, -_REACH)
        z, weight = pieces(edge, edge + _REACH)
        rest = self.along(z) * -np.expm1(epsilon - middle - z * self.deviation)
        return float(rest @ weight) * math.exp(self.top + self.unit - self.mass)


@dataclass(frozen=True)
class PlaneRow:
    """A family with its log-partition function in NumPy, a prior, and how the rows of data weigh."""

    name: str
    family: Family
    a: Callable[..., Any]
    prior: tuple[float, ...]
    n: int
    r: Fraction
    above: float
    """How many times the truth δ may be said to be at ε = 1/10; beyond it is more."""
    start: tuple[float, float] = (0.0, 0.0)

    def __str__(self) -> str:
        return f"{self.name}-{self.n}"

    @property
    def eta(self) -> tuple[Fraction, ...]:
        return tuple(self.family.natural(self.family.prior(self.prior)))

    def plane(self, chi: FloatArray, v: FloatArray) -> Plane:
        return Plane(self.a, chi, float(self.eta[-1] + self.r * self.n), v, self.start)

    def pairs(self, most: int) -> list[tuple[Plane, Plane]]:
        """Neighbours: all records but one at a corner, in the middle, or halfway between two corners.

        Those whose loss has the largest deviation, and some of the others.
        """
        corners = self.family.corners  # type: ignore[attr-defined]
        start, r = np.array([float(part) for part in self.eta[:-1]]), float(self.r)
        places = [*corners, corners.mean(axis=0), (corners[0] + corners[-1]) / 2]
        found = []
        for place, (one, other) in itertools.product(places, itertools.permutations(corners, 2)):
            rest, move = start + r * (self.n - 1) * place, r * (one - other)
            found.append((self.plane(rest + r * one, move), self.plane(rest + r * other, move)))
        found.sort(key=lambda pair: -max(one.deviation for one in pair))
        return found[:most] + found[most :: max(1, len(found) // 3)]


def _softplus(*t: Any) -> Any:
    return sum(np.logaddexp(0, one) for one in t)


def _of_stars(s: Any, t: Any) -> Any:
    return np.logaddexp.reduce([a * s + b * t for a, b in STARS])


def _of_categories(s: Any, t: Any) -> Any:
    return np.logaddexp(0, np.logaddexp(s, t))


def _of_weights(s: Any, t: Any) -> Any:
    below = np.minimum(t, -1e-300)
    return np.where(t < 0, -(s**2) / (4 * below) - np.log(-2 * below) / 2, np.inf)


_TWO = Family.define(
    log_partition="log(1 + exp(t1)) + log(1 + exp(t2))", statistic=("x1", "x2"), bounds=((0, 1), (0, 1))
)
_CATEGORIES = Family.define(
    log_partition="log(1 + exp(t1) + exp(t2))", statistic=("x1", "x2"), values=[(0, 0), (1, 0), (0, 1)]
)
_RATINGS = Family.define(
    log_partition="log(" + " + ".join(f"exp({a}*t1 + {b}*t2)" for a, b in STARS) + ")",
    statistic=("x", "x**2"),
    values=STARS,
)
_WEIGHTS = Family.define(
    log_partition="-t1**2 / (4 * t2) - log(-2 * t2) / 2",
    statistic=("x", "x**2"),
    values=[(x / 2, x * x / 4) for x in range(-2, 3)],
    support=((-math.inf, math.inf), (-math.inf, 0)),
)
PLANES = [
    PlaneRow("two", _TWO, _softplus, (0.4, 0.5, 8.0), 2, Fraction(1), 2.0),
    PlaneRow("two", _TWO, _softplus, (0.4, 0.5, 8.0), 30, Fraction(1, 4), 2.5),
    PlaneRow("categories", _CATEGORIES, _of_categories, (0.3, 0.3, 6.0), 5, Fraction(1, 4), 2.5),
    PlaneRow("ratings", _RATINGS, _of_stars, (3.0, 10.5, 20.0), 3, Fraction(1), 2.5),
    PlaneRow("weights", _WEIGHTS, _of_weights, (0.0, 0.6, 100.0), 3, Fraction(1), 3.0, (0.0, -1.0)),
]
