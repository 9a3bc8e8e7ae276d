"""What peers.py shows of its figures: a table, a plot, a block on a page. Reads the JSON alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

Result = dict[str, Any]
Key = tuple[str, str, str]
"""Measure, method and setting: one row of the table."""

BEGIN, END = "<!-- peers:begin -->", "<!-- peers:end -->"
COLUMNS = ("discreet", "OpenDP", "OpenDP, n kept", "diffprivlib")
TITLES = {
    ("error", "counts"): "Hellinger error of the released posterior, noisy counts",
    ("error", "exponential"): "Hellinger error, selection among all candidates by −H",
    ("coverage", "counts"): "coverage of 90 % intervals, noisy counts (discreet: noise-aware)",
    ("coverage", "exponential"): "coverage of 90 % intervals, selection (discreet: noise-aware)",
    ("width", "counts"): "mean width of these intervals, noisy counts",
    ("width", "exponential"): "mean width of these intervals, selection",
    ("first release", "counts"): "first release with its set-up, noisy counts",
    ("further releases", "counts"): "each further release, noisy counts",
    ("first release", "exponential"): "first release with its set-up, selection",
    ("further releases", "exponential"): "each further release, selection",
    ("peak memory", "counts"): "peak memory of the process, noisy counts",
    ("peak memory", "exponential"): "peak memory of the process, selection",
    ("size", "exponential"): "largest size, selection",
    ("ε", "conversion"): "ε at equal δ",
    ("time", "conversion"): "time of the conversion",
    ("test error", "logistic"): "logistic regression, test error",
    ("fit", "logistic"): "logistic regression, one fit",
}
SHOWN_TIMES = ("k = 10, n = 1000, ε = 0.5", "k = 2, n = 10000, ε = 0.5", "k = 3, n = 100, ε = 0.5")
"""Times at other settings are in the JSON."""


def number(value: float, unit: str = "") -> str:
    if unit == "s" and value < 0.1:
        return f"{1000 * value:.0f} ms"
    if unit in ("records", "s", "MB", "%"):
        text = f"{value:.1f}" if unit in ("%", "s") else f"{value:,.0f}"
        return f"{text} {unit}" if unit != "records" else text
    text = f"{value:#.3g}".rstrip(".") if value < 1000 else f"{value:,.0f}"
    return f"{text} {unit}" if unit not in ("", "H") else text


def pivot(result: Result) -> dict[Key, dict[str, dict[str, Any]]]:
    """Figures by row, then by tool."""
    rows: dict[Key, dict[str, dict[str, Any]]] = {}
    for figure in result["figures"]:
        key = figure["measure"], figure["method"], figure["setting"]
        rows.setdefault(key, {})[figure["tool"]] = figure
    return rows


# ---- the table -----------------------------------------------------------------------------------------


def cell(figure: dict[str, Any] | None, ours: dict[str, Any] | None) -> str:
    """The value with its standard error, and how many times ours it is."""
    if figure is None:
        return "–"
    text = number(figure["value"], figure["unit"])
    if figure["standard_error"]:
        text += f" ± {figure['standard_error']:.2g}"
    if ours is not None and figure is not ours and ours["value"]:
        text += f" ({figure['value'] / ours['value']:.3g}×)"
    return text


def table_rows(result: Result) -> Iterator[tuple[str, list[list[str]]]]:
    """Each measure with its lines: setting, the columns, and what has no column of its own."""
    rows = pivot(result)
    for (measure, method), title in TITLES.items():
        lines = []
        for (own_measure, own_method, setting), tools in rows.items():
            if (own_measure, own_method) != (measure, method):
                continue
            if unwanted_time(measure, setting):
                continue
            ours = tools.get("discreet")
            rest = [f"{tool}: {cell(f, ours)}" for tool, f in tools.items() if tool not in COLUMNS]
            lines.append([setting, *(cell(tools.get(c), ours) for c in COLUMNS), "\n".join(rest)])
        if lines:
            yield title, lines


def unwanted_time(measure: str, setting: str) -> bool:
    timed = measure in ("first release", "further releases")
    return timed and not (setting.endswith(SHOWN_TIMES) and not setting.startswith("uniform"))


def show(result: Result) -> None:
    from rich.console import Console
    from rich.table import Table

    machine, versions = result["machine"], {**result["versions"]}
    for name, peer in result["peers"].items():
        versions |= {key: version for key, version in peer["versions"].items() if key not in versions}
        if peer["skipped"]:
            print(f"{name}: skipped, {peer['skipped']}")
    for tool, parameters in result["parameters"].items():
        print(f"  {tool}: {parameters}")
    title = f"Side by side, {result['date']}, {machine['cores']} cores{', quick' * result['quick']}"
    table = Table(title=title, caption=", ".join(f"{name} {version}" for name, version in versions.items()))
    for column in ("", *COLUMNS, "other"):
        table.add_column(column, overflow="fold")
    for title, lines in table_rows(result):
        table.add_row(f"[bold]{title}")
        for line in lines:
            table.add_row("  " + line[0], *line[1:])
        table.add_section()
    console = Console()
    Console(width=max(console.width, 180) if not console.is_terminal else None).print(table)


# ---- the page ------------------------------------------------------------------------------------------

PAGE_ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("error", "counts", "data from the prior, k = 2, n = 100, ε = 0.1", "Error, 2 levels, n = 100, ε = 0.1"),
    ("error", "counts", "data from the prior, k = 2, n = 100, ε = 0.5", "Error, 2 levels, n = 100, ε = 0.5"),
    ("error", "counts", "wine, cultivar, k = 3, n = 1000, ε = 0.5", "Error, 3 levels, n = 1000, ε = 0.5"),
    (
        "error",
        "counts",
        "breast cancer, radius, k = 10, n = 1000, ε = 0.5",
        "Error, 10 levels, n = 1000, ε = 0.5",
    ),
    (
        "error",
        "exponential",
        "wine, cultivar, k = 3, n = 100, ε = 0.5",
        "Error of selection among all posteriors, 3 levels, n = 100, ε = 0.5",
    ),
    (
        "coverage",
        "counts",
        "data from the prior, k = 2, n = 100, ε = 0.1",
        "Coverage of 90 % intervals, 2 levels, n = 100, ε = 0.1",
    ),
    (
        "coverage",
        "counts",
        "data from the prior, k = 10, n = 1000, ε = 0.5",
        "Coverage, 10 levels, n = 1000, ε = 0.5",
    ),
    (
        "further releases",
        "counts",
        "breast cancer, radius, k = 10, n = 1000, ε = 0.5",
        "Time of a release, 10 levels, n = 1000",
    ),
    ("peak memory", "counts", "k = 10, n = 1000, ε = 0.5", "Peak memory of that process"),
    (
        "size",
        "exponential",
        "largest n, k = 5, ε = 1,",
        "Largest n of a selection, by doubling, 5 levels, {rest}",
    ),
    (
        "ε",
        "conversion",
        "20 draws of a mean and 20 tables of ε = 0.1, δ = 1e-06",
        "ε at δ = 10⁻⁶ of 20 draws of a mean and 20 tables of ε = 0.1",
    ),
    (
        "test error",
        "logistic",
        "Adult, 14 columns,",
        "Logistic regression on Adult, ε = 1 (ours: δ = 10⁻⁶): test error",
    ),
)
"""Measure, method, how the setting begins, and the words for it, with the rest of the setting if asked."""


def page_block(result: Result) -> str:
    """The text between the markers; every number in it is a recorded one."""
    machine, peers = result["machine"], result["peers"]
    rows = pivot(result)
    lines = ["| | discreet | OpenDP | diffprivlib | other |", "| --- | --- | --- | --- | --- |"]
    for measure, method, begins, words in PAGE_ROWS:
        for key, tools in rows.items():
            if key[:2] == (measure, method) and key[2].startswith(begins):
                words = words.format(rest=key[2].removeprefix(begins).strip())
                shown = [plain(tools, "discreet"), best_opendp(tools, measure), plain(tools, "diffprivlib")]
                rest = [f"{tool}: {plain(tools, tool)}" for tool in tools if tool not in COLUMNS]
                lines.append(f"| {words} | {' | '.join(shown)} | {', '.join(rest) or '–'} |")
    versions = [
        f"{name} {next(iter(peer['versions'].values()))}"
        for name, peer in peers.items()
        if peer["versions"] and not peer["skipped"]
    ]
    skipped = [
        f"{name} ({', '.join(map(' '.join, peer['versions'].items()))}): skipped, `{peer['skipped']}`."
        for name, peer in peers.items()
        if peer["skipped"]
    ]
    command = f"python benchmarks/peers.py{' --quick' * result['quick']} --page docs/evidence/tools.md"
    if any(key[1] == "logistic" for key in rows):
        command += " --data FOLDER"
    load = " to ".join(f"{average[0]:.1f}" for average in machine["load_before_and_after"])
    made = f"{result['date']}, {machine['cores']} cores (load {load}), {', '.join(versions)}: `{command}`."
    picture = "![Error and coverage by tool](../images/peers.png)"
    return "\n".join([picture, "", *lines, "", NOTES, *slower(rows), *skipped, "", made])


def slower(rows: dict[Key, dict[str, dict[str, Any]]]) -> list[str]:
    """Where a peer is faster at what is on the page, and no row there says so."""
    found = []
    for (measure, method, setting), tools in rows.items():
        shown = any(row[1] == method and setting.startswith(row[2]) for row in PAGE_ROWS)
        if shown and (measure, method) in (("fit", "logistic"), ("time", "conversion")):
            fastest = min(tools, key=lambda tool: tools[tool]["value"])
            if fastest != "discreet":
                what = "the fit on Adult" if method == "logistic" else "the conversion to ε"
                found.append(f"{what} ({plain(tools, 'discreet')}; {fastest}: {plain(tools, fastest)})")
    return [f"discreet is also slower in {'; '.join(found)}."] if found else []


NOTES = """\
Every tool has the same data and the same ε for replacing one record; ± is a standard error.

