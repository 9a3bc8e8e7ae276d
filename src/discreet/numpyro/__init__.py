"""NumPyro distributions of noisy counts: what a private release says, inside any model.

    def model():
        rate = numpyro.sample("rate", dist.Gamma(2.0, 0.1).expand([k]).to_event(1))
        numpyro.sample("z", discreet.numpyro.NoisyPoisson(rate, ("geometric", 0.5)), obs=values)

True counts are summed out, so every parameter stays continuous and NUTS applies. Observed values are tabled
once, when a model is first traced, and looked up in JAX from then on (jit, vmap, grad): any noise costs about
what a Poisson density costs. A public total takes a saddle-point expansion whose error is below 1e-8, or, for
few cells, the transform of their sum, in JAX too. Values that JAX traces are summed by the NumPy engine.

Importing this module turns on JAX's 64-bit numbers: with 32 bits these sums have no digits left.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from discreet._declarations import as_integer
from discreet._inference._likelihoods import bridging
from discreet._inference._likelihoods.kinds import Likelihood, NoisyCells
from discreet._inference._likelihoods.models import Binomial, Multinomial
from discreet._inference.published import as_noise
from discreet._numerics.noises import Noise
from discreet.errors import InvalidInputError, missing_extra

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
Both = Callable[[Any, Any], tuple[Any, Any]]
"""(z, parameter) ↦ log P(z) and its derivative by the parameter."""


def _differentiable(both: Both, z: Array, parameter: Array, lost: int = 0) -> Array:
    """log P with that derivative; ``lost`` last axes of the parameter are summed over."""

    @jax.custom_jvp
    def log_prob(z: Array, parameter: Array) -> Array:
        return both(z, parameter)[0]

    @log_prob.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        value, slope = both(*primals)
        moved = slope * tangents[1]
        return value, moved.sum(axis=-1) if lost else moved

    return log_prob(z, parameter)


def _host(function: Callable[..., Any], shapes: Any, *arrays: Array, each: bool = False) -> Any:
    """Arrays of NumPy's making, of the given shapes."""
    kinds = [jax.ShapeDtypeStruct(tuple(shape), jnp.float64) for shape in shapes]  # type: ignore[no-untyped-call]

    def call(*given: Any) -> Any:
        return [np.asarray(found, dtype=np.float64) for found in function(*given)]

    method = "sequential" if each else "broadcast_all"
    return jax.pure_callback(call, kinds, *arrays, vmap_method=method)


def _check_known(value: Any) -> bool:
    return not isinstance(value, jax.core.Tracer)


def _cells(noise: Noise, value: Any, parameter: Array, size: Any = None) -> Array:
    """log P of cells that stand alone: looked up where the values are known, summed by NumPy where not."""
    known = np.asarray(value, dtype=np.float64) if _check_known(value) else None
    if known is not None:
        noise.check(known)

    def both(z: Array, p: Array) -> tuple[Array, Array]:
        if known is not None:
            return bridging.looked_up(jnp, noise, known, p, size)
        z, p = jnp.broadcast_arrays(z, p)
        value, slope = _host(lambda *given: bridging.summed(noise, *given, size), [z.shape] * 2, z, p)
        return value, slope

    return _differentiable(both, jnp.asarray(value, dtype=jnp.float64), parameter)


