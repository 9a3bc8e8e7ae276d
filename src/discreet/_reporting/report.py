"""A report that a board can read: one HTML file with everything inside, made from released values only."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from discreet._declarations import Relation
from discreet._documents.answer import Answer, Page
from discreet._documents.parts import NOISE_NOTE, Row, decimals, number_text
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
_NOISE = "noise"
_FREE = """<p>Everything computed from these figures alone is as well protected as they are. Further
releases about the same people are not free: their losses add up.</p>"""
_STATED = ("id", "title", "kind", "epsilon", "delta")
"""Fields of a question that its heading and its guarantee state."""
_STARTS = {
    "mean": "Mean of ",
    "regress": "Regression of ",
    "quantiles": "Quantiles of ",
    "survival": "Survival by ",
    "network": "Network of ",
}
_VERIFY = """<h3>How to verify</h3>
<ol><li><code>discreet show FILE</code> on the published JSON document prints the figures above, and refuses a
document whose checksum does not match.</li>
<li><code>discreet audit</code> recomputes the loss of a mechanism from its public parameters.</li>
<li><code>discreet ledger verify --expect HASH</code>, with the hash of a receipt, shows that the charge is in
the ledger, and that the ledger was not edited or restored from an older copy.</li></ol>
"""


@dataclass(frozen=True)
class Meaning:
    """What an attacker who knows every other record can learn about one record."""

    right: int
    """How often in 100 the attacker guesses right between two equally plausible versions, rounded up."""
    factor: float | None
    """The factor by which odds can change; None where ε is not stated."""
    rest: str
    """What the attacker knows."""

    @property
    def sentence(self) -> str:
        """The guarantee in plain words."""
        return (
            f"Suppose an attacker knows {self.rest}, and considers two versions of the remaining data "
            "equally plausible. Without this release the attacker guesses right 50 times in 100; with it, "
            f"at most {self.right} times in 100."
        )

    @property
    def unlucky(self) -> str:
        """Why the table of suspicions shows more than the sentence; empty unless δ is above 0."""
        if self.factor is None or 100 * self.factor / (1 + self.factor) <= self.right:
            return ""
        return (
            "The table shows the most revealing outcome of the noise, which is rare; "
            f"over all outcomes the attacker guesses right at most {self.right} times in 100."
        )

    @property
    def suspicions(self) -> tuple[tuple[float, float], ...]:
        """Pairs of an attacker's probability before the release and the largest possible one after it.

        Probabilities are rounded up: to whole percents if they are 10 % or more, and otherwise to tenths.
        """
        if self.factor is None:
            return ()
        odds = {before: self.factor * before / (1 - before) for before in (0.01, 0.1, 0.5, 0.9)}
        after = {before: each / (1 + each) for before, each in odds.items()}
        units = {before: 100 if share >= 0.1 else 1000 for before, share in after.items()}
        return tuple(
            (before, math.ceil(share * units[before]) / units[before]) for before, share in after.items()
        )


def meaning(guarantee: Guarantee) -> Meaning | None:
    """Return the guarantee as an attacker's odds; None without a guarantee, or if computing them takes long.

    δ(0) is the total variation distance between neighbours, so the best guess between two equally likely
    records is right with probability (1 + δ(0))/2. It is rounded up, never in favour of the promise.
    """
    if not guarantee.is_private:
        return None
    with suppress(TooLargeError):
        right = math.ceil(50 * (1 + guarantee.delta_at(0)) - 1e-9)
        is_bounded = guarantee.exact_epsilon is not None and guarantee.epsilon < 700
        return Meaning(right, math.exp(guarantee.epsilon) if is_bounded else None, guarantee.relation.rest)
    return None


def report(
    result: Any, path: str | Path | None = None, *, title: str | None = None, day: date | None = None
) -> str:
    """Return the report of one answer, several answers or a study as one HTML document.

    Parameters
    ----------
    result
        An answer, a list of answers, or a study.
    path
        Where to write the document; it is not written if None.
    title
        The heading.
    day
        The date of the report: today if None. The same values give the same bytes on the same day.

    Returns
    -------
    str
        The document: released values in words, tables and drawings. It loads nothing and runs no script.

    Examples
    --------
    >>> import discreet
    >>> smokers = discreet.proportions(["yes", "no"] * 50, schema=("yes", "no"), epsilon=1)
    >>> report(smokers, title="Who smokes?")[:15]
    '<!DOCTYPE html>'
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
    if not named:
        raise InvalidInputError("there is nothing to report yet: ask a question first")
    results = [
        _Result(heading_of(name, question, answer), answer, answer.page(), answer.checksum(), question)
        for name, (answer, question) in named.items()
    ]
    cited = [one.answer for one in results]
    # What several answers say of their figures is said once, below them.
    times = Counter(note for one in results for note in dict.fromkeys(one.page.notes))
    shared = [note for note, count in times.items() if count > 1]
    parts = [_section(one, shared) for one in results]
    if any(f">{_NOISE}</th>" in part for part in parts):
        shared.append(NOISE_NOTE)
    parts += [f"<p>{escape(' '.join(shared))}</p>"] * bool(shared)
    parts.append(_protection(cited, account))
    datasets = dict.fromkeys(answer.receipt.dataset for answer in cited if answer.receipt is not None)
    about = (f"Dataset: {', '.join(datasets)}. " if datasets else "") + f"Printed on {day.day} {day:%B %Y}."
    parts.append('<div class="appendix"><h2>Appendix: method and checks</h2>')
    parts += [_method(one) for one in results]
    parts += [_reading(results), _methods(results, account), _VERIFY]
    parts.append(_citation(heading, results, account, day))
    parts.append("</div>")
    return frame(heading, f"{about} This report holds released values only.", "\n".join(parts))


