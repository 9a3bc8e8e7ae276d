"""A report that a board can read: one HTML file with everything inside, made from released values only."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np

from discreet._html import facts, table
from discreet.answers.release import Release
from discreet.declarations import Relation
from discreet.errors import InvalidInput, TooLargeError
from discreet.posterior_sampling.sample import Sample
from discreet.privacy.guarantee import Guarantee
from discreet.questions.proportions import ConditionalRelease
from discreet.regression.release import LogisticRelease
from discreet.reporting.figures import drawing
from discreet.study.study_file import StudyDocument, StudyResult

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
_MAX_LISTED = 8  # shares beyond these are in the table only

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
_SOMEBODY = {
    Relation.REPLACE_ONE: ("the replacement of any one record", "every record but one"),
    Relation.REPLACE_PERSON: (
        "the replacement of any one person",
        "everything but the records of one person",
    ),
    Relation.WITHIN_GROUP: (
        "the replacement of what any one record says, given its public group",
        "the group of every record, and every record but one",
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
            "its holder can add it: <code>discreet report FILE --ledger URL</code>.</p>"
        )
    return "\n".join(parts) + "</section>"


# ---- the guarantee ---------------------------------------------------------------------------------------


def _promise(guarantee: Guarantee) -> str:
    if not guarantee.is_private:
        return f'<div class="promise alarm"><p><strong>{escape(guarantee.meaning())}</strong></p></div>'
    said = [f"<strong>{escape(str(guarantee))}</strong>", escape(guarantee.meaning())]
    # δ(0) is the total variation between neighbours; the best guess of two equally likely ones is right with
    # probability (1 + δ(0))/2. Rounded up: a promise may say too much of the attacker, never too little.
    with suppress(TooLargeError):
        right = math.ceil(50 * (1 + guarantee.delta_at(0)) - 1e-9)
        said.append(
            f"In plain words: somebody who knows {_SOMEBODY[guarantee.relation][1]}, and has two equally "
            "likely versions of the rest in mind, would be right 50 times in 100 by tossing a coin. With "
            f"this release the best guess is right at most {right} times in 100."
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
        model, prior = _model(answer)
        rows += [
            ("Records", f"{answer.n:,} (public); no record is in this document"),
            ("Model", model),
            ("Prior", prior),
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


def _model(sample: Sample) -> tuple[str, str]:
    """The model and its prior, in words."""
    family, prior = sample.family, sample.prior
    name = family["name"]
    limits = family.get("bounds", sample.bounds)
    between = "" if limits is None else f", clipped to {limits[0]:g} – {limits[1]:g}"
    if name == "gaussian":
        model = f"the mean of numbers with standard deviation {family['sigma']:g}{between}"
        return model, f"mean {prior[0]:g}, standard deviation {prior[1]:g}"
    if name == "gaussian-vector":
        model = f"the mean of vectors with standard deviation {family['sigma']:g} on each axis, clipped to "
        centre = ", ".join(f"{mean:g}" for mean, _ in prior)
        return f"{model}length {family['radius']:g}", f"mean ({centre}), standard deviation {prior[0][1]:g}"
    if name in ("poisson", "exponential"):
        what = "the mean number of events per record" if name == "poisson" else "the rate of waiting times"
        return f"{what}{between}", f"Gamma({prior[0]:g}, {prior[1]:g}): mean {prior[0] / prior[1]:g}"
    if name == "beta":
        return f"the mean of numbers{between or ' in [0, 1], or the share of yes'}", _prior(prior)
    return "the shares of the levels", _prior(prior)


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


def _figures(rows: Sequence[Mapping[str, Any]], *, percent: bool) -> Callable[..., str]:
    """How numbers of this table are written: with two digits of the narrowest interval."""
    factor, unit, least, most = (100, " %", 1, 6) if percent else (1, "", 0, 12)
    width = factor * min(row["high"] - row["low"] for row in rows)
    digits = min(most, max(least, math.ceil(-math.log10(max(width, 1e-12))) + 1))
    return lambda *values: " – ".join(f"{factor * value:,.{digits}f}" for value in values) + unit


def _release(release: Release) -> str:
    rows = release.table()
    percent = _figures(rows, percent=True)
    key = ""
    if len(rows) <= _MAX_LISTED:
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
    aware = release.noise_aware_or_none()
    laws = [(aware or release.posterior).marginal(i) for i in range(len(rows))]
    picture = drawing([str(row["level"]) for row in rows], rows, laws, of="Share of each level", percent=True)
    return f'{key}{picture}<div class="scroll">{table(header, cells, styled=False)}</div>'


def _sample(sample: Sample) -> str:
    names = sample.parameters()
    values = np.atleast_2d(sample.values.T).T
    drawn = table(["draw", *names], _numbered(values), styled=False)
    number = "One draw" if len(values) == 1 else f"{len(values)} draws"
    about = (
        f"<p>{number} from the posterior of n = {sample.n:,} records was published (record weight r = "
        f"{sample.r:.4g}, prior divided by m = {sample.m:.4g}). A draw is a plausible value, not an estimate"
    )
    try:
        rows = sample.table()
    except (TooLargeError, InvalidInput):
        return f'{about}.</p><div class="scroll">{drawn}</div>'
    percent = sample.bounds is None and sample.family["name"] in ("beta", "dirichlet")
    shown = _figures(rows, percent=percent)
    items = "".join(
        f"<li><strong>{escape(row['parameter'])}</strong>: {shown(row['mean'])} "
        f"(with 95 % probability {shown(row['low'], row['high'])})</li>"
        for row in rows[:_MAX_LISTED]
    )
    picture = drawing(names, rows, sample.marginals(), of="What is known after the release", percent=percent)
    cells = [
        [row["parameter"], shown(row["mean"]), shown(row["sd"]), shown(row["low"], row["high"])]
        for row in rows
    ]
    found = table(["parameter", "mean", "standard deviation", "95 % interval"], cells, styled=False)
    return (
        f'<ul class="key">{items}</ul>{picture}<div class="scroll">{found}</div>{about}; the figures above '
        f'account for its randomness.</p><div class="scroll">{drawn}</div>'
    )


def _numbered(values: Any) -> list[list[str]]:
    return [[str(i + 1), *(f"{x:.6g}" for x in row)] for i, row in enumerate(values)]


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


# ---- the end -----------------------------------------------------------------------------------------------


_SHARES = """<p>A share is the mean of what is known about it after the release. The 95 % interval holds it
with 95 % probability, given the prior; where the noise of the mechanism can be accounted for exactly, it is
included. The plug-in interval takes the released counts as if they were exact and is too narrow: it is there
for comparison. Released counts carry noise and are not the counts of the data.</p>
"""
_PARAMETERS = """<p>The figures of a posterior draw say what is known about the parameter after the release:
prior, records and the randomness of the draw are all accounted for. Records count as they were clipped to the
declared bounds.</p>
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
    drawn = any(isinstance(answer, Sample) for answer in answers)
    return "<h2>How to read the figures</h2>\n" + _SHARES * shares + _PARAMETERS * drawn + _FREE


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
