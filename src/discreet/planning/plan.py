"""What a plan says: a row for each mechanism, the best of them, the limit, and what public records buy."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from discreet._html import card, paragraph, table
from discreet._registry import MECHANISMS
from discreet._text import amount
from discreet.errors import InvalidInput
from discreet.planning.expected_error import PlanRow, label


@dataclass(frozen=True)
class PublicGain:
    """What public records, added to the prior, buy at the same n; made by ``plan(..., public=counts)``."""

    counts: tuple[int, ...]
    error_without: float
    """Least expected error at the plan's ε without the public records."""
    error_with: float
    epsilon_for_error: float | None
    """The ε that gives, with the public records, the error that the plan's ε gives without them."""
    draw_without: float
    """ε at δ = 10⁻⁶ of one draw from the posterior itself (:func:`discreet.posterior_sampler`, direct)."""
    draw_with: float

    def __str__(self) -> str:
        same = self.epsilon_for_error
        saved = "" if same is None else f", or the same error at ε = {same:.4g}"
        return (
            f"{sum(self.counts)} public records: expected error {self.error_with:.4f} instead of "
            f"{self.error_without:.4f}{saved}; one direct posterior draw ε = {self.draw_with:.4g} instead of "
            f"{self.draw_without:.4g} at δ = 1e-6"
        )


