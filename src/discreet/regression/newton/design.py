"""What a regression asks, fixed before any data: the columns of its rows as whole numbers, from public
tables.

A formula is evaluated on *public* points only: the points of the grid between declared bounds, and declared
levels. Each column of the model is a product of functions of one variable each; these become tables of whole
numbers, one entry per code of the variable. What a record's row is follows from its codes by looking up,
multiplying and cutting off: integer arithmetic, equal on every engine, with nothing learned from the data.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray, IntArray
from discreet.data.grids import Grid
from discreet.data.levels import Levels
from discreet.declarations import EXCLUDE, Domain
from discreet.errors import InvalidInput, missing_extra

if TYPE_CHECKING:
    from discreet.data.values import Coder

ROW_BITS = 14
"""Rows have an integer length of at most 2¹⁴."""
_PROBES = 1024


@dataclass(frozen=True)
class Variable:
    """A column of the data, and what was declared about it: bounds, or levels."""

    name: str
    coder: Coder
    excluded: bool
    """Whether a record without a value is left out, instead of being an error."""
    levels: tuple[Any, ...] = ()

    @property
    def numeric(self) -> bool:
        return isinstance(self.coder, Grid)

    def values(self, codes: npt.NDArray[np.integer[Any]]) -> Any:
        """What the codes stand for: numbers, or a categorical column of pandas."""
        import pandas as pd

        if isinstance(self.coder, Grid):
            return self.coder.low + codes * (self.coder.width / self.coder.steps)
        return pd.Categorical.from_codes(np.asarray(codes), categories=list(self.levels))


@dataclass(frozen=True)
class Column:
    """One column of the rows: the product of tables over codes, each in steps of 2⁻ᵘ, cut to that step."""

    name: str
    factors: tuple[tuple[int, tuple[int, ...]], ...]
    """Positions of variables, with the table of each; none for the intercept."""

    def reach(self, bits: int) -> int:
        """The largest size of an entry."""
        size = 1 << bits
        for index, (_, table) in enumerate(self.factors):
            largest = max(max(table), -min(table))
            size = largest if index == 0 else size * largest >> bits
        return size


@dataclass(frozen=True)
class Design:
    """The public part of a regression: variables, columns, the scale of the rows and their longest length.

    ``bits``: the entry 2^bits stands for 1. ``norm`` bounds the integer length of a row. ``mixing`` maps
    coefficients of the scaled columns to those of the formula: β = ``mixing`` @ w.
    """

    formula: str
    variables: tuple[Variable, ...]
    response: Variable
    columns: tuple[Column, ...]
    bits: int
    norm: int
    mixing: FloatArray
    second_moments: FloatArray
    """E xx' for records spread evenly over what is declared: a guess where noise hides the true one."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def d(self) -> int:
        return len(self.columns)

    @property
    def unit(self) -> int:
        return 1 << self.bits

    @property
    def excludes(self) -> bool:
        """Whether records without a value of some column are left out."""
        return any(variable.excluded for variable in (*self.variables, self.response))

    @property
    def constant(self) -> int | None:
        """The position of the intercept."""
        return next((j for j, column in enumerate(self.columns) if not column.factors), None)

    @cached_property
    def reach(self) -> FloatArray:
        """The largest size of each entry of a row."""
        return np.array([column.reach(self.bits) for column in self.columns], dtype=np.float64)

    @cached_property
    def settled(self) -> FloatArray:
        """Second moments that are the same whatever the records: 1 of a sign, 0 of two levels of one column.

        NaN where they are not. Rows that may be shortened settle zeros alone.
        """
        found = np.full((self.d, self.d), np.nan)
        short = _longest_squared(self.columns, self.variables, self.bits) > self.norm**2
        tables = {
            j: (column.factors or ((None, (self.unit,)),))[0]
            for j, column in enumerate(self.columns)
            if len(column.factors) <= 1
        }
        for (i, (v, one)), (j, (w, other)) in combinations_with_replacement(tables.items(), 2):
            if v == w:
                values = np.unique(np.multiply(one, other, dtype=np.float64))
                if len(values) == 1 and not (short and values[0]):
                    found[i, j] = found[j, i] = values[0] / self.unit**2
        return found

    @property
    def plain(self) -> tuple[bool, ...]:
        """Whether a column is one number or an indicator of a level, in no other term."""
        alone = [column.factors[0][0] if len(column.factors) == 1 else None for column in self.columns]
        used = Counter(v for column in self.columns for v, _ in column.factors)
        shared = {v for column in self.columns if len(column.factors) > 1 for v, _ in column.factors}

        def single(v: int | None) -> bool:
            return v is not None and v not in shared and (used[v] == 1 or not self.variables[v].numeric)

        return tuple(map(single, alone))

    @cached_property
    def coders(self) -> dict[str | None, Coder]:
        return {variable.name: variable.coder for variable in (*self.variables, self.response)}

    @cached_property
    def _tables(self) -> list[list[tuple[int, IntArray]]]:
        """The factors of each column, as arrays; equal tables are one."""
        made: dict[int, IntArray] = {}
        return [
            [(v, made.setdefault(id(table), np.array(table, dtype=np.int64))) for v, table in column.factors]
            for column in self.columns
        ]

    def rows(self, codes: Sequence[IntArray]) -> IntArray:
        """The integer rows of records by the codes of their variables, none longer than ``norm``."""
        number = len(codes[0]) if codes else 0
        rows = np.empty((number, self.d), dtype=np.int64, order="F")
        for j, factors in enumerate(self._tables):
            entry: Any = self.unit
            for index, (variable, table) in enumerate(factors):
                looked_up = table[codes[variable]]
                entry = looked_up if index == 0 else truncated(entry * looked_up, self.unit)
            rows[:, j] = entry
        return shortened(rows, self.norm)

    def scaled(self, codes: Sequence[IntArray]) -> FloatArray:
        return self.rows(codes) / self.unit

    def spread(self, norm: int) -> Design:
        """The same for rows of at most this length, with the moments of evenly spread records."""
        generator, made = np.random.default_rng(0), replace(self, norm=norm)
        codes = [generator.integers(0, v.coder.size, 4096) for v in self.variables]
        rows = made.scaled(codes or [np.zeros(1, dtype=np.int64)])
        return replace(made, second_moments=rows.T @ rows / len(rows))

    def nearest(self, values: FloatArray) -> FloatArray:
        """Scaled rows of records given as numbers, a column for each variable, none of them missing."""
        codes = []
        for variable, column in zip(self.variables, values.T, strict=True):
            coder = variable.coder
            assert isinstance(coder, Grid)
            place = (np.clip(column, coder.low, coder.high) - coder.low) * (coder.steps / coder.width)
            codes.append(np.rint(place).astype(np.int64))
        return self.scaled(codes)


