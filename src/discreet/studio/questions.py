"""What the plan and audit forms ask, in public parameters: checked, limited, and written as code."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from discreet.declarations import as_epsilon
from discreet.errors import DiscreetError, InvalidInput, TooLargeError
from discreet.mechanisms import MECHANISMS
from discreet.questions.text import number_text as number
from discreet.studio.fields import (
    Fields,
    read_bounds,
    read_delta,
    read_epsilon,
    read_normal,
    read_numbers,
    read_prior,
    read_sigma,
    read_whole,
)

MAX_PLAN_LEVELS, MAX_PLAN_N = 12, 1_000_000
MAX_AUDIT_N = {2: 150, 3: 15, 4: 8, 5: 5}
"""Records up to which an audit of so many levels takes seconds."""
MIN_LATTICE_EPSILON = Fraction(1, 20)
"""Below it an audit of lattice with three levels or more takes minutes."""


@dataclass(frozen=True)
class PlanQuestion(Fields):
    """Proportions of levels (``kind`` is "levels"), or the mean of a bounded number ("mean")."""

    kind: str = "levels"
    levels: str = "never, former, current"
    prior: str = "1"
    n: str = "400"
    epsilon: str = "0.5"
    truth: str = ""
    """Made-up proportions that the simulated releases are drawn for, in percent; even if empty."""
    show: str = "0"
    """The level whose curves are drawn."""
    bounds: str = "0, 120"
    sigma: str = "20"
    centre: str = "50, 30"
    """Prior mean and prior standard deviation of a mean."""
    delta: str = "1e-6"

    def __post_init__(self) -> None:
        if self.kind not in ("levels", "mean"):
            raise InvalidInput(f"kind={self.kind!r} must be 'levels' or 'mean'")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The levels by name; a number alone stands for so many without names."""
        text = self.levels.strip()
        if text.isascii() and text.isdigit() and len(text) < 6:
            k = int(text)
            names = tuple(f"level {i + 1}" for i in range(min(k, MAX_PLAN_LEVELS + 1)))
        else:
            names = tuple(part.strip() for part in text.split(","))
            if "" in names or len(set(names)) < len(names):
                raise InvalidInput("levels must be different names separated by single commas, or a number")
        if len(names) < 2:
            raise InvalidInput("levels: at least two are needed, such as: no, yes")
        if len(names) > MAX_PLAN_LEVELS:
            raise TooLargeError(
                f"levels: this page plans for up to {MAX_PLAN_LEVELS} levels; the command line and Python "
                "have no such limit"
            )
        return names

    @cached_property
    def alpha(self) -> tuple[float, ...]:
        return read_prior(self.prior, len(self.names))

    @cached_property
    def records(self) -> int:
        return read_whole(self.n, "n", MAX_PLAN_N)

    @cached_property
    def budget(self) -> Fraction:
        return read_epsilon(self.epsilon)

    @property
    def slider(self) -> str:
        """Where the slider of ε stands: log10 ε, in the middle if there is no such ε."""
        try:
            return f"{math.log10(self.budget):.2f}"
        except DiscreetError:
            return "-0.50"

    @cached_property
    def shown(self) -> int:
        index = int(self.show) if self.show.isascii() and self.show.isdigit() and len(self.show) < 4 else 0
        return min(index, len(self.names) - 1)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The made-up data set: n records in the given proportions, rounded to whole records."""
        k, n = len(self.names), self.records
        shares = read_numbers(self.truth, "truth") if self.truth.strip() else [1.0] * k
        if len(shares) != k or not all(math.isfinite(s) and 0 <= s <= 1e9 for s in shares) or not sum(shares):
            raise InvalidInput(f"truth must be {k} numbers that are not negative, such as the percentages")
        total, counts, sofar, placed = sum(shares), [], 0.0, 0
        for share in shares:
            sofar += share
            upto = round(n * sofar / total)
            counts.append(upto - placed)
            placed = upto
        return tuple(counts)

    @cached_property
    def limits(self) -> tuple[float, float]:
        return read_bounds(self.bounds)

    @cached_property
    def spread(self) -> float:
        return read_sigma(self.sigma)

    @cached_property
    def start(self) -> tuple[float, float]:
        return read_normal(self.centre)

    @cached_property
    def target_delta(self) -> Fraction:
        return read_delta(self.delta, self.records)

    def check(self) -> None:
        """Reads every field that matters, so that a mistake is found before anything is computed."""
        _ = self.records, self.budget
        if self.kind == "levels":
            _ = self.names, self.alpha, self.counts, self.shown
        else:
            _ = self.limits, self.spread, self.start, self.target_delta

    def python(self) -> str:
        if self.kind == "levels":
            prior = ", ".join(map(number, self.alpha))
            call = f'discreet.plan(prior=({prior}), n={self.records}, epsilon="{self.budget}")'
            return f"import discreet\n\nplan = {call}\nprint(plan)\n"
        low, high = map(number, self.limits)
        mean, sd = map(number, self.start)
        return (
            "import discreet\n\n"
            "sampler = discreet.posterior_sampler(\n"
            f'    "diffused", "gaussian", prior=({mean}, {sd}), n={self.records},\n'
            f"    sigma={number(self.spread)},\n"
            f'    bounds=({low}, {high}), epsilon="{self.budget}", delta="{self.delta.strip()}",\n'
            ")\n"
            "print(sampler.guarantee)\n"
        )

    def command(self) -> str:
        if self.kind == "levels":
            prior = ",".join(map(number, self.alpha))
            return f"discreet plan --prior {prior} --n {self.records} --epsilon {self.budget}\n"
        low, high = map(number, self.limits)
        mean, sd = map(number, self.start)
        return (
            f"discreet sample FILE.csv --column NAME --family gaussian --prior={mean},{sd} "
            f"--sigma {number(self.spread)} --bounds={low},{high} --n {self.records} "
            f"--epsilon {self.budget} --delta {self.delta.strip()}\n"
        )


@dataclass(frozen=True)
class AuditQuestion(Fields):
    """A mechanism with its parameters, whose law is to be enumerated."""

    mechanism: str = "lattice"
    prior: str = "1, 1"
    n: str = "20"
    epsilon: str = "0.5"
    gamma: str = ""
    delta: str = ""
    calibration: str = ""

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise InvalidInput(f"mechanism must be one of: {', '.join(MECHANISMS)}")

    @cached_property
    def alpha(self) -> tuple[float, ...]:
        k = len(read_numbers(self.prior, "prior"))
        if k > max(MAX_AUDIT_N):
            raise TooLargeError(
                f"prior: this page audits up to {max(MAX_AUDIT_N)} levels; the command line has no such limit"
            )
        return read_prior(self.prior, k)

    @cached_property
    def records(self) -> int:
        return read_whole(self.n, "n", MAX_AUDIT_N[len(self.alpha)])

    @cached_property
    def budget(self) -> Fraction:
        return read_epsilon(self.epsilon)

    @cached_property
    def options(self) -> dict[str, Any]:
        return mechanism_options(self.gamma, self.delta, self.calibration)

    def check(self) -> None:
        _ = self.alpha, self.records, self.budget, self.options
        if self.mechanism == "lattice" and len(self.alpha) > 2 and self.budget < MIN_LATTICE_EPSILON:
            raise TooLargeError(
                f"epsilon={self.epsilon!r}: with three levels or more this page audits lattice from ε = "
                f"{float(MIN_LATTICE_EPSILON):g} on; the command line has no such limit"
            )

    def python(self) -> str:
        prior = ", ".join(map(number, self.alpha))
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return (
            "import discreet\n\n"
            f'm = discreet.mechanism("{self.mechanism}", prior=({prior}), n={self.records}, '
            f'epsilon="{self.budget}"{options})\n'
            "print(discreet.audit(m))\n"
        )

    def command(self) -> str:
        prior = ",".join(map(number, self.alpha))
        given = dict(self.options)
        options = f" --delta {shlex.quote(given.pop('delta'))}" if "delta" in given else ""
        if given:
            options += " --options " + shlex.quote(
                "; ".join(f"{key}={value}" for key, value in given.items())
            )
        return (
            f"discreet audit {self.mechanism} --prior {prior} --n {self.records} "
            f"--epsilon {self.budget}{options}\n"
        )


def mechanism_options(gamma: str, delta: str, calibration: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if gamma.strip():
        options["gamma"] = read_numbers(gamma, "gamma")[0]
    if delta.strip():
        options["delta"] = str(as_epsilon(delta.strip(), "delta"))
    if calibration:
        if calibration not in ("theorem", "exact"):
            raise InvalidInput("calibration must be 'theorem' or 'exact'")
        options["calibration"] = calibration
    return options
