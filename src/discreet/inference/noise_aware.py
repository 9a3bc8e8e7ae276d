"""Posteriors that account for the noise: p(θ | released) = Σ_x π(x | released) Dir(θ | α + x).

π(x | released) ∝ DirMult(x; α, n) · P(released | x) is the exact posterior of the true counts. Where the
noise is independent over the categories, or the lattice's, π is separable and its marginals come from
convolutions; where it is not, π is enumerated. No sampling, no normal approximation. The plug-in posterior
Dir(α + released) takes the released counts for the truth, and its intervals are too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.distributions.noise_aware import NoiseAware
from discreet.errors import NotPrivateError
from discreet.inference.add_remove import AddRemovePosterior, LogUniform
from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.independent import IndependentNoise


def noise_aware(
    mechanism: Mechanism,
    counts: Sequence[int],
    noisy: Sequence[int] | None,
    total_prior: LogUniform | None = None,
) -> NoiseAware | AddRemovePosterior:
    """The posterior given what ``mechanism`` released: ``counts``, and ``noisy`` where it keeps them.

    Where n is private it is inferred too, from ``total_prior`` or what noise of this size suggests.
    """
    if not mechanism.guarantee.is_private:
        raise NotPrivateError(
            f"{mechanism.name} is not private, so its output is no private release to infer from"
        )
    if isinstance(mechanism, IndependentNoise) and not mechanism.n and noisy is not None:
        return AddRemovePosterior(noisy, mechanism.prior, noise=mechanism.noise, total_prior=total_prior)
    law = mechanism.true_counts(tuple(counts), None if noisy is None else tuple(noisy))
    return NoiseAware(mechanism.prior, mechanism.n, law)
