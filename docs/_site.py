"""Hooks of the documentation build: pages from outside docs/, and a check that the site fetches nothing."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from _reference import expand  # noqa: E402

PROOFS = sorted(f"proofs/{page.name}" for page in ROOT.glob("proofs/*.md"))
PAGES = ["SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "reproductions/README.md", *PROOFS]
# In a search these come after the guides.
AFTER_GUIDES = (
    *("proofs/", "reference/", "reproductions/", "mechanisms/", "evidence", "architecture", "calibration"),
    *PAGES[:3],
)
GALLERY = "reproductions/src/discreet_reproductions/gallery/"

FETCHED = re.compile(
    r"""<script[^>]+src=["']?(?:https?:)?//[^\s"'>]+"""
    r"""|<link(?=[^>]+rel=["']?(?:stylesheet|preconnect|preload|icon))[^>]+href=["']?(?:https?:)?//[^\s"'>]+"""
    r"""|<(?:img|iframe|source)[^>]+src=["']?(?:https?:)?//[^\s"'>]+"""
    r"""|url\(["']?(?:https?:)?//[^\s"')]+"""
    r"""|@import\s+["'](?:https?:)?//[^\s"']+""",
    re.IGNORECASE,
)


def on_files(files: Files, config: Any) -> Files:
    for page in PAGES:
        # Links are written for the repository; inside the site docs/ is the top.
        text = (ROOT / page).read_text("utf-8").replace("](docs/", "](").replace("](../docs/", "](../")
        text = text.replace(f"]({GALLERY.partition('/')[2]}", "](gallery/")
        files.append(File.generated(config, page, content=text))
    for picture in sorted((ROOT / GALLERY).glob("*.png")):
        name = f"reproductions/gallery/{picture.name}"
        files.append(File.generated(config, name, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    if page.file.src_uri.startswith(AFTER_GUIDES):
        page.meta.setdefault("search", {"boost": 0.2})
    # One step up fewer: inside the site the pages of the repository lie beside those of docs/.
    outside = r"(SECURITY|CONTRIBUTING|CHANGELOG|reproductions/|proofs/)"
    inside = re.sub(rf"\]\(((?:\.\./)*)\.\./{outside}", r"](\1\2", markdown)
    return expand(inside) if page.file.src_uri.startswith("reference/") else inside


def on_post_build(config: Any) -> None:
    found = [
        f"{path.relative_to(config['site_dir'])}: {match.group()}"
        for path in sorted(Path(config["site_dir"]).rglob("*"))
        if path.suffix in {".html", ".css"}
        for match in FETCHED.finditer(path.read_text("utf-8"))
    ]
    if found:
        raise PluginError("the site would fetch from elsewhere:\n" + "\n".join(found))
