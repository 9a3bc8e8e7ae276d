"""The exact likelihood of cells with a public total, for arrays of NumPy and of JAX.

With λ = nθ and the cells tilted by e^{sx}, for any s,

    log P(z | θ) = log n!/nⁿ + Σ log Aᵢ − sn + log P_s(S = n),   Aᵢ = Σ_x (λᵢeˢ)ˣ/x! · P(zᵢ | x).

The terms of each cell are listed in a window around the largest, and the distribution of their sum S comes
from one Fourier transform of each cell. The tilt s puts n near the middle of that distribution, so that no
digits are lost. A window ends where the Poisson distribution alone has fallen by e^{−36} from the largest
term; the noise is log-concave.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln

from discreet._numerics.noises import DiscreteLaplace, Laplace, LatticeNoise, Noise
from discreet._typing import FloatArray

_MOST_TABLED_COUNTS = 1 << 22
_MOST_TRANSFORMED_COUNTS = 1 << 24


def until(going: Callable[[Any], Any], step: Callable[[Any], Any], state: Any) -> Any:
    """Run a loop with the interface of ``jax.lax.while_loop``."""
    while going(state):
        state = step(state)
    return state


class Transform:
    """The exact likelihood of noisy cells with values z and a public total."""

    def __init__(self, noise: Noise, z: FloatArray, total: int) -> None:
        self.noise, self.z, self.total = noise, np.asarray(z, dtype=np.float64), total
        self.k, self._scale = len(z), noise.scales(len(z))
        self._half = self._reach(total)
        self._period = 1 << (2 * self._half).bit_length()
        # Some noise is a straight line on both sides of z; of other kinds every count is listed.
        self._straight = type(noise) in (DiscreteLaplace, LatticeNoise, Laplace)

    def _reach(self, count: float) -> int:
        return min(self.total, math.ceil(8.5 * math.sqrt(count)) + 40)

    @property
    def fits(self) -> bool:
        """Whether the windows of one draw fit in memory."""
        tabled = self.total if self._straight else self.k * self.total
        return tabled <= _MOST_TABLED_COUNTS and self.k * self._period <= _MOST_TRANSFORMED_COUNTS

    @cached_property
    def _log_factorial(self) -> FloatArray:
        return np.asarray(gammaln(np.arange(self.total + 2) + 1.0))

    @cached_property
    def _table(self) -> FloatArray:
        """log P(z | x) at x = 0, …, n + 1; only at x = z for noise that is log-linear on both sides."""
        z, scale = self.z[:, None], self._scale[:, None]
        return self.noise.log_prob(z, z if self._straight else np.arange(self.total + 2.0), scale)

    def _log_noise(self, xp: Any, x: Any) -> Any:
        """Return log P(z | x) at counts of shape (…, cells, counts)."""
        if self._straight:
            return self._table - xp.abs(self.z[:, None] - x) / self._scale[:, None]
        return xp.asarray(self._table)[np.arange(self.k)[:, None], x]

    def _largest(self, xp: Any, log_rate: Any, loop: Any) -> Any:
        """Return the count with the largest term of each cell, by bisection."""

        def step(state: Any) -> Any:
            low, high = state
            middle = (low + high) // 2
            more = self._log_noise(xp, middle + 1) - self._log_noise(xp, middle)
            rises = log_rate - xp.log(middle + 1.0) + more > 0
            return xp.where(rises, xp.minimum(middle + 1, high), low), xp.where(rises, high, middle)

        low = xp.zeros(log_rate.shape, dtype=np.int64)
        return loop(lambda state: xp.any(state[0] < state[1]), step, (low, low + self.total))[0]

    def _windows(self, xp: Any, log_rate: Any, loop: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Return for each cell its window's middle, log A, distribution, mean from the middle, and
        variance.
        """
        centre = self._largest(xp, log_rate, loop)
        half = self._reach(float(centre.max())) if xp is np else self._half  # JAX has one shape for all
        away = xp.arange(-half, half + 1)
        factorial = xp.asarray(self._log_factorial)
        x = centre + away
        inside = xp.clip(x, 0, self.total)
        log = inside * log_rate - factorial[inside] + self._log_noise(xp, inside)
        top = centre * log_rate - factorial[centre] + self._log_noise(xp, centre)
        distribution = xp.where(x == inside, xp.exp(log - top), 0.0)
        size = distribution.sum(axis=-1)
        distribution = distribution / size[..., None]
        mean = distribution @ (1.0 * away)
        variance = distribution @ (1.0 * away**2) - mean**2
        return centre[..., 0], top[..., 0] + xp.log(size), distribution, mean, variance

    def both(self, xp: Any, shares: Any, loop: Any = until) -> tuple[Any, Any]:
        """Return log P(z) and E[x | z] at shares that sum to 1 over the last axis."""
        n, total = self.total, float(self.total)
        if n == 0:
            alone = self._log_noise(np, np.zeros((self.k, 1), dtype=np.int64)).sum()
            return alone - self.noise.log_normaliser(self.k) + 0 * shares.sum(axis=-1), 0 * shares
        log_rate = xp.log(xp.maximum(total * shares, 1e-300))[..., None]
        start = xp.zeros(shares.shape[:-1])
        none = xp.zeros(shares.shape)
        distribution = xp.zeros((*shares.shape, 2 * self._half + 1))

        def step(state: Any) -> Any:
            _, s, _, left, _ = state
            windows = self._windows(xp, log_rate + s[..., None, None], loop)
            mean = xp.maximum((windows[0] + windows[3]).sum(axis=-1), 1e-9)
            variance = xp.maximum(windows[4].sum(axis=-1), 1e-9)
            move = xp.clip((math.log(total) - xp.log(mean)) * mean / variance, -2.0, 2.0)
            return s, s + move, xp.abs(mean - total) / xp.sqrt(variance), left - 1, windows

        def going(state: Any) -> Any:
            return (xp.max(state[2]) > 0.5) & (state[3] > 0)

        first = (none.astype(np.int64), none, distribution, none, none)
        s, _, _, _, windows = loop(going, step, (start, start, start + 1.0, 100, first))
        centre, log_size, distribution, _, _ = windows
        half, period = distribution.shape[-1] // 2, self._period
        away = 1.0 * xp.arange(-half, half + 1)
        transforms, moment = (
            xp.fft.rfft(part, period, axis=-1) for part in (distribution, distribution * away)
        )
        # The product without one cell, by what comes before and after: no division.
        ones = xp.ones_like(transforms[..., :1, :])
        before = xp.concatenate([ones, xp.cumprod(transforms[..., :-1, :], axis=-2)], axis=-2)
        after = xp.concatenate([ones, xp.cumprod(xp.flip(transforms[..., 1:, :], -2), axis=-2)], axis=-2)
        frequency = xp.arange(period // 2 + 1)
        place = (n - centre.sum(axis=-1) + self.k * half) % period
        turn = 2 * math.pi / period * ((frequency * place[..., None]) % period)
        twice = np.where((np.arange(period // 2 + 1) % (period // 2)) == 0, 1.0, 2.0) / period
        others = before * xp.flip(after, -2) * (xp.exp(1j * turn) * twice)[..., None, :]
        hit = (others[..., 0, :] * transforms[..., 0, :]).real.sum(axis=-1)
        means = centre + (others * moment).real.sum(axis=-1) / hit[..., None]
        constant = math.lgamma(n + 1) - n * math.log(n) - self.noise.log_normaliser(self.k)
        return constant + log_size.sum(axis=-1) - s * total + xp.log(hit), means
