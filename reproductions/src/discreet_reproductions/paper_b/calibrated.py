"""B's next step: accuracy from the part of ε that M_β leaves unused, by exact calibration.

M_β at budget b is P(r) ∝ exp(−b·H/(2·S_β)). The definition takes b = ε, and loses about half of ε (B 4.4).
With ``calibration="exact"`` b is the largest number at which all pairs of datasets are seen to be (ε, δ).
Expected Hellinger errors are those over the prior predictive distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from discreet.mechanisms import mechanism
from discreet_reproductions.hellinger.plan import plan
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["CalibratedSettings", "calibrated"]

DELTA = "0.0005"


@dataclass(frozen=True)
class CalibratedSettings:
    """Priors with ε and the sizes to try."""

    priors: tuple[tuple[tuple[float, ...], float], ...] = (((1.0, 1.0), 0.8), ((7.0, 4.0), 0.5))
    sizes: tuple[int, ...] = (5, 10, 20, 60, 200, 500)

    def quick(self) -> CalibratedSettings:
        """For a test."""
        return replace(self, sizes=(5, 20))


def measure(prior: tuple[float, ...], epsilon: float, n: int) -> list[Row]:
    """Errors with both calibrations and by the count mechanisms, at one place."""
    row: Row = {"prior": str(prior), "epsilon": epsilon, "n": n}
    for calibration in ("definition", "exact"):
        options: dict[str, Any] = {"delta": DELTA, "calibration": calibration}
        made: Any = mechanism("mbeta", prior=prior, n=n, epsilon=epsilon, **options)
        compared = plan(
            prior=prior,
            n=n,
            epsilon=epsilon,
            quick=True,
            mechanisms=[("mbeta", options), "lshist", "lattice"],
        )
        row[f"budget, {calibration}"] = float(made.budget)
        row[f"mbeta, {calibration}"] = float(compared.row("mbeta").expected)
        row |= {name: float(compared.row(name).expected) for name in ("lshist", "lattice")}
    return [row]


def statements(rows: Sequence[Row]) -> list[Statement]:
    """What the unused ε is worth, and who wins then."""
    gains = [1 - row["mbeta, exact"] / row["mbeta, definition"] for row in rows]
    budgets = [row["budget, exact"] / row["epsilon"] for row in rows]
    ahead = [row for row in rows if row["mbeta, exact"] < row["lshist"]]
    before = [row for row in rows if row["mbeta, definition"] < row["lshist"]]
    return [
        Statement(
            "unused",
            "The unused part of ε can be turned into accuracy",
            "B 4.4, next step",
            "yes" if min(gains) > 0 else "no",
            f"b grows to {min(budgets):.3g} to {max(budgets):.3g} times ε, and the error falls by "
            f"{100 * min(gains):.0f} to {100 * max(gains):.0f} % over {len(rows)} settings",
            "the audit is what makes it private: no theorem is known for b > ε",
            {"gains": gains, "budgets": budgets},
        ),
        Statement(
            "beats-laplace",
            "Calibrated exactly, M_β beats LSHist",
            "beyond the paper",
            "yes" if len(ahead) == len(rows) else "partly" if ahead else "no",
            f"at {len(ahead)} of {len(rows)} settings (by the definition at {len(before)}); lattice is ahead "
            f"of it at {sum(row['lattice'] < row['mbeta, exact'] for row in rows)}, with δ = 0",
            "",
            {"ahead": [[row["prior"], row["n"]] for row in ahead]},
        ),
    ]


def calibrated(run: Run) -> Outcome:
    """Errors of M_β by its definition and calibrated exactly."""
    settings = CalibratedSettings().quick() if run.quick else CalibratedSettings()
    places = [(prior, epsilon, n) for prior, epsilon in settings.priors for n in settings.sizes]
    run.expect(len(places))
    rows = [row for place in places for row in run.step(f"{settings} {place}", partial(measure, *place))]
    found = statements(rows)
    gains = found[0].values["gains"]
    return Outcome(
        f"Exact calibration lowers the error of M_β by {100 * min(gains):.0f} to {100 * max(gains):.0f} %",
        {"": rows},
        {"": _plot(rows, settings)},
        found,
        asdict(settings),
    )


def _plot(rows: Sequence[Row], settings: CalibratedSettings) -> Any:
    figure = new_figure(3.6 * len(settings.priors), 3.5)
    for place, (prior, epsilon) in enumerate(settings.priors, 1):
        axis = figure.add_subplot(1, len(settings.priors), place)
        own = [row for row in rows if row["prior"] == str(prior)]
        for key, style in (
            ("mbeta, definition", "s--"),
            ("mbeta, exact", "o-"),
            ("lshist", "^:"),
            ("lattice", "x:"),
        ):
            axis.loglog([row["n"] for row in own], [row[key] for row in own], style, label=key)
        axis.set_title(f"prior {prior}, ε = {epsilon:g}", fontsize=10)
        axis.set_xlabel("n")
        if place == 1:
            axis.set_ylabel("expected Hellinger error")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure
