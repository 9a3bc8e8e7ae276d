"""Networks: the joint distribution of everything that is published, for every pair of neighbouring
datasets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from discreet._data import contingencies
from discreet.mechanisms.base import Mechanism
from discreet.questions.network import NetworkTables
from shorthand import network_request

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.NoiseWarning")

EPSILON = "0.9"
Records = tuple[tuple[int, ...], ...]


def network(columns: str, parents: dict[str, str], relation: str) -> NetworkTables:
    levels = dict.fromkeys(columns, (0, 1))
    return network_request(parents=parents, levels=levels, epsilon=EPSILON, relation=relation)


def counter(question: NetworkTables) -> Callable[[Records], list[tuple[int, ...]]]:
    """The tables of a dataset; each counted once, in whatever order its records stand."""
    known = cache(lambda data: tables(question, data))
    return lambda data: known(tuple(sorted(data)))


def tables(question: NetworkTables, data: Records) -> list[tuple[int, ...]]:
    frame = pd.DataFrame(data, columns=list(question.domains), dtype=np.int64)
    bound: dict[str, Any] = (
        {"private_size": True} if question.schema.relation == "add-remove" else {"n": len(data)}
    )
    counted = contingencies(frame, question.domains, question.families, **bound)
    return [tuple(int(x) for x in one.ravel()) for one in counted]


def neighbours(question: NetworkTables, n: int) -> Iterator[tuple[Records, Records]]:
    """Every dataset of n records, and each that differs in one record, or has one more."""
    every = list(itertools.product((0, 1), repeat=len(question.domains)))
    for data in itertools.combinations_with_replacement(every, n):
        for other in every:
            if question.schema.relation == "add-remove":
                yield data, (*data, other)
            else:
                yield from ((data, (*data[:i], other, *data[i + 1 :])) for i in range(n))


@pytest.mark.parametrize(("parents", "n"), [({}, 4), ({"b": "a"}, 2)], ids=["two tables", "one table"])
def test_the_distribution_of_two_columns_is_enumerated(parents: dict[str, str], n: int) -> None:
    """The exact distributions of the released counts of all tables, multiplied out."""
    question = network("ab", parents, "replace-one")
    built = [table.build(n, table.epsilon) for table in question.tables]
    count = counter(question)
    distributions: dict[tuple[int, tuple[int, ...]], np.ndarray] = {}

    def joint(data: Records) -> np.ndarray:
        distribution = np.zeros(1)
        for i, (one, counts) in enumerate(zip(built, count(data), strict=True)):
            if (i, counts) not in distributions:
                distributions[i, counts] = one.log_pmf(counts)[1]
            distribution = np.add.outer(distribution, distributions[i, counts]).ravel()
        return distribution

    worst = 0.0
    for one, other in neighbours(question, n):
        p, q = joint(one), joint(other)
        assert np.exp(p).sum() == pytest.approx(1, abs=1e-9)
        worst = max(worst, float(np.abs(p - q).max()))
    assert 0.5 * question.price(n).epsilon < worst <= question.price(n).epsilon + 1e-9


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize(
    "parents", [pytest.param({"b": "a", "c": "b"}, marks=pytest.mark.slow), {"b": "a"}, {}], ids=str
)
def test_the_loss_of_all_noisy_tables_is_what_is_claimed(relation: str, parents: dict[str, str]) -> None:
    """Noise is independent between tables: the worst pair of datasets attains the sum of their losses."""
    n, hidden = 2, relation == "add-remove"
    question = network("abc", parents, relation)
    built = [table.build(0 if hidden else n, table.epsilon) for table in question.tables]
    count = counter(question)
    worst = max(
        sum(
            loss(one, np.array(x), np.array(y), hidden)
            for one, x, y in zip(built, count(data), count(other), strict=True)
        )
        for data, other in neighbours(question, n)
    )
    assert worst == pytest.approx(float(EPSILON), abs=1e-12)
    assert question.price(n).epsilon == pytest.approx(worst, abs=1e-12)


def loss(one: Mechanism, x: np.ndarray, y: np.ndarray, hidden: bool) -> float:
    """The largest log P(z | x) − log P(z | y): the norm is largest at z = x, where it is ‖x − y‖₁."""
    return float(one.epsilon) / (1 if hidden else 2) * float(np.abs(x - y).sum())
