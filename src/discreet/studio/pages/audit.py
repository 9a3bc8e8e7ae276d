"""The audit page: the exact loss of one mechanism, enumerated once and remembered."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Self
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import Response

from discreet.declarations import as_epsilon, as_prior
from discreet.errors import DiscreetError, InvalidInput, TooLargeError
from discreet.mechanisms import MECHANISMS, check_options
from discreet.planning.audit import Audit, audit
from discreet.questions.text import SERIES, WHOLE, number_text
from discreet.reporting.figures import curve
from discreet.studio.limits import MAX_PRIOR, MAX_TEXT, MIN_PRIOR, check_epsilon
from discreet.studio.shell import Studio, address, is_fragment, problem

MAX_AUDIT_N = {2: 150, 3: 15, 4: 8, 5: 5}
"""Records up to which an audit of so many levels takes seconds."""
MIN_LATTICE_EPSILON = Fraction(1, 20)
"""Below it an audit of lattice with three levels or more takes minutes."""
_busy = threading.Lock()


@dataclass(frozen=True)
class AuditQuestion:
    """A mechanism with its parameters, whose law is to be enumerated; all as text."""

    mechanism: str = "lattice"
    prior: str = "1, 1"
    n: str = "20"
    epsilon: str = "0.5"
    gamma: str = ""
    delta: str = ""
    calibration: str = ""

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Self:
        """The fields that the form has; what else an address holds is ignored."""
        known = {field.name: given[field.name] for field in fields(cls) if field.name in given}
        if any(len(text) > MAX_TEXT for text in known.values()):
            raise TooLargeError(f"a field has more than {MAX_TEXT} characters")
        return cls(**known)

    def query(self) -> str:
        """The address of this question, without the fields that are as they are anyway."""
        usual = asdict(type(self)())
        return urlencode([(name, text) for name, text in asdict(self).items() if text != usual[name]])

    @cached_property
    def alpha(self) -> tuple[float, ...]:
        prior = as_prior(SERIES.read(self.prior, "prior"))
        if len(prior) > max(MAX_AUDIT_N):
            raise TooLargeError(
                f"prior: this page audits up to {max(MAX_AUDIT_N)} levels; the command line has no such limit"
            )
        if max(prior) > MAX_PRIOR or min(prior) < MIN_PRIOR:
            raise TooLargeError(f"prior: here a parameter may be between {MIN_PRIOR:g} and {MAX_PRIOR:,.0f}")
        return prior

    @cached_property
    def records(self) -> int:
        n: int = WHOLE.read(self.n, "n")
        most = MAX_AUDIT_N[len(self.alpha)]
        if not 1 <= n <= most:
            raise TooLargeError(
                f"n: from 1 to {most} for so many levels here; the command line has no such limit"
            )
        return n

    @cached_property
    def budget(self) -> Fraction:
        return check_epsilon(self.epsilon)

    @cached_property
    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self.gamma.strip():
            options["gamma"] = SERIES.read(self.gamma, "gamma")[0]
        if self.delta.strip():
            options["delta"] = str(as_epsilon(self.delta.strip(), "delta"))
        if self.calibration:
            if self.calibration not in ("theorem", "exact"):
                raise InvalidInput("calibration must be 'theorem' or 'exact'")
            options["calibration"] = self.calibration
        return options

    def check(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise InvalidInput(f"mechanism must be one of: {', '.join(MECHANISMS)}")
        _ = self.alpha, self.records, self.budget, self.options
        if self.mechanism == "lattice" and len(self.alpha) > 2 and self.budget < MIN_LATTICE_EPSILON:
            raise TooLargeError(
                f"epsilon={self.epsilon!r}: with three levels or more this page audits lattice from ε = "
                f"{float(MIN_LATTICE_EPSILON):g} on; the command line has no such limit"
            )

    def result(self) -> Audit:
        """The audit; of two equal questions the second finds the first one's answer."""
        self.check()
        with _busy:
            return _audited(
                self.mechanism, self.alpha, self.records, self.budget, tuple(self.options.items())
            )

    def python(self) -> str:
        prior = ", ".join(map(number_text, self.alpha))
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return (
            "import discreet\n\n"
            f'm = discreet.mechanism("{self.mechanism}", prior=({prior}), n={self.records}, '
            f'epsilon="{self.budget}"{options})\n'
            "print(discreet.audit(m))\n"
        )

    def command(self) -> str:
        prior, given = ",".join(map(number_text, self.alpha)), dict(self.options)
        words = ["discreet", "audit", self.mechanism, "--prior", prior, "--n", str(self.records)]
        words += ["--epsilon", str(self.budget)]
        words += ["--delta", given.pop("delta")] if "delta" in given else []
        if given:
            words += ["--options", "; ".join(f"{key}={value}" for key, value in given.items())]
        return shlex.join(words) + "\n"


@lru_cache(maxsize=64)
def _audited(
    name: str, prior: tuple[float, ...], n: int, epsilon: Fraction, options: tuple[tuple[str, Any], ...]
) -> Audit:
    built = check_options(name, dict(options))(prior=prior, n=n, epsilon=epsilon, **dict(options))
    return audit(built, progress=False)


def add_audit(app: FastAPI, studio: Studio) -> None:
    @app.get("/audit")
    def audit_page(request: Request) -> Response:
        context: dict[str, Any] = {
            "problem": None,
            "found": None,
            "limits": MAX_AUDIT_N,
            "mechanisms": {name: (cls.__doc__ or "").partition("\n")[0] for name, cls in MECHANISMS.items()},
        }
        question, status = AuditQuestion(), 200
        try:
            question = AuditQuestion.read(request.query_params)
            found = question.result()
            claimed = found.claimed.epsilon if found.claimed.is_private else None
            epsilons, deltas = found.profile(61)
            title = "For every ε the smallest δ with which the mechanism is (ε, δ)-private"
            drawn = curve(epsilons.tolist(), deltas.tolist(), title=title, axes=("ε", "δ(ε)"), marked=claimed)
            context |= {
                "found": found,
                "claimed": claimed,
                "drawn": drawn,
                "python": question.python(),
                "command": question.command(),
            }
        except DiscreetError as error:
            context["problem"] = problem(error)
            status = context["problem"][0]
        fragment = is_fragment(request)
        template = "audit_result.html" if fragment else "audit.html"
        response = studio.page(request, template, status, question=question, **context)
        if fragment and status == 200:
            response.headers["HX-Push-Url"] = address("/audit", question.query())
        return response
