"""A page about one mechanism: candidates, distribution, error and sensitivities for counts set by sliders."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import Response

from discreet._reporting.figures import curve
from discreet._studio.forms import Asked, check_epsilon
from discreet._studio.shell import Studio
from discreet.errors import InvalidInputError
from discreet.mechanisms import MECHANISMS, mechanism
from discreet.mechanisms.hellinger.sensitivity import (
    global_sensitivity,
    local_sensitivity,
    smooth_sensitivity,
)
from discreet.planning.candidates import CandidateDistribution, candidate_distribution
from discreet.questions._text import NUMBER, WHOLE

SHOWN = ("ehds", "ehd", "ehdl", "ehdl-calibrated", "lshist", "lszhang", "lsdim", "lattice")


class Slider(NamedTuple):
    """A number that a slider sets."""

    name: str
    label: str
    least: str
    most: str
    step: str


SLIDERS = (
    Slider("first", "Records in the first value", "0", "60", "1"),
    Slider("second", "Records in the second value", "0", "60", "1"),
    Slider("alpha", "Prior of the first value", "0.1", "20", "0.1"),
    Slider("beta", "Prior of the second value", "0.1", "20", "0.1"),
    Slider("epsilon", "Privacy budget ε", "0.1", "5", "0.1"),
)


@dataclass(frozen=True)
class DistributionQuestion(Asked):
    """A mechanism and the positions of the sliders, all as text."""

    path = "/distribution"
    mechanism: str = "ehds"
    first: str = "4"
    second: str = "4"
    alpha: str = "1"
    beta: str = "1"
    epsilon: str = "0.8"

    @property
    def counts(self) -> tuple[int, int]:
        return WHOLE.read(self.first, "first"), WHOLE.read(self.second, "second")

    @property
    def prior(self) -> tuple[float, float]:
        return NUMBER.read(self.alpha, "alpha"), NUMBER.read(self.beta, "beta")

    def result(self) -> CandidateDistribution:
        """Return the distribution, within the ranges of the sliders."""
        if self.mechanism not in SHOWN:
            raise InvalidInputError(f"mechanism must be one of: {', '.join(SHOWN)}")
        check_epsilon(self.epsilon)
        for slider in SLIDERS:
            value = NUMBER.read(getattr(self, slider.name), slider.name)
            if not float(slider.least) <= value <= float(slider.most):
                raise InvalidInputError(
                    f"must be from {slider.least} to {slider.most} here", slider.name, value
                )
        if not sum(self.counts):
            raise InvalidInputError("there must be a record: move one of the first two sliders")
        options = {"calibration": "exact"} if self.mechanism == "ehdl-calibrated" else {}
        built = mechanism(
            self.mechanism, prior=self.prior, n=sum(self.counts), epsilon=self.epsilon, **options
        )
        return candidate_distribution(built, self.counts)

    def sensitivities(self) -> dict[str, float]:
        """Return the papers' three sensitivities of the Hellinger distance at these counts."""
        counts, prior = self.counts, self.prior
        return {
            "local, Δ_l u": local_sensitivity(counts, prior),
            "smooth, S_γ with γ = 1": smooth_sensitivity(counts, prior, gamma=1),
            "global, Δ_g u": global_sensitivity(sum(counts), prior),
        }

    def command(self) -> str:
        words = ["discreet", "distribution", self.mechanism, "--counts", f"{self.first},{self.second}"]
        return shlex.join([*words, "--prior", f"{self.alpha},{self.beta}", "--epsilon", self.epsilon]) + "\n"

    def python(self) -> str:
        return (
            "import discreet\nfrom discreet.planning.candidates import candidate_distribution\n\n"
            f'm = discreet.mechanism("{self.mechanism}", prior={self.prior}, n={sum(self.counts)}, '
            f'epsilon="{self.epsilon}")\nprint(candidate_distribution(m, {self.counts}))\n'
        )


def add_distribution(app: FastAPI, studio: Studio) -> None:
    @app.get("/distribution")
    def distribution_page(request: Request) -> Response:
        def make(context: dict[str, Any]) -> str:
            question = context["question"] = DistributionQuestion.read(request.query_params)
            found = question.result()
            reached = np.minimum(np.cumsum(found.columns[question.mechanism]), 1.0)
            title = "Probability that the released posterior is at most this far from the true one"
            drawn = curve(
                np.repeat(found.distance, 2)[1:].tolist(),
                np.repeat(reached, 2)[:-1].tolist(),
                title=title,
                axes=("Hellinger distance", "probability"),
            )
            context |= {"found": found, "table": found.table(24), "drawn": drawn}
            return question.address()

        sentences = {name: (MECHANISMS[name].__doc__ or "").partition("\n")[0] for name in SHOWN}
        return studio.attempt(
            request,
            "distribution.html",
            make,
            "distribution_result.html",
            question=DistributionQuestion(),
            sliders=SLIDERS,
            mechanisms=sentences,
        )
