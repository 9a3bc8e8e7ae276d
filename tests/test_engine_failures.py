"""An engine's own failure is tried once more where that is honest, and is never blamed on the data."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import discreet
import shorthand
from discreet._cli import main
from discreet._data import (
    clipped_sum,
    contingency,
    count_codes,
    count_levels,
    engines,
    read_rows,
    rows,
    sql,
)
from discreet._data.guard import redact_errors
from discreet._data.withheld import fetch, ours
from discreet._declarations import Domain
from discreet._randomness.entropy import SeededEntropy
from discreet._studio.shell import problem
from discreet.errors import DataError, EngineFailure, FileError
from discreet.regression._newton import records as newton
from discreet.regression._newton.fit import regression
from shorthand import count_bins, mean_request
from workbooks import workbook

MARK = "Zyx7secret"
LEVELS = Domain(("no", "yes"))
LEVELS_OF_PEOPLE = Domain(("a", "b", "c"))
RECORDS = [("no", 30, "a"), ("yes", 40, "b"), ("no", 50, "c")] * 20
NAMES = ("smoker", "age", "person")
TABLE = {name: [record[i] for record in RECORDS] for i, name in enumerate(NAMES)}

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::discreet.errors.{name}")
    for name in ("NoiseWarning", "PrivacyWarning")
]


def _text(mark: str = ",") -> bytes:
    return "".join(mark.join(map(str, row)) + "\n" for row in (NAMES, *RECORDS)).encode()


def _parquet(path: Path) -> Any:
    pl.DataFrame(TABLE).write_parquet(path)
    return path


def _written(content: bytes) -> Callable[[Path], Any]:
    def write(path: Path) -> Any:
        path.write_bytes(content)
        return path

    return write


OBJECTS = [dict(zip(NAMES, record, strict=True)) for record in RECORDS]
SOURCES: dict[str, Callable[[Path], Any]] = {
    "t.parquet": _parquet,
    "t.csv": _written(_text()),
    "t.tsv": _written(_text("\t")),
    "t.csv.gz": _written(gzip.compress(_text(), mtime=0)),
    "t.json": _written(json.dumps(OBJECTS).encode()),
    "t.jsonl": _written("\n".join(map(json.dumps, OBJECTS)).encode()),
    "t.xlsx": lambda path: workbook(path, {"sheet": [NAMES, *RECORDS]}),
    "arrow": lambda path: pa.table(TABLE),
}
QUERIED = {"rows", "codes"}  # by a query, which JSON files do not take
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "levels": lambda data: count_levels(data, LEVELS, column="smoker"),
    "levels per person": lambda data: count_levels(
        data, LEVELS, column="smoker", person="person", per_person=1
    ),
    "bins": lambda data: count_bins(data, edges=(0, 35, 45, 60), column="age"),
    "sum": lambda data: clipped_sum(data, bounds=(0, 100), column="age"),
    "table": lambda data: contingency(data, {"smoker": LEVELS, "person": LEVELS_OF_PEOPLE}).tolist(),
    "mean": lambda data: mean_request(column="age", bounds=(0, 100), epsilon=1).read(data),
    "rows": lambda data: sorted(read_rows(data, ["smoker", "age"])),
    "codes": lambda data: count_codes(data, range(20, 60), "age"),
}
PAIRS = [
    (name, question)
    for name in SOURCES
    for question in QUESTIONS
    if not ("json" in name and question in QUERIED)
]


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Makes the engine fail by itself the first times that it is asked, and counts how often it is."""

    def plant(times: int, error: BaseException | None = None) -> list[int]:
        asked = [0]

        @redact_errors
        def failing(aggregate: Any) -> list[tuple[Any, ...]]:
            asked[0] += 1
            if asked[0] <= times:
                raise duckdb.InternalException(f"INTERNAL Error: {MARK}") if error is None else error
            return fetch(aggregate)

        for module in (engines, rows, newton):
            monkeypatch.setattr(module, "fetch", failing)
        return asked

    return plant


def _is_honest(failure: EngineFailure, engine: str, version: str) -> None:
    assert f"{engine} {version} failed" in str(failure)
    assert "nothing was counted or charged" in str(failure)
    assert "install another version" in str(failure)
    assert MARK not in str(failure)
    assert "well-formed" not in str(failure)
    assert failure.__cause__ is None
    assert failure.__context__ is None


