"""A report that a board can read: one HTML file with everything inside, made from released values only."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any

from discreet._declarations import Relation
from discreet._documents.answer import Answer, Row, decimals
from discreet._documents.study import StudyResult
from discreet._html import facts, table
from discreet._reporting.figures import drawing
from discreet._version import __version__
from discreet.errors import FileError, InvalidInputError, TooLargeError
from discreet.ledger import Account
from discreet.privacy.composition import compose
from discreet.privacy.guarantee import Guarantee
from discreet.questions._text import words as in_words
from discreet.questions.base import question_of

_STYLE = Path(__file__).with_name("report.css")
_MAX_LISTED = 8  # shares beyond these are in the table only
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


@dataclass(frozen=True)
class Meaning:
    """What somebody can gain who knows everything but one record."""

    right: int
    """How often, in 100 times, they guess right between two equally plausible versions; rounded up."""
    factor: float | None
    """By how much odds can change; None where ε is not stated."""
    rest: str
    """What they know."""

    @property
    def sentence(self) -> str:
        """The promise in plain words."""
        return (
            f"Suppose somebody knows {self.rest} and cannot decide between two equally plausible versions of "
            "what is left. Without this release they would guess right 50 times in 100; with it, at most "
            f"{self.right} times in 100."
        )

    @property
    def unlucky(self) -> str:
        """Why the table of suspicions says more than the sentence, where it does: δ makes them differ."""
        if self.factor is None or 100 * self.factor / (1 + self.factor) <= self.right:
            return ""
        return (
            "The table is for the outcome of the noise that would tell most, which is rare; "
            f"{self.right} times in 100 is over all outcomes."
        )

    @property
    def suspicions(self) -> tuple[tuple[float, float], ...]:
        """(probability before, largest probability afterwards)."""
        if self.factor is None:
            return ()
        odds = {before: self.factor * before / (1 - before) for before in (0.01, 0.1, 0.5, 0.9)}
        return tuple((before, after / (1 + after)) for before, after in odds.items())


def meaning(guarantee: Guarantee) -> Meaning | None:
    """None where nothing is promised, or where the figures would take too long.

    δ(0) is the total variation between neighbours; the best guess of two equally likely ones is right with
    probability (1 + δ(0))/2. Rounded up: a promise may say too much of the attacker, never too little.
    """
    if not guarantee.is_private:
        return None
    with suppress(TooLargeError):
        right = math.ceil(50 * (1 + guarantee.delta_at(0)) - 1e-9)
        known = guarantee.exact_epsilon is not None and guarantee.epsilon < 700
        return Meaning(right, math.exp(guarantee.epsilon) if known else None, guarantee.relation.rest)
    return None


def report(
    result: Any, path: str | Path | None = None, *, title: str | None = None, day: date | None = None
) -> str:
    """The report of an answer, of several, or of a whole study, as one HTML document.

    It holds what the documents hold, in words, tables and drawings; nothing is fetched and nothing runs when
    it is opened. The same released values give the same bytes on the same ``day``, which is today unless
    said. It is written to ``path`` if that is given.
    """
    text = _page(result, title, day or date.today())
    if path is not None:
        try:
            Path(path).write_text(text, encoding="utf-8")
        except (OSError, TypeError) as error:
            raise FileError(f"path={path!r} cannot be written: {getattr(error, 'strerror', error)}") from None
    return text


def _page(result: Any, title: str | None, day: date) -> str:
    named, account = _answers(result)
    whole = result if isinstance(result, StudyResult) else None
    heading = title or (whole.title if whole is not None else "Private release")
    cited = [answer for answer, _ in named.values()]
    if not cited:
        raise InvalidInputError("there is nothing to report yet: ask a question first")
    parts = [_together(cited) if account is None else _budget(account, len(named))]
    for name, (answer, question) in named.items():
        parts.append(_section(str(question.get("title", name)), answer, question))
    datasets = dict.fromkeys(answer.receipt.dataset for answer in cited if answer.receipt is not None)
    about = (f"Dataset: {', '.join(datasets)}. " if datasets else "") + f"Printed on {day.day} {day:%B %Y}."
    parts += [_reading(cited), _methods(cited, account), _verification(cited), _citation(heading, cited, day)]
    body = "\n".join(parts)
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(heading)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>\n{_STYLE.read_text('utf-8')}</style></head>\n<body><h1>{escape(heading)}</h1>\n"
        f"<p>{escape(about)} This report holds released values only.</p>\n"
        f"{body}\n</body></html>\n"
    )


def _answers(result: Any) -> tuple[dict[str, tuple[Answer, Mapping[str, Any]]], Account | None]:
    """The answers by their headings, each with the question as it was asked, and the account that paid."""
    if isinstance(result, StudyResult):
        return {name: (one, result.questions[name]) for name, one in result.answers.items()}, result.account
    if isinstance(result, Answer):
        return {"Result": (result, {})}, None
    named = dict(result) if isinstance(result, Mapping) else {}
    if isinstance(result, list | tuple):
        named = {f"Result {index}": one for index, one in enumerate(result, 1)}
    if not named or not all(isinstance(one, Answer) for one in named.values()):
        raise InvalidInputError(
            "report takes an answer, a list or a mapping of answers, or the result of a study; got "
            f"{type(result).__name__}"
        )
    return {str(name): (one, {}) for name, one in named.items()}, None


def _budget(account: Account, answered: int) -> str:
    rows = [
        ("Dataset", account.dataset),
        ("Privacy budget", str(account.cap)),
        ("Spent so far", str(account.spent)),
        ("Left", str(account.remaining)),
        ("Protected against", Relation(account.relation).against),
        ("Questions answered here", str(answered)),
    ]
    total, spent = "", account.spent
    if spent.epsilon:
        total = _promise(Guarantee(spent.epsilon, Relation(account.relation), spent.delta or Fraction(0)))
    return f"<h2>The promise for everything together</h2>\n{total}{facts(rows, styled=False)}"


def _together(answers: Sequence[Answer]) -> str:
    """What several answers about the same people promise together, where it can be said."""
    if len(answers) < 2 or not all(one.is_private for one in answers):
        return ""
    try:
        whole = compose([one.guarantee for one in answers])
    except (InvalidInputError, TooLargeError):
        return ""
    said = "<p>If these results are about the same people, their losses add up:</p>"
    return f"<h2>The promise for everything together</h2>\n{said}{_promise(whole)}"


def _section(heading: str, answer: Answer, question: Mapping[str, Any]) -> str:
    parts = [f"<section><h2>{escape(heading)}</h2>", _findings(answer)]
    parts += ["<h3>How people are protected</h3>", _promise(answer.guarantee)]
    asked = dict([*answer.words().facts, *_question_text(question)]).items()
    parts += ["<h3>What was asked, of which data</h3>", facts(asked, styled=False)]
    receipt = (
        "none came with this document. If the release was charged to a ledger, its holder can add it: "
        "<code>discreet report FILE --ledger URL</code>."
    )
    if answer.receipt is not None:  # a report made again says the same
        receipt = f"<code>{escape(str(replace(answer.receipt, repeated=False)))}</code>"
    parts.append(f'<p class="small">Receipt: {receipt}</p>')
    return "\n".join(parts) + "</section>"


def _promise(guarantee: Guarantee) -> str:
    if not guarantee.is_private:
        return f'<div class="promise alarm"><p><strong>{escape(guarantee.meaning())}</strong></p></div>'
    said = [f"<strong>{escape(str(guarantee))}</strong>", escape(guarantee.meaning())]
    meant = meaning(guarantee)
    if meant is not None:
        said.insert(0, f"In plain words: {escape(meant.sentence[0].lower() + meant.sentence[1:])}")
    said += [f"Assumed: {escape(assumption)}." for assumption in guarantee.assumptions]
    if guarantee.basis:
        said.append(f"Why it holds: {escape(_proof(guarantee.basis))}.")
    return '<div class="promise">' + "".join(f"<p>{text}</p>" for text in said) + "</div>"


def _proof(basis: str) -> str:
    """A basis for readers outside: a page of proofs by its title, not by its place in a repository."""

    return re.sub(
        r"proofs/([\w-]+)\.md",
        lambda found: f"the proof “{found[1].replace('-', ' ').capitalize()}” of the documentation",
        basis,
    )


def _question_text(question: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The question as it was asked: by its fields, or as it stands where it is of another version."""
    given = {key: value for key, value in question.items() if key not in ("id", "title", "kind")}
    if not given:
        return []
    try:
        return question_of(str(question.get("kind", "proportion")), given).describe()
    except InvalidInputError:
        return [(key, in_words(value)) for key, value in given.items()]


