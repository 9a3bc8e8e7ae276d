"""The ledger page: what is left, the history, and whether it is sound."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import Response

from discreet.errors import LedgerError, MissingLedgerError
from discreet.ledger import Ledger
from discreet.studio.release_questions import FAMILIES
from discreet.studio.shell import Studio, problem


def add_ledger(app: FastAPI, studio: Studio) -> None:
    @app.get("/ledger")
    def ledger_page(request: Request) -> Response:
        given = request.query_params
        context: dict[str, Any] = {"ledger_name": studio.ledger_name, "accounts": [], "missing": False}
        chosen = given.get("dataset", "")
        history: list[dict[str, Any]] = []
        verified = None
        try:
            context["accounts"] = [_bars(account) for account in studio.desk.accounts()]
            if studio.ledger is not None:
                if chosen:
                    history = [_entry(entry) for entry in studio.ledger.history(chosen)]
                if given.get("verify"):
                    verified = _verified(studio.ledger)
        except MissingLedgerError:
            context["missing"] = True
        return studio.page(
            request, "ledger.html", **context, chosen=chosen, history=history, verified=verified
        )


def _verified(ledger: Ledger) -> dict[str, Any]:
    try:
        found = ledger.verify()
    except LedgerError as error:
        return {"sound": False, "text": problem(error)[2], "notes": ()}
    entries = "entry" if found.entries == 1 else "entries"
    text = f"{found.entries} {entries}, every hash and every sum recomputed. Head {found.head}."
    return {"sound": True, "text": text, "notes": found.notes}


def _bars(account: Any) -> dict[str, Any]:
    """One bar for each part of a budget: ε, δ or ρ."""
    names = {"epsilon": "ε", "delta": "δ", "zcdp": "ρ"}
    parts = []
    for name, symbol in names.items():
        cap, spent = getattr(account.cap, name), getattr(account.spent, name)
        if cap is not None:
            parts.append({"symbol": symbol, "share": round(100 * float(spent / cap), 3), "left": cap - spent})
    return {"account": account, "parts": parts}


def _entry(entry: Any) -> dict[str, Any]:
    plan = entry.plan or {}
    drawn = plan.get("question") == "posterior sample" and plan["family"]["name"] in FAMILIES.values()
    shown = entry.kind == "charge" and (drawn or plan.get("question") == "proportions")
    query = urlencode({"dataset": entry.dataset, "request": entry.request_id or ""})
    return {
        "sequence": entry.sequence,
        "time": entry.time[:19].replace("T", " "),
        "kind": entry.kind,
        "charged": str(entry.charged),
        "spent": str(entry.spent),
        "request": entry.request_id or "",
        "link": f"/release/result?{query}" if shown else "",
    }