def truncated(values: IntArray, divisor: Any) -> IntArray:
    """The quotient without its fraction: towards zero, as engines divide whole numbers."""
    return np.asarray(np.sign(values) * (np.abs(values) // divisor), dtype=np.int64)


def shortened(rows: IntArray, norm: int) -> IntArray:
    """Rows whose integer length is above ``norm`` shrunk, towards zero, to one that is not.

    With s = ⌊√N⌋ + 1 in doubles, N < 2⁵² the squared length, s > √N, so |x·norm/s| has length below norm.
    """
    squares = np.einsum("ij,ij->i", rows, rows)
    long = np.flatnonzero(squares > norm * norm)
    if long.size:
        lengths = np.floor(np.sqrt(squares[long].astype(np.float64))).astype(np.int64) + 1
        rows[long] = truncated(rows[long] * norm, lengths[:, None])
    return rows


def design(
    formula: str,
    *,
    family: str,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    levels: Mapping[str, Sequence[Any] | Domain] | None = None,
    missing: Mapping[str, Any] | None = None,
    norm: float | None = None,
) -> Design:
    """The design of a formula for declared bounds and levels.

    ``missing`` says by column what counts for a missing value: ``"exclude"`` leaves the record out, else a
    value within the bounds, or a level. ``norm`` shortens rows, of columns scaled to [−1, 1], to that length;
    without it none is.
    """
    bounds, levels, missing = dict(bounds or {}), dict(levels or {}), dict(missing or {})
    response, wanted, formulas = _parsed(formula)
    _declared_once(bounds, levels)
    for column in (response, *wanted):
        if column not in bounds and column not in levels:
            raise InvalidInput(
                f"column {column!r} of the formula has neither bounds nor levels; declare them, such as "
                f"bounds={{{column!r}: (0, 100)}} or levels={{{column!r}: ('no', 'yes')}}: nothing is read "
                "from the data"
            )
    for name, given in (("bounds", bounds), ("levels", levels), ("missing", missing)):
        for column in given:
            if column not in (response, *wanted):
                raise InvalidInput(f"{name}={given!r}: {column!r} is not in the formula {formula!r}")

    def variables(steps: int) -> tuple[Variable, ...]:
        return tuple(variable(name, bounds, levels, missing, steps) for name in wanted)

    factored = _factored(formulas, variables(1 << 8))
    longest = _longest(factored) if norm is None else float(norm)
    if not (math.isfinite(longest) and longest > 0):
        raise InvalidInput(f"norm={norm!r} must be a positive number")
    bits = min(12, math.floor(ROW_BITS - math.log2(longest)))
    if bits < 4:
        raise InvalidInput(f"the rows of formula={formula!r} are too long: give norm=…, such as 1")
    fine = variables(1 << (bits + 1))
    factored = _factored(formulas, fine)
    whole: dict[bytes, tuple[int, ...]] = {}  # equal tables are one

    def integers(table: FloatArray) -> tuple[int, ...]:
        values = np.rint(table * 2.0**bits).astype(np.int64)
        return whole.setdefault(values.tobytes(), tuple(values.tolist()))

    tables = tuple(
        Column(name, tuple((v, integers(table)) for v, table in factors))
        for name, factors in zip(factored.names, factored.factors, strict=True)
    )
    squared = _longest_squared(tables, fine, bits) if norm is None else math.floor((longest * 2**bits) ** 2)
    reach = math.isqrt(squared - 1) + 1 if norm is None else math.isqrt(squared)
    if not reach:
        raise InvalidInput(f"norm={norm!r} is below the step of the rows, 2^-{bits}: give a larger one")
    out = variable(response, bounds, levels, missing, 1 << 14, role=family)
    return Design(formula, fine, out, tables, bits, reach, factored.mixing, np.eye(len(tables))).spread(reach)


def variable(
    name: str,
    bounds: Mapping[str, Any],
    levels: Mapping[str, Any],
    missing: Mapping[str, Any],
    steps: int,
    role: str | None = None,
) -> Variable:
    """A declared column; ``role`` is the family of a response."""
    rule = missing.get(name)
    value = None if rule == EXCLUDE else rule
    if role in ("binomial", "multinomial") and name not in levels:
        raise InvalidInput(f"the response {name!r} needs levels={{{name!r}: (…)}} in a {role} regression")
    if role in ("gaussian", "poisson") and name not in bounds:
        raise InvalidInput(
            f"the response {name!r} needs bounds={{{name!r}: (lowest, highest)}} in a {role} regression"
        )
    coder: Coder
    if name in bounds:
        if isinstance(value, str):
            raise InvalidInput(
                f"missing={{{name!r}: {rule!r}}} must be 'exclude', or a number between the bounds"
            )
        whole = role == "poisson"
        coder = Grid(bounds[name], None if whole else steps, whole, value)
        if whole and coder.low != 0:
            raise InvalidInput(f"bounds={bounds[name]!r} of the counts {name!r} must start at 0")
    else:
        given = levels[name]
        domain = given if isinstance(given, Domain) else Domain(given, missing=value)
        if role == "binomial" and domain.k != 2:
            raise InvalidInput(f"levels={domain.levels!r} of {name!r}: a binomial response has two levels")
        return Variable(name, Levels(domain), rule == EXCLUDE, tuple(domain.levels))
    return Variable(name, coder, rule == EXCLUDE)


def _declared_once(bounds: Mapping[str, Any], levels: Mapping[str, Any]) -> None:
    both = sorted(set(bounds) & set(levels))
    if both:
        raise InvalidInput(f"column {both[0]!r} has both bounds and levels; declare one of them")


_SPLINES = {"bs", "cr", "cc", "cs"}
_MATHS = ("log", "exp", "sqrt", "log1p")
_NUMPY = {f"np.{name}" for name in (*_MATHS, "sin", "cos", "abs", "maximum", "minimum")}
_FUNCTIONS = {"C", "I", "contr.treatment", "contr.sum", *_SPLINES, *_MATHS, *_NUMPY}


def _parsed(formula: Any) -> tuple[str, tuple[str, ...], Any]:
    """The response, the other columns in the order of their first use, and the right side."""
    try:
        from formulaic import Formula
    except ImportError:
        raise missing_extra("formulaic, which reads formulas,", "glm") from None
    if not isinstance(formula, str) or formula.count("~") != 1:
        raise InvalidInput(  # not what was given: it may be the data, in the wrong place
            f"formula must be a text such as 'income ~ age + C(sex)', not a {type(formula).__name__}"
        )
    try:
        parsed = Formula(formula)
        left, right = list(parsed.lhs), list(parsed.rhs)
    except Exception as error:
        raise InvalidInput(f"formula={formula!r} cannot be read ({type(error).__name__})") from None
    if len(left) != 1 or len(left[0].factors) != 1 or left[0].factors[0].eval_method.value != "lookup":
        raise InvalidInput(
            f"formula={formula!r}: the left side must be one column; transform it beforehand and declare the "
            "bounds of the result"
        )
    response = str(left[0].factors[0].expr)
    wanted: dict[str, None] = {}
    for term in right:
        for factor in term.factors:
            kind = factor.eval_method.value
            if kind == "lookup":
                wanted.setdefault(str(factor.expr).strip("`"))
            elif kind == "python":
                names = _checked_call(str(factor.expr))
                if len(names) > 1:
                    raise InvalidInput(
                        f"formula={formula!r}: {factor.expr} mixes the columns {', '.join(names)}; make such "
                        "a column beforehand and declare its own bounds"
                    )
                wanted.update(dict.fromkeys(names))
    if response in wanted:
        raise InvalidInput(f"formula={formula!r}: {response!r} is on both sides")
    return response, tuple(wanted), parsed.rhs


def _checked_call(text: str) -> list[str]:
    """The columns in a piece of Python of a formula, which may use declared functions only."""
    names: dict[str, None] = {}

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            function = ast.unparse(node.func)
            if function not in _FUNCTIONS:
                raise InvalidInput(
                    f"{text}: {function} may learn from the data, or is unknown; allowed are "
                    f"{', '.join(sorted(_FUNCTIONS))}. Declared bounds already scale each column"
                )
            given = {keyword.arg for keyword in node.keywords}
            if function in _SPLINES and "knots" not in given:
                raise InvalidInput(f"{text}: declare the knots, such as {function}(x, knots=[30, 50])")
            for part in (*node.args, *(keyword.value for keyword in node.keywords)):
                visit(part)
        elif isinstance(node, ast.Name):
            if node.id not in ("True", "False", "None", "np", "contr"):
                names.setdefault(node.id)
        elif isinstance(node, ast.Attribute | ast.Lambda | ast.Subscript | ast.NamedExpr | ast.Starred):
            raise InvalidInput(f"{text}: this cannot stand in a formula; use columns, numbers and functions")
        elif isinstance(node, ast.Constant | ast.expr_context | ast.operator | ast.unaryop):
            pass
        elif isinstance(node, ast.BinOp | ast.UnaryOp | ast.List | ast.Tuple):
            for child in ast.iter_child_nodes(node):
                visit(child)
        else:
            raise InvalidInput(f"{text}: this cannot stand in a formula; use columns, numbers and functions")

    try:
        visit(ast.parse(text, mode="eval").body)
    except SyntaxError:
        raise InvalidInput(f"{text}: this cannot be read") from None
    return list(names)


@dataclass(frozen=True)
class _Factored:
    names: tuple[str, ...]
    factors: tuple[tuple[tuple[int, FloatArray], ...], ...]
    mixing: FloatArray


def _plain(right: Any, variables: Sequence[Variable]) -> _Factored | None:
    """The columns of a formula of an intercept and numbers as they are; None of any other."""
    places = {variable.name: at for at, variable in enumerate(variables) if variable.numeric}
    factors: list[tuple[tuple[int, FloatArray], ...]] = []
    names: list[str] = []
    mixing = np.eye(len(variables) + 1)
    for term in right:
        if len(term.factors) != 1:
            return None
        (factor,) = term.factors
        text = str(factor.expr).strip("`")
        if factor.eval_method.value == "literal" and text == "1" and not names:
            names.append("Intercept")
            factors.append(())
        elif factor.eval_method.value == "lookup" and text in places and names:
            coder = variables[places[text]].coder
            assert isinstance(coder, Grid)
            mixing[0, len(names)] = -(coder.low + coder.high) / coder.width
            mixing[len(names), len(names)] = 2 / coder.width
            names.append(text)
            factors.append(((places[text], np.linspace(-1.0, 1.0, coder.size)),))
        else:
            return None
    return _Factored(tuple(names), tuple(factors), mixing) if len(names) == len(mixing) else None


def _factored(right: Any, variables: Sequence[Variable]) -> _Factored:
    """The columns of the formula as products of one-variable tables, scaled, and how to scale back."""
    plain = _plain(right, variables)
    return _by_formula(right, variables) if plain is None else plain


def _by_formula(right: Any, variables: Sequence[Variable]) -> _Factored:
    import pandas as pd
    from formulaic import Formula

    generator = np.random.default_rng(0)

    def frame(codes: Sequence[npt.NDArray[np.integer[Any]]], of: Sequence[Variable]) -> Any:
        return pd.DataFrame({v.name: v.values(c) for v, c in zip(of, codes, strict=True)})

    number = max([_PROBES, *(v.coder.size for v in variables if not v.numeric)])
    probes = [
        np.concatenate(
            [
                np.arange(min(v.coder.size, number)),
                [v.coder.size - 1],
                generator.integers(0, v.coder.size, number),
            ]
        )[:number]
        if not v.numeric
        else np.concatenate([[0, v.coder.size - 1], generator.integers(0, v.coder.size, number - 2)])
        for v in variables
    ]
    for codes in probes:
        generator.shuffle(codes)
    public = frame(probes, variables) if variables else pd.DataFrame(index=range(number))
    try:
        matrix = Formula(right).get_model_matrix(public, na_action="raise")
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(
            f"the formula cannot be evaluated between the declared bounds ({type(error).__name__}: {error})"
        ) from None
    spec, values = matrix.model_spec, np.asarray(matrix, dtype=np.float64)
    names = tuple(map(str, matrix.columns))
    if not names:
        raise InvalidInput("the formula has no term on its right side")
    if not np.isfinite(values).all():
        raise InvalidInput("a term of the formula is not finite everywhere between the declared bounds")
    positions = {v.name: i for i, v in enumerate(variables)}
    depends: list[list[int]] = []
    for structure in spec.structure:
        own = sorted(positions[str(n)] for n in spec.term_variables[structure.term] if str(n) in positions)
        depends += [own] * len(structure.columns)
    factors: list[list[tuple[int, FloatArray]]] = [[] for _ in names]
    alone = np.array([len(own) == 1 for own in depends])
    bases = np.where(alone, 0, np.argmax(np.abs(values), axis=0))
    heights = np.where(alone, 1.0, values[bases, np.arange(len(names))])
    for v, one in enumerate(variables):
        using = [j for j in range(len(names)) if v in depends[j]]
        for base in sorted({int(bases[j]) for j in using}):
            size = one.coder.size
            around = [np.full(size, probe[base]) for probe in probes]
            around[v] = np.arange(size)
            table = np.asarray(spec.get_model_matrix(frame(around, variables)), dtype=np.float64)
            for j in using:
                if int(bases[j]) == base:
                    factors[j].append((v, table[:, j] / heights[j]))
    rebuilt = np.empty_like(values)
    for j, parts in enumerate(factors):
        rebuilt[:, j] = heights[j]
        for v, table in parts:
            rebuilt[:, j] *= table[probes[v]]
    if not np.allclose(rebuilt, values, rtol=1e-7, atol=1e-9 * np.abs(values).max()):
        raise InvalidInput("a term of the formula mixes several columns other than as a product of functions")
    centred = [[(v, *_scaled(table)) for v, table in parts] for parts in factors]
    for centring in (True, False):
        scaled = [
            [(v, t if centring else raw / np.abs(raw).max()) for v, t, raw in parts] for parts in centred
        ]
        rows = np.ones_like(values)
        for j, parts in enumerate(scaled):
            for v, table in parts:
                rows[:, j] *= table[probes[v]]
        # values = rows @ mix: the formula's columns in terms of the scaled ones, if these span them.
        mix, _, rank, _ = np.linalg.lstsq(rows, values, rcond=1e-10)
        if rank < len(names):
            raise InvalidInput(
                "the columns of the formula are linearly dependent, whatever the data: leave out a term"
            )
        if np.allclose(rows @ mix, values, rtol=1e-7, atol=1e-8 * np.abs(values).max()):
            break
    mix[np.abs(mix) < 1e-10 * np.abs(mix).max(axis=0)] = 0
    return _Factored(names, tuple(tuple(parts) for parts in scaled), np.linalg.inv(mix))


def _scaled(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A table moved and stretched to [−1, 1], or left as it is if an indicator of one of many; and itself."""
    low, high = float(table.min()), float(table.max())
    if high == low:
        return np.ones_like(table), table
    if len(table) > 2 and set(np.unique(table)) == {0.0, 1.0}:
        return table, table
    return (table - (low + high) / 2) / ((high - low) / 2), table


def _longest(factored: _Factored) -> float:
    return math.sqrt(_box(factored.factors, lambda table: np.abs(table)))


def _longest_squared(columns: Sequence[Column], variables: Sequence[Variable], bits: int) -> int:
    """A bound on the integer squared length of a row. Entries are cut towards zero, so products bound
    them."""
    whole = [[(v, np.asarray(table, dtype=np.float64)) for v, table in c.factors] for c in columns]
    singles = [parts for parts in whole if len(parts) == 1]
    others = [column for column in columns if len(column.factors) != 1]
    return round(_box(singles, np.abs)) + sum(column.reach(bits) ** 2 for column in others)


def _box(columns: Sequence[Sequence[tuple[int, FloatArray]]], size: Any) -> float:
    """Σ over groups of columns of the same variables of the largest sum of squares at one point."""
    groups: dict[tuple[int, ...], list[Sequence[tuple[int, FloatArray]]]] = {}
    for parts in columns:
        groups.setdefault(tuple(v for v, _ in parts), []).append(parts)
    total = 0.0
    for variables, members in groups.items():
        if len(variables) <= 1:
            total += float(np.max(np.sum([size(p[0][1]) ** 2 if p else np.ones(1) for p in members], axis=0)))
        else:
            total += sum(
                float(np.prod([np.max(size(table)) ** 2 for _, table in parts])) for parts in members
            )
    return total
