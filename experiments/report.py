"""What an experiment leaves behind: a tidy table as CSV, a plot as PNG and SVG, a verdict as JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

__all__ = ["Answer", "Row", "Statement", "new_figure", "save_plot", "write_table", "write_verdict"]

Row = dict[str, Any]
Answer = Literal["yes", "partly", "no"]


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


def write_table(path: Path, rows: Sequence[Row]) -> Path:
    """Rows of the same columns as CSV; floats with all their digits."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_verdict(
    path: Path, title: str, settings: Mapping[str, Any], statements: Sequence[Statement]
) -> Path:
    """The statements of one figure with the settings under which they were measured."""
    content = {
        "figure": title,
        "settings": settings,
        "agrees": sum(s.agrees == "yes" for s in statements),
        "statements": [asdict(s) for s in statements],
    }
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
    return path


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

    png, svg = stem.with_suffix(".png"), stem.with_suffix(".svg")
    figure.savefig(png, dpi=110, metadata={"Software": None})
    with mpl.rc_context({"svg.hashsalt": stem.name, "svg.fonttype": "none"}):
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return png, svg