def frame(heading: str, lead: str, body: str) -> str:
    """Return a whole HTML document that loads nothing and runs no script; ``body`` is HTML already."""
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(heading)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>\n{_STYLE.read_text('utf-8')}</style></head>\n<body><h1>{escape(heading)}</h1>\n"
        f"<p>{escape(lead)}</p>\n"
        f"{body}\n</body></html>\n"
    )


def _answers(result: Any) -> tuple[dict[str, tuple[Answer, Mapping[str, Any]]], Account | None]:
    """Return a mapping from headings to answers with their questions, and the account that was charged."""
    if isinstance(result, StudyResult):
        return {
            name: (answer, result.questions[name]) for name, answer in result.answers.items()
        }, result.account
    if isinstance(result, Answer):
        return {"Result": (result, {})}, None
    named = dict(result) if isinstance(result, Mapping) else {}
    if isinstance(result, list | tuple):
        named = {f"Result {index}": answer for index, answer in enumerate(result, 1)}
    if not named or not all(isinstance(answer, Answer) for answer in named.values()):
        raise InvalidInputError(
            "report takes an answer, a list or a mapping of answers, or the result of a study; got "
            f"{type(result).__name__}"
        )
    return {str(name): (answer, {}) for name, answer in named.items()}, None


def heading_of(name: str, question: Mapping[str, Any], answer: Answer) -> str:
    """Return the title of a question; without one, what it asks about, with labels of the schema."""
    if "title" in question or "kind" not in question:
        return str(question.get("title", name))
    fields = ("columns", "column", "formula", "time", "parents")
    asked = next((question[field] for field in fields if question.get(field)), name)
    if isinstance(asked, str):
        response, tilde, _ = asked.partition("~")
        about = [response.strip()] if tilde else [asked]
    else:
        about = list(map(str, asked))
    labels = answer.column_labels.names
    text = " and ".join(labels.get(column, column) for column in about)
    by = question.get("by")
    text = _STARTS.get(str(question["kind"]), "") + text + (f" by {labels.get(by, by)}" if by else "")
    return text[0].upper() + text[1:]


def _protection(answers: Sequence[Answer], account: Account | None) -> str:
    """Return the guarantee of all answers together, and the budget."""
    parts = ['<div class="protected"><h2>How people are protected</h2>']
    if account is not None:
        spent = account.spent
        if spent.epsilon:
            whole = Guarantee(spent.epsilon, Relation(account.relation), spent.delta or Fraction(0))
            parts.append(_promise(whole))
        else:
            parts.append(_together(answers))
        rows = [
            ("Privacy budget", str(account.cap)),
            ("Spent", str(account.spent)),
            ("Left", str(account.remaining)),
            ("Protected against", Relation(account.relation).against),
        ]
        parts.append(facts(rows, styled=False))
    elif len(answers) == 1:
        parts.append(_promise(answers[0].guarantee))
    else:
        parts.append(_together(answers))
    if len({answer.guarantee.epsilon for answer in answers if answer.is_private}) > 1:
        parts.append(
            "<p>Results that spent more of the budget (a larger ε) are more precise and reveal more about "
            "each person; the guarantee above holds for all of them together.</p>"
        )
    return "\n".join(filter(None, [*parts, "</div>"]))


