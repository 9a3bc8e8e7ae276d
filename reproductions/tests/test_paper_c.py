"""Figures 1 and 2 of Geumlek, Song and Chaudhuri (2017): files, orderings, and the distributions behind
them."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import digamma

from discreet import posterior_sampler
from discreet.mechanisms.lattice import Lattice
from discreet_reproductions.paper_c import figures, lines, regression
from discreet_reproductions.paper_c.verdicts import Result
from discreet_reproductions.report import Row, write_outcome
from discreet_reproductions.running import Run

COLUMNS = [
    "figure",
    "prior",
    "rho",
    "n",
    "held_out",
    "order",
    "epsilon",
    "mechanism",
    "beyond_paper",
    "promise",
    "renyi",
    "scale",
    "repetitions",
    "mean",
    "low",
    "high",
    "expected",
]
FULL = {1: figures.FIGURE1, 2: figures.FIGURE2}
TINY = replace(figures.FIGURE1, rhos=(0.5,), epsilons=(0.1, 1.0), repetitions=50)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Result]]:
    """Both figures as they are reproduced, and the results behind the outcomes."""
    out = tmp_path_factory.mktemp("paper_c")
    results = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            figures, "verdict", lambda result: results.setdefault(result.settings.figure, result) and ""
        )
        for number, make in ((1, figures.experiment1), (2, figures.experiment2)):
            outcome = make(Run(f"figure{number}", quick=True))
            write_outcome(out, f"figure{number}", "", outcome, {})
    return out, results


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_a_quick_run_writes_every_file(quick: tuple[Path, dict[int, Result]], number: int) -> None:
    out, results = quick
    settings = results[number].settings
    assert (out / f"figure{number}.png").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(out / f"figure{number}.svg").getroot().tag.endswith("svg")
    with (out / f"figure{number}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == COLUMNS
    assert len(rows) == len(settings.rhos) * (2 + len(lines.PRIVATE) * len(settings.epsilons))
    assert {row["mechanism"] for row in rows} == {"non-private", "direct", *lines.PRIVATE}
    assert {row["mechanism"] for row in rows if row["beyond_paper"] == "True"} == set(lines.BEYOND)
    with (out / f"figure{number}-privacy.csv").open(encoding="utf-8", newline="") as file:
        assert list(next(csv.DictReader(file))) == ["quantity", "at", "value"]
    verdict = json.loads((out / f"figure{number}.json").read_text("utf-8"))
    assert verdict["settings"]["seed"] == settings.seed
    assert [s["name"] for s in verdict["statements"]] == [s.name for s in results[number].statements]
    assert all(s["claim"] and s["source"] and s["measured"] for s in verdict["statements"])


@pytest.mark.slow
def test_verdicts(quick: tuple[Path, dict[int, Result]]) -> None:
    _, results = quick
    both = {
        "direct": "yes",
        "conservative": "yes",
        "large-epsilon": "partly",
        "below-order-limit": "yes",
        "diffused-or-concentrated": "partly",
        "diffused-over-baseline": "partly",
        "concentrated-over-baseline": "partly",
        "simulation": "yes",
    }
    first = {
        "matching-limit": "yes",
        "prior-match": "yes",
        "public-data": "yes",
        "lattice-over-all": "partly",
    }
    second = {"scaled-prior": "no", "difficult": "yes", "lattice-over-all": "yes"}
    assert {s.name: s.agrees for s in results[1].statements} == {**both, **first}
    assert {s.name: s.agrees for s in results[2].statements} == {**both, **second}


@pytest.mark.slow
def test_one_line_of_verdict(quick: tuple[Path, dict[int, Result]]) -> None:
    for result in quick[1].values():
        agreeing = sum(s.agrees == "yes" for s in result.statements)
        line = figures.verdict(result)
        assert line.startswith(f"{agreeing} of {len(result.statements)} statements agree")
        assert f"diffused is {result.gap('diffused', result.settings.rhos[-1])[0]:.1f} nats" in line


def test_the_settings_are_those_of_the_paper() -> None:
    for settings in FULL.values():
        assert (settings.n, settings.held_out, settings.order, settings.repetitions) == (100, 100, 15, 10_000)
    assert (figures.FIGURE1.prior, figures.FIGURE1.rhos) == ((6, 12), (1 / 3, 1 / 2, 2 / 3))
    assert (figures.FIGURE2.prior, figures.FIGURE2.rhos) == ((1, 1), (0.2,))


@pytest.mark.slow
def test_orderings_of_figure_1(quick: tuple[Path, dict[int, Result]]) -> None:
    """On exact expectations, so no seed is involved; margins in nats over 100 records."""
    result = quick[1][1]
    right, between, wrong = result.settings.rhos
    for name in lines.RELEASED:  # the worse the prior, the larger the gap, at every ε
        gaps = np.array([result.gap(name, rho) for rho in (right, between, wrong)])
        assert (np.diff(gaps, axis=0) > 0.2).all()
        assert result.gap(name, right)[0] < 2
    assert (result.expected("concentrated", right) > result.expected("diffused", right) + 0.3).all()
    assert result.expected("diffused", wrong)[0] > result.expected("concentrated", wrong)[0] + 5
    for name in lines.RELEASED:
        for rho in result.settings.rhos:
            assert result.expected(name, rho)[0] > result.expected("laplace", rho)[0] + 20
    assert result.gap("diffused", wrong)[-1] > 1.5, "λ ≥ λ*: diffused does not reach the non-private line"
    assert result.gap("concentrated", wrong)[-1] > 1
    for name in (*lines.BASELINES, *lines.BEYOND):
        assert all(abs(result.gap(name, rho)[-1]) < 0.05 for rho in result.settings.rhos)


@pytest.mark.slow
def test_orderings_of_figure_2(quick: tuple[Path, dict[int, Result]]) -> None:
    result = quick[1][2]
    (rho,) = result.settings.rhos
    assert result.expected("diffused", rho)[0] > result.expected("concentrated", rho)[0] + 2
    assert result.expected("concentrated", rho)[-1] > result.expected("diffused", rho)[-1] + 4
    assert result.gap("diffused", rho)[-1] > 5
    assert result.expected("lattice-renyi", rho)[0] > result.expected("diffused", rho)[0] + 1


@pytest.mark.slow
def test_every_line_keeps_its_promise(quick: tuple[Path, dict[int, Result]]) -> None:
    for result in quick[1].values():
        for row in result.table:
            if row["mechanism"] in lines.PRIVATE:
                assert row["renyi"] <= row["epsilon"], row
                assert row["low"] < row["mean"] < row["high"]
            else:
                assert math.isinf(row["renyi"]), "direct has no guarantee at order 15"


@pytest.mark.parametrize("name", ["diffused", "concentrated"])
def test_posterior_parameters_are_those_of_the_sampler(name: str) -> None:
    """Moments of ``simulate`` at one count, within 5 standard errors; far off with r and m swapped."""
    sampler = posterior_sampler(name, "beta", prior=(6, 12), n=100, epsilon=0.1, order=15)
    draws = sampler.simulate(70, 40_000, seed=1)

    def deviation(used: object) -> float:
        a, b = lines.sampled(used, 15).parameters(np.array([70]))  # type: ignore[arg-type]
        mean = a / (a + b)
        claims = (
            (np.log(draws), digamma(a) - digamma(a + b)),
            (np.log1p(-draws), digamma(b) - digamma(a + b)),
            ((draws - mean) ** 2, mean * (1 - mean) / (a + b + 1)),
        )
        errors = [values.std() / math.sqrt(len(draws)) for values, _ in claims]
        return max(
            abs(float(values.mean() - own[0])) / e for (values, own), e in zip(claims, errors, strict=True)
        )

    assert deviation(sampler) < 5
    assert deviation(replace(sampler, r=sampler.m, m=sampler.r)) > 20


def test_distributions_of_the_released_count() -> None:
    for line in lines.lines_at(TINY, 0.1):
        z, weights = line.distribution()
        assert weights.shape == (101, len(z))
        assert np.allclose(weights.sum(axis=1), 1, atol=1e-12)
        assert z.min() >= 0
        assert z.max() <= 100
    for name, rate in (("lattice", 0.1), ("lattice-renyi", lines.geometric_rate(0.1, 15))):
        z, weights = lines.lattice(TINY, name, 0.1).distribution()
        outputs, log_probability = Lattice((6, 12), 100, rate).log_pmf((30, 70))
        found = np.bincount(z.astype(int), weights=weights[30], minlength=101)
        assert np.allclose(found[outputs[:, 0]], np.exp(log_probability), atol=1e-13)


def test_clipped_noise_has_the_right_mean_utility() -> None:
    """The quadrature behind ``expected`` against adaptive integration at one count."""
    scale, x, n = 10.0, 30, 100
    z, weights = lines.perturbed(TINY, "laplace", 0.1).distribution()
    inside = quad(lambda t: digamma(6 + t) * math.exp(-abs(t - x) / scale) / (2 * scale), 0, n, points=[x])[0]
    tails = (digamma(6) * math.exp(-x / scale) + digamma(6 + n) * math.exp(-(n - x) / scale)) / 2
    assert float(weights[x] @ digamma(6 + z)) == pytest.approx(inside + tails, abs=1e-9)


@pytest.mark.parametrize("rate", [0.01, 0.3, 4.0])
def test_renyi_divergences_of_the_noises(rate: float) -> None:
    order, v = 15.0, np.arange(-5000, 5001)
    log_p, log_q = -rate * np.abs(v), -rate * np.abs(v - 1)
    norm = math.log(math.tanh(rate / 2))
    total = np.logaddexp.reduce(order * log_p + (1 - order) * log_q + norm)
    assert lines.geometric_renyi(rate, order) == pytest.approx(total / (order - 1), rel=1e-9)

    def integrand(t: float) -> float:
        return rate / 2 * math.exp(-rate * (order * abs(t) + (1 - order) * abs(t - 1)))

    parts = [quad(integrand, low, high)[0] for low, high in ((-40 / rate, 0), (0, 1), (1, 40 / rate))]
    assert lines.laplace_renyi(rate, order) == pytest.approx(math.log(sum(parts)) / (order - 1), rel=1e-7)
    found = lines.geometric_rate(rate, order)
    assert lines.geometric_renyi(found, order) <= rate < lines.geometric_renyi(found * (1 + 1e-9), order)


def test_below_the_order_limit_direct_is_a_point() -> None:
    settings = replace(TINY, order=2.0, epsilons=(0.01, 1.0))
    table, privacy = figures.measure(settings)
    result = Result(settings, table, privacy, [])
    (direct,) = [row for row in table if row["mechanism"] == "direct"]
    assert direct["epsilon"] == direct["renyi"] == pytest.approx(0.19, abs=0.01)
    for name in lines.RELEASED:
        gap = result.gap(name, 0.5)
        assert gap[0] > 0.5
        assert gap[1] == pytest.approx(0, abs=1e-9), "r = m = 1 from the ε of direct on"
    figures.draw_plot(result)


@pytest.mark.parametrize("number", [1, 2])
def test_a_run_decides_seed_and_repetitions(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def stop(settings: object, tick: object) -> Result:
        seen.append(settings)
        raise KeyboardInterrupt

    monkeypatch.setitem(figures.FIGURES, number, (FULL[number], stop))
    make = {1: figures.experiment1, 2: figures.experiment2}[number]
    for quick, expected in ((True, FULL[number].quick()), (False, FULL[number])):
        with pytest.raises(KeyboardInterrupt):
            make(Run("c", quick=quick, seed=7))
        assert seen.pop() == replace(expected, seed=7)


@pytest.mark.parametrize(("quick", "seed"), [(True, 7), (False, 8)])
def test_a_run_decides_seed_and_size_of_figures_3_and_4(
    quick: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def stop(item: object, settings: regression.Settings, tick: object) -> list[Row]:
        seen.append(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(regression, "load", lambda name, folder: SimpleNamespace(name=name))
    monkeypatch.setattr(regression, "measure", stop)
    with pytest.raises(KeyboardInterrupt):
        regression.experiment(Run("c-figures34", quick=quick, seed=seed))
    assert seen == [replace(regression.QUICK if quick else regression.Settings(), seed=seed)]


def test_the_seed_decides() -> None:
    settings = replace(TINY, epsilons=(1.0,))
    table, privacy = figures.measure(settings)
    assert (table, privacy) == figures.measure(settings)
    other, _ = figures.measure(replace(settings, seed=1))
    assert [row["expected"] for row in other] == [row["expected"] for row in table]
    assert all(a["mean"] != b["mean"] for a, b in zip(table, other, strict=True))
