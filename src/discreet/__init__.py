"""discreet: publish statistics about a population without revealing any individual.

Every public name is listed once, in ``__init__.pyi``, and loaded on first use.

Examples
--------
>>> import discreet
>>> answers = ["no"] * 700 + ["yes"] * 300
>>> smokers = discreet.proportions(answers, schema=("no", "yes"), epsilon=1)
>>> smokers.names
('no', 'yes')
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from discreet._version import __version__ as __version__

_HOMES: dict[str, tuple[str, str | None]] = {}
"""The module of each name, and its name there; None for a module."""
_EXTRAS = "discreet.regression"
"""Estimators for scikit-learn, an extra: found as attributes, but not loaded by ``import *``."""
for _statement in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body:
    if isinstance(_statement, ast.ImportFrom) and _statement.module:
        for _alias in _statement.names:
            _known = (_statement.module, _alias.name) if _statement.module != "discreet" else None
            _HOMES[_alias.name] = _known or (f"discreet.{_alias.name}", None)
_HOMES.pop("__version__")
__all__ = sorted(name for name, (module, _) in _HOMES.items() if module != _EXTRAS)


def __getattr__(name: str) -> Any:
    # Modules load on first use: the command line and `import discreet` stay fast.
    if name not in _HOMES:
        raise AttributeError(f"module 'discreet' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    loaded = import_module(module)
    value = loaded if attribute is None else getattr(loaded, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
