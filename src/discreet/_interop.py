"""To other libraries: draws as inference data of ArviZ, and what the package of reproductions offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.errors import missing_extra


def inference_data(
    draws: Mapping[str, Any], attributes: Mapping[str, Any], axes: Mapping[str, Any] | None = None
) -> Any:
    """ArviZ inference data of (chain, draw, …) arrays, for ArviZ before and after 1.0.

    ``axes`` names the further dimensions, the same of every variable, and their entries.
    """
    try:
        import arviz
    except ImportError:
        raise missing_extra("ArviZ", "arviz") from None
    named: dict[str, Any] = {}
    if axes is not None:
        coords = {name: list(entries) for name, entries in axes.items()}
        named = {"coords": coords, "dims": {name: list(axes) for name in draws}}
    if int(arviz.__version__.partition(".")[0]) < 1:
        data = arviz.from_dict(posterior=dict(draws), **named)
    else:
        data = arviz.from_dict({"posterior": dict(draws)}, **named)
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