def _together(answers: Sequence[Answer]) -> str:
    """Return the joint guarantee of several answers about the same people, where they can be composed."""
    alarms = "".join(_promise(answer.guarantee) for answer in answers if not answer.is_private)
    if alarms:
        return alarms
    try:
        whole = compose([answer.guarantee for answer in answers])
    except (InvalidInputError, TooLargeError):
        return ""
    return f"<p>If these results are about the same people, their losses add up:</p>{_promise(whole)}"


@dataclass(frozen=True)
class _Result:
    """An answer with its heading, the content of its page, and the question; all computed once."""

    heading: str
    answer: Answer
    page: Page
    checksum: str
    question: Mapping[str, Any]

    @cached_property
    def guarantee(self) -> str:
        return str(self.answer.guarantee)

    @property
    def name(self) -> str:
        return self.page.words.name

    @property
    def versions(self) -> Mapping[str, str]:
        return getattr(self.answer, "versions", {})


def _section(one: _Result, shared: Sequence[str]) -> str:
    return f"<section><h2>{escape(one.heading)}</h2>{_findings(one.page, shared)}</section>"


def _method(one: _Result) -> str:
    """Return how a result was made, its own guarantee, and its receipt."""
    answer = one.answer
    details = dict(one.page.words.facts)
    details |= {name: text for name, text in _question_text(one.question) if text not in details.values()}
    details["Guarantee"] = one.guarantee
    if len(answer.guarantee.assumptions):
        details["Assumed"] = "; ".join(answer.guarantee.assumptions)
    if answer.guarantee.basis:
        details["Why it holds"] = proof_title(answer.guarantee.basis)
    parts = [f"<h3>{escape(one.heading)}</h3>", facts(details.items(), styled=False)]
    receipt = (
        "none came with this document. If the release was charged to a ledger, its holder can add it: "
        "<code>discreet report FILE --ledger URL</code>."
    )
    if answer.receipt is not None:  # a report made again says the same
        receipt = f"<code>{escape(str(replace(answer.receipt, repeated=False)))}</code>"
    parts.append(f'<p class="small">Document: <code>{one.checksum}</code>. Receipt: {receipt}</p>')
    return "\n".join(parts)


def _promise(guarantee: Guarantee) -> str:
    if not guarantee.is_private:
        return f'<div class="promise alarm"><p><strong>{escape(guarantee.meaning())}</strong></p></div>'
    sentences = [f"<strong>{escape(str(guarantee))}</strong>", escape(guarantee.meaning())]
    explanation = meaning(guarantee)
    if explanation is not None:
        sentences.insert(
            0, f"In plain words: {escape(explanation.sentence[0].lower() + explanation.sentence[1:])}"
        )
    sentences += [f"Assumed: {escape(assumption)}." for assumption in guarantee.assumptions]
    if guarantee.basis:
        sentences.append(f"Why it holds: {escape(proof_title(guarantee.basis))}.")
    return '<div class="promise">' + "".join(f"<p>{text}</p>" for text in sentences) + "</div>"


def proof_title(basis: str) -> str:
    """Return a basis with proofs named by their titles, not by paths of the repository."""

    return re.sub(
        r"proofs/([\w-]+)\.md",
        lambda match: f"the proof “{match[1].replace('-', ' ').capitalize()}” of the documentation",
        basis,
    )


