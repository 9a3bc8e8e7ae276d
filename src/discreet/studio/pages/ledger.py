"""The ledger page: what is left, the history, whether it is sound; and new budgets."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from discreet._registry import DOCUMENTS
from discreet.declarations import Relation
from discreet.documents.answer import Answer
from discreet.documents.base import format_of
from discreet.errors import CorruptReleaseError, InvalidInput, LedgerError, MissingLedgerError
from discreet.ledger import Account, Ledger
from discreet.ledger.chain import Entry
from discreet.questions.text import plan_in_words
from discreet.studio.forms import ReleaseForm
from discreet.studio.shell import Studio, problem

MEASURES = {
    "epsilon": (
        "ε",
        ("epsilon",),
        "Pure ε: the strictest promise, for shares and means. Regressions and posterior draws need δ too.",
    ),
    "epsilon+delta": (
        "ε and δ",
        ("epsilon", "delta"),
        "Everything fits. The promise of ε may fail with probability δ: far below 1/n, such as 1e-6.",
    ),
    "zcdp": ("ρ (zCDP)", ("zcdp",), "Adds up more slowly over many questions; for those who know it."),
}
"""How a budget can be counted: its name, its parts, and what it means."""


def add_ledger(app: FastAPI, studio: Studio) -> None:
    ledger = studio.ledger

    @app.get("/ledger")
    def ledger_page(request: Request) -> Response:
        given = request.query_params
        chosen = given.get("dataset", "")
        form = ReleaseForm.read(given) if given.get("source") else ReleaseForm()
        context: dict[str, Any] = {"accounts": [], "history": [], "verified": None, "missing": True}
        with suppress(MissingLedgerError):
            context["accounts"] = [(account, _bars(account)) for account in studio.releases.accounts()]
            if ledger is not None and chosen:
                context["history"] = [_entry(studio, entry) for entry in ledger.history(chosen)]
            if ledger is not None and given.get("verify"):
                context["verified"] = _verified(ledger)
            context["missing"] = False
        return studio.page(
            request,
            "ledger.html",
            **context,
            ledger_name=studio.ledger_name,
            chosen=chosen,
            measures=MEASURES,
            relations=list(Relation),
            release=urlencode(replace(form, dataset="").items()) if form.source else "",
        )

    @app.post("/ledger/create")
    async def create(request: Request) -> Response:
        given = await studio.sent(request, 10)
        if ledger is None:
            raise InvalidInput("there is no ledger; start the studio with --ledger URL")
        await run_in_threadpool(_create, ledger, given)
        name = given["dataset"].strip()
        if given.get("release"):  # the form from which somebody came here, with what was filled in
            form = ReleaseForm.read(dict(parse_qsl(given["release"])))
            return RedirectResponse(form.address(dataset=name), 303)
        return RedirectResponse(f"/ledger?{urlencode({'dataset': name})}", 303)


def _create(ledger: Ledger, given: Mapping[str, str]) -> None:
    if given.get("measure") not in MEASURES:
        raise InvalidInput(f"measure must be one of: {', '.join(MEASURES)}")
    symbol, parts, _ = MEASURES[given["measure"]]
    amounts = {name: given.get(name, "").strip() for name in parts}
    if not all(0 < len(text) <= 40 for text in amounts.values()):
        raise InvalidInput(f"a budget in {symbol} needs {' and '.join(parts)}, such as 1 or 1e-6")
    scope = {"relation": given.get("relation", ""), "unit": given.get("unit", "").strip() or None}
    ledger.create(given.get("dataset", "").strip(), **scope, **amounts)  # type: ignore[arg-type]


def _verified(ledger: Ledger) -> tuple[bool, str, tuple[str, ...]]:
    """Whether it is sound, a text, and notes."""
    try:
        found = ledger.verify()
    except LedgerError as error:
        return False, problem(error)[2], ()
    entries = "entry" if found.entries == 1 else "entries"
    text = f"{found.entries} {entries}, every hash and every sum recomputed. Head {found.head}."
    return True, text, tuple(found.notes)


def _bars(account: Account) -> list[tuple[str, float]]:
    """For each part of a budget, ε, δ or ρ, how many percent of it are spent."""
    parts = {name: getattr(account.cap, name) for name in ("epsilon", "delta", "zcdp")}
    return [
        (symbol, round(100 * float(getattr(account.spent, name) / cap), 3))
        for (name, cap), symbol in zip(parts.items(), "εδρ", strict=True)
        if cap is not None
    ]


def _entry(studio: Studio, entry: Entry) -> dict[str, Any]:
    plan, request = entry.plan or {}, entry.request_id or ""
    query = urlencode({"dataset": entry.dataset, "request": request})
    made = {"create": "budget created", "cap": "budget changed"}.get(entry.kind, "")
    return {
        "sequence": entry.sequence,
        "time": entry.time[:16].replace("T", " "),
        "asked": plan_in_words(plan) if plan else made,
        "label": studio.releases.label(request) or str(plan.get("data", "")),
        "charged": str(entry.charged) if plan else "",
        "spent": str(entry.spent) if plan else f"budget {entry.cap}",
        "request": request,
        "link": f"/release/result?{query}" if _is_answer(entry.result) else "",
    }


def _is_answer(result: bytes | None) -> bool:
    """Whether there is a page for a stored result."""
    try:
        known = DOCUMENTS[kind] if result and (kind := format_of(result.decode())) in DOCUMENTS else None
    except (CorruptReleaseError, UnicodeDecodeError):
        return False
    return known is not None and issubclass(known, Answer)
