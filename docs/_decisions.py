"""The tables of two pages of docs/how-to/, computed by the planner.

``python docs/_decisions.py`` writes them anew.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from discreet.errors import InvalidInputError
from discreet_reproductions.hellinger.plan import plan

FOLDER = Path(__file__).resolve().parent / "how-to"
PAGES = [FOLDER / "choose-epsilon.md", FOLDER / "choose-mechanism.md"]
PART = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

PRIOR = (1, 1)
EPSILONS = (0.1, 0.5, 1, 2)
SIZES = (50, 200, 1000)
TARGETS = (10, 6, 3, 2)


def meaning() -> str:
    """What an attacker can do at most, for each ε."""
    rows = []
    for epsilon in (0.01, 0.1, 0.5, 1, 2, 3, 5):
        right = math.exp(epsilon) / (1 + math.exp(epsilon))
        rows.append([f"{epsilon:g}", f"{math.exp(epsilon):.3g}", f"{100 * right:.1f} of 100"])
    return table(["ε", "factor e^ε", "best guess is right at most"], rows)


def widths(sizes: Sequence[int] = SIZES) -> str:
    """The half-width of the interval of a share of 50 %, with and without privacy."""
    rows = []
    for n in sizes:
        found = [plan(prior=PRIOR, n=n, epsilon=e, mechanisms="lattice").rows[0] for e in EPSILONS]
        shown = (found[0].width_without, *(row.width for row in found))
        rows.append([f"{n}", *(f"± {50 * width:.1f}" for width in shown)])
    return table(["n", "without privacy", *(f"ε = {e:g}" for e in EPSILONS)], rows)


def needed() -> str:
    """The smallest ε for an interval that is narrow enough."""
    rows = []
    for n in (300, 1200, 5000):
        cells = []
        for points in TARGETS:
            try:
                found = plan(prior=PRIOR, n=n, within=points / 100, mechanisms="lattice")
                cells.append(f"{found.epsilon:.2g}")
            except InvalidInputError:  # sampling alone leaves more open
                cells.append("–")
        rows.append([f"{n}", *cells])
    return table(["n", *(f"± {points} points" for points in TARGETS)], rows)


def mechanisms() -> str:
    """Expected errors side by side, and the limit of all private mechanisms."""
    found = [plan(prior=PRIOR, n=100, epsilon=epsilon) for epsilon in EPSILONS]
    rows = [
        [f"`{first.label}`", *(f"{one.row(first.name, **first.options).expected:.3f}" for one in found)]
        for first in found[0].rows
    ]
    rows.append(["the limit", *(f"{one.limit:.3f}" for one in found)])
    return table(["mechanism", *(f"ε = {e:g}" for e in EPSILONS)], rows)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


TABLES = {"meaning": meaning, "widths": widths, "needed": needed, "mechanisms": mechanisms}


def filled(text: str) -> str:
    """The page with every table computed now."""
    return PART.sub(lambda part: part.group(1) + TABLES[part.group(2)]() + part.group(3), text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text("utf-8")), "utf-8")
