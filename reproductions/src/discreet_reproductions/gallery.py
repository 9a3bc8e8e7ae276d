"""The gallery: pictures of a full run with their verdicts, kept with the package and shown in its README.

    python -m discreet_reproductions.gallery out/reproduce reproductions/README.md

takes the run under the first path into the package's gallery, and writes the gallery's part of the page.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from discreet.errors import FileError, InvalidInputError
from discreet_reproductions.catalogue import EXPERIMENTS, PAPERS

__all__ = ["Entry", "collect", "entries", "markdown", "rewrite"]

Entry = dict[str, Any]
FOLDER = Path(__file__).parent / "gallery"
IMAGES = "src/discreet_reproductions/gallery"
"""The pictures, from the page that shows them."""
BEGIN, END = "<!-- gallery:begin -->", "<!-- gallery:end -->"
WORDS = {"yes": "agree", "partly": "agree in part", "no": "do not hold"}


def entries() -> list[Entry]:
    """What is in the gallery: name, paper, title, verdict, statements and pictures of each experiment."""
    found: list[Entry] = json.loads(files(__package__).joinpath("gallery/gallery.json").read_text("utf-8"))
    return found


def collect(run: Path, folder: Path = FOLDER) -> list[Entry]:
    """Copy the pictures of a full run; quick runs are refused. What is not in it stays as it was recorded."""
    found = []
    old = folder / "gallery.json"
    recorded = {e["name"]: e for e in json.loads(old.read_text("utf-8"))} if old.is_file() else {}
    for experiment in EXPERIMENTS:
        try:
            made = json.loads((run / f"{experiment.name}.json").read_text("utf-8"))
        except (OSError, ValueError):
            if experiment.name in recorded:
                found.append(
                    recorded[experiment.name] | {"paper": PAPERS[experiment.paper], "title": experiment.title}
                )
                continue
            raise FileError(
                f"{experiment.name} is not in {run}; run: discreet reproduce all --out {run}"
            ) from None
        if made["quick"]:
            raise InvalidInputError(
                f"{experiment.name} in {run} is of a quick run; the gallery shows full runs"
            )
        found.append(
            {
                "name": experiment.name,
                "paper": PAPERS[experiment.paper],
                "title": experiment.title,
                "verdict": made["verdict"],
                "statements": [
                    {key: s[key] for key in ("name", "claim", "source", "agrees")} for s in made["statements"]
                ],
                "images": [name for name in made["files"] if name.endswith(".png")],
            }
        )
    folder.mkdir(parents=True, exist_ok=True)
    for picture in folder.glob("*.png"):
        if not any(picture.name in entry["images"] for entry in found):
            picture.unlink()
    for entry in found:
        for image in entry["images"]:
            if (run / image).is_file():
                shutil.copyfile(run / image, folder / image)
    text = json.dumps(found, indent=1, ensure_ascii=False)
    (folder / "gallery.json").write_text(text + "\n", "utf-8")
    return found


def markdown(found: Sequence[Entry], images: str) -> str:
    """The gallery as Markdown, with pictures under the path ``images``."""
    lines: list[str] = []
    for paper in PAPERS.values():
        lines += [f"## {paper}", ""]
        for entry in (entry for entry in found if entry["paper"] == paper):
            given = [s["agrees"] for s in entry["statements"]]
            answers = [f"{given.count(a)} {words}" for a, words in WORDS.items() if a in given]
            lines += [f"### {entry['title']}", ""]
            lines += [f"![{entry['title']}]({images}/{image})" for image in entry["images"]]
            verdict = entry["verdict"].rstrip(".")
            first = verdict[0].upper() if verdict[0].isascii() else verdict[0]
            lines += ["", f"{first}{verdict[1:]}.", ""]
            lines += [f"`discreet reproduce {entry['name']}` · statements: {', '.join(answers)}", ""]
    return "\n".join(lines)


def rewrite(page: Path, text: str, marks: tuple[str, str] = (BEGIN, END)) -> None:
    """Put ``text`` between the two marks of the page."""
    old, (begin, end) = page.read_text("utf-8"), marks
    if old.count(begin) != 1 or old.count(end) != 1:
        raise InvalidInputError(f"{page.name} must hold {begin} and {end} once each")
    head, rest = old.split(begin)
    page.write_text(f"{head}{begin}\n\n{text}\n{end}{rest.split(end)[1]}", "utf-8")


def main(arguments: Sequence[str]) -> int:
    """The command line of this module."""
    if len(arguments) != 2:
        print("usage: python -m discreet_reproductions.gallery RUN PAGE", file=sys.stderr)
        return 2
    found = collect(Path(arguments[0]))
    page = Path(arguments[1])
    rewrite(page, markdown(found, IMAGES))
    print(f"{sum(len(entry['images']) for entry in found)} pictures, {len(found)} verdicts")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
