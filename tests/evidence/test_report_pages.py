"""The report of four questions on A4 paper, as Chromium prints it: findings fit the first page."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet.study.simulated import simulate_records
from evidence.components import need

pytestmark = pytest.mark.slow

STATES = ["married", "divorced", "widowed", "never married", "no answer"]
COLUMNS = {
    "sex": discreet.Category(["f", "m"], label="Sex"),
    "education": discreet.Category(["no degree", "school", "college", "university"], label="Education"),
    "marital": discreet.Category(STATES, label="Marital status"),
    "region": discreet.Category(["North", "East", "South", "West"], label="Region"),
    "age": discreet.Number(18, 95, label="Age", unit="years"),
    "hours": discreet.Number(0, 80, label="Hours worked", unit="a week"),
}


def print_pages(page: str, folder: Path) -> int:
    """Print a page as PDF and return how many sheets it takes."""
    program = shutil.which("chromium")
    if program is None:
        need("no browser here: chromium not found (Debian: apt-get install chromium)")
    (folder / "report.html").write_text(page, "utf-8")
    words = [program, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    words += ["--no-pdf-header-footer", f"--print-to-pdf={folder / 'report.pdf'}"]
    subprocess.run([*words, (folder / "report.html").as_uri()], check=True, capture_output=True, timeout=120)
    return (folder / "report.pdf").read_bytes().count(b"/Type /Page\n")


def test_findings_fit_one_page_and_the_report_three(tmp_path: Path) -> None:
    schema = discreet.Schema(COLUMNS, n=3000)
    study = discreet.Study(simulate_records(schema), schema, epsilon=8, delta="1e-6", dataset="survey")
    study.proportions("sex", "education", epsilon=1)
    study.mean("hours", by="region", epsilon=1)
    study.regress("hours ~ age + sex + marital", epsilon=3)
    study.proportions("marital", epsilon=1)
    page = study.report(title="Survey: results for the board")
    findings, protection, _ = page.partition('<div class="protected">')
    assert protection
    assert findings.count("<section>") == findings.count("<svg") == 4
    assert print_pages(findings, tmp_path) == 1
    assert 2 <= print_pages(page, tmp_path) <= 3
    rows = "".join(f"<p>{i}</p>" for i in np.arange(200))
    assert print_pages(findings + rows, tmp_path) > 1  # so many lines are more than a page
