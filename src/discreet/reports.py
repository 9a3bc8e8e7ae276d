"""A report that a board can read: one HTML file with everything inside, made from released values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np

from discreet.core import Relation
from discreet.glm.release import LogisticRelease
from discreet.guarantees import Guarantee
from discreet.proportions import ConditionalRelease
from discreet.releases import Release
from discreet.sampling import Sample
from discreet.studyfile import StudyDocument, StudyResult

__all__ = ["report"]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --ink: #2456a6; }
@media (prefers-color-scheme: dark) { :root { --ink: #8ab4f8; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .5rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.promise { background: var(--soft); padding: .6rem 1rem; border-left: 4px solid var(--ink); }
.legend { margin: 0 0 0 2.5rem; } .legend span { margin-right: 1.2rem; white-space: nowrap; }
.scroll { overflow-x: auto; } code { overflow-wrap: anywhere; } svg { width: 100%; height: auto; }
@media print { body { max-width: none; margin: 0; } section { break-inside: avoid; } }
"""
_COLOURS = ("#2456a6", "#c2410c", "#15803d", "#7e22ce", "#be123c", "#0f766e")


def report(result: Any, *, title: str | None = None) -> str:
    """The report of a release, a sample, a conditional release or a whole study, as one HTML document.

    It holds what the release documents hold, in words, tables and drawings; nothing is fetched and nothing
    runs when it is opened.
    """
    if isinstance(result, StudyResult | StudyDocument):
        parts = [_budget(result)] if isinstance(result, StudyResult) else []
        for name, answer in result.answers.items():
            parts.append(_section(name, answer, result.questions[name]))
        heading = title or result.title
    else:
        parts = [_section("Result", result, {})]
        heading = title or "Private release"
    body = "\n".join(parts)
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(heading)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(heading)}</h1>\n{body}\n{_FOOT}</body></html>\n"
    )


_FOOT = """<h2>How to verify</h2>
<p>Every figure above follows from the published JSON document by <code>discreet show FILE</code>. The
guarantee of a mechanism is recomputed from its public parameters by <code>discreet audit</code>; the hash of
the receipt is an entry of the ledger, which <code>discreet ledger verify</code> checks. Intervals include the
uncertainty that the privacy mechanism added, unless they are marked as plug-in.</p>
<h2>How to cite</h2>
<p>State the software and its version, the mechanism, the guarantee with its relation, and the receipt.</p>
"""


_RELATIONS = {
    Relation.REPLACE_ONE: "the replacement of any one record",
    Relation.REPLACE_PERSON: "the replacement of any one person",
    Relation.ADD_REMOVE: "the presence or absence of any one record",
}


def _budget(result: StudyResult) -> str:
    account = result.account
    rows = [("Dataset", account.dataset), ("Budget", account.cap), ("Spent", account.spent)]
    rows += [("Left", account.remaining), ("Protected against", _RELATIONS[Relation(account.relation)])]
    return _table(["", ""], [[name, str(value)] for name, value in rows])


def _section(name: str, answer: Any, question: Mapping[str, Any]) -> str:
    text = str(question.get("title", name))
    parts = [f"<section><h2>{escape(text)}</h2>", _asked(question), _promise(answer.guarantee)]
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
    if answer.receipt is not None:
        receipt = replace(answer.receipt, repeated=False)  # a report made again says the same
        parts.append(f"<p><small>Receipt: <code>{escape(str(receipt))}</code></small></p>")
    return "\n".join(part for part in parts if part) + "</section>"


def _asked(question: Mapping[str, Any]) -> str:
    shown = {key: value for key, value in question.items() if key not in ("id", "title", "kind")}
    if not shown:
        return ""
    text = "; ".join(f"{key}: {_in_words(value)}" for key, value in shown.items())
    kind = question.get("kind", "proportion")
    return f"<p><small>Asked ({escape(str(kind))}): {escape(text)}</small></p>"


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{key} ({_in_words(item)})" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _promise(guarantee: Guarantee) -> str:
    assumed = "".join(f"<br>Assumed: {escape(assumption)}." for assumption in guarantee.assumptions)
    said = f"<strong>{escape(str(guarantee))}</strong><br>{escape(guarantee.meaning())}"
    return f'<p class="promise">{said}{assumed}</p>'


