"""The ledger page: remaining budgets, the history, verification, and new budgets."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from discreet._declarations import Relation, as_epsilon
from discreet._documents.answer import Answer
from discreet._documents.base import format_of
from discreet._documents.study import StudyResult
from discreet._registry import DOCUMENTS
from discreet._reporting.report import report
from discreet._studio.forms import ReleaseForm, at_fault
from discreet._studio.shell import Problem, Studio, problem
from discreet.errors import (
    CorruptReleaseError,
    DiscreetError,
    InvalidInputError,
    LedgerError,
    MissingLedgerError,
)
from discreet.ledger import Account, Ledger
from discreet.ledger._chain import Entry
from discreet.questions._text import plan_in_words

MEASURES = {
    "epsilon": (
        "ε",
        ("epsilon",),
        "Pure ε: the strictest guarantee. Regressions and posterior draws need δ too.",
    ),
    "epsilon+delta": (
        "ε and δ",
        ("epsilon", "delta"),
        "Every question fits. The guarantee of ε may fail with probability δ: far below 1/n, such as 1e-6.",
    ),
    "zcdp": ("ρ (zCDP)", ("zcdp",), "Adds up more slowly over many questions; for users of zCDP."),
}
"""How a budget can be counted: its name, its parts, and what it means."""


def add_ledger(app: FastAPI, studio: Studio) -> None:
    ledger = studio.ledger

    @app.get("/ledger")
    def ledger_page(request: Request) -> Response:
        query = request.query_params
        form = ReleaseForm.read(query, studio.schemas) if query.get("source") else ReleaseForm()
        release = urlencode(replace(form, dataset="").items()) if form.source else ""
        return _page(studio, request, query.get("dataset", ""), release, bool(query.get("verify")))

    @app.get("/ledger/report")
    def whole_report(request: Request) -> Response:
        if ledger is None:
            raise InvalidInputError("there is no ledger; start the studio with --ledger URL")
        dataset = request.query_params.get("dataset", "")
        text = report(_study(studio, ledger, dataset), title=dataset)
        held = {"Content-Disposition": 'attachment; filename="report.html"'}
        return Response(text, media_type="text/html; charset=utf-8", headers=held)

    @app.post("/ledger/create")
    async def create(request: Request) -> Response:
        texts = await studio.sent(request, 10)
        if ledger is None:
            raise InvalidInputError("there is no ledger; start the studio with --ledger URL")
        try:
            await run_in_threadpool(_create, ledger, texts)
        except DiscreetError as error:
            return await run_in_threadpool(
                _page, studio, request, "", texts.get("release", ""), False, texts, problem(error)
            )
        name = texts["dataset"].strip()
        if texts.get("release"):  # the form from which somebody came here, with what was filled in
            form = ReleaseForm.read(dict(parse_qsl(texts["release"])), studio.schemas)
            return RedirectResponse(form.address(dataset=name), 303)
        return RedirectResponse(f"/ledger?{urlencode({'dataset': name})}", 303)


def _page(
    studio: Studio,
    request: Request,
    chosen: str,
    release: str,
    verify: bool = False,
    given: Mapping[str, str] | None = None,
    trouble: Problem | None = None,
) -> Response:
    """Return the page of a ledger; ``given`` has the texts of the form for a new budget, ``trouble`` its
    error."""
    ledger = studio.ledger
    context: dict[str, Any] = {"accounts": [], "history": [], "verified": None, "missing": True}
    with suppress(MissingLedgerError):
        context["accounts"] = [(account, _bars(account)) for account in studio.releases.accounts()]
        if ledger is not None and chosen:
            context["history"] = [_entry(studio, entry) for entry in ledger.history(chosen)]
        if ledger is not None and verify:
            context["verified"] = _verify(ledger)
        context["missing"] = False
    return studio.page(
        request,
        "ledger.html",
        200 if trouble is None else trouble.status,
        **context,
        ledger_name=studio.ledger_name,
        chosen=chosen,
        measures=MEASURES,
        relations=[relation for relation in Relation if relation is not Relation.REPLACE_NEARBY],
        release=release,
        given=given or {},
        problem=trouble,
    )


def _study(studio: Studio, ledger: Ledger, dataset: str) -> StudyResult:
    """Return all answers charged to a dataset, for one report."""
    answers, questions = {}, {}
    for entry in ledger.history(dataset):
        if entry.request_id is None or not _is_answer(entry.result):
            continue
        answer = studio.releases.find(dataset, entry.request_id)
        if answer is not None:
            answers[entry.request_id] = answer
            title = studio.releases.label(entry.request_id) or answer.words().headline
            questions[entry.request_id] = {"title": title}
    if not answers:
        raise InvalidInputError(f"dataset {dataset!r} has no answer to report yet")
    return StudyResult(dataset, dataset, questions, answers, ledger.show(dataset))


def _create(ledger: Ledger, given: Mapping[str, str]) -> None:
    with at_fault("measure"):
        if given.get("measure") not in MEASURES:
            raise InvalidInputError(f"measure must be one of: {', '.join(MEASURES)}")
    symbol, parts, _ = MEASURES[given["measure"]]
    amounts = {name: given.get(name, "").strip() for name in parts}
    for name, text in amounts.items():
        with at_fault(name):
            if not 0 < len(text) <= 40:
                raise InvalidInputError(
                    f"a budget in {symbol} needs {' and '.join(parts)}, such as 1 or 1e-6"
                )
            as_epsilon(text, name)
    scope = {"relation": given.get("relation", ""), "unit": given.get("unit", "").strip() or None}
    try:
        ledger.create(given.get("dataset", "").strip(), **scope, **amounts)  # type: ignore[arg-type]
    except InvalidInputError as error:
        names = ("dataset", "unit", "relation", *parts)
        error.parameter = error.parameter if error.parameter in names else "dataset"
        raise


def _verify(ledger: Ledger) -> tuple[bool, str, tuple[str, ...]]:
    """Return whether the ledger is intact, a sentence that says so, and notes."""
    try:
        verification = ledger.verify()
    except LedgerError as error:
        return False, problem(error)[2], ()
    entries = "entry" if verification.entries == 1 else "entries"
    text = f"{verification.entries} {entries}, every hash and every sum recomputed. Head {verification.head}."
    return True, text, tuple(verification.notes)


def _bars(account: Account) -> list[tuple[str, float]]:
    """Return each part of a budget (ε, δ or ρ) with the percentage that is spent."""
    parts = {name: getattr(account.cap, name) for name in ("epsilon", "delta", "zcdp")}
    return [
        (symbol, round(100 * float(getattr(account.spent, name) / cap), 3))
        for (name, cap), symbol in zip(parts.items(), "εδρ", strict=True)
        if cap is not None
    ]


def _entry(studio: Studio, entry: Entry) -> dict[str, Any]:
    plan, request = entry.plan or {}, entry.request_id or ""
    query = urlencode({"dataset": entry.dataset, "request": request})
    event = {"create": "budget created", "cap": "budget changed"}.get(entry.kind, "")
    return {
        "sequence": entry.sequence,
        "time": entry.time[:16].replace("T", " "),
        "asked": plan_in_words(plan) if plan else event,
        "label": studio.releases.label(request) or str(plan.get("data", "")),
        "charged": str(entry.charged) if plan else "",
        "spent": str(entry.spent) if plan else f"budget {entry.cap}",
        "request": request,
        "link": f"/release/result?{query}" if _is_answer(entry.result) else "",
    }


def _is_answer(result: bytes | None) -> bool:
    """Return whether a stored result has a page."""
    try:
        document = DOCUMENTS[kind] if result and (kind := format_of(result.decode())) in DOCUMENTS else None
    except (CorruptReleaseError, UnicodeDecodeError):
        return False
    return document is not None and issubclass(document, Answer)