class _NoisyCounts(dist.Distribution):  # type: ignore[misc]
    noise: Noise
    is_discrete = True

    @property
    def support(self) -> Any:
        return constraints.real  # whole numbers of any sign under integer noise

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """A simulated release, for predictive checks."""
        shape = self.shape(sample_shape)

        def draw(key: Array, given: Array) -> Any:
            seed = np.asarray(key, dtype=np.uint64).ravel() @ np.array([1, 1 << 32], dtype=np.uint64)
            rng = np.random.default_rng(int(seed))
            counts = self._counts(np.asarray(given), shape, rng).astype(np.float64)
            return [self.noise.draw(counts, rng)]

        raw = key if jnp.issubdtype(key.dtype, jnp.integer) else jax.random.key_data(key)
        return _host(draw, [shape], raw, self._parameter, each=True)[0]

    @property
    def _parameter(self) -> Array:
        return getattr(self, self.pytree_data_fields[0])

    @abstractmethod
    def _counts(self, given: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        """True counts."""


class _NoisyCells(_NoisyCounts):
    """Cells that stand alone, with public sizes or not."""

    total: Any = None

    def __init__(self, parameter: Any, noise: Any, validate_args: bool | None) -> None:
        self.noise = bridging.independent(as_noise(noise))
        sizes = () if self.total is None else self.total.shape
        shape = jnp.broadcast_shapes(jnp.shape(parameter), sizes, self.noise.scale.shape)
        whole = jnp.broadcast_to(jnp.asarray(parameter, dtype=jnp.float64), shape)
        setattr(self, self.pytree_data_fields[0], whole)
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        return _cells(self.noise, value, self._parameter, self.total)


class NoisyPoisson(_NoisyCells):
    """Poisson counts of ``rate`` with independent ``noise``: log P(z) with the true count summed out.

    ``noise`` is what :func:`discreet.noisy_counts` takes, such as ``("geometric", epsilon)``.
    """

    arg_constraints = {"rate": constraints.nonnegative}  # noqa: RUF012
    pytree_data_fields = ("rate",)
    pytree_aux_fields = ("noise",)

    def __init__(self, rate: Any, noise: Any, *, validate_args: bool | None = None) -> None:
        super().__init__(rate, noise, validate_args)

    def _counts(self, given: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        return rng.poisson(given, shape)


class NoisyBinomial(_NoisyCells):
    """Binomial counts of public sizes ``total`` with independent ``noise``."""

    arg_constraints = {"probs": constraints.unit_interval}  # noqa: RUF012
    pytree_data_fields = ("probs",)
    pytree_aux_fields = ("noise", "total")

    def __init__(self, total: Any, probs: Any, noise: Any, *, validate_args: bool | None = None) -> None:
        self.total = Binomial(total, "total").sizes
        super().__init__(probs, noise, validate_args)

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
            raise InvalidInputError("probs must have the cells on its last axis")
        super().__init__(
            batch_shape=self.probs.shape[:-1], event_shape=self.probs.shape[-1:], validate_args=validate_args
        )

    @property
    def support(self) -> Any:
        return constraints.real_vector

    def log_prob(self, value: Any) -> Array:
        z = jnp.asarray(value, dtype=jnp.float64)
        # Parameters are normalised here, so that the gradient knows.
        shares = self.probs / self.probs.sum(axis=-1, keepdims=True)
        known = np.asarray(value, dtype=np.float64) if _check_known(value) else None

        def exact(z: Array, shares: Array) -> tuple[Array, Array]:
            z, shares = jnp.broadcast_arrays(z, shares)
            law, total, shape = self.noise, self.total, z.shape
            found = _host(lambda *a: bridging.exact_totals(law, *a, total), [shape[:-1], shape], z, shares)
            return found[0], found[1]

        def both(z: Array, shares: Array) -> tuple[Array, Array]:
            if known is None or known.ndim != 1:
                value, means = exact(z, shares)
            else:
                loop = jax.lax.while_loop
                value, means = bridging.totals(jnp, self.noise, known, shares, self.total, loop, exact)
            return value, means / jnp.maximum(shares, 1e-300)

        if known is not None:
            NoisyCells(known.reshape(-1, known.shape[-1])[0], self.noise, Multinomial(self.total))
        return _differentiable(both, z, shares, lost=1)

    def _counts(self, given: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        return rng.multinomial(self.total, given / given.sum(axis=-1, keepdims=True), shape[:-1])


def observe(likelihood: Likelihood) -> Callable[..., Any]:
    """A statement for a model: ``observe(release.likelihood())(shares)`` says what was published.

    It takes shares where the total is public and rates where it is not, and a ``name``.
    """

    def engine(_: Any, parameters: Any) -> tuple[Any, Any]:
        return likelihood.log_prob(parameters), likelihood.score(parameters) / np.maximum(parameters, 1e-300)

    def both(z: Array, parameters: Array) -> tuple[Array, Array]:
        found = _host(engine, [parameters.shape[:-1], parameters.shape], z, parameters)
        return found[0], found[1]

    def statement(parameters: Any, name: str = "published") -> Any:
        if isinstance(likelihood, NoisyCells) and bridging.plain(likelihood):
            total = likelihood.model.total
            law = (
                NoisyPoisson(parameters, likelihood.noise).to_event(1)
                if total is None
                else NoisyMultinomial(total, parameters, likelihood.noise)
            )
            return numpyro.sample(name, law, obs=likelihood.values)
        array = jnp.asarray(parameters, dtype=jnp.float64)
        return numpyro.factor(name, _differentiable(both, jnp.zeros(likelihood.k), array, lost=1))

    return statement
