"""The noise that a mechanism adds is that of its guarantee: distribution, parameter, and a draw for every
count.

The samplers are tested by themselves; here they are replaced by ones that say what they were asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import discreet
from discreet._randomness import gaussian
from discreet.mechanisms import independent, lattice

COUNTS = (5, 0, 3, 9)


class Asked:
    """A sampler of several values that returns 100, 101, …, and remembers distribution and parameter."""

    def __init__(self, as_array: bool = True) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.as_array = as_array

    def __call__(self, *arguments: Any) -> Any:
        self.calls.append(arguments[:-1])
        size = next(a for a in arguments if isinstance(a, int))
        drawn = list(range(100, 100 + size))
        return np.array(drawn) if self.as_array else drawn


def noisy(m: discreet.Mechanism, counts: Sequence[int] = COUNTS) -> list[int]:
    published = m.run(counts).noisy
    assert published is not None
    return [z - c for z, c in zip(published, counts, strict=True)]


@pytest.mark.parametrize("epsilon", ["1/3", "2"])
def test_geometric(epsilon: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    monkeypatch.setattr(independent, "two_sided_geometric", asked)
    m = discreet.mechanism("geometric", prior=(1,) * 4, epsilon=epsilon)
    assert noisy(m) == [100, 101, 102, 103]
    assert asked.calls == [(4, Fraction(epsilon))]
    assert (m.guarantee.exact_epsilon, str(m.guarantee.relation)) == (Fraction(epsilon), "add-remove")


@pytest.mark.parametrize("n", [None, 17])
@pytest.mark.parametrize("price", [{"epsilon": 1, "delta": "1e-6"}, {"rho": "0.1"}, {"mu": "0.5"}])
def test_gaussian(n: int | None, price: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """σ² = Δ²/μ², Δ² = 2 where a record is replaced and 1 where it is there or not."""
    asked = Asked(as_array=False)
    monkeypatch.setattr(gaussian, "rounded_gaussians", asked)
    m = discreet.mechanism("gaussian", prior=(1,) * 4, n=n, **price)
    assert noisy(m) == [100, 101, 102, 103]
    ((variance, size),) = asked.calls
    assert size == 4
    mu_squared = (1 if n is None else 2) / variance
    assert str(m.guarantee.relation) == ("add-remove" if n is None else "replace-one")
    if "rho" in price:
        assert mu_squared == Fraction(2, 10) == 2 * m.guarantee.zcdp()  # type: ignore[operator]
    elif "mu" in price:
        assert mu_squared == Fraction(1, 4) == 2 * m.guarantee.zcdp()  # type: ignore[operator]
    else:
        with mpmath.workdps(50):
            mu = mpmath.sqrt(mpmath.mpf(mu_squared.numerator) / mu_squared.denominator)
            delta = mpmath.ncdf(mu / 2 - 1 / mu) - mpmath.e * mpmath.ncdf(-mu / 2 - 1 / mu)
        assert 0.999e-6 < delta <= Fraction(1, 10**6)


@pytest.mark.parametrize("k", [2, 4])
def test_lattice(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    monkeypatch.setattr(lattice, "lattice_noise", asked)
    m = discreet.mechanism("lattice", prior=(1,) * k, n=sum(COUNTS[:k]), epsilon="1/3")
    output = m._noisy(COUNTS[:k], None)  # type: ignore[arg-type]
    assert [z - c for z, c in zip(output, COUNTS, strict=False)] == list(range(100, 100 + k))
    assert asked.calls == [(k, Fraction(1, 3))]


@pytest.mark.parametrize(
    ("name", "k", "rate", "noised"),
    [
        ("lszhang", 4, Fraction(1, 4), 4),
        ("lsdim", 4, Fraction(1, 8), 3),
        ("lshist", 4, Fraction(1, 4), 3),
        ("lshist", 2, Fraction(1, 2), 1),
    ],
)
def test_floor_laplace(
    name: str, k: int, rate: Fraction, noised: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At ε = 1/2: one replaced record moves two of the counts that have noise, or one of them."""
    calls = []

    def sampler(p: int, q: int, source: Any) -> int:
        calls.append(Fraction(p, q))
        return 1

    monkeypatch.setattr(independent, "floor_laplace", sampler)
    n = 40
    counts = (*COUNTS[: k - 1], n - sum(COUNTS[: k - 1]))
    m = discreet.mechanism(name, prior=(1,) * k, n=n, epsilon="1/2")
    released = m.draw(counts)
    assert calls == [rate] * noised
    assert list(released[:noised]) == [min(c + 1, n) for c in counts[:noised]]
