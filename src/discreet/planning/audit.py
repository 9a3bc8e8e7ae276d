"""Exact privacy loss of a mechanism, by enumeration over every pair of neighbouring datasets.

An audit needs only the distribution of the output: any object with ``n``, ``k``, ``guarantee`` and
``log_pmf`` can be audited. It covers everything that a release publishes. A mechanism that publishes more
than its counts computes that loss itself (``Mechanism.published_loss``); an audit of its decoded counts alone
is not a guarantee. ``audit_sampler`` checks that draws follow the stated distribution.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from discreet._declarations import as_choice, as_probability
from discreet._html import card, facts, paragraph
from discreet._numerics.count_vectors import compositions, number_of_compositions
from discreet._numerics.neighbours import neighbouring_rows
from discreet._text import about
from discreet._typing import FloatArray, IntArray
from discreet.errors import InvalidInputError, TooLargeError
from discreet.mechanisms._outputs import PublishedLoss
from discreet.mechanisms.base import Mechanism, align_columns
from discreet.mechanisms.exponential import ScoredMechanism
from discreet.planning.progress import track_progress
from discreet.privacy.composite_curves import Tabulated
from discreet.privacy.guarantee import Guarantee

MAX_ENTRIES = 50_000_000
"""The most probabilities that an audit keeps in memory: 400 MB."""


class Auditable(Protocol):
    """The interface that a mechanism needs for an audit."""

    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def guarantee(self) -> Guarantee: ...
    def log_pmf(self, counts: Iterable[Any]) -> tuple[IntArray, FloatArray]:
        """Return all possible outputs for a dataset, and their log-probabilities.

        Parameters
        ----------
        counts : iterable of int
            The number of records of each value.

        Returns
        -------
        outputs, log_probabilities : arrays
        """
        ...


class Worst(NamedTuple):
    """The neighbours and the outcome at which P(outcome | counts) / P(outcome | neighbour) is largest."""

    counts: tuple[int, ...]
    neighbour: tuple[int, ...]
    outcome: tuple[int, ...]


@dataclass(frozen=True)
class Audit:
    """The exact privacy loss of a mechanism, and the datasets where it is largest.

    Attributes
    ----------
    mechanism : str
        The name of the mechanism.
    claimed : Guarantee
        The guarantee that it claims.
    epsilon : float
        The exact ε.
    worst : Worst
        Where the loss is largest.

    Examples
    --------
    >>> import discreet
    >>> result = audit(discreet.mechanism("lshist", prior=(1, 1), n=20, epsilon=0.5))
    >>> result.holds, round(result.delta(0.25), 3) < 0.2
    (True, True)
    """

    mechanism: str
    claimed: Guarantee
    epsilon: float
    worst: Worst
    triples: int
    """The number of (dataset, neighbour, outcome) triples compared; 0 where the loss has a closed form."""
    _delta: Callable[[float], float]
    everything: bool = True
    """Whether the audit covers everything that a release publishes; if not, it is no guarantee."""

    def delta(self, epsilon: float) -> float:
        """Return the smallest δ for which the mechanism is (ε, δ)-differentially private.

        Parameters
        ----------
        epsilon : float
            At least 0.

        Returns
        -------
        float

        Raises
        ------
        InvalidInputError
            If ``epsilon`` is negative.

        Examples
        --------
        >>> import discreet
        >>> result = audit(discreet.mechanism("lshist", prior=(1, 1), n=20, epsilon=0.5))
        >>> round(result.delta(0.5), 6)
        0.0
        """
        if not epsilon >= 0:
            raise InvalidInputError("must be at least 0", "epsilon", epsilon)
        return self._delta(float(epsilon))

    def profile(self, points: int = 41) -> tuple[FloatArray, FloatArray]:
        """Return the privacy profile δ(ε), from ε = 0 to the exact ε, where δ is 0.

        Parameters
        ----------
        points : int
            The number of points of the curve.

        Returns
        -------
        epsilons, deltas : arrays

        Examples
        --------
        >>> import discreet
        >>> result = audit(discreet.mechanism("lshist", prior=(1, 1), n=20, epsilon=0.5))
        >>> epsilons, deltas = result.profile(points=5)
        >>> epsilons.round(3).tolist()
        [0.0, 0.125, 0.25, 0.375, 0.5]
        """
        finite = self.epsilon if math.isfinite(self.epsilon) else 10.0
        epsilons = np.linspace(0.0, finite, points)
        return epsilons, np.array([self._delta(e) for e in epsilons])

    def guarantee(self, points: int = 401) -> Guarantee:
        """Return the exact privacy profile as a guarantee.

        Composing it gives a smaller total than composing ε alone. The profile is raised by 10⁻⁹ to cover
        floating-point errors. If the claim holds, δ is 0 at the claimed ε and at all larger values.

        Parameters
        ----------
        points : int
            The number of points of the curve.

        Returns
        -------
        Guarantee

        Raises
        ------
        InvalidInputError
            If the audit covers the decoded counts alone, because the noisy ones are published too.

        Examples
        --------
        >>> import discreet
        >>> result = audit(discreet.mechanism("lshist", prior=(1, 1), n=20, epsilon=0.5))
        >>> result.guarantee().epsilon
        0.5
        """
        if not self.everything:
            raise InvalidInputError(
                f"of='decoded': this audit of {self.mechanism} leaves out the noisy counts, which a release "
                "publishes too, so it is no guarantee; take audit(mechanism).guarantee()"
            )
        pure = self.claimed.exact_epsilon if self.claimed.exact_delta == 0 and self.holds else None
        epsilons, deltas = self.profile(points)
        if not epsilons[-1] > 1e-9:  # no loss to speak of: two points that are apart
            epsilons, deltas = np.array([0.0, 1e-9]), np.array([deltas[0], self._delta(1e-9)])
        raised = tuple(min(1.0, float(delta) + 1e-9) for delta in deltas)
        how = f"enumeration of {self.triples:,} triples" if self.triples else "loss in closed form"
        return Guarantee(
            pure,
            self.claimed.relation,
            basis=f"{how}; {self.claimed.basis}",
            assumptions=self.claimed.assumptions,
            curve=Tabulated(tuple(float(epsilon) for epsilon in epsilons), raised, pure),
        )

    @property
    def slack(self) -> float:
        """The claimed ε minus the exact ε; negative if the claim is false."""
        return self.claimed.epsilon - self.epsilon

    @property
    def holds(self) -> bool:
        """Whether the claimed guarantee is true, up to 1e-9 for floating-point errors."""
        if not self.claimed.is_private or self.epsilon <= self.claimed.epsilon + 1e-9:
            return True
        return self.claimed.delta > 0 and self.delta(self.claimed.epsilon) <= self.claimed.delta + 1e-9

    def _verdict(self) -> str:
        verdict = "the claim holds" if self.holds else "THE CLAIM IS FALSE"
        verdict = verdict if self.claimed.is_private else "no guarantee is claimed"
        part = "" if self.everything else ", decoded counts alone (no guarantee)"
        return f"Audit of {self.mechanism}{part}: {verdict}"

    def _facts(self) -> list[tuple[str, str]]:
        claim, part = self.claimed, 100 * self.epsilon / self.claimed.epsilon
        of_claim = f" ({part:.4g} % of the claim)" if claim.is_private else ""
        results = {"claimed": str(claim), "exact ε": f"{self.epsilon:.6g}{of_claim}"}
        if claim.delta > 0:
            results["exact δ"] = f"{self.delta(claim.epsilon):.6g} at ε = {claim.epsilon:g}"
        if claim.is_private:
            results["slack"] = f"{self.slack:.6g} of the claimed ε is not used"
        counts, neighbour, outcome = self.worst
        results["worst"] = f"counts {counts} against {neighbour}, outcome {outcome}"
        compared = f"{self.triples:,} (dataset, neighbour, outcome) triples compared"
        return [*results.items(), ("triples", compared if self.triples else "closed form")]

    def __str__(self) -> str:
        return "\n".join([self._verdict(), *(f"  {name:<10}{text}" for name, text in self._facts())])

    def _repr_html_(self) -> str:
        """Return the audit as HTML for a notebook."""
        return card(paragraph(self._verdict(), strong=True), facts(self._facts()))


def audit(
    mechanism: Auditable,
    *,
    of: Literal["published", "noisy", "decoded"] = "published",
    progress: bool | None = None,
) -> Audit:
    """Compute the exact privacy loss over all datasets of n records and all their neighbours.

    Parameters
    ----------
    mechanism : Mechanism or Auditable
        An object with ``n``, ``k``, ``guarantee`` and ``log_pmf``.
    of : {"published", "noisy", "decoded"}
        Which output to audit: everything that a release publishes, the noisy counts, or the decoded counts
        alone. The last is not a guarantee where noisy counts are published too. Decoded counts are a
        function of the noisy ones, so ``"published"`` and ``"noisy"`` give the same loss for ``lattice``.
    progress : bool, optional
        Whether to show progress on standard error. By default it is shown on a terminal, after two seconds.

    Returns
    -------
    Audit

    Raises
    ------
    InvalidInputError
        If the mechanism has no ``log_pmf``, or publishes no noisy counts where these are asked for.
    TooLargeError
        If the probabilities do not fit into memory; the message names a smaller n.

    Examples
    --------
    >>> import discreet
    >>> result = audit(discreet.mechanism("lshist", prior=(1, 1), n=20, epsilon=0.5))
    >>> round(result.epsilon, 9), result.holds
    (0.5, True)
    """
    as_choice(of, ("published", "noisy", "decoded"), "of")
    if not hasattr(mechanism, "log_pmf"):
        raise InvalidInputError(f"{type(mechanism).__name__} has no log_pmf, so it cannot be audited")
    name = getattr(mechanism, "name", type(mechanism).__name__)
    keeps_noisy = bool(getattr(mechanism, "keeps_noisy", False))
    if of == "noisy" and not keeps_noisy:
        raise InvalidInputError(
            f"of='noisy' is for mechanisms that publish noisy counts; {name} publishes none"
        )
    loss = None if of == "decoded" else getattr(mechanism, "published_loss", None)
    closed: PublishedLoss | None = None if loss is None else loss()
    if closed is not None:
        return Audit(name, mechanism.guarantee, closed.epsilon, Worst(*closed.worst), 0, closed.delta)
    distribution = _Distribution(mechanism, progress)
    epsilon, worst = distribution.worst()
    return Audit(
        name, mechanism.guarantee, epsilon, worst, distribution.triples, distribution.delta, not keeps_noisy
    )


class _Distribution:
    """The table of log P(outcome | dataset) for the compared datasets, and the pairs of neighbours in it."""

    def __init__(self, mechanism: Auditable, progress: bool | None) -> None:
        n, k = mechanism.n, mechanism.k
        candidates = mechanism.candidates if isinstance(mechanism, ScoredMechanism) else None
        number = candidates.size if candidates else number_of_compositions(n, k)
        # About as many outcomes as datasets is the least; the real number is checked once it is known.
        if number**2 > MAX_ENTRIES * (math.factorial(k) if _exchangeable(mechanism) else 1) * 4:
            raise _too_large(mechanism, number, number)
        if number * k > MAX_ENTRIES:  # for many levels the datasets alone are too many to list
            raise _too_large(mechanism, number, getattr(mechanism, "number_of_outputs", number))
        rows = candidates.rows if candidates else compositions(n, k)
        pairs = candidates.pairs if candidates else neighbouring_rows(rows)
        if _exchangeable(mechanism):
            # Relabelling levels maps pairs to pairs of equal loss, and one of them has a sorted member.
            ordered = np.asarray((np.diff(rows, axis=1) >= 0).all(axis=1))
            pairs = pairs[ordered[pairs].any(axis=1)]
        used = np.unique(pairs)
        outcomes = getattr(mechanism, "number_of_outputs", None)
        if outcomes is None:
            outcomes = len(mechanism.log_pmf(rows[used[0]])[0])
        if len(used) * outcomes > MAX_ENTRIES:
            raise _too_large(mechanism, number, outcomes)
        if isinstance(mechanism, Mechanism) and type(mechanism).log_pmfs is not Mechanism.log_pmfs:
            self.outputs, self.matrix = mechanism.log_pmfs(rows[used])  # outputs are listed once for all
        else:
            several = track_progress(used.tolist(), "enumerating datasets", progress)
            self.outputs, self.matrix = align_columns(
                (mechanism.log_pmf(rows[i]) for i in several), len(used)
            )
        self.rows, self.used = rows, used
        self.pairs = np.searchsorted(used, pairs)
        self.triples = 2 * len(pairs) * len(self.outputs)

    def _parts(self) -> list[IntArray]:
        return np.array_split(self.pairs, max(1, len(self.pairs) * len(self.outputs) >> 19))

    def worst(self) -> tuple[float, Worst]:
        best, where = -math.inf, (0, 0, 0)
        for part in self._parts():
            x, y = part.T
            with np.errstate(invalid="ignore"):  # ∞ − ∞: impossible for both, no loss
                loss = self.matrix[x] - self.matrix[y]
            for a, b in ((x, y), (y, x)):
                if (value := float(np.nanmax(loss))) > best:
                    i, j = np.unravel_index(int(np.nanargmax(loss)), loss.shape)
                    best, where = value, (int(a[i]), int(b[i]), int(j))
                np.negative(loss, out=loss)
        counts, neighbour = (tuple(map(int, self.rows[self.used[w]])) for w in where[:2])
        return best, Worst(counts, neighbour, tuple(map(int, self.outputs[where[2]])))

    def delta(self, epsilon: float) -> float:
        """Return the smallest δ at ε over all pairs of neighbours.

        Parameters
        ----------
        epsilon : float
            At least 0.

        Returns
        -------
        float
        """
        worst = 0.0
        for part in self._parts():
            first, second = np.exp(self.matrix[part[:, 0]]), np.exp(self.matrix[part[:, 1]])
            for p, q in ((first, second), (second, first)):
                excess = p - math.exp(epsilon) * q if epsilon < 700 else np.where(q > 0, 0.0, p)
                worst = max(worst, float(np.maximum(excess, 0.0).sum(axis=1).max()))
        return worst


def _exchangeable(mechanism: Any) -> bool:
    """Return whether permuting values of equal prior permutes the distribution, as the class declares."""
    return bool(getattr(type(mechanism), "exchangeable", False)) and len(set(mechanism.prior)) == 1


def _too_large(mechanism: Auditable, datasets: int, outputs: int) -> TooLargeError:
    n, k = mechanism.n, mechanism.k
    pairs = k * (k - 1) * number_of_compositions(n - 1, k) if n else 0
    degree = (k - 1) + max(1, round(math.log(max(outputs, 2)) / math.log(n + 1)))
    shrink = (math.log(MAX_ENTRIES) - math.log(datasets) - math.log(outputs)) / degree
    return TooLargeError(
        f"an audit at n={n}, k={k} compares {about(pairs * outputs)} triples of {about(datasets)} datasets "
        f"and {about(outputs)} outcomes, more than fit into memory; up to about n = "
        f"{max(int(n * math.exp(shrink)), 1)} they fit"
    )


@dataclass(frozen=True)
class SamplerAudit:
    """The result of a test that draws of a mechanism follow its distribution.

    Attributes
    ----------
    counts : tuple of int
        The dataset of the test.
    draws : int
        The number of draws.
    p_value : float
        The p-value, corrected for the number of tests.
    false_alarm_rate : float
        The largest probability with which a correct sampler is rejected.
    """

    counts: tuple[int, ...]
    draws: int
    p_value: float
    false_alarm_rate: float

    @property
    def fits(self) -> bool:
        return self.p_value >= self.false_alarm_rate

    def __str__(self) -> str:
        verdict = "the draws fit the distribution" if self.fits else "THE DRAWS DO NOT FIT THE DISTRIBUTION"
        return (
            f"{verdict}: p = {self.p_value:.3g} from {self.draws:,} draws at counts {self.counts}; a correct "
            f"sampler is rejected with probability at most {self.false_alarm_rate:g}"
        )


def audit_sampler(
    mechanism: Any,
    counts: Iterable[Any] | None = None,
    *,
    draws: int = 100_000,
    false_alarm_rate: float = 1e-6,
) -> SamplerAudit:
    """Test the goodness of fit of ``mechanism.draw(counts)`` against ``mechanism.log_pmf(counts)``.

    This applies Pearson's chi-square test to the joint distribution and to each coordinate, with Bonferroni's
    correction. Cells in which fewer than 10 draws are expected are combined. An outcome of probability 0 is
    rejected at once.

    Parameters
    ----------
    mechanism : Mechanism
        With ``n``, ``k``, ``guarantee``, ``draw`` and ``log_pmf``.
    counts : iterable of int, optional
        The dataset; by default an even one.
    draws : int
        The number of draws, at least 1000.
    false_alarm_rate : float
        The largest probability with which a correct sampler is rejected.

    Returns
    -------
    SamplerAudit

    Raises
    ------
    InvalidInputError
        If ``draws`` or ``false_alarm_rate`` is out of range.

    Examples
    --------
    >>> import discreet
    >>> mechanism = discreet.mechanism("lshist", prior=(1, 1), n=20, epsilon=0.5)
    >>> audit_sampler(mechanism, draws=1000).fits
    True
    """
    as_probability(false_alarm_rate, "false_alarm_rate", "1e-6")
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1000:
        raise InvalidInputError("must be a whole number, at least 1000", "draws", draws)
    n, k = mechanism.n, mechanism.k
    point = tuple(int(c) for c in counts) if counts is not None else _spread(n, k)
    extra = {} if mechanism.guarantee.is_private else {"acknowledge_not_private": True}
    outputs, log_probability = mechanism.log_pmf(point)
    seen = Counter(tuple(mechanism.draw(point, **extra)) for _ in range(draws))
    rows = [tuple(row) for row in outputs.tolist()]
    if not set(seen) <= set(rows):
        return SamplerAudit(point, draws, 0.0, false_alarm_rate)
    observed = np.array([seen[row] for row in rows], dtype=np.float64)
    expected = draws * np.exp(log_probability)
    values = [_chi_square_p(observed, expected)]
    for column in outputs.T:
        index = column - column.min()
        marginals = (np.asarray(np.bincount(index, w), dtype=np.float64) for w in (observed, expected))
        values.append(_chi_square_p(*marginals))
    return SamplerAudit(point, draws, min(1.0, len(values) * min(values)), false_alarm_rate)


def _spread(n: int, k: int) -> tuple[int, ...]:
    return tuple(n // k + (1 if i < n % k else 0) for i in range(k))


def _chi_square_p(observed: FloatArray, expected: FloatArray) -> float:
    from scipy.special import chdtrc

    order = np.argsort(expected)
    pooled = max(1, int((expected < 10).sum()))
    while pooled < len(order) and expected[order[:pooled]].sum() < 10:
        pooled += 1
    small, large = order[:pooled], order[pooled:]
    seen = np.append(observed[large], observed[small].sum())
    wanted = np.append(expected[large], expected[small].sum())
    if len(wanted) == 1:
        return 1.0
    return float(chdtrc(len(wanted) - 1, ((seen - wanted) ** 2 / np.maximum(wanted, 1e-300)).sum()))