# ---- the results -------------------------------------------------------------------------------------------


def _findings(answer: Answer) -> str:
    """Rows as a list, a drawing and a table; then further tables and notes."""
    rows = answer.shown_rows()
    extras = []
    for extra in answer.tables():
        extras.append(f"<p>{escape(extra.caption)}</p>" if extra.caption else "")
        extras.append(f'<div class="scroll">{table(extra.header, extra.cells, styled=False)}</div>')
    found = [f'<p class="promise alarm">Warning: {escape(text)}</p>' for text in answer.warnings]
    if rows:
        shown, figure = _figures(rows), answer.figure()
        crossed = figure is not None and [row.name for row in figure.rows] != [row.name for row in rows]
        if len(rows) <= _MAX_LISTED and not crossed:
            items = "".join(
                f"<li><strong>{escape(row.name)}</strong>: {shown(row.mean)}"
                + (f" (with 95 % probability {shown(row.low, row.high)})" if row.low is not None else "")
                + "</li>"
                for row in rows
            )
            found.append(f'<ul class="key">{items}</ul>')
        if crossed:  # the cross-table says it best
            found, extras = [*found, *extras], []
        found.append(drawing(figure))
        found.append(f'<div class="scroll">{_table(answer, rows, shown)}</div>')
    found += extras
    found += [f"<p>{escape(note)}</p>" for note in answer.notes]
    return "".join(found)


