"""Lemma 3 of C, its pair and the worst pair, against quadrature of another kind."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.special import expit

from discreet_reproductions.paper_c import tightness
from discreet_reproductions.running import Run

TINY = tightness.TightnessSettings(orders=(2, 5), variances=(0.1,), others=(0.0, 1e6), angles=5, grid=96)


def test_the_figures_of_the_lemma() -> None:
    assert tightness.printed(5, 0.1) == pytest.approx(0.3240, abs=5e-5)
    assert tightness.closed_form(5, 0.1) == pytest.approx(0.2441, abs=5e-5)
    assert tightness.printed(2, 0.01) < 0, "no divergence is negative"


@pytest.mark.parametrize(("lam", "variance"), [(2, 0.01), (3, 0.1), (5, 1.0), (12, 1.0), (40, 4.0)])
def test_the_pair_in_closed_form_by_our_quadrature_and_by_another(lam: int, variance: float) -> None:
    ours = tightness.antipodal(lam, variance)
    assert tightness.closed_form(lam, variance) == pytest.approx(ours, rel=1e-10)
    middle, scale = (lam - 1) * variance, math.sqrt(variance)

    def shifted(u: float) -> float:
        return float(
            expit(u) * math.exp(-((u - middle) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
        )

    integral = quad(shifted, middle - 12 * scale, middle + 12 * scale, epsabs=0, epsrel=1e-12, limit=200)[0]
    assert ours == pytest.approx(
        (math.log(2 * integral) + (lam - 1) ** 2 * variance / 2) / (lam - 1), rel=1e-9
    )


def test_the_loss_of_a_pair_beside_others_by_another_quadrature() -> None:
    lam, variance, others, t = 3.0, 0.5, 20.0, 0.4
    side = math.sqrt(1 - t * t)

    def integral(p: float, q: float) -> float:
        def density(second: float, first: float) -> float:
            value = -(first**2 + second**2) / (2 * variance) - others * np.logaddexp(0, -second)
            value -= p * np.logaddexp(0, -(side * first - t * second))
            value -= q * np.logaddexp(0, side * first + t * second)
            return math.exp(value + 20)

        return float(dblquad(density, -8, 8, -8, 8, epsabs=1e-11, epsrel=1e-9)[0])

    both = math.log(integral(lam, 1 - lam))
    exact = (both - lam * math.log(integral(1, 0)) - (1 - lam) * math.log(integral(0, 1))) / (lam - 1)
    assert tightness._pair_loss(lam, variance, others, t, 120) == pytest.approx(exact, rel=1e-6)


def test_the_antipodal_pair_is_the_worst_alone_and_not_beside_others() -> None:
    alone = tightness.worst_angle(5, 0.1, 0.0, 8, 96)
    assert alone["t"] == 0
    assert alone["loss"] == pytest.approx(tightness.antipodal(5, 0.1), rel=1e-6)
    beside = tightness.worst_angle(5, 0.1, 1e6, 8, 96)
    assert 0.7 * tightness.lemma1(5, 0.1) < beside["loss"] < tightness.lemma1(5, 0.1)


def test_verdicts_and_that_they_can_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tightness.TightnessSettings, "quick", lambda self: TINY)
    outcome = tightness.tightness(Run("c-tightness", quick=True))
    given = {s.name: s.agrees for s in outcome.statements}
    assert given == {"closed-form": "no", "order": "yes", "tightness": "yes", "upper-bound": "yes"}
    assert len(outcome.verdict) <= 240
    assert outcome.plots[""].axes
    changed = [{**row, "lemma 1": row["quadrature"] / 20} for row in outcome.tables[""]]
    assert {s.name: s.agrees for s in tightness.statements(changed, TINY)}["upper-bound"] == "no"
    loose = [{**row, "lemma 1": row["quadrature"] * 20} for row in outcome.tables[""]]
    found = {s.name: s.agrees for s in tightness.statements(loose, replace(TINY))}
    assert found["tightness"] == "no"
