"""The package for R in ``r/``: built, checked with its tests and vignette, and the study of a board."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evidence.components import need

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PACKAGES = ("testthat", "jsonlite", "posterior", "tibble", "knitr", "rmarkdown")


def lacking() -> str | None:
    if shutil.which("R") is None or shutil.which("pandoc") is None:
        return "R (r-base-core) or pandoc is not installed"
    code = "cat(Filter(function(p) !requireNamespace(p, quietly = TRUE), commandArgs(TRUE)))"
    found = subprocess.run(["Rscript", "-e", code, *PACKAGES], capture_output=True, text=True, check=True)
    return f"packages of R are not installed: {found.stdout}" if found.stdout.strip() else None


def run(folder: Path, *command: str) -> str:
    program = folder / "program"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m discreet "$@"\n')
    program.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment |= {"DISCREET": str(program), "R_LIBS": str(folder), "_R_CHECK_FORCE_SUGGESTS_": "true"}
    environment |= {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    environment |= {"LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_r_cmd_check_and_the_study_of_a_board(tmp_path: Path) -> None:
    need(lacking())
    version = (ROOT / "r" / "DESCRIPTION").read_text().split("Version: ")[1].split()[0]
    archive = f"discreet_{version}.tar.gz"
    run(tmp_path, "R", "CMD", "build", str(ROOT / "r"))
    checked = run(tmp_path, "R", "CMD", "check", "--no-manual", archive)
    print(checked[-300:])
    assert "ERROR" not in checked
    assert "WARNING" not in checked
    assert "SKIP 0" in (tmp_path / "discreet.Rcheck" / "tests" / "testthat.Rout").read_text()
    run(tmp_path, "R", "CMD", "INSTALL", f"--library={tmp_path}", archive)
    script = ROOT / "examples" / "board_study.R"
    assert len(script.read_text().splitlines()) <= 25
    shown = run(tmp_path, "Rscript", str(script))
    assert "university" in shown
    page = (tmp_path / "board.html").read_text()
    assert all(f"<h2>{name}</h2>" in page for name in ("education", "age", "hours"))
