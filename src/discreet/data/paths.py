"""Which files are meant: one, a list, a folder or those of a pattern; and that they are what they say."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

from discreet.errors import FileError

FORMATS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".json", ".jsonl", ".ndjson", ".xlsx")
MALFORMED = (
    "number of fields, quotes, or not UTF-8; a Latin-1 file is converted by: "
    "iconv -f latin1 -t utf-8 IN > OUT"
)
"""What may be wrong with a line of a text file."""


@dataclass(frozen=True)
class Glob:
    """All files that match a pattern: ``Glob("visits/2024-*.parquet")``; ``**`` stands for any folders.

    A pattern is never guessed from a path: a file called ``a[1].csv`` is that file and no other.
    """

    pattern: str


def is_files(data: Any) -> bool:
    """Whether data names files. Of a list only paths do, since text in a list is records."""
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(item, os.PathLike) for item in data)
    return isinstance(data, str | os.PathLike | Glob)


@dataclass(frozen=True)
class Files:
    label: str
    paths: tuple[Path, ...]
    ending: str
    sheet: str | None = None
    """Of an Excel workbook, where one is named: ``survey.xlsx#Wave 2``."""

    @classmethod
    def of(cls, data: Any) -> Files:
        sheet = None
        if isinstance(data, Glob):
            label = repr(str(data.pattern))
            paths = [Path(name) for name in sorted(glob(str(data.pattern), recursive=True))]
            paths = [path for path in paths if not path.is_dir()]
            if not paths:
                raise FileError(f"no file matches {label}")
        elif isinstance(data, list | tuple):
            label, paths = repr([str(path) for path in data[:3]]), list(map(Path, data))
        else:
            label, (path, sheet) = repr(str(data)), _sheet(Path(data))
            paths = [path]
            if paths[0].is_dir():
                paths = sorted(path for path in paths[0].rglob("*") if _is_part(path, paths[0]))
                if not paths:
                    raise FileError(f"{label} is a directory without data files ({' '.join(FORMATS)})")
        if len(paths) > 1:
            label += f" ({len(paths)} files)"
            if len({path.resolve() for path in paths}) < len(paths):
                raise FileError(
                    f"{label}: one file is there twice, by another name; its records would count double"
                )
        endings = {_ending(path) for path in paths}
        if len(endings) > 1:
            raise FileError(f"{label}: files of several formats; take one, such as Glob('*.parquet')")
        return cls(label, tuple(paths), endings.pop(), sheet)

    def relation(self, read: Any, **options: Any) -> Any:
        return read([literal(path) for path in self.paths], **options)


def _is_part(path: Path, folder: Path) -> bool:
    """A data file below a folder; names with a dot or underscore in front are by custom something else."""
    parts = path.relative_to(folder).parts
    return (
        not any(part.startswith((".", "_")) for part in parts)
        and path.name.lower().endswith(FORMATS)
        and path.is_file()
    )


def _sheet(path: Path) -> tuple[Path, str | None]:
    """A path, and what follows a # behind the name of an Excel file."""
    named = re.fullmatch(r"(.+?\.xlsx)#(.+)", str(path), re.IGNORECASE | re.DOTALL)
    return (path, None) if named is None or path.exists() else (Path(named[1]), named[2])


def _ending(path: Path) -> str:
    for ending in sorted(FORMATS, key=len, reverse=True):
        if path.name.lower().endswith(ending):
            return ending
    hint = ""
    if str(path).lower().endswith((".xls", ".xlsm", ".xlsb", ".ods")):
        hint = "; save it as .xlsx, or the sheet as CSV"
    raise FileError(f"{str(path)!r}: the ending is none of {' '.join(FORMATS)}{hint}")


def literal(path: Path) -> str:
    # DuckDB reads * ? [ in a path as a pattern and would open other files than the one named.
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def quoted(text: str) -> str:
    """SQL: a text as it is."""
    return "'" + text.replace("'", "''") + "'"


def start_of(path: Path, ending: str) -> bytes:
    """The first bytes of a file, once they fit its ending."""
    with path.open("rb") as file:
        start = file.read(4096)
    if (start[:4] == b"PAR1") != (ending == ".parquet"):
        if not path.stat().st_size and ending == ".parquet":
            raise FileError(f"{str(path)!r} is empty, hence not a Parquet file")
        raise FileError(f"{str(path)!r} is {'' if start[:4] == b'PAR1' else 'not '}a Parquet file")
    if ending == ".xlsx" and not start.startswith(b"PK\3\4"):
        locked = start.startswith(b"\xd0\xcf\x11\xe0")
        hint = ": it is of an older version or has a password; save it anew without" if locked else ""
        raise FileError(f"{str(path)!r} is not an .xlsx file{hint}")
    packed = ending.endswith(".gz") or ending in (".parquet", ".xlsx")
    if not packed and (b"\0" in start or start.startswith((b"\x1f\x8b", b"PK\3\4"))):
        raise FileError(f"{str(path)!r} is a binary file, not {ending} text in UTF-8")
    if ending in (".json", ".jsonl", ".ndjson"):
        start = start.lstrip()
        if start and start[:1] not in (b"[", b"{"):
            raise FileError(f"{str(path)!r} is not JSON: neither an array of records nor one record a line")
    return start
