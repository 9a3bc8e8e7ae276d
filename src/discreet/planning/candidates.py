"""The exact output distribution of a mechanism: each candidate, its distance, its probability.

It is for study only: the probabilities are exact, nothing is drawn, and the result is not private.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from discreet._documents.parts import Table
from discreet._numerics.hellinger import hellinger
from discreet._typing import FloatArray, IntArray
from discreet.errors import InvalidInputError, TooLargeError
from discreet.mechanisms.base import Mechanism, align_columns
from discreet.mechanisms.exponential import ScoredMechanism
from discreet.mechanisms.hellinger.sensitivity import local_sensitivity
from discreet.mechanisms.independent import LSHist

PRINTED = ("printed ε/LS, not private", "printed Laplace, not private")
"""The columns with the probabilities that *Notes of DP – Bayesian Inference* prints."""
NOTE = "Nothing was drawn, and nothing here is private: these are exact probabilities for the counts given."


@dataclass(frozen=True)
class CandidateDistribution:
    """The exact output distribution of a mechanism for given counts, with a probability for each candidate.

    Attributes
    ----------
    mechanism : Mechanism
        The mechanism.
    counts : tuple of int
        The counts that it is given.
    candidates : IntArray
        The counts that can be released, nearest first, one row each.
    steps : IntArray
        The number of records in which each candidate differs from ``counts``.
    distance : FloatArray
        The Hellinger distance of its posterior from that of the counts.
    columns : dict of str to FloatArray
        Probabilities by column: the mechanism, ``lshist`` for comparison and, with ``as_printed``, those in
        the notes.

    Examples
    --------
    >>> import discreet
    >>> found = candidate_distribution(discreet.mechanism("ehds", prior=(1, 1), n=8, epsilon=0.8), (4, 4))
    >>> round(found.expected("ehds"), 3), round(found.expected("lshist"), 3)
    (0.421, 0.284)
    """

    mechanism: Mechanism
    counts: tuple[int, ...]
    candidates: IntArray
    steps: IntArray
    distance: FloatArray
    columns: dict[str, FloatArray] = field(repr=False)

    def expected(self, column: str) -> float:
        """Return the expected Hellinger distance under the probabilities of a column.

        Parameters
        ----------
        column : str
            Name of the column.

        Returns
        -------
        float
        """
        return float(self.columns[column] @ self.distance)

    @cached_property
    def _groups(self) -> list[IntArray]:
        """Indices of the candidates with equal distance and number of steps, nearest first."""
        key = np.stack([np.round(self.distance, 11), self.steps], axis=1)
        place = np.unique(key, axis=0, return_inverse=True)[1].ravel()
        return np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place))[:-1])

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the candidates by distance, nearest first.

        Yields
        ------
        dict
            ``candidates`` at that distance, ``steps``, ``distance``, and the probability in each column.

        Examples
        --------
        >>> import discreet
        >>> found = candidate_distribution(discreet.mechanism("ehds", prior=(1, 1), n=8, epsilon=0.8), (4, 4))
        >>> next(found.rows())["candidates"]
        [[4, 4]]
        """
        for group in self._groups:
            yield {
                "candidates": self.candidates[group].tolist(),
                "steps": int(self.steps[group[0]]),
                "distance": float(self.distance[group].mean()),
                **{name: float(values[group].sum()) for name, values in self.columns.items()},
            }

    def table(self, most: int = 20) -> Table:
        """Return the distribution as a table: the nearest candidates, the others combined, then the farthest.

        Parameters
        ----------
        most : int
            The number of rows.

        Returns
        -------
        Table
            A table to print.
        """
        rows, names = list(self.rows()), list(self.columns)
        digits = 12 if PRINTED[0] in self.columns else 4

        def _cells(title: str, steps: str, distance: str, values: Iterable[float]) -> tuple[str, ...]:
            return title, steps, distance, *(f"{value:.{digits}g}" for value in values)

        shown = [
            _cells(
                _title(row["candidates"]),
                str(row["steps"]),
                f"{row['distance']:.{digits}g}",
                [row[name] for name in names],
            )
            for row in rows
        ]
        hidden = rows[most - 2 : -1] if len(rows) > most else []
        if hidden:
            number = sum(len(row["candidates"]) for row in hidden)
            sums = (sum(row[name] for row in hidden) for name in names)
            shown = [*shown[: most - 2], _cells(f"{number:,} more", "", "", sums), shown[-1]]
        expected = ", ".join(f"{self.expected(name):.4g} ({name})" for name in names if name not in PRINTED)
        return Table(
            ("candidate", "steps", "distance", *names),
            tuple(shown),
            self._title(),
            f"Expected distance: {expected}. {NOTE}",
        )

    def _title(self) -> str:
        m = self.mechanism
        claim = str(m.guarantee) if m.guarantee.is_private else "NOT PRIVATE"
        rule = ""
        if isinstance(m, ScoredMechanism):
            t, s = m.rate(self.counts), m.sharpness(self.counts)
            rule = f". P(candidate) ∝ exp(−t·score), t = {m.strength:.4g}/{1 / s:.6g} = {t:.6g}"
        return f"{m.name} at counts {_tuple(self.counts)}, {claim}{rule}"

    def to_dict(self) -> dict[str, Any]:
        """Return the whole distribution as JSON values.

        Returns
        -------
        dict
            With a row for each distance.
        """
        return {
            "mechanism": self.mechanism.name,
            "parameters": self.mechanism.parameters(),
            "private": False,
            "counts": list(self.counts),
            "expected": {name: self.expected(name) for name in self.columns if name not in PRINTED},
            "rows": list(self.rows()),
        }

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def candidate_distribution(
    mechanism: Mechanism, counts: Iterable[Any], *, as_printed: bool = False
) -> CandidateDistribution:
    """Compute the exact output distribution of a mechanism at given counts, by candidate.

    Parameters
    ----------
    mechanism : Mechanism
        A mechanism whose output distribution can be listed.
    counts : iterable of int
        The number of records of each level; for a family of totals, the total.
    as_printed : bool
        Whether to add the columns of the tables in *Notes of DP – Bayesian Inference*, 3.4.1: one is the
        exponential mechanism at rate ε/LS; the other adds noise to all counts but the last, namely the
        absolute value of ⌊Laplace(2/ε)⌋ with a random sign, and drops the probability outside the candidates.
        Neither is private.

    Returns
    -------
    CandidateDistribution

    Raises
    ------
    InvalidInputError
        If the counts do not sum to n, or ``as_printed`` is used with a family of totals.
    TooLargeError
        If there are too many candidates to list.

    Examples
    --------
    >>> import discreet
    >>> m = discreet.mechanism("ehds", prior=(1, 1), n=8, epsilon=0.8)
    >>> found = candidate_distribution(m, (4, 4), as_printed=True)
    >>> [round(row["printed ε/LS, not private"], 12) for row in found.rows()][:2]
    [0.37924298484, 0.340809715054]
    """
    given = tuple(counts)
    distributions = {mechanism.name: mechanism.log_pmf(given)}
    totals = isinstance(mechanism, ScoredMechanism) and mechanism.candidates.columns == 1
    prior = np.array(mechanism.prior)
    if as_printed and (totals or not mechanism.n):
        raise InvalidInputError("as_printed=True is for counts of levels with n public, as in the notes")
    if mechanism.n and not totals and mechanism.name != "lshist":
        beside = LSHist(mechanism.prior, mechanism.n, mechanism.epsilon)
        # its distribution is over all noisy counts, more than there are candidates
        with suppress(TooLargeError):
            distributions["lshist"] = beside.log_pmf(given)
    outputs, log_probability = align_columns(distributions.values(), len(distributions))
    if totals:
        assert isinstance(mechanism, ScoredMechanism)
        distance = mechanism.candidates.distances("hellinger", np.array([given]))[0]
    else:
        distance = np.asarray(hellinger(prior + given, prior + outputs))
    columns = dict(zip(distributions, np.exp(log_probability), strict=True))
    if as_printed:
        columns |= _as_printed(mechanism, given, outputs, distance)
    moved = outputs - np.array(given)
    steps = np.maximum(np.maximum(moved, 0).sum(axis=1), np.maximum(-moved, 0).sum(axis=1))
    order = np.lexsort((steps, distance))
    ordered = {name: values[order] for name, values in columns.items()}
    return CandidateDistribution(mechanism, given, outputs[order], steps[order], distance[order], ordered)


def _as_printed(
    mechanism: Mechanism, counts: tuple[int, ...], outputs: IntArray, distance: FloatArray
) -> dict[str, FloatArray]:
    epsilon, possible = float(mechanism.epsilon), outputs.sum(axis=1) == sum(counts)
    weight = possible * np.exp(-epsilon / local_sensitivity(counts, mechanism.prior) * distance)
    steps = np.abs(outputs[:, :-1] - np.array(counts[:-1]))
    each = -np.expm1(-epsilon / 2) * np.exp(-epsilon / 2 * steps) * np.where(steps == 0, 1.0, 0.5)
    return dict(zip(PRINTED, (weight / weight.sum(), possible * each.prod(axis=1)), strict=True))


def _tuple(counts: Iterable[int]) -> str:
    return f"({', '.join(map(str, counts))})"


def _title(candidates: list[list[int]]) -> str:
    first = " ".join(_tuple(candidate) for candidate in candidates[:2])
    return first if len(candidates) <= 2 else f"{_tuple(candidates[0])} and {len(candidates) - 1:,} more"
