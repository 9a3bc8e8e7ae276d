"""A report that a board can read: one HTML file with everything inside, made from released values only."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np

from discreet.core import Relation
from discreet.glm.release import LogisticRelease
from discreet.guarantees import Guarantee
from discreet.markup import facts, table
from discreet.proportions import ConditionalRelease
from discreet.releases import Release
from discreet.sampling import Sample
from discreet.studyfile import StudyDocument, StudyResult

__all__ = ["report"]

_STYLE = """
:root { color-scheme: light dark; --line: #8885; --soft: #8881; --ink: #2456a6; }
@media (prefers-color-scheme: dark) { :root { --ink: #8ab4f8; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, "Liberation Sans", sans-serif; max-width: 48rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { line-height: 1.2; margin-bottom: .2rem; } h1 + p { margin-top: 0; opacity: .75; }
h2 { margin-top: 2.5rem; border-top: 2px solid var(--ink); padding-top: .8rem; line-height: 1.25; }
h3 { margin: 1.6rem 0 .4rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; margin: .6rem 0; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th:first-child, td:first-child, .facts td { text-align: left; }
td + td { white-space: nowrap; } .facts td { white-space: normal; }
.facts th { width: 11rem; font-weight: 600; } .facts td { overflow-wrap: anywhere; }
.key { font-size: 1.15rem; margin: .5rem 0; padding-left: 1.2rem; } .key li { margin: .15rem 0; }
.promise { background: var(--soft); padding: .7rem 1rem; border-left: 4px solid var(--ink); }
.promise p { margin: .35rem 0; } .alarm { border-left-color: #c2410c; }
.scroll { overflow-x: auto; } code { overflow-wrap: anywhere; font-size: .9em; }
figure { margin: 1rem 0; } figcaption, .small { font-size: .9rem; opacity: .8; }
svg { width: 100%; height: auto; } svg text { font: 13px system-ui, "Liberation Sans", sans-serif;
  fill: currentColor; }
@page { margin: 18mm 16mm; }
@media print {
  :root { color-scheme: light; --ink: #2456a6; }
  body { max-width: none; margin: 0; padding: 0; font-size: 10.5pt; }
  h2, h3 { break-after: avoid; } figure, tr, .promise, .key, li { break-inside: avoid; }
  .scroll { overflow: visible; }
}
"""
_MAX_DENSITIES, _MAX_ROWS = 8, 40  # beyond these a drawing keeps the intervals only, or is left out

_MECHANISMS = {
    "lattice": "Random whole numbers that sum to zero were added to the counts of the levels, so that the "
    "total stayed n. The most fitting counts were then read out of the noisy ones.",
    "lshist": "A random whole number was added to the count of every level but the last, which is the rest.",
    "lsdim": "A random whole number, larger the more levels there are, was added to the count of every level "
    "but the last, which is the rest.",
    "lszhang": "A random whole number was added to the count of every level.",
    "ehd": "One posterior was drawn at random from all possible ones, the likelier the nearer it is to the "
    "true one.",
    "ehds": "One posterior was drawn at random from all possible ones, the likelier the nearer it is to the "
    "true one, and more sharply where one record matters less.",
    "ehdl-calibrated": "One posterior was drawn at random from all possible ones, the likelier the nearer it "
    "is to the true one; how sharply was set by going through all possible datasets.",
    "mbeta": "One posterior was drawn at random from all possible ones, the likelier the nearer it is to the "
    "true one; the guarantee comes from an audit of all possible datasets.",
    "ehdl": "One posterior was drawn at random in a way that is not private.",
    "optimal": "The counts were drawn from a table of probabilities that has the least expected error of all "
    "private ones.",
}
_SAMPLERS = {
    "direct": "The posterior itself is spread out enough: a draw from it was published.",
    "diffused": "Each record was given less weight, so that the posterior is spread out enough; a draw from "
    "it was published.",
    "concentrated": "The prior was given more weight, so that one record matters less; a draw from the "
    "posterior was published.",
}
_PARAMETERS = {
    "beta": "share",
    "dirichlet": "share",
    "gaussian": "mean",
    "gaussian-vector": "mean",
    "poisson": "rate",
    "exponential": "rate",
}
_SOMEBODY = {
    Relation.REPLACE_ONE: ("the replacement of any one record", "every record but one"),
    Relation.REPLACE_PERSON: (
        "the replacement of any one person",
        "everything but the records of one person",
    ),
    Relation.ADD_REMOVE: ("the presence or absence of any one record", "every record but one"),
}


def report(result: Any, *, title: str | None = None) -> str:
    """The report of a release, a sample, a conditional release or a whole study, as one HTML document.

    It holds what the release documents hold, in words, tables and drawings; nothing is fetched and nothing
    runs when it is opened. The same released values give the same bytes.
    """
    if isinstance(result, StudyResult | StudyDocument):
        parts = [_budget(result)] if isinstance(result, StudyResult) else []
        for name, answer in result.answers.items():
            parts.append(
                _section(str(result.questions[name].get("title", name)), answer, result.questions[name])
            )
        heading = title or result.title
        cited = list(result.answers.values())
    else:
        heading = title or "Private release"
        parts = [_section("Result", result, {})]
        cited = [result]
    body = "\n".join([*parts, _reading(cited), _verification(cited), _citation(heading, cited)])
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(heading)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(heading)}</h1>\n"
        "<p>A report of differentially private results: it holds released values only.</p>\n"
        f"{body}\n</body></html>\n"
    )


def _budget(result: StudyResult) -> str:
    account = result.account
    rows = [
        ("Dataset", account.dataset),
        ("Privacy budget", str(account.cap)),
        ("Spent so far", str(account.spent)),
        ("Left", str(account.remaining)),
        ("Protected against", _SOMEBODY[Relation(account.relation)][0]),
        ("Questions answered here", str(len(result.answers))),
    ]
    return f"<h2>The budget</h2>\n{facts(rows, styled=False)}"


def _section(heading: str, answer: Any, question: Mapping[str, Any]) -> str:
    parts = [f"<section><h2>{escape(heading)}</h2>"]
    if isinstance(answer, ConditionalRelease):
        for group, size, one in zip(answer.groups, answer.sizes, answer.releases, strict=True):
            parts.append(f"<h3>{escape(f'{answer.given} = {group}')} <small>(n = {size})</small></h3>")
            parts.append("<p>No records: the posterior is the prior.</p>" if one is None else _release(one))
    elif isinstance(answer, Sample):
        parts.append(_sample(answer))
    elif isinstance(answer, LogisticRelease):
        parts.append(_logistic(answer))
    else:
        parts.append(_release(answer))
    parts += ["<h3>How people are protected</h3>", _promise(answer.guarantee)]
    parts += ["<h3>What was asked, of which data</h3>", facts(_asked(answer, question), styled=False)]
    if answer.receipt is not None:
        receipt = replace(answer.receipt, repeated=False)  # a report made again says the same
        parts.append(f'<p class="small">Receipt: <code>{escape(str(receipt))}</code></p>')
    else:
        parts.append(
            '<p class="small">Receipt: none came with this document. If the release was charged to a ledger, '
            "the holder of the data can show the entry.</p>"
        )
    return "\n".join(parts) + "</section>"


# ---- the guarantee ---------------------------------------------------------------------------------------


def _promise(guarantee: Guarantee) -> str:
    if not guarantee.is_private:
        return f'<div class="promise alarm"><p><strong>{escape(guarantee.meaning())}</strong></p></div>'
    said = [f"<strong>{escape(str(guarantee))}</strong>", escape(guarantee.meaning())]
    # δ(0) is the total variation between neighbours; the best guess of two equally likely ones is right with
    # probability (1 + δ(0))/2. Rounded up: a promise may say too much of the attacker, never too little.
    right = math.ceil(50 * (1 + guarantee.delta_at(0)) - 1e-9)
    said.append(
        f"In plain words: somebody who knows {_SOMEBODY[guarantee.relation][1]}, and has two equally likely "
        "versions of the rest in mind, would be right 50 times in 100 by tossing a coin. With this release "
        f"the best guess is right at most {right} times in 100."
    )
    said += [f"Assumed: {escape(assumption)}." for assumption in guarantee.assumptions]
    if guarantee.basis:
        said.append(f"Why it holds: {escape(guarantee.basis)}.")
    return '<div class="promise">' + "".join(f"<p>{text}</p>" for text in said) + "</div>"


# ---- the question and the data -----------------------------------------------------------------------------


def _asked(answer: Any, question: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = []
    shown = {key: value for key, value in question.items() if key not in ("id", "title", "kind")}
    if shown:
        asked = "; ".join(f"{key}: {_in_words(value)}" for key, value in shown.items())
        rows.append((f"Asked ({question.get('kind', 'proportion')})", asked))
    if isinstance(answer, ConditionalRelease):
        sizes = "; ".join(f"{group}: {size}" for group, size in zip(answer.groups, answer.sizes, strict=True))
        rows += [("Question", f"shares of {answer.outcome}, given {answer.given}"), ("Records", sizes)]
        first = next((one for one in answer.releases if one is not None), None)
        return rows + ([] if first is None else _about_counts(first))
    if isinstance(answer, Sample):
        family = ", ".join(
            f"{key} {_in_words(value)}" for key, value in answer.family.items() if key != "name"
        )
        rows += [
            ("Records", f"{answer.n} (public); no record is in this document"),
            ("Model", f"{answer.family['name']}" + (f" ({family})" if family else "")),
            ("Prior", _in_words(answer.prior)),
            ("Mechanism", f"{answer.sampler}: {_SAMPLERS.get(answer.sampler, '')}"),
        ]
        return rows
    if isinstance(answer, LogisticRelease):
        settings = "; ".join(f"{k}: {_in_words(v)}" for k, v in answer.settings.items() if v is not None)
        rows += [
            ("Classes", _in_words(answer.classes)),
            ("Model", f"Bayesian logistic regression ({answer.estimator}), rows clipped to length "
                      f"{answer.norm_bound:g}"),
            ("Settings", settings),
        ]  # fmt: skip
        return rows
    return [*rows, ("Records", f"{answer.n} (public); no record is in this document"), *_about_counts(answer)]


def _about_counts(release: Release) -> list[tuple[str, str]]:
    rows = [("Declared levels", ", ".join(str(level) for level in release.levels))]
    for name, level in (("Undeclared values", release.other), ("Missing values", release.missing)):
        if level is not None:
            rows.append((name, f"counted as {level}"))
    words = _MECHANISMS.get(release.mechanism, "")
    return [*rows, ("Prior", _prior(release.prior)), ("Mechanism", f"{release.mechanism}: {words}")]


def _prior(prior: Sequence[float]) -> str:
    listed = ", ".join(f"{a:g}" for a in prior)
    name = "Beta" if len(prior) == 2 else "Dirichlet"
    if set(prior) == {1.0}:
        said = "all shares were equally likely beforehand"
    else:
        said = f"it weighs as much as {sum(prior):g} records"
    return f"{name}({listed}): {said}"


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{key} ({_in_words(item)})" for key, item in value.items())
    return ", ".join(map(_in_words, value)) if isinstance(value, list | tuple) else str(value)


# ---- the results -------------------------------------------------------------------------------------------


def _release(release: Release) -> str:
    rows = release.table()
    width = min(row["high"] - row["low"] for row in rows)
    digits = min(6, max(1, math.ceil(-math.log10(max(100 * width, 1e-9))) + 1))

    def percent(*shares: float) -> str:
        return " – ".join(f"{100 * share:.{digits}f}" for share in shares) + " %"

    key = ""
    if len(rows) <= _MAX_DENSITIES:
        items = "".join(
            f"<li><strong>{escape(str(row['level']))}</strong>: {percent(row['mean'])} "
            f"(with 95 % probability {percent(row['low'], row['high'])})</li>"
            for row in rows
        )
        key = f'<ul class="key">{items}</ul>'
    header = ["level", "share", "95 % interval", "plug-in interval", "released count"]
    cells = [
        [
            str(row["level"]),
            percent(row["mean"]),
            percent(row["low"], row["high"]),
            percent(row["plug_in_low"], row["plug_in_high"]),
            f"{row['count']:,}",
        ]
        for row in rows
    ]
    return f'{key}{_drawing(release, rows)}<div class="scroll">{table(header, cells, styled=False)}</div>'


def _sample(sample: Sample) -> str:
    values = np.atleast_2d(sample.values.T).T
    name = _PARAMETERS.get(str(sample.family["name"]), "θ")
    header = [
        "draw",
        *([f"{name} {i + 1}" for i in range(values.shape[1])] if values.shape[1] > 1 else [name]),
    ]
    cells = [[str(i + 1), *(f"{x:.6g}" for x in row)] for i, row in enumerate(values)]
    number = "One draw" if len(values) == 1 else f"{len(values)} draws"
    about = (
        f"<p>{number} from the posterior of n = {sample.n} records (record weight r = {sample.r:.4g}, prior "
        f"divided by m = {sample.m:.4g}). A draw is a plausible value, not an estimate with an interval.</p>"
    )
    return f'{about}<div class="scroll">{table(header, cells, styled=False)}</div>'


def _logistic(release: LogisticRelease) -> str:
    names = release.features or tuple(f"x{i + 1}" for i in range(release.coefficients.shape[2]))
    models = release.classes[1:] if release.coefficients.shape[1] == 1 else release.classes
    cells = [
        [f"{i + 1}", str(model), f"{release.intercepts[i, j]:.4g}", *(f"{x:.4g}" for x in draw[j])]
        for i, draw in enumerate(release.coefficients)
        for j, model in enumerate(models)
    ]
    number = "One draw" if len(release.coefficients) == 1 else f"{len(release.coefficients)} draws"
    about = (
        f"<p>{number} of the coefficients from a private posterior, for the columns as the model saw them: "
        "scaled by declared bounds. A positive coefficient makes the class likelier.</p>"
    )
    header = ["draw", "class", "intercept", *names]
    return f'{about}<div class="scroll">{table(header, cells, styled=False)}</div>'


# ---- the drawing -------------------------------------------------------------------------------------------

_LEFT, _RIGHT = 165.0, 570.0


def _drawing(release: Release, rows: Sequence[Mapping[str, Any]]) -> str:
    """One line per level: the 95 % interval and the mean, and for few levels the density above them."""
    if len(rows) > _MAX_ROWS:
        return ""
    aware = release.noise_aware_or_none()
    dense = len(rows) <= _MAX_DENSITIES
    step = 58.0 if dense else 22.0
    ticks = _ticks(min(row["low"] for row in rows), max(row["high"] for row in rows))
    low, high = ticks[0], ticks[-1]

    def across(share: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (share - low) / (high - low)

    bottom = step * len(rows) + 12
    marks = []
    for tick in ticks:
        x = across(tick)
        marks.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{bottom:.1f}" stroke="#8884"/>')
        marks.append(f'<text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{100 * tick:g} %</text>')
    for index, row in enumerate(rows):
        y = step * (index + 1)
        if dense:
            law = release.posterior.marginal(index) if aware is None else aware.marginal(index)
            marks.append(_density(law, low, high, across, y - 4, step - 16))
        ends = f'x1="{across(row["low"]):.1f}" x2="{across(row["high"]):.1f}"'
        marks.append(f'<line {ends} y1="{y:.1f}" y2="{y:.1f}" stroke="var(--ink)" stroke-width="4"/>')
        marks.append(f'<circle cx="{across(row["mean"]):.1f}" cy="{y:.1f}" r="5" fill="var(--ink)"/>')
        name = str(row["level"])
        short = name if len(name) <= 18 else name[:17] + "…"
        marks.append(f'<text x="{_LEFT - 14:.0f}" y="{y + 4:.1f}" text-anchor="end">{escape(short)}</text>')
    caption = "Share of each level. Bar: 95 % interval; dot: mean" + (
        "; curve: posterior density." if dense else "."
    )
    return (
        f'<figure><svg viewBox="0 0 600 {bottom + 26:.0f}" role="img" aria-label="Posterior of the shares, '
        f'as in the table below">{"".join(marks)}</svg><figcaption>{caption}</figcaption></figure>'
    )


def _ticks(least: float, most: float) -> list[float]:
    """Round shares that enclose the range, four to eight of them, within 0 and 1."""
    span = max(most - least, 1e-9)
    power = 10.0 ** math.floor(math.log10(span))
    size = next(power * part for part in (0.2, 0.25, 0.5, 1.0, 2.0) if span / (power * part) <= 6)
    first, last = math.floor(least / size - 1e-9), math.ceil(most / size + 1e-9)
    ticks = (round(size * i, 12) for i in range(first, max(last, first + 1) + 1))
    return [tick for tick in ticks if -1e-9 <= tick <= 1 + 1e-9]


def _density(law: Any, low: float, high: float, across: Any, base: float, height: float) -> str:
    x = np.linspace(low, high, 241)
    y = np.nan_to_num(np.asarray(law.pdf(np.clip(x, 1e-6, 1 - 1e-6)), dtype=float), posinf=0.0)
    y = y / max(float(y.max()), 1e-300)
    seen = np.flatnonzero(y > 0.003)
    x, y = x[seen[0] : seen[-1] + 1], height * y[seen[0] : seen[-1] + 1]
    curve = " ".join(f"{across(a):.1f},{base - b:.1f}" for a, b in zip(x, y, strict=True))
    corners = f"{across(x[0]):.1f},{base:.1f} {curve} {across(x[-1]):.1f},{base:.1f}"
    return (
        f'<polygon points="{corners}" fill="var(--ink)" fill-opacity=".18"/>'
        f'<polyline points="{curve}" fill="none" stroke="var(--ink)" stroke-opacity=".6"/>'
    )


# ---- the end -----------------------------------------------------------------------------------------------


_SHARES = """<p>A share is the mean of what is known about it after the release. The 95 % interval holds it
with 95 % probability, given the prior; where the noise of the mechanism can be accounted for exactly, it is
included. The plug-in interval takes the released counts as if they were exact and is too narrow: it is there
for comparison. Released counts carry noise and are not the counts of the data.</p>
"""
_FREE = """<p>Everything that is computed from these figures alone is as well protected as they are. Further
releases about the same people are not free: their losses add up.</p>
"""
_VERIFY = """<h2>How to verify</h2>
<ol><li><code>discreet show FILE</code> on the published JSON document prints the figures above, and refuses a
document whose checksum does not match.</li>
<li><code>discreet audit</code> recomputes the loss of a mechanism from its public parameters.</li>
<li><code>discreet ledger verify --expect HASH</code>, with the hash of a receipt, shows that the charge is in
the ledger and that the ledger was not edited or put back.</li></ol>
"""


def _reading(answers: Sequence[Any]) -> str:
    shares = any(isinstance(answer, Release | ConditionalRelease) for answer in answers)
    return "<h2>How to read the figures</h2>\n" + (_SHARES if shares else "") + _FREE


def _verification(answers: Sequence[Any]) -> str:
    sums = facts([(_name(answer), _checksum(answer)) for answer in answers], styled=False)
    return f"{_VERIFY}<p>The checksums of the documents:</p>\n{sums}"


def _citation(heading: str, answers: Sequence[Any]) -> str:
    items = []
    for answer in answers:
        software = f"discreet {_version(answer)}".strip()
        text = f"“{heading}”. {_name(answer)}. Released with {software} under {answer.guarantee}"
        receipt = "" if answer.receipt is None else f"; ledger entry {answer.receipt.hash}"
        items.append(f"<li>{escape(f'{text}; document {_checksum(answer)}{receipt}.')}</li>")
    return f'<h2>How to cite</h2>\n<ul class="small">{"".join(items)}</ul>'


def _name(answer: Any) -> str:
    if isinstance(answer, ConditionalRelease):
        return f"Posteriors of {answer.outcome} given {answer.given}"
    if isinstance(answer, Sample):
        return f"Posterior draw ({answer.sampler}, {answer.family['name']}), n = {answer.n}"
    if isinstance(answer, LogisticRelease):
        return f"Logistic regression ({answer.estimator})"
    return f"Posterior of {len(answer.levels)} shares ({answer.mechanism}), n = {answer.n}"


def _version(answer: Any) -> str:
    if isinstance(answer, ConditionalRelease):
        return next((_version(one) for one in answer.releases if one is not None), "")
    return str(answer.versions.get("discreet", ""))


def _checksum(answer: Any) -> str:
    return str(json.loads(answer.to_json())["checksum"])
