"""One studio: its application behind the guard, and the one socket on this machine that serves it."""

from __future__ import annotations

import errno
import logging
import signal
import socket
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from fastapi.responses import RedirectResponse, Response
from python_multipart.exceptions import FormParserError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles

from discreet._studio.guard import Guard, Sessions, StudioSettings
from discreet._studio.pages.distribution import add_distribution
from discreet._studio.pages.evidence import add_audit, add_evidence
from discreet._studio.pages.ledger import add_ledger
from discreet._studio.pages.plan import add_plan
from discreet._studio.pages.release import add_release
from discreet._studio.pages.schema import add_schema
from discreet._studio.releasing import Releases, hear_warnings
from discreet._studio.schemas import Schemas
from discreet._studio.shell import HERE, Studio
from discreet._studio.sources import Sources
from discreet.errors import DiscreetError, FileError, InvalidInputError
from discreet.ledger import Ledger

LOOPBACK = "127.0.0.1"


def create_app(settings: StudioSettings) -> FastAPI:
    """Return the application of one studio; every request passes the guard first."""
    sessions, sources = Sessions(settings), Sources(settings.data)
    ledger = None if settings.ledger is None else Ledger(settings.ledger)
    studio = Studio(settings, sessions, sources, ledger, Releases(ledger, sources), Schemas())

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
    app.add_exception_handler(DiscreetError, studio.on_error)
    app.add_exception_handler(HTTPException, studio.on_status)
    app.add_exception_handler(FormParserError, studio.on_form)
    app.state.sessions = sessions
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    for add in (add_schema, add_plan, add_release, add_ledger, add_audit, add_distribution, add_evidence):
        add(app, studio)

    @app.get("/")
    def home() -> Response:
        return RedirectResponse("/plan", status_code=303)

    return app


def serve(
    *, ledger: str | None, data: Path | None, port: int, browser: bool, say: Callable[[str], None]
) -> None:
    """Serve until interrupted; ``say`` is called with the address once a browser can open it."""
    if data is not None and not data.is_dir():
        raise FileError(f"data={str(data)!r} is not a folder")
    with bind_port(port) as listening:
        settings = StudioSettings(port=listening.getsockname()[1], ledger=ledger, data=data)
        app = create_app(settings)
        server = make_server(app)
        listening.listen(128)
        hear_warnings()
        say(settings.address)
        if browser:
            once = f"{settings.origins[0]}/?token={app.state.sessions.ticket()}"
            threading.Thread(target=_open, args=(server, once), daemon=True).start()
        if hasattr(signal, "SIGHUP"):  # the terminal was closed: end in order, so that uploads are removed
            signal.signal(signal.SIGHUP, lambda *_: server.handle_exit(signal.SIGTERM, None))
        server.run(sockets=[listening])


def make_server(app: FastAPI) -> uvicorn.Server:
    """Return the server of an application, which logs no address and sends no server header."""
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # its warnings quote bytes of an upload
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # addresses hold what people ask
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=3,
    )
    return uvicorn.Server(config)


def bind_port(port: int) -> socket.socket:
    """Return a socket that only this machine can reach; port 0 takes a free port."""
    if not 0 <= port < 65536:
        raise InvalidInputError(f"port={port} must be between 0 and 65535; 0 takes a free one")
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except OSError as error:
        listening.close()
        reason = f"cannot be used: {error.strerror}"
        if error.errno == errno.EADDRINUSE:
            reason = "is in use by another program; choose another, or leave it out for a free one"
        raise InvalidInputError(f"port={port} {reason}") from None
    return listening


def _open(server: uvicorn.Server, address: str) -> None:
    while not server.started:
        if server.should_exit:
            return
        time.sleep(0.02)
    webbrowser.open(address)
