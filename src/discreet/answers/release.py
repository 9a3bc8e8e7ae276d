"""A release: what may be published, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from discreet._interop import bridge, inference_data
from discreet._json import as_json
from discreet._registry import MECHANISMS
from discreet.declarations import EXCLUDE, Domain, Relation, as_prior
from discreet.distributions.beta_dirichlet import Beta, Dirichlet, beta_summaries, dirichlet, prior_in_words
from discreet.distributions.noise_aware import UncertainShares
from discreet.documents.answer import LARGEST, VERSIONS, Answer, Figure, Row, Series, Table, Words
from discreet.errors import InvalidInput, NotPrivateError, TooLargeError
from discreet.inference.add_remove import AddRemovePosterior, LogUniform
from discreet.inference.likelihoods.kinds import Bridged, Likelihood, likelihood_of
from discreet.inference.noise_aware import MixedShares, noise_aware
from discreet.mechanisms import Mechanism, Output
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.inference.comparisons import Independence, JointDraws, Quantity, Shares
    from discreet.inference.pooled import Pooled
    from discreet.inference.quantiles import BinnedDistribution

_AWARE = "The interval accounts for the noise; the plug-in interval takes the counts as if exact."
_PLUG_IN = "Both intervals take the released counts as if they were exact: they leave out the noise."
_DROWNED = "the noise is about as large as the data: this posterior says little beyond the prior"
_STRENGTH = (
    "symmetric, with one unknown parameter for all levels between {:g} and {:g}, inferred from what was "
    "released (the plug-in posterior takes 1)"
)
_ANSWERED = (
    "How many of the records have a value is private. From what was released about {:,.0f} have, with 95 % "
    "probability {:,} – {:,}."
)
_TOTAL = (
    "The number of records is private. From what was released it is about {:,.0f}, with 95 % probability "
    "{:,} – {:,}."
)
_IF_ANY = ("axes", "total_prior", "strength", "column")  # in a document where the release has them
_MOST_COMPARED = 4  # groups whose differences are shown
_MOST_DRAWN = 100  # densities; of more levels only the first
_READING = (
    "A share is the mean of what is known about it after the release. The 95 % interval holds it with 95 % "
    "probability, given the prior; where the noise of the mechanism can be accounted for exactly, it is "
    "included. The plug-in interval takes the released counts as if they were exact and is too narrow: it is "
    "there for comparison. Released counts carry noise and are not the counts of the data."
)


@dataclass(frozen=True)
class Release(Bridged, Answer):
    """A private posterior with its guarantee and everything public that led to it.

    ``counts`` are the released counts (prior + counts are the posterior's parameters) and ``noisy`` the noisy
    counts before decoding, where the mechanism keeps them. No record and no true count is in here.
    """

    format: ClassVar[str] = "discreet/release"
    label: ClassVar[str] = "level"

    mechanism: str
    parameters: Mapping[str, Any]
    levels: tuple[Any, ...]
    output: Output
    guarantee: Guarantee
    other: Any = None
    missing: Any = None
    """The levels that also hold undeclared and missing values, where such were mapped."""
    axes: Mapping[str, Sequence[Any]] | None = None
    """Of a table of several columns: the levels of each; ``levels`` are its cells, the last axis fastest."""
    total_prior: tuple[float, float] | None = None
    """Where the number of records is private: the range in which it was declared to be expected, if any."""
    strength: tuple[float, float] | None = None
    """The range of the one unknown parameter of a symmetric prior, where that is inferred too."""
    column: str | None = None
    """The column that was counted, where it has a name."""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def n(self) -> int | None:
        """The public number of records; None where it is private."""
        return int(self.parameters["n"]) if "n" in self.parameters else None

    @property
    def leaves_out(self) -> bool:
        """Whether the mechanism also counted, as a last level, those of the n records without a value."""
        return self.n is not None and self.missing == EXCLUDE and EXCLUDE not in self.levels

    @property
    def counts(self) -> tuple[int, ...]:
        """The released counts of the levels."""
        return self.output.counts[: len(self.levels)]

    @property
    def noisy(self) -> tuple[int, ...] | None:
        """The noisy counts from which they were decoded, where the mechanism keeps them."""
        return None if self.output.noisy is None else self.output.noisy[: len(self.levels)]

    @property
    def prior(self) -> tuple[float, ...]:
        return tuple(self.parameters["prior"])[: len(self.levels)]

    @property
    def epsilon(self) -> float:
        return self.guarantee.epsilon

    @cached_property
    def posterior(self) -> Beta | Dirichlet:
        """The *plug-in* posterior, Beta (of the first of two levels) or Dirichlet: for comparison.

        It takes the released counts for exact: its intervals, which print as plug-in, are too narrow, and
        :meth:`noise_aware` has those that hold.
        """
        parameters = [a + count for a, count in zip(self.prior, self.counts, strict=True)]
        return dirichlet(parameters, plug_in=True)

    def noise_aware(self) -> UncertainShares:
        """The posterior that accounts for the mechanism's noise: wider than ``posterior``, and honest.

        Where the number of records is private, or of those that have a value, its ``total`` is what is known
        of that.
        """
        return self._noise_aware

    @cached_property
    def _noise_aware(self) -> UncertainShares:
        expected, strength = (
            None if pair is None else LogUniform(*pair) for pair in (self.total_prior, self.strength)
        )
        # Of many levels the counts are decoded for those who ask for them.
        counts = self.counts if self.output.noisy is None else ()
        found = noise_aware(self.built, counts, self.output.noisy, expected, strength, self.leaves_out)
        found.names = self.levels
        return found

    @cached_property
    def built(self) -> Mechanism:
        """The mechanism, without the warnings of a new one: its release was warned about when it was made."""
        return MECHANISMS.reader(self.mechanism)(**self.parameters)  # type: ignore[no-any-return]

    def check_parts(self) -> None:
        """Parts are of their kind and fit together; there is such a mechanism, and it costs no more."""
        k = Domain(self.levels, self.other, self.missing).k
        counted = k + self.leaves_out
        as_prior(self.parameters["prior"], counted)
        for counts in (self.output.counts, self.output.first):
            if len(counts) != counted or any(type(count) is not int for count in counts):
                raise ValueError("counts must be whole numbers, one per level")
        for pair in (self.total_prior, self.strength):
            if pair is not None:
                LogUniform(*pair)
        if self.guarantee.relation is Relation.ADD_REMOVE:
            if "n" in self.parameters or self.noisy is None:
                raise ValueError("n is private here, and must not be among the parameters")
        elif type(self.parameters["n"]) is not int or self.total_prior is not None:
            raise ValueError("n is malformed")
        if self.axes is not None and math.prod(len(levels) for levels in self.axes.values()) != k:
            raise ValueError("the axes do not fit the cells")
        _ = self.posterior
        if any(abs(count) > LARGEST for count in self.output.first):
            raise ValueError("its counts are too large")
        if (self.output.noisy is None) is self.built.keeps_noisy:
            raise ValueError("noisy counts are there, or lacking, against what its mechanism publishes")

    def cost(self) -> Guarantee:
        """That of the mechanism with these parameters."""
        return self.built.guarantee

    def likelihood(self) -> Likelihood:
        """log P(what was published | shares), its gradient and the true counts: for any model of shares.

        Where the number of records is private its parameters are rates, shares times the expected number;
        where records without a value were left out, shares of all records, the last of those left out.
        """
        return likelihood_of(self.built, self.output.counts, self.output.noisy)

    def rows(self, interval: float = 0.95) -> list[Row]:
        """Of each level, noise-aware where that can be computed; the plug-in interval stands beside it."""
        aware = self.noise_aware_or_none()
        plug_in = beta_summaries(np.asarray(self.posterior.parameters), interval)
        if aware is None:
            mean, deviation, low, high = plug_in
        else:
            mean, deviation = aware.predictive(), aware.deviations()
            low, high = aware.intervals(interval)
        columns = (mean, deviation, low, high, plug_in[0], *plug_in[2:])
        numbers = zip(*(column.tolist() for column in columns), strict=True)
        return [
            Row(str(level), m, sd, a, b, True, count, (p, q, r))
            for level, count, (m, sd, a, b, p, q, r) in zip(self.levels, self.counts, numbers, strict=True)
        ]

    def table(self, interval: float = 0.95) -> list[dict[str, Any]]:
        """The rows as mappings; levels as they were declared."""
        rows = super().table(interval)
        return [{**row, "level": level} for row, level in zip(rows, self.levels, strict=True)]

    def noise_aware_or_none(self) -> UncertainShares | None:
        """The noise-aware posterior where it can be computed: displays fall back on the plug-in one."""
        try:
            return self._noise_aware
        except (NotPrivateError, TooLargeError):
            return None

    def words(self) -> Words:
        """What was released, from what, and how its intervals are to be taken."""
        kind = "Beta" if len(self.levels) == 2 else "Dirichlet"
        stamp = "Private" if self.guarantee.is_private else "NOT PRIVATE:"
        aware = self.noise_aware_or_none()
        notes = [_PLUG_IN if aware is None else _AWARE]
        if self.n is not None:
            source, records = f"n = {self.n} records", f"{self.n:,} (public); no record is in this document"
            size, drowned = f"n = {self.n}", self.built.noise_scale >= self.n
            if isinstance(aware, MixedShares) and self.leaves_out:
                notes.append(_ANSWERED.format(aware.total.mean(), *aware.total.interval(0.95)))
        else:
            source, size = "a private number of records", "n private"
            records = "their number is private: neither it nor any record is in this document"
            drowned = self.built.noise_scale >= max(self.counts)  # of what was released, so it is public
            if isinstance(aware, AddRemovePosterior):
                notes.append(_TOTAL.format(aware.total.mean(), *aware.total.interval(0.95)))
        of = f" of {self.heading}" if self.heading != self.label else ""
        facts = [*([("Column", self.column)] if self.column else []), ("Records", records)]
        if self.axes is None:
            facts.append(("Declared levels", ", ".join(map(str, self.levels))))
        else:
            levels = "; ".join(f"{name}: {', '.join(map(str, own))}" for name, own in self.axes.items())
            facts.append(("Columns and their levels", levels))
        for name, level in (("Undeclared values", self.other), ("Missing values", self.missing)):
            if level == EXCLUDE and EXCLUDE not in self.levels:
                facts.append((name, "left out: these are shares of those who answered"))
            elif level is not None:
                facts.append((name, f"counted as {level}"))
        prior = prior_in_words(self.prior) if self.strength is None else _STRENGTH.format(*self.strength)
        words = f"{self.mechanism}: {MECHANISMS.reader(self.mechanism).words}"
        facts += [("Prior", prior), ("Mechanism", words)]
        return Words(
            headline=f"{stamp} {kind} posterior{of} from {source}, mechanism {self.mechanism}",
            name=f"Shares{of or f' of {len(self.levels)} levels'} ({self.mechanism}), {size}",
            facts=tuple(facts),
            notes=tuple(notes),
            reading=(_READING,),
            warnings=(_DROWNED,) if drowned else (),
        )

    def figure(self, interval: float = 0.95) -> Figure:
        """The law of each share, noise-aware where it can be computed, beside the plug-in one."""
        aware, plug_in = self.noise_aware_or_none(), self.posterior
        if self.axes is not None and len(self.axes) == 2 and aware is not None:
            return self._figure_within(interval)
        series = tuple(
            Series(str(level), plug_in.marginal(i))
            if aware is None
            else Series(str(level), aware.marginal(i), plug_in=plug_in.marginal(i))
            for i, level in enumerate(self.levels[:_MOST_DRAWN])
        )
        title = f"Shares of {self.column}" if self.column else "Share of each level"
        return Figure(title, tuple(self.rows(interval)), series)

    def plot(self, ax: Any = None, *, interval: float = 0.95) -> Any:
        """Densities of few levels; a line for each of many, or for each share within a table."""
        few = self.axes is None and len(self.levels) <= 12
        return getattr(bridge("plots"), "posterior" if few else "intervals")(self, ax, interval=interval)

    def _figure_within(self, interval: float) -> Figure:
        """Of a table of two columns: the shares of the second within each level of the first, on one axis."""
        given, outcome = self._axes()
        rows = [
            Row.of(f"{one[outcome]} ({given}: {one[given]})", one)
            for one in self.shares(outcome, given).table(interval)
        ]
        return Figure(f"Shares of {outcome} within each {given}", tuple(rows))

    @property
    def heading(self) -> str:
        return self.column or (self.label if self.axes is None else " · ".join(self.axes))

    def tables(self) -> tuple[Table, ...]:
        """Of a table of two columns: shares of the second within each level of the first, and differences."""
        if self.axes is None or len(self.axes) != 2:
            return ()
        if self.noise_aware_or_none() is None:
            return (self.crosstab(),)
        given, outcome = self.axes
        return tables_within(self.shares(outcome, given))

    def crosstab(self, rows: str | None = None, percent: str = "row") -> Table:
        """The cross-table of a table of two columns: what the next record is expected to be, in percent.

        ``rows`` names the column that runs down the page (the first), ``percent`` says of what the
        percentages are: of the ``row``, the ``column``, or the ``total``.
        """
        axes = self._axes()
        if len(axes) != 2:
            raise InvalidInput(f"crosstab is for two columns and this table has {len(axes)}; use shares(...)")
        if percent not in ("row", "column", "total"):
            raise InvalidInput(f"percent={percent!r} must be 'row', 'column' or 'total'")
        down = next(iter(axes)) if rows is None else rows
        if down not in axes:
            raise InvalidInput(f"rows={rows!r} is not in this table; it has: {', '.join(axes)}")
        (across,) = set(axes) - {down}
        aware = self.noise_aware_or_none()
        plug_in = [self.posterior.marginal(i).mean() for i in range(len(self.levels))]
        cells = np.asarray(plug_in if aware is None else aware.predictive())
        cells = cells.reshape([len(levels) for levels in axes.values()])
        cells = cells if down == next(iter(axes)) else cells.T
        sums = {"row": cells.sum(axis=1, keepdims=True), "column": cells.sum(axis=0, keepdims=True)}
        shown = 100 * cells / sums.get(percent, 1.0)
        header = (f"{down} \\ {across}", *(str(level) for level in axes[across]))
        body = zip(axes[down], shown, strict=True)
        lines = tuple((str(level), *(f"{value:.1f} %" for value in row)) for level, row in body)
        return Table(header, lines, f"Percent of the {percent}")

    def _axes(self) -> Mapping[str, Sequence[Any]]:
        if self.axes is None:
            raise InvalidInput("this is for a release of a table of several columns (release_table)")
        return self.axes

    def distribution(self) -> BinnedDistribution:
        """Of a number that was released in bins: its distribution function and quantiles, with intervals.

        Levels that are no bins, such as one for missing values, are left out.
        """
        from discreet.inference.quantiles import BinnedDistribution, Bins

        bins, apart = Bins.of_levels(self.levels)
        carried = self.built.count_noise(self.output.counts, self.output.noisy)
        if carried is None:
            raise InvalidInput(
                f"{self.mechanism} publishes no noisy counts, which quantiles need; release with 'lattice'"
            )
        values = np.asarray(carried.values, dtype=np.float64)
        others = [i for i in range(len(values)) if i in apart or i >= len(self.levels)]
        expected = None if self.total_prior is None else LogUniform(*self.total_prior)
        return BinnedDistribution(
            bins,
            np.delete(values, others),
            carried.noise,
            n=self.n,
            apart=values[others].tolist(),
            total_prior=expected,
        )

    def joint(self, size: int = 4000, seed: int | None = 0) -> JointDraws:
        """Joint noise-aware draws of the cells of a table, by the names of its columns."""
        from discreet.inference.comparisons import JointDraws

        return JointDraws(self._noise_aware.sample(size, seed), self._axes())

    def pooled(self, outcome: str, given: str, seed: int = 0) -> Pooled:
        """Of a table of two columns: the shares of one within the groups of the other, sharing strength.

        How large the groups are is private, and stays unknown. ``seed`` is that of the sampler.
        """
        from discreet.inference.pooled import noisy_groups, pooled

        axes = self._axes()
        if len(axes) != 2 or {outcome, given} != set(axes):
            raise InvalidInput(f"pooled takes the two columns of a table, and there are: {', '.join(axes)}")
        carried = self.built.count_noise(self.counts, self.noisy)
        if carried is None:
            raise InvalidInput(f"{self.mechanism} publishes no noisy counts, which pooling needs")
        if self.leaves_out:
            raise InvalidInput("pooled needs how many have a value, which missing='exclude' keeps private")
        rows = np.reshape(carried.values, [len(levels) for levels in axes.values()])
        rows = rows if given == next(iter(axes)) else rows.T
        return pooled(noisy_groups(rows, carried.noise, total=self.n), axes[given], seed=seed)

    def shares(
        self, outcome: str, given: str | None = None, size: int = 4000, seed: int | None = 0
    ) -> Shares:
        """Of a table: the shares of a column, within each level of another, noise-aware from joint draws.

        They have ``difference``, ``ratio``, ``odds_ratio`` and ``probability`` between two groups.
        """
        return self.joint(size, seed).shares(outcome, given)

    def independence(self, first: str, second: str, size: int = 4000, seed: int | None = 0) -> Independence:
        """Of a table of two columns: the Bayes factor of dependence against independence."""
        from discreet.inference.comparisons import independence

        axes = self._axes()
        if sorted(axes) != sorted((first, second)):
            raise InvalidInput(f"independence is for tables of two columns; this one has: {', '.join(axes)}")
        aware = self._noise_aware
        counts, _ = aware.sample_counts(size, np.random.default_rng(seed))
        rows, columns = (len(levels) for levels in axes.values())
        return independence(np.asarray(counts, dtype=np.float64), np.array(self.prior), (rows, columns))

    def to_frame(self, interval: float = 0.95) -> Any:
        """The rows as a pandas data frame, a column for each axis of a table."""
        import pandas

        frame = pandas.DataFrame(self.table(interval))
        if self.axes is not None:
            index = pandas.MultiIndex.from_product(list(self.axes.values()), names=list(self.axes))
            frame = frame.drop(columns="level").set_index(index).reset_index()
        return frame

    def to_arviz(self, size: int = 4000, seed: int | None = None) -> Any:
        """Noise-aware draws of the shares as ArviZ inference data, with levels by name (extra ``arviz``)."""
        axes = {"level": self.levels} if self.axes is None else self.axes
        draws = self._noise_aware.sample(size, seed).reshape(1, size, *(len(x) for x in axes.values()))
        return inference_data({"share": draws}, {} if self.n is None else {"n": self.n}, axes)

    def content(self) -> dict[str, Any]:
        return {
            "private": self.guarantee.is_private,
            "mechanism": self.mechanism,
            "parameters": dict(self.parameters),
            "levels": list(self.levels),
            "counts": list(self.output.counts),
            "noisy": None if self.output.noisy is None else list(self.output.noisy),
            "other": self.other,
            "missing": self.missing,
            **{name: as_json(found) for name in _IF_ANY if (found := getattr(self, name)) is not None},
            "guarantee": self.guarantee.to_dict(),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        noisy = content["noisy"]
        return cls(
            mechanism=str(content["mechanism"]),
            parameters=content["parameters"],
            levels=tuple(content["levels"]),
            output=Output(tuple(content["counts"]), None if noisy is None else tuple(noisy)),
            guarantee=Guarantee.from_dict(content["guarantee"]),
            other=content["other"],
            missing=content["missing"],
            axes=content.get("axes"),
            total_prior=_pair(content.get("total_prior")),
            strength=_pair(content.get("strength")),
            column=content.get("column"),
            versions=content["versions"],
        )

    def margin(self, *columns: str, size: int = 4000, seed: int | None = 0) -> Quantity:
        """Of a table: the shares of one column, or of the cells of several: noise-aware, and free."""
        from discreet.inference.comparisons import Quantity

        draws = self.joint(size, seed).margin(*columns)
        levels = [self._axes()[column] for column in columns]
        names = tuple(levels[0]) if len(levels) == 1 else tuple(product(*levels))
        return Quantity(draws.reshape(len(draws), -1), names)


def publish(
    mechanism: Mechanism,
    output: Output,
    domain: Domain,
    guarantee: Guarantee | None = None,
    axes: Mapping[str, Sequence[Any]] | None = None,
    total_prior: LogUniform | None = None,
    column: str | None = None,
    strength: LogUniform | None = None,
) -> Release:
    """The release of an output that ``mechanism.run`` gave."""
    return Release(
        mechanism=mechanism.name,
        parameters=mechanism.parameters(),
        levels=tuple([plain(level) for level in domain.levels]),
        output=output,
        guarantee=mechanism.guarantee if guarantee is None else guarantee,
        other=plain(domain.other),
        missing=plain(domain.missing),
        axes=None if axes is None else {name: [plain(x) for x in levels] for name, levels in axes.items()},
        total_prior=None if total_prior is None else (total_prior.low, total_prior.high),
        strength=None if strength is None else (strength.low, strength.high),
        column=column,
        versions=VERSIONS,
    )


def tables_within(found: Shares) -> tuple[Table, ...]:
    """The shares within each group side by side, and of a few groups how they differ from the first."""
    levels = [str(level) for level in found.levels]
    mean, (low, high) = found.mean(), found.interval(0.95)

    def table(names: Sequence[str], cells: Sequence[Sequence[str]], given: str, caption: str) -> Table:
        """A column for each group, or where they are more than the levels a row."""
        if len(names) > len(levels):
            return Table((given, *levels), tuple((n, *c) for n, c in zip(names, cells, strict=True)), caption)
        turned = zip(levels, *cells, strict=True)
        heads = [f"{given}: {name}" for name in names] if given else names
        return Table((found.outcome, *heads), tuple(turned), caption)

    percent = [
        [f"{100 * m:.1f} % ({100 * a:.1f} – {100 * b:.1f})" for m, a, b in zip(*rows, strict=True)]
        for rows in zip(mean, low, high, strict=True)
    ]
    caption = f"Shares of {found.outcome} within each {found.given}, with 95 % intervals"
    tables = [table([str(group) for group in found.groups], percent, str(found.given), caption)]
    first, *others = found.groups
    if 0 < len(others) < _MOST_COMPARED:
        points = [
            [_points(found.difference(level, (other, first))) for level in found.levels] for other in others
        ]
        caption = "Differences in percentage points, with 95 % intervals"
        tables.append(table([f"{other} − {first}" for other in others], points, "", caption))
    return tuple(tables)


def _pair(ends: Sequence[Any] | None) -> tuple[float, float] | None:
    return None if ends is None else (float(ends[0]), float(ends[1]))


def _points(difference: Quantity) -> str:
    mean, low, high = (
        f"{100 * value:+.1f}".replace("-", "−") for value in (difference.mean(), *difference.interval(0.95))
    )
    return f"{mean} ({low} to {high})"


def plain(level: Any) -> Any:
    if type(level) is str:
        return level
    if isinstance(level, np.generic):
        level = level.item()
    return level if isinstance(level, str | int | float | bool | None) else str(level)
