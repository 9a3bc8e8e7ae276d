"""The schema page: what is public about the data is declared here, from a file, a template or by hand."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from discreet._data.codebook import template_text
from discreet._studio.forms import ReleaseForm
from discreet._studio.schemas import MAX_SCHEMA_TEXT, KeptSchema
from discreet._studio.shell import Problem, Studio, problem
from discreet._studio.sources import DataSource, columns
from discreet.errors import DiscreetError, FileError, TooLargeError


def add_schema(app: FastAPI, studio: Studio) -> None:
    @app.get("/schema")
    def schema_page(request: Request) -> Response:
        form = ReleaseForm.read(request.query_params, studio.schemas)
        source = studio.sources.find(form.source) if form.source else None
        schema = (
            form.kept_schema
            if source is None
            else form.kept_schema or studio.schemas.of_source(source.identifier)
        )
        if schema is not None:
            return _page(studio, request, form, source, schema.text, schema)
        text, trouble = "", None
        if source is not None:
            try:
                text = template_text(columns(source))
            except DiscreetError as error:
                text, trouble = template_text([]), problem(error)
        return _page(studio, request, form, source, text, None, trouble, is_template=source is not None)

    @app.post("/schema")
    async def declare(request: Request) -> Response:
        async with request.form(max_files=1, max_fields=6, max_part_size=4 * MAX_SCHEMA_TEXT) as sent:
            studio.sessions.check_csrf(request.scope["session"], str(sent.get("csrf", "")))
            file, text = sent.get("file"), str(sent.get("text", ""))
            carried = dict(parse_qsl(str(sent.get("form", ""))))
            named = ""
            if isinstance(file, UploadFile) and file.filename:
                named = file.filename
                content = await file.read(4 * MAX_SCHEMA_TEXT + 1)
        form = await run_in_threadpool(ReleaseForm.read, carried, studio.schemas)
        source = await run_in_threadpool(studio.sources.find, form.source) if form.source else None
        try:
            if named:
                text = _decode(content)
            name = named or (
                source.name if source is not None else form.kept_schema.name if form.kept_schema else "Schema"
            )
            schema = await run_in_threadpool(studio.schemas.keep, text, name, form.source)
        except DiscreetError as error:
            shown = text[: 2 * MAX_SCHEMA_TEXT]
            return await run_in_threadpool(_page, studio, request, form, source, shown, None, problem(error))
        return RedirectResponse(form.address("/schema", schema=schema.identifier), 303)

    @app.get("/schema/download")
    def download(request: Request) -> Response:
        schema = studio.schemas.find(request.query_params.get("schema", ""))
        held = {"Content-Disposition": 'attachment; filename="schema.toml"'}
        return Response(schema.schema.to_toml(), media_type="application/toml; charset=utf-8", headers=held)


def _decode(content: bytes) -> str:
    if len(content) > 4 * MAX_SCHEMA_TEXT:
        raise TooLargeError(f"a schema may have up to {MAX_SCHEMA_TEXT:,} characters here")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError("the schema is not text in UTF-8") from None


def _page(
    studio: Studio,
    request: Request,
    form: ReleaseForm,
    source: DataSource | None,
    text: str,
    schema: KeptSchema | None,
    trouble: Problem | None = None,
    is_template: bool = False,
) -> Response:
    """Return the page of a schema: its text, its error or what it makes public, and links to the next
    pages."""
    links: dict[str, Any] = {}
    if schema is not None:
        chosen = form.address("/release", schema=schema.identifier, request="")
        links = {
            "ask": chosen,
            "plan": "/plan?" + urlencode({"schema": schema.identifier}),
            "download": "/schema/download?" + urlencode({"schema": schema.identifier}),
        }
    return studio.page(
        request,
        "schema.html",
        200 if trouble is None or is_template else trouble.status,
        source=source,
        text=text,
        kept=schema,
        problem=trouble,
        is_template=is_template,
        carried=urlencode(form.items()),
        links=links,
        sources=[
            (source, form.address("/schema", source=source.identifier, schema="", request=""))
            for source in studio.sources.list_all()
        ],
        schemas=[
            (schema, form.address("/schema", schema=schema.identifier))
            for schema in studio.schemas.list_recent()
        ],
        most=MAX_SCHEMA_TEXT,
    )
