"""Promises about the repository itself: proofs, conformance rows, imports, public names, clean files."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
import unicodedata
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import discreet
from conformance.cases import CASES, INDEPENDENT
from discreet.mechanisms import MECHANISMS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "discreet"

FACADE = "__init__"

SKIPPED = {".git", "__pycache__", "site", "out", "dist", "build", "shared"}
SKIPPED_CACHES = re.compile(r"\.(venv.*|.*_cache|hypothesis)$|.*\.egg-info$")
BINARY = {".db", ".png", ".jpg", ".gif", ".ico", ".parquet", ".gz", ".npz", ".woff2"}


def repository_files() -> Iterator[Path]:
    pending = [ROOT]
    while pending:
        for path in sorted(pending.pop().iterdir()):
            if path.is_symlink() or path.name in SKIPPED or SKIPPED_CACHES.match(path.name):
                continue
            if path.is_dir():
                pending.append(path)
            elif path.suffix not in BINARY:
                yield path


# Mechanisms: a proof and a row each.


@pytest.mark.parametrize("name", [*sorted(MECHANISMS), "posterior-sampling", "accounting", "logistic"])
def test_mechanism_has_a_proof_page(name: str) -> None:
    page = ROOT / "proofs" / f"{name}.md"
    assert page.is_file(), f"proofs/{name}.md is missing"
    headings = set(re.findall(r"^## (.+)$", page.read_text("utf-8"), re.MULTILINE))
    needed = {
        "Statement",
        "Conditions",
        "Proof",
        "Numerical slack",
        "Where the code checks its conditions",
        "Conformance row",
    }
    assert needed <= headings, f"proofs/{name}.md lacks {sorted(needed - headings)}"
    assert f"]({name}.md)" in (ROOT / "proofs" / "README.md").read_text("utf-8")


def test_every_mechanism_has_a_conformance_row_and_every_row_a_mechanism() -> None:
    assert {case.mechanism for case in CASES} | set(INDEPENDENT) == set(MECHANISMS)


def test_import_is_light() -> None:
    heavy = ["scipy.stats", "matplotlib", "duckdb", "pandas", "polars", "pyarrow", "sklearn"]
    program = (
        "import json, sys\n"
        "import discreet\n"
        "modules = len(sys.modules)\n"
        "for name in discreet.__all__:\n"
        "    getattr(discreet, name)\n"  # names load on first use: none of them may load these either
        f"print(json.dumps([modules, [m for m in {heavy} if m in sys.modules]]))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules, loaded = json.loads(run.stdout)
    assert loaded == [], f"import discreet loads {loaded}"
    assert modules < 150  # NumPy alone has more


# Public names.


@pytest.mark.parametrize("name", sorted(discreet.__all__))
def test_public_name_exists_and_says_what_it_is(name: str) -> None:
    value = getattr(discreet, name)
    if isinstance(value, str):  # __version__
        return
    assert (value.__doc__ or "").strip(), f"discreet.{name} has no docstring"


def test_public_names_are_listed_once() -> None:
    assert len(set(discreet.__all__)) == len(discreet.__all__)


# Files.

MACHINE_PATH = re.compile(
    r"(?<![\w.~])/(?:h[o]me|r[o]ot|Us[e]rs|w[o]rk|f[a]rm)(?:/|\b(?![\w-]))|index-[u]rl|find-[l]inks"
)


def unwelcome_characters(text: str) -> set[str]:
    """Control characters other than newline and tab, and invisible format characters."""
    return {
        f"U+{ord(character):04X}"
        for character in set(text) - {"\n", "\t"}
        if unicodedata.category(character) in {"Cc", "Cf"}
    }


def test_files_hold_no_machine_paths_and_no_control_characters() -> None:
    problems = []
    for path in repository_files():
        name = path.relative_to(ROOT)
        text = path.read_text("utf-8")
        if characters := unwelcome_characters(text):
            problems.append(f"{name}: {sorted(characters)}")
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE_PATH.search(line):
                problems.append(f"{name}:{number}: {line.strip()}")
    assert not problems, "\n".join(problems)


def test_the_file_check_sees_what_it_should() -> None:
    somebody = "/ho" + "me/somebody/x"
    assert MACHINE_PATH.search(f"open('{somebody}')")
    assert MACHINE_PATH.search("/ro" + "ot")
    assert not MACHINE_PATH.search("the work/root ratio, #!/usr/bin/env bash")
    assert unwelcome_characters("a\x1b[0m\r\n") == {"U+001B", "U+000D"}
    assert unwelcome_characters("ε ≤ 1, Σ\n\t") == set()


PATH_IN_TEXT = re.compile(r"`((?:src|tests|reproductions|proofs|docs|examples|benchmarks|\.ci)/[\w./-]+)`")
TEXT_LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")


def test_paths_and_links_in_the_documents_lead_somewhere() -> None:
    problems = []
    for path in (path for path in repository_files() if path.suffix == ".md"):
        text = path.read_text("utf-8")
        targets = [ROOT / target for target in PATH_IN_TEXT.findall(text)]
        targets += [path.parent / target for target in TEXT_LINK.findall(text)]
        problems += [f"{path.relative_to(ROOT)} names {t}" for t in targets if not t.exists()]
    assert not problems, "\n".join(problems)


def test_the_bill_of_materials_lists_what_is_installed(tmp_path: Path) -> None:
    archive = tmp_path / "discreet.whl"
    archive.write_bytes(b"a wheel")
    made = subprocess.run(
        [sys.executable, ROOT / ".ci" / "materials", archive], capture_output=True, text=True, check=True
    )
    bill = json.loads(made.stdout)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    first, *packages = bill["components"]
    assert first["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"a wheel").hexdigest()}]
    assert first["name"] == "discreet.whl"  # and no folder of this machine
    versions = {one["name"]: one["version"] for one in packages}
    assert versions["numpy"] == version("numpy")
    assert all(one["purl"] == one["bom-ref"] and one["licenses"] for one in packages)


# Dependencies: a bound on both sides of each, and a lock that lies between them.

LOCK = ROOT / "constraints.txt"
PYTHONS = ("3.11.0", "3.12.0", "3.13.0", "3.14.0")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def requirements() -> list[Requirement]:
    """Everything that any part of the project may install, but the project itself."""
    declared = [*SETTINGS["project"]["dependencies"], *SETTINGS["build-system"]["requires"]]
    declared += [line for extra in SETTINGS["project"]["optional-dependencies"].values() for line in extra]
    return [one for one in map(Requirement, declared) if one.name != "discreet"]


def locked(python: str) -> dict[str, Version]:
    """The version of each package that the lock holds for this Python on Linux."""
    here = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    linux = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"}
    found: dict[str, Version] = {}
    for line in LOCK.read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        one = Requirement(line)
        if one.marker is None or one.marker.evaluate({**here, **linux}):
            (exact,) = one.specifier
            assert exact.operator == "==", line
            assert one.name not in found, f"{one.name} has two versions for Python {python}"
            found[one.name] = Version(exact.version)
    return found


@pytest.mark.parametrize("one", requirements(), ids=str)
def test_a_dependency_is_bounded_on_both_sides(one: Requirement) -> None:
    operators = {bound.operator for bound in one.specifier}
    assert {">=", "<"} <= operators <= {">=", "<", "!="}


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_lies_within_the_bounds(python: str) -> None:
    versions = locked(python)
    for one in requirements():
        if one.marker is None or one.marker.evaluate({"python_version": python.rpartition(".")[0]}):
            assert one.specifier.contains(versions[canonicalize_name(one.name)]), f"{one} on Python {python}"


def test_a_bound_is_the_same_wherever_it_is_declared() -> None:
    bounds: dict[str, set[str]] = {}
    for one in requirements():
        if one.marker is None:
            bounds.setdefault(one.name, set()).add(str(one.specifier))
    assert {name: found for name, found in bounds.items() if len(found) > 1} == {}


def test_the_lock_names_versions_and_no_place_to_get_them() -> None:
    exact = re.compile(r"[a-z0-9-]+==[0-9][0-9a-z.!+]*(?: ; [\w .*'()<>=!]+)?")
    lines = [line for line in LOCK.read_text("utf-8").splitlines() if not line.startswith("#")]
    assert [line for line in lines if not exact.fullmatch(line)] == []


def test_the_pythons_are_those_that_are_promised() -> None:
    versions = [python.rpartition(".")[0] for python in PYTHONS]
    named = [line.rpartition(" ")[2] for line in SETTINGS["project"]["classifiers"] if "Python :: 3." in line]
    assert named == versions
    assert SETTINGS["project"]["requires-python"] == f">={versions[0]}"
    (matrix,) = re.findall(
        r"python: \[(.*)\]", (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    )
    assert re.findall(r'"(.*?)"', matrix) == versions


def test_the_citation_the_papers_and_the_changelog_name_the_version() -> None:
    cited = re.findall(r'^version: "(.*)"$', (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    assert cited == [discreet.__version__]
    papers = tomllib.loads((ROOT / "reproductions" / "pyproject.toml").read_text("utf-8"))["project"]
    assert papers["version"] == discreet.__version__
    assert f">={discreet.__version__}," in papers["dependencies"][0]
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    numbers = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (?:[\d-]{10}|[a-z ]+)", line) for line in headings]
    assert None not in numbers, headings
    listed = [Version(number[1]) for number in numbers if number is not None]
    assert listed == sorted(listed, reverse=True)
    assert Version(discreet.__version__) in listed
