"""Lemmas and single lines of the papers, against computations that share no code with the experiments."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta as beta_distribution

from discreet_reproductions.paper_a import lines as lines_a
from discreet_reproductions.paper_b import lines as lines_b
from discreet_reproductions.paper_c import lemmas
from discreet_reproductions.running import Run


@pytest.mark.parametrize("make", [lines_a.lines, lines_b.lines, lemmas.lemmas])
def test_every_statement_is_judged(make: object, tmp_path: Path) -> None:
    found = {s.name: s.agrees for s in make(Run("x")).statements}  # type: ignore[operator]
    expected = {
        "theorem 3.1": "partly",
        "last step": "no",
        "limit of LS": "partly",
        "density": "no",
        "size of the noise": "no",
        "half and shift": "partly",
        "one step": "no",
        "lemma 1": "partly",
    }
    assert found == {name: expected.get(name, "yes") for name in found}


def test_the_witness_against_lemma_1_by_quadrature() -> None:
    (a, b), (c, d) = lemmas.WITNESS
    order = 1.05

    def integrand(log_t: float) -> float:
        t = math.exp(log_t)
        return math.exp(
            order * beta_distribution.logpdf(t, a, b)
            + (1 - order) * beta_distribution.logpdf(t, c, d)
            + log_t
        )

    direct = math.log(sum(quad(integrand, low, low + 5)[0] for low in range(-60, 0, 5))) / (order - 1)
    row = next(row for row in lemmas.lemma_rows() if row["order"] == order)
    assert direct == pytest.approx(6.658937, rel=1e-5)
    assert row["divergence"] == pytest.approx(direct, rel=1e-5)
    assert row["printed"] == pytest.approx(2.692157, rel=1e-5)
    assert row["divergence"] < row["repaired"]


def test_the_hessian_is_the_covariance_of_the_sufficient_statistics() -> None:
    a, b = 2.5, 4.0
    draws = np.random.default_rng(5).beta(a, b, 400_000)
    statistics = np.array([np.log(draws / (1 - draws)), np.log1p(-draws)])
    assert np.cov(statistics) == pytest.approx(lemmas.hessian(np.array([a, a + b])), rel=0.02)


def test_the_floored_noise_by_draws() -> None:
    noise = np.random.default_rng(6).laplace(scale=2 / lines_b.EPSILON, size=400_000)
    for row in lines_b.noise_rows():
        step = row["l"]
        assert row["floor(Y) = l"] == pytest.approx((np.floor(noise) == step).mean(), abs=0.003)
        assert row["|floor(Y)| = l"] == pytest.approx((np.abs(np.floor(noise)) == step).mean(), abs=0.003)
        assert row["floor(|Y|) = l"] == pytest.approx((np.floor(np.abs(noise)) == step).mean(), abs=0.003)
