"""Connections to other libraries: ArviZ, probabilistic programming, and the package of reproductions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from discreet.errors import missing_extra


def inference_data(
    draws: Mapping[str, Any], attributes: Mapping[str, Any], axes: Mapping[str, Any] | None = None
) -> Any:
    """Build ArviZ inference data from (chain, draw, …) arrays, for ArviZ before and after 1.0.

    ``axes`` maps the name of each dimension after chain and draw to its coordinates.
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
    """Import ``discreet.numpyro`` or another bridge when it is first used."""
    from importlib import import_module

    return import_module(f"discreet.{library}")


class Bridged(ABC):
    """A mixin for answers with a likelihood: conversions for other libraries."""

    @abstractmethod
    def likelihood(self) -> Any:
        """The likelihood log P(published | parameters)."""

    def to_numpyro(self) -> Any:
        """A statement for a NumPyro model: ``release.to_numpyro()(shares)`` (needs the extra ``numpyro``)."""
        return bridge("numpyro").observe(self.likelihood())

    def to_pymc(self) -> Any:
        """A statement for a PyMC model: ``release.to_pymc()(shares)`` (needs the extra ``pymc``)."""
        return bridge("pymc").observe(self.likelihood())

    def to_stan(self) -> Any:
        """Stan code and data: ``functions``, ``data`` and a line of the ``model`` block."""
        return bridge("stan").observe(self.likelihood())


def reproductions(part: str) -> Any | None:
    """Return ``command`` or ``gallery`` of the package of reproductions; None if it is not installed."""
    from importlib.metadata import entry_points

    for entry_point in entry_points(group="discreet.reproductions", name=part):
        try:
            return entry_point.load()
        except ModuleNotFoundError:  # a checkout that was installed and is gone, or lacks a package
            continue
    return None
