"""PyTensor operations and PyMC distributions of noisy counts, shared by the public ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from discreet._inference._likelihoods import bridging
from discreet._inference._likelihoods.kinds import Likelihood
from discreet._inference.published import as_noise
from discreet._numerics.noises import Noise
from discreet.distributions.mixture_likelihood import MixtureLikelihood
from discreet.errors import missing_extra

try:
    import pymc as pm
    import pytensor.tensor as pt
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op
except ImportError:
    raise missing_extra("PyMC", "pymc") from None

ValueAndSlope = Callable[[Any, Any], tuple[Any, Any]]
"""(z, parameter) ↦ log P(z) and its derivative with respect to the parameter."""


def remember_last(value_and_slope: ValueAndSlope) -> ValueAndSlope:
    """Cache the last result, because PyTensor requests the value and the derivative one after the other."""
    last: list[Any] = [None, None]

    def remembered_value_and_slope(z: Any, parameter: Any) -> tuple[Any, Any]:
        key = z.shape, parameter.shape, z.tobytes(), parameter.tobytes()
        if key != last[0]:
            last[:] = key, value_and_slope(z, parameter)
        result: tuple[Any, Any] = last[1]
        return result

    return remembered_value_and_slope


class LogProb(Op):  # type: ignore[misc]
    """log P(z), or its derivative with respect to the parameter.

    The last ``summed_axes`` axes of the parameter are not in the value: it is summed over them.
    """

    def __init__(
        self, value_and_slope: ValueAndSlope, summed_axes: int = 0, derivative: bool = False
    ) -> None:
        self.value_and_slope, self.summed_axes, self.derivative = value_and_slope, summed_axes, derivative

    def make_node(self, z: Any, parameter: Any) -> Any:
        z = pt.as_tensor_variable(z).astype("float64")
        parameter = pt.as_tensor_variable(parameter).astype("float64")
        if z.ndim < parameter.ndim:
            z = pt.shape_padleft(z, parameter.ndim - z.ndim)
        if parameter.ndim < z.ndim:
            parameter = pt.shape_padleft(parameter, z.ndim - parameter.ndim)
        shape = (None,) * (z.ndim - (0 if self.derivative else self.summed_axes))
        return Apply(self, [z, parameter], [pt.tensor("log_prob", dtype="float64", shape=shape)])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = np.asarray(self.value_and_slope(*inputs)[self.derivative], dtype=np.float64)

    def pullback(self, inputs: Any, outputs: Any, gradients: Any) -> Any:
        z, parameter = inputs
        (upstream,) = gradients
        for _ in range(self.summed_axes):
            upstream = upstream[..., None]
        full = upstream * LogProb(self.value_and_slope, self.summed_axes, derivative=True)(z, parameter)
        # The gradient of a broadcast axis is the sum along it.
        for axis, is_broadcast in enumerate(parameter.type.broadcastable):
            if is_broadcast:
                full = full.sum(axis=axis, keepdims=True)
        return [z.zeros_like().astype("float64"), full]

    L_op = pullback  # its name in PyTensor before 3

    def infer_shape(self, *arguments: Any) -> Any:
        """Return the shape of the output. The input shapes are the last argument; PyTensor before 3 passes
        the graph too."""
        z, parameter = arguments[-1]
        shape = [pt.maximum(a, b) for a, b in zip(z, parameter, strict=True)]
        return [tuple(shape[: len(shape) - (0 if self.derivative else self.summed_axes)])]


class NoisyCounts(ABC):
    """Noisy counts: ``Noisy…(name, …, observed=…)`` inside a model, ``Noisy….dist(…)`` outside of it."""

    def __new__(cls, name: str, *parameters: Any, **options: Any) -> Any:
        arguments, functions = cls._parts(*parameters)
        observed = options.get("observed")
        if isinstance(observed, np.ndarray | Sequence):
            cls._check(np.asarray(observed, dtype=np.float64), *parameters)
        return pm.CustomDist(name, *arguments, **functions, **options)

    @classmethod
    def dist(cls, *parameters: Any, **options: Any) -> Any:
        """Return the distribution without a name."""
        arguments, functions = cls._parts(*parameters)
        return pm.CustomDist.dist(*arguments, **functions, **options)

    @staticmethod
    def _check(observed: Any, *parameters: Any) -> None:
        """Refuse values that the noise cannot have produced."""
        as_noise(parameters[-1]).check(observed)

    @staticmethod
    @abstractmethod
    def _parts(*parameters: Any) -> tuple[list[Any], dict[str, Any]]:
        """Return the parameter, and the functions of ``pm.CustomDist``."""


def independent_cells(
    noise: Any, parameter: Any, draw: Any, size: Any = None
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of ``pm.CustomDist`` for independent cells; ``draw`` draws true counts."""
    distribution = bridging.independent(as_noise(noise))

    def value_and_slope(z: Any, parameter: Any) -> tuple[Any, Any]:
        return bridging.looked_up(np, distribution, z, parameter, size)

    def random(parameter: Any, rng: Any = None, size: Any = None) -> Any:
        return distribution.draw(draw(rng, parameter, size).astype(np.float64), rng)

    return [parameter], {"logp": LogProb(value_and_slope), "random": random, "dtype": "float64"}


def cells_of_total(noise: Noise, probs: Any, n: int) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of ``pm.CustomDist`` for cells whose true counts sum to a public total."""

    def value_and_slope(z: Any, probs: Any) -> tuple[Any, Any]:
        sums = probs.sum(axis=-1, keepdims=True)
        value, means = bridging.fast_totals(noise, z, probs, n)
        return value, means / np.maximum(probs, 1e-300) - n / sums

    def random(probs: Any, rng: Any = None, size: Any = None) -> Any:
        counts = rng.multinomial(n, probs / probs.sum(-1, keepdims=True), size=size)
        return noise.draw(counts.astype(np.float64), rng)

    return [probs], {
        "logp": LogProb(remember_last(value_and_slope), summed_axes=1),
        "random": random,
        "dtype": "float64",
        "signature": "(k)->(k)",
    }


def potential(name: str, likelihood: Likelihood | MixtureLikelihood, parameters: Any) -> Any:
    """Add a log-likelihood to the model, as a potential."""

    def value_and_slope(_: Any, parameters: Any) -> tuple[Any, Any]:
        return likelihood.log_prob(parameters), likelihood.gradient(parameters)

    if isinstance(likelihood, MixtureLikelihood):  # a mean may be a number
        parameters = pt.as_tensor_variable(parameters).reshape((likelihood.k,))
    return pm.Potential(name, LogProb(value_and_slope, summed_axes=1)(np.zeros(likelihood.k), parameters))
