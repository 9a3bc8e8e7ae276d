"""The pages of evidence: audits, which are cached, and the gallery of reproduced figures."""

from __future__ import annotations

import json
import re
import shlex
import threading
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from discreet._declarations import as_epsilon, as_prior
from discreet._reporting.figures import curve
from discreet._studio.forms import Asked, check_epsilon, check_prior
from discreet._studio.shell import Studio
from discreet.errors import InvalidInputError, TooLargeError
from discreet.mechanisms import MECHANISMS, check_options
from discreet.planning.audit import Audit, audit
from discreet.questions._text import SERIES, WHOLE, number_text

MAX_AUDIT_N = {2: 150, 3: 15, 4: 8, 5: 5}
"""The number of records up to which an audit takes seconds, by the number of values."""
MIN_LATTICE_EPSILON = Fraction(1, 20)
"""The ε below which an audit of lattice with three or more values takes minutes."""
NO_LIMIT = "the command line has no such limit"
_busy = threading.Lock()
_PICTURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}\.png")


class _AuditArguments(NamedTuple):
    """The arguments of an audit, within the limits of this page."""

    mechanism: str
    prior: tuple[float, ...]
    n: int
    epsilon: Fraction
    options: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class AuditQuestion(Asked):
    """A mechanism with its parameters to audit, all as text."""

    path = "/audit"
    mechanism: str = "lattice"
    prior: str = "1, 1"
    n: str = "20"
    epsilon: str = "0.5"
    gamma: str = ""
    delta: str = ""
    calibration: str = ""

    @cached_property
    def arguments(self) -> _AuditArguments:
        if self.mechanism not in MECHANISMS:
            raise InvalidInputError(f"mechanism must be one of: {', '.join(MECHANISMS)}")
        prior = as_prior(SERIES.read(self.prior, "prior"))
        if len(prior) > max(MAX_AUDIT_N):
            raise TooLargeError(f"prior: this page audits up to {max(MAX_AUDIT_N)} values; {NO_LIMIT}")
        check_prior(prior, "prior")
        n, most = WHOLE.read(self.n, "n"), MAX_AUDIT_N[len(prior)]
        if not 1 <= n <= most:
            raise TooLargeError(f"n={n} must be from 1 to {most} for {len(prior)} values here; {NO_LIMIT}")
        epsilon, options = check_epsilon(self.epsilon), {}
        if self.gamma.strip():
            options["gamma"] = SERIES.read(self.gamma, "gamma")[0]
        if self.delta.strip():
            options["delta"] = str(as_epsilon(self.delta.strip(), "delta"))
        if self.calibration:
            options["calibration"] = self.calibration
            if self.calibration not in ("theorem", "exact"):
                raise InvalidInputError("calibration must be 'theorem' or 'exact'")
        if self.mechanism == "lattice" and len(prior) > 2 and epsilon < MIN_LATTICE_EPSILON:
            raise TooLargeError(
                f"epsilon={self.epsilon!r}: with three values or more this page audits lattice from ε = "
                f"{float(MIN_LATTICE_EPSILON):g} on; {NO_LIMIT}"
            )
        return _AuditArguments(self.mechanism, prior, n, epsilon, tuple(options.items()))

    def result(self) -> Audit:
        """Return the audit; a repeated question is answered from the cache."""
        asked = self.arguments
        with _busy:
            return _audit_page(asked)

    def python(self) -> str:
        name, prior, n, epsilon, options = self.arguments
        extra = "".join(f", {key}={value!r}" for key, value in options)
        return (
            "import discreet\n\n"
            f'm = discreet.mechanism("{name}", prior=({", ".join(map(number_text, prior))}), n={n}, '
            f'epsilon="{epsilon}"{extra})\n'
            "print(discreet.audit(m))\n"
        )

    def command(self) -> str:
        name, prior, n, epsilon, options = self.arguments
        extra = dict(options)
        words = ["discreet", "audit", name, "--prior", ",".join(map(number_text, prior)), "--n", str(n)]
        words += ["--epsilon", str(epsilon)]
        words += ["--delta", extra.pop("delta")] if "delta" in extra else []
        if extra:
            words += ["--options", "; ".join(f"{key}={value}" for key, value in extra.items())]
        return shlex.join(words) + "\n"


@lru_cache(maxsize=64)
def _audit_page(asked: _AuditArguments) -> Audit:
    name, prior, n, epsilon, options = asked
    built = check_options(name, dict(options))(prior=prior, n=n, epsilon=epsilon, **dict(options))
    return audit(built, progress=False)


def add_audit(app: FastAPI, studio: Studio) -> None:
    @app.get("/audit")
    def audit_page(request: Request) -> Response:
        def make(context: dict[str, Any]) -> str:
            question = context["question"] = AuditQuestion.read(request.query_params)
            result = question.result()
            claimed = result.claimed.epsilon if result.claimed.is_private else None
            epsilons, deltas = result.profile(61)
            title = "For every ε the smallest δ with which the mechanism is (ε, δ)-private"
            drawn = curve(epsilons.tolist(), deltas.tolist(), title=title, axes=("ε", "δ(ε)"), marked=claimed)
            context |= {"found": result, "claimed": claimed, "drawn": drawn}
            return question.address()

        sentences = {name: (cls.__doc__ or "").partition("\n")[0] for name, cls in MECHANISMS.items()}
        return studio.attempt(
            request,
            "audit.html",
            make,
            "audit_result.html",
            question=AuditQuestion(),
            limits=MAX_AUDIT_N,
            mechanisms=sentences,
        )


# ---- the gallery of reproduced figures ----------------------------------------------------------------


@dataclass(frozen=True)
class Exhibit:
    """A table or figure that was reproduced, and its pictures."""

    name: str
    paper: str
    title: str
    verdict: str
    images: tuple[str, ...]


def exhibits(folder: Traversable | None) -> list[Exhibit]:
    """Return the exhibits of ``gallery.json`` whose pictures exist; only these pictures are served."""
    if folder is None:
        return []

    def is_there(image: Any) -> bool:
        return bool(_PICTURE.fullmatch(str(image))) and (folder / image).is_file()

    try:
        listed = json.loads((folder / "gallery.json").read_text("utf-8"))
        return [
            Exhibit(
                **{key: str(row[key]) for key in ("name", "paper", "title", "verdict")},
                images=tuple(filter(is_there, row["images"])),
            )
            for row in listed
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def add_evidence(app: FastAPI, studio: Studio) -> None:
    folder = studio.settings.gallery

    @app.get("/evidence")
    def evidence(request: Request) -> Response:
        papers: dict[str, list[Exhibit]] = {}
        for exhibit in exhibits(folder):
            if exhibit.images:
                papers.setdefault(exhibit.paper, []).append(exhibit)
        return studio.page(request, "evidence.html", papers=papers)

    @app.get("/evidence/image/{name}")
    def image(name: str) -> Response:
        if folder is None or not any(name in exhibit.images for exhibit in exhibits(folder)):
            raise HTTPException(404)
        return Response((folder / name).read_bytes(), media_type="image/png")
