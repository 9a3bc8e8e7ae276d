"""Calls of the verbs with a schema made from keywords: short where a test is not about schemas.

The number of records is public here (read from the data) unless ``n`` declares it or ``hidden`` hides it.
"""

from __future__ import annotations

from typing import Any

import discreet
from discreet._data import redact_errors, statistics
from discreet._data.grids import Bins
from discreet._declarations import EXCLUDE, Domain
from discreet.ledger.charging import Charge
from discreet.schema import VALUE

_SCHEMA = ("person", "per_person", "strict", "sizes", "expected_n")


def category(levels: Any, other: Any = None, missing: Any = None, public: bool = False) -> discreet.Category:
    """A category from values, a domain or a category."""
    if isinstance(levels, discreet.Category):
        return levels
    if isinstance(levels, Domain):
        levels, other, missing = levels.levels, levels.other or other, levels.missing or missing
    return discreet.Category(levels, other, missing, public)


def schema_of(columns: dict[str | None, Any], given: dict[str, Any], **more: Any) -> discreet.Schema:
    """The schema of some columns; what holds for all records is taken out of the keywords."""
    about = {name: given.pop(name) for name in _SCHEMA if name in given}
    hidden, n = given.pop("hidden", False), given.pop("n", None)
    hidden = hidden or given.pop("relation", None) == "add-remove"
    about["n"] = None if hidden else "public" if n is None else n
    nameless = None in columns
    named = {VALUE if name is None else name: column for name, column in columns.items()}
    return discreet.Schema(named, nameless=nameless, **about, **more)


def charge_of(given: dict[str, Any]) -> Charge | None:
    """The charge of the keywords ``ledger``, ``dataset`` and ``request_id``."""
    return Charge.of(given.pop("ledger", None), given.pop("dataset", None), given.pop("request_id", None))


def shares(data: Any, levels: Any = None, *, column: str | None = None, **given: Any) -> Any:
    """Proportions of one column, or of the bins between ``edges``."""
    charge, edges = charge_of(given), given.pop("edges", None)
    rules = {name: given.pop(name) for name in ("other", "missing", "outside") if name in given}
    declared: Any
    if edges is not None:
        declared = discreet.Number(edges[0], edges[-1], bins=tuple(edges), **rules)
    else:
        declared = category(levels, **rules)
    schema = schema_of({column: declared}, given)
    names = () if column is None else (column,)
    return discreet.proportions(data, *names, schema=schema, charge=charge, **given)


def table(data: Any, columns: dict[str, Any], **given: Any) -> Any:
    """Proportions of the cells of several columns."""
    charge = charge_of(given)
    missing = given.pop("missing", None)
    schema = schema_of({name: category(levels, missing=missing) for name, levels in columns.items()}, given)
    return discreet.proportions(data, *columns, schema=schema, charge=charge, **given)


def groups(data: Any, outcome: str, by: str, levels: Any, groups: Any, **given: Any) -> Any:
    """Proportions of an outcome within the groups of another column."""
    charge, missing = charge_of(given), given.pop("missing", None)
    hidden = given.get("hidden", False) or given.get("relation") == "add-remove"
    columns = {outcome: category(levels, missing=missing), by: category(groups, public=not hidden)}
    sizes = given.pop("sizes", None)
    if sizes is not None:
        given |= {"sizes": {by: sizes}, "n": sum(sizes)}
    schema = schema_of(columns, given)
    return discreet.proportions(data, outcome, by=by, schema=schema, charge=charge, **given)


def network(data: Any, parents: Any, levels: dict[str, Any], **given: Any) -> Any:
    """The tables of a network."""
    charge = charge_of(given)
    schema = schema_of({name: category(one) for name, one in levels.items()}, given)
    return discreet.network(
        data, {**dict.fromkeys(levels, ()), **parents}, schema=schema, charge=charge, **given
    )


def mean_schema(column: str | None, bounds: Any, given: dict[str, Any]) -> discreet.Schema:
    """The schema of a mean's columns."""
    by, levels = given.get("by"), given.pop("levels", None)
    columns: dict[str | None, Any] = {column: discreet.Number(*bounds, missing=given.pop("missing", None))}
    if by is not None:
        columns[by] = category(levels)
    return schema_of(columns, given)


