"""The public design of a regression: columns of whole numbers, read from public tables.

A formula is evaluated only at *public* points: the grid points between declared bounds, and declared levels.
Each column of the model is a product of functions of one variable each. These functions become tables of
whole numbers with one entry for each code of the variable. A record's row follows from its codes by look-up,
multiplication and truncation: integer arithmetic, equal on every engine, and nothing else is read from the
data.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet._data.grids import Grid, WeightGrid
from discreet._data.levels import Levels
from discreet._declarations import EXCLUDE, Domain, as_float
from discreet._text import nearest
from discreet._typing import FloatArray, IntArray
from discreet.errors import InvalidInputError, missing_extra
from discreet.regression._newton.formulas import check_call, check_formula

if TYPE_CHECKING:
    from discreet._data.values import Coder

ROW_BITS = 14
"""The largest integer norm of a row, 2¹⁴."""
RESPONSE_BITS = 15
"""A numeric response has 2^RESPONSE_BITS grid steps on either side of its midpoint."""
WEIGHT_BITS = 12
"""Survey weights are rounded to 2^WEIGHT_BITS steps between 0 and the largest weight."""
_PROBES = 1024


@dataclass(frozen=True)
class Variable:
    """A column of the data and its declaration: bounds or levels."""

    name: str
    coder: Coder
    excluded: bool
    """Whether a record without a value is left out, instead of being an error."""
    levels: tuple[Any, ...] = ()

    @property
    def numeric(self) -> bool:
        return isinstance(self.coder, Grid)

    def values(self, codes: npt.NDArray[np.integer[Any]]) -> Any:
        """The values of the codes: numbers, or a categorical column of pandas."""
        import pandas as pd

        if isinstance(self.coder, Grid):
            return self.coder.low + codes * (self.coder.width / self.coder.steps)
        return pd.Categorical.from_codes(np.asarray(codes), categories=list(self.levels))


@dataclass(frozen=True)
class Column:
    """One column of the model matrix: a product of tables indexed by codes, truncated to the row grid."""

    name: str
    factors: tuple[tuple[int, tuple[int, ...]], ...]
    """Positions of variables, with the table of each; none for the intercept."""

    def reach(self, bits: int) -> int:
        """Return the largest absolute value of an entry, as an integer in which 2^bits represents 1."""
        size = 1 << bits
        for _, table in self.factors:
            size = size * max(max(table), -min(table)) >> bits
        return size


@dataclass(frozen=True)
class Design:
    """The public part of a regression: variables, columns, the scale of the rows and their largest norm.

    ``bits``: the integer 2^bits represents 1. ``norm`` bounds the integer length of a row. ``mixing`` maps
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
    """E xx' for records spread evenly over the declared values: a guess where noise hides the true one."""
    weight: Variable | None = None
    """The column of survey weights."""

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
        return any(variable.excluded for variable in self.inputs)

    @property
    def inputs(self) -> tuple[Variable, ...]:
        """The variables that are read from a record: the columns, the response, and its weight if there is
        one."""
        return (*self.variables, self.response, *filter(None, [self.weight]))

    @property
    def constant(self) -> int | None:
        """The position of the intercept."""
        return next((j for j, column in enumerate(self.columns) if not column.factors), None)

    @cached_property
    def reach(self) -> FloatArray:
        """The largest absolute value of each entry of an integer row."""
        return np.array([column.reach(self.bits) for column in self.columns], dtype=np.float64)

    @cached_property
    def resolution(self) -> FloatArray:
        """The most by which a grid step or rounding changes each entry of a scaled row; 0 for a constant."""
        steps = [
            sum(
                int(np.abs(np.diff(table)).max(initial=0)) if self.variables[v].numeric else 1
                for v, table in factors
            )
            for factors in self.tables
        ]
        return np.asarray(steps) / self.unit

    @property
    def plain(self) -> tuple[bool, ...]:
        """Return, for each column, whether it is a number or a level of a variable that has no other term."""
        variables = [[v for v, _ in column.factors] for column in self.columns]
        used = Counter(v for indices in variables for v in indices)
        shared = {v for indices in variables if len(indices) > 1 for v in indices}
        single = {v for v in used if used[v] == 1 or not self.variables[v].numeric} - shared
        return tuple(len(indices) == 1 and indices[0] in single for indices in variables)

    @cached_property
    def coders(self) -> dict[str | None, Coder]:
        return {variable.name: variable.coder for variable in self.inputs}

    @cached_property
    def tables(self) -> list[list[tuple[int, IntArray]]]:
        """The factors of each column as arrays; equal tables share one array."""
        whole = {id(table): table for column in self.columns for _, table in column.factors}
        arrays = {at: np.array(table, dtype=np.int64) for at, table in whole.items()}
        return [[(v, arrays[id(table)]) for v, table in column.factors] for column in self.columns]

    def rows(self, codes: Sequence[IntArray], number: int) -> IntArray:
        """Compute the integer rows of records from the codes of their variables, none longer than
        ``norm``.
        """
        rows = np.empty((number, self.d), dtype=np.int64, order="F")
        for j, factors in enumerate(self.tables):
            entry: Any = self.unit
            for index, (variable, table) in enumerate(factors):
                looked_up = table[codes[variable]]
                entry = looked_up if index == 0 else truncate(entry * looked_up, self.unit)
            rows[:, j] = entry
        return shorten_rows(rows, self.norm)

    def scale_rows(self, codes: Sequence[IntArray]) -> FloatArray:
        """Compute the rows of records in real units; the formula must have a column besides the intercept."""
        return self.rows(codes, len(codes[0])) / self.unit

    def spread(self, norm: int) -> Design:
        """Return this design with rows shortened to ``norm``, and the second moments of such rows."""
        shortened = replace(self, norm=norm)
        rows = shortened.probes(4096)
        return replace(shortened, second_moments=rows.T @ rows / len(rows))

    def probes(self, number: int) -> FloatArray:
        """Return scaled rows of simulated records, spread evenly over the declared values."""
        generator = np.random.default_rng(0)
        codes = [generator.integers(0, v.coder.size, number) for v in self.variables]
        return self.rows(codes, number) / self.unit

    def ranges(self) -> FloatArray:
        """Return the largest minus the least value of each column over declared values; 1 for a constant."""
        generator = np.random.default_rng(0)
        codes = []
        for variable in self.variables:
            places = np.linspace(
                0, variable.coder.size - 1, 9 if variable.numeric else variable.coder.size
            ).astype(np.int64)
            codes.append(generator.choice(places, 1024))
        values = self.rows(codes, 1024) / self.unit @ np.linalg.inv(self.mixing)
        reach = np.ptp(values, axis=0)
        rounded = np.array([float(f"{size:.3g}") for size in reach])  # rows are rounded too
        return np.where(reach > 1e-3 * np.abs(values).max(axis=0), rounded, 1.0)