- *Error*: expected Hellinger distance between the released posterior and the one without privacy, over the
  prior for two levels and for real proportions in the other rows. The *limit* is the least error of any
  ε-private mechanism that releases the posterior of n records.
- OpenDP: discrete Laplace noise on the counts, with or without the known n, whichever is better in the row.
  diffprivlib: its histogram.
- *Selection*: the exponential mechanism of the Hellinger distance (OpenDP: permute-and-flip). The other
  tools and the *naive* program list all candidates. Errors hardly differ; the largest possible n does.
- *Coverage*: intervals of discreet account for the noise and are wider; the others, and the *plug-in* of
  discreet, take noisy counts as exact.
"""


def plain(tools: dict[str, dict[str, Any]], tool: str) -> str:
    return cell(tools.get(tool), None)


def best_opendp(tools: dict[str, dict[str, Any]], measure: str) -> str:
    """Of its two ways to release counts the one that does better here."""
    ways = [tool for tool in tools if tool.startswith("OpenDP")]
    if not ways:
        return "–"
    choose = max if measure == "coverage" else min
    return plain(tools, choose(ways, key=lambda tool: tools[tool]["value"]))


def check_markers(path: Path) -> None:
    text = path.read_text("utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise SystemExit(f"{path} needs the lines {BEGIN} and {END}, once each and in this order")


def write_page(path: Path, result: Result) -> None:
    check_markers(path)
    before, rest = path.read_text("utf-8").split(BEGIN)
    after = rest.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n{page_block(result)}\n{END}{after}", "utf-8")


# ---- the plot ------------------------------------------------------------------------------------------

MARKS = {  # Okabe and Ito: told apart with any colour vision, and by shape
    "discreet": ("#0072B2", "o"),
    "OpenDP": ("#E69F00", "s"),
    "OpenDP, n kept": ("#D55E00", "D"),
    "diffprivlib": ("#009E73", "^"),
    "discreet, plug-in": ("#56B4E9", "v"),
    "limit": ("#000000", "|"),
}


def draw(result: Result, path: Path) -> None:
    """Error (left) and coverage (right) by tool at equal ε."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    rows = {key: tools for key, tools in pivot(result).items() if key[1] == "counts"}
    errors = {key[2]: tools for key, tools in rows.items() if key[0] == "error" and wanted(key[2])}
    covered = {key[2]: tools for key, tools in rows.items() if key[0] == "coverage"}
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    dots(left, errors)
    left.set_xscale("log")
    ticks = (0.03, 0.1, 0.3, 1)
    left.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    left.minorticks_off()
    left.set_title("Hellinger error (less is better)", fontsize=11)
    dots(right, covered)
    right.axvline(90, color="0.35", linewidth=1, linestyle="--", zorder=1)
    right.set_xlim(right=100)
    right.set_title("Coverage of 90 % intervals, in %", fontsize=11)
    handles = {}
    for axes in (left, right):
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    handles = {tool: handles[tool] for tool in MARKS if tool in handles}
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=len(handles), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)


