"""The drawing of docs/project/architecture.md, from the imports: packages in layers, which imports which.

``python docs/_architecture.py`` writes docs/images/architecture.svg anew.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "discreet"
PICTURE = ROOT / "docs" / "images" / "architecture.svg"
BASE = "schema · errors · _declarations"
"""The flat modules, of which everything is made."""
DOORS = {"extending", "numpyro", "plots", "pymc", "stan", "__init__", "__main__"}
"""Thin public modules, which import anything and which only the facade imports."""
WIDTH, ROW, BOX, TALL = 900, 74, 136, 34

Graph = dict[str, set[str]]


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules of ours that a source imports, wherever it does, unless it is for types only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from imported(node)


def packages() -> Graph:
    """Every package, and the packages that it imports."""
    names = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} - DOORS
    found: Graph = {name: set() for name in [*sorted(names), BASE]}
    for path in sorted(SOURCE.rglob("*.py")):
        own = path.relative_to(SOURCE).parts[0]
        if own not in names:
            continue
        for module in imported(ast.parse(path.read_text("utf-8"))):
            top, *rest = module.split(".")
            if top == "discreet" and rest:
                found[own].add(rest[0] if rest[0] in names else BASE)
    return {name: targets - {name} for name, targets in found.items()}


def ranks(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """How many packages lie one upon the other below each; a cycle is an error."""
    found: dict[str, int] = {}

    def rank(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            raise ValueError(f"a cycle of packages: {' → '.join([*above, name])}")
        if name not in found:
            found[name] = 1 + max((rank(low, (*above, name)) for low in graph[name]), default=-1)
        return found[name]

    for name in graph:
        rank(name)
    return found


def direct(graph: Mapping[str, set[str]]) -> Graph:
    """Without the arrows that others imply: a package may always look at what lies below what it looks at."""

    def below(name: str) -> set[str]:
        return set().union(*({low} | below(low) for low in graph[name]))

    return {name: {low for low in lows if not any(low in below(other) for other in lows)}
            for name, lows in graph.items()}  # fmt: skip


def places(graph: Mapping[str, set[str]]) -> dict[str, tuple[float, float]]:
    """The middle of each box: the lowest packages at the foot, and each about above what it rests on."""
    rank, found = ranks(graph), dict[str, tuple[float, float]]()
    top = max(rank.values())
    for level in range(top + 1):
        row = [name for name in graph if rank[name] == level]

        def leaning(name: str) -> tuple[float, str]:
            lows = [found[low][0] for low in graph[name]]
            return (sum(lows) / len(lows) if lows else WIDTH / 2, name)

        row.sort(key=leaning)
        for index, name in enumerate(row):
            # Rows of one box step aside in turn, so that a long arrow has room to pass.
            aside = 0.0 if len(row) > 1 or level in (0, top) else 60.0 * (-1) ** level
            x = WIDTH * (index + 0.5) / len(row) + aside
            found[name] = (x, ROW * (top - level) + TALL)
    return found


def drawing() -> str:
    """The picture."""
    graph = direct(packages())
    at = places(graph)
    height = max(y for _, y in at.values()) + TALL
    lines, boxes = [], []
    for name, (x, y) in sorted(at.items()):
        for low in sorted(graph[name]):
            a, b = at[low]
            corners = (x, y + TALL / 2), (x, y + TALL / 2 + 30), (a, b - TALL / 2 - 30), (a, b - TALL / 2)
            first, *curve = (f"{across:.0f} {down:.0f}" for across, down in corners)
            lines.append(f'<path d="M{first} C{" ".join(curve)}"/>')
        wide = BOX + 120 if name == BASE else BOX
        boxes.append(
            f'<rect x="{x - wide / 2:.0f}" y="{y - TALL / 2:.0f}" width="{wide}" height="{TALL}" rx="6"/>'
            f'<text x="{x:.0f}" y="{y + 5:.0f}">{escape(name)}</text>'
        )
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        'aria-label="Packages of the source; a line leads down from a package to one that it imports">',
        "<style>rect{fill:#eef3fb;stroke:#2456a6}path{fill:none;stroke:#8899aa;stroke-width:1.2}"
        "text{font:14px system-ui,sans-serif;text-anchor:middle;fill:#1b2a41}"
        "@media(prefers-color-scheme:dark){rect{fill:#1d2a3f;stroke:#8ab4f8}text{fill:#e8eefc}}</style>",
        *lines,
        *boxes,
        "</svg>\n",
    ])  # fmt: skip


if __name__ == "__main__":
    PICTURE.write_text(drawing(), "utf-8")
