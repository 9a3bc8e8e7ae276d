"""Why it can be believed, for practitioners; behind it the gallery of reproduced figures."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from discreet.studio.shell import Studio


def add_evidence(app: FastAPI, studio: Studio) -> None:
    @app.get("/evidence")
    def evidence(request: Request) -> Response:
        return studio.page(request, "evidence.html", papers=studio.gallery.by_paper())

    @app.get("/evidence/image/{name}")
    def image(name: str) -> Response:
        found = studio.gallery.image(name)
        if found is None:
            raise HTTPException(404)
        return Response(found, media_type="image/png")
