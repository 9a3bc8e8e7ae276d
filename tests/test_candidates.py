"""The distribution of a mechanism at given counts, against the papers' printed tables and against plain
formulas."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import discreet
from discreet._cli import app
from discreet.distributions.gamma import Gamma
from discreet.errors import InvalidInputError
from discreet.planning.candidates import PRINTED, candidate_distribution

# Notes of DP – Bayesian Inference, 3.4.1: distance, steps, exponential, Laplace; every digit as printed.
FIRST = """
0.83737258593 4 0.0431193490585 0.066561234758
0.662174391701 3 0.0785621424847 0.0992976939175
0.457635865026 2 0.158265808563 0.148134752205
0.233629480709 1 0.340809715054 0.220991081918
0.0 0 0.37924298484 0.329679953964
"""
SECOND = """
0.999999984481 40 0.000149705644585 3.05988187701e-09
0.187421762881 2 0.0548161224677 0.0285774941516
0.110122822057 1 0.192227323562 0.170131188571
0.0 0 0.0713016293602 0.108688872046
"""


def run(*words: str) -> Any:
    done = CliRunner().invoke(app, ["distribution", *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize(
    ("counts", "prior", "printed"), [("4,4", "1,1", FIRST), ("20,20,20", "1,1,1", SECOND)]
)
def test_the_printed_tables_digit_by_digit(counts: str, prior: str, printed: str) -> None:
    command = ("ehds", "--counts", counts, "--prior", prior, "--epsilon", "0.8", "--as-printed")
    out = run(*command, "--rows", "500")
    assert all(name in out for name in PRINTED)
    assert all("not private" in name for name in PRINTED)
    lines = [line.split() for line in out.splitlines()]
    for line in printed.split("\n")[1:-1]:
        distance, steps, exponential, laplace = line.replace("0.0 0 ", "0 0 ").split()
        (found,) = [words for words in lines if words[-6:-4] == [steps, distance]]
        assert found[-2:] == [exponential, laplace], line


@pytest.mark.parametrize(
    ("name", "prior", "counts", "more"),
    [
        ("ehds", (1, 1), (4, 4), {}),
        ("ehdl", (7, 4), (2, 5), {}),
        ("lszhang", (1, 0.5), (1, 3), {}),
        ("lattice", (1, 1, 2), (3, 0, 2), {}),
        ("exponential", (1, 1, 2), (3, 0, 2), {"score": "kl"}),
    ],
)
def test_every_candidate_once_with_its_probability(
    name: str, prior: tuple[float, ...], counts: tuple[int, ...], more: dict[str, Any]
) -> None:
    m = discreet.mechanism(name, prior=prior, n=sum(counts), epsilon=2, **more)
    found = candidate_distribution(m, counts)
    ours = dict(zip(map(tuple, found.candidates.tolist()), found.columns[name].tolist(), strict=True))
    assert len(ours) == len(found.candidates)
    outputs, log_probability = m.log_pmf(counts)
    for output, value in zip(map(tuple, outputs.tolist()), np.exp(log_probability).tolist(), strict=True):
        assert ours.pop(output) == value
    assert not any(ours.values()), "what lshist alone can release"
    beside = discreet.mechanism("lshist", prior=prior, n=sum(counts), epsilon=2)
    lap = dict(zip(map(tuple, found.candidates.tolist()), found.columns["lshist"].tolist(), strict=True))
    for output, value in zip(*beside.log_pmf(counts), strict=True):
        assert lap[tuple(output.tolist())] == pytest.approx(math.exp(value), rel=1e-14)
    for values in found.columns.values():
        assert values.sum() == pytest.approx(1, abs=1e-12)
    for candidate, steps, distance in zip(found.candidates, found.steps, found.distance, strict=True):
        moved = candidate - np.array(counts)
        assert steps == max(moved[moved > 0].sum(), -moved[moved < 0].sum())
        exact = discreet.hellinger(np.array(prior) + counts, np.array(prior) + candidate)
        assert distance == pytest.approx(exact, abs=1e-12)
    assert (np.diff(found.distance) >= -1e-9).all()
    expected = sum(p * d for p, d in zip(found.columns[name], found.distance, strict=True))
    assert found.expected(name) == pytest.approx(expected, rel=1e-12)


def test_rows_put_candidates_of_one_distance_together() -> None:
    m = discreet.mechanism("ehds", prior=(1, 1, 1), n=6, epsilon=1)
    found = candidate_distribution(m, (2, 2, 2))
    rows = list(found.rows())
    assert [len(row["candidates"]) for row in rows[:2]] == [1, 6]
    listed = [tuple(candidate) for row in rows for candidate in row["candidates"]]
    assert len(set(listed)) == len(listed) == len(found.candidates)
    assert sum(row["ehds"] for row in rows) == pytest.approx(1)
    for row, after in itertools.pairwise(rows):
        assert (row["distance"], row["steps"]) < (after["distance"] + 1e-11, math.inf)
    table = found.table(5)
    assert len(table.cells) == 5
    shown = sum(1 if "(" in cells[0] else 0 for cells in table.cells)
    assert shown == 4
    more = int(table.cells[3][0].split()[0])
    named = sum(len(row["candidates"]) for row in [*rows[:3], rows[-1]])
    assert named + more == len(listed)
    assert sum(float(cells[3]) for cells in table.cells) == pytest.approx(1, abs=2e-3)


def test_totals_have_no_laplace_beside_them_and_no_printed_table() -> None:
    m = discreet.mechanism("exponential", score="kl", prior=Gamma(2, 1), n=3, epsilon=2, bounds=(0, 4))
    found = candidate_distribution(m, (5,))
    assert list(found.columns) == ["exponential"]
    assert found.candidates[0].tolist() == [5]
    assert found.steps.max() == 7
    shape = np.array([2 + 5, 2 + 12])  # two Gammas of one rate: H² = 1 − Γ(mean shape)/√(Γ(a)Γ(b))
    affinity = math.lgamma(shape.mean()) - sum(map(math.lgamma, shape)) / 2
    last = found.distance[found.candidates[:, 0] == 12][0]
    assert last == pytest.approx(math.sqrt(1 - math.exp(affinity)), rel=1e-12)
    with pytest.raises(InvalidInputError, match="counts of levels"):
        candidate_distribution(m, (5,), as_printed=True)
    out = run(
        "exponential", "--counts", "5", "--prior", "2,1", "--n", "3", "--epsilon", "2",
        "--options", "family=poisson; bounds=0,4; score=kl",
    )  # fmt: skip
    assert out.splitlines()[0].startswith("exponential at counts (5)")


def test_the_command(tmp_path: Path) -> None:
    command = ("ehdl", "--counts", "4,4", "--prior", "1,1", "--epsilon", "0.8")
    out = run(*command)
    assert "NOT PRIVATE" in out
    assert "t = 0.4/0.233629" in out
    assert "Nothing was drawn, and nothing here is private" in out
    found = json.loads(run(*command, "--json"))
    assert found["private"] is False
    assert found["rows"][0]["candidates"] == [[4, 4]]
    assert sum(row["lshist"] for row in found["rows"]) == pytest.approx(1)
    picture = tmp_path / "distribution.svg"
    run(*command, "--as-printed", "--plot", str(picture))
    assert "not private" in picture.read_text("utf-8")
    again = CliRunner().invoke(app, ["distribution", *command, "--plot", str(picture)])
    assert again.exit_code != 0
    for counts in ("4.5,4", "4", "4,x", "-1,5"):
        assert (
            CliRunner().invoke(app, ["distribution", "ehds", "--counts", counts, *command[3:]]).exit_code != 0
        )
