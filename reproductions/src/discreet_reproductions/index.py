"""The index of the papers: one row per item, with its place, the verdict, and what shows it.

    python -m discreet_reproductions.index docs/evidence/literature.md

writes it into the page. Items that an experiment judges are its statements, with the answers of the full run
that the gallery holds. What no experiment judges, such as definitions and what is proved, is listed here.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from discreet_reproductions.catalogue import EXPERIMENTS
from discreet_reproductions.gallery import entries, rewrite

__all__ = ["FEWER", "LISTED", "Item", "items", "markdown"]

PAGE = "docs/evidence/literature.md"
BEGIN, END = "<!-- index:begin -->", "<!-- index:end -->"
VERDICTS = {"yes": "holds", "partly": "in part", "no": "does not hold"}
PAPERS = {
    "A": "A, *Differentially Private Bayesian Inference* (000): six mechanisms and their accuracy",
    "B": "B, *Notes of DP – Bayesian Inference* (001): the exponential mechanism",
    "C": "C, *Rényi Differential Privacy Mechanisms for Posterior Sampling* (002): the appendix",
    "D": "D, *Notes of DP – Bayesian Inference* (003) and *Differentially Private Bayesian Inference* (004), "
    "earlier notes: local sensitivity, sliding and dilation",
}


@dataclass(frozen=True)
class Item:
    """A named thing of a paper. ``shown``: an experiment, a command of discreet, or a file of ours."""

    place: str
    says: str
    verdict: str
    shown: str
    statement: str = ""
    """The name of the statement in the experiment, where it is one."""


def _audit(name: str, **more: str) -> str:
    options = "".join(f" --{key} {value}" for key, value in more.items())
    return f"discreet audit {name} --prior 1,1 --n 20 --epsilon 1{options}"


LISTED = (
    Item(
        "A 1",
        "Dirichlet posteriors, Hellinger distance, local sensitivity, γ-smooth sensitivity",
        "implemented",
        "proofs/sensitivity.md",
    ),
    Item(
        "A, algorithm 1",
        "LSZhang. Its loop ends at |X| − 1 and leaves the last parameter at 0: a slip, ours goes to |X|",
        "implemented",
        _audit("lszhang"),
    ),
    Item("A, algorithm 2", "LSDim", "implemented", _audit("lsdim")),
    Item("A, algorithm 3", "LSHist", "implemented", _audit("lshist")),
    Item("A, algorithm 4", "EHD", "implemented", _audit("ehd")),
    Item("A, algorithm 5", "EHDL, which is not private", "implemented", _audit("ehdl")),
    Item("A, algorithm 6", "EHDS", "implemented", _audit("ehds")),
    Item(
        "A, table after 4.5.3",
        "KL of EHD: the cell is empty",
        "nothing there",
        PAGE,
    ),
    Item(
        "B 3.4.1",
        "Laplace: “decreasing with speed upper bounded by”, and no bound; `b-sizes` has the limits",
        "nothing there",
        PAGE,
    ),
    Item(
        "B 1",
        "Inference with a Dirichlet prior; the Beta case",
        "implemented",
        "docs/explanation/concepts.md",
    ),
    Item(
        "B 2.1", "The exponential mechanism with global sensitivity is ε-private", "proved", "proofs/ehd.md"
    ),
    Item("B 2.2", "The exponential mechanism with local sensitivity is not private", "holds", "d-local"),
    Item(
        "B 2.3, definition 2.1",
        "M_β with β = ln(1 − ε/(2 ln(δ/(2(n + 1)))))",
        "implemented",
        _audit("mbeta", delta="0.0005"),
    ),
    Item(
        "B 2.3.1",
        "P[z = r] is half of P[H = H(r)], as candidates lie in pairs: only around a symmetric posterior",
        "in part",
        "proofs/mbeta.md",
    ),
    Item(
        "B 2.3.2, lemma 2.1",
        "Sliding: P[u = s] ≤ e^{ε/2} P[u = s + Δ] + δ/2 for Δ ≥ −S(x); its readings are under D 3.2",
        "in part",
        "d-dilation",
    ),
    Item(
        "B 2.3.3, lemma 2.2",
        "Dilation: P[u = c] ≤ e^{ε/2} P[u = e^λ c] + δ/2 for |λ| ≤ β; its readings are under D 3.3",
        "in part",
        "d-dilation",
    ),
    Item(
        "B 3.1",
        "Floored Laplace noise of scale 2/ε on m − 1 counts",
        "implemented",
        "b-tables",
    ),
    Item(
        "B, figures 4, 5",
        "With smooth sensitivity it is (0.8, 0.8)-private: at the rate of definition 2.1",
        "proved",
        "proofs/mbeta.md",
    ),
    Item(
        "C, definitions A.1–A.9",
        "Minimal and Δ-bounded families, normalisable parameters, neighbours: sixteen families, two of them "
        "any with one, two or three parameters",
        "implemented",
        "proofs/posterior-sampling.md",
    ),
    Item(
        "C, observation A.3",
        "D_λ of two posteriors from the log-partition function",
        "proved",
        "proofs/posterior-sampling.md",
    ),
    Item(
        "C A.2",
        "Public data in the prior, and how many records until the posterior itself is private enough",
        "implemented",
        "docs/how-to/public-records.md",
    ),
    Item(
        "C A.3, algorithm 1",
        "A statistical query by a Beta draw; a range that is not declared is warned about beforehand",
        "implemented",
        "docs/how-to/posterior-draws.md",
    ),
    Item(
        "C A.4, observation 1",
        "Every posterior of a normalisable prior is normalisable: for priors inside the normalisable set, or "
        "finitely many values",
        "proved",
        "proofs/posterior-sampling.md",
    ),
    Item(
        "C, theorem A.11",
        "Diffused sampling: ours is the largest r that meets (λ, ε), found by search and verified",
        "implemented",
        "c-scalings",
    ),
    Item(
        "C, theorem A.13",
        "Concentrated sampling: ours is the largest m that meets (λ, ε), found by search and verified",
        "implemented",
        "c-scalings",
    ),
    Item(
        "C A.6.1",
        "Dirichlet–categorical: corners are enough for categories; not for shares with priors below ½ "
        "(13.46 > 13.03)",
        "proved",
        "proofs/posterior-sampling.md",
    ),
    Item(
        "C A.6.2",
        "Gaussian means with clipped records; clipping to [−Δ, Δ] changes a sum by 2Δ, not Δ",
        "in part",
        "proofs/posterior-sampling.md",
    ),
    Item(
        "C A.6.2, first approach",
        "A bounded range of neighbours: a weaker promise (replace-nearby), read from documents of 0.2",
        "no longer made",
        "proofs/posterior-sampling.md",
    ),
    Item(
        "C A.7.1, theorem A.16",
        "Herbst's theorem, and by it the Rényi bound; our proof goes by Gaussian privacy to the same curve",
        "proved",
        "proofs/logistic.md",
    ),
    Item(
        "D 1.1", "The exponential mechanism with global sensitivity is ε-private", "proved", "proofs/ehd.md"
    ),
    Item("D 1.3", "Varying sensitivity: headings only, in both versions", "nothing there", PAGE),
    Item(
        "D 1.4",
        "Smooth sensitivity, set-up and security: headings only, in both versions",
        "nothing there",
        PAGE,
    ),
    Item(
        "D, second notes, 3",
        "“We got some results from these mechanisms”, and no more",
        "nothing there",
        PAGE,
    ),
)

FEWER = {
    ("a-utility", "lshist-h-inverted"): "partly",
    ("a-utility", "ehd-h-inverted"): "partly",
    ("a-mechanisms", "large-n"): "yes",
    ("c-figures34", "diffuse-over-concentrated-error"): "yes",
    ("c-figures34", "diffuse-over-ops-error"): "yes",
    ("beyond-study", "lattice-wins"): "yes",
    ("beyond-study", "ehd-costs"): "yes",
}
"""What a quick run says where its fewer points, or the small data sets, do not show an exception."""


def place_of(source: str) -> str | None:
    """The place in the notation of the index; None for what no paper says."""
    source = source.replace("the paper, ", "C ").replace("B Figures", "B, figures")
    source = source.replace("read into D 1.2", "D 1.2, read into it")
    return source if re.match(r"[ABCD][ ,]", source) else None


def items() -> list[Item]:
    """Every row, in the order of the papers."""
    judged = []
    for entry in entries():
        claims = [s["claim"] for s in entry["statements"]]
        for s in entry["statements"]:
            if (place := place_of(s["source"])) is not None:
                says = s["claim"] if claims.count(s["claim"]) == 1 else f"{s['claim']} ({s['name']})"
                judged.append(Item(place, says, VERDICTS[s["agrees"]], entry["name"], s["name"]))
    return sorted([*LISTED, *judged], key=lambda item: _order(item.place))


def _order(place: str) -> tuple[str, tuple[tuple[int, ...], ...]]:
    """Numbers as numbers. The algorithms of A are its part 2, and the figures 4 and 5 of B belong to 4.2."""
    numbers = tuple(tuple(map(int, n.split("."))) for n in re.findall(r"\d+(?:\.\d+)*", place))
    if place.startswith("A, algorithm"):
        numbers = ((2, *numbers[0]),)
    if place.startswith("B, figures"):
        numbers = ((4, 2), (5,))
    return place[0], numbers


def markdown(found: Sequence[Item]) -> str:
    """The rows as tables, one for each paper."""
    lines = []
    for letter, title in PAPERS.items():
        lines += [
            f"### {title}",
            "",
            "| Place | What it says | Verdict | Shown by |",
            "| --- | --- | --- | --- |",
        ]
        lines += [
            f"| {item.place} | {_cell(item.says)} | {item.verdict} | {_shown(item)} |"
            for item in found
            if item.place[0] == letter
        ]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    first = text[0].upper() if text[:2].isascii() and text[1].isalpha() else text[0]
    return f"{first}{text[1:]}".replace("|", "\\|")


def _shown(item: Item) -> str:
    if item.shown in {experiment.name for experiment in EXPERIMENTS}:
        return f"`{item.shown}`"
    if item.shown.startswith("discreet "):
        return f"`{item.shown}`"
    if item.shown == PAGE:
        return "the text"
    name = Path(item.shown)
    link = Path(os.path.relpath(name, Path(PAGE).parent)).as_posix()
    return f"`{item.shown}`" if name.suffix == ".py" else f"[{name.stem}]({link})"


def main(arguments: Sequence[str]) -> int:
    """The command line of this module."""
    if len(arguments) != 1:
        print("usage: python -m discreet_reproductions.index PAGE", file=sys.stderr)
        return 2
    found = items()
    rewrite(Path(arguments[0]), markdown(found), (BEGIN, END))
    print(f"{len(found)} items")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
