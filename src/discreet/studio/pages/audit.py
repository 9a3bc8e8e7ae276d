"""The audit page: the exact loss of a mechanism, drawn."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from discreet.errors import DiscreetError
from discreet.mechanisms import MECHANISMS
from discreet.studio import charts
from discreet.studio.auditing import audited
from discreet.studio.questions import MAX_AUDIT_N, AuditQuestion
from discreet.studio.shell import Studio, address, is_fragment, problem


def add_audit(app: FastAPI, studio: Studio) -> None:
    @app.get("/audit")
    def audit_page(request: Request) -> Response:
        context: dict[str, Any] = {
            "problem": None,
            "found": None,
            "limits": MAX_AUDIT_N,
            "mechanisms": {name: (cls.__doc__ or "").partition("\n")[0] for name, cls in MECHANISMS.items()},
        }
        question, status = AuditQuestion(), 200
        try:
            question = AuditQuestion.read(request.query_params)
            found = audited(question)
            spec = charts.profile(found.epsilons, found.deltas, found.claimed)
            context |= {
                "found": found,
                "spec": spec,
                "python": question.python(),
                "command": question.command(),
            }
        except DiscreetError as error:
            context["problem"] = problem(error)
            status = context["problem"][0]
        fragment = is_fragment(request)
        template = "audit_result.html" if fragment else "audit.html"
        response = studio.page(request, template, status, question=question, **context)
        if fragment and status == 200:
            response.headers["HX-Push-Url"] = address("/audit", question.query())
        return response
