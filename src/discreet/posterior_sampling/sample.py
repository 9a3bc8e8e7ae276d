"""Published posterior draws, the distribution of the parameters given them, and their privacy cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from discreet._declarations import (
    Relation,
    as_bounds,
    as_probability,
    as_rational,
    as_real,
    as_reals,
    people_bound,
)
from discreet._documents.answer import Answer
from discreet._documents.parts import Figure, Row, Series, Table, Words, as_count, rows_of
from discreet._typing import FloatArray
from discreet.distributions.base import Distribution
from discreet.distributions.mixtures import Rescaled
from discreet.errors import InvalidInputError, TooLargeError
from discreet.posterior_sampling.family import Family, start
from discreet.privacy.composite_curves import group_curve
from discreet.privacy.composition import compose
from discreet.privacy.curves import as_order
from discreet.privacy.guarantee import Guarantee

_DRAWS_SHOWN = 5
"""The number of draws that a table shows."""
DRAW_METHODS = {
    "direct": "The posterior itself is spread out enough: a draw from it was published.",
    "diffused": "Each record was given less weight, so that the posterior is spread out enough; a draw from "
    "it was published.",
    "concentrated": "The prior was given more weight, so that one record matters less; a draw from the "
    "posterior was published.",
}
_READING = (
    "The numbers are the posterior of the parameter given the draws, and account for the prior, the records "
    "and the randomness of the draw. Records are clipped to the declared bounds."
)
_UNCHECKED = (
    "the cost of draws of this family was computed by version 0.2 and cannot be recomputed: the guarantee is "
    "shown as stated, not checked"
)
_COARSE_GRID_CELLS = 2**22
"""The coarsest grid for inference, in default cell widths: cells are then 2⁻¹⁰ of a draw's scale."""


