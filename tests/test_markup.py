"""The rich displays of a notebook: whole, escaped, without script, and true to the plain text."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import discreet
import shorthand
from discreet._html import card, facts, paragraph, table

ROOT = Path(__file__).resolve().parent.parent
NASTY = "<script>alert('x')</script> & \"quoted\""
NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"


class Reader(HTMLParser):
    """Checks that tags are closed in order, and gathers tags, attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def shown(value: Any) -> Reader:
    return checked(value._repr_html_())


def checked(html: str) -> Reader:
    reader = Reader(html)
    assert reader.tags <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert reader.attributes <= {"style", "scope"}
    return reader


def test_release() -> None:
    release = shorthand.shares({NASTY: 3, "b": 9}, levels=(NASTY, "b"), epsilon=1, mechanism="lattice")
    text = shown(release).text
    assert NASTY in text
    low, high = release.interval()
    assert f"{low[1]:.3f} to {high[1]:.3f}" in text
    assert any(release.guarantee.meaning() in part for part in text)


def test_release_that_is_not_private_says_so() -> None:
    release = shorthand.shares(
        {"a": 3, "b": 9},
        levels=("a", "b"),
        epsilon=1,
        mechanism="ehdl",
        options={"acknowledge_not_private": True},
    )
    assert any(part.startswith("NOT PRIVATE") for part in shown(release).text)


def test_guarantee() -> None:
    guarantee = discreet.Guarantee(None, basis=NASTY, assumptions=(NASTY,))
    assert "no differential privacy guarantee" in shown(guarantee).text
    assert f"Basis: {NASTY}" in shown(guarantee).text
    assert f"Assumed: {NASTY}" in shown(guarantee).text
    sampled = discreet.posterior_sampler("direct", "beta", prior=(30, 60), n=100).guarantee
    assert str(sampled) in shown(sampled).text


def test_plan() -> None:
    schema = discreet.Schema({"pay": (0, 9), "team": [NASTY, "b"]}, n=200)
    plan = discreet.plan(discreet.Mean("pay", by="team", epsilon=1), schema)
    text = " ".join(shown(plan).text)
    assert NASTY in text
    assert all(word in text for word in str(plan).split())


def test_audit() -> None:
    audit = discreet.audit(discreet.mechanism("lshist", prior=(1, 1), n=8, epsilon=0.5))
    text = shown(audit).text
    assert text[0] in str(audit)
    assert "the claim holds" in text[0]
    assert str(audit).split("\n")[-1].split(maxsplit=1)[1] in text


def test_parts_escape_their_text() -> None:
    html = card(paragraph(NASTY), table([NASTY], [[NASTY]]), facts([(NASTY, NASTY)]))
    assert "<script" not in html
    assert Reader(html).text == [NASTY] * 5


# The notebook.


def test_notebook_is_committed_without_outputs() -> None:
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
    assert set(notebook["metadata"]) <= {"kernelspec", "language_info"}


@pytest.mark.slow
def test_notebook_runs_in_a_kernel(tmp_path: Path) -> None:
    import nbclient
    import nbformat

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    results = [
        output["data"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type in ("execute_result", "display_data")
    ]
    first_words = [checked(data["text/html"]).text[0] for data in results if "text/html" in data]
    assert [words.split()[0] for words in first_words] == ["Plan", "Private", "ε", "Audit"]
    assert sum("image/png" in data for data in results) == 1
