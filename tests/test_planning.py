"""One planner: the same numbers from Python, a study and the command line, and those that releases give."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.cli import main
from discreet.errors import InvalidInput
from discreet.planning.plan import Guess

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.NoiseWarning")
SCHEMA = discreet.Schema(
    {
        "smoker": ["no", "yes"],
        "sex": ["f", "m"],
        "age": (0, 100),
        "pay": discreet.Number(0, 100, missing="exclude"),
    },
    n=2000,
)


def test_the_same_numbers_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = discreet.Proportions("smoker")
    planned = discreet.plan(asked, SCHEMA, within="3 points")
    study = discreet.Study(tmp_path / "nothing.csv", SCHEMA, epsilon=1)
    assert study.plan(asked, within=0.03).epsilon == planned.epsilon
    (share,) = study.split([{"id": "a", "columns": "smoker", "within": 3}]).shares
    assert share.question.exact_epsilon == planned.question.exact_epsilon
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml())
    with pytest.raises(SystemExit):
        main(
            ["plan", "proportions", str(tmp_path / "schema.toml"), "smoker", "--within", "3 points", "--json"]
        )
    assert Fraction(json.loads(capsys.readouterr().out)["epsilon"]) == planned.question.exact_epsilon
    assert planned.widths[0] <= 0.03 < discreet.plan(asked, SCHEMA, epsilon=planned.epsilon / 1.1).widths[0]


def test_epsilon_and_n_are_found(tmp_path: Path) -> None:
    hidden = discreet.Schema({"age": (0, 100)})
    found = discreet.plan(discreet.Mean("age"), hidden, epsilon=1, within=2.0)
    assert (
        found.widths[0]
        <= 2
        < discreet.plan(discreet.Mean("age"), hidden, epsilon=1, n=found.n // 2).widths[0]
    )
    assert discreet.plan(discreet.Mean("age"), hidden, n=5000, within=2.0).epsilon < 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "a plan needs epsilon, or within"),
        ({"within": 0.001}, "cannot be reached with n=2000"),
        ({"within": 0.02, "epsilon": 1}, "give two of n, epsilon and within"),
        ({"epsilon": 1, "guess": {"typcal": 0.2}}, "did you mean 'typical'"),
        ({"epsilon": 1, "guess": {"left_out": 0.2}}, "declare missing='exclude'"),
        ({"within": 0.03, "of": "yes"}, "must be one of: a share of 50 %"),
    ],
)
def test_what_cannot_be_planned(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        discreet.plan(discreet.Proportions("smoker"), SCHEMA, **given)


@pytest.mark.parametrize("n", [500, 5000])
@pytest.mark.parametrize("epsilon", ["0.2", "1"])
def test_plans_promise_what_releases_give(n: int, epsilon: str) -> None:
    """Planned over realised width between 0.9 and 1.15; the average of 12 releases of simulated records."""
    rng = np.random.default_rng(n)
    age = np.clip(rng.normal(50, 20, n), 0, 100)
    pay = [
        None if missing else value for missing, value in zip(rng.random(n) < 0.3, age.tolist(), strict=True)
    ]
    data = {"smoker": rng.choice(["no", "yes"], n).tolist(), "age": age.tolist(), "pay": pay}
    schema = discreet.Schema({name: SCHEMA[name] for name in data}, n=n)
    guess = Guess(typical=float(age.std()))
    for question, guessed in (
        (discreet.Proportions("smoker", epsilon=epsilon), Guess()),
        (discreet.Mean("age", epsilon=epsilon), guess),
        (discreet.Mean("pay", epsilon=epsilon), Guess(typical=guess.typical, left_out=0.3)),
    ):
        halves = []
        for _ in range(12):
            low, high = discreet.ask(data, question, schema=schema).interval(0.95)
            halves.append((high[0] - low[0]) / 2)
        planned = discreet.plan(question, schema, guess=guessed).widths[0]
        assert 0.9 <= planned / float(np.sqrt(np.mean(np.square(halves)))) <= 1.15, question
