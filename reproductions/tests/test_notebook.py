"""The notebook of the papers: kept without outputs, and executed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discreet_reproductions.paper_b.tables import PRINTED

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "papers.ipynb"


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all((cell["outputs"], cell["execution_count"]) == ([], None) for cell in code)
    named = {f"b-figure{i}" for i in range(3, 12)}
    assert named == {name for name in named for cell in code if f'"{name}"' in "".join(cell["source"])}


@pytest.mark.slow
def test_the_notebook_of_the_papers_runs(tmp_path: Path) -> None:
    import nbclient
    import nbformat

    book = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(
        book, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    told = "".join(output.text for output in outputs if output.output_type == "stream")
    shown = [output["data"] for output in outputs if output.output_type in ("execute_result", "display_data")]
    words = told + "".join(data.get("text/html", "") for data in shown)
    for line in PRINTED:
        for digits in (line.exponential, line.laplace):
            assert digits in words, line
    assert sum("image/png" in data for data in shown) == 14, "six distributions, boxes, 3 to 5 twice, 6 to 11"
