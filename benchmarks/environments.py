"""Other tools, each where it can run: in this environment if it is installed here, else in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / ".venv-bench"
INSTALL_SECONDS = 600


@dataclass(frozen=True)
class Peer:
    """Another tool: what pip is asked for, what is imported from it, and whether its versions clash."""

    name: str
    requirements: tuple[str, ...]
    module: str
    packages: tuple[str, ...]
    """The packages whose versions are worth printing, the tool itself first."""
    clashes: bool = False
    """Whether it needs other versions of shared packages than this environment has."""


@dataclass(frozen=True)
class Found:
    """Where a peer runs, or why it does not."""

    python: str | None
    versions: dict[str, str]
    reason: str = ""


DIFFPRIVLIB = Peer(
    "diffprivlib",
    ("diffprivlib==0.6.6", "scikit-learn==1.5.2", "numpy>=2,<2.3"),
    "diffprivlib.models",
    ("diffprivlib", "scikit-learn", "numpy"),
    clashes=True,
)
OPENDP = Peer("OpenDP", ("opendp>=0.16", "numpy"), "opendp.prelude", ("opendp",))
DP_ACCOUNTING = Peer("dp-accounting", ("dp-accounting>=0.6",), "dp_accounting", ("dp-accounting",))
D3P = Peer("d3p", ("d3p",), "d3p.svi", ("d3p", "jax", "numpyro"), clashes=True)
PEERS = (OPENDP, DIFFPRIVLIB, DP_ACCOUNTING, D3P)

_VERSIONS = """
import importlib.metadata, sys
for name in sys.argv[1:]:
    try:
        print(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        pass
"""


def find(peer: Peer, home: Path = HOME) -> Found:
    """The Python that imports the peer; its environment is made on first use."""
    if not peer.clashes and not _import_error(sys.executable, peer.module):
        return Found(sys.executable, _versions(sys.executable, peer))
    folder = home / peer.name.lower()
    python = str(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    try:
        if not Path(python).exists():
            venv.create(folder, with_pip=True)
        if set(peer.packages) - set(_versions(python, peer)):
            command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run(
                [*command, *peer.requirements], capture_output=True, check=True, timeout=INSTALL_SECONDS
            )
    except (OSError, subprocess.SubprocessError) as error:
        return Found(
            None, {}, f"pip could not install {' '.join(peer.requirements)} ({type(error).__name__})"
        )
    versions = _versions(python, peer)
    error = _import_error(python, peer.module)
    if error:
        return Found(None, versions, f"import {peer.module}: {error}")
    return Found(python, versions)


def _import_error(python: str, module: str) -> str:
    """The last line of the traceback, which says what is wrong; empty if the module imports."""
    done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True)
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return lines[-1] if done.returncode else ""


def _versions(python: str, peer: Peer) -> dict[str, str]:
    command = [python, "-c", _VERSIONS, *peer.packages]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(line.split() for line in done.stdout.splitlines())
