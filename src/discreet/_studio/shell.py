"""The parts that all pages share: the running studio, the rendering of a page, and errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException

from discreet._documents.parts import NOISE_NOTE
from discreet._reporting.figures import drawing
from discreet._studio.guard import Sessions, StudioSettings
from discreet._studio.releasing import Releases
from discreet._studio.schemas import Schemas
from discreet._studio.sources import Sources
from discreet._version import __version__
from discreet.errors import (
    DataError,
    DiscreetError,
    EngineFailure,
    FileError,
    LedgerError,
    LedgerRefusal,
    UnknownDatasetError,
)
from discreet.ledger import Ledger
from discreet.questions._text import words

HERE = Path(__file__).parent
PAGES = {
    "schema": "Schema",
    "plan": "Plan",
    "release": "Release",
    "ledger": "Ledger",
    "audit": "Audit",
    "distribution": "Inside",
    "evidence": "Evidence",
}


def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(words=words, whole="{:,}".format)
    environment.globals.update(drawing=drawing, noise_note=NOISE_NOTE)
    return environment


@dataclass(frozen=True)
class Studio:
    """What the pages share while a studio runs."""

    settings: StudioSettings
    sessions: Sessions
    sources: Sources
    ledger: Ledger | None
    releases: Releases
    schemas: Schemas
    templates: Environment = field(default_factory=_templates)

    def page(self, request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
        text = self.templates.get_template(template).render(
            pages=PAGES,
            here=request.url.path.split("/")[1],
            csrf=self.sessions.csrf(request.scope["session"]),
            version=__version__,
            **context,
        )
        return HTMLResponse(text, status)

    def attempt(
        self,
        request: Request,
        template: str,
        make: Callable[[dict[str, Any]], str],
        fragment: str = "",
        **context: Any,
    ) -> HTMLResponse:
        """Return a page, with its error if ``make`` fails; ``make`` fills in the context and returns the
        address."""
        alone, where, status, context["problem"] = bool(fragment) and is_fragment(request), "", 200, None
        try:
            where = make(context)
        except DiscreetError as error:
            context["problem"] = problem(error)
            status = context["problem"].status
        response = self.page(request, fragment if alone else template, status, **context)
        if alone and status == 200:
            response.headers["HX-Push-Url"] = where
        return response

    async def sent(self, request: Request, max_fields: int) -> dict[str, str]:
        """Return the fields of a form, after checking that it belongs to this session."""
        async with request.form(max_files=0, max_fields=max_fields) as form:
            texts = {name: value for name, value in form.items() if isinstance(value, str)}
        self.sessions.check_csrf(request.scope["session"], texts.get("csrf", ""))
        return texts

    @property
    def ledger_name(self) -> str | None:
        """The address of the ledger without a password."""
        return None if self.ledger is None else repr(self.ledger)[len("Ledger('") : -len("')")]

    # What goes wrong.

    def on_error(self, request: Request, error: Exception) -> Response:
        """Return the page that shows an error of discreet."""
        assert isinstance(error, DiscreetError)
        trouble = problem(error)
        if is_fragment(request):
            return self.page(request, "problem.html", trouble.status, problem=trouble)
        return self.page(request, "error.html", trouble.status, title=trouble.title, text=trouble.text)

    def on_status(self, request: Request, error: Exception) -> Response:
        """Return the page of a request that has no route."""
        assert isinstance(error, HTTPException)
        title, text = STATUS.get(
            error.status_code, ("Malformed request", "The request cannot be read; nothing was done.")
        )
        response = self.page(request, "error.html", error.status_code, title=title, text=text)
        response.headers.update(error.headers or {})
        return response

    def on_form(self, request: Request, error: Exception) -> Response:
        """Return the page of a form that cannot be parsed; Starlette before 1.8 raises its own error."""
        return self.on_status(request, HTTPException(400))


STATUS = {
    404: ("There is no such page", "There is no page at this address."),
    405: ("Wrong kind of request", "The page exists, but does not take this kind of request."),
}
PROBLEMS: tuple[tuple[type[DiscreetError], int, str], ...] = (
    (LedgerRefusal, 409, "The ledger refuses this"),
    (UnknownDatasetError, 404, "There is no such dataset"),
    (LedgerError, 503, "The ledger cannot be used"),
    (DataError, 422, "The data do not fit the declaration"),
    (FileError, 400, "The file cannot be used"),
    (EngineFailure, 503, "The engine failed"),
    (DiscreetError, 400, "A value cannot be used"),
)


class Problem(NamedTuple):
    """An error as a page shows it; ``field`` is the field of the form at fault, where that is known."""

    status: int
    title: str
    text: str
    field: str = ""


def problem(error: DiscreetError) -> Problem:
    """Return the text of an error for a page; our messages hold no data value, and templates escape them."""
    status, title = next((status, title) for kind, status, title in PROBLEMS if isinstance(error, kind))
    text = str(error)
    if re.match(r"[a-z]+ ", text):  # a sentence; what begins with the name of a parameter stays as it is
        text = text[0].upper() + text[1:]
    return Problem(status, title, text if text.endswith((".", "?")) else text + ".", error.parameter or "")


def is_fragment(request: Request) -> bool:
    return "hx-request" in request.headers and "hx-history-restore-request" not in request.headers
