"""PyMC distributions of noisy counts, for private releases inside any ``pm.Model``.

    with pm.Model():
        rate = pm.Gamma("rate", 2, 0.1, shape=k)
        discreet.pymc.NoisyPoisson("z", rate, ("geometric", 0.5), observed=values)

The true counts are summed out. The sums are tabulated once for the observed values and looked up in NumPy,
with their gradients, so NUTS applies. Draws of the distributions are simulated releases, for predictive
checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from discreet._declarations import as_integer
from discreet._inference._likelihoods import bridging
from discreet._inference._likelihoods.kinds import Likelihood, NoisyCells
from discreet._inference._likelihoods.models import Binomial, Multinomial
from discreet._inference.published import as_noise
from discreet.distributions.mixture_likelihood import MixtureLikelihood
from discreet.errors import missing_extra
from discreet.pymc._noisy import NoisyCounts, cells_of_total, independent_cells, potential

__all__ = ["NoisyBinomial", "NoisyMultinomial", "NoisyPoisson", "bambi_family", "observe"]


class NoisyPoisson(NoisyCounts):
    """Poisson counts with independent noise in every cell.

    Parameters
    ----------
    name : str
        The name of the variable.
    rate : array_like
        The expected counts.
    noise : Noise or tuple
        As in :func:`discreet.noisy_counts`, such as ``("geometric", epsilon)``.
    """

    @staticmethod
    def _parts(rate: Any, noise: Any) -> tuple[list[Any], dict[str, Any]]:
        return independent_cells(noise, rate, lambda rng, rate, size: rng.poisson(rate, size=size))


class NoisyBinomial(NoisyCounts):
    """Binomial counts of public sizes with independent noise in every cell.

    Parameters
    ----------
    name : str
        The name of the variable.
    total : int or array_like
        The public number of records of each cell.
    probs : array_like
        The probabilities.
    noise : Noise or tuple
        As in :func:`discreet.noisy_counts`, such as ``("geometric", epsilon)``.
    """

    @staticmethod
    def _parts(total: Any, probs: Any, noise: Any) -> tuple[list[Any], dict[str, Any]]:
        sizes = Binomial(total, "total").sizes
        trials = sizes.astype(np.int64)
        return independent_cells(
            noise, probs, lambda rng, probs, size: rng.binomial(trials, probs, size=size), sizes
        )


class NoisyMultinomial(NoisyCounts):
    """Multinomial counts of a public total, with noise of any kind.

    Parameters
    ----------
    name : str
        The name of the variable.
    total : int
        The public number of records.
    probs : array_like
        The shares, with the cells on the last axis.
    noise : Noise or tuple
        As in :func:`discreet.noisy_counts`, such as ``("geometric", epsilon)``.
    """

    @staticmethod
    def _check(observed: Any, *parameters: Any) -> None:
        for row in observed.reshape(-1, observed.shape[-1]):
            NoisyCells(row, as_noise(parameters[-1]), Multinomial(as_integer(parameters[0], "total")))

    @staticmethod
    def _parts(total: Any, probs: Any, noise: Any) -> tuple[list[Any], dict[str, Any]]:
        return cells_of_total(as_noise(noise), probs, Multinomial(as_integer(total, "total")).total)


def bambi_family(noise: Any, total: Any = None) -> Any:
    """Return a Bambi family of noisy counts, for ``bambi.Model("z ~ …", data, family=…)``.

    Parameters
    ----------
    noise : Noise or tuple
        As in :func:`discreet.noisy_counts`, such as ``("geometric", epsilon)``.
    total : int or array_like, optional
        The public number of records, one for all rows or one for each. With it the counts are binomial with
        a logit link; without it they are Poisson with a log link.

    Returns
    -------
    bambi.Family
    """
    try:
        import bambi
    except ImportError:
        raise missing_extra("bambi", "bambi") from None
    noise = bridging.independent(as_noise(noise))
    kind, sizes, parent, link = (
        (NoisyPoisson, (), "mu", "log") if total is None else (NoisyBinomial, (total,), "p", "logit")
    )

    class Noisy:
        """The distribution with all parameters fixed except the mean."""

        def __new__(cls, name: str, **options: Any) -> Any:
            return kind(name, *sizes, options.pop(parent), noise, **options)

        @staticmethod
        def dist(**options: Any) -> Any:
            return kind.dist(*sizes, options.pop(parent), noise, **options)

    likelihood = bambi.Likelihood(kind.__name__, params=[parent], parent=parent, dist=Noisy)
    return bambi.Family(kind.__name__, likelihood, link)


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
        """Add the log-likelihood of the published values to the open model.

        Parameters
        ----------
        parameters : tensor
            Shares where the total is public, rates where it is not, a mean, or coefficients.
        name : str
            The name of the variable.
        """
        if isinstance(likelihood, NoisyCells) and bridging.plain(likelihood):
            total, noise, values = likelihood.model.total, likelihood.noise, likelihood.values
            if total is None:
                return NoisyPoisson(name, parameters, noise, observed=values)
            return NoisyMultinomial(name, total, parameters, noise, observed=values)
        return potential(name, likelihood, parameters)

    return statement