def _figures(rows: Sequence[Row]) -> Callable[..., str]:
    """How numbers of this table are written: with two digits of the narrowest interval, shares in percent."""
    factor, unit, least, most = (100, " %", 1, 6) if all(row.share for row in rows) else (1, "", 0, 12)
    digits = decimals(rows, factor, least, most)
    return lambda *values: " to ".join(f"{factor * value:,.{digits}f}" for value in values) + unit


def _table(answer: Answer, rows: Sequence[Row], shown: Callable[..., str]) -> str:
    columns: dict[str, list[str]] = {answer.heading: [row.name for row in rows]}
    columns["share" if all(row.share for row in rows) else "estimate"] = [shown(row.mean) for row in rows]
    if any(row.sd is not None for row in rows):
        columns["standard deviation"] = ["–" if row.sd is None else shown(row.sd) for row in rows]
    if any(row.low is not None for row in rows):
        columns["95 % interval"] = ["–" if row.low is None else shown(row.low, row.high) for row in rows]
    if any(row.noise is not None for row in rows):
        columns["noise, part of the variance"] = [
            "–" if row.noise is None else f"{row.noise:.0%}" for row in rows
        ]
    columns |= answer.more_columns(rows, 0.95)
    if any(row.count is not None for row in rows):
        columns["released count"] = ["–" if row.count is None else f"{row.count:,}" for row in rows]
    return table(list(columns), list(zip(*columns.values(), strict=True)), styled=False)


# ---- the end -----------------------------------------------------------------------------------------------


def _reading(answers: Sequence[Answer]) -> str:
    said = dict.fromkeys(text for answer in answers for text in answer.words().reading)
    return "<h2>How to read the figures</h2>\n" + "".join(f"<p>{escape(text)}</p>\n" for text in said) + _FREE


def _verification(answers: Sequence[Answer]) -> str:
    sums = facts([(answer.words().name, answer.checksum()) for answer in answers], styled=False)
    return f"{_VERIFY}<p>The checksums of the documents:</p>\n{sums}"


def _methods(answers: Sequence[Answer], account: Account | None) -> str:
    """A paragraph that can be pasted into a paper."""
    made: Mapping[str, str] = next((found for one in answers if (found := getattr(one, "versions", {}))), {})
    software = f"discreet {made.get('discreet', __version__)}"
    kinds = list(dict.fromkeys(one.words().name for one in answers))
    what = kinds[0] if len(kinds) == 1 else f"{len(kinds)} results"
    were = " were" if len(kinds) > 1 else ":"
    said = [f"{what}{were} released under differential privacy with the program {software}."]
    if account is not None:
        said.append(
            f"Everything released about the dataset “{account.dataset}” together satisfies {account.spent} "
            f"({account.relation}), of a budget of {account.cap} that was fixed beforehand; each release was "
            "charged to a ledger before it left."
        )
    else:
        said += [f"{one.words().name} satisfies {one.guarantee}." for one in answers]
    said.append(
        "Levels, bounds, priors and privacy parameters were declared and not read from the data. Noise was "
        "drawn as exact integers from the random numbers of the operating system. Credible intervals (95 %) "
        "account for sampling and, where stated, for the noise of privacy."
    )
    return f"<h2>Methods, for a paper</h2>\n<p>{escape(' '.join(said))}</p>"


def _citation(heading: str, answers: Sequence[Answer], day: date) -> str:
    items = []
    for answer in answers:
        made = getattr(answer, "versions", {})
        software = f"discreet {made.get('discreet', '')}".strip()
        text = f"“{heading}”. {answer.words().name}. Released with {software} under {answer.guarantee}"
        receipt = "" if answer.receipt is None else f"; ledger entry {answer.receipt.hash}"
        items.append(f"<li>{escape(f'{text}; document {answer.checksum()}{receipt}.')}</li>")
    key = re.sub(r"\W+", "-", heading.lower()).strip("-")[:40] or "release"
    bibtex = (
        f"@misc{{{key},\n  title = {{{re.sub('[{}]', '', heading)}}},\n  year = {{{day.year}}},\n"
        f"  note = {{Differentially private release made with discreet {__version__}, document "
        f"{answers[0].checksum()}}},\n}}"
    )
    cited = f'<ul class="small">{"".join(items)}</ul>'
    return f"<h2>How to cite</h2>\n{cited}\n<pre>{escape(bibtex)}</pre>"