class TestFilesAndTablesThatWeOpen:
    @pytest.mark.parametrize(("name", "question"), PAIRS)
    def test_one_failure_gives_the_right_answer(
        self, name: str, question: str, fails: Callable[..., list[int]], tmp_path: Path
    ) -> None:
        data = SOURCES[name](tmp_path / name)
        right = QUESTIONS[question](data)
        fails(1)
        assert QUESTIONS[question](data) == right

    @pytest.mark.parametrize(("name", "question"), PAIRS)
    def test_two_failures_are_the_engines(
        self, name: str, question: str, fails: Callable[..., list[int]], tmp_path: Path
    ) -> None:
        data = SOURCES[name](tmp_path / name)
        asked = fails(2)
        with pytest.raises(EngineFailure, match="twice") as caught:
            QUESTIONS[question](data)
        _is_honest(caught.value, "DuckDB", duckdb.__version__)
        assert asked == [2]
        assert (name in str(caught.value)) == (name != "arrow")
        assert (caught.value.engine, caught.value.kind) == ("duckdb", "InternalException")

    def test_fatal_failures_too(self, fails: Callable[..., list[int]], tmp_path: Path) -> None:
        path = _parquet(tmp_path / "t.parquet")
        fails(1, duckdb.FatalException(MARK))
        assert count_levels(path, LEVELS, column="smoker") == (40, 20)

    def test_before_any_query(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        path, real, asked = _parquet(tmp_path / "t.parquet"), duckdb.connect, [0]

        def failing(*arguments: Any, **options: Any) -> Any:
            asked[0] += 1
            if asked[0] == 1:
                raise duckdb.InternalException(MARK)
            return real(*arguments, **options)

        monkeypatch.setattr(duckdb, "connect", failing)
        assert count_levels(path, LEVELS, column="smoker") == (40, 20)
        asked[0] = 0
        assert count_levels(pa.table(TABLE), LEVELS, column="smoker") == (40, 20)
        asked[0] = 0
        assert sql("SELECT count(*) FROM t", t=path).fetchall() == [(60,)]

    def test_a_ledger_is_charged_for_an_answer_alone(
        self, fails: Callable[..., list[int]], tmp_path: Path
    ) -> None:
        path = _parquet(tmp_path / "t.parquet")
        with discreet.Ledger(tmp_path / "book.db") as book:
            book.create("survey", epsilon=1)
            charged = {"ledger": book, "dataset": "survey", "epsilon": "0.5"}
            fails(2)
            with pytest.raises(EngineFailure):
                shorthand.shares(path, levels=("no", "yes"), column="smoker", **charged)
            assert book.show("survey").spent.epsilon == 0
            fails(1)
            shorthand.shares(path, levels=("no", "yes"), column="smoker", **charged)
            assert book.show("survey").spent.epsilon == 0.5

    def test_the_command_line_and_the_studio_say_it(
        self, fails: Callable[..., list[int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = _parquet(tmp_path / "t.parquet")
        schema = tmp_path / "schema.toml"
        schema.write_text(discreet.Schema({"smoker": ("no", "yes")}).to_toml())
        asked = ["proportions", str(path), str(schema), "smoker", "--epsilon", "1"]
        fails(2)
        with pytest.raises(SystemExit) as ended:
            main(asked)
        said = capsys.readouterr().err
        assert ended.value.code == 70
        assert "DuckDB" in said
        assert MARK not in said
        status, title, *_ = problem(ours(duckdb.InternalException(MARK)))
        assert (status, title) == (503, "The engine failed")


class TestWhatWasOpenBefore:
    """It may give its records only once, so that a second look could count fewer, and say nothing of it."""

    def test_a_relation_is_not_read_again(self, fails: Callable[..., list[int]]) -> None:
        own = duckdb.connect().from_arrow(pa.table(TABLE))
        asked = fails(1)
        with pytest.raises(EngineFailure) as caught:
            count_levels(own, LEVELS, column="smoker")
        _is_honest(caught.value, "DuckDB", duckdb.__version__)
        assert asked == [1]
        assert "twice" not in str(caught.value)

    def test_an_iterator_is_not_resumed(self) -> None:
        class Once:
            def __init__(self) -> None:
                self.left = ["no"] * 10

            def __iter__(self) -> Iterator[str]:
                return self

            def __next__(self) -> str:
                if not self.left:
                    raise StopIteration
                if len(self.left) == 5:
                    self.left.pop()
                    raise duckdb.InternalException(MARK)
                return self.left.pop()

        with pytest.raises(EngineFailure):
            count_levels(Once(), LEVELS)

    def test_a_panic_of_polars(self, fails: Callable[..., list[int]]) -> None:
        asked = fails(1, pl.exceptions.PanicException(MARK))
        with pytest.raises(EngineFailure) as caught:
            count_levels(pl.DataFrame(TABLE).lazy(), LEVELS, column="smoker")
        _is_honest(caught.value, "Polars", pl.__version__)
        assert asked == [1]

    def test_spark(self) -> None:
        pyspark = pytest.importorskip("pyspark")
        from py4j.protocol import Py4JNetworkError
        from pyspark.errors import PySparkException

        own = PySparkException(MARK, errorClass="INTERNAL_ERROR", messageParameters={})
        for error in (own, Py4JNetworkError(MARK)):
            failure = ours(error)
            assert isinstance(failure, EngineFailure)
            _is_honest(failure, "Spark", pyspark.__version__)
        other = PySparkException(MARK, errorClass="CAST_INVALID_INPUT", messageParameters={})
        assert not isinstance(ours(other), EngineFailure)


class TestMalformedFiles:
    def test_a_malformed_file_has_its_own_message(self, tmp_path: Path) -> None:
        path = _written(_text() + f"no,{MARK},3,4,5\n".encode())(tmp_path / "t.csv")
        with pytest.raises(FileError, match=r"not a well-formed \.csv file: see line 62 ") as caught:
            count_levels(path, LEVELS, column="smoker")
        assert MARK not in str(caught.value)

    @pytest.mark.parametrize("ending", ["csv", "csv.gz"])
    def test_text_that_is_not_utf8_is_located_whatever_the_engine_says(
        self, ending: str, fails: Callable[..., list[int]], tmp_path: Path
    ) -> None:
        """Of such a file DuckDB 1.5 fails by an error of its own, and 2.0 names the line."""
        lines = _text() + b"x" * (3 << 20) + b"\n"
        content = lines + b"\xe9" + MARK.encode() + b"\n"
        path = tmp_path / f"t.{ending}"
        path.write_bytes(gzip.compress(content, mtime=0) if ending.endswith("gz") else content)
        fails(2)
        number = lines.count(b"\n") + 1
        with pytest.raises(FileError, match=f"see line {number} ") as caught:
            count_levels(path, LEVELS, column="smoker")
        assert MARK not in str(caught.value)

    @pytest.mark.parametrize(
        "said",
        [
            "Invalid Input Error: CSV Error on Line: 62\nOriginal Line: 1,Zyx7secret\nInvalid unicode",
            "Conversion Error: CSV Error on Line: 62\nOriginal Line: 1,Zyx7secret",
        ],
    )
    def test_a_line_that_the_engine_names(
        self, said: str, fails: Callable[..., list[int]], tmp_path: Path
    ) -> None:
        fails(1, duckdb.InvalidInputException(said))
        with pytest.raises(FileError, match="see line 62 ") as caught:
            count_levels(SOURCES["t.csv"](tmp_path / "t.csv"), LEVELS, column="smoker")
        assert MARK not in str(caught.value)

    @pytest.mark.parametrize("kind", ["ParserException", "ConversionException", "IOException", "Error"])
    def test_errors_about_the_data_are_not_tried_again(
        self, kind: str, fails: Callable[..., list[int]], tmp_path: Path
    ) -> None:
        asked = fails(1, getattr(duckdb, kind)(MARK))
        with pytest.raises(FileError, match="not a well-formed"):
            count_levels(_parquet(tmp_path / "t.parquet"), LEVELS, column="smoker")
        assert asked == [1]


class TestRegressions:
    """Records that do not fit in memory are read again in every round, on the connection of the first."""

    ASKED: ClassVar = {
        "epsilon": 4,
        "delta": 1e-6,
        "bounds": {"age": (20, 60)},
        "levels": {"smoker": ("no", "yes")},
    }

    @pytest.fixture
    def path(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        monkeypatch.setattr(newton, "_KEPT_BYTES", 0)
        generator = np.random.default_rng(1)
        ages = generator.integers(20, 60, 2000)
        smokers = np.where(generator.random(2000) < (ages - 10) / 60, "yes", "no")
        path = tmp_path / "t.parquet"
        pl.DataFrame({"smoker": smokers, "age": ages}).write_parquet(path)
        return path

    def plant(self, monkeypatch: pytest.MonkeyPatch, failing: Callable[[int], bool]) -> list[int]:
        """Batches of records that an engine does not hand over, by their number."""
        real, asked = newton.records, [0]

        def batch(*arguments: Any) -> Any:
            asked[0] += 1
            if failing(asked[0]):
                raise duckdb.InternalException(MARK)
            return real(*arguments)

        monkeypatch.setattr(newton, "records", batch)
        return asked

    def fit(self, path: Path) -> Any:
        asked = regression("smoker ~ age", family="binomial", **self.ASKED)
        return asked.fit(path, source=SeededEntropy(5)).to_json()

    def test_any_one_failure_gives_the_same_sums(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        right = self.fit(path)
        batches = self.plant(monkeypatch, lambda number: False)
        assert self.fit(path) == right
        for at in range(1, batches[0] + 1):
            monkeypatch.undo()
            monkeypatch.setattr(newton, "_KEPT_BYTES", 0)
            self.plant(monkeypatch, lambda number, at=at: number == at)
            assert self.fit(path) == right

    def test_failing_on(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        for first in (1, 2):
            self.plant(monkeypatch, lambda number, first=first: number >= first)
            with pytest.raises(EngineFailure, match="twice") as caught:
                self.fit(path)
            assert "t.parquet" in str(caught.value)
            assert MARK not in str(caught.value)

    def test_records_that_changed(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        def fail_and_cut(number: int) -> bool:
            if number == 2:
                pl.read_parquet(path).head(1000).write_parquet(path)
            return number == 2

        self.plant(monkeypatch, fail_and_cut)
        with pytest.raises(DataError, match="changed while they were read"):
            self.fit(path)

    def test_a_relation_is_not_read_again(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        asked = self.plant(monkeypatch, lambda number: number == 2)
        with pytest.raises(EngineFailure) as caught:
            self.fit(duckdb.connect().read_parquet(str(path)))
        assert asked == [2]
        assert "twice" not in str(caught.value)
