"""The reproduction gallery: pictures of the papers' figures, made again, with a verdict each."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.resources.abc import Traversable

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Exhibit:
    """A table or figure that was reproduced, and its pictures."""

    name: str
    paper: str
    title: str
    verdict: str
    images: tuple[str, ...]


class Gallery:
    """What ``gallery.json`` lists and is there. Only listed pictures are served, each under its own name."""

    def __init__(self, folder: Traversable | None) -> None:
        self.folder = folder

    def exhibits(self) -> list[Exhibit]:
        if self.folder is None:
            return []
        try:
            listed = json.loads((self.folder / "gallery.json").read_text("utf-8"))
            return [
                Exhibit(
                    str(row["name"]),
                    str(row["paper"]),
                    str(row["title"]),
                    str(row["verdict"]),
                    tuple(image for image in row["images"] if self._is_there(image)),
                )
                for row in listed
            ]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def by_paper(self) -> dict[str, list[Exhibit]]:
        papers: dict[str, list[Exhibit]] = {}
        for one in self.exhibits():
            if one.images:
                papers.setdefault(one.paper, []).append(one)
        return papers

    def image(self, name: str) -> bytes | None:
        listed = any(name in one.images for one in self.exhibits())
        return (self.folder / name).read_bytes() if self.folder is not None and listed else None

    def _is_there(self, image: str) -> bool:
        named = isinstance(image, str) and _NAME.fullmatch(image) and image.endswith(".png")
        return bool(named) and self.folder is not None and (self.folder / image).is_file()