def _question_text(question: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the question as pairs of field and value; of key and value if another version wrote it."""
    fields = {key: value for key, value in question.items() if key not in _STATED}
    if not fields:
        return []
    try:
        return question_of(str(question.get("kind", "proportion")), fields).describe()
    except InvalidInputError:
        return [(key, in_words(value)) for key, value in fields.items()]


# ---- the results -------------------------------------------------------------------------------------------


def _findings(page: Page, shared: Sequence[str]) -> str:
    """Return a drawing, a table unless further tables show the same numbers, and the answer's own notes."""
    tables = []
    for extra in page.tables:
        caption = f"<p>{escape(extra.caption)}</p>" if extra.caption else ""
        tables.append(f'<div class="scroll">{caption}{table(extra.header, extra.cells, styled=False)}</div>')
    parts = [f'<p class="promise alarm">Warning: {escape(text)}.</p>' for text in page.warnings]
    parts.append('<div class="finding">')
    figure = page.figure
    if figure is not None and (len(page.rows) > 1 or (page.rows and figure.series)):  # one needs no drawing
        series = figure.series if len(page.rows) == 1 else ()  # intervals compare rows side by side
        parts.append(drawing(replace(figure, series=series)))
    if page.rows and page.screen is not None:
        tables.insert(0, f'<div class="scroll">{_table(page)}</div>')
    parts.append(f"<div>{''.join(tables)}</div></div>")
    parts += [f"<p>{escape(note)}</p>" for note in page.notes if note not in shared]
    return "".join(parts)


def _text(rows: Sequence[Row]) -> Callable[..., str]:
    """Return a function that writes numbers with the decimals that the narrowest interval needs."""
    factor, unit, least, most = (100, " %", 1, 6) if all(row.share for row in rows) else (1, "", 0, 12)
    digits = decimals(rows, factor, least, most)
    return lambda *values: " to ".join(number_text(factor * value, digits) for value in values) + unit


def _table(page: Page) -> str:
    rows = page.rows
    # Coefficients have units of their own, so each its own digits.
    shares = all(row.share for row in rows)
    texts = [_text(rows if shares else [row]) for row in rows]
    pairs = list(zip(rows, texts, strict=True))
    columns: dict[str, list[str]] = {page.heading: [row.name for row in rows]}
    columns["share" if shares else "estimate"] = [text(row.mean) for row, text in pairs]
    if any(row.low is not None for row in rows):
        columns["95 % interval"] = [
            "–" if row.low is None else text(row.low, row.high) for row, text in pairs
        ]
    columns |= {name: list(texts) for name, texts in page.columns.items()}
    if any(row.noise is not None for row in rows):
        columns[_NOISE] = ["–" if row.noise is None else f"{100 * row.noise:.0f} %" for row in rows]
    return table(list(columns), list(zip(*columns.values(), strict=True)), styled=False)


# ---- the end -----------------------------------------------------------------------------------------------


def _reading(results: Sequence[_Result]) -> str:
    explanations = dict.fromkeys(text for one in results for text in one.page.words.reading)
    return (
        "<h3>How to read the figures</h3>\n"
        + "".join(f"<p>{escape(text)}</p>\n" for text in explanations)
        + _FREE
    )


def _methods(results: Sequence[_Result], account: Account | None) -> str:
    """Return a paragraph for a paper."""
    versions: Mapping[str, str] = next((one.versions for one in results if one.versions), {})
    software = f"discreet {versions.get('discreet', __version__)}"
    kinds = list(dict.fromkeys(one.name for one in results))
    what = kinds[0] if len(kinds) == 1 else f"The {len(kinds)} results"
    were = " were" if len(kinds) > 1 else ":"
    sentences = [f"{what}{were} released under differential privacy with the program {software}."]
    if account is not None:
        sentences.append(
            f"Everything released about the dataset “{account.dataset}” together satisfies {account.spent} "
            f"({account.relation}), of a budget of {account.cap} that was fixed beforehand; each release was "
            "charged to a ledger before it was returned."
        )
    else:
        sentences += [f"{one.name} satisfies {one.guarantee}." for one in results]
    sentences.append(
        "Levels, bounds, priors and privacy parameters were declared and not read from the data. Noise was "
        "drawn as exact integers from the random numbers of the operating system. Credible intervals (95 %) "
        "account for sampling and, where stated, for the noise of privacy."
    )
    return f"<h3>Methods, for a paper</h3>\n<p>{escape(' '.join(sentences))}</p>"


def _citation(heading: str, results: Sequence[_Result], account: Account | None, day: date) -> str:
    """Return a citation of the report, in prose and for BibTeX."""
    first, alone = results[0], len(results) == 1
    software = f"discreet {first.versions.get('discreet', __version__)}"
    what = first.name if alone else f"{len(results)} results"
    guarantee = ", ".join(dict.fromkeys(one.guarantee for one in results))
    if account is not None:
        guarantee = f"{account.spent} ({account.relation}) in all"
    documents = f"document {first.checksum}" if alone else f"documents from {first.checksum} on, listed above"
    entries = [one.answer.receipt.hash for one in results if one.answer.receipt is not None]
    documents += f"; newest ledger entry {entries[-1]}" if entries else ""
    text = f"“{heading}”. {what}. Released with {software} under {guarantee}; {documents}."
    key = re.sub(r"\W+", "-", heading.lower()).strip("-")[:40] or "release"
    bibtex = (
        f"@misc{{{key},\n  title = {{{re.sub('[{}]', '', heading)}}},\n  year = {{{day.year}}},\n"
        f"  note = {{Differentially private release made with {software}, {documents.split(';')[0]}}},\n}}"
    )
    return f'<h3>How to cite</h3>\n<p class="small">{escape(text)}</p>\n<pre>{escape(bibtex)}</pre>'
