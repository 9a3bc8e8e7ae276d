"""To other libraries: draws as inference data of ArviZ, and what the package of reproductions offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.errors import missing_extra


def inference_data(draws: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    """ArviZ inference data of (chain, draw, …) arrays, for ArviZ before and after 1.0."""
    try:
        import arviz
    except ImportError:
        raise missing_extra("ArviZ", "arviz") from None
    if int(arviz.__version__.partition(".")[0]) < 1:
        data = arviz.from_dict(posterior=dict(draws))
    else:
        data = arviz.from_dict({"posterior": dict(draws)})
    data.posterior.attrs.update(attributes)
    return data


def bridge(library: str) -> Any:
    """The door to another library, ``discreet.numpyro`` and its like: loaded when it is asked for."""
    from importlib import import_module

    return import_module(f"discreet.{library}")


def reproductions(part: str) -> Any | None:
    """``command`` or ``gallery`` of the package of reproductions, by its entry points; None without it."""
    from importlib.metadata import entry_points

    for found in entry_points(group="discreet.reproductions", name=part):
        try:
            return found.load()
        except ModuleNotFoundError:  # a checkout that was installed and is gone, or lacks a package
            continue
    return None
