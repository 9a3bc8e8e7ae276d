"""What an experiment leaves behind: tidy tables as CSV, plots as PNG and SVG, a verdict as JSON."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

__all__ = [
    "ANSWERS",
    "Answer",
    "Outcome",
    "Row",
    "Statement",
    "digest",
    "new_figure",
    "save_plot",
    "write_outcome",
    "write_table",
    "write_verdict",
]

Row = dict[str, Any]
Answer = Literal["yes", "partly", "no"]
ANSWERS = get_args(Answer)


@dataclass(frozen=True)
class Statement:
    """One claim, where it comes from, what was measured, and whether they agree."""

    name: str
    claim: str
    source: str
    agrees: Answer
    measured: str
    why: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What one experiment found: its verdict in one line, tables and plots by suffix, statements, settings.

    The table and the plot with the suffix ``""`` are the main ones. Plots are matplotlib figures.
    """

    verdict: str
    tables: Mapping[str, Sequence[Row]]
    plots: Mapping[str, Any]
    statements: Sequence[Statement]
    settings: Mapping[str, Any]


def write_outcome(out: Path, name: str, title: str, outcome: Outcome, stamp: Mapping[str, Any]) -> Path:
    """The files of one experiment. The verdict is written last: where it is, everything is.

    A verdict of an earlier run goes first, so that it never stands beside the files of another.
    """
    verdict = out / f"{name}.json"
    verdict.unlink(missing_ok=True)
    files = []
    for suffix, rows in outcome.tables.items():
        files.append(write_table(out / f"{_joined(name, suffix)}.csv", rows))
    for suffix, figure in outcome.plots.items():
        files.extend(save_plot(figure, out / _joined(name, suffix)))
    made = {path.name: digest(path) for path in files}
    more = {"name": name, "verdict": outcome.verdict, "files": list(made), "sha256": made, **stamp}
    return write_verdict(verdict, title, outcome.settings, outcome.statements, more)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _joined(name: str, suffix: str) -> str:
    return f"{name}-{suffix}" if suffix else name


def write_table(path: Path, rows: Sequence[Row]) -> Path:
    """Rows of the same columns as CSV; floats with all their digits."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_verdict(
    path: Path,
    title: str,
    settings: Mapping[str, Any],
    statements: Sequence[Statement],
    more: Mapping[str, Any] | None = None,
) -> Path:
    """The statements of one figure with the settings under which they were measured."""
    content = {
        "figure": title,
        **(more or {}),
        "settings": settings,
        "agrees": sum(s.agrees == "yes" for s in statements),
        "statements": [asdict(s) for s in statements],
    }
    text = json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", "utf-8")
    return path


def plain(value: Any) -> Any:
    """The same with NumPy's numbers as Python's, tuples as lists, and infinities as words: valid JSON."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure that needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_plot(figure: Any, stem: Path) -> tuple[Path, Path]:
    """PNG and SVG of a figure; the same figure gives the same files."""
    import matplotlib as mpl

    png, svg = stem.parent / f"{stem.name}.png", stem.parent / f"{stem.name}.svg"
    figure.savefig(png, dpi=110, metadata={"Software": None})
    with mpl.rc_context({"svg.hashsalt": stem.name, "svg.fonttype": "none"}):
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return png, svg
