"""Counting inside PostgreSQL and SQLite, through SQLAlchemy.

:class:`Expr` and :class:`Frame` implement the methods of narwhals that this package uses, and translate them
into one SQL statement. The code of a record depends on that record alone: text is compared by its bytes, a
value in SQLite is read by its own type rather than the declared type of its column, and no single number
makes the whole query fail.
"""

from __future__ import annotations

import json
import operator
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, partialmethod
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.parse import quote

import narwhals as nw
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from discreet._data.values import wrong_type
from discreet.errors import FileError, InvalidInputError, how_to_install

_SPELLING = (
    "write postgresql://user@host/database#table or sqlite:///file.db#table, with the name of a table or a "
    "SELECT after the #, or give a pair (SQLAlchemy engine, table)"
)
_QUERY = re.compile(r"\s*(select|with|values)\b", re.IGNORECASE)
_TYPES: dict[str, Any] = {"bool": nw.Boolean(), "int2": nw.Int16(), "int4": nw.Int32(), "int8": nw.Int64()}
_TYPES |= dict.fromkeys(("float4", "float8", "numeric"), nw.Float64())
_LARGEST, _SMALLEST = "1.7976931348623157e308", "5e-324"
_BATCH = 1 << 16
Columns = Mapping[str, Any]

# ---- addresses -------------------------------------------------------------------------------------------


def label_of(data: Any) -> str:
    """Return the database address and table, without user, password and options."""
    url, table = _parts(data) if isinstance(data, str) else (data[0].url, data[1])
    bare = sa.URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database)
    return f"{bare}#{table}"


def _parts(text: str) -> tuple[sa.URL, str]:
    address, _, table = text.partition("#")
    try:
        url = sa.make_url(address)
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidInputError(f"data are not the address of a database: {_SPELLING}") from None
    if not table.strip():
        raise InvalidInputError(f"data names a database but no table: {_SPELLING}")
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    return url, table.strip()


def _check_kind(kind: str) -> None:
    if kind not in ("postgresql", "sqlite"):
        raise InvalidInputError(
            f"{kind!r} is not a supported database: use PostgreSQL or SQLite, or copy the table into a "
            "Parquet file"
        )


def _engine(url: sa.URL) -> sa.Engine:
    options: dict[str, Any] = {"poolclass": sa.NullPool}
    _check_kind(url.get_backend_name())
    if url.get_backend_name() == "sqlite":
        path = Path(url.database or "")
        if not path.is_file():  # SQLite would make one
            raise FileError(f"{str(path)!r} cannot be read: there is no such file")
        address = f"file:{quote(str(path.absolute()))}?mode=ro"
        return sa.create_engine("sqlite://", creator=partial(sqlite3.connect, address, uri=True), **options)
    try:
        return sa.create_engine(url, **options)
    except ImportError as error:
        advice = how_to_install("postgres")
        raise InvalidInputError(f"the driver {error.name} is not installed: {advice}") from None


