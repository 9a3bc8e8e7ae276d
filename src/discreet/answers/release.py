"""A release: what may be published, and nothing else."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._html import card, paragraph, table
from discreet.declarations import Domain, as_prior
from discreet.distributions.beta_dirichlet import Beta, Dirichlet, dirichlet
from discreet.distributions.noise_aware import NoiseAware
from discreet.documents.base import read_document, write_document
from discreet.errors import CorruptReleaseError, InvalidInput, NotPrivateError, TooLargeError
from discreet.inference.noise_aware import noise_aware
from discreet.mechanisms import Mechanism, Output, check_options
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.inference.likelihoods.kinds import Likelihood
    from discreet.ledger import Receipt

FORMAT = "discreet/release"
VERSION = 1


@dataclass(frozen=True)
class Release:
    """A private posterior with its guarantee and everything public that led to it.

    ``counts`` are the released counts (prior + counts are the posterior's parameters) and ``noisy`` the noisy
    counts before decoding, where the mechanism keeps them. No record and no true count is in here.
    """

    mechanism: str
    parameters: Mapping[str, Any]
    levels: tuple[Any, ...]
    counts: tuple[int, ...]
    guarantee: Guarantee
    noisy: tuple[int, ...] | None = None
    other: Any = None
    missing: Any = None
    """The levels that also hold undeclared and missing values, where such were mapped."""
    axes: Mapping[str, Sequence[Any]] | None = None
    """Of a table of several columns: the levels of each; ``levels`` are its cells, the last axis fastest."""
    versions: Mapping[str, str] = field(default_factory=dict)
    receipt: Receipt | None = field(default=None, compare=False, repr=False)
    """What the ledger charged for it, where one did. Not a part of the release: the JSON does not hold it."""

    @property
    def n(self) -> int:
        return int(self.parameters["n"])

    @property
    def prior(self) -> tuple[float, ...]:
        return tuple(self.parameters["prior"])

    @property
    def epsilon(self) -> float:
        return self.guarantee.epsilon

    @cached_property
    def posterior(self) -> Beta | Dirichlet:
        """Beta (two levels: the law of the first level's probability) or Dirichlet."""
        return dirichlet([a + count for a, count in zip(self.prior, self.counts, strict=True)])

    def noise_aware(self) -> NoiseAware:
        """The posterior that accounts for the mechanism's noise: wider than ``posterior``, and honest."""
        return self._noise_aware

    @cached_property
    def _noise_aware(self) -> NoiseAware:
        return noise_aware(self.built, self.counts, self.noisy)

    @cached_property
    def built(self) -> Mechanism:
        """The mechanism, without the warnings of a new one: its release was warned about when it was made."""
        return check_options(self.mechanism, ())(**self.parameters)

    def likelihood(self) -> Likelihood:
        """log P(what was published | shares), its gradient and the true counts: for any model of shares."""
        from discreet.inference.likelihoods.releases import likelihood_of

        return likelihood_of(self.built, self.counts, self.noisy)

    def table(self, interval: float = 0.95) -> list[dict[str, Any]]:
        """One row per level: released count, posterior mean, standard deviation and credible interval.

        They are those of the noise-aware posterior where it can be computed; the plug-in interval, which
        takes the released counts for the truth, stands beside them.
        """
        aware = self.noise_aware_or_none()
        rows = []
        for index, level in enumerate(self.levels):
            plug_in = self.posterior.marginal(index)
            shown = plug_in if aware is None else aware.marginal(index)
            low, high = shown.interval(interval)
            plug_in_low, plug_in_high = plug_in.interval(interval)
            rows.append(
                {
                    "level": level,
                    "count": self.counts[index],
                    "mean": shown.mean(),
                    "sd": shown.std(),
                    "low": low,
                    "high": high,
                    "plug_in_mean": plug_in.mean(),
                    "plug_in_low": plug_in_low,
                    "plug_in_high": plug_in_high,
                }
            )
        return rows

    def noise_aware_or_none(self) -> NoiseAware | None:
        """The noise-aware posterior where it can be computed: displays fall back on the plug-in one."""
        try:
            return self._noise_aware
        except (NotPrivateError, TooLargeError):
            return None

    def _headline(self) -> str:
        kind = "Beta" if len(self.levels) == 2 else "Dirichlet"
        stamp = "Private" if self.guarantee.is_private else "NOT PRIVATE:"
        return f"{stamp} {kind} posterior from n = {self.n} records, mechanism {self.mechanism}"

    def _note(self) -> str:
        if self.noise_aware_or_none() is None:
            return "Both intervals take the released counts as if they were exact: they leave out the noise."
        return "The interval accounts for the noise; the plug-in interval takes the counts as if exact."

    def summary(self, interval: float = 0.95) -> str:
        """The release for a reader, as plain text."""
        rows = self.table(interval)
        width = max(5, *(len(str(row["level"])) for row in rows))
        percent = f"{100 * interval:g} %"
        lines = [
            self._headline(),
            f"Guarantee: {self.guarantee}. {self.guarantee.meaning()}",
            "",
            f"{'level':<{width}}  {'count':>12}  {'mean':>7}  {percent + ' interval':>18}  {'plug-in':>18}",
        ]
        lines += [
            f"{row['level']!s:<{width}}  {row['count']:>12}  {row['mean']:>7.4f}"
            f"  {row['low']:>9.4f} – {row['high']:.4f}"
            f"  {row['plug_in_low']:>9.4f} – {row['plug_in_high']:.4f}"
            for row in rows
        ]
        return "\n".join([*lines, "", self._note()])

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """The summary for a notebook."""
        rows = [
            [
                str(row["level"]),
                str(row["count"]),
                f"{row['mean']:.4f}",
                f"{row['low']:.4f} – {row['high']:.4f}",
                f"{row['plug_in_low']:.4f} – {row['plug_in_high']:.4f}",
            ]
            for row in self.table()
        ]
        return card(
            paragraph(self._headline(), strong=True),
            paragraph(f"Guarantee: {self.guarantee}. {self.guarantee.meaning()}"),
            table(["level", "released count", "mean", "95 % interval", "plug-in"], rows),
            paragraph(self._note(), soft=True),
        )

    def _content(self) -> dict[str, Any]:
        return {
            "private": self.guarantee.is_private,
            "mechanism": self.mechanism,
            "parameters": dict(self.parameters),
            "levels": list(self.levels),
            "counts": list(self.counts),
            "noisy": None if self.noisy is None else list(self.noisy),
            "other": self.other,
            "missing": self.missing,
            **({} if self.axes is None else {"axes": {name: list(x) for name, x in self.axes.items()}}),
            "guarantee": self.guarantee.to_dict(),
            "versions": dict(self.versions),
        }

    def to_json(self) -> str:
        """The release as a JSON document with a checksum; :meth:`from_json` reads it back."""
        return write_document(FORMAT, VERSION, self._content())

    @classmethod
    def from_json(cls, text: str) -> Release:
        """Reads what :meth:`to_json` wrote; an edited or unknown document is refused."""
        content = read_document(text, FORMAT, VERSION)
        try:
            noisy = content["noisy"]
            release = cls(
                mechanism=str(content["mechanism"]),
                parameters=content["parameters"],
                levels=tuple(content["levels"]),
                counts=tuple(content["counts"]),
                guarantee=Guarantee.from_dict(content["guarantee"]),
                noisy=None if noisy is None else tuple(noisy),
                other=content["other"],
                missing=content["missing"],
                axes=content.get("axes"),
                versions=content["versions"],
            )
            release._check()
            if content["private"] is not release.guarantee.is_private:
                raise ValueError("it is stamped otherwise than its guarantee says")
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise CorruptReleaseError(f"the release lacks a part or has a malformed one: {error}") from None
        return release

    def _check(self) -> None:
        """Every part is of its kind and the parts fit together; a release that was written always passes."""
        k = Domain(self.levels, self.other, self.missing).k
        as_prior(self.prior, k)
        for counts in (self.counts, self.counts if self.noisy is None else self.noisy):
            if len(counts) != k or any(type(count) is not int for count in counts):
                raise ValueError("counts must be whole numbers, one per level")
        if not isinstance(self.versions, dict) or type(self.parameters["n"]) is not int:
            raise ValueError("versions or n is malformed")
        if self.axes is not None and math.prod(len(levels) for levels in self.axes.values()) != k:
            raise ValueError("the axes do not fit the cells")
        _ = self.posterior

    def margin(self, *columns: str) -> Beta | Dirichlet:
        """Of a table: the plug-in posterior of one column, or of the cells of several; costs nothing more."""
        if self.axes is None:
            raise InvalidInput("margin is for a release of a table of several columns")
        names = list(self.axes)
        for column in columns:
            if column not in names:
                raise InvalidInput(f"column {column!r} is not in this table; it has: {', '.join(names)}")
        if not columns or len(set(columns)) < len(columns):
            raise InvalidInput("name each column of the margin once")
        cells = np.array(self.posterior.parameters).reshape([len(levels) for levels in self.axes.values()])
        kept = cells.sum(axis=tuple(i for i, name in enumerate(names) if name not in columns))
        order = [[name for name in names if name in columns].index(column) for column in columns]
        return dirichlet([float(a) for a in np.transpose(kept, order).ravel()])


def publish(
    mechanism: Mechanism,
    output: Output,
    domain: Domain,
    guarantee: Guarantee | None = None,
    axes: Mapping[str, Sequence[Any]] | None = None,
) -> Release:
    """The release of an output that ``mechanism.run`` gave."""
    from discreet._version import __version__

    return Release(
        mechanism=mechanism.name,
        parameters=mechanism.parameters(),
        levels=tuple(plain(level) for level in domain.levels),
        counts=output.counts,
        guarantee=mechanism.guarantee if guarantee is None else guarantee,
        noisy=output.noisy,
        other=plain(domain.other),
        missing=plain(domain.missing),
        axes=None if axes is None else {name: [plain(x) for x in levels] for name, levels in axes.items()},
        versions={"discreet": __version__, "python": platform.python_version(), "numpy": np.__version__},
    )


def plain(level: Any) -> Any:
    if isinstance(level, np.generic):
        level = level.item()
    return level if isinstance(level, str | int | float | bool | None) else str(level)