@dataclass(frozen=True)
class Plan:
    """The mechanisms that fit public parameters, with the error to expect of each; made by :func:`plan`."""

    prior: tuple[float, ...]
    n: int
    exact_epsilon: Fraction
    rows: tuple[PlanRow, ...]
    limit: float | None
    """Least expected error of any ε-private mechanism from data to posteriors of n records, where the linear
    program can be solved; else None."""
    level: float = 0.95
    error: float | None = None
    """The target that ε or n was solved for."""
    within: float | None = None
    """The same, where it was the half-width of an interval."""
    share: float = 0.5
    """The share whose interval is planned."""
    public: PublicGain | None = None
    """What public records buy, where such were given; they are in ``prior`` already."""
    relation: str = "replace-one"
    delta: Fraction | None = None
    gaussian_from: int | None = None
    """From so many tables on, which overlap and share (ε, δ), ``gaussian`` has the smaller noise."""

    @property
    def epsilon(self) -> float:
        return float(self.exact_epsilon)

    @property
    def best(self) -> str | None:
        """Name of the private mechanism with the least expected error; None if no row promises ε."""
        return None if self.best_row is None else self.best_row.name

    @cached_property
    def best_row(self) -> PlanRow | None:
        return best_of(self.rows)

    def row(self, name: str, **options: Any) -> PlanRow:
        """The row of a mechanism, the first of that name unless options say which."""
        for row in self.rows:
            if row.name == name and (not options or dict(row.options) == options):
                return row
        listed = ", ".join(row.label for row in self.rows)
        raise InvalidInput(f"{label(name, options)!r} is not in this plan; it has: {listed}")

    def table(self) -> list[dict[str, Any]]:
        """The rows as plain values."""
        names = ("expected", "standard_error", "median", "q95", "kl", "l1", "width", "width_without")
        return [
            {
                "mechanism": row.name,
                "options": {key: str(value) for key, value in row.options.items()},
                **{name: _number(getattr(row, name)) for name in names},
                "method": row.method,
                "private": row.comparable,
            }
            for row in self.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "prior": list(self.prior),
            "n": self.n,
            "epsilon": str(self.exact_epsilon),
            **({} if self.relation == "replace-one" else {"relation": self.relation}),
            **({} if self.delta is None else {"delta": str(self.delta), "gaussian_from": self.gaussian_from}),
            "error": self.error,
            "within": self.within,
            "share": self.share,
            "level": self.level,
            "best": self.best,
            "limit": self.limit,
            "public": None if self.public is None else asdict(self.public),
            "mechanisms": self.table(),
        }

    def header(self) -> list[str]:
        return ["mechanism", "± points", "error", "how"]

    def cells(self) -> list[list[str]]:
        """The table as text, one list per row, in the order of :meth:`header`."""
        rows = []
        for row in self.rows:
            error = f"{row.expected:.4f}" + (f" ± {row.standard_error:.4f}" if row.standard_error else "")
            mark = "" if row.comparable else " *"
            rows.append([row.label + mark, _points(row.width), error, row.method])
        if self.limit is not None:
            rows.append(["limit", "–", f"{self.limit:.4f}", "linear program"])
        return rows

    def title(self) -> str:
        asked = ""
        if self.within is not None:
            asked = f"Within ± {_points(2 * self.within)} points: "
        elif self.error is not None:
            asked = f"Expected error ≤ {self.error:g}: "
        prior = ", ".join(f"{a:g}" for a in self.prior)
        budget = f"ε = {self.epsilon:g}" + ("" if self.delta is None else f", δ = {amount(self.delta)}")
        hidden = "" if self.relation == "replace-one" else f", {self.relation}: n is private"
        return f"{asked or 'Plan for '}n = {self.n} records{hidden}, {budget}, prior ({prior})"

    def notes(self) -> list[str]:
        """What the table means, and what it recommends."""
        percent = f"{100 * self.level:g} %"
        lines = []
        best = self.best_row
        if best is not None and not math.isnan(best.width):
            lines.append(
                f"A share of {100 * self.share:g} % will have a {percent} interval of about "
                f"± {_points(best.width)} percentage points, the noise of privacy included "
                f"(± {_points(best.width_without)} without privacy)."
            )
        lines.append(
            "Errors are Hellinger distances (0 to 1) between the released and the true posterior, on "
            "average over data sets that the prior expects."
        )
        if any(not row.comparable for row in self.rows):
            lines.append(f"* does not promise ε = {self.epsilon:g} with δ = 0; for comparison.")
        if self.delta is not None:
            several = "more than 10,000" if self.gaussian_from is None else f"{self.gaussian_from:,}"
            lines.append(
                f"Of several tables that overlap and share this budget, gaussian has the smaller noise from "
                f"{several} on."
            )
        if self.limit is not None:
            lines.append("The limit is the least error that any mechanism of this ε can have.")
        if best is not None:
            lines.append(f"Best: {best.label}.")
        if self.public is not None:
            lines.append(f"{self.public}.")
        return lines

    def __str__(self) -> str:
        cells = [self.header(), *self.cells()]
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = []
        for row in cells:
            middle = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
            lines.append("  ".join([row[0].ljust(widths[0]), *middle, row[-1]]).rstrip())
        notes = (wrapped for note in self.notes() for wrapped in textwrap.wrap(note, 80))
        return "\n".join([*textwrap.wrap(self.title(), 80), "", *lines, "", *notes])

    def _repr_html_(self) -> str:
        """The plan for a notebook."""
        notes = (paragraph(note, soft=True) for note in self.notes())
        return card(paragraph(self.title(), strong=True), table(self.header(), self.cells()), *notes)


def _points(width: float) -> str:
    """Half of a width of a share, in percentage points."""
    return "–" if math.isnan(width) else f"{50 * width:#.3g}"


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _above(row: PlanRow, least: PlanRow) -> bool:
    """Whether the error of ``row`` is above that of ``least`` by more than rounding and noise explain."""
    noise = 2 * math.hypot(row.standard_error, least.standard_error)
    return row.expected - least.expected > 1e-9 + noise


def best_of(rows: Iterable[PlanRow]) -> PlanRow | None:
    """The least expected error among equally private rows; what noise cannot tell apart by their order."""
    rows = [row for row in rows if row.comparable]
    if not rows:
        return None
    least = min(rows, key=lambda row: row.expected)
    ties = [row for row in rows if not _above(row, least)]
    order = list(MECHANISMS)  # among mechanisms of equal expected error the earlier one is recommended
    return min(ties, key=lambda row: order.index(row.name))
