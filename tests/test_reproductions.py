"""The papers are a package of their own: the product finds it, does without it, and ships none of it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from discreet._cli import main
from discreet._interop import reproductions
from discreet._studio.guard import StudioSettings
from discreet._studio.pages.evidence import exhibits
from evidence.components import need
from test_studio import running

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())


def discreet_(*words: str) -> Any:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    return stopped.value.code


def test_the_command_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert discreet_("reproduce", "list", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["experiments"]) >= 25
    assert discreet_("reproduce", "--help") == 0
    assert "Usage: discreet reproduce [OPTIONS]" in capsys.readouterr().out
    for wrong, message in ((("no-such",), "'no-such' is unknown"), (("all", "--jbos"), "--jbos")):
        assert discreet_("reproduce", *wrong) == 2
        assert message in capsys.readouterr().err


@pytest.mark.usefixtures("absent")
@pytest.mark.parametrize("words", [("list",), ("a-theorem", "--quick"), ("--help",), ()])
def test_without_it_the_command_says_how_to_install_it(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert discreet_("reproduce", *words) == 2
    assert "pip install ./reproductions" in capsys.readouterr().err
    assert discreet_("--help") == 0
    assert "reproduce" in capsys.readouterr().out


def test_an_installed_package_that_is_gone_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = importlib.metadata.EntryPoint("command", "no_such_module:app", "discreet.reproductions")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: (gone,))
    assert reproductions("command") is None


def test_the_studio_finds_the_gallery() -> None:
    folder = StudioSettings(port=1).gallery
    assert folder is not None
    shown = [one for one in exhibits(folder) if one.images]
    assert len({one.paper for one in shown}) == 5
    assert (folder / shown[0].images[0]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("absent")
def test_without_it_the_studio_says_so() -> None:
    assert StudioSettings(port=1).gallery is None
    with running() as browser:
        inside = browser.enter()
        assert "pip install ./reproductions" in inside.get("/evidence").text
        assert inside.get("/evidence/image/a-theorem.png").status == 404


def test_no_paper_is_shipped(tmp_path: Path) -> None:
    if not importlib.util.find_spec("hatchling"):
        need("hatchling is not installed")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path), "-t"]
    for target in ("wheel", "sdist"):
        subprocess.run([*build, target], cwd=ROOT, check=True, capture_output=True)
    (wheel,), (source,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    print(f"wheel {wheel.stat().st_size:,} bytes, source {source.stat().st_size:,} bytes")
    assert wheel.stat().st_size <= 1_000_000
    with zipfile.ZipFile(wheel) as packed, tarfile.open(source) as archive:
        names = packed.namelist() + [name.split("/", 1)[-1] for name in archive.getnames()]
    assert "discreet/__init__.py" in names
    assert "src/discreet/__init__.py" in names
    papers = {"reproductions", "discreet_reproductions", "experiments"}
    assert not [name for name in names if papers & set(Path(name).parts)]
