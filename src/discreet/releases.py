"""A release: what may be published, nothing else; and ``release``, which makes one from data."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from discreet.core import (
    CorruptReleaseError,
    Domain,
    EpsilonLike,
    InvalidInput,
    NotPrivateError,
    TooLargeError,
    as_epsilon,
    as_prior,
    as_size,
)
from discreet.data import count_levels
from discreet.families import Beta, Dirichlet, dirichlet
from discreet.guarantees import Guarantee
from discreet.inference import NoiseAware, noise_aware
from discreet.mechanisms import Mechanism, Output, check_options
from discreet.mechanisms import mechanism as build_mechanism
from discreet.planning import best_mechanism

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
    versions: Mapping[str, str] = field(default_factory=dict)

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
        # Built without the warnings of a new mechanism: its release was warned about when it was made.
        built = check_options(self.mechanism, ())(**self.parameters)
        return noise_aware(built, self.counts, self.noisy)

    def table(self, interval: float = 0.95) -> list[dict[str, Any]]:
        """One row per level: released count, posterior mean, standard deviation and credible interval.

        They are those of the noise-aware posterior where it can be computed; the plug-in interval, which
        takes the released counts for the truth, stands beside them.
        """
        aware = self._noise_aware_or_none()
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

    def _noise_aware_or_none(self) -> NoiseAware | None:
        try:
            return self._noise_aware
        except (NotPrivateError, TooLargeError):
            return None

    def summary(self, interval: float = 0.95) -> str:
        """The release for a reader, as plain text."""
        rows = self.table(interval)
        width = max(5, *(len(str(row["level"])) for row in rows))
        kind = "Beta" if len(rows) == 2 else "Dirichlet"
        percent = f"{100 * interval:g} %"
        stamp = "Private" if self.guarantee.is_private else "NOT PRIVATE:"
        lines = [
            f"{stamp} {kind} posterior from n = {self.n} records, mechanism {self.mechanism}",
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
        if self._noise_aware_or_none() is None:
            note = "Both intervals take the released counts as if they were exact: they leave out the noise."
        else:
            note = "The interval accounts for the noise; the plug-in interval takes the counts as if exact."
        return "\n".join([*lines, "", note])

    def __str__(self) -> str:
        return self.summary()

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
            "guarantee": self.guarantee.to_dict(),
            "versions": dict(self.versions),
        }

    def to_json(self) -> str:
        """The release as a JSON document with a checksum; :meth:`from_json` reads it back."""
        content = self._content()
        document = {"format": FORMAT, "version": VERSION, "checksum": _checksum(content), "release": content}
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Release:
        """Reads what :meth:`to_json` wrote; an edited or unknown document is refused."""
        try:
            document = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            raise CorruptReleaseError("this is not a release: the text is not valid JSON") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise CorruptReleaseError(f"this is not a release: its format is not {FORMAT!r}")
        version = document.get("version")
        if version != VERSION or isinstance(version, bool):
            raise CorruptReleaseError(
                f"release version {version!r} is unknown; this program reads {VERSION}: update discreet"
            )
        content = document.get("release")
        if not isinstance(content, dict) or document.get("checksum") != _checksum(content):
            raise CorruptReleaseError("the release was edited or cut: its checksum does not match")
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
        _ = self.posterior


def release(
    data: Any,
    *,
    levels: Sequence[Any],
    epsilon: EpsilonLike,
    prior: float | Sequence[float] = 1.0,
    mechanism: str = "auto",
    n: int | None = None,
    column: str | None = None,
    other: Any = None,
    missing: Any = None,
    acknowledge_not_private: bool = False,
    **options: Any,
) -> Release:
    """One private posterior over the proportions of ``levels``; every call spends ``epsilon``.

    ``data``: a list, NumPy array, pandas / Polars / Arrow column, a table or a file path with ``column``, or
    a mapping level → count. ``levels`` are declared, never read from the data; ``other`` and ``missing`` name
    the levels that receive values outside them and missing values. ``n`` is the public number of records:
    when it is given, the mechanism is fixed before the data is opened. ``mechanism="auto"`` is the one that
    :func:`discreet.plan` finds best for prior, n and ε. ``options`` go to the mechanism.

    >>> r = release({"no": 70, "yes": 30}, levels=("no", "yes"), epsilon=1.0)
    >>> sum(r.counts), r.guarantee.epsilon, r.mechanism
    (100, 1.0, 'lattice')
    """
    domain = Domain(levels, other, missing)
    parameters = as_prior(prior, domain.k)
    budget = as_epsilon(epsilon)
    check_options("lattice" if mechanism == "auto" else mechanism, options)

    def build(size: int) -> Mechanism:
        chosen = best_mechanism(parameters, size, budget) if mechanism == "auto" else mechanism
        return build_mechanism(chosen, prior=parameters, n=size, epsilon=budget, **options)

    if n is not None:
        built = build(as_size(n))
        counts = count_levels(data, domain, column=column)
        if sum(counts) != built.n:
            raise InvalidInput(f"n={n} was declared but the data have another number of records")
    else:
        counts = count_levels(data, domain, column=column)
        built = build(as_size(sum(counts)))
    output = built.run(counts, acknowledge_not_private=acknowledge_not_private)
    return publish(built, output, domain)


def publish(mechanism: Mechanism, output: Output, domain: Domain) -> Release:
    """The release of an output that ``mechanism.run`` gave."""
    from discreet import __version__

    return Release(
        mechanism=mechanism.name,
        parameters=mechanism.parameters(),
        levels=tuple(_plain(level) for level in domain.levels),
        counts=output.counts,
        guarantee=mechanism.guarantee,
        noisy=output.noisy,
        other=_plain(domain.other),
        missing=_plain(domain.missing),
        versions={"discreet": __version__, "python": platform.python_version(), "numpy": np.__version__},
    )


def _plain(level: Any) -> Any:
    if isinstance(level, np.generic):
        level = level.item()
    return level if isinstance(level, str | int | float | bool | None) else str(level)


def _checksum(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
