"""NumPyro distributions of noisy counts: what a private release says, inside any model.

    def model():
        rate = numpyro.sample("rate", dist.Gamma(2.0, 0.1).expand([k]).to_event(1))
        numpyro.sample("z", discreet.numpyro.NoisyPoisson(rate, ("geometric", 0.5)), obs=values)

True counts are summed out, so every parameter stays continuous and NUTS applies. A cell's sum is taken over a
window around its largest term, of whole numbers where they are few and by Gauss–Legendre panels with
Euler–Maclaurin ends where they are many: all in JAX, of one static size (jit, vmap, grad of any order). Noise
that is clamped or rounded, and a public total, call the NumPy engine instead (jit, vmap, first derivatives).

Importing this module turns on JAX's 64-bit numbers: with 32 bits these sums have no digits left.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from discreet.declarations import as_integer
from discreet.errors import InvalidInput, missing_extra
from discreet.inference.likelihoods import bridging
from discreet.inference.likelihoods.kinds import Likelihood, NoisyCells
from discreet.inference.likelihoods.models import Multinomial
from discreet.inference.likelihoods.noises import (
    DiscreteGaussian,
    DiscreteLaplace,
    FloorLaplace,
    Gaussian,
    Laplace,
    Noise,
    log1mexp,
    log_theta,
)
from discreet.inference.published import as_noise

try:
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.distributions import constraints
except ImportError:
    raise missing_extra("NumPyro", "numpyro") from None

__all__ = ["NoisyBinomial", "NoisyMultinomial", "NoisyPoisson", "observe"]

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]

Array = Any
_TAIL = 40.0  # nats below the largest term at which a window ends
_NODES = 128
_HALF_LOG_2PI = 0.9189385332046728
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_MIDPOINT = (-1 / 24, 7 / 5760, -31 / 967680, 127 / 154828800)
_X, _W = np.polynomial.legendre.leggauss(_NODES)


def _excess(x: Array) -> Array:
    """log Γ(x+1) − x log x + x."""
    low = x < 16
    up = jnp.where(low, x + 16, x)
    inverse = 1 / up
    series = jnp.zeros_like(up)
    for coefficient in reversed(_STIRLING):
        series = series * inverse**2 + coefficient
    result = series * inverse + 0.5 * jnp.log(up) + _HALF_LOG_2PI
    few = jnp.where(low, x, 0.0)
    safe = jnp.where(few > 0, few, 1.0)
    product = jnp.ones_like(few)
    for i in range(1, 17):
        product = product * (few + i)
    shifted = result + up * jnp.log(up) - up - jnp.log(product) - few * jnp.log(safe) + few
    return jnp.where(low, shifted, result)


def _deviance(x: Array, mean: Array) -> Array:
    """x log(x/mean) + mean − x."""
    gap = x - mean
    ratio = gap / mean
    near = jnp.abs(ratio) < 0.5
    log_ratio = jnp.where(
        near, jnp.log1p(jnp.where(near, ratio, 0.0)), jnp.log(jnp.maximum(x, 1e-300)) - jnp.log(mean)
    )
    return jnp.where(x <= 0, mean, x * log_ratio - gap)


def _native(noise: Noise) -> bool:
    return type(noise) in (DiscreteLaplace, Laplace, FloorLaplace, Gaussian, DiscreteGaussian)


def _window_sum(noise: Noise, z: Array, eta: Array, mean: Array, rest: Array, size: Array | None) -> Array:
    """log Σ_x P(x)·P(z | x). ``eta`` carries the gradient: log rate or logit; the others are constants.

    P(x) is Poisson of rate ``mean`` or, with a ``size``, binomial of means ``mean`` and ``rest``. With
    δ = eta − stop_gradient(eta), terms are P(x)e^{xδ} over Σ P(x)e^{xδ}: exact in derivatives of any order.
    """
    scale = jnp.asarray(noise.scale)
    shape = jnp.broadcast_shapes(z.shape, eta.shape, scale.shape, () if size is None else size.shape)
    z, eta, mean, rest, scale = (jnp.broadcast_to(a, shape) for a in (z, eta, mean, rest, scale))
    delta = eta - jax.lax.stop_gradient(eta)
    eta = jax.lax.stop_gradient(eta)
    upper = jnp.full(shape, jnp.inf) if size is None else jnp.broadcast_to(size, shape)

    def law(x: Array) -> Array:
        value = -_deviance(x, mean[..., None]) - _excess(x)
        if size is None:
            return value
        n = upper[..., None]
        other = jnp.maximum(n - x, 0.0)
        return value + _excess(n) - _excess(other) - _deviance(other, rest[..., None])

    def climbing(x: Array) -> Array:
        """log P(x+1)/P(x)."""
        step = eta - jnp.log(jnp.maximum(x, -0.5) + 1)
        return step if size is None else step + jnp.log(jnp.maximum(upper - x, 1e-9))

    def slopes(x: Array) -> tuple[Array, Array, Array]:
        """The first three derivatives of log P at x far from the ends."""
        x = jnp.maximum(x, 8.0)
        i = 1 / x
        own = (-jnp.log(x) - i / 2 + i**2 / 12 - i**4 / 120, -i + i**2 / 2 - i**3 / 6, i**2 - i**3)
        if size is None:
            return eta + own[0], own[1], own[2]
        y = jnp.maximum(upper - x, 8.0)
        j = 1 / y
        return (
            eta + own[0] + jnp.log(y) + j / 2 - j**2 / 12 + j**4 / 120,
            own[1] - j + j**2 / 2 - j**3 / 6,
            own[2] - j**2 + j**3,
        )

    def mode(tilt: Array) -> Array:
        if size is None:
            return mean * jnp.exp(tilt)
        odds = mean * jnp.exp(jnp.minimum(tilt, 700.0))
        return (upper + 1) * odds / (odds + rest)

    if isinstance(noise, Gaussian | DiscreteGaussian):
        low, high = jnp.minimum(mode(jnp.zeros(shape)), z), jnp.maximum(mode(jnp.zeros(shape)), z)
        low, high = jnp.clip(low, 0, upper), jnp.clip(high, 0, upper) + 1

        def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = (ends[0] + ends[1]) / 2
            up = climbing(middle) + (z - middle - 0.5) / scale**2 > 0
            return jnp.where(up, middle, ends[0]), jnp.where(up, ends[1], middle)

        low, high = jax.lax.fori_loop(0, 60, halve, (low, high))
        peak = jnp.clip(jnp.rint(low), 0, upper)
        constant = jnp.asarray(
            -np.log(noise.scale) - _HALF_LOG_2PI if isinstance(noise, Gaussian) else -log_theta(noise.scale)
        )

        def bent(x: Array, at: Array) -> Array:
            return (x - at) * (2 * z[..., None] - x - at) / (2 * scale[..., None] ** 2)

        bell = (jnp.sqrt(2 * _TAIL) * scale, bent, -0.5 * ((z - peak) / scale) ** 2)
        sides: list[Any] = [(peak, jnp.zeros(shape), upper, None, *bell)]
    else:
        shift = 1.0 if isinstance(noise, FloorLaplace) else 0.0
        last = jnp.floor(z)  # the largest count on the near side of the kink
        left, right = jnp.minimum(last, upper), jnp.maximum(last + 1, 0.0)
        level = np.log(2.0) - log1mexp(1 / noise.scale) if shift else np.log(2 * noise.scale)
        if isinstance(noise, DiscreteLaplace):
            level = np.log1p(np.exp(-1 / noise.scale)) - log1mexp(1 / noise.scale)
        constant = -jnp.asarray(level)
        far = jnp.full(shape, jnp.inf)
        near = jnp.clip(jnp.floor(mode(1 / scale)), 0, jnp.maximum(left, 0.0))
        over = jnp.clip(jnp.floor(mode(-1 / scale)), jnp.minimum(right, upper), upper)

        def rising(x: Array, at: Array) -> Array:
            return (x - at) / scale[..., None]

        def falling(x: Array, at: Array) -> Array:
            return (at - x) / scale[..., None]

        sides = [
            (near, jnp.zeros(shape), left, 1 / scale, far, rising, (near - z) / scale),
            (over, right, upper, -1 / scale, far, falling, (z + shift - over) / scale),
        ]

    def one_side(
        peak: Array,
        first: Array,
        last: Array,
        tilt: Array,
        bound: Array,
        decay: Callable[[Array, Array], Array],
        offset: Array,
    ) -> Array:
        # Outward falls: by slope, by the curvature of the law (Bernstein), by that of the noise.
        by_slope = [jnp.full(shape, jnp.inf)] * 2
        if tilt is not None:
            falls = (climbing(peak - 1) + tilt, -climbing(peak) - tilt)
            by_slope = [jnp.where(s > 1e-12, _TAIL / jnp.maximum(s, 1e-12), jnp.inf) for s in falls]
        below = jnp.sqrt(2 * _TAIL * peak) + 1
        above = _TAIL / 3 + jnp.sqrt(_TAIL**2 / 9 + 2 * _TAIL * peak) + 1
        if size is not None:
            other = jnp.maximum(upper - peak, 0.0)
            above = jnp.minimum(above, jnp.sqrt(2 * _TAIL * other) + 1)
            below = jnp.minimum(below, _TAIL / 3 + jnp.sqrt(_TAIL**2 / 9 + 2 * _TAIL * other) + 1)
        low = jnp.maximum(jnp.floor(peak - jnp.minimum(jnp.minimum(below, by_slope[0]), bound) - 2), first)
        high = jnp.minimum(jnp.ceil(peak + jnp.minimum(jnp.minimum(above, by_slope[1]), bound) + 2), last)
        empty = first > last
        low, high = jnp.where(empty, 0.0, low), jnp.where(empty, 0.0, high)
        width = high - low + 1
        listed = width <= _NODES
        plain = low[..., None] + jnp.arange(_NODES)
        nodes = low[..., None] - 0.5 + width[..., None] * (0.5 + 0.5 * _X)
        x = jnp.where(listed[..., None], jnp.minimum(plain, high[..., None]), nodes)
        weight = jnp.where(listed[..., None], plain <= high[..., None], 0.5 * _W * width[..., None])
        ends = jnp.stack([low - 0.5, high + 0.5], axis=-1)
        x = jnp.concatenate([x, jnp.where(listed[..., None], high[..., None], ends)], axis=-1)
        factors = []
        for end, sign in ((low - 0.5, -1.0), (high + 0.5, 1.0)):
            f1, f2, f3 = slopes(end)
            f1 = f1 + (0.0 if tilt is None else tilt) + delta
            third = f1**3 + 3 * f1 * f2 + f3
            fifth = f1**5 + 10 * f1**3 * f2 + 15 * f1 * f2**2 + 10 * f1**2 * f3
            orders = (f1, third, fifth, f1**7 + 21 * f1**5 * f2)
            total = sum(c * d for c, d in zip(_MIDPOINT, orders, strict=True))
            # A bell ends where its terms vanish, and its own slope is not in these.
            factors.append(jnp.where(listed | (tilt is None), 0.0, sign * total))
        weight = jnp.concatenate([weight, jnp.stack(factors, axis=-1)], axis=-1)
        weight = jnp.where(empty[..., None], 0.0, weight)
        # Relative to the peak: z/scale itself may be too large for the digits that count.
        terms = law(x) + decay(x, peak[..., None]) + (x - mean[..., None]) * delta[..., None]
        terms = jnp.where(weight != 0, terms, -jnp.inf)
        top = jax.lax.stop_gradient(jnp.max(terms, axis=-1))
        top = jnp.where(jnp.isfinite(top), top, 0.0)
        inner = jnp.sum(weight * jnp.exp(jnp.where(weight != 0, terms - top[..., None], 0.0)), axis=-1)
        return jnp.where(empty, -jnp.inf, jnp.log(jnp.where(empty, 1.0, inner)) + top + offset)

    found = [one_side(*side) for side in sides]
    value = found[0] if len(found) == 1 else jnp.logaddexp(*found)
    if size is None:
        drift = mean * (jnp.expm1(delta) - delta)
    else:
        share = mean / jnp.maximum(upper, 1.0)
        drift = upper * (jnp.log1p(share * jnp.expm1(delta)) - share * delta)
    return value - drift + constant


def _key_seed(key: Array) -> int:
    return int(np.asarray(key, dtype=np.uint64).ravel() @ np.array([1, 1 << 32], dtype=np.uint64))


def _host(function: Callable[..., Any], shape: Any, *arrays: Array, each: bool = False) -> Array:
    result = jax.ShapeDtypeStruct(tuple(shape), jnp.float64)  # type: ignore[no-untyped-call]
    method = "sequential" if each else "broadcast_all"
    return jax.pure_callback(lambda *a: np.asarray(function(*a), dtype=np.float64), result, *arrays,
                             vmap_method=method)  # fmt: skip


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _hosted(value: Any, means: Any, whole: bool, z: Array, parameter: Array) -> Array:
    """A log-probability from the NumPy engine; ``means`` is its derivative by the parameter's logarithm."""
    shape = jnp.broadcast_shapes(z.shape, parameter.shape)
    z, parameter = jnp.broadcast_to(z, shape), jnp.broadcast_to(parameter, shape)
    return _host(value, shape[:-1] if whole else shape, z, parameter)