def wanted(setting: str) -> bool:
    """Few enough for a figure: the real proportions at n = 1000, ε = 0.5, and two levels from the prior."""
    if setting.startswith("data from the prior"):
        return "k = 2," in setting
    return setting.endswith("n = 1000, ε = 0.5") and not setting.startswith("uniform")


def dots(axes: Any, settings: dict[str, dict[str, Any]]) -> None:
    """A line for each setting, the tools a little below each other in it."""
    names = list(settings)
    for place, (tool, (colour, marker)) in enumerate(MARKS.items()):
        points = [(settings[s][tool], i) for i, s in enumerate(names) if tool in settings[s]]
        if points:
            axes.errorbar(
                [f["value"] for f, _ in points],
                [i + 0.14 * (place - (len(MARKS) - 1) / 2) for _, i in points],
                xerr=[2 * (f["standard_error"] or 0) for f, _ in points],
                fmt=marker,
                color=colour,
                markersize=10 if tool == "limit" else 6,
                markeredgewidth=2 if tool == "limit" else 1,
                linewidth=1,
                label=tool,
            )
    axes.set_yticks(range(len(names)), [words(name) for name in names], fontsize=9)
    axes.set_ylim(len(names) - 0.5, -0.5)
    for i in range(1, len(names)):
        axes.axhline(i - 0.5, color="0.9", linewidth=0.8, zorder=0)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def words(setting: str) -> str:
    """The data on one line, the numbers on the next."""
    data, _, numbers = setting.partition(", k =")
    return f"{data}\nk ={numbers}"
