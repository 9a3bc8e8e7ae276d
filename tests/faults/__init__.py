"""Planted faults: each must be found by the tests named with it. ``python -m tests.faults`` runs them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Fault:
    """One small patch of a file in ``src/discreet``: ``old`` becomes ``new``, and ``tests`` must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def path(self, root: Path) -> Path:
        return root / "src" / "discreet" / self.file

    def planted(self, text: str) -> str:
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {text.count(self.old)} such texts in {self.file}, not one")
        return text.replace(self.old, self.new)


def faults() -> list[Fault]:
    """All faults, as ``faults.toml`` lists them."""
    listed = tomllib.loads((Path(__file__).parent / "faults.toml").read_text(encoding="utf-8"))["fault"]
    return [Fault(one["name"], one["file"], one["old"], one["new"], tuple(one["tests"])) for one in listed]
