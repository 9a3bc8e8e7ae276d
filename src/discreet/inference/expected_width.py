"""How wide the interval of a share will be, the noise of privacy included: for plans, from public parameters.

Planned for is one share, a half unless told otherwise, for which sampling leaves most open. What is made up
is the dataset; what is simulated is the noise; the interval is that of the release, noise-aware.
"""

from __future__ import annotations

import numpy as np

from discreet.distributions.beta_dirichlet import Beta
from discreet.errors import NotPrivateError, TooLargeError
from discreet.inference.add_remove import LogUniform
from discreet.inference.noise_aware import noise_aware
from discreet.mechanisms.base import MAX_SIMULATED_N, Mechanism, simulated_output

DRAWS = 8
"""Widths hardly depend on the noise that was drawn: so few draws give the mean to about one percent."""


def imagined_counts(prior: tuple[float, ...], n: int, share: float) -> tuple[int, ...]:
    """A dataset of n records: ``share`` of them have the first level, the others what the prior expects."""
    first = round(share * n)
    ends = np.rint((n - first) * np.cumsum(prior[1:]) / sum(prior[1:])).astype(object)
    return (first, *(int(b) - int(a) for a, b in zip((0, *ends[:-1]), ends, strict=True)))


def expected_width(
    mechanism: Mechanism,
    n: int,
    missing: int = 0,
    leaves_out: bool = False,
    *,
    share: float = 0.5,
    level: float = 0.95,
    seed: int = 0,
    total_prior: LogUniform | None = None,
) -> float | None:
    """The expected width of the interval of a share of n records; None where the noise has no account.

    ``leaves_out``: the mechanism counts ``missing`` records besides, as its last level.
    """
    if n > MAX_SIMULATED_N:
        raise TooLargeError(f"n={n}: plans are simulated up to n = 2**53")
    counts = imagined_counts(mechanism.prior[:-1] if leaves_out else mechanism.prior, n, share)
    counts += (missing,) * leaves_out
    widths = []
    for draw in range(2 if leaves_out else DRAWS):  # how many were left out takes a second to infer
        try:
            output = simulated_output(mechanism, counts, 1000 * seed + draw)
            law = noise_aware(mechanism, output.counts, output.noisy, total_prior, leaves_out=leaves_out)
            low, high = law.marginal(0).interval(level)
        except (NotPrivateError, TooLargeError):
            return None
        widths.append(float(high) - float(low))
    return float(np.mean(widths))


def width_without(prior: tuple[float, ...], n: int, *, share: float = 0.5, level: float = 0.95) -> float:
    """The width of the same interval without privacy."""
    first, *_ = imagined_counts(prior, n, share)
    low, high = Beta(prior[0] + first, sum(prior[1:]) + n - first).interval(level)
    return float(high) - float(low)