@_hosted.defjvp
def _hosted_jvp(value: Any, means: Any, whole: bool, primals: Any, tangents: Any) -> Any:
    z, parameter = primals
    shape = jnp.broadcast_shapes(z.shape, parameter.shape)
    z, parameter = jnp.broadcast_to(z, shape), jnp.broadcast_to(parameter, shape)
    slope = _host(means, shape, z, parameter) / jnp.maximum(parameter, 1e-300)
    moved = slope * jnp.broadcast_to(tangents[1], shape)
    return _hosted(value, means, whole, z, parameter), moved.sum(axis=-1) if whole else moved


class _NoisyCounts(dist.Distribution):  # type: ignore[misc]
    noise: Noise

    @property
    def support(self) -> Any:
        return constraints.real  # whole numbers of any sign under integer noise

    is_discrete = True

    def _simulate(self, key: Array, sample_shape: tuple[int, ...], parameter: Array) -> Array:
        shape = self.shape(sample_shape)

        def draw(seed: Array, given: Array) -> Any:
            rng = np.random.default_rng(_key_seed(seed))
            return bridging.simulated(self.noise, self._counts(np.asarray(given), shape, rng), rng)

        raw = key if jnp.issubdtype(key.dtype, jnp.integer) else jax.random.key_data(key)
        return _host(draw, shape, raw, parameter, each=True)

    def _counts(self, given: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        raise NotImplementedError


class NoisyPoisson(_NoisyCounts):
    """Poisson counts of ``rate`` with independent ``noise``: log P(z) with the true count summed out.

    ``noise`` is what :func:`discreet.noisy_counts` takes, such as ``("geometric", epsilon)``.
    """

    arg_constraints = {"rate": constraints.nonnegative}  # noqa: RUF012
    pytree_data_fields = ("rate",)
    pytree_aux_fields = ("noise",)

    def __init__(self, rate: Any, noise: Any, *, validate_args: bool | None = None) -> None:
        self.noise = bridging.independent(as_noise(noise))
        shape = jnp.broadcast_shapes(jnp.shape(rate), self.noise.scale.shape)
        self.rate = jnp.broadcast_to(jnp.asarray(rate, dtype=jnp.float64), shape)
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        z = jnp.asarray(value, dtype=jnp.float64)
        if not _native(self.noise):
            return _hosted(*_engine(self.noise, None), False, z, self.rate) - self._carry(z)
        rate = jnp.maximum(self.rate, 1e-300)
        mean = jax.lax.stop_gradient(rate)
        return _window_sum(self.noise, z, jnp.log(rate), mean, mean, None)

    def _carry(self, z: Array) -> Array:
        """The engine's slope is E[x]/rate; the law's own −rate is differentiated here, and is 0."""
        return jnp.broadcast_to(self.rate - jax.lax.stop_gradient(self.rate), jnp.broadcast_shapes(
            z.shape, self.rate.shape))  # fmt: skip

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        return self._simulate(key, sample_shape, self.rate)

    def _counts(self, given: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        return rng.poisson(given, shape)


class NoisyBinomial(_NoisyCounts):
    """Binomial counts of public sizes ``total`` with independent ``noise``."""

    arg_constraints = {"probs": constraints.unit_interval}  # noqa: RUF012
    pytree_data_fields = ("probs", "total")
    pytree_aux_fields = ("noise",)

    def __init__(self, total: Any, probs: Any, noise: Any, *, validate_args: bool | None = None) -> None:
        self.noise = bridging.independent(as_noise(noise))
        self.total = np.asarray(total, dtype=np.float64)
        if not np.all(np.isfinite(self.total) & (self.total >= 0) & (self.total == np.floor(self.total))):
            raise InvalidInput("total must hold whole numbers that are not negative")
        shape = jnp.broadcast_shapes(jnp.shape(probs), self.total.shape, self.noise.scale.shape)
        self.probs = jnp.broadcast_to(jnp.asarray(probs, dtype=jnp.float64), shape)
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        z = jnp.asarray(value, dtype=jnp.float64)
        p = jnp.clip(self.probs, 1e-300, 1 - 1e-16)
        still = jax.lax.stop_gradient(p)
        if not _native(self.noise):
            logit = jnp.log(p) - jnp.log1p(-p)
            moving = jax.lax.stop_gradient(p) * jnp.exp(logit - jax.lax.stop_gradient(logit))
            gap = logit - jax.lax.stop_gradient(logit)
            found = _hosted(*_engine(self.noise, self.total), False, z, moving)
            return found - self.total * still * gap
        size = jnp.asarray(self.total)
        logit = jnp.log(p) - jnp.log1p(-p)
        some = jnp.maximum(size, 1e-300)
        return _window_sum(self.noise, z, logit, some * still, some * (1 - still), size)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        return self._simulate(key, sample_shape, self.probs)

    def _counts(self, given: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        return rng.binomial(self.total.astype(np.int64), given, shape)


class NoisyMultinomial(_NoisyCounts):
    """Counts of a public ``total`` with shares ``probs`` and any ``noise``, lattice noise included."""

    arg_constraints = {"probs": constraints.simplex}  # noqa: RUF012
    pytree_data_fields = ("probs",)
    pytree_aux_fields = ("total", "noise")

    def __init__(self, total: Any, probs: Any, noise: Any, *, validate_args: bool | None = None) -> None:
        self.noise = as_noise(noise)
        self.total = Multinomial(as_integer(total, "total")).total
        self.probs = jnp.asarray(probs, dtype=jnp.float64)
        if self.probs.ndim < 1:
            raise InvalidInput("probs must have the cells on its last axis")
        super().__init__(
            batch_shape=self.probs.shape[:-1], event_shape=self.probs.shape[-1:], validate_args=validate_args
        )

    @property
    def support(self) -> Any:
        return constraints.real_vector

    def log_prob(self, value: Any) -> Array:
        z = jnp.asarray(value, dtype=jnp.float64)
        # The engine normalises the shares; so does this, or the gradient would not know.
        shares = self.probs / self.probs.sum(axis=-1, keepdims=True)
        return _hosted(*_multinomial_engine(self.noise, self.total), True, z, shares)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        return self._simulate(key, sample_shape, self.probs)

    def _counts(self, given: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        return rng.multinomial(self.total, given / given.sum(axis=-1, keepdims=True), shape[:-1])


def _engine(noise: Noise, size: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return (
        lambda z, mean: bridging.cell_log_prob(noise, z, mean, size),
        lambda z, mean: bridging.cell_means(noise, z, mean, size),
    )


def _multinomial_engine(noise: Noise, total: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return (
        lambda z, shares: bridging.total_log_prob(noise, z, shares, total),
        lambda z, shares: bridging.total_means(noise, z, shares, total),
    )


def observe(likelihood: Likelihood) -> Callable[..., Any]:
    """A statement for a model: ``observe(release.likelihood())(shares)`` says what was published.

    It takes shares where the total is public and rates where it is not, and a ``name``.
    """

    def statement(parameters: Any, name: str = "published") -> Any:
        if isinstance(likelihood, NoisyCells) and likelihood.model.name in ("multinomial", "Poisson"):
            total = likelihood.model.total
            law = (
                NoisyPoisson(parameters, likelihood.noise).to_event(1)
                if total is None
                else NoisyMultinomial(total, parameters, likelihood.noise)
            )
            return numpyro.sample(name, law, obs=likelihood.values)
        array = jnp.asarray(parameters, dtype=jnp.float64)
        pair = (lambda _, p: likelihood.log_prob(p), lambda _, p: likelihood.expected_counts(p))
        value = _hosted(*pair, True, jnp.zeros(likelihood.k), array)
        return numpyro.factor(name, value)

    return statement
