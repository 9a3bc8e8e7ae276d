"""Starting a studio: one socket on this machine, one address with its token, one browser window."""

from __future__ import annotations

import errno
import logging
import signal
import socket
import threading
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from discreet.errors import FileError, InvalidInput
from discreet.studio.app import create_app
from discreet.studio.releasing import hear_warnings
from discreet.studio.settings import StudioSettings

LOOPBACK = "127.0.0.1"


def serve(
    *, ledger: str | None, data: Path | None, port: int, browser: bool, say: Callable[[str], None]
) -> None:
    """Serves until it is interrupted. ``say`` gets the address as soon as a browser may open it."""
    if data is not None and not data.is_dir():
        raise FileError(f"data={str(data)!r} is not a folder")
    with bound(port) as listening:
        settings = StudioSettings(port=listening.getsockname()[1], ledger=ledger, data=data)
        app = create_app(settings)
        server = configured(app)
        listening.listen(128)
        hear_warnings()
        say(settings.address)
        if browser:
            once = f"{settings.origins[0]}/?token={app.state.sessions.ticket()}"
            threading.Thread(target=_open, args=(server, once), daemon=True).start()
        if hasattr(signal, "SIGHUP"):  # the terminal was closed: end in order, so that uploads are removed
            signal.signal(signal.SIGHUP, lambda *_: server.handle_exit(signal.SIGTERM, None))
        server.run(sockets=[listening])


def configured(app: FastAPI) -> uvicorn.Server:
    """The server of an application: it logs no address and says nothing about itself."""
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


def bound(port: int) -> socket.socket:
    """A socket that only this machine reaches; port 0 takes a free one."""
    if not 0 <= port < 65536:
        raise InvalidInput(f"port={port} must be between 0 and 65535; 0 takes a free one")
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise InvalidInput(
                f"port={port} is in use by another program; choose another, or leave it out for a free one"
            ) from None
        raise InvalidInput(f"port={port} cannot be used: {error.strerror}") from None
    return listening


def _open(server: uvicorn.Server, address: str) -> None:
    while not server.started:
        if server.should_exit:
            return
        time.sleep(0.02)
    webbrowser.open(address)
