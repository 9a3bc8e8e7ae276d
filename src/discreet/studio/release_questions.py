"""What the release form asks of a file: four kinds of question, one frozen dataclass of text fields.

``levels`` and ``bins`` are answered by :func:`discreet.release`, ``mean`` and ``rate`` by
:func:`discreet.posterior_sample`. All that they say is public and checked before any data is opened.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

from discreet.declarations import Relation
from discreet.errors import InvalidInput, TooLargeError
from discreet.mechanisms import MECHANISMS
from discreet.posterior_sampling.sampler import SAMPLERS
from discreet.studio.fields import (
    MIN_EPSILON,
    Fields,
    number,
    read_bounds,
    read_delta,
    read_epsilon,
    read_gamma,
    read_normal,
    read_numbers,
    read_prior,
    read_sigma,
    read_whole,
)

KINDS = {"levels": "Proportions", "bins": "Bins", "mean": "A mean", "rate": "A rate"}
FAMILIES = {"mean": "gaussian", "rate": "poisson"}
AUTO = "auto"
MAX_RELEASE_LEVELS = 100
SELECTING = ("ehd", "ehds", "ehdl", "mbeta")
MAX_SELECTING_LEVELS, MAX_SELECTING_N = 20, 1_000_000
"""Mechanisms that select among all posteriors: up to here a draw takes seconds, and less than 1 GB."""
MAX_N, MAX_DRAWN_N = 10**18, 10**12
MAX_EVENTS = 2**16
"""Steps of the grid on which the records of a rate are summed."""
MAX_PER_PERSON = 1000
LARGEST_EDGE = 1e15
FINEST = 1e6
"""How many times larger than a standard deviation the numbers of a mean may be."""


@dataclass(frozen=True)
class ReleaseQuestion(Fields):
    """What is asked of a column, and what pays for it. ``request`` is the id under which it is charged."""

    source: str = ""
    kind: str = "levels"
    column: str = ""
    levels: str = ""
    """One level a line, taken literally."""
    edges: str = ""
    outside: str = ""
    prior: str = "1"
    """Of proportions: a Dirichlet."""
    bounds: str = ""
    sigma: str = ""
    centre: str = ""
    """Prior mean and prior standard deviation of a mean."""
    most: str = ""
    """Events that one record counts for at most."""
    gamma: str = ""
    """Shape and rate of the prior of a rate."""
    epsilon: str = ""
    delta: str = "1e-6"
    mechanism: str = AUTO
    sampler: str = "diffused"
    other: str = ""
    missing: str = ""
    """A level; of bins "level"; of a mean or rate the number that a missing record counts as."""
    person: str = ""
    per_person: str = ""
    n: str = ""
    dataset: str = ""
    label: str = ""
    request: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInput(f"kind must be one of: {', '.join(KINDS)}")
        if self.mechanism not in (AUTO, *MECHANISMS):
            raise InvalidInput(f"mechanism must be one of: {AUTO}, {', '.join(MECHANISMS)}")
        if self.sampler not in SAMPLERS:
            raise InvalidInput(f"sampler must be one of: {', '.join(SAMPLERS)}")
        if len(self.label) > 200:
            raise InvalidInput("label: at most 200 characters")

    @property
    def is_drawn(self) -> bool:
        """Whether the answer is a posterior draw, and no posterior of counts."""
        return self.kind in FAMILIES

    @property
    def family(self) -> str:
        return FAMILIES[self.kind]

    @property
    def relation(self) -> Relation:
        """What the guarantee protects, and so what its dataset must count."""
        by_person = not self.is_drawn and bool(self.person.strip() or self.per_person.strip())
        return Relation.REPLACE_PERSON if by_person else Relation.REPLACE_ONE

    # The fields as numbers.

    @cached_property
    def declared(self) -> tuple[str, ...]:
        levels = tuple(line.strip() for line in self.levels.splitlines() if line.strip())
        if len(levels) > MAX_RELEASE_LEVELS:
            raise TooLargeError(f"levels: at most {MAX_RELEASE_LEVELS} here; the command line has no limit")
        if not levels:
            raise InvalidInput("levels: declare every value that a record may take, one a line")
        return levels

    @cached_property
    def cuts(self) -> tuple[float, ...]:
        """The edges of the bins."""
        if not self.edges.strip():
            raise InvalidInput("edges: declare where the bins begin and end, such as 0, 18, 65, 120")
        if self.edges.count(",") > MAX_RELEASE_LEVELS:
            raise TooLargeError(
                f"edges: at most {MAX_RELEASE_LEVELS} bins here; the command line has no limit"
            )
        edges = tuple(read_numbers(self.edges, "edges"))
        rising = all(a < b for a, b in pairwise(edges))
        if len(edges) < 3 or not rising or not all(abs(edge) <= LARGEST_EDGE for edge in edges):
            raise InvalidInput(
                f"edges: at least three finite numbers in increasing order, up to {LARGEST_EDGE:.0e}, such "
                "as 0, 18, 65, 120; numbers beyond them can be counted in the first and last bin, or apart"
            )
        return edges

    @cached_property
    def extra(self) -> tuple[str, ...]:
        """What the bins leave over that gets a level of its own."""
        if self.outside not in ("", "clip", "level"):
            raise InvalidInput("outside must be empty, 'clip' or 'level'")
        if self.missing not in ("", "level"):
            raise InvalidInput("missing must be empty or 'level' for bins")
        given = (("outside", self.outside), ("missing", self.missing))
        return tuple(name for name, value in given if value == "level")

    @cached_property
    def k(self) -> int:
        """Number of shares."""
        k = len(self.declared) if self.kind == "levels" else len(self.cuts) - 1 + len(self.extra)
        if k > MAX_RELEASE_LEVELS:
            raise TooLargeError(f"{self.kind}: at most {MAX_RELEASE_LEVELS} shares here")
        return k

    @cached_property
    def budget(self) -> Fraction:
        if not self.epsilon.strip():
            raise InvalidInput("epsilon is missing: say how much of the budget this release may spend")
        return read_epsilon(self.epsilon)

    @cached_property
    def records(self) -> int | None:
        if not self.n.strip():
            return None
        return read_whole(self.n, "n", MAX_DRAWN_N if self.is_drawn else MAX_N)

    @cached_property
    def people(self) -> dict[str, Any]:
        """The column that names a person, and how many records of one may enter."""
        person, bound = self.person.strip(), self.per_person.strip()
        if not person and not bound:
            return {}
        if not person or not bound:
            raise InvalidInput(
                "the column that names a person and the number of records per person go together: fill in "
                "both, or neither"
            )
        most = read_whole(bound, "records per person", MAX_PER_PERSON)
        if self.budget / most < MIN_EPSILON:
            raise TooLargeError(
                f"ε = {float(self.budget):g} for a person with {most} records leaves less than "
                f"{float(MIN_EPSILON):g} for each: take fewer records per person, or a larger ε"
            )
        return {"person": person, "per_person": most}

    @cached_property
    def summing(self) -> dict[str, Any]:
        """How the records of a mean or a rate are clipped and summed."""
        bounds = read_bounds(self.bounds) if self.kind == "mean" else (0.0, float(self._events))
        found: dict[str, Any] = {"bounds": bounds, "missing": None}
        if self.missing.strip():
            values = read_numbers(self.missing, "missing")
            whole = self.kind == "mean" or values[0].is_integer()
            if len(values) != 1 or not bounds[0] <= values[0] <= bounds[1] or not whole:
                kind = "number" if self.kind == "mean" else "whole number"
                raise InvalidInput(f"missing={self.missing!r} must be one {kind} within the bounds")
            found["missing"] = values[0]
        return found

    @cached_property
    def _events(self) -> int:
        if not self.most.strip():
            raise InvalidInput("say how many events one record may count for at most, such as 20")
        return read_whole(self.most, "events of one record", MAX_EVENTS)

    def check(self) -> None:
        """Reads every field that matters; only n may still be missing."""
        _ = self.budget, self.records
        if self.is_drawn:
            if self.person.strip() or self.per_person.strip():
                raise InvalidInput("a posterior draw protects one record: leave the fields of a person empty")
            _ = self.summing, self._start
            read_delta(self.delta, self.records or 1)
            if self.kind == "rate" and (self.records or 1) * self._events > MAX_DRAWN_N:
                raise TooLargeError(
                    f"n={self.records:,} records of up to {self._events:,} events are more than the "
                    f"{MAX_DRAWN_N:,} events that this page sums; the command line has no such limit"
                )
        else:
            read_prior(self.prior, self.k)
            _ = self.people
            if self.mechanism in SELECTING:
                self._check_selecting()

    @cached_property
    def _start(self) -> dict[str, Any]:
        if self.kind == "rate":
            return {"prior": read_gamma(self.gamma)}
        prior, sigma = read_normal(self.centre), read_sigma(self.sigma)
        size = max(abs(value) for value in (prior[0], *self.summing["bounds"]))
        if min(prior[1], sigma) < size / FINEST:
            raise TooLargeError(
                f"both standard deviations must be at least a {FINEST:,.0f}th of the largest number here, "
                f"{number(size)}: doubles do not tell finer ones apart"
            )
        return {"prior": prior, "sigma": sigma}

    def _check_selecting(self) -> None:
        """What such a draw costs is known from the declaration, before the data are opened."""
        if self.records is None:
            raise InvalidInput(
                f"declare n: {self.mechanism} needs the number of records before the data are opened"
            )
        if self.k > MAX_SELECTING_LEVELS or self.records > MAX_SELECTING_N:
            raise TooLargeError(
                f"{self.mechanism} takes up to {MAX_SELECTING_LEVELS} levels and {MAX_SELECTING_N:,} records "
                "here; lattice has no such limit"
            )

    # The question as a call, as code, and in words.

    def arguments(self) -> dict[str, Any]:
        """What the public function is called with, apart from the data and the ledger."""
        self.check()
        common = {"column": self.column or None, "epsilon": str(self.budget), "n": self.records}
        if self.is_drawn:
            if self.records is None:
                raise InvalidInput("declare n: a posterior draw is calibrated to the number of records")
            drawing = {"sampler": self.sampler, "delta": self.delta.strip()}
            return {**self._start, **self.summing, **drawing, **common}
        values = read_numbers(self.prior, "prior")
        shares = {
            "prior": values[0] if len(values) == 1 else values,
            "mechanism": self.mechanism,
            "missing": self.missing.strip() or None,
            **common,
            **self.people,
        }
        if self.kind == "levels":
            return {"levels": self.declared, "other": self.other.strip() or None, **shares}
        return {"edges": self.cuts, "outside": self.outside or None, **shares}

    def python(self, file: str, ledger: str | None, table: str | None = None) -> str:
        """``table``: of a DuckDB file, which the command line does not read."""
        given = {name: value for name, value in self.arguments().items() if value is not None}
        if ledger is not None:
            given |= {"ledger": ledger, "dataset": self.dataset, "request_id": self.request}
        lines = "".join(f"    {name}={value!r},\n" for name, value in given.items())
        head, data = "import discreet\n\n", repr(file)
        if table is not None:
            rows = 'SELECT * FROM "' + table.replace('"', '""') + '"'
            head = "import discreet\nimport duckdb\n\n"
            head += f"book = duckdb.connect({file!r}, read_only=True)\ndata = book.sql({rows!r})\n"
            data = "data"
        first = f"    {data},\n" + (f"    {self.family!r},\n" if self.is_drawn else "")
        name = "posterior_sample" if self.is_drawn else "release"
        return f"{head}r = discreet.{name}(\n{first}{lines})\nprint(r.summary())\n"

    def command(self, file: str, ledger: str | None) -> str:
        given = self.arguments()
        words = ["discreet", "sample", file, f"--family={self.family}"] if self.is_drawn else []
        words = words or ["discreet", "release", file]
        words += [f"--level={level}" for level in given.pop("levels", ())]
        for name, value in given.items():
            if value is not None:
                words.append(f"--{name.replace('_', '-')}={_written(value)}")
        if ledger is not None:
            words += [f"--ledger={ledger}", f"--dataset={self.dataset}", f"--request-id={self.request}"]
        return shlex.join(words) + "\n"

    def facts(self) -> Mapping[str, str]:
        """What is asked, for the page that shows the price."""
        if self.kind == "levels":
            rows = {"Levels": ", ".join(self.declared), "Prior": self.prior, "Mechanism": self.mechanism}
            rows |= {"Other values": self.other.strip(), "Missing values": self.missing.strip()}
        elif self.kind == "bins":
            beyond = {"": "refused", "clip": "in the first and last bin", "level": "a level of their own"}
            rows = {"Edges of the bins": _written(self.cuts).replace(",", ", ")}
            rows |= {
                "Numbers outside": beyond[self.outside],
                "Prior": self.prior,
                "Mechanism": self.mechanism,
            }
            rows["Missing values"] = "a level of their own" if self.missing else ""
        else:
            low, high = map(number, self.summing["bounds"])
            mean = self.kind == "mean"
            rows = {"Question": "the mean of the records" if mean else "the mean number of events per record"}
            rows["One record"] = f"clipped to {low} … {high}"
            rows["Standard deviation"] = self.sigma if mean else ""
            first, second = map(number, self._start["prior"])
            prior = ("normal", "mean", "standard deviation") if mean else ("Gamma", "shape", "rate")
            rows["Prior"] = f"{prior[0]} with {prior[1]} {first} and {prior[2]} {second}"
            rows["Mechanism"] = f"{self.sampler}: one draw from a posterior"
            rows["Missing values"] = f"counted as {self.missing}" if self.missing.strip() else ""
        if not self.is_drawn and self.people:
            key, bound = self.people["person"], self.people["per_person"]
            rows["People"] = f"told apart by {key}, at most {bound} record{'s' if bound > 1 else ''} each"
        rows["Records"] = "" if self.records is None else f"{self.records:,}"
        rows["Label"] = self.label
        return {name: text for name, text in rows.items() if text}


def _written(value: Any) -> str:
    """A value of an option: numbers with commas between them."""
    if isinstance(value, tuple | list):
        return ",".join(map(number, value))
    return number(value) if isinstance(value, float) and math.isfinite(value) else str(value)