def _release(release: Release) -> str:
    prior = ", ".join(f"{a:g}" for a in release.prior)
    rows = release.table()
    about = (
        f"<p>Posterior of the proportions from n = {release.n} records; prior Dirichlet({prior}); mechanism "
        f"{escape(release.mechanism)}.</p>"
    )
    cells = [
        [
            str(row["level"]),
            f"{row['mean']:.4f}",
            f"{row['low']:.4f} – {row['high']:.4f}",
            f"{row['plug_in_low']:.4f} – {row['plug_in_high']:.4f}",
        ]
        for row in rows
    ]
    table = _table(["level", "mean", "95 % interval", "plug-in, which leaves out the noise"], cells)
    return about + _densities(release) + table


def _sample(sample: Sample) -> str:
    about = (
        f"<p>{len(sample.draws)} draw(s) from the posterior of n = {sample.n} records: family "
        f"{escape(str(sample.family['name']))}, sampler {escape(sample.sampler)} (r = {sample.r:.4g}, "
        f"m = {sample.m:.4g}), prior {escape(str(sample.prior))}.</p>"
    )
    values = np.atleast_2d(sample.values.T).T
    header = ["draw", *([f"θ{i + 1}" for i in range(values.shape[1])] if values.shape[1] > 1 else ["θ"])]
    return about + _table(header, [[str(i + 1), *(f"{x:.6g}" for x in row)] for i, row in enumerate(values)])


def _logistic(release: LogisticRelease) -> str:
    names = release.features or tuple(f"x{i + 1}" for i in range(release.coefficients.shape[2]))
    models = release.classes[1:] if release.coefficients.shape[1] == 1 else release.classes
    about = (
        f"<p>Logistic regression, {len(release.coefficients)} draw(s) of coefficients; columns are scaled "
        "to [−1, 1] by their declared bounds.</p>"
    )
    rows = [
        [f"{i + 1}", str(model), f"{release.intercepts[i, j]:.4g}", *(f"{x:.4g}" for x in draw[j])]
        for i, draw in enumerate(release.coefficients)
        for j, model in enumerate(models)
    ]
    return about + _table(["draw", "class", "intercept", *names], rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _densities(release: Release) -> str:
    """The marginal posteriors as a drawing; for many levels the table says it better."""
    if len(release.levels) > len(_COLOURS):
        return ""
    aware = release.noise_aware_or_none()
    x = np.linspace(0, 1, 401)
    curves = []
    for index in range(1 if len(release.levels) == 2 else len(release.levels)):
        law = release.posterior.marginal(index) if aware is None else aware.marginal(index)
        curves.append(np.nan_to_num(np.asarray(law.pdf(np.clip(x, 1e-6, 1 - 1e-6)), dtype=float)))
    top = max(float(curve.max()) for curve in curves) or 1.0
    lines, labels = [], []
    for index, curve in enumerate(curves):
        points = " ".join(
            f"{40 + 540 * a:.1f},{190 - 170 * b / top:.1f}" for a, b in zip(x, curve, strict=True)
        )
        colour = _COLOURS[index]
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>')
        name = escape(str(release.levels[index]))
        labels.append(f'<span style="color: {colour}">{name}</span>')
    ticks = "".join(
        f'<text x="{40 + 540 * t:.0f}" y="208" font-size="12" text-anchor="middle" '
        f'fill="currentColor">{t:g}</text>'
        for t in (0, 0.25, 0.5, 0.75, 1)
    )
    return (
        f'<p class="legend">{" ".join(labels)}</p>'
        '<svg viewBox="0 0 600 215" role="img" aria-label="Posterior densities of the proportions">'
        '<line x1="40" x2="580" y1="190" y2="190" stroke="currentColor" stroke-opacity=".4"/>'
        f"{''.join(lines)}{ticks}</svg>"
    )
