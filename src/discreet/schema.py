"""The schema: everything that is public about the data, declared once and used by every question.

A column is a :class:`Category` (its values are listed), a :class:`Number` (its bounds are declared) or a
:class:`Weight` (survey weights up to a declared bound). The :class:`Schema` adds facts about all records:
their number, the people they belong to, and whether an undeclared value stops an answer. Nothing in it is
read from the data.
"""

from __future__ import annotations

import json
import math
import numbers
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeAlias

from discreet._declarations import (
    EXCLUDE,
    BinnedDomain,
    Domain,
    Relation,
    as_bounds,
    as_integer,
    as_positive,
    as_size,
)
from discreet._json import read_json
from discreet._text import nearest
from discreet._typing import ColumnLike, SchemaLike
from discreet.errors import FileError, InvalidInputError

PUBLIC = "public"
"""The value of ``n`` for a number of records that is read from the data and published."""
DISCOVER = "discover"
"""The ``values`` of a column whose values are read from the data: those that stand out are published."""
OWN_BIN = "bin"
"""The value of ``missing`` or ``outside`` that gives such records a bin of their own."""
VALUE = "value"
"""The name of the only column where the data are one list of values."""
DEFAULT_BINS = 10
"""The number of bins for proportions of a number whose bins are not declared."""
FINE_BINS = 100
"""The number of bins for quantiles of a number whose bins are not declared and that is not whole."""
MAX_LISTED_CODES = 10**6
"""The largest number of codes that are listed one by one."""
MAX_BINS = 100_000
"""The most bins of a number."""
MAX_UNIT_BINS = 200
"""The widest whole-number bounds that have one bin for each whole number, unless bins are declared."""


class Declaration:
    """The base class of declarations, which refuse an unknown keyword by name."""

    __match_args__: ClassVar[tuple[str, ...]]

    def __new__(cls, *placed: Any, **values: Any) -> Self:
        """Check the names of what is given, before the class checks the values."""
        for name, value in values.items():
            if name not in cls.__dataclass_fields__:  # type: ignore[attr-defined]
                raise InvalidInputError(cls.explain_unknown(name), name, value)
        names = cls.__match_args__
        if len(placed) > len(names):
            allowed = f"takes only {', '.join(names)} by position" if names else "takes nothing by position"
            raise InvalidInputError(f"{cls.__name__} {allowed}; write NAME=VALUE for the rest")
        values.update(zip(names, placed, strict=False))
        for name in names if values else ():  # a copy is made without any
            value = values.get(name)
            if (value is None or (isinstance(value, str) and not value)) and cls._requires(name):
                raise InvalidInputError(f"is missing{cls.such_as(name)}", name)
        return super().__new__(cls)

    @classmethod
    def _requires(cls, name: str) -> bool:
        field = cls.__dataclass_fields__[name]  # type: ignore[attr-defined]
        return field.default is field.default_factory is MISSING

    @classmethod
    def such_as(cls, name: str) -> str:
        """Return the end of a message about a missing keyword, which gives an example if there is one.

        Parameters
        ----------
        name : str
            The keyword.

        Returns
        -------
        str
        """
        return ""

    @classmethod
    def explain_unknown(cls, name: str) -> str:
        """Return what to do about an unknown keyword, for a message.

        Parameters
        ----------
        name : str
            The keyword.

        Returns
        -------
        str
        """
        return f"is unknown{nearest(name, cls.keywords())}"

    @classmethod
    def keywords(cls) -> list[str]:
        """Return the names of the public keywords."""
        return [field.name for field in fields(cls) if field.repr]  # type: ignore[arg-type]


@dataclass(frozen=True)
class Category(Declaration):
    """A column whose values are listed.

    Parameters
    ----------
    values : sequence, or ``"discover"``
        Every value that a record may take, in a fixed order; codes from a to b as ``range(a, b + 1)``.
        ``"discover"`` publishes the values that stand out in the data, which needs a private n and a δ.
    other : optional
        The value as which undeclared values are counted; without it an undeclared value is an error.
    missing : optional
        The value that missing values count as, or ``"exclude"`` to leave them out; otherwise they are an
        error.
    public : bool
        Whether the value of every record is public, such as a region: then ``by=`` may group by it.
    label : str, optional
        The name of the column for readers of a report.

    Examples
    --------
    >>> Category(["never", "former", "current"], missing="exclude")
    Category(['never', 'former', 'current'], missing='exclude')
    """

    values: Sequence[Any] | str
    other: Any = None
    missing: Any = None
    public: bool = False
    label: str | None = None

    def __post_init__(self) -> None:
        _check_flag(self.public, "public")
        _check_texts(label=self.label)
        if self.discovers:
            if self.other is not None or self.missing not in (None, EXCLUDE) or self.public:
                raise InvalidInputError(
                    "values='discover' needs missing='exclude' or none, and takes no other= or public="
                )
            return
        if isinstance(self.values, range):
            codes = self.values
            if codes.step != 1 or not 2 <= codes.stop - codes.start <= 2**62:
                raise InvalidInputError("must be a range of two codes or more in steps of 1", "values", codes)
            return
        object.__setattr__(self, "values", self.domain.levels)

    @property
    def discovers(self) -> bool:
        """Whether the values are found in the data, privately."""
        return isinstance(self.values, str) and self.values == DISCOVER

    @cached_property
    def domain(self) -> Domain:
        """The values as the engines count them."""
        if self.discovers:
            raise InvalidInputError("values='discover' is for proportions of one column: list the values")
        if isinstance(self.values, range) and len(self.values) > MAX_LISTED_CODES:
            raise InvalidInputError(
                "are too many to be listed: with a private n, the option expected_false (such as 1) "
                "publishes only those that stand out",
                "values",
                self.values,
            )
        return Domain(self.values, self.other, self.missing)

    def __repr__(self) -> str:
        shown = list(self.values) if isinstance(self.values, tuple) else self.values
        return _show(self, [repr(shown)], ("other", "missing", "public", "label"))

    def to_dict(self) -> Any:
        """Return the declaration as JSON and TOML values.

        Returns
        -------
        list or dict
            A list where only values are declared.

        Examples
        --------
        >>> Category(["no", "yes"]).to_dict()
        ['no', 'yes']
        >>> Category(["no", "yes"], missing="exclude").to_dict()
        {'values': ['no', 'yes'], 'missing': 'exclude'}
        """
        if isinstance(self.values, str):
            values: Any = self.values
        elif isinstance(self.values, range):
            values = {"from": self.values[0], "to": self.values[-1]}
        else:
            values = [_plain(value) for value in self.values]
        rest = _rest(self, ("other", "missing", "public", "label"))
        pair = isinstance(values, list) and is_pair(values)
        return values if not rest and isinstance(values, list) and not pair else {"values": values, **rest}


