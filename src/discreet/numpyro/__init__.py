"""NumPyro distributions of noisy counts, for private releases inside any model.

    def model():
        rate = numpyro.sample("rate", dist.Gamma(2.0, 0.1).expand([k]).to_event(1))
        numpyro.sample("z", discreet.numpyro.NoisyPoisson(rate, ("geometric", 0.5)), obs=values)

The true counts are summed out, so every parameter is continuous and NUTS applies. The sums are tabulated once
for the observed values, when a model is first traced, and then looked up in JAX (jit, vmap, grad), at about
the cost of a Poisson density. For a public total, a saddle-point expansion is used with an error below 1e-8,
or for few cells a Fourier transform. If the observed values are traced by JAX, NumPy computes the sums
instead.

Importing this module turns on JAX's 64-bit numbers, because 32 bits are not enough for these sums.
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
from discreet.distributions.mixture_likelihood import MixtureLikelihood
from discreet.errors import InvalidInputError, missing_extra
from discreet.numpyro._log_prob import cells_of_total, independent_cells, log_likelihood, simulate

try:
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.distributions import constraints
except ImportError:
    raise missing_extra("NumPyro", "numpyro") from None

__all__ = ["NoisyBinomial", "NoisyMultinomial", "NoisyPoisson", "observe"]

Array = Any


class _NoisyCounts(dist.Distribution):  # type: ignore[misc]
    noise: Noise
    is_discrete = True

    @property
    def support(self) -> Any:
        return constraints.real  # whole numbers of any sign under integer noise

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw simulated releases, for predictive checks.

        Parameters
        ----------
        key : JAX random key
            The random key.
        sample_shape : tuple of int
            The shape of the draws.

        Returns
        -------
        array
        """
        shape = self.shape(sample_shape)

        def _draw(parameter: Any, rng: np.random.Generator) -> Any:
            return self.noise.draw(self._counts(parameter, shape, rng).astype(np.float64), rng)

        return simulate(_draw, key, shape, self._parameter)

    @property
    def _parameter(self) -> Array:
        return getattr(self, self.pytree_data_fields[0])

    @abstractmethod
    def _counts(self, parameter: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        """Draw true counts."""


class _NoisyCells(_NoisyCounts):
    """The base of distributions of independent cells, with or without public sizes."""

    total: Any = None

    def __init__(self, parameter: Any, noise: Any, validate_args: bool | None) -> None:
        self.noise = bridging.independent(as_noise(noise))
        sizes = () if self.total is None else self.total.shape
        shape = jnp.broadcast_shapes(jnp.shape(parameter), sizes, self.noise.scale.shape)
        whole = jnp.broadcast_to(jnp.asarray(parameter, dtype=jnp.float64), shape)
        setattr(self, self.pytree_data_fields[0], whole)
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def log_prob(self, value: Any) -> Array:
        """Return the log-probability of noisy counts.

        Parameters
        ----------
        value : array_like
            Noisy counts.

        Returns
        -------
        array
        """
        return independent_cells(self.noise, value, self._parameter, self.total)


class NoisyPoisson(_NoisyCells):
    """Poisson counts with independent noise in every cell.

    Parameters
    ----------
    rate : array_like
        The expected counts.
    noise : Noise or tuple
        As in :func:`discreet.noisy_counts`, such as ``("geometric", epsilon)``.
    validate_args : bool, optional
        As in NumPyro's distributions.
    """

    arg_constraints = {"rate": constraints.nonnegative}  # noqa: RUF012
    pytree_data_fields = ("rate",)
    pytree_aux_fields = ("noise",)

    def __init__(self, rate: Any, noise: Any, *, validate_args: bool | None = None) -> None:
        super().__init__(rate, noise, validate_args)

    def _counts(self, parameter: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        return rng.poisson(parameter, shape)


class NoisyBinomial(_NoisyCells):
    """Binomial counts of public sizes with independent noise in every cell.

    Parameters
    ----------
    total : int or array_like
        The public number of records of each cell.
    probs : array_like
        The probabilities.
    noise : Noise or tuple
        As in :func:`discreet.noisy_counts`, such as ``("geometric", epsilon)``.
    validate_args : bool, optional
        As in NumPyro's distributions.
    """

    arg_constraints = {"probs": constraints.unit_interval}  # noqa: RUF012
    pytree_data_fields = ("probs",)
    pytree_aux_fields = ("noise", "total")

    def __init__(self, total: Any, probs: Any, noise: Any, *, validate_args: bool | None = None) -> None:
        self.total = Binomial(total, "total").sizes
        super().__init__(probs, noise, validate_args)

    def _counts(self, parameter: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        return rng.binomial(self.total.astype(np.int64), parameter, shape)


class NoisyMultinomial(_NoisyCounts):
    """Multinomial counts of a public total, with noise of any kind.

    Parameters
    ----------
    total : int
        The public number of records.
    probs : array_like
        The shares, with the cells on the last axis.
    noise : Noise or tuple
        As in :func:`discreet.noisy_counts`, such as ``("geometric", epsilon)``.
    validate_args : bool, optional
        As in NumPyro's distributions.
    """

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
        """Return the log-probability of noisy counts.

        Parameters
        ----------
        value : array_like
            Noisy counts, with the cells on the last axis.

        Returns
        -------
        array
        """
        return cells_of_total(self.noise, value, self.probs, self.total)

    def _counts(self, parameter: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        return rng.multinomial(self.total, parameter / parameter.sum(axis=-1, keepdims=True), shape[:-1])


def observe(likelihood: Likelihood | MixtureLikelihood) -> Callable[..., Any]:
    """Return a function that adds the likelihood of the published values to a model:
    ``observe(release.likelihood())(shares)``.

    Parameters
    ----------
    likelihood : Likelihood
        ``release.likelihood()``, of proportions, a mean or a regression.

    Returns
    -------
    callable
        ``statement(parameters, name="published")``. Its parameters are shares where the total is public,
        rates where it is not, a mean, or coefficients in the order of ``names``.
    """

    def statement(parameters: Any, name: str = "published") -> Any:
        """Add the log-likelihood of the published values to the traced model.

        Parameters
        ----------
        parameters : array
            Shares where the total is public, rates where it is not, a mean, or coefficients.
        name : str
            The name of the site.
        """
        if isinstance(likelihood, NoisyCells) and bridging.plain(likelihood):
            total = likelihood.model.total
            distribution = (
                NoisyPoisson(parameters, likelihood.noise).to_event(1)
                if total is None
                else NoisyMultinomial(total, parameters, likelihood.noise)
            )
            return numpyro.sample(name, distribution, obs=likelihood.values)
        return numpyro.factor(name, log_likelihood(likelihood, parameters))

    return statement
