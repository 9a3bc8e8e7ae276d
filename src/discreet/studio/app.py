"""The application of one studio: its parts put together behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles

from discreet.errors import DiscreetError
from discreet.ledger import Ledger
from discreet.studio.gallery import Gallery
from discreet.studio.guard import Guard, Sessions
from discreet.studio.pages.audit import add_audit
from discreet.studio.pages.evidence import add_evidence
from discreet.studio.pages.ledger import add_ledger
from discreet.studio.pages.plan import add_plan
from discreet.studio.pages.release import add_release
from discreet.studio.releasing import Releases
from discreet.studio.settings import StudioSettings
from discreet.studio.shell import HERE, Studio, error_handler, status_handler, templates
from discreet.studio.sources import Sources


def create_app(settings: StudioSettings) -> FastAPI:
    """The application of one studio; every request passes the guard first."""
    sessions, sources = Sessions(settings), Sources(settings.data)
    ledger = None if settings.ledger is None else Ledger(settings.ledger)
    releases, gallery = Releases(ledger, sources), Gallery(settings.gallery)
    studio = Studio(settings, sessions, sources, ledger, releases, gallery, templates())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            sources.close()
            if ledger is not None:
                ledger.close()

    app = FastAPI(
        title="discreet studio",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
        middleware=[Middleware(Guard, settings=settings, sessions=sessions)],
    )
    app.state.sessions = sessions
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    app.add_exception_handler(DiscreetError, error_handler(studio))
    app.add_exception_handler(HTTPException, status_handler(studio))
    for add in (add_plan, add_release, add_ledger, add_audit, add_evidence):
        add(app, studio)

    @app.get("/")
    def home() -> Response:
        return RedirectResponse("/plan", status_code=303)

    return app
