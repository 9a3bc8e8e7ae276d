"""The release pages: data, question, price, result. They know no kind of question and no kind of answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from discreet._text import amount
from discreet.documents.answer import Answer, Table, Words
from discreet.errors import FileError, InvalidInput, MissingLedgerError
from discreet.privacy.guarantee import Guarantee
from discreet.reporting.figures import Frame, drawing, frame_of
from discreet.reporting.meaning import meaning
from discreet.reporting.report import report
from discreet.studio.forms import ReleaseForm
from discreet.studio.guard import UPLOAD
from discreet.studio.releasing import new_request
from discreet.studio.settings import MEGABYTE
from discreet.studio.shell import Studio, address
from discreet.studio.sources import DataSource, columns

MAX_FIELDS = 100
INTERVAL = 0.95


def add_release(app: FastAPI, studio: Studio) -> None:
    @app.get("/release")
    def release_page(request: Request) -> Response:
        form = ReleaseForm.read(request.query_params)
        if not form.source:
            return studio.page(
                request,
                "release_source.html",
                sources=[(source, _form_of(form, source)) for source in studio.sources.listed()],
                upload=address(UPLOAD, form.query(source="", request="")),
                planned=form.asks.title if form.texts else "",
                folder=studio.settings.data is not None,
                limit=studio.settings.upload_limit,
                megabytes=f"{studio.settings.upload_limit / MEGABYTE:g}",
            )
        source = studio.sources.find(form.source)
        form = replace(form, request=new_request(source.identifier))
        return studio.page(request, "release_form.html", **_form(studio, source, form))

    @app.post(UPLOAD)
    async def upload(request: Request) -> Response:
        form = ReleaseForm.read(request.query_params)
        async with request.form(max_files=1, max_fields=4, max_part_size=1000) as sent:
            studio.sessions.check_csrf(request.scope["session"], str(sent.get("csrf", "")))
            file = sent.get("file")
            if not isinstance(file, UploadFile) or not file.filename:
                raise InvalidInput("choose a file first")
            source = await run_in_threadpool(studio.sources.keep, file.file, file.filename)
        return RedirectResponse(_form_of(form, source), 303)

    @app.get("/release/columns")
    def schema(request: Request) -> Response:
        found = columns(studio.sources.find(request.query_params.get("source", "")))
        return studio.page(
            request, "release_columns.html", columns=found, typed=any(kind for _, kind in found)
        )

    @app.get("/release/review")
    def review(request: Request) -> Response:
        form = ReleaseForm.read(request.query_params)
        source = studio.sources.find(form.source)
        offer = studio.releases.price(form)
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
            back=address("/release", form.query(request="")),
            python=form.python(file, charge, source.table),
            command="" if source.table else form.command(file, charge),
        )

    @app.post("/release/confirm")
    async def confirm(request: Request) -> Response:
        given = await studio.sent(request, MAX_FIELDS)
        form = ReleaseForm.read(given)
        await run_in_threadpool(studio.releases.release, form, given.get("acknowledged") == "yes")
        where = {"dataset": form.dataset, "request": form.request, "label": form.label}
        shown = urlencode({name: value for name, value in where.items() if value})
        return RedirectResponse(address("/release/result", shown), 303)

    @app.get("/release/result")
    def result(request: Request) -> Response:
        answer, label, where = _found(studio, request)
        return studio.page(
            request,
            "release_result.html",
            answer=answer,
            finding=Finding.of(answer),
            **_promise(answer.guarantee),
            label=label,
            where=where,
        )

    @app.get("/release/download/{kind}")
    def download(request: Request, kind: str) -> Response:
        if kind not in ("json", "html", "ipynb"):
            raise HTTPException(404)
        answer, label, _ = _found(studio, request)
        name = "release-" + re.sub(r"[^0-9A-Za-z]", "", request.query_params.get("request", ""))[-16:]
        if kind == "json":
            stored = answer.receipt.result if answer.receipt is not None else answer.to_json().encode()
            return _attachment(stored, "application/json", f"{name}.json")
        if kind == "ipynb":
            return _attachment(_notebook(answer, label), "application/x-ipynb+json", f"{name}.ipynb")
        text = report(answer, title=label or None)
        return _attachment(text.encode(), "text/html; charset=utf-8", f"{name}.html")


def _form_of(form: ReleaseForm, source: DataSource) -> str:
    """The address of the form of a source, with what a plan has filled in already."""
    return address("/release", form.query(source=source.identifier, request=""))


def _promise(guarantee: Guarantee) -> dict[str, Any]:
    """ε in words, and the δ of the cases in which they do not hold."""
    known = guarantee.exact_epsilon
    return {
        "meaning": meaning(guarantee) if known else None,
        "except_in": amount(guarantee.exact_delta) if known and guarantee.exact_delta else "",
    }


def _notebook(answer: Answer, label: str) -> bytes:
    """A notebook that goes on from the release: it holds the document, and nothing of the data."""
    load = f"from discreet.documents.answer import load_answer\n\nanswer = load_answer({answer.to_json()!r})"
    free = "What is computed from here on costs no further budget."
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "source": f"# {label or 'A private release'}\n\n{free}"},
        *(
            {"cell_type": "code", "source": source, "execution_count": None, "outputs": []}
            for source in (load, "answer", "answer.to_frame()")
        ),
    ]
    shown = [{"id": f"cell-{index}", "metadata": {}, **cell} for index, cell in enumerate(cells)]
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": shown}
    return json.dumps(book, indent=1).encode()


def _attachment(content: bytes, kind: str, name: str) -> Response:
    return Response(
        content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


def _form(studio: Studio, source: DataSource, form: ReleaseForm) -> dict[str, Any]:
    try:
        accounts = studio.releases.accounts()
    except MissingLedgerError:
        accounts = []
    inputs = form.inputs()
    return {
        "source": source,
        "form": form,
        "inputs": [one for one in inputs if not one.rare],
        "rare": [one for one in inputs if one.rare],
        "tabs": [(here, title, address("/release", query)) for here, title, query in form.tabs()],
        "elsewhere": address("/release", form.query(source="", request="")),
        "accounts": accounts,
        "has_ledger": studio.ledger is not None,
    }


def _found(studio: Studio, request: Request) -> tuple[Answer, str, str]:
    given = request.query_params
    dataset, name = given.get("dataset", ""), given.get("request", "")
    label = given.get("label", "")[:200] or studio.releases.label(name)
    answer = studio.releases.find(dataset, name)
    if answer is None:
        raise FileError("this release is not here: one without a ledger is lost when the studio ends")
    where = {"dataset": dataset, "request": name, "label": label}
    return answer, label, urlencode({key: value for key, value in where.items() if value})


@dataclass(frozen=True)
class Finding:
    """An answer, or a part of one, as the page shows it."""

    words: Words | None
    heading: str = ""
    otherwise: str = ""
    """Said where there is no answer."""
    header: tuple[str, ...] = ()
    cells: tuple[tuple[str, ...], ...] = ()
    tables: tuple[Table, ...] = ()
    drawing: str = ""
    parts: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, answer: Answer, heading: str = "", frame: Frame | None = None) -> Finding:
        """What the answer says of itself; its parts are drawn on one axis."""
        parts = answer.parts()
        figures = [part.answer.figure() for part in parts if part.answer is not None]
        common = frame_of([one for one in figures if one is not None])
        rows, figure = answer.rows(INTERVAL), answer.figure(INTERVAL)
        header, cells = answer.cells(rows, INTERVAL) if rows else ((), [])
        return cls(
            answer.words(),
            heading,
            header=header,
            cells=tuple(cells),
            tables=answer.tables(),
            drawing="" if figure is None else drawing(figure, frame),
            parts=tuple(
                cls(None, part.heading, part.otherwise)
                if part.answer is None
                else cls.of(part.answer, part.heading, common)
                for part in parts
            ),
        )
