"""JSON: that of strangers, bounded before it is parsed and with one meaning only; and our values as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from fractions import Fraction
from math import isfinite, isinf
from typing import Any

LONGEST = 64 * 2**20
"""Bytes of a document. Nothing longer is written either."""
MOST_VALUES = 5_000_000
DEEPEST = 64


class Unreadable(ValueError):
    """Why a text is not read; the words quote none of it."""


def read_json(text: str | bytes, longest: int = LONGEST) -> Any:
    """The value of a JSON text; :class:`Unreadable` if it is too long, too deep, ambiguous, or none.

    Memory and time are bounded by the length and the number of values, which are counted first. A key that
    stands twice, NaN and the infinities are refused: readers disagree about them.
    """
    if len(text) > longest:
        raise Unreadable(f"it is longer than {longest / 2**20:g} MB")
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError:
            raise Unreadable("the text is not UTF-8") from None
    if sum(map(text.count, ",[{")) > MOST_VALUES:
        raise Unreadable(f"it has more than {MOST_VALUES:,} parts")
    try:
        value = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_number)
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable(_DEEP) from None
    except (ValueError, TypeError):
        raise Unreadable("the text is not valid JSON") from None
    level = [value]
    for _ in range(DEEPEST):
        if any(isinstance(one, float) and not isfinite(one) for one in level):  # 1e999
            _no_number("")
        level = [part for one in level for part in _parts(one)]
        if not level:
            return value
    raise Unreadable(_DEEP)


_DEEP = f"it is nested more than {DEEPEST} deep"


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Unreadable("a key stands twice in one place")
    return found


def _no_number(name: str) -> Any:
    raise Unreadable("NaN or an infinity stands for a number")


def as_json(value: Any) -> Any:
    """A value as JSON has it: exact and infinite numbers as texts, and whatever says itself how."""
    for way in ("to_json", "to_dict", "tolist"):
        if hasattr(value, way):
            return getattr(value, way)()
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    return str(value) if isinstance(value, Fraction) or (isinstance(value, float) and isinf(value)) else value


def fields_as_json(thing: Any, *left_out: str) -> dict[str, Any]:
    """The fields of a dataclass as JSON values, by their names."""
    return {one.name: as_json(getattr(thing, one.name)) for one in fields(thing) if one.name not in left_out}
