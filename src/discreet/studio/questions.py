"""What the forms ask, in public parameters: read from an address, checked, limited, and written as code.

Every question is a frozen dataclass whose fields are the fields of its form, so that an address says all of
it. The limits are such that one request is answered within seconds.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self
from urllib.parse import urlencode

from discreet.core import DiscreetError, InvalidInput, TooLargeError, as_epsilon, as_prior, as_size
from discreet.mechanisms import MECHANISMS

MAX_TEXT = 4000
MAX_PLAN_LEVELS, MAX_PLAN_N = 12, 1_000_000
MIN_EPSILON, MAX_EPSILON = Fraction(1, 1000), Fraction(20)
MAX_AUDIT_N = {2: 150, 3: 15, 4: 8, 5: 5}
"""Records up to which an audit of so many levels takes seconds."""
MIN_LATTICE_EPSILON = Fraction(1, 20)
"""Below it an audit of lattice with three levels or more takes minutes."""
MAX_RELEASE_LEVELS = 100
SELECTING = ("ehd", "ehds", "ehdl", "mbeta")
MAX_SELECTING_LEVELS, MAX_SELECTING_N = 20, 1_000_000
"""Mechanisms that select among all posteriors: up to here a draw takes seconds, and less than 1 GB."""
LARGEST = 1e9
"""Of the numbers of a mean."""
AUTO = "auto"
WHOLE = re.compile(r"[0-9]{1,30}|[0-9]{1,3}(,[0-9]{3}){1,9}")


@dataclass(frozen=True)
class Fields:
    """Text fields of a form, as they stand in the address."""

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Self:
        """The fields that the form has; what else an address holds is ignored."""
        known = {field.name: given[field.name] for field in fields(cls) if field.name in given}
        for name, value in known.items():
            if len(value) > MAX_TEXT:
                raise TooLargeError(f"{name} has {len(value)} characters; at most {MAX_TEXT} are read")
        return cls(**known)

    def query(self, **changes: str) -> str:
        """The address of this question, without the fields that are as they are anyway."""
        shown = replace(self, **changes)
        usual = type(self)()
        pairs = [(field.name, getattr(shown, field.name)) for field in fields(self)]
        return urlencode([(name, value) for name, value in pairs if value != getattr(usual, name)])


def read_numbers(text: str, name: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"{name}={text!r} must be a number, or numbers separated by commas") from None
    return values


def read_prior(text: str, k: int) -> tuple[float, ...]:
    values = read_numbers(text, "prior")
    prior = as_prior(values[0] if len(values) == 1 else values, k)
    if max(prior) > 1e6 or min(prior) < 1e-3:
        raise TooLargeError(f"prior={text!r}: here a parameter may be between 0.001 and 1,000,000")
    return prior


def read_whole(text: str, name: str, most: int) -> int:
    bare = text.strip()
    if not WHOLE.fullmatch(bare):
        raise InvalidInput(f"{name}={text!r} must be a whole number")
    number = as_size(int(bare.replace(",", "")))
    if number > most:
        raise TooLargeError(
            f"{name}={number:,} is more than the {most:,} for which this page answers in seconds; the "
            "command line and Python have no such limit"
        )
    return number


def read_epsilon(text: str) -> Fraction:
    if len(text) > 40:
        raise InvalidInput("epsilon must be a number such as 0.5 or 1/2")
    epsilon = as_epsilon(text.strip())
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        raise TooLargeError(
            f"epsilon={text!r}: here ε may be between {float(MIN_EPSILON):g} and {float(MAX_EPSILON):g}"
        )
    return epsilon


def number(value: float) -> str:
    return f"{value:.15g}"


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
        values = read_numbers(self.bounds, "bounds")
        if len(values) != 2 or not -LARGEST <= values[0] < values[1] <= LARGEST:
            raise InvalidInput(
                f"bounds={self.bounds!r} must be two numbers, the smaller first, such as 0, 120"
            )
        return values[0], values[1]

    @cached_property
    def spread(self) -> float:
        values = read_numbers(self.sigma, "sigma")
        if len(values) != 1 or not 1 / LARGEST <= values[0] <= LARGEST:
            raise InvalidInput(f"sigma={self.sigma!r} must be one positive number")
        return values[0]

    @cached_property
    def start(self) -> tuple[float, float]:
        values = read_numbers(self.centre, "prior mean, sd")
        if len(values) != 2 or not abs(values[0]) <= LARGEST or not 1 / LARGEST <= values[1] <= LARGEST:
            raise InvalidInput("the prior of a mean is two numbers: its mean and its standard deviation")
        return values[0], values[1]

    @cached_property
    def target_delta(self) -> Fraction:
        delta = as_epsilon(self.delta.strip(), "delta")
        if not Fraction(1, 10**15) <= delta * self.records < 1:
            raise InvalidInput(f"delta={self.delta!r} must be below 1/n, such as 1e-6")
        return delta

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
        options = "".join(f" --{name} {shlex.quote(str(value))}" for name, value in self.options.items())
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


@dataclass(frozen=True)
class ReleaseQuestion(Fields):
    """What is asked of a column, and what pays for it. ``request`` is the id under which it is charged."""

    source: str = ""
    column: str = ""
    levels: str = ""
    """One level a line, taken literally."""
    prior: str = "1"
    epsilon: str = ""
    mechanism: str = AUTO
    other: str = ""
    missing: str = ""
    n: str = ""
    dataset: str = ""
    label: str = ""
    request: str = ""

    def __post_init__(self) -> None:
        if self.mechanism not in (AUTO, *MECHANISMS):
            raise InvalidInput(f"mechanism must be one of: {AUTO}, {', '.join(MECHANISMS)}")
        if len(self.label) > 200:
            raise InvalidInput("label: at most 200 characters")

    @cached_property
    def declared(self) -> tuple[str, ...]:
        levels = tuple(line.strip() for line in self.levels.splitlines() if line.strip())
        if len(levels) > MAX_RELEASE_LEVELS:
            raise TooLargeError(f"levels: at most {MAX_RELEASE_LEVELS} here; the command line has no limit")
        if not levels:
            raise InvalidInput("levels: declare every value that a record may take, one a line")
        return levels

    def arguments(self) -> dict[str, Any]:
        """What :func:`discreet.release` is called with, apart from the data and the ledger."""
        values = read_numbers(self.prior, "prior")
        read_prior(self.prior, len(self.declared))
        if not self.epsilon.strip():
            raise InvalidInput("epsilon is missing: say how much of the budget this release may spend")
        n = read_whole(self.n, "n", 10**18) if self.n.strip() else None
        if self.mechanism in SELECTING:
            self._check_selecting(n)
        return {
            "column": self.column or None,
            "levels": self.declared,
            "prior": values[0] if len(values) == 1 else values,
            "epsilon": str(read_epsilon(self.epsilon)),
            "mechanism": self.mechanism,
            "other": self.other.strip() or None,
            "missing": self.missing.strip() or None,
            "n": n,
        }

    def _check_selecting(self, n: int | None) -> None:
        """What such a draw costs is known from the declaration, before the data are opened."""
        if n is None:
            raise InvalidInput(
                f"declare n: {self.mechanism} needs the number of records before the data are opened"
            )
        if len(self.declared) > MAX_SELECTING_LEVELS or n > MAX_SELECTING_N:
            raise TooLargeError(
                f"{self.mechanism} takes up to {MAX_SELECTING_LEVELS} levels and {MAX_SELECTING_N:,} records "
                "here; lattice has no such limit"
            )

    def python(self, file: str, ledger: str | None) -> str:
        given = {name: value for name, value in self.arguments().items() if value is not None}
        if ledger is not None:
            given |= {"ledger": ledger, "dataset": self.dataset, "request_id": self.request}
        lines = [f"    {name}={value!r},\n" for name, value in given.items()]
        call = f"r = discreet.release(\n    {file!r},\n{''.join(lines)})\n"
        return f"import discreet\n\n{call}print(r.summary())\n"

    def command(self, file: str, ledger: str | None) -> str:
        given = self.arguments()
        prior = given["prior"]
        words = ["discreet", "release", file]
        words += [f"--level={level}" for level in given["levels"]]
        words.append("--prior=" + ",".join(map(number, [prior] if isinstance(prior, float) else prior)))
        words += [
            f"--{name}={given[name]}"
            for name in ("column", "epsilon", "mechanism", "other", "missing", "n")
            if given[name] is not None
        ]
        if ledger is not None:
            words += [f"--ledger={ledger}", f"--dataset={self.dataset}", f"--request-id={self.request}"]
        return shlex.join(words) + "\n"
