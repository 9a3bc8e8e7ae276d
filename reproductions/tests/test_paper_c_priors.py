"""Figures 3 and 4 of C over priors: counts of the orderings, the axes, and the shipped sampler."""

from __future__ import annotations

import pytest

from discreet_reproductions.paper_c import priors
from discreet_reproductions.paper_c.regression import Settings, load
from discreet_reproductions.report import Row
from discreet_reproductions.running import Run

pytest.importorskip("sklearn")


def line(name: str, loss: float, *, order: float = 10.0, prior: float = 1.0, half: float = 0.01) -> Row:
    row: Row = {"data": "d", "line": name, "prior": prior, "order": order, "epsilon": 1.0}
    for quantity in priors.QUANTITIES:
        row |= {quantity: loss, f"{quantity}_low": loss - half, f"{quantity}_high": loss + half}
    return row


def test_orderings_are_counted() -> None:
    table = [line("diffuse", 0.5), line("concentrated", 0.6), line("ops", 0.5)]
    assert [len(side) for side in priors.ordering(table, "loss", "diffuse", "concentrated")] == [1, 0, 0]
    assert [len(side) for side in priors.ordering(table, "loss", "concentrated", "diffuse")] == [0, 0, 1]
    assert [len(side) for side in priors.ordering(table, "loss", "diffuse", "ops")] == [0, 1, 0]


def test_verdicts_can_say_yes_and_no() -> None:
    compared = [
        {
            f"{kind}{q}{end}": 1.0
            for q in priors.QUANTITIES
            for kind in ("", "reference_")
            for end in ("", "_se")
        }
    ]
    compared[0]["sampler"] = "rejection"  # type: ignore[assignment]
    good = [
        row
        for order, loss in ((1.0, 0.5), (10.0, 0.6))
        for row in (
            line("diffuse", loss, order=order),
            line("concentrated", loss + 0.1, order=order),
            line("ops", 12.0, order=order),
        )
    ]
    assert {s.agrees for s in priors.statements(good, compared, (1.0,))} == {"yes"}
    turned = [{**row, "loss": 1 - row["loss"] / 20, "error": -row["error"]} for row in good]
    turned = [r | {f"{q}_{e}": r[q] for q in priors.QUANTITIES for e in ("low", "high")} for r in turned]
    compared[0]["loss"] = 99.0
    assert {s.agrees for s in priors.statements(turned, compared, (1.0,))} == {"no"}


def test_the_shipped_sampler_is_seeded_and_draws_the_posterior() -> None:
    data = load("breast-cancer", None)
    first, second = (priors.shipped(data, 1.0, 10.0, 1.0, 2, seed) for seed in (1, 1))
    assert first == second
    assert [row["line"] for row in first] == ["diffuse", "concentrated"]
    assert all(0 < row["loss"] < 5 for row in first)


def test_an_outcome_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    points = Settings(epsilons=(1.0,), orders=(1.0, 10.0), repetitions=4, warm_up=10)
    tiny = priors.PriorSettings(
        precisions=(1.0, 0.01), all=points, few=points, shipped=((10.0, 1.0),), fits=2
    )
    monkeypatch.setattr(priors.PriorSettings, "quick", lambda self: tiny)
    outcome = priors.experiment(Run("c-prior", quick=True))
    assert len(outcome.verdict) <= 240
    assert len({s.name for s in outcome.statements}) == len(outcome.statements) == 9
    assert len(outcome.tables["samplers"]) == 2
    assert outcome.plots[""].axes
