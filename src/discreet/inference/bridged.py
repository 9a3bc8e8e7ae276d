"""The ways out of a likelihood into other libraries: one line each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from discreet._interop import bridge

if TYPE_CHECKING:
    from discreet.inference.likelihoods.kinds import Likelihood


class Bridged(ABC):
    """Mixed into whatever has a likelihood."""

    @abstractmethod
    def likelihood(self) -> Likelihood:
        """log P(what was published | parameters)."""

    def to_numpyro(self) -> Any:
        """A statement for a NumPyro model: ``release.to_numpyro()(shares)`` (needs the extra ``numpyro``)."""
        return bridge("numpyro").observe(self.likelihood())

    def to_pymc(self) -> Any:
        """A statement for a PyMC model: ``release.to_pymc()(shares)`` (needs the extra ``pymc``)."""
        return bridge("pymc").observe(self.likelihood())

    def to_stan(self) -> Any:
        """Stan code and data: ``functions``, ``data`` and a line of the ``model`` block."""
        return bridge("stan").observe(self.likelihood())
