"""A mechanism and a family that somebody writes tomorrow: one class each, and everything works with them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import discreet
from discreet._registry import FAMILIES, MECHANISMS
from discreet.answers.release import Release
from discreet.cli import main
from discreet.mechanisms.base import Mechanism, Output
from discreet.numerics.count_vectors import compositions
from discreet.posterior_sampling.families.means import GaussianMean
from discreet.posterior_sampling.family import Family
from discreet.posterior_sampling.sample import Sample
from discreet.randomness.compositions import uniform_composition


@pytest.fixture
def blind() -> Iterator[type[Mechanism]]:
    @dataclass(frozen=True)
    class Blind(Mechanism):
        """Any counts with equal probability, whatever the data are."""

        name: ClassVar[str] = "blind"
        words: ClassVar[str] = "The counts were made up."

        @property
        def guarantee(self) -> discreet.Guarantee:
            return discreet.Guarantee(self.epsilon, basis="theorem: it does not look at the data")

        @property
        def noise_scale(self) -> float:
            return self.n / 2

        def _output(self, counts: tuple[int, ...], source: Any) -> Output:
            return Output(uniform_composition(self.n, self.k, source))

        def _log_pmf(self, counts: tuple[int, ...]) -> tuple[Any, Any]:
            rows = compositions(self.n, self.k)
            return rows, np.full(len(rows), -math.log(len(rows)))

        def _simulate(self, counts: tuple[int, ...], size: int, rng: np.random.Generator) -> Any:
            rows = compositions(self.n, self.k)
            return rows[rng.integers(len(rows), size=size)]

    yield Blind
    MECHANISMS.unregister("blind")


def test_a_new_mechanism(blind: type[Mechanism], tmp_path: Path) -> None:
    assert "blind" in MECHANISMS
    assert "blind" in discreet.plan(prior=(1, 1), n=8, epsilon=1).table()[-1].values()
    m = discreet.mechanism("blind", prior=(1, 1, 1), n=5, epsilon=1)
    found = discreet.audit(m)
    assert found.epsilon == pytest.approx(0, abs=1e-12)
    assert found.guarantee().is_private
    assert discreet.audit_sampler(m, draws=2000).fits
    with discreet.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        ledger.create("records", epsilon=3)
        released = discreet.release(
            ["a", "b", "a", "b", "b"],
            levels=("a", "b"),
            prior=(1, 1),
            epsilon=1,
            mechanism="blind",
            ledger=ledger,
            dataset="records",
        )
    again = Release.from_json(released.to_json())
    assert again == released
    # The output says nothing, so what is known is the prior.
    assert again.noise_aware().marginal(0).mean() == pytest.approx(0.5)
    assert "blind" in again.summary()
    assert "blind" in discreet.report(again)


@pytest.fixture
def fresh() -> Iterator[type[Family]]:
    @dataclass(frozen=True)
    class Fresh(GaussianMean):
        """A mean, of which nobody has worked out what draws say about it."""

        name: ClassVar[str] = "fresh"
        parameter: ClassVar[str] = "level"

        given_draws = Family.given_draws  # type: ignore[assignment]

    yield Fresh
    FAMILIES.unregister("fresh")


def test_a_new_family(
    fresh: type[Family], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once charged the ledger and then ended in a KeyError."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        captured = capsys.readouterr()
        assert not stopped.value.code, captured.err
        return captured.out

    Path("ages.csv").write_text("age\n" + "30\n40\n50\n" * 40, "utf-8")
    ledger = "ledger.db"
    run("ledger", "create", "people", "--ledger", ledger, "--epsilon", "3", "--delta", "1e-5")
    said = run(
        *("sample", "ages.csv", "--family", "fresh", "--column", "age", "--bounds", "0,100", "--sigma", "10"),
        *("--prior", "40,20", "--epsilon", "1", "--delta", "1e-6", "--ledger", ledger, "--dataset", "people"),
        *("--out", "drawn.json"),
    )
    assert "Private posterior draw" in said
    assert "fresh" in run("show", "drawn.json")
    assert json.loads(run("show", "drawn.json", "--json"))["table"] == []
    run("report", "drawn.json", "--out", "drawn.html")
    assert "level" in Path("drawn.html").read_text("utf-8")
    sample = Sample.from_json(Path("drawn.json").read_text("utf-8"))
    assert sample.parameters() == ["level"]
    assert sample.prior_marginals()[0].mean() == 40
    with pytest.raises(discreet.InvalidInput, match="'fresh'"):
        sample.noise_aware()
    assert sample.model.described(sample.prior, None)[0]
    assert Fraction(str(sample.guarantee.exact_epsilon)) == 1
