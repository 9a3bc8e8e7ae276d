"""Expected errors of all mechanisms in one setting, beside the limit.

Errors are expected Hellinger distances under the prior predictive. The limit is the optimum of the linear
program over all ε-private mechanisms (:func:`optimal_error`); no private mechanism can be below it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.errors import NoiseWarning, TooLargeError
from discreet.mechanisms import mechanism
from discreet_reproductions.hellinger.expected_error import Setting
from discreet_reproductions.hellinger.optimal import optimal_error
from discreet_reproductions.report import Answer, Row

__all__ = ["LOOKS", "MECHANISMS", "Case", "answer", "draw_lines", "draw_names", "of", "ratios"]

MECHANISMS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "lattice": ("lattice", {}),
    "LSHist": ("lshist", {}),
    "LSZhang": ("lszhang", {}),
    "LS shape, exact": ("ehdl-calibrated", {}),
    "EHDS, exact": ("ehds", {"calibration": "exact"}),
    "EHDS": ("ehds", {}),
    "EHD, exact": ("ehd", {"calibration": "exact"}),
    "EHD, tight": ("ehd", {}),
    "EHD as in A": ("ehd", {"sensitivity": "paper"}),
    "M_β of B": ("mbeta", {}),
}
"""Label, name and options. M_β takes B's δ and is not pure; the others are ε-private."""


@dataclass(frozen=True)
class Case:
    """One setting: the panel it is drawn in, prior, size, ε, and the δ of M_β."""

    panel: str
    prior: tuple[float, ...]
    n: int
    epsilon: str
    delta: str

    def measure(self, labels: Iterable[str], *, seed: int, quick: bool = False) -> list[Row]:
        """The limit, where it can be solved, and the error of each mechanism that is not too large here.

        ``quick``: fewer draws for three levels and more; of two the errors are exact anyway.
        """
        try:
            least = optimal_error(prior=self.prior, n=self.n, epsilon=self.epsilon)
        except TooLargeError:
            least = None
        rows = []
        if least is not None:
            rows.append(self._row("limit", least, 0.0, "linear program", True, least))
        fewer = quick and len(self.prior) > 2
        setting = Setting(self.prior, self.n, seed=seed, quick=fewer, only_expected=True)
        for label in labels:
            name, options = MECHANISMS[label]
            more = {"delta": Fraction(self.delta)} if name == "mbeta" else {}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NoiseWarning)  # small n is the point of these figures
                try:
                    built = mechanism(
                        name, prior=self.prior, n=self.n, epsilon=self.epsilon, **options, **more
                    )
                except TooLargeError:  # an exact calibration lists all pairs of datasets
                    continue
            found = setting.row(built, options)
            pure = name != "mbeta" and found.comparable
            rows.append(self._row(label, found.expected, found.standard_error, found.method, pure, least))
        return rows

    def _row(
        self, label: str, expected: float, noise: float, method: str, pure: bool, least: float | None
    ) -> Row:
        return {
            "panel": self.panel,
            "k": len(self.prior),
            "prior": str(self.prior),
            "n": self.n,
            "epsilon": float(self.epsilon),
            "mechanism": label,
            "expected": expected,
            "standard error": noise,
            "method": method,
            "pure": pure,
            "ratio to limit": None if not least else expected / least,
        }


def of(rows: Iterable[Row], label: str, k: int | None = None) -> list[Row]:
    """The rows of one mechanism, or of ``limit``; of k levels where k is given."""
    return [row for row in rows if row["mechanism"] == label and k in (None, row["k"])]


def ratios(rows: Iterable[Row], label: str, k: int | None = None) -> list[float]:
    """Its errors relative to the limit, where the limit is known."""
    return [row["ratio to limit"] for row in of(rows, label, k) if row["ratio to limit"] is not None]


def answer(whole: bool, part: bool = False) -> Answer:
    """``yes`` when the whole holds, ``partly`` when a part does."""
    return "yes" if whole else "partly" if part else "no"


# ---- plots -----------------------------------------------------------------------------------------------

LOOKS = {
    "limit": ("black", "-", ""),
    "lattice": ("#009E73", "", "o"),
    "LSHist": ("#E69F00", "-", "^"),
    "LSZhang": ("#E69F00", ":", "<"),
    "LS shape, exact": ("#CC79A7", "--", "v"),
    "EHDS, exact": ("#56B4E9", "--", "D"),
    "EHDS": ("#56B4E9", ":", "d"),
    "EHD, exact": ("#0072B2", "--", "s"),
    "EHD, tight": ("#0072B2", ":", "s"),
    "EHD as in A": ("#0072B2", "-", "x"),
    "M_β of B": ("#D55E00", "-", "+"),
}
"""Colour, line and marker."""


def draw_lines(axis: Any, rows: Iterable[Row], labels: Iterable[str]) -> None:
    """A line per mechanism over the number of records."""
    rows = list(rows)
    for label in labels:
        colour, line, marker = LOOKS[label]
        points = of(rows, label)
        axis.plot(
            [r["n"] for r in points],
            [r["expected"] for r in points],
            color=colour,
            marker=marker,
            markersize=4.5,
            linewidth=2 if label == "limit" else 1.2,
            fillstyle="none" if label == "lattice" else "full",
            linestyle=line or "none",
            label="limit (linear program)" if label == "limit" else label,
        )
    axis.set_xlabel("number of records n")
    axis.set_ylim(0, 1)


def draw_names(figure: Any, columns: int) -> None:
    """One legend for all panels, below them."""
    figure.axes[0].set_ylabel("expected Hellinger error")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