@dataclass(frozen=True)
class Number(Declaration):
    """A column of numbers between declared bounds, to which they are clipped.

    Parameters
    ----------
    low, high : float
        Bounds of one record, from what is publicly known, never from the data.
    missing : optional
        The number that missing values count as, ``"exclude"`` to leave them out, or ``"bin"`` for a bin of
        their own in proportions; otherwise they are an error.
    bins : int or sequence of float, optional
        Bins for proportions and quantiles: their number, or their edges. Without it proportions have ten
        equal bins, and quantiles one for each whole number, or a hundred.
    outside : {"clip", "bin"}
        What happens to numbers outside the bounds: they are clipped, or in proportions have their own bin.
    atoms : sequence of float
        Values that many records share, such as 0 for incomes or heaped ages: quantiles count each of them
        separately.
    whole : bool
        Whether values are whole numbers, such as ages: quantiles then are whole numbers too.
    public : bool
        Whether the value of every record is public.
    label, unit : str, optional
        The name of the column and its unit for readers of a report.

    Examples
    --------
    >>> Number(18, 95, missing="exclude", unit="years")
    Number(18, 95, missing='exclude', unit='years')
    """

    low: float
    high: float
    missing: Any = None
    bins: int | Sequence[float] | None = None
    outside: str = "clip"
    atoms: Sequence[float] = ()
    whole: bool = False
    public: bool = False
    label: str | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        _check_flag(self.public, "public")
        _check_flag(self.whole, "whole")
        _check_texts(label=self.label, unit=self.unit)
        low, high = as_bounds((self.low, self.high), "one record")
        object.__setattr__(self, "low", _whole(low))
        object.__setattr__(self, "high", _whole(high))
        if self.outside not in ("clip", OWN_BIN):
            raise InvalidInputError("must be one of: clip, bin", "outside", self.outside)
        if self.missing is not None and self.missing not in (EXCLUDE, OWN_BIN):
            if isinstance(self.missing, bool) or not isinstance(self.missing, numbers.Real):
                raise InvalidInputError(
                    "must be a number, 'exclude' or 'bin': this column holds numbers", "missing", self.missing
                )
            if not low <= float(self.missing) <= high:
                raise InvalidInputError(
                    f"must lie within the bounds {low:g} to {high:g}", "missing", self.missing
                )
        if self.bins is not None and isinstance(self.bins, numbers.Real):
            count = as_positive(self.bins, "bins")
            if not 2 <= count <= MAX_BINS:
                raise InvalidInputError(f"must be from 2 to {MAX_BINS:,}", "bins", self.bins)
            object.__setattr__(self, "bins", count)
        elif self.bins is not None:
            object.__setattr__(self, "bins", _edges(self.bins))
        try:
            atoms = tuple(sorted(float(value) for value in self.atoms))
        except (TypeError, ValueError):
            raise InvalidInputError(
                "must be numbers, such as values that many records share", "atoms", self.atoms
            ) from None
        if any(not low <= atom <= high for atom in atoms) or (self.whole and any(a % 1 for a in atoms)):
            kind = "whole numbers " if self.whole else ""
            raise InvalidInputError(
                f"must be {kind}within the bounds {low:g} to {high:g}", "atoms", self.atoms
            )
        object.__setattr__(self, "atoms", tuple(map(_whole, atoms)))

    def domain(self, missing: Any, fine: bool = False) -> BinnedDomain:
        """Return the bins as the engines count them; those of quantiles have each atom in a cell of its own.

        Parameters
        ----------
        missing
            What missing values count as: None, ``"exclude"`` or ``"bin"``.
        fine
            Whether to use the bins of quantiles instead of those of proportions.

        Returns
        -------
        BinnedDomain
            The bins.

        Raises
        ------
        InvalidInputError
            If ``missing`` is something else.

        Examples
        --------
        >>> Number(0, 100, bins=4).domain(None).levels
        ('[0, 25)', '[25, 50)', '[50, 75)', '[75, 100]')
        """
        if missing is not None and missing not in (EXCLUDE, OWN_BIN):
            raise InvalidInputError(
                "must be 'exclude' (left out) or 'bin' (a bin of their own) where numbers are in bins",
                "missing",
                missing,
            )
        edges, points = self.edges(fine), set[float]()
        if fine and self.atoms:
            points = set(map(float, self.atoms))
            after = {atom + 1 if self.whole else math.nextafter(atom, math.inf) for atom in points}
            edges = tuple(sorted({*map(float, edges), *points, *after}))
        places = [place for place, edge in enumerate(edges[:-1]) if edge in points]
        missing_level = "missing" if missing == OWN_BIN else missing
        return BinnedDomain.of(edges, missing_level, self.outside == OWN_BIN, places)

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound of one record."""
        return float(self.low), float(self.high)

    def edges(self, fine: bool = False) -> tuple[float, ...]:
        """Return the edges of the bins: the declared ones, or the documented grid.

        Parameters
        ----------
        fine
            Whether to use the grid of quantiles instead of that of proportions, where no bins are declared.

        Returns
        -------
        tuple of float
            The edges.

        Examples
        --------
        >>> Number(0, 100, bins=(0, 18, 65, 100)).edges()
        (0, 18, 65, 100)
        >>> len(Number(0, 100).edges()), len(Number(0, 100).edges(fine=True))
        (11, 101)
        """
        if isinstance(self.bins, tuple):
            return self.bins
        low, high = self.bounds
        count = self.bins if isinstance(self.bins, int) else DEFAULT_BINS
        if self.bins is None and fine:
            whole = low.is_integer() and high.is_integer() and high - low <= MAX_UNIT_BINS
            count = max(2, round(high - low)) if whole else FINE_BINS
        return (*(low + (high - low) * i / count for i in range(count)), high)

    def __repr__(self) -> str:
        names = ("missing", "bins", "outside", "atoms", "whole", "public", "label", "unit")
        return _show(self, [f"{self.low:g}", f"{self.high:g}"], names)

    def to_dict(self) -> Any:
        """Return the declaration as JSON and TOML values.

        Returns
        -------
        list or dict
            A pair where only bounds are declared.

        Examples
        --------
        >>> Number(18, 95).to_dict(), Number(18, 95, unit="years").to_dict()
        ([18, 95], {'low': 18, 'high': 95, 'unit': 'years'})
        """
        rest = _rest(self, ("missing", "bins", "outside", "atoms", "whole", "public", "label", "unit"))
        ends = {"low": self.low, "high": self.high}
        return [self.low, self.high] if not rest else {**ends, **rest}


@dataclass(frozen=True)
class Weight(Declaration):
    """A column of survey weights: every question becomes a weighted estimate.

    Parameters
    ----------
    most : float
        The largest weight; larger ones are cut to it. It is declared, never read from the data.
    label : str, optional
        The name of the column for readers of a report.

    Examples
    --------
    >>> Weight(4)
    Weight(4)
    """

    most: float
    label: str | None = None
    public: ClassVar[bool] = False
    missing: ClassVar[None] = None

    def __post_init__(self) -> None:
        _check_texts(label=self.label)
        valid = isinstance(self.most, numbers.Real) and not isinstance(self.most, bool)
        if not valid or not 0 < float(self.most) < math.inf:
            raise InvalidInputError("must be the largest possible weight, such as 4", "most", self.most)
        object.__setattr__(self, "most", _whole(float(self.most)))

    def __repr__(self) -> str:
        return _show(self, [f"{self.most:g}"], ("label",))

    def to_dict(self) -> Any:
        """Return the declaration as JSON and TOML values.

        Returns
        -------
        dict
            The values.

        Examples
        --------
        >>> Weight(4).to_dict()
        {'weight': 4}
        """
        return {"weight": self.most, **_rest(self, ("label",))}


Column: TypeAlias = Category | Number | Weight
_KINDS: Mapping[str, type[Column]] = {"values": Category, "low": Number, "weight": Weight}


@dataclass(frozen=True)
class Schema(Declaration):
    """What is public about the data.

    Parameters
    ----------
    columns : mapping from column names to declarations
        A :class:`Category`, :class:`Number` or :class:`Weight`; a list of values stands for a category, and a
        pair of numbers for bounds.
    n : int or "public", optional
        The public number of records, checked against the data; ``"public"`` reads and publishes it. Without
        it the number of records is private.
    sizes : mapping, optional
        The public number of records in each group of a public column: ``{"region": {"north": 1400, …}}``.
    expected_n : pair of numbers, optional
        A range in which a private number of records is expected, such as ``(100, 1e6)``.
    person, per_person : str and int, optional
        The column that identifies people, and the largest number of records of one person that are used:
        people are then protected, not records.
    strata, cluster : str, optional
        Columns of the sampling design of a weighted survey: public strata, and primary sampling units, which
        must be those that ``person`` protects.
    strict : bool
        Whether an undeclared value stops an answer. If False, the record is left out, and no error depends on
        a record.

    Examples
    --------
    >>> schema = Schema({"smoker": ["no", "yes"], "age": (18, 95)}, n=3000)
    >>> schema.relation
    <Relation.REPLACE_ONE: 'replace-one'>
    >>> Schema({"smoker": ["no", "yes"]}).relation
    <Relation.ADD_REMOVE: 'add-remove'>
    """

    columns: Mapping[str, ColumnLike]
    n: int | str | None = None
    sizes: Mapping[str, Any] | None = None
    expected_n: Sequence[float] | None = None
    person: str | None = None
    per_person: int | None = None
    strata: str | None = None
    cluster: str | None = None
    strict: bool = True
    nameless: bool = field(default=False, repr=False)
    """Whether the data are one list of values, which has no column name."""

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise InvalidInputError(
                "must map column names to their declarations, such as "
                "{'smoker': ['no', 'yes'], 'age': (18, 95)}",
                "columns",
                self.columns,
            )
        if "" in self.columns:
            raise InvalidInputError(
                "columns: a column without a name cannot be declared; give it one in the data"
            )
        declared = {str(name): as_column(value, str(name)) for name, value in self.columns.items()}
        object.__setattr__(self, "columns", MappingProxyType(declared))
        if self.n is not None and self.n != PUBLIC:
            object.__setattr__(self, "n", as_size(self.n))
        _check_flag(self.strict, "strict")
        self._check_people()
        self._check_sizes()
        if self.expected_n is not None:
            if self.n is not None:
                raise InvalidInputError("expected_n is for a private number of records; here n is public")
            low, high = as_bounds(self.expected_n, "the number of records", 0, "expected_n")
            object.__setattr__(self, "expected_n", (low, high))
        if self.strata is not None and not self.column(self.strata, "strata").public:
            raise InvalidInputError("must be declared as public, or be left out", "strata", self.strata)
        if not isinstance(self.cluster, str | None):
            raise InvalidInputError("must be the name of a column", "cluster", self.cluster)
        weights = [name for name, declaration in declared.items() if isinstance(declaration, Weight)]
        if len(weights) > 1:
            raise InvalidInputError(
                f"only one column may be a Weight, not {', '.join(weights)}: replicate weights are not used, "
                "because each would need further noisy sums; declare strata and cluster instead"
            )
        if not weights and (self.strata is not None or self.cluster is not None):
            raise InvalidInputError(
                "strata and cluster describe a weighted survey: declare its column of weights; if all "
                "records have equal weight, add a column of ones and declare it with weights of at most 1"
            )

    def _check_people(self) -> None:
        if (self.person is None) != (self.per_person is None):
            raise InvalidInputError(
                "person and per_person go together: the column of a person's key, and how many of a "
                "person's records may enter"
            )
        if self.person is None:
            return
        if not isinstance(self.person, str):
            raise InvalidInputError("must be the name of a column", "person", self.person)
        object.__setattr__(self, "per_person", as_positive(self.per_person, "per_person"))
        if self.n is None:
            raise InvalidInputError(
                "needs n: a private number of records protects single records; declare n, or reduce the "
                "data to one record per person first",
                "person",
                self.person,
            )
        if not self.strict:
            raise InvalidInputError(
                "strict=False cannot be used with person: a record without its person's key cannot be "
                "counted; reduce the data to one record per person first"
            )
        if self.per_person is not None and self.per_person > 1 and self.n == PUBLIC:
            raise InvalidInputError(
                "needs a declared n, the public number of records after the bound: read from the data, it "
                "would reveal how many records a person has",
                "per_person",
                self.per_person,
            )

    def _check_sizes(self) -> None:
        if self.sizes is None:
            return
        sizes: Mapping[str, Any] = self.sizes if isinstance(self.sizes, Mapping) else {}
        public = [name for name, declaration in self.columns.items() if declaration.public]
        if not isinstance(self.sizes, Mapping) or not set(sizes) <= set(public):
            values = {v for name in public for v in self.category(name).values}
            if len(public) == 1 and isinstance(self.sizes, Mapping) and set(sizes) <= values:
                sizes = {public[0]: sizes}
            elif len(public) == 1 and isinstance(self.sizes, Sequence) and not isinstance(self.sizes, str):
                sizes = {public[0]: self.sizes}
            else:
                raise InvalidInputError(
                    "must give the number of records in each group of a public column, by its name",
                    "sizes",
                    self.sizes,
                )
        group_sizes = {}
        for column, by_group in sizes.items():
            groups = list(self.category(column, "sizes").values)
            if not isinstance(by_group, Mapping | list | tuple):
                raise InvalidInputError(f"sizes of {column!r} must name each of its groups, not {by_group!r}")
            if not isinstance(by_group, Mapping):
                if len(by_group) != len(groups):
                    raise InvalidInputError(
                        f"sizes has {len(by_group)} entries for {len(groups)} groups of {column!r}"
                    )
                by_group = dict(zip(groups, by_group, strict=True))
            if set(by_group) != set(groups):
                raise InvalidInputError(
                    f"sizes of {column!r} must name each of its groups: {', '.join(map(str, groups))}"
                )
            group_sizes[column] = MappingProxyType(
                {group: as_integer(by_group[group], "sizes") for group in groups}
            )
        if self.n is None:
            raise InvalidInputError("sizes= makes the number of records public: declare n too")
        for column, counts in group_sizes.items():
            if min(counts.values()) < 0:
                raise InvalidInputError("must be 0 or more", "sizes", self.sizes)
            if isinstance(self.n, int) and sum(counts.values()) != self.n:
                raise InvalidInputError(
                    f"sizes of {column!r} add up to {sum(counts.values())}, but n={self.n}: "
                    "correct one of them"
                )
        object.__setattr__(self, "sizes", MappingProxyType(group_sizes))

    def __hash__(self) -> int:
        return hash(self.to_json())

    # What the declarations say together.

    @property
    def hides_size(self) -> bool:
        """Whether the number of records is private."""
        return self.n is None

    @property
    def size(self) -> int | None:
        """The declared number of records; None where it is private or read from the data."""
        return self.n if isinstance(self.n, int) else None

    @property
    def relation(self) -> Relation:
        """The relation between neighbouring datasets that every answer protects."""
        if self.n is None:
            return Relation.ADD_REMOVE
        if any(column.public for _, column in self):
            return Relation.WITHIN_GROUP
        return Relation.REPLACE_ONE if self.person is None else Relation.REPLACE_PERSON

    @property
    def weight(self) -> str | None:
        """The name of the column of survey weights; None where there is none."""
        return next((name for name, column in self if isinstance(column, Weight)), None)

    def __iter__(self) -> Iterator[tuple[str, Column]]:
        return iter(self.columns.items())

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> Column:
        return self.column(name)

    def column(self, name: Any, parameter: str = "column") -> Column:
        """Return the declaration of a column.

        Parameters
        ----------
        name
            Name of the column.
        parameter
            Name of the parameter in the message.

        Returns
        -------
        Category, Number or Weight
            The declaration.

        Raises
        ------
        InvalidInputError
            If it is not declared; the message names the nearest column.

        Examples
        --------
        >>> Schema({"age": (18, 95)}).column("age")
        Number(18, 95)
        """
        if not isinstance(name, str):
            type_name = type(name).__name__  # not its value: it may be the data
            raise InvalidInputError(
                f"{parameter} must be the name of a column, such as 'age', not a {type_name}"
            )
        if name not in self.columns:
            raise InvalidInputError(
                f"is not declared in the schema{nearest(name, self.columns)}", parameter, name
            )
        column: Column = self.columns[name]
        return column

    def only(self, parameter: str = "column") -> str:
        """Return the name of the only column that is not a weight.

        Parameters
        ----------
        parameter
            Name of the parameter in the message.

        Returns
        -------
        str
            The name.

        Raises
        ------
        InvalidInputError
            If there is more than one column.

        Examples
        --------
        >>> Schema({"age": (18, 95)}).only()
        'age'
        """
        names = [name for name, column in self if not isinstance(column, Weight)]
        if len(names) != 1:
            raise InvalidInputError(f": say which column: {', '.join(names)}", parameter)
        return names[0]

    def category(self, name: str, parameter: str = "column") -> Category:
        """Return the declaration of a column that must be a category.

        Parameters
        ----------
        name
            Name of the column.
        parameter
            Name of the parameter in the message.

        Returns
        -------
        Category
            The declaration.

        Raises
        ------
        InvalidInputError
            If the column is not declared, or is not a category.

        Examples
        --------
        >>> Schema({"smoker": ["no", "yes"]}).category("smoker").values
        ('no', 'yes')
        """
        column = self.column(name, parameter)
        if isinstance(column, Number):
            raise InvalidInputError(
                f"is declared as numbers from {column.low:g} to {column.high:g}; declare it as a category, "
                "with its values",
                parameter,
                name,
            )
        if isinstance(column, Weight):
            raise InvalidInputError("is declared as a weight; name a category", parameter, name)
        return column

    def number(self, name: str, parameter: str = "column") -> Number:
        """Return the declaration of a column that must hold numbers.

        Parameters
        ----------
        name
            Name of the column.
        parameter
            Name of the parameter in the message.

        Returns
        -------
        Number
            The declaration.

        Raises
        ------
        InvalidInputError
            If the column is not declared, or does not hold numbers.

        Examples
        --------
        >>> Schema({"age": (18, 95)}).number("age").bounds
        (18.0, 95.0)
        """
        column = self.column(name, parameter)
        if not isinstance(column, Number):
            what = "a category" if isinstance(column, Category) else "a weight"
            raise InvalidInputError(
                f"is declared as {what}, not as numbers; declare its bounds, such as 0 and 100",
                parameter,
                name,
            )
        return column

    def missing(self, name: str) -> Any:
        """Return what missing values of a column count as.

        Parameters
        ----------
        name
            Name of the column.

        Returns
        -------
        object
            The declared value. If none is declared, ``"exclude"`` where ``strict`` is off and otherwise None.

        Examples
        --------
        >>> Schema({"age": (18, 95)}, strict=False).missing("age")
        'exclude'
        """
        declared = self.column(name).missing
        return EXCLUDE if declared is None and not self.strict else declared

    def domain(self, name: str, parameter: str = "column", fine: bool = False) -> Domain:
        """Return the values of a category, or the bins of a number, as the engines count them.

        Parameters
        ----------
        name
            Name of the column.
        parameter
            Name of the parameter in the message.
        fine
            Whether the bins of a number are those of quantiles.

        Returns
        -------
        Domain
            The values, with what missing and other values count as.

        Examples
        --------
        >>> Schema({"smoker": ["no", "yes"]}).domain("smoker").levels
        ('no', 'yes')
        """
        declared = self.column(name, parameter)
        if isinstance(declared, Number):
            return declared.domain(self.missing(name), fine)
        domain, missing = self.category(name, parameter).domain, self.missing(name)
        return domain if domain.missing == missing else replace(domain, missing=missing)

    def label(self, name: str) -> str:
        """Return the name of a column for readers of a report.

        Parameters
        ----------
        name
            Name of the column.

        Returns
        -------
        str
            Its label, or its name.

        Examples
        --------
        >>> Schema({"q7": Category(["no", "yes"], label="Smoker")}).label("q7")
        'Smoker'
        """
        return (self[name].label or name) if name in self else name

    def select(self, *names: str) -> Schema:
        """Return the schema of some columns only, with the facts about all records.

        Parameters
        ----------
        *names
            Names of columns.

        Returns
        -------
        Schema
            The smaller schema.

        Examples
        --------
        >>> list(Schema({"age": (18, 95), "smoker": ["no", "yes"]}, n=100).select("age").columns)
        ['age']
        """
        selected = {name: self.column(name) for name in dict.fromkeys(names)}
        sizes = {name: counts for name, counts in (self.sizes or {}).items() if name in selected} or None
        weighted = self.weight in selected
        strata = self.strata if weighted and self.strata in selected else None
        cluster = self.cluster if weighted else None
        return replace(self, columns=selected, sizes=sizes, strata=strata, cluster=cluster)

    # Forms.

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as JSON and TOML values, without those that equal their defaults.

        Returns
        -------
        dict
            The values.

        Examples
        --------
        >>> Schema({"age": (18, 95)}, n=100).to_dict()
        {'n': 100, 'columns': {'age': [18, 95]}}
        """
        rest = _rest(
            self, tuple(field.name for field in fields(self) if field.name not in ("columns", "nameless"))
        )
        sizes = {
            "sizes": {c: {str(k): v for k, v in counts.items()} for c, counts in (self.sizes or {}).items()}
        }
        return {
            **rest,
            **(sizes if self.sizes else {}),
            "columns": {name: column.to_dict() for name, column in self},
        }

    @classmethod
    def from_dict(cls, content: Any) -> Self:
        """Build a schema from what :meth:`to_dict` returned, or from the ``[schema]`` table of a study file.

        Parameters
        ----------
        content
            The values. A column with an empty list, as a template has it, is not declared.

        Returns
        -------
        Schema
            The schema.

        Raises
        ------
        InvalidInputError
            If there is no table of columns, or a key or value is not valid.

        Examples
        --------
        >>> Schema.from_dict({"n": 100, "columns": {"age": [18, 95]}}).size
        100
        """
        if not isinstance(content, Mapping) or not isinstance(content.get("columns"), Mapping):
            raise InvalidInputError(
                "a schema needs a table of columns: [schema.columns] with lines such as "
                'smoker = ["no", "yes"]'
            )
        columns = {name: value for name, value in content["columns"].items() if value != []}
        return cls(**{**content, "columns": columns})

    def to_json(self) -> str:
        """Return the schema as JSON text.

        Returns
        -------
        str
            The text.

        Examples
        --------
        >>> Schema({"age": (18, 95)}).to_json()
        '{"columns": {"age": [18, 95]}}'
        """
        return json.dumps(self.to_dict(), ensure_ascii=False, sort_keys=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what :meth:`to_json` wrote.

        Parameters
        ----------
        text
            JSON text.

        Returns
        -------
        Schema
            The schema.

        Raises
        ------
        InvalidInputError
            If the text is not a valid schema.

        Examples
        --------
        >>> Schema.from_json('{"columns": {"age": [18, 95]}}').number("age").high
        95
        """
        try:
            content = read_json(text)
        except ValueError as error:
            raise InvalidInputError(f"the schema is not valid JSON: {error}") from None
        return cls.from_dict(content)

    def to_toml(self) -> str:
        """Return the schema as the text of a TOML file.

        Returns
        -------
        str
            The text.

        Examples
        --------
        >>> print(Schema({"smoker": ["no", "yes"], "age": (18, 95)}, n=100).to_toml())
        n = 100
        <BLANKLINE>
        [columns]
        smoker = ["no", "yes"]
        age = [18, 95]
        <BLANKLINE>
        """
        content = self.to_dict()
        lines = [f"{_key(key)} = {_toml(value)}" for key, value in content.items() if key != "columns"]
        declared = [f"{_key(name)} = {_toml(value)}" for name, value in content["columns"].items()]
        return "\n".join([*lines, *([""] if lines else []), "[columns]", *declared, ""])

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read a TOML schema.

        Parameters
        ----------
        text
            TOML text with the keys of a schema and a table ``[columns]``, at the top or within ``[schema]``.

        Returns
        -------
        Schema
            The schema.

        Raises
        ------
        InvalidInputError
            If the text is not a valid schema.

        Examples
        --------
        >>> schema = Schema({"smoker": ["no", "yes"]}, n=100)
        >>> Schema.from_toml(schema.to_toml()) == schema
        True
        """
        try:
            content = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # a number of too many digits, tables within tables
            raise InvalidInputError(f"the schema is not valid TOML: {error}") from None
        return cls.from_dict(content.get("schema", content))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a schema from a file.

        Parameters
        ----------
        path
            A ``.toml`` or ``.json`` file.

        Returns
        -------
        Schema
            The schema.

        Raises
        ------
        FileError
            If the file cannot be read.
        InvalidInputError
            If it is not a valid schema.
        """
        file = Path(path)
        try:
            text = file.read_text("utf-8")
        except OSError as error:
            raise FileError(f"the schema {file.name!r} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise FileError(f"the schema {file.name!r} is not text in UTF-8") from None
        return cls.from_json(text) if file.suffix == ".json" else cls.from_toml(text)

    def __repr__(self) -> str:
        rest = tuple(field.name for field in fields(self) if field.name not in ("columns", "nameless"))
        return _show(self, [f"{dict(self.columns)!r}"], rest)

    def __str__(self) -> str:
        lines = []
        for name, column in self:
            described = repr(column)
            lines.append(f"  {name}: {described if len(described) <= 90 else described[:89] + '…'}")
        size = "private" if self.n is None else "read and published" if self.n == PUBLIC else f"{self.n:,}"
        return "\n".join([f"Schema of {len(self.columns)} columns, n {size}, {self.relation}", *lines])


def as_schema(declaration: SchemaLike) -> Schema:
    """Return a schema from a schema, a mapping of columns, a path, or the declaration of one column.

    Parameters
    ----------
    declaration
        A list of values, or a pair of numbers, stands for a schema of one column.

    Returns
    -------
    Schema
        The schema.

    Raises
    ------
    InvalidInputError
        If nothing is declared, or a declaration is not valid.

    Examples
    --------
    >>> as_schema(("no", "yes")).only()
    'value'
    >>> as_schema({"age": (18, 95)}).number("age").low
    18
    """
    if isinstance(declaration, Schema):
        return declaration
    if declaration is None:
        raise InvalidInputError(
            "schema is missing: declare what is public about the data, such as "
            "schema={'smoker': ['no', 'yes']}, "
            "or for one list of values schema=('no', 'yes')"
        )
    if isinstance(declaration, Path) or (
        isinstance(declaration, str) and declaration.endswith((".toml", ".json"))
    ):
        return Schema.load(declaration)
    if isinstance(declaration, Mapping):
        return Schema(declaration)
    return Schema({VALUE: as_column(declaration, VALUE)}, nameless=True)


def as_column(declaration: Any, name: str) -> Column:
    """Return the declaration of a column.

    Parameters
    ----------
    declaration
        A declaration, a list of values, a pair of numbers for bounds, or a mapping.
    name
        Name of the column, for the message.

    Returns
    -------
    Category, Number or Weight
        The declaration.

    Raises
    ------
    InvalidInputError
        If the declaration is not valid.

    Examples
    --------
    >>> as_column(["no", "yes"], "smoker")
    Category(['no', 'yes'])
    >>> as_column((18, 95), "age")
    Number(18, 95)
    >>> as_column({"weight": 4}, "w")
    Weight(4)
    """
    if isinstance(declaration, Category | Number | Weight):
        return declaration
    try:
        if isinstance(declaration, Mapping):
            return _from_mapping(declaration, name)
        if isinstance(declaration, str) and declaration != DISCOVER:
            raise InvalidInputError(f"{declaration!r} must be a list of values, such as ['no', 'yes']")
        if isinstance(declaration, Domain):
            return Category(declaration.levels, declaration.other, declaration.missing)
        if is_pair(declaration):
            return Number(*declaration)
        return Category(declaration)
    except InvalidInputError as error:
        raise InvalidInputError(f"column {name!r}: {error}") from None


def is_pair(declaration: Any) -> bool:
    """Return whether a shorthand is a pair of numbers, which stands for bounds.

    Parameters
    ----------
    declaration
        The shorthand.

    Returns
    -------
    bool
        Whether it is a pair of numbers.

    Examples
    --------
    >>> is_pair((18, 95)), is_pair(["no", "yes"])
    (True, False)
    """
    return (
        isinstance(declaration, list | tuple)
        and len(declaration) == 2
        and all(isinstance(v, numbers.Real) and not isinstance(v, bool) for v in declaration)
    )


def _from_mapping(declaration: Mapping[str, Any], name: str) -> Column:
    kinds = [kind for kind in _KINDS if kind in declaration]
    if len(kinds) != 1:
        raise InvalidInputError(
            f"{dict(declaration)!r} must have values=[…] for a category, low and high for numbers, or "
            "weight=… for survey weights"
        )
    column_type = _KINDS[kinds[0]]
    content = dict(declaration)
    if column_type is Weight:
        content["most"] = content.pop("weight")
    codes = content.get("values")
    if isinstance(codes, Mapping) and set(codes) == {"from", "to"}:
        content["values"] = range(as_integer(codes["from"], "from"), as_integer(codes["to"], "to") + 1)
    if column_type is Number and "high" not in content:
        raise InvalidInputError("high is missing: declare both bounds")
    return column_type(**content)


def _check_flag(value: Any, name: str) -> None:
    if not isinstance(value, bool):
        raise InvalidInputError("must be true or false", name, value)


def _check_texts(**texts: Any) -> None:
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise InvalidInputError("must be a text", name, value)


def _edges(bins: Any) -> tuple[float, ...]:
    try:
        if isinstance(bins, str):
            raise TypeError
        edges = tuple(_whole(float(edge)) for edge in bins)
    except (TypeError, ValueError):
        raise InvalidInputError(
            "must be a number of bins, or edges in increasing order", "bins", bins
        ) from None
    if len(edges) < 3 or any(not a < b for a, b in pairwise(edges)):
        raise InvalidInputError(
            "must be at least three edges in increasing order, such as (0, 18, 65)", "bins", bins
        )
    return edges


def _whole(value: float) -> float:
    """Return the number as an int where it is whole, so that JSON and TOML write it the same."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # an edge of a bin without an end; JSON has no such number
    return value if isinstance(value, str | int | float | bool) else str(value)


def _rest(thing: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields that are not at their default, as JSON values."""
    defaults = {field.name: field.default for field in fields(thing)}
    explicit = {}
    for name in names:
        value = getattr(thing, name)
        if value is not None and value != defaults[name]:
            explicit[name] = (
                [_plain(item) for item in value] if isinstance(value, tuple) else _plain_or_map(value)
            )
    return explicit


def _plain_or_map(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else _plain(value)


def _show(thing: Any, first: list[str], names: tuple[str, ...]) -> str:
    defaults = {field.name: field.default for field in fields(thing)}
    values = {name: getattr(thing, name) for name in names}
    parts = [f"{name}={_unwrap(value)!r}" for name, value in values.items() if value != defaults[name]]
    return f"{type(thing).__name__}({', '.join([*first, *parts])})"


def _unwrap(value: Any) -> Any:
    return {key: _unwrap(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _quote(name)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(str(key))} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return _quote(value) if isinstance(value, str) else json.dumps(value)
