"""Answers from simulated records, for trying a study out before any data are opened; they are not private."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from discreet.privacy.guarantee import Guarantee
from discreet.questions._asking import BoundQuestion
from discreet.schema import Category, Number, Schema

SIMULATED_RECORDS = 1000
"""The number of simulated records if the schema declares none."""
_NOT_PRIVATE = Guarantee(None, basis="simulated records: not private, and not about real people")


def simulate_records(schema: Schema, seed: int = 0) -> dict[str, list[Any]]:
    """Return a table of simulated records that fit a schema: uniform values, independent columns.

    Parameters
    ----------
    schema : Schema
        What is public about the data. The number of records is its n; 1,000 if it declares none.
    seed : int
        The same seed gives the same records.

    Returns
    -------
    dict
        Each column with the list of its values.

    Examples
    --------
    >>> table = simulate_records(Schema({"smoker": ["no", "yes"], "age": (18, 95)}, n=3))
    >>> sorted(table), len(table["age"])
    (['age', 'smoker'], 3)
    """
    generator = np.random.default_rng(seed)
    n = SIMULATED_RECORDS if schema.size is None else schema.size
    table: dict[str, list[Any]] = {}
    for name, column in schema:
        if isinstance(column, Category):
            values = ("a", "b", "c") if column.discovers else column.values
            sizes = (schema.sizes or {}).get(name)
            if sizes is not None:
                table[name] = [value for value, count in sizes.items() for _ in range(count)]
            else:
                table[name] = [values[place] for place in generator.integers(0, len(values), n)]
        elif isinstance(column, Number):
            low, high = column.bounds
            whole = low.is_integer() and high.is_integer() and high - low > 1
            drawn = generator.uniform(low, high, n)
            table[name] = [int(value) for value in drawn.round()] if whole else drawn.tolist()
        else:
            table[name] = generator.uniform(0, column.most, n).tolist()
    if schema.person is not None and schema.person not in table:
        table[schema.person] = list(range(n))
    return table


def answer_from_simulation(bound: BoundQuestion) -> Any:
    """Return the answer to a question about simulated records, stamped "not private".

    Parameters
    ----------
    bound : BoundQuestion
        The question with its schema; its data are not opened.

    Returns
    -------
    Answer
    """
    table = simulate_records(bound.schema)
    data = next(iter(table.values())) if bound.schema.nameless else table
    answer = BoundQuestion(bound.question, bound.schema, data).answer()
    stamped = {"guarantee": _NOT_PRIVATE} if "guarantee" in vars(answer) else {"private": False}
    return replace(answer, **stamped).with_labels(bound.schema.columns)
