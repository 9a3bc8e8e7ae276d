"""Which rows of a table are tried every day, and which with the slow tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def now_or_slow(rows: Iterable[Any], now: Callable[[Any], bool]) -> list[Any]:
    """All rows as parameters; those that are not for ``now`` are marked slow. A tuple is several values."""
    return [
        row
        if now(row)
        else pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.slow)
        for row in rows
    ]
