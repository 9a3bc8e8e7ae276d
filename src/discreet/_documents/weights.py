"""Statements about survey weights from released values: how many were cut, Kish's effective size and the
design effect."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from discreet._documents.parts import with_interval
from discreet._typing import FloatArray

DRAWS = 4000
_FEW = 100
"""Effective number of records (Kish) below which linearised intervals cover less often than stated."""


@dataclass(frozen=True)
class SurveyWeights:
    """Noisy sums of the weights, in units of the largest one.

    Everything here is computed from released values, so pseudo-random numbers from fixed seeds are enough: no
    draw is a part of a release.

    Parameters
    ----------
    column, most
        The column, and the largest weight that enters.
    n
        The number of records, where it is public.
    cut, cut_scale, gaussian
        The noisy number of weights that were cut, the standard deviation of this noise if it is Gaussian or
        its scale if it is Laplace, and whether it is Gaussian.
    totals, counted
        Draws of the sum of the weights; the number of records, and the standard deviation of its noise.
    squared, deviation
        The sum of squared weights with noise, and the standard deviation of the noise.
    """

    column: str
    most: float
    n: int | None
    cut: float
    cut_scale: float
    gaussian: bool
    totals: FloatArray
    counted: tuple[float, float]
    squared: float
    deviation: float

    def number_cut(self, level: float = 0.95) -> tuple[float, float, float]:
        """Return an estimate of the number of weights that were cut, with an interval."""
        tail = (1 - level) / 2
        reach = -float(ndtri(tail)) if self.gaussian else -math.log(2 * tail)
        ends = (self.cut, self.cut - reach * self.cut_scale, self.cut + reach * self.cut_scale)
        middle, low, high = (max(end, 0.0) for end in ends)
        return middle, low, high

    def kish(self, level: float = 0.95) -> list[tuple[float, float, float]]:
        """Return Kish's effective number of records and the design effect, with intervals."""
        rng = np.random.default_rng(1)
        records = np.abs(rng.normal(*self.counted, len(self.totals)))
        records = np.maximum(records, self.totals)  # no weight is above the largest
        # Σw²/W² lies between (Σw)²/(nW²) and Σw/W.
        least = ndtr((self.totals**2 / records - self.squared) / self.deviation)
        most = ndtr((self.totals - self.squared) / self.deviation)
        chance = least + (most - least) * rng.random(len(records))
        squared = self.squared + self.deviation * ndtri(np.clip(chance, 1e-12, 1 - 1e-12))
        squared = np.clip(squared, self.totals**2 / records, self.totals)
        effective = self.totals**2 / squared
        tail = (1 - level) / 2
        found = []
        for values in (effective, records / effective):
            middle, low, high = np.quantile(values, [0.5, tail, 1 - tail])
            found.append((float(middle), float(low), float(high)))
        return found

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warn of weights that were cut, if their number exceeds the noise, and of a small effective size."""
        (number, low, high), found = self.number_cut(), []
        if low:
            of = "" if self.n is None else f" of {self.n:,}"
            found.append(
                f"about {number:,.0f} ({low:,.0f} to {high:,.0f}){of} weights in {self.column!r} were cut "
                f"to {self.most:g}: people with large weights count for less than they should; declare a "
                "larger Weight(most) next time"
            )
        if (effective := self.kish()[0][0]) < _FEW:
            found.append(
                f"the weights leave about {effective:,.0f} effective records (Kish): with fewer than {_FEW}, "
                "intervals cover less often than stated"
            )
        return tuple(found)

    @property
    def note(self) -> str:
        """The effective size, the design effect and the number of weights that were cut, in a sentence."""
        effective, effect = self.kish()
        number, _, high = self.number_cut()
        return (
            f"Effective number of records (Kish): {with_interval(*effective)}; design effect of the weights: "
            f"{with_interval(*effect)}. Weights that were cut: {number:,.0f}, at most {high:,.0f}."
        )


class WeighsRecords:
    """The methods of an answer about its survey weights."""

    @property
    @abstractmethod
    def survey_weights(self) -> SurveyWeights:
        """The noisy sums of the weights."""

    def effective_size(self, level: float = 0.95) -> tuple[float, float, float]:
        """Return Kish's effective number of records, (Σw)²/Σw², with its interval.

        Parameters
        ----------
        level : float
            The probability of the interval.

        Returns
        -------
        tuple of float
            The median, and the ends of the interval.
        """
        return self.survey_weights.kish(level)[0]

    def design_effect(self, level: float = 0.95) -> tuple[float, float, float]:
        """Return Kish's design effect of unequal weights, the number of records over the effective one.

        Parameters
        ----------
        level : float
            The probability of the interval.

        Returns
        -------
        tuple of float
            The median, and the ends of the interval.
        """
        return self.survey_weights.kish(level)[1]

    def cut(self, level: float = 0.95) -> tuple[float, float, float]:
        """Return an estimate of the number of weights that were cut, with an interval.

        Parameters
        ----------
        level : float
            The probability of the interval.

        Returns
        -------
        tuple of float
            The number, and the ends of the interval.
        """
        return self.survey_weights.number_cut(level)
