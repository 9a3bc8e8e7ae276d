"""The verbs of Python: thin faces of the questions, written by hand; a test compares them with the fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from discreet._typing import EpsilonLike
from discreet.ledger.charging import Charge, LedgerLike
from discreet.questions.asking import answered
from discreet.questions.base import Question

if TYPE_CHECKING:
    from discreet.answers.conditional import ConditionalRelease
    from discreet.answers.network import NetworkRelease
    from discreet.answers.release import Release
    from discreet.answers.selected import Discovered, SparseRelease
    from discreet.declarations import Domain
    from discreet.posterior_sampling.family import Family
    from discreet.posterior_sampling.sample import Sample
    from discreet.regression.newton.fit import Fit
    from discreet.regression.release import LogisticRelease


def _asked(kind: type[Question], given: dict[str, Any]) -> Any:
    """The answer to a question of this kind, from the arguments of its verb."""
    del given[kind.__name__]  # the verb's import of it
    paid = [given.pop(name) for name in ("ledger", "dataset", "request_id")]
    charge = None if paid == [None] * 3 else Charge.of(*paid)
    data, options = given.pop("data"), given.pop("options", None)
    return answered(kind(**given, **({"options": options} if options else {})), data, charge)


@overload
def release(
    data: Any, *, levels: Literal["discover"], epsilon: EpsilonLike, **parameters: Any
) -> Discovered: ...


@overload
def release(
    data: Any, *, expected_false: EpsilonLike, epsilon: EpsilonLike, **parameters: Any
) -> SparseRelease: ...


@overload
def release(data: Any, *, epsilon: EpsilonLike, **parameters: Any) -> Release: ...


def release(
    data: Any,
    *,
    epsilon: EpsilonLike,
    delta: EpsilonLike | None = None,
    levels: Sequence[Any] | str | None = None,
    edges: Sequence[float] | None = None,
    prior: float | Sequence[float] | None = None,
    mechanism: str = "auto",
    n: int | None = None,
    column: str | None = None,
    other: Any = None,
    missing: Any = None,
    outside: str | None = None,
    person: str | None = None,
    per_person: int | None = None,
    relation: str = "replace-one",
    total_prior: Sequence[float] | None = None,
    expected_false: EpsilonLike | None = None,
    acknowledge_not_private: bool = False,
    strict: bool = True,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
    **options: Any,
) -> Release | Discovered | SparseRelease:
    """One private posterior over the proportions of ``levels``; every call spends ``epsilon``.

    ``data``: a list, NumPy array, pandas / Polars / Arrow column, a table of these, DuckDB or PySpark or a
    file path with ``column``, or a mapping level → count. ``levels`` are declared, never read from the data;
    ``other`` and ``missing`` name the levels that receive values outside them and missing values. A numeric
    column takes ``edges`` of bins instead, with ``outside="clip"`` or ``"level"`` and ``missing="level"``.
    ``missing="exclude"``: shares are of those who answered, and who did is private. ``strict=False``: a value
    without a place counts as missing, and missing values without a place are left out, so that no error
    depends on a record. ``n`` is the public number of records: when it is given, the mechanism is fixed
    before the data is opened. ``mechanism="auto"`` is a rule on public parameters; ``options`` go to it.

    ``person`` and ``per_person``: at most so many records of each person, by key column, enter, and ε is the
    guarantee of a person: the mechanism gets ε/per_person (:class:`discreet.data.Contribution`).

    ``levels="discover"``, with add-remove and ``delta``, publishes those levels of the data that stand out,
    with noisy counts: a :class:`discreet.Discovered`. With a probability of at most δ, the name of a level
    that a single record has is published too.

    ``expected_false=1``, with add-remove, is for many more levels than records: only levels whose noisy
    counts stand out are published, and all others together, a :class:`discreet.SparseRelease`. So many empty
    levels may be among them on average. ``levels`` may then be codes that are not listed: ``range(10**9)``.

    ``relation="add-remove"`` protects whether a record is there at all: n is private and never published, and
    the dataset may be empty. ``release.noise_aware().total`` is then what is known of it, ``total_prior`` a
    range (low, high) in which it is expected: 1 to 10⁹ where none is given.

    With ``ledger`` (a :class:`discreet.Ledger` or its address) the budget of ``dataset`` there is charged, or
    the release refused. A retry with the same ``request_id`` and the same parameters returns the stored
    release, charges nothing and does not open the data.

    >>> r = release({"no": 70, "yes": 30}, levels=("no", "yes"), epsilon=1.0)
    >>> sum(r.counts), r.guarantee.epsilon, r.mechanism
    (100, 1.0, 'lattice')
    """
    from discreet.questions.proportion import Proportion

    return _asked(Proportion, locals())  # type: ignore[no-any-return]


def release_table(
    data: Any,
    columns: Mapping[str, Sequence[Any] | Domain],
    *,
    epsilon: EpsilonLike,
    delta: EpsilonLike | None = None,
    prior: float | Sequence[float] | None = None,
    mechanism: str = "auto",
    n: int | None = None,
    person: str | None = None,
    per_person: int | None = None,
    relation: str = "replace-one",
    total_prior: Sequence[float] | None = None,
    missing: str | None = None,
    strict: bool = True,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
    **options: Any,
) -> Release:
    """One private posterior over the cells of a contingency table of several columns.

    ``columns`` maps each column to its levels, or to a :class:`discreet.Domain` that says where other and
    missing values go; ``missing="exclude"`` leaves out who did not answer one of them. The cells are the
    ``levels`` of the release, the last column fastest; ``release.margin("a")`` sums them up for free. The
    rest is as in :func:`discreet.release`.
    """
    from discreet.questions.tables import CrossTable

    return _asked(CrossTable, locals())  # type: ignore[no-any-return]


def release_conditional(
    data: Any,
    *,
    outcome: str,
    given: str,
    levels: Sequence[Any] | Domain,
    groups: Sequence[Any] | Domain,
    epsilon: EpsilonLike,
    delta: EpsilonLike | None = None,
    prior: float | Sequence[float] | None = None,
    mechanism: str = "auto",
    sizes: Sequence[int] | None = None,
    relation: str = "replace-one",
    total_prior: Sequence[float] | None = None,
    missing: str | None = None,
    strict: bool = True,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
    **options: Any,
) -> ConditionalRelease:
    """P(outcome | group) as one posterior per group; together they cost ``epsilon``, not once per group.

    That is parallel composition: a record is in one group, so replacing what it says in column ``outcome``
    changes one posterior. It holds where the *group* of every record is public, for instance a region or a
    wave of a survey, and with it ``sizes``, the number of records in each group (read from the data where
    not declared). Where the group is itself private use ``relation="add-remove"``, which hides the sizes too,
    or :func:`release_table`. The rest is as in :func:`discreet.release`.
    """
    from discreet.questions.tables import Conditional

    return _asked(Conditional, locals())  # type: ignore[no-any-return]


def release_network(
    data: Any,
    *,
    parents: Mapping[str, Sequence[str]],
    levels: Mapping[str, Sequence[Any] | Domain],
    epsilon: EpsilonLike,
    prior: float | None = None,
    n: int | None = None,
    person: str | None = None,
    per_person: int | None = None,
    relation: str = "replace-one",
    total_prior: Sequence[float] | None = None,
    strict: bool = True,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
) -> NetworkRelease:
    """Private posteriors of all conditional tables of a Bayesian network; together they cost ``epsilon``.

    ``levels`` maps every column to its levels, or to a :class:`discreet.Domain`; ``parents`` maps columns to
    the columns that they depend on, and those that depend on none may be left out. The graph is declared,
    never learned from the data. The tables of columns with their parents are counted in one pass, and ε is
    split between them by their sizes. The answer has ``probability({"income": "high"}, given={"sex": "f"})``
    with its interval, for any columns, and ``sample_records``. The rest is as in :func:`discreet.release`.
    """
    from discreet.questions.tables import Network

    return _asked(Network, locals())  # type: ignore[no-any-return]


def mean(
    data: Any,
    column: str | None = None,
    *,
    bounds: tuple[float, float],
    epsilon: EpsilonLike,
    delta: EpsilonLike | None = None,
    by: str | None = None,
    levels: Sequence[Any] | Domain | None = None,
    missing: Any = None,
    n: int | None = None,
    relation: str = "replace-one",
    person: str | None = None,
    per_person: int | None = None,
    strict: bool = True,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
) -> Any:
    """The private mean of a column of numbers between declared ``bounds``, with its standard deviation.

    Pure ε without ``delta``, else (ε, δ). ``by`` names a column of groups with declared ``levels``: then
    the answer holds a mean for each level. ``missing``: ``"exclude"`` for the mean among those who answered,
    or a value. The answer has ``mean()``, ``std()``, ``interval(level)`` and ``deviation(level)``. A ledger
    is charged as in :func:`discreet.release`.

    >>> answer = mean([31.0, 44.0, 52.0, 38.0] * 100, bounds=(0, 120), epsilon=1)
    >>> low, high = answer.interval(0.95)
    >>> bool(0 < low < high < 120)
    True
    """
    from discreet.questions.sums import MeanQuestion

    return _asked(MeanQuestion, locals())


def regress(
    formula: str,
    data: Any,
    *,
    family: str = "gaussian",
    bounds: Mapping[str, tuple[float, float]] | None = None,
    levels: Mapping[str, Sequence[Any]] | None = None,
    epsilon: EpsilonLike,
    delta: EpsilonLike,
    prior: Mapping[str, tuple[float, float]] | None = None,
    missing: Mapping[str, Any] | None = None,
    n: int | None = None,
    relation: str = "replace-one",
    person: str | None = None,
    per_person: int | None = None,
    norm: float | None = None,
    aim: str = "intervals",
    strict: bool = True,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
) -> Fit:
    """A private regression with intervals that know of the noise.

    ``formula``, such as ``"income ~ age + C(sex)"``, is evaluated on declared values only: every number has
    ``bounds``, to which it is clipped, and every category its ``levels``. ``family``: ``"gaussian"``,
    ``"binomial"`` (two levels), ``"multinomial"`` or ``"poisson"`` (counts from 0 to a declared bound).

    ``prior`` maps names of coefficients to (mean, standard deviation) in the units of the columns; without
    it coefficients have a weak normal prior whose scale is learned from what is released. ``missing`` maps
    columns to ``"exclude"``, a value or a level. ``n`` is the public number of records, checked.
    ``relation``: ``"replace-one"`` or ``"add-remove"``; with ``person`` and ``per_person`` people are
    protected. ``norm`` shortens rows, of columns scaled to [−1, 1], to that length: less noise, for a model
    of shortened rows. ``aim``: ``"intervals"``, or ``"prediction"``, which takes a hundred passes where
    many columns make curvature noisy. A ledger is charged as in :func:`discreet.release`.
    """
    from discreet.questions.sums import Regress

    return _asked(Regress, locals())  # type: ignore[no-any-return]


def posterior_sample(
    data: Any,
    family: str | Family,
    *,
    prior: Any,
    epsilon: EpsilonLike | None = None,
    order: float | None = None,
    delta: EpsilonLike | None = None,
    method: str = "diffused",
    n: int | None = None,
    column: str | None = None,
    draws: int = 1,
    bounds: tuple[float, float] | None = None,
    sigma: float | None = None,
    levels: Sequence[Any] | None = None,
    other: Any = None,
    missing: Any = None,
    person: str | None = None,
    per_person: int | None = None,
    grid: EpsilonLike | None = None,
    strict: bool = True,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
    **options: Any,
) -> Sample:
    """Private posterior draws from data, in one call: statistic, calibration, draw, and charge.

    ``data`` and ``column`` as in :func:`discreet.release`; the rest as in :func:`posterior_sampler`, whose
    name is ``method`` here. ``levels`` and ``other`` belong to a Dirichlet; ``missing`` says what a missing
    record counts as. ``person`` and ``per_person``: at most so many records of each person, by key column,
    enter, and the target is that of a person; of a person with more the lowest values enter, so to ask for a
    mean of people aggregate their records first. With ``ledger`` the budget of ``dataset`` is charged before
    anything leaves; a retry with the same ``request_id`` returns the stored draws. Under an (ε, δ) cap give
    ``delta``; under a zCDP cap a Gaussian mean fits.

    >>> counts = [4, 2, 7, 3] * 25
    >>> drawn = posterior_sample(counts, "poisson", prior=(2, 1), bounds=(0, 20), epsilon=1, order=8)
    >>> drawn.values.shape, drawn.guarantee.rdp(8) <= 1
    ((1,), True)
    """
    from discreet.questions.draws import PosteriorDraw

    return _asked(PosteriorDraw, locals())  # type: ignore[no-any-return]


def statistical_query(
    data: Any,
    function: Callable[[Any], float] | None = None,
    *,
    epsilon: EpsilonLike,
    order: float | None = None,
    delta: EpsilonLike | None = None,
    bounds: tuple[float, float] | None = None,
    column: str | None = None,
    n: int | None = None,
    prior: Any = (1, 1),
    method: str = "diffused",
    draws: int = 1,
    missing: float | None = None,
    person: str | None = None,
    per_person: int | None = None,
    strict: bool = True,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
) -> Sample:
    """A private mean of a number in [0, 1] that is computed from each record, by a posterior draw.

    ``function`` maps one record to [0, 1] and is clipped to it; or ``bounds`` = (low, high) are declared for
    a numeric column, which is clipped to them and read as (x − low)/(high − low). The answer is a draw from
    the Beta posterior of the mean, in the units of the bounds. Values are rounded to a grid and summed as
    integers, so that one record moves the sum by at most 1, exactly. A ledger is charged as in
    :func:`posterior_sample`; name the function by the ``request_id``, since a plan cannot contain it.

    >>> answer = statistical_query([3, 5, 4, 6] * 50, bounds=(0, 10), epsilon=1, delta="1e-6")
    >>> 0 <= float(answer.values[0]) <= 10
    True
    """
    from discreet.questions.draws import StatisticalQuery

    return _asked(StatisticalQuery, locals())  # type: ignore[no-any-return]


def release_logistic(
    data: Any,
    *,
    outcome: str,
    classes: Sequence[Any],
    features: Mapping[str, tuple[float, float]],
    epsilon: EpsilonLike,
    delta: EpsilonLike | None = None,
    order: float | None = None,
    method: str = "diffuse",
    prior_precision: float = 1.0,
    norm_bound: float | None = None,
    draws: int = 1,
    sampler: str = "auto",
    n: int | None = None,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
) -> LogisticRelease:
    """Coefficients of a private logistic regression of column ``outcome`` on the columns ``features``.

    ``classes`` are declared, and so are the bounds (low, high) of each feature, which is clipped to them and
    mapped to [−1, 1]; ``norm_bound`` clips whole rows and is √d, which clips none, if not given. The rest is
    as in :class:`discreet.PrivateLogisticRegression`. Unlike counts and sums, the records are fetched from
    the engine; what leaves this function are the draws.
    """
    from discreet.questions.draws import Logistic

    return _asked(Logistic, locals())  # type: ignore[no-any-return]
