"""A grey-box audit of every question about counts (arXiv 2602.17454): record noisy steps, replay them.

The first dataset is asked, and each noisy step's input and output are kept. A neighbour is asked with those
outputs in place of its own. The steps must be the same ones, their inputs no further apart than the ε that is
claimed pays for, and everything published must be the same, byte by byte: it may depend on outputs alone.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import discreet
from discreet.answers.weighted import SumsNoise
from discreet.mechanisms.base import Mechanism

pytestmark = pytest.mark.filterwarnings("ignore")
PEOPLE = {
    "a": ["x", "y", "z", "x"] * 10,
    "b": ["f", "m"] * 20,
    "age": [5.0, 15.0, 35.0, 75.0] * 10,
}
COLUMNS: dict[str, Any] = {"a": ["x", "y", "z"], "b": ["f", "m"], "age": (0, 100)}
QUESTIONS = {
    "proportions": discreet.Proportions("a", epsilon=1),
    "ehds": discreet.Proportions("b", epsilon=1, mechanism="ehds"),
    "table": discreet.Proportions(("a", "b"), epsilon=1),
    "groups": discreet.Proportions("a", by="b", epsilon=1),
    "quantiles": discreet.Quantiles("age", (0.1, 0.5), epsilon=1),
    "quantiles of groups": discreet.Quantiles("age", (0.5,), by="b", epsilon=1),
    "survival": discreet.Survival("age", "b", by="a", bins=(0, 30, 60, 100), epsilon=1),
    "network": discreet.Network({"a": ("b",)}, epsilon=1),
}


class Recorder:
    """Stands for the noisy step: it keeps what it is given and returns, or returns what was kept."""

    def __init__(self) -> None:
        self.steps: list[tuple[dict[str, Any], tuple[int, ...], Any]] = []
        self.replayed: list[tuple[dict[str, Any], tuple[int, ...]]] = []
        self.replaying = False
        self.whole = Mechanism.run

    def run(self, mechanism: Mechanism, counts: Any, **options: Any) -> Any:
        given = tuple(int(count) for count in counts)
        if self.replaying:
            self.replayed.append((mechanism.parameters(), given))
            return self.steps[len(self.replayed) - 1][2]
        output = self.whole(mechanism, given, **options)
        self.steps.append((mechanism.parameters(), given, output))
        return output

    def loss(self) -> Fraction:
        """What the difference of inputs can cost: ε for one record moved, and so on in proportion."""
        total = Fraction(0)
        for (parameters, one, _), (same, other) in zip(self.steps, self.replayed, strict=True):
            assert parameters == same
            moved = sum(abs(a - b) for a, b in zip(one, other, strict=True))
            whole = 2 if sum(one) == sum(other) else 1
            total += Fraction(parameters["epsilon"]) * -(-moved // whole)
        return total


@pytest.mark.parametrize(
    ("name", "n"), [(name, n) for name in QUESTIONS for n in (40, None) if n or name != "ehds"]
)
def test_what_reaches_the_noise_is_all_that_is_seen(
    name: str, n: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = discreet.Category(["f", "m"], public=True) if "groups" in name and n else COLUMNS["b"]
    schema = discreet.Schema({**COLUMNS, "b": public}, n=n)
    if n is None:
        neighbour = {column: values[:-1] for column, values in PEOPLE.items()}
    else:
        neighbour = {**PEOPLE, "a": ["z", *PEOPLE["a"][1:]], "age": [99.0, *PEOPLE["age"][1:]]}
        if "groups" not in name:
            neighbour["b"] = ["m", *PEOPLE["b"][1:]]
    recorder = Recorder()
    monkeypatch.setattr(Mechanism, "run", lambda self, counts, **more: recorder.run(self, counts, **more))
    first = discreet.ask(PEOPLE, QUESTIONS[name], schema=schema)
    recorder.replaying = True
    second = discreet.ask(neighbour, QUESTIONS[name], schema=schema)
    assert recorder.steps
    assert recorder.loss() <= first.guarantee.exact_epsilon == 1
    assert second.to_json() == first.to_json()
    assert str(second) == str(first)


@pytest.mark.parametrize("n", [40, None])
@pytest.mark.parametrize("delta", [None, "1e-6"])
@pytest.mark.parametrize(
    "question",
    [
        discreet.Proportions("a", epsilon=1),
        discreet.Proportions("a", by="b", epsilon=1),
        discreet.Mean("age", epsilon=1),
        discreet.Mean("age", by="b", epsilon=1),
    ],
    ids=["shares", "shares by group", "mean", "means by group"],
)
def test_what_reaches_the_noise_of_weighted_sums_is_all_that_is_seen(
    question: Any, delta: str | None, n: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of Laplace noise distances over scales add up to ε at most; of Gaussian noise squares to μ²."""
    data = {**PEOPLE, "w": [0.5, 1.0, 2.0, 9.0] * 10}
    schema = discreet.Schema({**COLUMNS, "w": discreet.Weight(2)}, n=n)
    if n is None:
        neighbour = {column: values[:-1] for column, values in data.items()}
    else:
        neighbour = {column: [values[3], *values[1:]] for column, values in data.items()}
    asked = replace(question, delta=delta)
    steps: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []
    given: list[tuple[int, ...]] = []
    whole = SumsNoise.add_to

    def recorded(self: SumsNoise, sums: Any, name: str, source: Any) -> tuple[int, ...]:
        if replaying:
            given.append(tuple(sums))
            return steps[len(given) - 1][2]
        steps.append((name, tuple(sums), whole(self, sums, name, source)))
        return steps[-1][2]

    monkeypatch.setattr(SumsNoise, "add_to", recorded)
    replaying = False
    first = discreet.ask(data, asked, schema=schema)
    replaying = True
    second = discreet.ask(neighbour, asked, schema=schema)
    loss = Fraction(0)
    for (name, before, _), after in zip(steps, given, strict=True):
        power = 1 if delta is None else 2
        moved = sum(abs(x - y) ** power for x, y in zip(before, after, strict=True))
        loss += moved / first.noise.size(name)
    assert 0 < loss <= (1 if delta is None else first.noise.mu_squared)
    assert second.to_json() == first.to_json()
    assert str(second) == str(first)
