"""Likelihoods of real parameters that are mixtures of normal densities: of means and of regressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from discreet._typing import FloatArray
from discreet.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class MixtureLikelihood:
    """The log-likelihood log Σᵢ exp(cᵢ + hᵢ·x − x'Hᵢx/2) + constant, where x is parameters − ``centre``.

    Parameters
    ----------
    names : tuple
        The names of the parameters, which are the last axis; earlier axes are draws.
    centre : array of shape (k,)
        The origin from which the parameters are measured.
    constants : array of shape (components,)
        The cᵢ.
    linear : array of shape (components, k)
        The hᵢ.
    precisions : array of shape (components, k, k)
        The Hᵢ: positive semidefinite.

    Examples
    --------
    >>> import discreet
    >>> schema = discreet.Schema({"age": (18, 95)}, n=4)
    >>> likelihood = discreet.mean([20, 40, 60, 50], schema=schema, epsilon=1).likelihood()
    >>> likelihood.log_prob([[40.0], [60.0]]).shape
    (2,)
    """

    names: tuple[Any, ...]
    centre: FloatArray
    constants: FloatArray
    linear: FloatArray
    precisions: FloatArray

    @classmethod
    def of_normals(
        cls, names: tuple[Any, ...], weights: FloatArray, means: FloatArray, precisions: FloatArray
    ) -> MixtureLikelihood:
        """Build the density of a mixture of normal distributions.

        Parameters
        ----------
        names : tuple
            The names of the parameters.
        weights : array of shape (components,)
            The probability of each component.
        means : array of shape (components, k)
            The mean of each component.
        precisions : array of shape (components, k, k)
            The inverse covariance of each component.

        Returns
        -------
        MixtureLikelihood
        """
        centre = weights @ means
        gaps = means - centre
        linear = np.einsum("ijk,ik->ij", precisions, gaps)
        constants = np.log(weights) + np.linalg.slogdet(precisions)[1] / 2 - (linear * gaps).sum(axis=1) / 2
        return cls(names, centre, constants, linear, precisions)

    def without_prior(self, mean: FloatArray, precision: FloatArray) -> MixtureLikelihood:
        """Divide by the density of a normal prior, which leaves the likelihood of a posterior.

        Parameters
        ----------
        mean : array of shape (k,)
            The mean of the prior.
        precision : array of shape (k, k)
            Its inverse covariance.

        Returns
        -------
        MixtureLikelihood
        """
        linear = self.linear - precision @ (mean - self.centre)
        return MixtureLikelihood(self.names, self.centre, self.constants, linear, self.precisions - precision)

    @property
    def k(self) -> int:
        """The number of parameters."""
        return len(self.names)

    def log_prob(self, parameters: Any) -> Any:
        """Return log P(published | parameters), up to a constant.

        Parameters
        ----------
        parameters : array_like of shape (..., k)
            Parameters in the order of ``names``; a plain number if there is only one.

        Returns
        -------
        float or array

        Raises
        ------
        InvalidInputError
            If the last axis does not have one entry for each name.
        """
        return logsumexp(self.terms(self._check(parameters), np), axis=-1)[()]

    def gradient(self, parameters: Any) -> FloatArray:
        """Return the gradient of :meth:`log_prob` with respect to the parameters.

        Parameters
        ----------
        parameters : array_like of shape (..., k)
            As in :meth:`log_prob`.

        Returns
        -------
        array of the shape of the parameters
        """
        array = self._check(parameters)
        terms = self.terms(array, np)
        shares = np.exp(terms - logsumexp(terms, axis=-1, keepdims=True))
        slopes = self.linear - np.einsum("ijk,...k->...ij", self.precisions, array - self.centre)
        return np.asarray(np.einsum("...i,...ij->...j", shares, slopes))

    def terms(self, parameters: Any, xp: Any) -> Any:
        """Return the logarithm of each component, on the last axis.

        Parameters
        ----------
        parameters : array of shape (..., k)
            In the order of ``names``.
        xp : module
            NumPy, or JAX's.

        Returns
        -------
        array of shape (..., components)
        """
        x = parameters - self.centre
        products = xp.reshape(x[..., :, None] * x[..., None, :], (*x.shape[:-1], self.k**2))
        return self.constants + x @ self.linear.T - products @ self.precisions.reshape(-1, self.k**2).T / 2

    def _check(self, parameters: Any) -> FloatArray:
        array = np.asarray(parameters, dtype=np.float64)
        if array.ndim == 0:
            array = array[None]
        if array.shape[-1] != self.k:
            raise InvalidInputError(
                f"must have {self.k} entries on the last axis, one for each of {self.names}",
                "parameters",
                array.shape,
            )
        return array
