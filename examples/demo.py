"""Private posteriors from public data: the breast-cancer records that come with scikit-learn (569 records).

Run it with ``make demo``. It prints a table for each release and saves out/demo.png.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer

import discreet
from discreet.answers.release import Release

EPSILON = 0.5
PICTURE = Path("out/demo.png")

# Declared in advance, as if from a textbook: nothing about the values is read from the data.
DIAGNOSES = ("benign", "malignant")
RADIUS_EDGES = (12, 15, 20)
RADIUS_CLASSES = ("small", "medium", "large", "very large")


def main() -> None:
    records = load_breast_cancer()
    diagnosis = records.target_names[records.target]
    radius = records.data[:, list(records.feature_names).index("mean radius")]
    size = np.array(RADIUS_CLASSES)[np.digitize(radius, RADIUS_EDGES)]

    schema = discreet.Schema({"diagnosis": DIAGNOSES, "mean radius": RADIUS_CLASSES}, n=len(size))
    people = {"diagnosis": diagnosis, "mean radius": size}
    warnings.simplefilter("ignore", discreet.errors.PrivacyWarning)  # these data are public: no ledger
    releases = [
        (column, values, discreet.proportions(people, column, schema=schema, epsilon=EPSILON))
        for column, values in people.items()
    ]

    console = Console()
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(releases))
    for (title, values, release), axes in zip(releases, panels, strict=True):
        truth = without_privacy(values, release.levels)
        console.print(result_table(title, release, truth))
        discreet.plots.posterior(release, ax=axes, truth=truth)
        axes.set_title(f"{title}: {axes.get_title()}", fontsize=10)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=150)

    spent = discreet.Guarantee(sum((r.guarantee.exact_epsilon for _, _, r in releases), Fraction(0)))
    console.print(
        f"Spent in total: ε = {spent.epsilon:g}. The same {len(size)} records are in both releases, "
        f"so their budgets add up. {spent.meaning()}"
    )
    console.print(
        "The posteriors without privacy are here for comparison only, because these data are public. "
        "With private data they must not be published.",
        style="dim",
    )
    console.print(f"Picture: {PICTURE}. Run this again and the noise will differ.")


def without_privacy(values: np.ndarray, levels: tuple[str, ...]) -> discreet.Beta | discreet.Dirichlet:
    """The ordinary posterior under the same uniform prior."""
    counts = [int((values == level).sum()) for level in levels]
    if len(levels) == 2:
        return discreet.Beta(1, 1).update(counts)
    return discreet.Dirichlet((1,) * len(levels)).update(counts)


def result_table(title: str, release: Release, truth: discreet.Beta | discreet.Dirichlet) -> Table:
    result = Table(
        title=f"{title}: {type(release.plug_in).__name__} posterior, n = {release.n}, "
        f"{release.mechanism}, {release.guarantee}",
        title_justify="left",
    )
    result.add_column("value")
    for heading in ("released count", "mean", "95 % interval", "mean without privacy"):
        result.add_column(heading, justify="right")
    for index, row in enumerate(release.table(0.95)):
        result.add_row(
            row[title],
            str(row["count"]),
            f"{row['mean']:.3f}",
            f"{row['low']:.3f} – {row['high']:.3f}",
            f"[dim]{truth.marginal(index).mean():.3f}[/dim]",
        )
    return result


if __name__ == "__main__":
    main()
