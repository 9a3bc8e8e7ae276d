"""Why it can be believed, for practitioners; behind it the gallery of reproduced figures."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from discreet.studio.shell import Studio

_PICTURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}\.png")


@dataclass(frozen=True)
class Exhibit:
    """A table or figure that was reproduced, and its pictures."""

    name: str
    paper: str
    title: str
    verdict: str
    images: tuple[str, ...]


def exhibits(folder: Traversable | None) -> list[Exhibit]:
    """What ``gallery.json`` lists and is there. Only listed pictures are served, each under its own name."""
    if folder is None:
        return []

    def is_there(image: Any) -> bool:
        return bool(_PICTURE.fullmatch(str(image))) and (folder / image).is_file()

    try:
        listed = json.loads((folder / "gallery.json").read_text("utf-8"))
        return [
            Exhibit(
                **{key: str(row[key]) for key in ("name", "paper", "title", "verdict")},
                images=tuple(filter(is_there, row["images"])),
            )
            for row in listed
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def add_evidence(app: FastAPI, studio: Studio) -> None:
    folder = studio.settings.gallery

    @app.get("/evidence")
    def evidence(request: Request) -> Response:
        papers: dict[str, list[Exhibit]] = {}
        for one in exhibits(folder):
            if one.images:
                papers.setdefault(one.paper, []).append(one)
        return studio.page(request, "evidence.html", papers=papers)

    @app.get("/evidence/image/{name}")
    def image(name: str) -> Response:
        if folder is None or not any(name in one.images for one in exhibits(folder)):
            raise HTTPException(404)
        return Response((folder / name).read_bytes(), media_type="image/png")
