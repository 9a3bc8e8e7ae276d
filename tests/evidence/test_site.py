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
    "crosstab": "docs/how-to/tables",
    "stratified": "docs/reference/glossary",
    "confidence interval": "docs/explanation/noise-aware",
    "mean of a column": "docs/how-to/regression",
    "regression": "docs/how-to/regression",
    "add/remove": "docs/explanation/relations",
    "OpenDP": "docs/how-to/read-other-releases",
    "budget": "docs/how-to/team-ledger",
    "proportions": "docs/reference/api/discreet.proportions",
    "Ledger": "docs/reference/api/discreet.Ledger",
}
PARTS = ("docs", "proofs", "reproductions", "examples", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Build a site as ``make docs`` does, and go on after a warning to see all of them."""
    if any(
        importlib.util.find_spec(name) is None for name in ("sphinx", "myst_parser", "pydata_sphinx_theme")
    ):
        need("no site here: Sphinx, MyST or its theme not found (pip install '.[docs]')")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-E",
        "-W",
        "--keep-going",
        "-c",
        "docs",
        ".",
        str(target),
    ]
    return subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, from a copy: the build writes pages of the reference beside its sources."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name)
        else:
            shutil.copy(ROOT / name, source / name)
    made = build(source, target)
    assert made.returncode == 0, made.stderr
    return target


@pytest.fixture
def little(tmp_path: Path) -> Path:
    """A repository of two pages with the settings of ours."""
    for name in ("_static", "_templates"):
        shutil.copytree(ROOT / "docs" / name, tmp_path / "docs" / name)
    shutil.copy(ROOT / "docs" / "conf.py", tmp_path / "docs" / "conf.py")
    (tmp_path / "docs" / "index.md").write_text("# Top\n\n```{toctree}\nother\n```\n", "utf-8")
    (tmp_path / "docs" / "other.md").write_text("# Other\n\nIs $\\varepsilon = \\frac{1}{2}$.\n", "utf-8")
    return tmp_path


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


def test_formulas_are_shown_without_a_script(little: Path, tmp_path: Path) -> None:
    made = build(little, tmp_path / "site")
    assert made.returncode == 0, made.stderr
    assert "<mfrac>" in (tmp_path / "site" / "docs" / "other.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("page", "text", "complaint"),
    [
        ("forgotten.md", "# Forgotten\n", "forgotten.md: WARNING: document isn't included in any toctree"),
        ("other.md", "# Other\n\n[there](nowhere.md)\n", "'nowhere.md'"),
        ("other.md", "# Other\n\n[there](index.md#nowhere)\n", "'nowhere'"),
        ("other.md", "# Other\n\n$\\nonsense{1}$\n", 'Unknown LaTeX command "\\nonsense"'),
        ("other.md", '# Other\n\n<img src="https://example.org/a.png">\n', "would fetch from elsewhere"),
    ],
    ids=["not listed", "link", "anchor", "formula", "fetched"],
)
def test_a_fault_stops_the_build(little: Path, tmp_path: Path, page: str, text: str, complaint: str) -> None:
    (little / "docs" / page).write_text(text, "utf-8")
    made = build(little, tmp_path / "site")
    assert made.returncode != 0
    assert complaint in made.stderr


def test_the_reference_is_made_of_docstrings(site: Path) -> None:
    text = (site / "docs" / "reference" / "api" / "discreet.answers.release.Release.html").read_text("utf-8")
    assert "Private proportions: the posterior of the shares with its guarantee" in text
    assert 'id="discreet.answers.release.Release.posterior"' in text
    estimator = site / "docs" / "reference" / "api" / "discreet.PrivateLogisticRegression.html"
    assert 'id="discreet.PrivateLogisticRegression.fit"' in estimator.read_text("utf-8")
    assert "set_params" not in estimator.read_text("utf-8")  # scikit-learn's own is documented there


def test_what_people_search_for_is_among_the_first_two_pages(site: Path, page: Any) -> None:
    for words, wanted in SOUGHT.items():
        page.goto(f"file://{site}/index.html")
        page.wait_for_url("**/docs/index.html")
        page.keyboard.press("Control+k")
        page.keyboard.type(words)
        page.keyboard.press("Enter")
        page.wait_for_selector("#search-results li:nth-child(2) p.context")
        links = [link.get_attribute("href") for link in page.query_selector_all("#search-results li > a")]
        pages = [link.partition(".html")[0] for link in links]
        assert wanted in list(dict.fromkeys(pages))[:2], (words, pages[:5])


def test_no_code_is_cut_and_no_page_moves_sideways(site: Path, page: Any) -> None:
    outside: list[str] = []
    page.on("request", lambda request: outside.append(request.url))
    pages = sorted(site.glob("docs/**/*.html"))
    assert len(pages) > 100
    cut = "[...document.querySelectorAll('pre')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for each in pages:
            page.goto(f"file://{each}")
            assert page.evaluate(cut) == 0, (each.name, width)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (each.name, width)
    assert [address for address in outside if not address.startswith(("file:", "data:"))] == []
