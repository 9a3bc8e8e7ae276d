"""Plans of widths: against the law and against simulations, and no look at the data."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.inference.expected_width import expected_width, imagined_counts
from discreet.inference.noise_aware import noise_aware
from discreet.planning.progress import watched
from discreet.planning.widths import epsilon_within, size_within
from discreet.questions import counts, proportion
from discreet.questions.proportion import Proportion
from discreet.questions.sums import MeanQuestion
from discreet.questions.tables import Conditional, CrossTable

pytestmark = pytest.mark.filterwarnings("ignore::discreet.NoiseWarning")


def build(name: str, prior: tuple[float, ...], n: int, epsilon: str, **options: Any) -> discreet.Mechanism:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", discreet.NoiseWarning)
        return discreet.mechanism(name, prior=prior, n=n, epsilon=epsilon, **options)


@pytest.mark.parametrize(
    ("name", "prior", "n", "epsilon"),
    [
        ("lshist", (1.0, 1.0), 12, "0.8"),
        ("ehd", (2.0, 0.5, 1.0), 6, "1.5"),
        ("lszhang", (1.0, 1.0), 20, "0.5"),
    ],
)
def test_the_expected_width_is_that_of_the_law(
    name: str, prior: tuple[float, ...], n: int, epsilon: str
) -> None:
    """Against every output and its probability; eight draws of the noise leave about a tenth open."""
    m = build(name, prior, n, epsilon)
    outputs, log_probability = m.log_pmf(imagined_counts(prior, n, 0.5))
    widths = []
    for output in outputs.tolist():
        low, high = noise_aware(m, output, None).marginal(0).interval(0.9)
        widths.append(high - low)
    exact = float(np.exp(log_probability) @ np.array(widths))
    assert expected_width(m, n, level=0.9) == pytest.approx(exact, rel=0.12)


ASKED = [
    pytest.param(Proportion(levels=("a", "b"), epsilon=1, relation="add-remove"), marks=pytest.mark.slow),
    CrossTable(columns={"x": ("a", "b"), "y": ("c", "d")}, epsilon=1),
    Conditional(outcome="x", given="g", levels=("a", "b"), groups=("f", "m"), epsilon=1),
    MeanQuestion(bounds=(0, 100), column="age", epsilon=1),
    pytest.param(
        MeanQuestion(bounds=(0, 100), column="age", epsilon=1, delta="1e-6", by="g", levels=("f", "m")),
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize("question", ASKED, ids=lambda one: f"{one.kind}-{one.relation}")
def test_epsilon_and_size_of_a_width(question: Any) -> None:
    wide = question.expected_width(500)
    assert wide.half > (wide.without or 0)
    target = 1.5 * wide.half
    less = epsilon_within(question, target, 500)
    assert less < 1
    assert replace(question, epsilon=less).expected_width(500).half <= target
    fewer = size_within(question, target)
    assert fewer < 500
    assert question.expected_width(fewer).half <= target
    with pytest.raises(discreet.InvalidInput, match="not reached"):
        epsilon_within(question, (wide.without or 0) / 2, 500)


class Recorder(list):  # type: ignore[type-arg]
    """Data that note when they are looked at."""

    log: list[str]

    def __iter__(self):  # type: ignore[no-untyped-def]
        self.log.append("opened")
        return super().__iter__()

    def __getitem__(self, key):  # type: ignore[no-untyped-def]
        self.log.append("opened")
        return super().__getitem__(key)

    def __len__(self) -> int:
        self.log.append("opened")
        return super().__len__()


def test_planning_ends_before_the_data_is_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log: list[str] = []
    given: list[Any] = []
    real_choice, real_count = counts.automatic, proportion.count_levels

    def choice(*arguments: Any, **options: Any) -> str:
        log.append("planning")
        given.append((arguments, str(options["relation"]), dict(options["options"])))
        answer = real_choice(*arguments, **options)
        log.append("planned")
        return answer

    def count(*arguments: Any, **options: Any) -> tuple[int, ...]:
        log.append("opened")
        return real_count(*arguments, **options)

    monkeypatch.setattr(counts, "automatic", choice)
    data = Recorder(["no"] * 70 + ["yes"] * 30)
    data.log = log
    discreet.release(data, levels=("no", "yes"), epsilon=1, n=100)
    assert log[0] == "planning"
    assert set(log[log.index("opened") :]) == {"opened"}

    # A file: the one function that opens it, and the operating system's opens of that name.
    log.clear()
    monkeypatch.setattr(proportion, "count_levels", count)
    path = tmp_path / "answers.csv"
    path.write_text("v\n" + "no\n" * 70 + "yes\n" * 30)
    discreet.release(path, column="v", levels=("no", "yes"), epsilon=1, n=100)
    assert log == ["planning", "planned"] * 2 + ["opened"]

    # Without n the data are counted first; the choice sees nothing of them, nor of their number.
    log.clear()
    discreet.release(path, column="v", levels=("no", "yes"), epsilon=1)
    assert log == ["planning", "planned", "opened", "planning", "planned"]
    assert all(one == ((), "replace-one", {}) for one in given)


def test_auto_is_a_rule_that_looks_at_nothing_else() -> None:
    counts = {"a": 300, "b": 0, "c": 0}
    assert discreet.release(counts, levels=tuple(counts), epsilon="0.003", prior=0.1).mechanism == "lattice"
    with pytest.raises(discreet.InvalidInput, match="'gamma' is not an option"):
        discreet.release({"a": 1, "b": 2}, levels=("a", "b"), epsilon=1, gamma=1.0)


def test_long_work_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(100))
    monkeypatch.setattr("discreet.planning.progress.time.monotonic", lambda: next(clock))
    assert list(watched([1, 2, 3, 4], "done", show=True)) == [1, 2, 3, 4]
    said = capsys.readouterr().err
    assert "done: 2 of 4" in said
    assert said.endswith("\r\x1b[K")
    assert list(watched([1, 2, 3], "done")) == [1, 2, 3]
    assert not capsys.readouterr().err
