"""Published posterior draws: what was drawn, what it says about the parameters, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._html import card, paragraph, table
from discreet._interop import inference_data
from discreet._typing import FloatArray
from discreet.declarations import as_size
from discreet.distributions.mixtures import Law, Rescaled
from discreet.documents.base import read_document, write_document
from discreet.errors import CorruptReleaseError, InvalidInput, TooLargeError
from discreet.posterior_sampling.family import Family
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.documents.base import Receipt

__all__ = ["Sample"]


FORMAT = "discreet/sample"
VERSION = 1
_COARSE = 2**22
"""A grid of so many usual cells, a 2⁻¹⁰ part of the scale of a draw, would have to be accounted for."""


@dataclass(frozen=True)
class Sample:
    """Private draws with their guarantee and everything public that led to them; JSON round trip."""

    sampler: str
    family: Mapping[str, Any]
    prior: list[Any]
    n: int
    r: float
    m: float
    grid: Fraction
    target: Mapping[str, Any]
    draws: list[Any]
    guarantee: Guarantee
    versions: Mapping[str, str] = field(default_factory=dict)
    bounds: tuple[float, float] | None = None
    """Of a statistical query: what 0 and 1 stand for."""
    levels: tuple[str, ...] | None = None
    """Of proportions: what the shares are of."""
    receipt: Receipt | None = field(default=None, compare=False, repr=False)
    """What the ledger charged for it, where one did. Not a part of the release: the JSON does not hold it."""

    @property
    def values(self) -> FloatArray:
        """The draws as an array; of a statistical query in the units of its bounds."""
        values = np.array(self.draws, dtype=np.float64)
        if self.bounds is None:
            return values
        low, high = self.bounds
        return np.asarray(low + (high - low) * values, dtype=np.float64)

    def noise_aware(self) -> Any:
        """What is known of θ given the draws, their randomness accounted for: no privacy is spent.

        A :class:`Normal` for a mean (one for each axis of a vector), a mixture of Gammas for a rate, the law
        of the share for ``beta``, and for ``dirichlet`` a law of all shares with ``marginal(i)``. Each has
        ``mean``, ``std``, ``interval`` and ``sample``.
        """
        return self._noise_aware

    @cached_property
    def _noise_aware(self) -> Any:
        family = self.model
        start = tuple(part / Fraction(self.m) for part in family.natural(self.prior_law))
        if self.grid > _COARSE * family.grid(start, self.n, Fraction(self.r)):
            raise TooLargeError(f"the draws are rounded to cells of {float(self.grid):g}: too coarse")
        draws = np.array(self.draws, dtype=np.float64)
        given = family.given_draws(self.prior_law, self.n, self.r, self.m, draws)
        return given if self.bounds is None else Rescaled(given, *self.bounds)

    @cached_property
    def model(self) -> Family:
        """The family, rebuilt from what the document says of it."""
        return Family.from_dict(self.family)

    @cached_property
    def prior_law(self) -> Any:
        """The prior of θ, as the family has it."""
        return self.model.prior_from_json(self.prior)

    def marginals(self) -> list[Law]:
        """The law of each number in θ given the draws, in the order of :meth:`parameters`."""
        return self.model.marginals(self.noise_aware())

    def prior_marginals(self) -> list[Law]:
        """The same before the data: the prior."""
        if self.bounds is not None:
            return [Rescaled(self.prior_law, *self.bounds)]
        return self.model.marginals(self.prior_law)

    def parameters(self) -> list[str]:
        """What each number in θ is, in a word: the mean, a rate, the share of a level."""
        name = "mean" if self.bounds is not None else self.model.parameter
        if self.levels is not None:
            return list(self.levels)
        number = int(np.atleast_2d(np.array(self.draws, dtype=float).T).T.shape[1])
        return [name] if number == 1 else [f"{name} {i + 1}" for i in range(number)]

    def table(self, interval: float = 0.95) -> list[dict[str, Any]]:
        """For each number in θ its mean, standard deviation and credible interval, given the draws."""
        rows = []
        for name, law in zip(self.parameters(), self.marginals(), strict=True):
            low, high = law.interval(interval)
            rows.append({"parameter": name, "mean": law.mean(), "sd": law.std(), "low": low, "high": high})
        return rows

    def to_arviz(self, size: int = 4000, seed: int | None = None) -> Any:
        """Draws from what is known of θ given the release, as ArviZ inference data."""
        theta = self.model.sample(self.noise_aware(), size, seed)
        return inference_data({"theta": theta[None]}, {"guarantee": str(self.guarantee), "n": self.n})

    def __str__(self) -> str:
        return self.summary()

    def _rows_for_text(self, interval: float) -> list[dict[str, Any]]:
        """The table, or nothing where it would take minutes or cannot be computed."""
        if self.model.slow_given_draws(self.n, len(self.parameters())):
            return []
        try:
            return self.table(interval)
        except (TooLargeError, InvalidInput):
            return []

    def _headline(self) -> str:
        shown = ", ".join(f"{value:.6g}" if np.ndim(value) == 0 else str(value) for value in self.values[:5])
        more = "" if len(self.draws) <= 5 else f", … ({len(self.draws)} draws)"
        many = "s" if len(self.draws) > 1 else ""
        return (
            f"Private posterior draw{many} from n = {self.n} records, {self.sampler} {self.family['name']} "
            f"(r = {self.r:.4g}, m = {self.m:.4g}): {shown}{more}"
        )

    def summary(self, interval: float = 0.95) -> str:
        """The draws, what they say about the parameters, and the guarantee, as text."""
        lines = [self._headline()]
        rows = self._rows_for_text(interval)
        width = max((len(row["parameter"]) for row in rows), default=0)
        lines += [
            f"  {row['parameter']:<{width}}  {row['mean']:.6g} ± {row['sd']:.3g}, with "
            f"{100 * interval:g} % probability {row['low']:.6g} to {row['high']:.6g}"
            for row in rows
        ]
        lines.append(f"Guarantee: {self.guarantee}. {self.guarantee.meaning()}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The summary for a notebook."""
        parts = [paragraph(self._headline(), strong=True)]
        rows = [
            [str(row["parameter"]), f"{row['mean']:.6g}", f"{row['low']:.6g} – {row['high']:.6g}"]
            for row in self._rows_for_text(0.95)
        ]
        if rows:
            parts.append(table(["parameter", "mean", "95 % interval"], rows))
        parts.append(paragraph(f"Guarantee: {self.guarantee}. {self.guarantee.meaning()}"))
        return card(*parts)

    def to_json(self) -> str:
        """The sample as a JSON document with a checksum; :meth:`from_json` reads it back."""
        content = {
            "private": True,
            "sampler": self.sampler,
            "family": dict(self.family),
            "prior": self.prior,
            "n": self.n,
            "r": self.r,
            "m": self.m,
            "grid": str(self.grid),
            "target": dict(self.target),
            "draws": self.draws,
            "bounds": None if self.bounds is None else list(self.bounds),
            "levels": None if self.levels is None else list(self.levels),
            "guarantee": self.guarantee.to_dict(),
            "versions": dict(self.versions),
        }
        return write_document(FORMAT, VERSION, content)

    @classmethod
    def from_json(cls, text: str) -> Sample:
        """Reads what :meth:`to_json` wrote; an edited or unknown document is refused."""
        content = read_document(text, FORMAT, VERSION)
        try:
            Family.from_dict(content["family"])
            bounds, levels = content["bounds"], content.get("levels")
            return cls(
                sampler=str(content["sampler"]),
                family=content["family"],
                prior=list(content["prior"]),
                n=as_size(content["n"]),
                r=float(content["r"]),
                m=float(content["m"]),
                grid=Fraction(content["grid"]),
                target=content["target"],
                draws=list(content["draws"]),
                guarantee=Guarantee.from_dict(content["guarantee"]),
                versions=content["versions"],
                bounds=None if bounds is None else (float(bounds[0]), float(bounds[1])),
                levels=None if levels is None else tuple(map(str, levels)),
            )
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise CorruptReleaseError(f"the release lacks a part or has a malformed one: {error}") from None
