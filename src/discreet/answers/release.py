"""The release of proportions: the posterior, its guarantee and the public parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from discreet._declarations import EXCLUDE, Domain, Relation, as_choice, as_prior
from discreet._documents.answer import Answer
from discreet._documents.parts import (
    INTERVALS_NOTE,
    LARGEST,
    VERSIONS,
    Figure,
    Row,
    Series,
    Table,
    Words,
    by_outcome,
    rows_of,
)
from discreet._inference._likelihoods.kinds import Likelihood, likelihood_of
from discreet._inference.add_remove import AddRemovePosterior, LogUniform
from discreet._inference.noise_aware import MixedShares, noise_aware
from discreet._interop import Bridged
from discreet._json import as_json
from discreet._registry import MECHANISMS
from discreet._typing import FloatArray
from discreet.distributions.beta_dirichlet import Beta, Dirichlet, beta_summaries, dirichlet, prior_in_words
from discreet.distributions.noise_aware import UncertainShares
from discreet.errors import InvalidInputError, NotPrivateError, TooLargeError
from discreet.mechanisms import Mechanism, Output
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet._inference.comparisons import Independence, JointDraws, Shares
    from discreet._inference.pooled import Pooled
    from discreet._inference.quantiles import BinnedDistribution
    from discreet.distributions.quantity import Quantity
    from discreet.regression._pooled import Covariates, PooledEstimates

_PLUG_IN_NOTE = "The intervals treat the released counts as exact: they leave out the noise."
_NOISE_WARNING = "the noise is about as large as the data: this posterior says little beyond the prior"
_INFERRED_PRIOR = (
    "symmetric, with one unknown parameter for all levels between {:g} and {:g}, inferred from the released "
    "counts (the plug-in posterior uses 1)"
)
_ANSWERED_NOTE = (
    "The number of records that have a value is private. The release puts it at about {:,.0f}, and between "
    "{:,} and {:,} with 95 % probability."
)
_TOTAL_NOTE = (
    "The number of records is private. The release puts it at about {:,.0f}, and between {:,} and {:,} with "
    "95 % probability."
)
_OPTIONAL_FIELDS = ("axes", "total_prior", "strength", "column")  # in a document where the release has them
_MAX_COMPARED_GROUPS = 4  # groups whose differences a report shows
_MAX_DENSITIES = 100  # densities; of more levels only the first
_READING = (
    "A share is estimated by its posterior mean. Given the prior, the 95 % interval contains it with "
    "probability 95 %. Released counts carry noise and are not the counts of the data."
)


@dataclass(frozen=True, repr=False)
class Release(Bridged, Answer):
    """Private proportions: the posterior of the shares with its guarantee, and the public parameters.

    No record and no true count is stored here.

    Attributes
    ----------
    mechanism : str
        The name of the mechanism.
    parameters : mapping
        Its parameters; ``n`` is one of them where the number of records is public.
    levels : tuple
        The values of the column, or the cells of a table.
    output : Output
        The released counts, and the noisy counts before decoding where the mechanism publishes them.
    guarantee : Guarantee
        The guarantee of the release.

    Examples
    --------
    >>> import discreet
    >>> smokers = discreet.proportions(["no"] * 700 + ["yes"] * 300, schema=("no", "yes"), epsilon=1)
    >>> smokers.names
    ('no', 'yes')
    >>> smokers.guarantee.epsilon
    1.0
    >>> smokers.draws(size=100, seed=1).shape
    (100, 2)
    """

    format: ClassVar[str] = "discreet/release"
    label: ClassVar[str] = "value"
    variable: ClassVar[str] = "share"
    tables_hold_rows: ClassVar[bool] = True

    mechanism: str
    parameters: Mapping[str, Any]
    levels: tuple[Any, ...]
    output: Output
    guarantee: Guarantee
    other: Any = None
    missing: Any = None
    """The levels to which undeclared and missing values were mapped, if any."""
    axes: Mapping[str, Sequence[Any]] | None = None
    """For a table of several columns, the levels of each; ``levels`` are its cells, the last axis fastest."""
    total_prior: tuple[float, float] | None = None
    """If the number of records is private, the declared range in which it is expected, if any."""
    strength: tuple[float, float] | None = None
    """The range of the one unknown parameter of a symmetric prior, if it is inferred."""
    column: str | None = None
    """The column that was counted, where it has a name."""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def n(self) -> int | None:
        """The public number of records; None where it is private."""
        return int(self.parameters["n"]) if "n" in self.parameters else None

    @property
    def leaves_out(self) -> bool:
        """Whether the mechanism counted the records without a value as an additional last level."""
        return self.n is not None and self.missing == EXCLUDE and EXCLUDE not in self.levels

    @property
    def counts(self) -> tuple[int, ...]:
        """The released counts of the levels."""
        return self.output.counts[: len(self.levels)]

    @property
    def noisy(self) -> tuple[int, ...] | None:
        """The noisy counts before decoding, where the mechanism publishes them."""
        return None if self.output.noisy is None else self.output.noisy[: len(self.levels)]

    @property
    def prior(self) -> tuple[float, ...]:
        return tuple(self.parameters["prior"])[: len(self.levels)]

    @property
    def epsilon(self) -> float:
        return self.guarantee.epsilon

    @cached_property
    def posterior(self) -> UncertainShares:
        """The posterior of the shares, which accounts for the noise of the mechanism.

        Where the number of records, or of records with a value, is private, its ``total`` is the posterior
        of that number. TooLargeError or NotPrivateError is raised where the noise cannot be accounted for.
        """
        expected, strength = (
            None if pair is None else LogUniform(*pair) for pair in (self.total_prior, self.strength)
        )
        # Of many levels the counts are decoded for those who ask for them.
        counts = self.counts if self.output.noisy is None else ()
        posterior = noise_aware(self.built, counts, self.output.noisy, expected, strength, self.leaves_out)
        posterior.names = self.levels
        return posterior

    @cached_property
    def plug_in(self) -> Beta | Dirichlet:
        """The *plug-in* posterior, Beta (of the first of two values) or Dirichlet, for comparison only.

        It takes the released counts as exact, so its intervals are too narrow. Use ``posterior`` instead.
        """
        parameters = [a + count for a, count in zip(self.prior, self.counts, strict=True)]
        return dirichlet(parameters, plug_in=True)

    @cached_property
    def built(self) -> Mechanism:
        """The mechanism, built without repeating the warnings of the release."""
        return MECHANISMS.reader(self.mechanism)(**self.parameters)  # type: ignore[no-any-return]

    def check_parts(self) -> None:
        """Refuse a document whose counts, prior, axes or number of records do not fit its mechanism."""
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
            raise ValueError("the axes do not match the cells")
        _ = self.plug_in
        if any(abs(count) > LARGEST for count in self.output.first):
            raise ValueError("its counts are too large")
        if (self.output.noisy is None) is self.built.keeps_noisy:
            raise ValueError("it must have noisy counts if its mechanism publishes them, and only then")

    def cost(self) -> Guarantee:
        """Return the guarantee of the mechanism with these parameters."""
        return self.built.guarantee

    def likelihood(self) -> Likelihood:
        """Return the likelihood log P(published | shares), for a model of your own.

        Where the number of records is private, its parameters are rates: shares times the expected number.
        Where records without a value were left out, its parameters are shares of all records, and the last is
        the share of the records left out.

        Returns
        -------
        Likelihood
            With ``log_prob``, its gradient, and draws of the true counts.

        Examples
        --------
        >>> import discreet
        >>> smokers = discreet.proportions(["no"] * 700 + ["yes"] * 300, schema=("no", "yes"), epsilon=1)
        >>> likelihood = smokers.likelihood()  # n is private, so its parameters are rates
        >>> bool(likelihood.log_prob([700.0, 300.0]) > likelihood.log_prob([300.0, 700.0]))
        True
        """
        return likelihood_of(self.built, self.output.counts, self.output.noisy)

    @property
    def axes_of_names(self) -> Mapping[str, Sequence[Any]]:
        return {self.heading: self.levels} if self.axes is None else self.axes

    @property
    def names(self) -> tuple[Any, ...]:
        """The values of the column; for a table its cells, each a tuple with a value of every column."""
        return self.levels if self.axes is None else tuple(product(*self.axes.values()))

    def mean(self) -> FloatArray:
        """Return the posterior means of the shares, in the order of ``names``."""
        return self.posterior.mean()

    def std(self) -> FloatArray:
        """Return the posterior standard deviations of the shares, in the order of ``names``."""
        return self.posterior.std()

    def _rows(self, level: float) -> list[Row]:
        """Return the share of each value, or of each cell of a table, with its interval."""
        *numbers, noise = self.posterior.summaries(level)
        return rows_of(self.levels, *numbers, share=True, count=self.counts, noise=noise.tolist())

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        """Draw the shares from their posterior; this costs no privacy.

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
        return self.posterior.sample(size, seed)

    def _rows_without_noise(self, level: float) -> list[Row]:
        """Return the rows to display from the plug-in posterior."""
        plug_in = beta_summaries(np.asarray(self.plug_in.parameters), level)
        return rows_of(self.levels, *plug_in, share=True, count=self.counts)

    def posterior_or_none(self) -> UncertainShares | None:
        """Return the posterior, or None if it cannot be computed; displays then show the plug-in one."""
        try:
            return self.posterior
        except (NotPrivateError, TooLargeError):
            return None

    @property
    def warnings(self) -> tuple[str, ...]:
        # What was released is public, also where the number of records is not.
        records = max(self.counts) if self.n is None else self.n
        return (_NOISE_WARNING,) if self.built.noise_scale >= records else ()

    @property
    def notes(self) -> tuple[str, ...]:
        posterior = self.posterior_or_none()
        notes = [_PLUG_IN_NOTE if posterior is None else INTERVALS_NOTE]
        if isinstance(posterior, MixedShares) and self.leaves_out:
            notes.append(_ANSWERED_NOTE.format(posterior.total.mean(), *posterior.total.interval(0.95)))
        if isinstance(posterior, AddRemovePosterior):
            notes.append(_TOTAL_NOTE.format(posterior.total.mean(), *posterior.total.interval(0.95)))
        return tuple(notes)

    def words(self) -> Words:
        """Return the headline, facts and explanations for a reader."""
        kind = "Beta" if len(self.levels) == 2 else "Dirichlet"
        stamp = "Private" if self.guarantee.is_private else "NOT PRIVATE:"
        if self.n is not None:
            source, records = f"n = {self.n} records", f"{self.n:,} (public); no record is in this document"
            size = f"n = {self.n}"
        else:
            source, size = "a private number of records", "n private"
            records = "their number is private: neither it nor any record is in this document"
        of = f" of {self.heading}" if self.heading != self.label else ""
        facts = [*([("Column", self.column)] if self.column else []), ("Records", records)]
        if self.axes is None:
            facts.append(("Declared levels", ", ".join(map(str, self.levels))))
        else:
            levels = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in self.axes.items())
            facts.append(("Columns and their levels", levels))
        for name, level in (("Undeclared values", self.other), ("Missing values", self.missing)):
            if level == EXCLUDE and EXCLUDE not in self.levels:
                facts.append((name, "left out: these are shares of those who answered"))
            elif level is not None:
                facts.append((name, f"counted as {level}"))
        prior = (
            prior_in_words(self.prior) if self.strength is None else _INFERRED_PRIOR.format(*self.strength)
        )
        words = f"{self.mechanism}: {MECHANISMS.reader(self.mechanism).words}"
        facts += [("Prior", prior), ("Mechanism", words)]
        return Words(
            headline=f"{stamp} {kind} posterior{of} from {source}, mechanism {self.mechanism}",
            name=f"Shares{of or f' of {len(self.levels)} levels'} ({self.mechanism}), {size}",
            facts=tuple(facts),
            reading=(_READING,),
        )

    def _figure(self, rows: Sequence[Row], level: float) -> Figure:
        """Return the densities as a figure; they ignore the noise if it cannot be accounted for."""
        posterior = self.posterior_or_none()
        if self.axes is not None and len(self.axes) == 2 and posterior is not None:
            return self._figure_within(level)
        shares, values = posterior or self.plug_in, self.levels[:_MAX_DENSITIES]
        series = tuple(Series(str(value), shares.marginal(i)) for i, value in enumerate(values))
        title = f"Shares of {self.column}" if self.column else "Share of each value"
        return Figure(title, tuple(rows), series)

    @property
    def plot_kind(self) -> str:  # type: ignore[override]
        """The kind of plot: densities of a few values, intervals of many values or of a table."""
        few = self.axes is None and len(self.levels) <= 12
        return "posterior" if few else "intervals"

    def _figure_within(self, level: float) -> Figure:
        """Return, for a table of two columns, the shares of the second within each value of the first."""
        group, outcome = self._axes()
        rows = [
            Row.of(str(row[outcome]), row, group=str(row[group]))
            for row in self.shares(outcome, group).table(level)
        ]
        groups = list(dict.fromkeys(row.group for row in rows))
        return Figure(f"Shares of {outcome} within each {group}", by_outcome(rows, groups))

    @property
    def heading(self) -> str:
        return self.column or (self.label if self.axes is None else " · ".join(self.axes))

    def tables(self) -> tuple[Table, ...]:
        """Return, for two columns, the shares of the second within the first, and their differences."""
        if self.axes is None or len(self.axes) != 2:
            return ()
        if self.posterior_or_none() is None:
            return (self.crosstab(),)
        group, outcome = self.axes
        shares = self.shares(outcome, group)
        return shares.tables(len(shares.groups) <= _MAX_COMPARED_GROUPS)

    def difference(self, value: Any, between: Sequence[Any], *, given: str) -> Quantity:
        """Return a share in one group of a table minus the share in another.

        Parameters
        ----------
        value
            A value of the other column; for a table of more columns, use ``shares(outcome, given=...)``.
        between : pair
            Two values of ``given``: the share in the second is subtracted from the share in the first.
        given : str
            The column of the groups.

        Returns
        -------
        Quantity
            With ``mean``, ``std``, ``interval`` and the ``probability`` that it is above 0.

        Examples
        --------
        >>> import discreet
        >>> schema = discreet.Schema({"smoker": ["no", "yes"], "sex": ["f", "m"]}, n=4000)
        >>> data = {"smoker": ["no"] * 2100 + ["yes"] * 1900, "sex": ["f"] * 2000 + ["m"] * 2000}
        >>> table = discreet.proportions(data, "smoker", "sex", schema=schema, epsilon=1)
        >>> bool(table.difference("yes", ("m", "f"), given="sex").mean() > 0.5)
        True
        """
        return self.shares(self._outcome(given), given).difference(value, between)

    def ratio(self, value: Any, between: Sequence[Any], *, given: str) -> Quantity:
        """Return a share in one group of a table divided by the share in another.

        Parameters
        ----------
        value
            A value of the other column.
        between : pair
            Two values of ``given``: the share in the first is divided by the share in the second.
        given : str
            The column of the groups.

        Returns
        -------
        Quantity

        Examples
        --------
        >>> import discreet
        >>> schema = discreet.Schema({"smoker": ["no", "yes"], "sex": ["f", "m"]}, n=4000)
        >>> data = {"smoker": ["no", "yes"] * 2000, "sex": ["f"] * 2000 + ["m"] * 2000}
        >>> table = discreet.proportions(data, "smoker", "sex", schema=schema, epsilon=1)
        >>> bool(0.5 < table.ratio("yes", ("m", "f"), given="sex").mean() < 2)
        True
        """
        return self.shares(self._outcome(given), given).ratio(value, between)

    def differences(self, given: str, level: float = 0.95) -> Table:
        """Return a table of how the other groups differ from the first, in percentage points.

        Parameters
        ----------
        given : str
            The column of the groups.
        level : float
            The probability of the intervals.

        Returns
        -------
        Table
        """
        return self.shares(self._outcome(given), given).differences(level)

    def _outcome(self, given: str) -> str:
        """Return the column besides ``given``, of a table of two."""
        others = [column for column in self._axes() if column != given]
        if len(others) != 1 or given not in self._axes():
            raise InvalidInputError(
                "must be one of the two columns of a table; this one has: "
                f"{', '.join(self._axes())}; use shares(outcome, given=...)",
                "given",
                given,
            )
        return others[0]

    def crosstab(self, rows: str | None = None, percent: str = "row") -> Table:
        r"""Return a table of two columns as a cross-table of percentages.

        The percentages are posterior means.

        Parameters
        ----------
        rows : str, optional
            The column whose values are the rows; by default the first.
        percent : {"row", "column", "total"}
            What sums to 100 %.

        Returns
        -------
        Table

        Raises
        ------
        InvalidInputError
            If the table does not have two columns, or has no column ``rows``.

        Examples
        --------
        >>> import discreet
        >>> schema = discreet.Schema({"smoker": ["no", "yes"], "sex": ["f", "m"]}, n=400)
        >>> data = {"smoker": ["no", "yes"] * 200, "sex": ["f"] * 200 + ["m"] * 200}
        >>> table = discreet.proportions(data, "smoker", "sex", schema=schema, epsilon=1)
        >>> table.crosstab(rows="sex").header
        ('sex \\ smoker', 'no', 'yes')
        """
        axes = self._axes()
        if len(axes) != 2:
            raise InvalidInputError(
                f"crosstab is for two columns and this table has {len(axes)}; use shares(...)"
            )
        as_choice(percent, ("row", "column", "total"), "percent")
        down = next(iter(axes)) if rows is None else rows
        if down not in axes:
            raise InvalidInputError(f"is not in this table; it has: {', '.join(axes)}", "rows", rows)
        (across,) = set(axes) - {down}
        aware = self.posterior_or_none()
        plug_in = [self.plug_in.marginal(i).mean() for i in range(len(self.levels))]
        cells = np.asarray(plug_in if aware is None else aware.mean())
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
            raise InvalidInputError(
                "this is for a table of several columns: ask for proportions of two columns or more"
            )
        return self.axes

    def distribution(self) -> BinnedDistribution:
        """Return the distribution of a number that was released in bins, with its cdf and quantiles.

        Values that are not bins, such as one for missing values, are left out.

        Examples
        --------
        >>> import discreet
        >>> schema = discreet.Schema({"age": discreet.Number(0, 90, bins=(0, 30, 60, 90))}, n=400)
        >>> ages = discreet.proportions({"age": [10, 40, 50, 70] * 100}, "age", schema=schema, epsilon=1)
        >>> ages.distribution().quantiles((0.25, 0.5)).mean().shape
        (2,)
        """
        from discreet._inference.quantiles import BinnedDistribution, Bins

        bins, apart = Bins.of_levels(self.levels)
        values, known = self.noisy_cells()
        others = [i for i in range(len(values)) if i in apart or i >= len(self.levels)]
        return BinnedDistribution(bins, np.delete(values, others), apart=values[others].tolist(), **known)

    def noisy_cells(self) -> tuple[FloatArray, dict[str, Any]]:
        """Return the noisy counts of all cells, including records without a value, and public parameters.

        Returns
        -------
        values : array
            The noisy counts.
        known : dict
            The ``noise``, ``n`` where it is public, and ``total_prior``, the range of n where it is private.

        Raises
        ------
        InvalidInputError
            If the mechanism publishes no noisy counts.
        """
        carried = self.built.count_noise(self.output.counts, self.output.noisy)
        if carried is None:
            raise InvalidInputError(
                f"{self.mechanism} publishes no noisy counts, which this needs; release with 'lattice'"
            )
        expected = None if self.total_prior is None else LogUniform(*self.total_prior)
        known = {"noise": carried.noise, "n": self.n, "total_prior": expected}
        return np.asarray(carried.values, dtype=np.float64), known

    def joint(self, size: int = 4000, seed: int | None = 0) -> JointDraws:
        """Draw the cells of a table together, labelled by its columns.

        Parameters
        ----------
        size : int
            The number of draws.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        JointDraws
        """
        from discreet._inference.comparisons import JointDraws

        draws = self._kept_joint
        if seed is None or (size, seed) not in draws:
            draws.clear()
            draws[size, seed] = JointDraws(self.draws(size, seed), self._axes())
        return draws[size, seed]

    @cached_property
    def _kept_joint(self) -> dict[tuple[int, int | None], JointDraws]:
        """A cache of the last joint draws, by size and seed."""
        return {}

    def pool(
        self,
        outcome: str,
        given: str,
        covariates: Covariates | None = None,
        value: Any = None,
        seed: int = 0,
    ) -> Pooled | PooledEstimates:
        """Return the shares of one column within the groups of the other under a hierarchical model.

        This is for a table of two columns. The sizes of the groups are private and are integrated out.

        Parameters
        ----------
        outcome : str
            The column whose shares are returned.
        given : str
            The column of the groups.
        covariates : mapping, optional
            Public numbers of the groups, by name and group: the share of one value is then pooled around a
            line of these (Fay and Herriot).
        value : object, optional
            With covariates, the value whose share is pooled; by default the last one.
        seed : int
            The seed of the sampler.

        Returns
        -------
        Pooled or PooledEstimates

        Raises
        ------
        InvalidInputError
            If these are not the two columns of the table, or the mechanism publishes no noisy counts.

        Examples
        --------
        >>> import discreet
        >>> schema = discreet.Schema({"smoker": ["no", "yes"], "sex": ["f", "m"]}, n=400)
        >>> data = {"smoker": ["no", "yes"] * 200, "sex": ["f"] * 200 + ["m"] * 200}
        >>> table = discreet.proportions(data, "smoker", "sex", schema=schema, epsilon=1)
        >>> table.pool("smoker", given="sex").mean().shape
        (4,)
        """
        from discreet._inference.pooled import noisy_groups, pool_groups
        from discreet.regression._pooled import pool_shares

        axes = self._axes()
        if len(axes) != 2 or {outcome, given} != set(axes):
            raise InvalidInputError(f"pool takes the two columns of a table, which has: {', '.join(axes)}")
        if covariates is not None:
            table, turned = np.reshape(self.prior, [len(v) for v in axes.values()]), given != next(iter(axes))
            drawn, both = self.shares(outcome, given).draws, {given: axes[given], outcome: axes[outcome]}
            prior = (table.T if turned else table)[0]
            return pool_shares(drawn, prior, both, value, covariates, seed, self.rows(), turned=turned)
        carried = self.built.count_noise(self.counts, self.noisy)
        if carried is None:
            raise InvalidInputError(f"{self.mechanism} publishes no noisy counts, which pooling needs")
        if self.leaves_out:
            raise InvalidInputError(
                "pool needs the number of records that have a value, which missing='exclude' keeps private"
            )
        rows = np.reshape(carried.values, [len(levels) for levels in axes.values()])
        rows = rows if given == next(iter(axes)) else rows.T
        groups = noisy_groups(rows, carried.noise, total=self.n)
        return pool_groups(groups, axes[given], axes[outcome], given=given, outcome=outcome, seed=seed)

    def shares(
        self, outcome: str, given: str | None = None, size: int = 4000, seed: int | None = 0
    ) -> Shares:
        """Return draws of the shares of a column, within each value of another.

        Parameters
        ----------
        outcome : str
            The column whose shares are returned.
        given : str, optional
            The column of the groups; by default all records together.
        size : int
            The number of draws.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        Shares
            With ``difference``, ``ratio``, ``odds_ratio`` and ``probability`` between two groups.

        Examples
        --------
        >>> import discreet
        >>> schema = discreet.Schema({"smoker": ["no", "yes"], "sex": ["f", "m"]}, n=400)
        >>> data = {"smoker": ["no", "yes"] * 200, "sex": ["f"] * 200 + ["m"] * 200}
        >>> table = discreet.proportions(data, "smoker", "sex", schema=schema, epsilon=1)
        >>> table.shares("smoker", given="sex").groups
        ('f', 'm')
        """
        return self.joint(size, seed).shares(outcome, given)

    def independence(self, first: str, second: str, size: int = 4000, seed: int | None = 0) -> Independence:
        """Compute the Bayes factor of dependence against independence of the two columns of a table.

        Parameters
        ----------
        first, second : str
            The two columns.
        size : int
            The number of draws of the true counts.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        Independence

        Raises
        ------
        InvalidInputError
            If these are not the two columns of the table.
        """
        from discreet._inference.comparisons import independence

        axes = self._axes()
        if sorted(axes) != sorted((first, second)):
            raise InvalidInputError(
                f"independence is for tables of two columns; this one has: {', '.join(axes)}"
            )
        counts, _ = self.posterior.sample_counts(size, np.random.default_rng(seed))
        rows, columns = (len(levels) for levels in axes.values())
        return independence(np.asarray(counts, dtype=np.float64), np.array(self.prior), (rows, columns))

    def _attributes(self) -> dict[str, Any]:
        return super()._attributes() | ({} if self.n is None else {"n": self.n})

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
            **{
                name: as_json(value)
                for name in _OPTIONAL_FIELDS
                if (value := getattr(self, name)) is not None
            },
            "guarantee": self.guarantee.to_dict(),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        """Read the release from the content of its document.

        Parameters
        ----------
        content : mapping
            JSON values, as :meth:`content` returns them.

        Returns
        -------
        Release
        """
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
        """Return the shares of one column of a table, or of the cells of several, at no further cost.

        Parameters
        ----------
        *columns : str
            One or more columns of the table.
        size : int
            The number of draws.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        Quantity

        Examples
        --------
        >>> import discreet
        >>> schema = discreet.Schema({"smoker": ["no", "yes"], "sex": ["f", "m"]}, n=400)
        >>> data = {"smoker": ["no", "yes"] * 200, "sex": ["f"] * 200 + ["m"] * 200}
        >>> table = discreet.proportions(data, "smoker", "sex", schema=schema, epsilon=1)
        >>> table.margin("sex").names
        ('f', 'm')
        """
        from discreet.distributions.quantity import Quantity

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
    """Return a release made from the output of ``mechanism.run``.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    output : Output
        The counts that the mechanism returned.
    domain : Domain
        The values that were counted.
    guarantee : Guarantee, optional
        By default the guarantee of the mechanism.
    axes : mapping, optional
        For a table: its columns with their values.
    total_prior : LogUniform, optional
        The range in which a private number of records is expected.
    column : str, optional
        The name of the column.
    strength : LogUniform, optional
        The range of the parameter of a symmetric prior that is inferred.

    Returns
    -------
    Release
    """
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


def _pair(ends: Sequence[Any] | None) -> tuple[float, float] | None:
    return None if ends is None else (float(ends[0]), float(ends[1]))


def plain(level: Any) -> Any:
    """Return a value as JSON represents it: text, a number, a truth value or None.

    Parameters
    ----------
    level
        A value of a column; a NumPy scalar becomes a Python one, any other object its text.

    Returns
    -------
    str, int, float, bool or None
    """
    if type(level) is str:
        return level
    if isinstance(level, np.generic):
        level = level.item()
    return level if isinstance(level, str | int | float | bool | None) else str(level)
