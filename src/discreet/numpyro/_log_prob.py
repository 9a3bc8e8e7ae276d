"""log P(noisy counts) as differentiable JAX functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from discreet._inference._likelihoods import bridging
from discreet._inference._likelihoods.kinds import Likelihood, NoisyCells
from discreet._inference._likelihoods.models import Multinomial
from discreet._numerics.noises import Noise
from discreet.distributions.mixture_likelihood import MixtureLikelihood
from discreet.errors import missing_extra

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    raise missing_extra("NumPyro", "numpyro") from None

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]

Array = Any
ValueAndSlope = Callable[[Any, Any], tuple[Any, Any]]
"""(z, parameter) ↦ log P(z) and its derivative with respect to the parameter."""


def differentiable(value_and_slope: ValueAndSlope, z: Array, parameter: Array, summed_axes: int = 0) -> Array:
    """Return log P(z) as a JAX function with a given derivative, summed over the last ``summed_axes``
    axes."""

    @jax.custom_jvp
    def log_prob(z: Array, parameter: Array) -> Array:
        return value_and_slope(z, parameter)[0]

    @log_prob.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        value, slope = value_and_slope(*primals)
        moved = slope * tangents[1]
        return value, moved.sum(axis=-1) if summed_axes else moved

    return log_prob(z, parameter)


def on_host(function: Callable[..., Any], shapes: Any, *arrays: Array, each: bool = False) -> Any:
    """Return the arrays, of known shapes, that a NumPy function computes on the host."""
    kinds = [jax.ShapeDtypeStruct(tuple(shape), jnp.float64) for shape in shapes]  # type: ignore[no-untyped-call]

    def call(*values: Any) -> Any:
        return [np.asarray(result, dtype=np.float64) for result in function(*values)]

    method = "sequential" if each else "broadcast_all"
    return jax.pure_callback(call, kinds, *arrays, vmap_method=method)


def as_concrete(value: Any) -> Any:
    """Return a value as a NumPy array; None where JAX traces it."""
    return None if isinstance(value, jax.core.Tracer) else np.asarray(value, dtype=np.float64)


def independent_cells(noise: Noise, value: Any, parameter: Array, size: Any = None) -> Array:
    """Return log P of independent cells: looked up where the values are concrete, else summed by NumPy."""
    observed = as_concrete(value)
    if observed is not None:
        noise.check(observed)

    def value_and_slope(z: Array, p: Array) -> tuple[Array, Array]:
        if observed is not None:
            return bridging.looked_up(jnp, noise, observed, p, size)
        z, p = jnp.broadcast_arrays(z, p)
        value, slope = on_host(lambda *cells: bridging.sum_log_prob(noise, *cells, size), [z.shape] * 2, z, p)
        return value, slope

    return differentiable(value_and_slope, jnp.asarray(value, dtype=jnp.float64), parameter)


def cells_of_total(noise: Noise, value: Any, probs: Array, total: int) -> Array:
    """Return log P of cells whose true counts sum to a public total."""
    z = jnp.asarray(value, dtype=jnp.float64)
    # Parameters are normalised here, so that the gradient includes the normalisation.
    shares = probs / probs.sum(axis=-1, keepdims=True)
    observed = as_concrete(value)

    def exact(z: Array, shares: Array) -> tuple[Array, Array]:
        z, shares = jnp.broadcast_arrays(z, shares)
        shapes = [z.shape[:-1], z.shape]
        value, means = on_host(lambda *a: bridging.exact_totals(noise, *a, total), shapes, z, shares)
        return value, means

    def value_and_slope(z: Array, shares: Array) -> tuple[Array, Array]:
        if observed is None or observed.ndim != 1:
            value, means = exact(z, shares)
        else:
            loop = jax.lax.while_loop
            value, means = bridging.totals(jnp, noise, observed, shares, total, loop, exact)
        return value, means / jnp.maximum(shares, 1e-300)

    if observed is not None:
        NoisyCells(observed.reshape(-1, observed.shape[-1])[0], noise, Multinomial(total))
    return differentiable(value_and_slope, z, shares, summed_axes=1)


def log_likelihood(likelihood: Likelihood | MixtureLikelihood, parameters: Any) -> Array:
    """Return the log-likelihood of parameters, for any kind of likelihood."""
    if isinstance(likelihood, MixtureLikelihood):
        array = jnp.reshape(jnp.asarray(parameters, dtype=jnp.float64), (likelihood.k,))
        return jax.scipy.special.logsumexp(likelihood.terms(array, jnp))

    def on_numpy(_: Any, parameters: Any) -> tuple[Any, Any]:
        return likelihood.log_prob(parameters), likelihood.gradient(parameters)

    def value_and_slope(z: Array, parameters: Array) -> tuple[Array, Array]:
        value, slope = on_host(on_numpy, [parameters.shape[:-1], parameters.shape], z, parameters)
        return value, slope

    array = jnp.asarray(parameters, dtype=jnp.float64)
    return differentiable(value_and_slope, jnp.zeros(likelihood.k), array, summed_axes=1)


def simulate(
    draw: Callable[[Any, np.random.Generator], Any], key: Any, shape: tuple[int, ...], parameter: Array
) -> Array:
    """Return draws that a NumPy function makes at a parameter, with a generator seeded by a JAX key."""

    def draw_from_key(key: Array, parameter: Array) -> Any:
        seed = np.asarray(key, dtype=np.uint64).ravel() @ np.array([1, 1 << 32], dtype=np.uint64)
        return [draw(np.asarray(parameter), np.random.default_rng(int(seed)))]

    raw = key if jnp.issubdtype(key.dtype, jnp.integer) else jax.random.key_data(key)
    return on_host(draw_from_key, [shape], raw, parameter, each=True)[0]