def truncate(values: IntArray, divisor: Any) -> IntArray:
    """Return the quotient rounded towards zero."""
    return np.asarray(np.sign(values) * (np.abs(values) // divisor), dtype=np.int64)


def shorten_rows(rows: npt.NDArray[Any], norm: int, *others: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Shrink rows of whole numbers whose Euclidean norm exceeds ``norm`` to at most ``norm``.

    With s = ⌊√N⌋ + 1 in doubles, where N < 2⁵³ is the squared norm, s > √N, so ‖x·norm/s‖ < norm; entries are
    rounded towards zero. Values in ``others`` shrink by the same factor. A quotient of whole numbers is
    truncated correctly where the dividend is below 2⁵³.
    """
    squares = np.einsum("ij,ij->i", rows, rows)
    long = squares > norm * norm
    if long.any():
        lengths = np.where(long, np.floor(np.sqrt(squares)) + 1, norm)[:, None]
        for values in (rows, *others):
            shorter = values * float(norm)
            shorter /= lengths
            np.trunc(shorter, out=values, casting="unsafe")
    return rows


def design(
    formula: str,
    *,
    family: str,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    levels: Mapping[str, Sequence[Any]] | None = None,
    missing: Mapping[str, Any] | None = None,
    other: Mapping[str, Any] | None = None,
    norm: float | None = None,
    weight: tuple[str, float] | None = None,
) -> Design:
    """Return the design of a formula for declared bounds and levels.

    For each column, ``missing`` says how a missing value counts: ``"exclude"`` leaves the record out; a
    number within the bounds, or a level, takes its place. ``other`` names the level of undeclared values.
    With ``norm``, rows of columns scaled to [−1, 1] are shortened to that length. ``weight`` names the column
    of survey weights and the largest weight.
    """
    bounds, levels, missing, other = (dict(declared or {}) for declared in (bounds, levels, missing, other))
    if isinstance(formula, str) and formula.count("~") == 1:
        check_formula(formula, {name: len(declared) for name, declared in levels.items()})
    response, wanted, right = _parse(formula)
    if weight is not None and weight[0] in (response, *wanted):
        raise InvalidInputError(
            f": column {weight[0]!r} is the weight; leave it out", parameter="formula", value=formula
        )
    for column in (response, *wanted):
        if column not in bounds and column not in levels:
            raise InvalidInputError(
                f"column {column!r} of the formula has neither bounds nor values; declare them: nothing is "
                "read from the data"
            )

    def variables(steps: int) -> tuple[Variable, ...]:
        return tuple(variable(name, bounds, levels, missing, steps, other=other) for name in wanted)

    longest = _longest(_factor(right, variables(1 << 8))) if norm is None else as_float(norm)
    if not (math.isfinite(longest) and longest > 0):
        raise InvalidInputError("must be a positive number", parameter="norm", value=norm)
    bits = min(12, math.floor(ROW_BITS - math.log2(longest)))
    if bits < 4:
        raise InvalidInputError(f"the rows of formula={formula!r} are too long: give norm=…, such as 1")
    fine = variables(1 << (bits + 1))
    names, factors, mixing = _factor(right, fine)
    whole: dict[bytes, tuple[int, ...]] = {}  # equal tables are one

    def integers(table: FloatArray) -> tuple[int, ...]:
        values = np.rint(table * 2.0**bits).astype(np.int64)
        return whole.setdefault(values.tobytes(), tuple(values.tolist()))

    columns = tuple(
        Column(name, tuple((v, integers(table)) for v, table in parts))
        for name, parts in zip(names, factors, strict=True)
    )
    if norm is None:
        reach = math.isqrt(_longest_squared(columns, bits) - 1) + 1
    else:
        reach = math.isqrt(math.floor((longest * 2**bits) ** 2))
    if not reach:
        raise InvalidInputError(
            f"is below the resolution of the rows, 2^-{bits}: give a larger one", parameter="norm", value=norm
        )
    out = variable(response, bounds, levels, missing, 2 << RESPONSE_BITS, family, other)
    if family == "gaussian" and all(column.factors for column in columns):
        # 0 must stay 0 where no intercept moves it to the middle of the bounds.
        most = max(map(abs, bounds[response]))
        out = variable(response, {response: (-most, most)}, levels, missing, 2 << RESPONSE_BITS, family)
    weights = None
    if weight is not None:
        coder = WeightGrid(weight[1], 1 << WEIGHT_BITS)
        weights = Variable(weight[0], coder, missing.get(weight[0]) == EXCLUDE)
    moments = np.eye(len(names))
    return Design(formula, fine, out, columns, bits, reach, mixing, moments, weights).spread(reach)


def variable(
    name: str,
    bounds: Mapping[str, Any],
    levels: Mapping[str, Any],
    missing: Mapping[str, Any],
    steps: int,
    role: str | None = None,
    other: Mapping[str, Any] | None = None,
) -> Variable:
    """Return a declared column as a variable; ``role`` is the model family if it is the response."""
    rule = missing.get(name)
    value = None if rule == EXCLUDE else rule
    if role in ("binomial", "multinomial") and name not in levels:
        raise InvalidInputError(
            f"the response {name!r} of a {role} regression must be declared as a category, or "
            "needs another family"
        )
    if role in ("gaussian", "poisson") and name not in bounds:
        raise InvalidInputError(
            f"the response {name!r} of a {role} regression must be declared as numbers, or needs "
            "another family"
        )
    if name in levels:
        domain = Domain(levels[name], (other or {}).get(name), value)
        if role == "binomial" and domain.k != 2:
            raise InvalidInputError(
                f"of {name!r}: a binomial response has two levels", parameter="levels", value=domain.levels
            )
        return Variable(name, Levels(domain), rule == EXCLUDE, tuple(domain.levels))
    if isinstance(value, str):
        raise InvalidInputError(
            f"of {name!r} must be 'exclude', or a number between the bounds", parameter="missing", value=rule
        )
    whole = role == "poisson"
    coder = Grid(bounds[name], None if whole else steps, whole, value)
    if whole and coder.low != 0:
        raise InvalidInputError(
            f"of the counts {name!r} must start at 0", parameter="bounds", value=bounds[name]
        )
    return Variable(name, coder, rule == EXCLUDE)


def _parse(formula: Any) -> tuple[str, tuple[str, ...], Any]:
    """Return the response, the other columns in the order of first use, and the right side of the formula."""
    try:
        from formulaic import Formula
    except ImportError:
        raise missing_extra("formulaic, which reads formulas,", "glm") from None
    if not isinstance(formula, str):  # not what was given: it may be the data, in the wrong place
        raise InvalidInputError(
            f"must be a text such as income ~ age + sex, not {type(formula).__name__}", parameter="formula"
        )
    if formula.count("~") != 1:
        raise InvalidInputError(
            "must have one ~ between the response and the predictors, such as income ~ age + sex",
            parameter="formula",
            value=formula,
        )
    try:
        parsed = Formula(formula)
        left, right = list(parsed.lhs), list(parsed.rhs)
    except Exception as error:
        raise InvalidInputError(
            f"cannot be read ({type(error).__name__})", parameter="formula", value=formula
        ) from None
    if len(left) != 1 or len(left[0].factors) != 1 or left[0].factors[0].eval_method.value != "lookup":
        raise InvalidInputError(
            ": the left side must be one column; transform it first and declare the bounds of the result",
            parameter="formula",
            value=formula,
        )
    response = str(left[0].factors[0].expr)
    wanted: dict[str, None] = {}
    for term in right:
        for factor in term.factors:
            kind = factor.eval_method.value
            if kind == "lookup":
                wanted.setdefault(str(factor.expr).strip("`"))
            elif kind == "python":
                names, _ = check_call(str(factor.expr))
                if len(names) > 1:
                    raise InvalidInputError(
                        f": {factor.expr} mixes the columns {', '.join(names)}; compute such a column "
                        "before and declare its bounds",
                        parameter="formula",
                        value=formula,
                    )
                wanted.update(dict.fromkeys(names))
    if response in wanted:
        raise InvalidInputError(f": {response!r} is on both sides", parameter="formula", value=formula)
    return response, tuple(wanted), parsed.rhs


def formula_columns(formula: str, declared: Collection[str]) -> tuple[str, ...]:
    """Return the columns of a formula, the response first; each must be declared."""
    response, names, _ = _parse(formula)
    for name in (response, *names):
        if name not in declared:
            raise InvalidInputError(
                f": column {name!r} is not declared in the schema{nearest(name, declared)}",
                parameter="formula",
                value=formula,
            )
    return (response, *names)


_Factored = tuple[tuple[str, ...], list[list[tuple[int, FloatArray]]], FloatArray]
"""The names of columns, the tables whose product each column is, and the matrix from coefficients of scaled
columns to those of the formula."""


def _factor(right: Any, variables: Sequence[Variable]) -> _Factored:
    """Return the columns of the formula as scaled products of tables of one variable each."""
    terms = [[str(factor.expr).strip("`") for factor in term.factors] for term in right]
    grids = [variable.coder for variable in variables if isinstance(variable.coder, Grid)]
    if len(grids) < len(variables) or terms != [["1"], *([variable.name] for variable in variables)]:
        return _by_formula(right, variables)
    mixing = np.eye(len(terms))  # an intercept and numbers as they are: quick, however many
    for j, coder in enumerate(grids, 1):
        mixing[0, j], mixing[j, j] = -(coder.low + coder.high) / coder.width, 2 / coder.width
    tables = [[(v, np.linspace(-1.0, 1.0, coder.size))] for v, coder in enumerate(grids)]
    return ("Intercept", *(variable.name for variable in variables)), [[], *tables], mixing


def _by_formula(right: Any, variables: Sequence[Variable]) -> _Factored:
    import pandas as pd
    from formulaic import Formula

    def frame(codes: Sequence[IntArray]) -> Any:
        columns = {v.name: v.values(c) for v, c in zip(variables, codes, strict=True)}
        return pd.DataFrame(columns, index=None if columns else range(number))

    generator, probes = np.random.default_rng(0), []
    number = max([_PROBES, *(v.coder.size for v in variables if not v.numeric)])
    for variable in variables:
        ends = (
            [0, variable.coder.size - 1]
            if variable.numeric
            else [*range(variable.coder.size), variable.coder.size - 1]
        )
        drawn = generator.integers(0, variable.coder.size, number - 2 if variable.numeric else number)
        probes.append(np.concatenate([ends, drawn])[:number])
    for codes in probes:
        generator.shuffle(codes)
    try:
        matrix = Formula(right).get_model_matrix(frame(probes), na_action="raise")
    except Exception as error:
        raise InvalidInputError(
            f"the formula cannot be evaluated between the declared bounds ({type(error).__name__}: {error})"
        ) from None
    spec, values = matrix.model_spec, np.asarray(matrix, dtype=np.float64)
    names = tuple(map(str, matrix.columns))
    if not names:
        raise InvalidInputError("the formula has no term on its right side")
    if not np.isfinite(values).all():
        raise InvalidInputError("a term of the formula is not finite everywhere between the declared bounds")
    positions = {v.name: i for i, v in enumerate(variables)}
    depends: list[list[int]] = []
    for structure in spec.structure:
        indices = [positions[str(n)] for n in spec.term_variables[structure.term] if str(n) in positions]
        depends += [indices] * len(structure.columns)
    alone = np.array([len(indices) == 1 for indices in depends])
    bases = np.where(alone, 0, np.argmax(np.abs(values), axis=0)).tolist()
    heights = np.where(alone, 1.0, values[bases, np.arange(len(names))])
    factors: list[list[tuple[int, FloatArray]]] = [[] for _ in names]
    for v, variable in enumerate(variables):
        using = [j for j, indices in enumerate(depends) if v in indices]
        for base in sorted({bases[j] for j in using}):
            around = [np.full(variable.coder.size, probe[base]) for probe in probes]
            around[v] = np.arange(variable.coder.size)
            table = np.asarray(spec.get_model_matrix(frame(around)), dtype=np.float64)
            for j in using:
                if bases[j] == base:
                    factors[j].append((v, table[:, j] / heights[j]))

    def multiply(tables: Sequence[Sequence[tuple[int, FloatArray]]]) -> FloatArray:
        columns = [
            math.prod((table[probes[v]] for v, table in parts), start=np.ones(number)) for parts in tables
        ]
        return np.column_stack(columns)

    if not np.allclose(heights * multiply(factors), values, rtol=1e-7, atol=1e-9 * np.abs(values).max()):
        raise InvalidInputError("a term of the formula is not a product of functions of one column each")
    plain = [[(v, table / np.abs(table).max()) for v, table in parts] for parts in factors]
    for scaled in (_orthogonal(factors, variables), plain):
        rows = multiply(scaled)
        # values = rows @ mix: the formula's columns in terms of the scaled ones, if these span them.
        mix, _, rank, _ = np.linalg.lstsq(rows, values, rcond=1e-10)
        spanned = np.allclose(rows @ mix, values, rtol=1e-7, atol=1e-8 * np.abs(values).max())
        if rank == len(names) and spanned:
            mix[np.abs(mix) < 1e-10 * np.abs(mix).max(axis=0)] = 0
            return names, scaled, np.linalg.inv(mix)
    raise InvalidInputError(
        "the columns of the formula are linearly dependent, whatever the data: leave out a term"
    )


def _orthogonal(
    factors: Sequence[Sequence[tuple[int, FloatArray]]], variables: Sequence[Variable]
) -> list[list[tuple[int, FloatArray]]]:
    """Orthogonalise the functions of each variable against a constant and each other, in order.

    Powers of a number become Legendre polynomials, and levels the corners of a simplex. The noise on sums
    follows the longest row, so sums are more informative about each coefficient the more spherical the cloud
    of rows is. Functions of numbers are scaled to a largest value of 1, those of levels together to length 1.
    """
    functions: dict[int, list[tuple[FloatArray, FloatArray]]] = {}
    columns: list[list[tuple[int, FloatArray]]] = []
    for parts in factors:
        column = []
        for v, table in parts:
            earlier, moved = functions.setdefault(v, []), table - table.mean()
            length = math.sqrt(float(moved @ moved))
            if length <= 1e-9 * float(np.abs(table).max()) * math.sqrt(len(table)):
                column.append((v, np.ones_like(table)))
                continue
            at = next((new for old, new in earlier if np.allclose(moved / length, old, atol=1e-9)), None)
            if at is None:
                at = moved
                for _ in range(2):  # twice: what is left of nearly dependent tables is small
                    for _, new in earlier:
                        at = at - new * float(at @ new) / float(new @ new)
                size = float(np.abs(at).max())
                if variables[v].numeric and size > 1e-9 * length:
                    at = at / size
                elif size > 1e-9 * length:
                    at = at * math.sqrt(len(table) / (len(table) - 1) / float(at @ at))
                else:  # a combination of the others: the columns are not products of orthogonal functions
                    at = table / float(np.abs(table).max())
                earlier.append((moved / length, at))
            column.append((v, at))
        columns.append(column)
    return columns


def _longest(factored: _Factored) -> float:
    alone, others = _alone(factored[1])
    return math.sqrt(alone + sum(math.prod(float(np.max(t**2)) for _, t in parts) for parts in others))


def _longest_squared(columns: Sequence[Column], bits: int) -> int:
    """Bound the squared integer length of a row, whose entries are truncated towards zero."""
    whole = [[(v, np.asarray(table, dtype=np.float64)) for v, table in column.factors] for column in columns]
    others = [column for column in columns if len(column.factors) != 1]
    return round(_alone(whole)[0]) + sum(column.reach(bits) ** 2 for column in others)


def _alone(columns: Iterable[Sequence[tuple[int, FloatArray]]]) -> tuple[float, list[Any]]:
    """Bound the sum of squares of all columns of one variable; also return the columns of several."""
    squares: dict[int, Any] = {}
    others = []
    for parts in columns:
        if len(parts) == 1:
            ((v, table),) = parts
            squares[v] = squares.get(v, 0.0) + table**2
        else:
            others.append(parts)
    return sum(float(square.max()) for square in squares.values()), others
