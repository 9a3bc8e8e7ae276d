"""Reading of JSON from unknown sources, within limits; and conversion of values to JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from fractions import Fraction
from math import isfinite, isinf
from typing import Any

MAX_BYTES = 64 * 2**20
"""The largest document that is read or written, in bytes."""
MAX_VALUES = 5_000_000
MAX_NESTING = 64


class Unreadable(ValueError):
    """Why a text cannot be read; the message quotes none of it."""


def read_json(text: str | bytes, longest: int = MAX_BYTES) -> Any:
    """Parse a JSON text, or raise :class:`Unreadable` if it is too long, too deep, ambiguous or not JSON.

    Memory and time are bounded by the length and the number of values, which are counted first. Repeated
    keys, NaN and the infinities are refused, because readers disagree about them.
    """
    if len(text) > longest:
        raise Unreadable(f"it is longer than {longest / 2**20:g} MB")
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError:
            raise Unreadable("the text is not UTF-8") from None
    if sum(map(text.count, ",[{")) > MAX_VALUES:
        raise Unreadable(f"it has more than {MAX_VALUES:,} parts")
    try:
        value = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_number)
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable(_TOO_DEEP) from None
    except (ValueError, TypeError):
        raise Unreadable("the text is not valid JSON") from None
    level = [value]
    for _ in range(MAX_NESTING):
        if any(isinstance(item, float) and not isfinite(item) for item in level):  # 1e999
            _no_number("")
        level = [part for item in level for part in _parts(item)]
        if not level:
            return value
    raise Unreadable(_TOO_DEEP)


_TOO_DEEP = f"it is nested more than {MAX_NESTING} deep"


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise Unreadable("an object has the same key twice")
    return mapping


def _no_number(name: str) -> Any:
    raise Unreadable("a number is NaN or infinite")


def as_json(value: Any) -> Any:
    """Convert a value to JSON: exact and infinite numbers as text, objects by their ``to_dict``."""
    for way in ("to_json", "to_dict", "tolist"):
        if hasattr(value, way):
            return getattr(value, way)()
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    return str(value) if isinstance(value, Fraction) or (isinstance(value, float) and isinf(value)) else value


def fields_as_json(thing: Any, *left_out: str) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON values, by their names."""
    return {
        field.name: as_json(getattr(thing, field.name))
        for field in fields(thing)
        if field.name not in left_out
    }
