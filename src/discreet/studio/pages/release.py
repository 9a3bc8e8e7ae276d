"""The release pages: data, question, price, result."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from discreet.answers.release import Release
from discreet.declarations import Relation
from discreet.errors import FileError, InvalidInput, MissingLedgerError, TooLargeError
from discreet.mechanisms import MECHANISMS, check_options
from discreet.posterior_sampling.sample import Sample
from discreet.posterior_sampling.sampler import SAMPLERS
from discreet.reporting.report import report
from discreet.studio import charts
from discreet.studio.guard import UPLOAD
from discreet.studio.planning import meaning
from discreet.studio.release_questions import AUTO, KINDS, ReleaseQuestion
from discreet.studio.releasing import Desk, Found, new_request
from discreet.studio.settings import MEGABYTE
from discreet.studio.shell import Studio, address, in_units
from discreet.studio.sources import column_names


def add_release(app: FastAPI, studio: Studio) -> None:
    @app.get("/release")
    def release_page(request: Request) -> Response:
        given = dict(request.query_params)
        if not given.get("source"):
            question = ReleaseQuestion.read(given)
            return studio.page(
                request,
                "release_source.html",
                sources=[(source, _form_of(question, source)) for source in studio.sources.listed()],
                upload=address(UPLOAD, question.query(source="", request="")),
                planned=KINDS[question.kind] if question.epsilon else "",
                folder=studio.settings.data is not None,
                limit=studio.settings.upload_limit,
                megabytes=f"{studio.settings.upload_limit / MEGABYTE:g}",
            )
        source = studio.sources.find(given["source"])
        question = ReleaseQuestion.read({**given, "request": new_request(source.identifier)})
        return studio.page(request, "release_form.html", **_form(studio, source, question))

    @app.post(UPLOAD)
    async def upload(request: Request) -> Response:
        question = ReleaseQuestion.read(request.query_params)
        async with request.form(max_files=1, max_fields=4, max_part_size=1000) as form:
            studio.sessions.check_csrf(request.scope["session"], str(form.get("csrf", "")))
            file = form.get("file")
            if not isinstance(file, UploadFile) or not file.filename:
                raise InvalidInput("choose a file first")
            source = await run_in_threadpool(studio.sources.keep, file.file, file.filename)
        return RedirectResponse(_form_of(question, source), 303)

    @app.get("/release/columns")
    def columns(request: Request) -> Response:
        source = studio.sources.find(request.query_params.get("source", ""))
        return studio.page(request, "release_columns.html", columns=column_names(source))

    @app.get("/release/review")
    def review(request: Request) -> Response:
        question = studio.desk.settled(ReleaseQuestion.read(request.query_params))
        source = studio.sources.find(question.source)
        offer = studio.desk.price(question)
        file = "FILE" + "".join(source.path.suffixes[-2:]) if source.uploaded else source.path.name
        return studio.page(
            request,
            "release_review.html",
            question=question,
            source=source,
            offer=offer,
            **_promise(offer.guarantee),
            back=address("/release", question.query(request="")),
            hidden=[(field.name, getattr(question, field.name)) for field in fields(question)],
            python=question.python(file, studio.ledger_name, source.table),
            command="" if source.table else question.command(file, studio.ledger_name),
        )

    @app.post("/release/confirm")
    async def confirm(request: Request) -> Response:
        async with request.form(max_files=0, max_fields=30) as form:
            given = {name: value for name, value in form.items() if isinstance(value, str)}
        studio.sessions.check_csrf(request.scope["session"], given.get("csrf", ""))
        question = ReleaseQuestion.read(given)
        await run_in_threadpool(studio.desk.release, question, given.get("acknowledged") == "yes")
        where = {"dataset": question.dataset, "request": question.request, "label": question.label}
        shown = urlencode({name: value for name, value in where.items() if value})
        return RedirectResponse(address("/release/result", shown), 303)

    @app.get("/release/result")
    def result(request: Request) -> Response:
        found, label, where = _found(studio, request)
        shown = _sample(found) if isinstance(found, Sample) else _shares(found)
        return studio.page(
            request,
            "release_draw.html" if isinstance(found, Sample) else "release_result.html",
            release=found,
            **shown,
            **_promise(found.guarantee),
            label=label,
            where=where,
        )

    @app.get("/release/download/{kind}")
    def download(request: Request, kind: str) -> Response:
        if kind not in ("json", "html"):
            raise HTTPException(404)
        found, label, _ = _found(studio, request)
        name = "release-" + re.sub(r"[^0-9A-Za-z]", "", request.query_params.get("request", ""))[-16:]
        if kind == "json":
            stored = found.receipt.result if found.receipt is not None else found.to_json().encode()
            return _attachment(stored, "application/json", f"{name}.json")
        text = report(found, title=label or None)
        return _attachment(text.encode(), "text/html; charset=utf-8", f"{name}.html")


def _form_of(question: ReleaseQuestion, source: Any) -> str:
    """The address of the form of a source, with what a plan has filled in already."""
    return address("/release", question.query(source=source.identifier, request=""))


def _promise(guarantee: Any) -> dict[str, Any]:
    """ε in words, and the δ of the cases in which they do not hold."""
    known = guarantee.exact_epsilon
    return {
        "meaning": meaning(known) if known else None,
        "except_in": f"{float(guarantee.exact_delta):.3g}" if known and guarantee.exact_delta else "",
        "whom": "one person" if guarantee.relation == Relation.REPLACE_PERSON else "one record",
    }


def _attachment(content: bytes, kind: str, name: str) -> Response:
    return Response(
        content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


def _form(studio: Studio, source: Any, question: ReleaseQuestion) -> dict[str, Any]:
    try:
        accounts = studio.desk.accounts()
    except MissingLedgerError:
        accounts = []
    kept = {
        name: getattr(question, name) for name in ("source", "column", "epsilon", "dataset", "n", "label")
    }
    tabs = [
        (kind == question.kind, text, address("/release", ReleaseQuestion(kind=kind, **kept).query()))
        for kind, text in KINDS.items()
    ]
    return {
        "source": source,
        "question": question,
        "tabs": tabs,
        "elsewhere": address("/release", question.query(source="", request="")),
        "accounts": accounts,
        "chosen": question.dataset or next((a.dataset for a in accounts if Desk.suits(question, a)), ""),
        "has_ledger": studio.ledger is not None,
        "ledger_name": studio.ledger_name,
        "mechanisms": [AUTO, *(name for name in MECHANISMS if name not in ("ehdl", "mbeta"))],
        "samplers": SAMPLERS,
    }


def _found(studio: Studio, request: Request) -> tuple[Found, str, str]:
    given = request.query_params
    dataset, label = given.get("dataset", ""), given.get("label", "")[:200]
    found = studio.desk.find(dataset, given.get("request", ""))
    if found is None:
        raise FileError("this release is not here: one without a ledger is lost when the studio ends")
    where = urlencode({name: given[name] for name in ("dataset", "request", "label") if given.get(name)})
    return found, label, where


def _shares(found: Release) -> dict[str, Any]:
    levels = list(map(str, found.levels))
    indices = range(1 if len(levels) == 2 else min(len(levels), charts.MAX_CURVES))
    aware = found.noise_aware_or_none()
    spec = charts.posteriors(
        [levels[i] for i in indices],
        [found.posterior.marginal(i) for i in indices],
        None if aware is None else [aware.marginal(i) for i in indices],
    )
    # With several records of a person the mechanism has a part of the price: its own is in the parameters.
    built = check_options(found.mechanism, ())(**found.parameters)
    return {
        "rows": found.table(),
        "aware": aware is not None,
        "spec": spec,
        "drawn": len(indices),
        "mostly_noise": built.noise_scale >= found.n,
    }


LITTLE = 0.9
"""A posterior whose spread is so much of the prior's says little beyond it."""


def _sample(found: Sample) -> dict[str, Any]:
    """Of a mean or a rate: one parameter, of which one value or several were drawn."""
    (prior,) = found.prior_marginals()
    values = [float(value) for value in found.values]
    what = {"gaussian": "mean", "poisson": "rate"}[str(found.family["name"])]
    titles = {"mean": "mean of the records, in their unit", "rate": "events per record"}
    posterior, rows = None, []
    try:
        (posterior,) = found.marginals()
        rows = found.table()
    except TooLargeError:
        pass
    spread = prior.std() if posterior is None else posterior.std()
    return {
        "what": what,
        "spec": charts.draws(prior, posterior, values, titles[what]),
        "rows": [
            {**row, **{name: in_units(row[name], spread) for name in ("mean", "sd", "low", "high")}}
            for row in rows
        ],
        "values": [in_units(value, spread) for value in values],
        "prior": [in_units(value, spread) for value in (prior.mean(), *prior.interval(0.95))],
        "mostly_noise": posterior is not None and posterior.std() > LITTLE * prior.std(),
    }