@contextmanager
def _connected(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Yield a read-only connection, which on PostgreSQL sees one snapshot of the tables."""
    # SQLAlchemy remembers the columns of a statement, also when the table has others by now.
    options: dict[str, Any] = {"compiled_cache": None}
    if engine.dialect.name == "postgresql":
        options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with engine.connect() as connection:
        connection = connection.execution_options(**options)
        yield connection


def open_database(data: Any) -> Frame:
    """Open a table or query as a frame; only the names and types of its columns are read."""
    if isinstance(data, str):
        url, what = _parts(data)
        engine = _engine(url)
    else:
        engine, what = data
        _check_kind(engine.dialect.name)
    if isinstance(what, str) and _QUERY.match(what):
        text = what.rstrip().removesuffix(";").replace(":", r"\:")  # no colon marks a parameter
        source: Any = sa.text(text).columns().subquery("q")
    elif isinstance(what, str):
        schema, _, name = what.rpartition(".")
        source = sa.table(name, schema=schema or None).alias("q")
    elif isinstance(what, sa.Table):
        source = what.alias("q")
    elif isinstance(what, sa.SelectBase):
        source = what.subquery("q")
    else:
        raise InvalidInputError(f"data must name a table, or contain a SELECT: {_SPELLING}")
    try:
        with _connected(engine) as connection:
            columns: dict[str, Any]
            names = list(connection.execute(sa.select(sa.text("*")).select_from(source).limit(0)).keys())
            quoted = map(engine.dialect.identifier_preparer.quote_identifier, names)
            columns = {
                name: sa.literal_column(f"q.{label}") for name, label in zip(names, quoted, strict=True)
            }
            if len(columns) < len(names):
                raise InvalidInputError("the table cannot be read; are its column names unique?")
            postgres = engine.dialect.name == "postgresql"
            types = _types(connection, source, columns) if postgres else [None] * len(names)
    except sa.exc.SQLAlchemyError as error:
        # Before any record is read. The name of the error says what is wrong, without a word of the database.
        kind = type(getattr(error, "orig", None) or error).__name__
        raise InvalidInputError(
            f"the table or query cannot be opened ({kind}; details withheld): see the address of the "
            "database, what its user may read, and the names of table and columns"
        ) from None
    return Frame(engine, source, columns, dict(zip(names, types, strict=True)))


def _types(connection: sa.Connection, source: Any, columns: Columns) -> list[Any]:
    """Return the PostgreSQL type of each column, as a name; of a domain, its base type."""
    nothing = sa.table("pg_database", schema="pg_catalog").alias("d").outerjoin(source, sa.false())
    kinds = [sa.cast(sa.func.pg_typeof(column), postgresql.OID) for column in columns.values()]
    oids = connection.execute(sa.select(*kinds).select_from(nothing).limit(1)).one()
    found = connection.execute(
        sa.text(
            "SELECT t.oid, CASE WHEN t.typcategory IN ('S', 'E') THEN 'text' ELSE coalesce(b.typname, "
            "t.typname) END FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype"
        )
    )
    names = {int(oid): str(name) for oid, name in found}
    return [names[int(oid)] for oid in oids]


# ---- expressions and frames ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Expr:
    """An expression with the methods of a narwhals expression, which is translated to SQL."""

    words: ClassVar[Any]
    of: Callable[[Frame], Any]
    name: str = ""

    def _with(self, symbol: Callable[[Any, Any], Any], other: Any) -> Expr:
        return Expr(lambda frame: symbol(self.of(frame), _element(other, frame)), self.name)

    __eq__ = partialmethod(_with, operator.eq)
    __lt__ = partialmethod(_with, operator.lt)
    __le__ = partialmethod(_with, operator.le)
    __gt__ = partialmethod(_with, operator.gt)
    __ge__ = partialmethod(_with, operator.ge)
    __or__ = partialmethod(_with, operator.or_)
    __add__ = partialmethod(_with, operator.add)
    __sub__ = partialmethod(_with, operator.sub)
    __rsub__ = partialmethod(_with, lambda own, other: other - own)
    __mul__ = partialmethod(_with, operator.mul)
    __floordiv__ = partialmethod(_with, lambda own, other: own.op("/", 8, return_type=sa.BigInteger())(other))
    __mod__ = partialmethod(_with, operator.mod)

    def __truediv__(self, divisor: float) -> Expr:
        """Divide by a positive double; tiny quotients become 0, because PostgreSQL fails on underflow."""
        least = sa.literal(divisor * 2.0**-1000, sa.Double)

        def quotient(frame: Frame) -> Any:
            own = self.of(frame)
            divided = own.op("/", 8, return_type=sa.Double())(sa.literal(divisor, sa.Double))
            if not frame.postgres:
                return divided
            return sa.case((sa.func.abs(own) < least, sa.literal(0.0, sa.Double)), else_=divided)

        return Expr(quotient)

    def _call(self, made: Callable[[Any], Any]) -> Expr:
        return Expr(lambda frame: made(self.of(frame)), self.name)

    def alias(self, name: str) -> Expr:
        return replace(self, name=name)

    def is_null(self) -> Expr:
        return self._call(lambda own: own.is_(None))

    def is_nan(self) -> Expr:
        return Expr(lambda frame: self.of(frame) == _NAN if frame.postgres else sa.false())

    def is_in(self, values: Sequence[Any]) -> Expr:
        return Expr(lambda frame: self.of(frame).in_([_element(value, frame) for value in values]))

    def cast(self, dtype: Any) -> Expr:
        kinds: dict[Any, Any] = {nw.Int64: sa.BigInteger(), nw.Float64: sa.Double(), nw.String: sa.Text()}
        return self._call(lambda own: _cast(own, kinds[dtype]))

    def floor(self) -> Expr:
        def floor(frame: Frame) -> Any:
            own = self.of(frame)
            if frame.postgres:
                return sa.func.floor(own, type_=sa.Double())
            whole = sa.cast(own, sa.BigInteger)  # SQLite drops what is behind the point
            return sa.cast(whole - sa.case((own < whole, 1), else_=0), sa.Double)

        return Expr(floor)

    def sum(self) -> Expr:
        return self._call(sa.func.sum)

    def cum_sum(self) -> Window:
        return Window(self, sa.func.sum)

    def cum_count(self) -> Window:
        return Window(self, sa.func.count)

    @property
    def str(self) -> Any:
        return SimpleNamespace(
            strip_chars=lambda marks: Expr(
                lambda frame: (sa.func.btrim if frame.postgres else sa.func.trim)(self.of(frame), marks)
            ),
            to_lowercase=lambda: self._call(sa.func.lower),
        )


@dataclass(frozen=True)
class Window:
    """A running total within a group."""

    value: Expr
    total: Callable[[Any], Any]

    def over(self, group: str, *, order_by: str | Sequence[str]) -> Expr:
        order = [order_by] if isinstance(order_by, str) else order_by

        def running(frame: Frame) -> Any:
            first = self.total(self.value.of(frame))
            places = [frame.columns[name] for name in order]
            return first.over(partition_by=frame.columns[group], order_by=places, rows=(None, 0))

        return Expr(running)


_NAN = sa.cast(sa.literal("NaN", sa.Text), sa.Double)


def _element(value: Any, frame: Frame) -> Any:
    if isinstance(value, Expr):
        return value.of(frame)
    if isinstance(value, bool):
        return sa.literal(value)
    if isinstance(value, str) and not frame.can_hold(value):
        return sa.null()
    return sa.literal(value, {int: sa.BigInteger, float: sa.Double}.get(type(value), sa.Text))


def _cast(value: Any, kind: Any) -> Any:
    if isinstance(value.type, sa.Boolean):
        return sa.case((value, 1), (sa.not_(value), 0))
    return sa.cast(value, kind)


def col(name: str) -> Expr:
    return Expr(lambda frame: frame.columns[name], name)


def lit(value: Any) -> Expr:
    return Expr(partial(_element, value))


def count() -> Expr:
    return Expr(lambda frame: sa.func.count(), "len")


@dataclass(frozen=True, eq=False)
class Branch(Expr):
    """A conditional value: ``yes`` if the condition is true, otherwise the argument of :meth:`otherwise`."""

    condition: Any = None
    yes: Any = None

    def otherwise(self, no: Any) -> Expr:
        def whole(frame: Frame) -> Any:
            first, other = (self.condition.of(frame), _element(self.yes, frame)), _element(no, frame)
            if isinstance(other, sa.Case):  # no chain is deep
                return sa.case(first, *other.whens, else_=other.else_)
            return sa.case(first, else_=other)

        return Expr(whole)


def when(condition: Expr) -> Any:
    def then(yes: Any) -> Branch:
        return Branch(
            lambda frame: sa.case((condition.of(frame), _element(yes, frame))), condition=condition, yes=yes
        )

    return SimpleNamespace(then=then)


Expr.words = SimpleNamespace(
    col=col, lit=lit, len=count, when=when, Int64=nw.Int64, Float64=nw.Float64, String=nw.String,
    Boolean=nw.Boolean, Categorical=nw.Categorical, Enum=nw.Enum, Unknown=nw.Unknown,
)  # fmt: skip


class Types(dict[str, Any]):
    """The names of columns, and their types if known."""

    def names(self) -> list[str]:
        return list(self)


@dataclass(frozen=True)
class Frame:
    """A query with the methods of a narwhals frame; ``columns`` are those of its source, with ``types``."""

    words: ClassVar[Any] = Expr.words
    implementation: ClassVar[nw.Implementation] = nw.Implementation.UNKNOWN
    engine: sa.Engine
    source: Any
    columns: Columns
    types: Mapping[str, Any]

    @property
    def postgres(self) -> bool:
        return bool(self.engine.dialect.name == "postgresql")

    def exact(self, value: Any) -> Any:
        """Return a text expression that is compared by its bytes."""
        return sa.collate(sa.cast(value, sa.Text), "C" if self.postgres else "BINARY")

    def can_hold(self, text: str) -> bool:
        """Return whether the database can store this text."""
        try:
            return not (self.postgres and "\0" in text) and bool(text.encode() or True)
        except UnicodeEncodeError:  # half a character
            return False

    def to_native(self) -> Frame:
        return self

    def collect_schema(self) -> Types:
        return Types(self.types)

    def collect(self) -> Frame:
        return self

    def rows(self) -> list[tuple[Any, ...]]:
        """Run the query and return all rows."""
        with _connected(self.engine) as connection:
            # What SQLite makes bytes of text depends on the file.
            own = "utf-8" if self.postgres else connection.exec_driver_sql("PRAGMA encoding").scalar_one()
            return [tuple(_decoded(value, own) for value in row) for row in connection.execute(self._query())]

    def batches(self) -> Iterator[list[Any]]:
        """Run the query and yield blocks of rows of integers, as arrays of columns."""
        import numpy as np

        with _connected(self.engine) as connection:
            streamed = connection.execution_options(yield_per=_BATCH).execute(self._query())
            for part in streamed.partitions():
                yield list(np.array([tuple(row) for row in part], dtype=np.int64).T)

    def _query(self, *elements: Any) -> Any:
        return sa.select(*(elements or self.columns.values())).select_from(self.source)

    def _next(self, query: Any, types: Mapping[str, Any] | None = None) -> Frame:
        made = query.cte()  # one behind another, which takes no depth of SQLite's parser
        return Frame(self.engine, made, dict(made.c), types or dict.fromkeys(made.c.keys()))

    def _labelled(self, expressions: Iterable[Any], named: Mapping[str, Expr]) -> list[Any]:
        given = [col(one) if isinstance(one, str) else one for one in expressions]
        return [
            one.of(self).label(name) for name, one in [*((one.name, one) for one in given), *named.items()]
        ]

    def select(self, *expressions: Any, **named: Expr) -> Frame:
        return self._next(self._query(*self._labelled(expressions, named)))

    def with_columns(self, **named: Expr) -> Frame:
        kept = (name for name in self.columns if name not in named)
        return self.select(*kept, **named)

    def filter(self, condition: Expr) -> Frame:
        return self._next(self._query().where(condition.of(self)))

    def group_by(self, *names: str) -> Any:
        def agg(*expressions: Expr) -> Frame:
            keys = [self.columns[name] for name in names]
            return self._next(self._query(*keys, *self._labelled(expressions, {})).group_by(*keys))

        return SimpleNamespace(agg=agg)

    # ---- values by their types ----

    def typed(self, chosen: Mapping[str, str]) -> Frame:
        """Return columns under new names, in the form that coders expect.

        In SQLite each value has its own type, so there is a column for each type.
        """
        elements, types = dict[str, Any](), dict[str, Any]()
        for label, name in chosen.items():
            made = self._typed(name) if self.postgres else self._dynamic(name, label == "person")
            for (ending, dtype), element in made.items():
                elements[label + ending], types[label + ending] = element, dtype
        return self._next(self._query(*(made.label(name) for name, made in elements.items())), types)

    def _typed(self, name: str) -> dict[tuple[str, Any], Any]:
        value, kind = self.columns[name], self.types[name]
        if kind == "text":
            return {("", nw.String()): self.exact(value)}
        if kind not in _TYPES:
            raise wrong_type(kind)
        dtype = _TYPES[kind]
        if kind == "numeric":  # one without a double is an error of PostgreSQL's
            ends = [(value == _numeric("NaN"), "NaN"), (value > _numeric(_LARGEST), "Infinity"),
                    (value < _numeric(f"-{_LARGEST}"), "-Infinity"),
                    (sa.func.abs(value) < _numeric(_SMALLEST), "0")]  # fmt: skip
            doubles = ((beyond, sa.cast(sa.literal(end, sa.Text), sa.Double)) for beyond, end in ends)
            value = sa.case(*doubles, else_=sa.cast(value, sa.Double))
        sql_type = {nw.Boolean(): sa.Boolean(), nw.Float64(): sa.Double()}.get(dtype, sa.BigInteger())
        return {("", dtype): sa.cast(value, sql_type)}

    def _dynamic(self, name: str, person: bool) -> dict[tuple[str, Any], Any]:
        value = self.columns[name]
        kind, text = sa.func.typeof(value), sa.cast(value, sa.Text)
        is_text, is_whole = kind.in_(["text", "blob"]), kind == "integer"
        if person:
            whole = sa.literal("whole:") + text
            key = sa.case((is_whole, whole), (is_text, sa.literal("text:") + text))
            return {("", nw.String()): self.exact(key)}
        kinds = sa.case((is_whole, "whole"), (is_text, "text"), else_=kind)
        return {
            ("_kind", nw.String()): kinds,
            ("_text", nw.String()): self.exact(sa.case((is_text, text))),
            ("_whole", nw.Int64()): sa.case((is_whole, sa.type_coerce(value, sa.BigInteger))),
            ("_real", nw.Float64()): sa.case((is_text, None), else_=sa.cast(value, sa.Double)),
        }

    def values(self, names: Sequence[str]) -> Frame:
        """Return columns of Python values; text in SQLite is returned as bytes, as it may not be UTF-8."""
        plain = {}
        for i, name in enumerate(names):
            if self.postgres:
                ((_, plain[f"v{i}"]),) = self._typed(name).items()
                continue
            value = self.columns[name]
            is_text = sa.func.typeof(value).in_(["text", "blob"])
            bare = sa.case((is_text, sa.cast(value, sa.LargeBinary)), else_=value)
            plain[f"v{i}"] = sa.type_coerce(bare, sa.types.NullType())
        return self._next(self._query(*(made.label(name) for name, made in plain.items())))

    def with_places(self, name: str, value: Expr, wanted: Mapping[Any, int], whole: bool) -> Frame:
        """Add a column with the position of each value among the levels, by a join with a table of levels."""
        storable = {str(level): i for level, i in wanted.items() if whole or self.can_hold(level)}
        given = sa.literal(json.dumps(storable, ensure_ascii=False), sa.Text)
        table = sa.func.json_each(sa.cast(given, sa.JSON) if self.postgres else given)
        pair = table.table_valued("key", "value").c
        level: Any = pair.key
        own = value.of(self)
        level, own = (sa.cast(level, sa.BigInteger), own) if whole else (self.exact(level), self.exact(own))
        place = sa.func.min(sa.cast(sa.cast(pair.value, sa.Text), sa.BigInteger))
        unique = sa.select(level.label("level"), place.label("place")).group_by(sa.text("1")).subquery()
        kept = (column for column in self.columns if column != name)
        joined = self.source.outerjoin(unique, own == unique.c.level)
        query = sa.select(*self._labelled(kept, {}), unique.c.place.label(name)).select_from(joined)
        return self._next(query)


def _numeric(text: str) -> Any:
    return sa.cast(sa.literal(text, sa.Text), sa.Numeric)


def _decoded(value: Any, encoding: str) -> Any:
    return value.decode(encoding, "backslashreplace") if isinstance(value, bytes) else value
