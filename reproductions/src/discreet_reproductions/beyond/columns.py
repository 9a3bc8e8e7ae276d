"""The columns of the study: categorical columns of public data, with declared levels.

With a data folder they come from the General Social Survey extract (``gss_cat.csv.gz``), the NIST excerpt of
the American Community Survey 2019 (``acs_national2019.csv.gz``), UCI Adult (``adult_train.csv.gz``) and the
counts of the papers' own real-data experiment (``hellinger_study_counts.csv``). Without one they are columns
that scikit-learn brings along. Levels are declared here, not read from the data.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import FileError

__all__ = ["COUNTS_FILE", "SURVEYS", "Column", "bundled_columns", "survey_columns"]


@dataclass(frozen=True)
class Column:
    """A categorical column: where it is from, and how many records are in each declared level."""

    source: str
    name: str
    counts: tuple[int, ...]

    @property
    def n(self) -> int:
        return sum(self.counts)


def _numbers(first: int, last: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(first, last + 1))


SURVEYS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "gss_cat.csv.gz": {
        "race": ("White", "Black", "Other"),
        "partyid": (
            "Strong democrat",
            "Not str democrat",
            "Ind,near dem",
            "Independent",
            "Ind,near rep",
            "Not str republican",
            "Strong republican",
            "Other party",
            "Don't know",
            "No answer",
        ),
        "relig": (
            "Protestant",
            "Catholic",
            "None",
            "Christian",
            "Jewish",
            "Other",
            "Buddhism",
            "Inter-nondenominational",
            "Moslem/islam",
            "Orthodox-christian",
            "Hinduism",
            "Other eastern",
            "Native american",
            "Don't know",
            "No answer",
        ),
    },
    "acs_national2019.csv.gz": {
        "EDU": ("N", *_numbers(1, 12)),
        "DEYE": _numbers(1, 2),
        "OWN_RENT": _numbers(0, 2),
    },
    "adult_train.csv.gz": {
        "income": ("<=50K", ">50K"),
        "relationship": ("Husband", "Wife", "Own-child", "Not-in-family", "Other-relative", "Unmarried"),
    },
}
COUNTS_FILE = "hellinger_study_counts.csv"
BODY_MASS = (18.5, 25.0, 30.0)
"""Bounds of the classes of the body mass index in common use."""


def survey_columns(folder: Path, most: int | None = None) -> list[Column]:
    """The columns of the data folder; a missing file is an error that says so."""
    columns = []
    for file, wanted in SURVEYS.items():
        chosen = dict(list(wanted.items())[:most])
        found = _tallies(_opened(folder, file), chosen, file)
        columns += [Column(file.split("_")[0], name, found[name]) for name in chosen]
    with _opened(folder, COUNTS_FILE) as text:
        rows = list(csv.DictReader(text))
    try:
        listed = [
            Column("papers", row["dataset"], tuple(int(row[f"count_{i}"]) for i in range(int(row["levels"]))))
            for row in rows
        ]
    except (KeyError, ValueError):
        raise FileError(
            f"{COUNTS_FILE!r} must have the columns dataset, levels, count_0, count_1, …"
        ) from None
    return columns + listed[:most]


def _opened(folder: Path, file: str) -> Any:
    path = folder / file
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8", newline="")
        return path.open(encoding="utf-8", newline="")
    except OSError:
        raise FileError(
            f"--data: {file!r} cannot be read from {str(folder)!r}; the study needs "
            f"{', '.join([*SURVEYS, COUNTS_FILE])} (without --data it takes bundled columns)"
        ) from None


def _tallies(text: Any, wanted: Mapping[str, tuple[str, ...]], file: str) -> dict[str, tuple[int, ...]]:
    """Records in each declared level of the wanted columns; values of no level are refused."""
    with text:
        reader = csv.DictReader(text)
        try:
            missing = [name for name in wanted if name not in (reader.fieldnames or ())]
            if missing:
                raise FileError(f"{file!r} has no column {missing[0]!r}")
            places = {name: {level: i for i, level in enumerate(levels)} for name, levels in wanted.items()}
            tallies = {name: [0] * len(levels) for name, levels in wanted.items()}
            for row in reader:
                for name, place in places.items():
                    if row[name] not in place:
                        raise FileError(f"{file!r}, column {name!r}: {row[name]!r} is not a declared level")
                    tallies[name][place[row[name]]] += 1
        except (OSError, EOFError, UnicodeDecodeError, csv.Error):
            raise FileError(f"{file!r} is damaged: it cannot be read to its end") from None
    return {name: tuple(tally) for name, tally in tallies.items()}


def bundled_columns(most: int | None = None) -> list[Column]:
    """Columns of the data sets that are installed with scikit-learn; ``most`` 1 takes two of them."""
    from sklearn import datasets

    labels = {name: getattr(datasets, f"load_{name}") for name in ("breast_cancer", "digits", "wine")}
    columns = [
        Column("sklearn", f"{name} label", tuple(np.bincount(load().target).tolist()))
        for name, load in labels.items()
        if most is None or name != "wine"
    ]
    if most is None:
        diabetes = datasets.load_diabetes(scaled=False)
        mass = diabetes.data[:, diabetes.feature_names.index("bmi")]
        classes = np.bincount(np.searchsorted(BODY_MASS, mass, side="right"), minlength=len(BODY_MASS) + 1)
        columns.append(Column("sklearn", "diabetes body mass", tuple(classes.tolist())))
    return columns
