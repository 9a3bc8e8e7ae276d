"""Quantiles of a bounded column, of all records or within groups, and its distribution function."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from discreet._declarations import as_choice, as_reals
from discreet._documents.answer import Answer, load_answer
from discreet._documents.parts import INTERVALS_NOTE, Figure, Row, Table, Words, beside, by_outcome, rows_of
from discreet._inference.quantiles import MOST_PROBS, BinnedDistribution, Bins, Quantiles, check_bins
from discreet._inference.weighted import NoisyTotals, WeightedDistribution
from discreet._typing import FloatArray
from discreet.answers.conditional import ConditionalRelease
from discreet.answers.release import Release
from discreet.answers.weighted import Weighted
from discreet.privacy.guarantee import Guarantee

_READING = (
    "A quantile is the smallest value at or below which the stated share of the population lies. Values are "
    "as recorded, and clipped to the declared bounds."
)
_FACTS = ("Records", "Mechanism", "Weights", "Strata", "Clusters")
_MAX_GROUPS_BESIDE = 4


@dataclass(frozen=True, repr=False)
class QuantileAnswer(Answer):
    """Private quantiles with intervals, computed from noisy counts of public bins.

    Attributes
    ----------
    column : str
        The column.
    probs : tuple of float
        The probabilities of the quantiles.
    edges : tuple of float
        The edges of the bins.
    atoms : tuple of float
        Values that were counted separately.
    whole : bool
        Whether the values are whole numbers.
    counted : Release, ConditionalRelease or Weighted
        The noisy counts, of all records or by group; with survey weights the noisy totals.
    guarantee : Guarantee
        The guarantee of the counts.

    Examples
    --------
    >>> import discreet
    >>> hours = [8, 20, 38, 38, 40, 45] * 100
    >>> answer = discreet.quantiles(hours, probs=(0.1, 0.5), schema=(0, 80), epsilon=1)
    >>> answer.names
    ('10 %', '50 %')
    """

    format: ClassVar[str] = "discreet/quantiles"
    tables_hold_rows: ClassVar[bool] = True
    label: ClassVar[str] = "quantile"

    column: str
    probs: tuple[float, ...]
    edges: tuple[float, ...]
    atoms: tuple[float, ...]
    whole: bool
    counted: Release | ConditionalRelease | Weighted
    guarantee: Guarantee

    @cached_property
    def _parts(self) -> dict[str, Release | NoisyTotals]:
        """The noisy counts by group; under the name "" where all records were counted together."""
        if isinstance(self.counted, Release):
            return {"": self.counted}
        if isinstance(self.counted, Weighted):
            by = self.counted.by
            groups = ("",) if by is None else self.counted.axes[by]
            return dict(zip(map(str, groups), self.counted.noisy_totals, strict=True))
        pairs = zip(self.counted.groups, self.counted.releases, strict=True)
        return {str(group): release for group, release in pairs if release is not None}

    def _levels(self, part: Release | NoisyTotals) -> list[str]:
        """Return the names of the cells of a group."""
        levels = part.levels if isinstance(part, Release) else [*self.counted.axes_of_names.values()][-1]
        return list(map(str, levels))

    @cached_property
    def _distributions(self) -> dict[str, BinnedDistribution]:
        return {group: self._distribution(part) for group, part in self._parts.items()}

    def _distribution(self, part: Release | NoisyTotals) -> BinnedDistribution:
        bins = Bins(self.edges, self.atoms, self.whole)
        cells = len(bins)
        points = [i for i, level in enumerate(self._levels(part)[:cells]) if not level.startswith("[")]
        order = [*(i for i in range(cells) if i not in points), *points]
        if isinstance(part, NoisyTotals):
            return WeightedDistribution(bins, part, order)
        values, known = part.noisy_cells()
        return BinnedDistribution(bins, values[order], apart=values[cells:].tolist(), **known)

    def _estimates(self) -> dict[str, Quantiles]:
        return {
            group: distribution.quantiles(self.probs) for group, distribution in self._distributions.items()
        }

    def _rows(self, level: float) -> list[Row]:
        """Return each quantile with its interval, group after group."""
        rows = []
        for group, quantiles in self._estimates().items():
            names = (f"{group} · {100 * p:g} %" if group else f"{100 * p:g} %" for p in self.probs)
            rows += rows_of(names, quantiles.mean(), quantiles.std(), *quantiles.interval(level))
        return rows

    def tables(self) -> tuple[Table, ...]:
        """Return the quantiles of a few groups side by side, for the report."""
        groups = list(self._distributions)
        if not 1 < len(groups) <= _MAX_GROUPS_BESIDE:
            return ()
        return (beside(self.column, self.rows(), groups, "Quantiles, with 95 % intervals"),)

    def _figure(self, rows: Sequence[Row], level: float) -> Figure:
        """Return the quantiles as a figure; with groups, one probability after the other."""
        groups = list(self._distributions)
        return Figure(self.words().name, by_outcome(rows, groups) if len(groups) > 1 else tuple(rows))

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        """Draw the quantiles from their posterior, group after group.

        Parameters
        ----------
        size : int
            The number of draws.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        array of shape (size, len(names))
        """
        parts = self._estimates().values()
        seeds = np.random.default_rng(seed).integers(2**63, size=len(parts)).tolist()  # groups are apart
        return np.concatenate([one.draws(size, own) for one, own in zip(parts, seeds, strict=True)], axis=1)

    def cdf(self, values: npt.ArrayLike, group: Any = None) -> Quantiles:
        """Return the share of the population at or below each value, with intervals.

        Parameters
        ----------
        values : array_like
            In the unit of the column.
        group : optional
            A group, for quantiles by group.

        Returns
        -------
        Quantiles

        Raises
        ------
        InvalidInputError
            If there is no such group.

        Examples
        --------
        >>> import discreet
        >>> hours = [8, 20, 38, 38, 40, 45] * 100
        >>> answer = discreet.quantiles(hours, schema=(0, 80), epsilon=1)
        >>> answer.cdf([30, 60]).mean().shape
        (2,)
        """
        name = as_choice("" if group is None else str(group), self._distributions, "group")
        return self._distributions[name].cdf(values)

    @property
    def heading(self) -> str:
        return self.column

    def words(self) -> Words:
        words, (given, *_) = self.counted.words(), self.counted.axes_of_names
        counted, by = words.facts, f" by {given}" if "" not in self._parts else ""
        weighted = isinstance(self.counted, Weighted)
        facts = (("Bins", f"{len(self.edges) - 1} from {self.edges[0]:g} to {self.edges[-1]:g}"),)
        return Words(
            headline=f"Private {'weighted ' * weighted}quantiles of {self.column}{by}",
            name=f"{'Weighted q' if weighted else 'Q'}uantiles of {self.column}{by}",
            facts=(*facts, *(fact for fact in counted if fact[0] in _FACTS)),
            notes=(INTERVALS_NOTE, *(words.notes if weighted else ())),
            reading=(_READING,),
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.counted.survey_weights.warnings if isinstance(self.counted, Weighted) else ()

    def content(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "probs": list(self.probs),
            "edges": list(self.edges),
            "atoms": list(self.atoms),
            "whole": self.whole,
            "counted": self.counted.document(),
            "guarantee": self.guarantee.to_dict(),
        }

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        """Read the quantiles from the content of their document.

        Parameters
        ----------
        content : mapping
            JSON values, as :meth:`content` returns them.

        Returns
        -------
        QuantileAnswer

        Raises
        ------
        ValueError
            If the counts are not a release of proportions.
        """
        counted = load_answer(json.dumps(content["counted"]))
        if not isinstance(counted, Release | ConditionalRelease | Weighted) or not isinstance(
            content["whole"], bool
        ):
            raise ValueError("its counts are not a release of proportions")
        return cls(
            column=str(content["column"]),
            probs=tuple(as_reals(content["probs"], "probs").tolist()),
            edges=tuple(as_reals(content["edges"], "edges").tolist()),
            atoms=tuple(as_reals(content["atoms"], "atoms").tolist()),
            whole=content["whole"],
            counted=counted,
            guarantee=Guarantee.from_dict(content["guarantee"]),
        )

    def check_parts(self) -> None:
        """Refuse a document whose probabilities or counts do not fit its bins."""
        super().check_parts()
        cells = len(Bins(self.edges, self.atoms, self.whole))
        check_bins(cells)
        if not 0 < len(self.probs) <= MOST_PROBS or not all(0 < p < 1 for p in self.probs):
            raise ValueError(f"there must be 1 to {MOST_PROBS} probabilities, each between 0 and 1")
        for part in self._parts.values():
            named = self._levels(part)
            other = isinstance(part, NoisyTotals) and len(self.counted.names) != len(self._parts) * len(named)
            if other or len(named) < cells or set(named[cells:]) - {"outside", "missing"}:
                raise ValueError("the counts do not match the bins")

    def cost(self) -> Guarantee:
        """Return the cost of the counts, from which the quantiles are computed."""
        return self.counted.cost()
