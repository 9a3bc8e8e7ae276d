"""Coordinates of rows: where they follow the records, and where rows stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.regression._newton.coordinates import choose, guess_rows
from discreet.regression._newton.design import Design, design

pytest.importorskip("formulaic")


def made(formula: str = "a") -> Design:
    return design(
        f"y ~ {formula}",
        family="gaussian",
        bounds={"y": (-1, 1)} | {name: (-1, 1) for name in "ab" if name in formula},
        levels={"g": ("no", "yes")} if "g" in formula else {},
    )


def lengths(rows: Any, matrix: Any, norm: float) -> Any:
    return np.linalg.norm(rows @ matrix.T, axis=1) / norm


def test_noise_follows_a_narrow_column() -> None:
    one = made()
    norm, plain = one.norm / one.unit, np.eye(2)
    found = choose(one, np.diag([1.0, 0.001]), 1.0, 0.01, 0.1, (plain, 0.1), 1.0)
    rows = np.column_stack([np.ones(4000), np.random.default_rng(1).normal(0, 0.001**0.5, 4000)])
    assert 0.1 < np.mean(lengths(rows, found, norm) <= 1) < 0.99
    noise = np.linalg.inv(found) @ np.linalg.inv(found).T
    assert noise[1, 1] < 0.02
    assert noise[0, 0] < 1.5


def test_fewer_rows_are_shortened_the_more_records_there_are() -> None:
    """What the model leaves out then outweighs the noise: shortened records fit other coefficients best."""
    one, generator = made(), np.random.default_rng(1)
    norm, plain = one.norm / one.unit, np.eye(2)
    rows = np.column_stack([np.ones(4000), generator.normal(0, 0.001**0.5, 4000)])
    moments = np.diag([1.0, 0.001])
    shares = [
        np.mean(lengths(rows, choose(one, moments, 1.0, 0.01, 0.1, (plain, 0.1), records), norm) > 1)
        for records in (300, 10_000, 1_000_000)
    ]
    assert shares[0] > shares[1] > shares[2]
    assert shares[0] > 0.1
    assert shares[2] < 0.01


def test_few_records_of_a_level_are_not_shortened() -> None:
    """Of a normal column with as small a variance they would be, to a third."""
    one = made("a + g")
    norm, share, unit = one.norm / one.unit, 0.02, one.unit
    rare = np.array(one.columns[1 if "g" in one.names[1] else 2].factors[0][1]) / unit
    at = 1 if "g" in one.names[1] else 2
    moments = np.eye(3)
    moments[0, at] = moments[at, 0] = rare @ [1 - share, share]
    moments[at, at] = rare**2 @ [1 - share, share]
    moments[3 - at, 3 - at] = 0.002
    found = choose(one, moments, 1.0, 0.01, 0.1, (np.eye(3), 0.1), 1.0)
    assert not np.array_equal(found, np.eye(3))
    row = np.ones(3)
    row[at], row[3 - at] = rare[1], 0.0
    assert lengths(row[None], found, norm)[0] < 1.3


def test_rows_stay_as_they_are_where_nothing_is_gained() -> None:
    one, plain = made(), np.eye(2)
    assert choose(one, np.diag([1.0, 0.001]), 1.0, 0.01, 1e-9, (plain, 1e-9), 1.0) is plain
    assert choose(one, np.diag([1.0, 1 / 3]), 1.0, 0.01, 0.1, (plain, 0.05), 1.0) is plain
    narrow = choose(one, np.diag([1.0, 0.001]), 1.0, 0.01, 0.1, (plain, 0.1), 1.0)
    assert choose(one, np.diag([1.0, 0.001]), 1.0, 0.01, 0.1, (narrow, 0.08), 1.0) is narrow


def test_records_are_guessed_by_their_moments() -> None:
    """Numbers that move together, rare levels, and functions of them."""
    one = made("a + b + I(a**2) + g")
    generator = np.random.default_rng(0)
    a, level = generator.normal(0.3, 0.1, 40_000), generator.random(40_000) < 0.1
    b = np.clip(0.5 * a + generator.normal(0, 0.05, 40_000), -1, 1)
    codes = [
        np.rint((x + 1) * (v.coder.size - 1) / 2) for x, v in ((a, one.variables[0]), (b, one.variables[1]))
    ]
    order = {v.name: i for i, v in enumerate(one.variables)}
    by_name = {"a": codes[0], "b": codes[1], "g": level}
    rows = one.rows([by_name[name].astype(int) for name in order], 40_000) / one.unit
    moments = rows.T @ rows / len(rows)
    guessed = guess_rows(one, moments)
    assert guessed.T @ guessed / len(guessed) == pytest.approx(moments, abs=0.1)