def mean(data: Any, column: str | None = None, *, bounds: Any, **given: Any) -> Any:
    """The mean of a column, of all records or by group."""
    charge, schema = charge_of(given), mean_schema(column, bounds, given)
    return discreet.mean(data, column, schema=schema, charge=charge, **given)


def mean_request(column: str | None = None, *, bounds: Any, **given: Any) -> Any:
    """The request of a mean."""
    schema = mean_schema(column, bounds, given)
    return discreet.Mean(column, **given).request(schema)


def regress_schema(bounds: Any, levels: Any, given: dict[str, Any]) -> discreet.Schema:
    """The schema of a regression's columns."""
    missing = given.pop("missing", None) or {}
    columns: dict[str | None, Any] = {
        name: discreet.Number(*ends, missing=missing.get(name)) for name, ends in (bounds or {}).items()
    }
    columns |= {name: category(one, missing=missing.get(name)) for name, one in (levels or {}).items()}
    return schema_of(columns, given)


def regress(data: Any, formula: str, *, bounds: Any = None, levels: Any = None, **given: Any) -> Any:
    """A regression."""
    charge, schema = charge_of(given), regress_schema(bounds, levels, given)
    return discreet.regress(data, formula, schema=schema, charge=charge, **given)


def regress_request(formula: str, *, bounds: Any = None, levels: Any = None, **given: Any) -> Any:
    """The request of a regression."""
    schema = regress_schema(bounds, levels, given)
    return discreet.Regress(formula, **given).request(schema)


_FAMILY_OPTIONS = ("sigma", "radius", "dimension", "trials", "shape", "failures", "nearby")
_DRAW_OPTIONS = ("draws", "order", "grid", *_FAMILY_OPTIONS)


def draws(data: Any, family: Any, *, column: str | None = None, **given: Any) -> Any:
    """Posterior draws of one column."""
    charge, levels, bounds = charge_of(given), given.pop("levels", None), given.pop("bounds", None)
    rules = {name: given.pop(name) for name in ("other", "missing") if name in given}
    options = {name: given.pop(name) for name in _DRAW_OPTIONS if name in given}
    declared: Any = (
        category(levels, **rules) if levels is not None else discreet.Number(*(bounds or (0, 1)), **rules)
    )
    schema = schema_of({column: declared}, given)
    return discreet.draw(
        data, column, family=family, schema=schema, charge=charge, options=options or None, **given
    )


def network_request(parents: Any, levels: dict[str, Any], **given: Any) -> Any:
    """The request of a network."""
    schema = schema_of({name: category(one) for name, one in levels.items()}, given)
    return discreet.Network({**dict.fromkeys(levels, ()), **parents}, **given).request(schema)


def shares_request(levels: Any, **given: Any) -> Any:
    """The request of one column's proportions."""
    schema = schema_of({None: category(levels)}, given)
    return discreet.Proportions(**given).request(schema)


def table_request(columns: dict[str, Any], missing: Any = None, **given: Any) -> Any:
    """The request of a table."""
    schema = schema_of({name: category(levels, missing=missing) for name, levels in columns.items()}, given)
    return discreet.Proportions(tuple(columns), **given).request(schema)


def groups_request(outcome: str, by: str, levels: Any, groups: Any, missing: Any = None, **given: Any) -> Any:
    """The request of proportions within groups."""
    hidden = given.get("hidden", False) or given.get("relation") == "add-remove"
    columns = {
        outcome: category(levels, missing=missing),
        by: category(groups, missing=missing, public=not hidden),
    }
    schema = schema_of(columns, given)
    return discreet.Proportions(outcome, by=by, **given).request(schema)


@redact_errors
def count_bins(
    data: Any,
    *,
    edges: Any,
    outside: str | None = None,
    missing: str | None = None,
    column: str | None = None,
    **bound: Any,
) -> tuple[int, ...]:
    """Exact counts of numbers in bins: outside may be "clip" or "level", missing "level" or "exclude"."""
    contribution = statistics.Contribution(**bound)
    rule = "level" if missing == EXCLUDE and not contribution.private_size else missing
    bins = Bins(edges, outside, rule).accepting(not contribution.strict)
    return contribution.check_total(statistics._count(data, bins, column, contribution))