@dataclass(frozen=True, repr=False)
class Sample(Answer):
    """Published posterior draws, with their guarantee and everything public that led to them.

    Parameters
    ----------
    sampler : {"direct", "diffused", "concentrated"}
        Whether the posterior was left unchanged, gave less weight to the records, or gave more weight to the
        prior.
    family : mapping
        The family, as :meth:`Family.to_dict` writes it.
    prior : list
        The parameters of the prior.
    n : int
        The public number of records.
    r : float
        The weight of a record.
    m : float
        The divisor of the prior.
    grid : Fraction
        The width of the cells that draws were rounded to.
    target : mapping
        The privacy target, if there was one.
    drawn : list
        The draws.
    guarantee : Guarantee
        The guarantee of all draws together.
    versions : mapping
        Versions of the software that made the draws.
    bounds : tuple of float, optional
        The bounds of a mean, in whose units the values are.
    levels : tuple of str, optional
        The values whose shares were drawn.

    Examples
    --------
    >>> from discreet.posterior_sampling.sampler import posterior_sampler
    >>> sampler = posterior_sampler("diffused", "beta", prior=(6, 12), n=100, epsilon=0.5, order=15)
    >>> sample = sampler.release(27, size=2)
    >>> sample.names, sample.values.shape
    (('share',), (2,))
    >>> Sample.from_content(sample.content()).values.tolist() == sample.values.tolist()
    True
    """

    format: ClassVar[str] = "discreet/sample"
    label: ClassVar[str] = "parameter"
    variable: ClassVar[str] = "theta"
    plot_kind: ClassVar[str] = "posterior"

    sampler: str
    family: Mapping[str, Any]
    prior: list[Any]
    n: int
    r: float
    m: float
    grid: Fraction
    target: Mapping[str, Any]
    drawn: list[Any]
    """The released draws."""
    guarantee: Guarantee
    versions: Mapping[str, str] = field(default_factory=dict)
    bounds: tuple[float, float] | None = None
    """The bounds of a mean, to which 0 and 1 correspond."""
    levels: tuple[str, ...] | None = None
    """The values whose shares were drawn."""

    @property
    def values(self) -> FloatArray:
        """The draws as an array; draws of a bounded mean are in the units of its bounds."""
        values = np.array(self.drawn, dtype=np.float64)
        if self.bounds is None:
            return values
        low, high = self.bounds
        return np.asarray(low + (high - low) * values, dtype=np.float64)

    @property
    def _rows_drawn(self) -> FloatArray:
        """The values, a row for each draw."""
        return np.atleast_2d(self.values.T).T

    @cached_property
    def posterior(self) -> Any:
        """The distribution of θ given the draws, which accounts for their randomness and costs no privacy.

        A :class:`Normal` for a mean (one for each axis of a vector), a mixture of Gammas for a rate, the
        distribution of the share for ``beta``, and for ``dirichlet`` a distribution of all shares with
        ``marginal(i)``. Each has ``mean``, ``std``, ``interval`` and ``sample``.
        """
        family = self.model
        if self.grid > _COARSE_GRID_CELLS * family.grid(
            start(family, self.prior_distribution, self.m), self.n, Fraction(self.r)
        ):
            raise TooLargeError(
                f"grid={float(self.grid):g} is too coarse to infer the parameter from draws; use a finer grid"
            )
        draws = np.array(self.drawn, dtype=np.float64)
        distribution = family.given_draws(self.prior_distribution, self.n, self.r, self.m, draws)
        return distribution if self.bounds is None else Rescaled(distribution, *self.bounds)

    @cached_property
    def model(self) -> Family:
        """The family, rebuilt from its description."""
        return Family.from_dict(self.family)

    @cached_property
    def prior_distribution(self) -> Any:
        """The prior of θ, as a distribution of the family."""
        return self.model.prior(self.prior)

    def marginals(self) -> list[Distribution]:
        """Return the distribution of each number in θ given the draws, in the order of ``names``.

        Returns
        -------
        list of Distribution
        """
        return self.model.marginals(self.posterior)

    def prior_marginals(self) -> list[Distribution]:
        """Return the prior of each number in θ, in the order of ``names``.

        Returns
        -------
        list of Distribution
        """
        if self.bounds is not None:
            return [Rescaled(self.prior_distribution, *self.bounds)]
        return self.model.marginals(self.prior_distribution)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each number in θ: the mean, a rate, the share of a value."""
        name = "mean" if self.bounds is not None else self.model.parameter
        if self.levels is not None:
            return self.levels
        if self.model.parameters:
            return tuple(self.model.parameters)
        number = self._rows_drawn.shape[1]
        return (name,) if number == 1 else tuple(f"{name} {i + 1}" for i in range(number))

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        """Draw from the distribution of θ given the release; the released draws are ``values``.

        Parameters
        ----------
        size : int
            The number of draws.
        seed : int, optional
            Seed of the pseudo-random numbers.

        Returns
        -------
        ndarray of shape (size, len(names))

        Examples
        --------
        >>> from discreet.posterior_sampling.sampler import posterior_sampler
        >>> sampler = posterior_sampler("diffused", "beta", prior=(6, 12), n=100, epsilon=0.5, order=15)
        >>> sampler.release(27).draws(size=10, seed=1).shape
        (10, 1)
        """
        distribution = self.posterior
        if hasattr(distribution, "sample"):
            return np.asarray(distribution.sample(size, seed), dtype=np.float64).reshape(size, -1)
        seeds = np.random.default_rng(seed).integers(2**63, size=len(distribution)).tolist()
        return np.stack(
            [
                marginal.sample(size, marginal_seed)
                for marginal, marginal_seed in zip(distribution, seeds, strict=True)
            ],
            axis=1,
        )

    def _attributes(self) -> dict[str, Any]:
        return super()._attributes() | {"n": self.n}

    def shown_rows(self, level: float = 0.95) -> list[Row]:
        """Return the rows to show, or an empty list if computing them is impossible or would take minutes.

        Parameters
        ----------
        level : float
            The probability of an interval, such as 0.95.

        Returns
        -------
        list of Row
        """
        probability = as_probability(level)
        if self.model.slow_given_draws(self.n, len(self.names)):
            return []
        try:
            return super().shown_rows(probability)
        except (TooLargeError, InvalidInputError):
            return []

    @property
    def warnings(self) -> tuple[str, ...]:
        return (_UNCHECKED,) if math.isinf(self.model.work) else ()

    def _rows(self, level: float) -> list[Row]:
        """Return mean, standard deviation and credible interval of each number in θ, given the draws."""
        distributions = self.marginals()
        share = self.bounds is None and self.model.is_share
        numbers = [
            [distribution.mean(), distribution.std(), *distribution.interval(level)]
            for distribution in distributions
        ]
        return rows_of(self.names, *zip(*numbers, strict=True), share=share)

    def tables(self) -> tuple[Table, ...]:
        """Return a table of the draws themselves.

        Returns
        -------
        tuple of Table
        """
        values = self._rows_drawn
        cells = tuple((str(i + 1), *(f"{x:.6g}" for x in row)) for i, row in enumerate(values[:_DRAWS_SHOWN]))
        more = "" if len(values) <= _DRAWS_SHOWN else f" (the first {_DRAWS_SHOWN} of {len(values)})"
        return (Table(("draw", *self.names), cells, f"The released draws{more}:"),)

    def words(self) -> Words:
        """Return a description of the draws and the model, and how to read the numbers.

        Returns
        -------
        Words
        """
        number = "One draw" if len(self.drawn) == 1 else f"{len(self.drawn)} draws"
        many = "s" if len(self.drawn) > 1 else ""
        model, prior = self.model.describe_prior(self.prior, self.bounds)
        note = (
            f"{number} from the posterior of n = {self.n:,} records {'were' if many else 'was'} published "
            f"(record weight r = {self.r:.4g}, prior divided by m = {self.m:.4g}). A draw is a plausible "
            "value, not an estimate; the figures account for its randomness."
        )
        return Words(
            headline=f"Private posterior draw{many} from n = {self.n} records, {self.sampler} "
            f"{self.family['name']}",
            name=f"Posterior draw ({self.sampler}, {self.family['name']}), n = {self.n}",
            facts=(
                ("Records", f"{self.n:,} (public); no record is in this document"),
                ("Model", model),
                ("Prior", prior),
                ("Mechanism", f"{self.sampler}: {DRAW_METHODS.get(self.sampler, '')}"),
            ),
            notes=(note,),
            reading=(_READING,),
        )

    def _figure(self, rows: Sequence[Row], level: float) -> Figure | None:
        """Return the posterior of each number as a figure, with the prior and the draws for comparison."""
        if not rows:
            return None
        values = self._rows_drawn
        series = tuple(
            Series(row.name, distribution, prior=prior, draws=tuple(map(float, column)))
            for row, distribution, prior, column in zip(
                rows, self.marginals(), self.prior_marginals(), values.T, strict=True
            )
        )
        return Figure("Posterior given the draws", tuple(rows), series)

    def content(self) -> dict[str, Any]:
        """Return the answer as JSON values.

        Returns
        -------
        dict
        """
        values = super().content()
        draws = values.pop("drawn")
        return {"private": True, **values, "draws": draws}

    def check_parts(self) -> None:
        """Check that the draws are possible values of the family's parameter, and the posterior is proper.

        Raises
        ------
        ValueError
            If a part of the document contradicts another.
        """
        super().check_parts()
        values = self._rows_drawn
        numbers = len(self.model.parameters or self.model.marginals(self.prior_distribution))
        if values.ndim != 2 or values.shape[1] != numbers or not (values.size and np.isfinite(values).all()):
            raise ValueError(f"its draws are not {numbers} finite numbers each")
        if len(self.names) != numbers:
            raise ValueError(f"it has {len(self.names)} levels for {numbers} numbers")
        if self.sampler not in DRAW_METHODS:
            raise ValueError("its sampler is unknown")
        if (self.r != 1 and self.sampler != "diffused") or (self.m != 1 and self.sampler != "concentrated"):
            raise ValueError("its r and m do not match its sampler")
        if not (0 < self.r <= 1 and 0 < self.m <= 1 and self.grid > 0):
            raise ValueError("r and m must be above 0 and at most 1, and the grid positive")
        if not isinstance(self.target, dict) or not set(self.target) <= {"epsilon", "delta", "order"}:
            raise ValueError("its target is malformed")
        if len(self.drawn) == 1 and self.target and self.target != self._met_target():
            raise ValueError("its target differs from the one that its guarantee meets")

    def _met_target(self) -> dict[str, Any]:
        """Return the target that the guarantee meets, if it has one."""
        if "order" in self.target:
            return {"epsilon": self.target["epsilon"], "order": as_order(self.target["order"])}
        least = str(self.guarantee.exact_epsilon)
        if self.r == self.m == 1 and as_rational(self.target["epsilon"], "epsilon") > Fraction(least):
            least = self.target["epsilon"]  # the posterior itself costs less than the target allows
        return {"epsilon": least, "delta": str(self.guarantee.exact_delta)}

    def cost(self) -> Guarantee:
        """Return the guarantee of all draws by the family's theorem and composition.

        Returns
        -------
        Guarantee
        """
        model, claimed = self.model, self.guarantee
        curve = model.curve(start(model, self.prior_distribution, self.m), self.n, Fraction(self.r))
        relation, unit, assumed = model.protects
        if claimed.relation is Relation.REPLACE_PERSON and relation is Relation.REPLACE_ONE:
            most = people_bound(claimed.assumptions, claimed.unit)
            if most is None:
                raise ValueError("it claims to protect people, but names no bound on their records")
            curve, relation, unit = group_curve(curve, most), claimed.relation, claimed.unit
        basis = f"{self.sampler} posterior sampling, {model.name} family (proofs/posterior-sampling.md)"
        per_draw = Guarantee(None, relation, basis=basis, assumptions=assumed, curve=curve, unit=unit)
        together = compose([per_draw], count=len(self.drawn))
        if math.isinf(model.work):  # this pair is no longer computed; a warning says so
            pair = claimed.exact_epsilon, claimed.exact_delta
            together = replace(together, exact_epsilon=pair[0], exact_delta=pair[1])
        return together

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        """Return the answer that :meth:`content` wrote.

        Parameters
        ----------
        content : mapping
            What :meth:`content` returned.

        Returns
        -------
        Sample

        Raises
        ------
        InvalidInputError
            If a value has the wrong type.
        """
        Family.from_dict(content["family"])
        bounds, levels = content["bounds"], content.get("levels")
        return cls(
            sampler=str(content["sampler"]),
            family=content["family"],
            prior=list(content["prior"]),
            n=as_count(content["n"], "n", 1),
            r=as_real(content["r"], "r"),
            m=as_real(content["m"], "m"),
            grid=as_rational(content["grid"], "grid", 0),
            target=content["target"],
            drawn=as_reals(content["draws"], "draws").tolist(),
            guarantee=Guarantee.from_dict(content["guarantee"]),
            versions=content["versions"],
            bounds=None if bounds is None else as_bounds(as_reals(bounds, "bounds").tolist(), "a mean"),
            levels=None if levels is None else tuple(map(str, levels)),
        )
