"""The documentation, built and opened from the disk: searches lead to the right page, no code is cut."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evidence.components import need

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SOUGHT = {
    "crosstab": "tutorials/contingency-table",
    "stratified": "choosing",
    "confidence interval": "honest-posteriors",
    "mean of a column": "regression",
    "regression": "regression",
    "add/remove": "relations",
    "OpenDP": "tutorials/opendp-release",
    "budget": "tutorials/team-ledger",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("material") is None:
        need("no site here: mkdocs-material not found (pip install '.[docs]')")
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(place)]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return place


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    program = shutil.which("chromium")
    if program is None or importlib.util.find_spec("playwright") is None:
        need("no browser here: chromium or Playwright not found")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        yield page
        chromium.close()


def test_what_people_search_for_is_among_the_first_two_pages(site: Path, page: Any) -> None:
    for words, wanted in SOUGHT.items():
        page.goto(f"file://{site}/index.html")
        page.click("[data-md-component=search-query]")
        page.keyboard.type(words)
        page.wait_for_selector(".md-search-result__item > a")
        links = [
            link.get_attribute("href") for link in page.query_selector_all(".md-search-result__item > a")
        ]
        pages = [link.removeprefix(f"file://{site}/").partition(".html")[0] for link in links]
        assert wanted in list(dict.fromkeys(pages))[:2], (words, pages)


def test_no_code_is_cut(site: Path, page: Any) -> None:
    pages = sorted(site.glob("*.html")) + sorted(site.glob("tutorials/*.html"))
    assert len(pages) > 20
    cut = "[...document.querySelectorAll('pre code')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for each in pages:
            page.goto(f"file://{each}")
            assert page.evaluate(cut) == 0, (each.name, width)
