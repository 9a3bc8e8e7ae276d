"""The six mechanisms of A beside each other, in box plots over size, levels, variance and prior.

B draws such boxes for two mechanisms and counts of its own; here are all six of A at its settings. Boxes are
exact quantiles of the Hellinger distance between the released posterior and the true one: nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from discreet._declarations import as_epsilon
from discreet._registry import MECHANISMS
from discreet.planning.candidates import candidate_distribution
from discreet_reproductions.paper_b.distributions import Counts, Prior, box, draw_boxes, uniform_counts
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["Settings", "boxes", "draw", "measure"]

SIX = {
    "lszhang": ("LSZhang", "#9ecae1"),
    "lsdim": ("LSDim", "#3182bd"),
    "lshist": ("LSHist", "#08519c"),
    "ehd": ("EHD", "#fdae6b"),
    "ehds": ("EHDS", "#31a354"),
    "ehdl": ("EHDL, not private", "#de2d26"),
}
Case = tuple[str, Prior, Counts]


def _even(k: int, n: int) -> Case:
    return f"k = {k}", (1.0,) * k, uniform_counts(n, k)


PANELS: dict[str, tuple[Case, ...]] = {
    "records, even": tuple((f"n = {n}", (1.0, 1.0), uniform_counts(n, 2)) for n in (4, 10, 20, 40, 80)),
    "levels, 12 records, even": tuple(_even(k, 12) for k in (2, 3, 4)),
    "data, from uneven to even": tuple(
        (f"({20 - x}, {x})", (1.0, 1.0), (20 - x, x)) for x in (0, 2, 5, 8, 10)
    ),
    "prior of the data (10, 10)": tuple(
        (f"α = ({a}, {a})", (float(a),) * 2, (10, 10)) for a in (1, 2, 5, 10, 20)
    ),
}


@dataclass(frozen=True)
class Settings:
    """What each panel varies, and ε."""

    epsilon: str = "0.8"
    panels: Mapping[str, tuple[Case, ...]] | None = None

    @property
    def cases(self) -> Mapping[str, tuple[Case, ...]]:
        """The panels that are measured."""
        return PANELS if self.panels is None else self.panels

    def quick(self) -> Settings:
        """Every second setting of each panel."""
        return replace(self, panels={title: cases[::2] for title, cases in PANELS.items()})


def measure(settings: Settings, panel: str) -> list[Row]:
    """The exact quantiles of the error of each mechanism, a row each."""
    rows: list[Row] = []
    for at, prior, counts in settings.cases[panel]:
        for name in SIX:
            m = MECHANISMS[name](prior, sum(counts), as_epsilon(settings.epsilon))
            distribution = candidate_distribution(m, counts)
            quantiles = box(distribution.distance, distribution.columns[name])
            rows.append({"panel": panel, "at": at, "mechanism": name, "counts": str(counts), **quantiles})
    return rows


def draw(rows: Sequence[Row], settings: Settings) -> Any:
    """A panel for each thing that varies, six boxes at each setting."""
    from matplotlib.patches import Patch

    figure = new_figure(11.0, 7.4)
    for place, panel in enumerate(settings.cases, 1):
        axis = figure.add_subplot(2, 2, place)
        here = [row for row in rows if row["panel"] == panel]
        names = list(dict.fromkeys(row["at"] for row in here))
        for i, (name, (_, colour)) in enumerate(SIX.items()):
            mine = [row for row in here if row["mechanism"] == name]
            draw_boxes(axis, mine, [x + 0.13 * (i - 2.5) for x in range(len(mine))], 0.11, colour)
        axis.set_xticks(range(len(names)), names)
        axis.set_xlabel(panel)
        axis.set_ylim(0, 1)
        if place % 2:
            axis.set_ylabel("Hellinger distance to the true posterior")
    handles = [Patch(facecolor=colour, alpha=0.55, label=label) for label, colour in SIX.values()]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False)
    figure.suptitle(
        f"ε = {settings.epsilon}; boxes: exact quartiles, whiskers: 5 % and 95 %, dots: means", fontsize=10
    )
    return figure


def statements(rows: Sequence[Row]) -> list[Statement]:
    """Which of the six has the least mean error where."""
    settings: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        settings.setdefault((row["panel"], row["at"]), {})[row["mechanism"]] = row["mean"]
    least = [min(means, key=means.__getitem__) for means in settings.values()]
    behind = [at for (_, at), name in zip(settings, least, strict=True) if name != "lshist"]
    below = sum(means["ehdl"] <= min(means["ehd"], means["ehds"]) for means in settings.values())
    return [
        Statement(
            "lshist first",
            "LSHist has the least mean error of the six mechanisms",
            "beyond the papers",
            "yes" if not behind else "partly" if len(behind) < len(least) else "no",
            f"at {least.count('lshist')} of {len(least)} settings; not at {', '.join(behind) or 'none'}",
            "the exponential mechanisms spend most of their budget on far candidates",
            {"least": least},
        ),
        Statement(
            "ehdl below",
            "EHDL, which is not private, has the least mean error of the exponential mechanisms",
            "beyond the papers",
            "yes" if below == len(settings) else "partly" if below else "no",
            f"at {below} of {len(settings)} settings",
        ),
    ]


def boxes(run: Run) -> Outcome:
    """Six mechanisms, four things that vary."""
    settings = Settings().quick() if run.quick else Settings()
    run.expect(len(settings.cases))
    rows = [
        row
        for panel in settings.cases
        for row in run.step(f"{settings} {panel}", partial(measure, settings, panel))
    ]
    found = statements(rows)
    verdict = f"LSHist has the least mean error {found[0].measured}."
    return Outcome(verdict, {"": rows}, {"": draw(rows, settings)}, found, asdict(settings))
