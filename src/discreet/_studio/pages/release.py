"""The release pages: data, question, price, result. They are the same for all kinds of questions and
answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from discreet._documents.answer import Answer
from discreet._reporting.report import meaning, report
from discreet._studio.forms import ReleaseForm
from discreet._studio.guard import MEGABYTE, UPLOAD
from discreet._studio.releasing import check_request, new_request
from discreet._studio.shell import Studio, problem
from discreet._studio.sources import DataSource
from discreet._text import amount
from discreet.errors import (
    CorruptReleaseError,
    DiscreetError,
    FileError,
    InvalidInputError,
    LedgerError,
    MissingLedgerError,
    RequestConflictError,
)
from discreet.ledger import Account
from discreet.privacy.guarantee import Guarantee

MAX_FIELDS = 100
DOWNLOADS = {
    "json": "application/json",
    "html": "text/html; charset=utf-8",
    "ipynb": "application/x-ipynb+json",
}


def add_release(app: FastAPI, studio: Studio) -> None:
    @app.get("/release")
    def release_page(request: Request) -> Response:
        form = ReleaseForm.read(request.query_params, studio.schemas)
        if not form.source:
            return studio.page(
                request,
                "release_source.html",
                sources=[
                    (source, form.address(source=source.identifier, request=""))
                    for source in studio.sources.list_all()
                ],
                upload=form.address(UPLOAD, source="", request=""),
                planned=form.asks.title if form.texts else "",
                folder=studio.settings.data is not None,
                limit=studio.settings.upload_limit,
                megabytes=f"{studio.settings.upload_limit / MEGABYTE:g}",
            )
        source = studio.sources.find(form.source)
        if form.kept_schema is None:
            schema = studio.schemas.of_source(source.identifier)
            if schema is None:  # what is public comes first
                return RedirectResponse(form.address("/schema", request=""), 303)
            form = replace(form, schema=schema.identifier, kept_schema=schema)
        return _form_page(studio, request, replace(form, request=new_request(source.identifier)), source)

    @app.post(UPLOAD)
    async def upload(request: Request) -> Response:
        form = ReleaseForm.read(request.query_params, studio.schemas)
        async with request.form(max_files=1, max_fields=4, max_part_size=1000) as sent:
            studio.sessions.check_csrf(request.scope["session"], str(sent.get("csrf", "")))
            file = sent.get("file")
            if not isinstance(file, UploadFile) or not file.filename:
                raise InvalidInputError("choose a file first")
            source = await run_in_threadpool(studio.sources.keep, file.file, file.filename)
        return RedirectResponse(form.address(source=source.identifier, request=""), 303)

    @app.get("/release/review")
    def review(request: Request) -> Response:
        form = ReleaseForm.read(request.query_params, studio.schemas)
        source, _ = studio.sources.find(form.source), form.declared_schema
        try:
            offer = studio.releases.price(form)
        except DiscreetError as error:
            return _form_page(studio, request, form, source, error)
        file = "FILE" + "".join(source.path.suffixes[-2:]) if source.uploaded else source.path.name
        charge: Mapping[str, str] = {}
        if studio.ledger_name is not None:
            charge = {"ledger": studio.ledger_name, "dataset": form.dataset, "request_id": form.request}
        return studio.page(
            request,
            "release_review.html",
            form=form,
            source=source,
            offer=offer,
            **_promise(offer.guarantee),
            back=form.address(request=""),
            python=form.as_python(file, charge, source.table),
            command="" if source.table else form.as_command(file, charge),
        )

    @app.post("/release/confirm")
    async def confirm(request: Request) -> Response:
        texts = await studio.sent(request, MAX_FIELDS)
        return await run_in_threadpool(_confirm, studio, request, texts)

    @app.get("/release/result")
    def result(request: Request) -> Response:
        answer, label, where = _found(studio, request)
        return studio.page(
            request,
            "release_result.html",
            answer=answer,
            **_promise(answer.guarantee),
            label=label,
            where=where,
        )

    @app.get("/release/download/{kind}")
    def download(request: Request, kind: str) -> Response:
        if kind not in DOWNLOADS:
            raise HTTPException(404)
        answer, label, _ = _found(studio, request)
        name = "release-" + re.sub(r"[^0-9A-Za-z]", "", request.query_params.get("request", ""))[-16:]
        if kind == "json":
            content = answer.receipt.result if answer.receipt is not None else answer.to_json().encode()
        elif kind == "ipynb":
            content = _notebook(answer, label, f"{name}.json")
        else:
            content = report(answer, title=label or None).encode()
        held = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
        return Response(content, media_type=DOWNLOADS[kind], headers=held)


def _confirm(studio: Studio, request: Request, given: Mapping[str, str]) -> Response:
    form = ReleaseForm.read(given, studio.schemas)
    source, _ = studio.sources.find(form.source), form.declared_schema
    try:
        studio.releases.release(form, given.get("acknowledged") == "yes")
    except DiscreetError as error:
        return _form_page(studio, request, form, source, error)
    return RedirectResponse(f"/release/result?{_where(form.dataset, form.request, form.label)}", 303)


def _form_page(
    studio: Studio,
    request: Request,
    form: ReleaseForm,
    source: DataSource,
    error: DiscreetError | None = None,
) -> Response:
    """Return the page of the form as it is filled in, with its error, if any.

    The form keeps its request id, so that an interrupted charge is not made twice, unless that id cannot be
    used.
    """
    accounts: list[Account] = []
    with suppress(MissingLedgerError, LedgerError):
        accounts = studio.releases.accounts()
    trouble = None if error is None else problem(error)
    if trouble is not None and not isinstance(error, LedgerError | CorruptReleaseError):
        consequence = "" if "Nothing was" in trouble.text else " Nothing was released."
        trouble = trouble._replace(text=trouble.text + consequence)
    try:
        check_request(form)
        usable = not isinstance(error, RequestConflictError)
    except DiscreetError:
        usable = False
    return studio.page(
        request,
        "release_form.html",
        200 if trouble is None else trouble.status,
        source=source,
        form=form if usable else replace(form, request=new_request(source.identifier)),
        kept=form.kept_schema,
        accounts=accounts,
        has_ledger=studio.ledger is not None,
        problem=trouble,
    )


def _promise(guarantee: Guarantee) -> dict[str, Any]:
    """Return the guarantee of ε in words, and the probability δ with which it may fail."""
    epsilon = guarantee.exact_epsilon
    return {
        "meaning": meaning(guarantee) if epsilon else None,
        "except_in": amount(guarantee.exact_delta) if epsilon and guarantee.exact_delta else "",
    }


def _notebook(answer: Answer, label: str, name: str) -> bytes:
    """Return a notebook that starts from the release: it holds the document, and no data."""
    write = f"Path({name!r}).write_text({answer.to_json()!r}, 'utf-8')"
    load = f"from pathlib import Path\n\nimport discreet\n\n{write}\nanswer = discreet.load({name!r})"
    free = "What is computed from here on costs no further budget."
    sources = [f"# {label or 'A private release'}\n\n{free}", load, "answer", "answer.to_frame()"]
    cells: list[dict[str, Any]] = [
        {
            "id": f"cell-{index}",
            "metadata": {},
            "cell_type": "code" if index else "markdown",
            "source": source,
        }
        | ({"execution_count": None, "outputs": []} if index else {})
        for index, source in enumerate(sources)
    ]
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    return json.dumps(book, indent=1).encode()


def _found(studio: Studio, request: Request) -> tuple[Answer, str, str]:
    query = request.query_params
    dataset, name = query.get("dataset", ""), query.get("request", "")
    label = query.get("label", "")[:200] or studio.releases.label(name)
    answer = studio.releases.find(dataset, name)
    if answer is None:
        raise FileError(
            "this release was not found: releases without a ledger are lost when the studio stops"
        )
    return answer, label, _where(dataset, name, label)


def _where(dataset: str, request: str, label: str) -> str:
    """Return the query string in the address of a result's page."""
    named = {"dataset": dataset, "request": request, "label": label}
    return urlencode({name: text for name, text in named.items() if text})
