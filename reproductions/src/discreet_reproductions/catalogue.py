"""Every experiment by name. Nothing is imported until it runs, so that listing them is quick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from discreet.errors import InvalidInputError

if TYPE_CHECKING:
    from discreet_reproductions.report import Outcome
    from discreet_reproductions.running import Run

__all__ = ["EXPERIMENTS", "PAPERS", "Experiment", "chosen"]

PAPERS = {
    "a": "A, Differentially Private Bayesian Inference: six mechanisms and their accuracy",
    "b": "B, Notes of DP – Bayesian Inference: the exponential mechanism with three sensitivities",
    "c": "C, Rényi Differential Privacy Mechanisms for Posterior Sampling (Geumlek, Song and Chaudhuri 2017)",
    "d": "D, Notes of DP – Bayesian Inference and Differentially Private Bayesian Inference, earlier notes: "
    "local sensitivity, sliding and dilation",
    "beyond": "Beyond the papers",
}


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper: its name, what it shows, and the function that makes it."""

    name: str
    title: str
    function: str
    needs: tuple[str, ...] = ()
    takes_data: bool = False

    @property
    def paper(self) -> str:
        """The key of its paper."""
        return self.name.split("-")[0]

    def make(self, run: Run) -> Outcome:
        """Measure it."""
        module, name = self.function.split(":")
        function = getattr(import_module(f"discreet_reproductions.{module}"), name)
        return cast("Callable[[Run], Outcome]", function)(run)


EXPERIMENTS = (
    Experiment(
        "a-theorem", "Theorem 4.5: four bounds against exact probabilities", "paper_a.theorem:theorem"
    ),
    Experiment("a-lower", "Theorem 4.5: a lower bound for EHDL that stays", "paper_a.lower:lower"),
    Experiment(
        "a-corollaries", "Corollaries 4.5.1–4.5.3: when LSHist beats EHD", "paper_a.corollaries:corollaries"
    ),
    Experiment(
        "a-optimality", "Theorems 4.1, 4.3 and 4.4: the error of LSHist", "paper_a.optimality:optimality"
    ),
    Experiment("a-utility", "The utility table at the end", "paper_a.utility:utility"),
    Experiment("a-mechanisms", "Six mechanisms side by side", "paper_a.comparison:mechanisms"),
    Experiment("a-lines", "Theorem 3.1, Corollary 4.4.1 and the limit of LS", "paper_a.lines:lines"),
    Experiment("b-tables", "The two tables of §3.4.1", "paper_b.tables:tables"),
    Experiment("b-lines", "Single lines of §1, §3.1 and §3.4", "paper_b.lines:lines"),
    Experiment("b-bounds", "The accuracy bounds of §3.3 and the exact tail", "paper_b.bounds:bounds"),
    Experiment("b-figure1", "Figure 1: local sensitivity of Beta", "paper_b.sensitivity:figure1"),
    Experiment("b-figure2", "Figure 2: where local sensitivity is attained", "paper_b.sensitivity:figure2"),
    Experiment("b-figure3", "Figure 3: accuracy, Beta(7, 4), n = 500 and 300", "paper_b.accuracy:figure3"),
    Experiment("b-figure4", "Figure 4: accuracy, Dir(7, 4, 5), n = 100 and 120", "paper_b.accuracy:figure4"),
    Experiment(
        "b-figure5",
        "Figure 5: accuracy by Hellinger and ℓ₁, n = 150",
        "paper_b.accuracy:figure5",
    ),
    Experiment(
        "b-figure6", "Figure 6: accuracy and the size of the data", "paper_b.size_and_dimension:figure6"
    ),
    Experiment("b-sizes", "§3.4.1, §4.2 and §4.3.1 over all sizes", "paper_b.sizes:sizes"),
    Experiment("b-figure7", "Figure 7: accuracy and the dimension", "paper_b.size_and_dimension:figure7"),
    Experiment(
        "b-figure8", "Figure 8: accuracy and the variance of the data", "paper_b.variance_and_prior:figure8"
    ),
    Experiment("b-figure9", "Figure 9: accuracy and the prior", "paper_b.variance_and_prior:figure9"),
    Experiment(
        "b-figure10", "Figure 10: accuracy, prior and variance", "paper_b.variance_and_prior:figure10"
    ),
    Experiment("b-figure11", "Figure 11: concrete privacy loss", "paper_b.privacy:figure11"),
    Experiment("b-lemma", "Lemma 2.3: refuted for many levels, open for two", "paper_b.lemma:lemma"),
    Experiment("b-calibrated", "The next step: M_β calibrated exactly", "paper_b.calibrated:calibrated"),
    Experiment("c-figure1", "Figure 1: posterior sampling, Beta(6, 12)", "paper_c.figures:experiment1"),
    Experiment("c-figure2", "Figure 2: posterior sampling, Beta(1, 1)", "paper_c.figures:experiment2"),
    Experiment(
        "c-figures34",
        "Figures 3 and 4: logistic regression",
        "paper_c.regression:experiment",
        ("sklearn",),
        takes_data=True,
    ),
    Experiment(
        "c-prior",
        "Figures 3 and 4 as the prior varies",
        "paper_c.priors:experiment",
        ("sklearn",),
        takes_data=True,
    ),
    Experiment("c-tightness", "Lemma 3: how tight the Rényi bound is", "paper_c.tightness:tightness"),
    Experiment(
        "c-scalings", "A.11, A.13: scalings of the proofs; A.2: a breach", "paper_c.scalings:scalings"
    ),
    Experiment("c-lemmas", "Lemmas and single lines of A.4 to A.7", "paper_c.lemmas:lemmas"),
    Experiment("d-statements", "Statements I–III for all n ≤ 500", "paper_d.propositions:statements"),
    Experiment("d-local", "EHDL is not private: a witness", "paper_d.local:local"),
    Experiment("d-dilation", "The sliding and dilation lemmas", "paper_d.dilation:lemmas"),
    Experiment(
        "beyond-limit",
        "B's settings with the lattice mechanism, exact calibration and the limit",
        "beyond.limit:limit",
    ),
    Experiment("beyond-boxes", "Six mechanisms over n, k, variance and prior", "beyond.boxes:boxes"),
    Experiment(
        "beyond-study",
        "Every mechanism on real columns",
        "beyond.study:study",
        ("sklearn",),
        takes_data=True,
    ),
)


def chosen(names: list[str]) -> tuple[Experiment, ...]:
    """The experiments of these names; ``all`` is all, and a paper's letter is all of that paper."""
    known = {e.name for e in EXPERIMENTS} | set(PAPERS) | {"all"}
    for name in names:
        if name not in known:
            raise InvalidInputError(
                f"experiment {name!r} is unknown; 'discreet reproduce list' shows the names, and 'all' or "
                f"the letter of a paper ({', '.join(PAPERS)}) takes several"
            )
    wanted = set(names)
    return tuple(e for e in EXPERIMENTS if wanted & {"all", e.paper, e.name})
