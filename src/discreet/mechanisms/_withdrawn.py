"""Mechanisms that are no longer offered, kept so that documents of versions 0.1 and 0.2 can be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from discreet.errors import TooLargeError
from discreet.mechanisms.base import Mechanism
from discreet.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class Optimal(Mechanism):
    """The ε-private mechanism of least expected Hellinger error, from a linear program.

    The program is in the package of reproductions (``discreet_reproductions.hellinger.optimal``). Without it
    the distribution of a release is not known, so only its plug-in posterior is shown.
    """

    name: ClassVar[str] = "optimal"
    words: ClassVar[str] = (
        "The counts were drawn from a table of probabilities that has the least expected error of all "
        "private ones."
    )

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, basis="enumeration of all pairs of datasets: proofs/optimal.md")

    @property
    def noise_scale(self) -> float:
        return float((1 if self.k == 2 else 2) / self.epsilon)

    def _output(self, *_: Any) -> NoReturn:
        raise TooLargeError(
            "the distribution of 'optimal' needs a linear program that is no longer solved here"
        )

    def _log_pmf(self, *_: Any) -> NoReturn:
        self._output()

    def _simulate(self, *_: Any) -> NoReturn:
        self._output()
