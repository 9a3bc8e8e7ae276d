"""PyMC distributions of noisy counts: what a private release says, inside any ``pm.Model``.

    with pm.Model():
        rate = pm.Gamma("rate", 2, 0.1, shape=k)
        discreet.pymc.NoisyPoisson("z", rate, ("geometric", 0.5), observed=values)

True counts are summed out by the NumPy engine; the gradient is E[x | z], so NUTS applies. Draws of the
distributions are simulated releases, for predictive checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.declarations import as_integer
from discreet.errors import missing_extra
from discreet.inference.likelihoods import bridging
from discreet.inference.likelihoods.kinds import Likelihood, NoisyCells
from discreet.inference.likelihoods.models import Binomial, Multinomial
from discreet.inference.likelihoods.noises import Noise
from discreet.inference.published import as_noise

try:
    import pymc as pm
    import pytensor.tensor as pt
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op
except ImportError:
    raise missing_extra("PyMC", "pymc") from None

__all__ = ["NoisyBinomial", "NoisyMultinomial", "NoisyPoisson", "observe"]

Function = Callable[[Any, Any], Any]


class _Engine(Op):  # type: ignore[misc]
    """A function of (z, parameter) from the NumPy engine; ``lost`` last axes of the parameter are summed."""

    def __init__(self, function: Function, lost: int, slope: _Engine | None = None) -> None:
        self.function, self.lost, self.slope = function, lost, slope

    def make_node(self, z: Any, parameter: Any) -> Any:
        z = pt.as_tensor_variable(z).astype("float64")
        parameter = pt.as_tensor_variable(parameter).astype("float64")
        if z.ndim < parameter.ndim:
            z = pt.shape_padleft(z, parameter.ndim - z.ndim)
        if parameter.ndim < z.ndim:
            parameter = pt.shape_padleft(parameter, z.ndim - parameter.ndim)
        return Apply(
            self, [z, parameter], [pt.tensor("found", dtype="float64", shape=(None,) * (z.ndim - self.lost))]
        )

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = np.asarray(self.function(*inputs), dtype=np.float64)

    def grad(self, inputs: Any, gradients: Any) -> Any:
        z, parameter = inputs
        assert self.slope is not None
        means = self.slope(z, parameter)
        (upstream,) = gradients
        for _ in range(self.lost):
            upstream = upstream[..., None]
        full = upstream * means / pt.maximum(parameter, 1e-300)
        # Broadcast axes of the parameter collect what flowed along them.
        for axis, one in enumerate(parameter.type.broadcastable):
            if one:
                full = full.sum(axis=axis, keepdims=True)
        return [z.zeros_like().astype("float64"), full]

    def infer_shape(self, fgraph: Any, node: Any, shapes: Any) -> Any:
        z, parameter = shapes
        shape = [pt.maximum(a, b) for a, b in zip(z, parameter, strict=True)]
        return [tuple(shape[: len(shape) - self.lost])]


def _engine(value: Function, means: Function, lost: int = 0) -> _Engine:
    return _Engine(value, lost, _Engine(means, 0))


class _Face:
    """``Noisy…(name, …, observed=…)`` inside a model, ``Noisy….dist(…)`` outside of one."""

    def __new__(cls, name: str, *parameters: Any, **options: Any) -> Any:
        arguments, made = cls._made(*parameters)
        return pm.CustomDist(name, *arguments, **made, **options)

    @classmethod
    def dist(cls, *parameters: Any, **options: Any) -> Any:
        """The distribution without a name."""
        arguments, made = cls._made(*parameters)
        return pm.CustomDist.dist(*arguments, **made, **options)

    @staticmethod
    def _made(*parameters: Any) -> tuple[list[Any], dict[str, Any]]:
        raise NotImplementedError


class NoisyPoisson(_Face):
    """``NoisyPoisson(name, rate, noise)``: Poisson counts with independent noise on every cell.

    ``noise`` is what :func:`discreet.noisy_counts` takes, such as ``("geometric", epsilon)``.
    """

    @staticmethod
    def _made(rate: Any, noise: Any) -> tuple[list[Any], dict[str, Any]]:
        law = bridging.independent(as_noise(noise))
        engine = _engine(
            lambda z, mean: bridging.cell_log_prob(law, z, mean),
            lambda z, mean: bridging.cell_means(law, z, mean) - mean,
        )

        def random(rate: Any, rng: Any = None, size: Any = None) -> Any:
            return bridging.simulated(law, rng.poisson(rate, size=size), rng)

        return [rate], {"logp": engine, "random": random, "dtype": "float64"}


class NoisyBinomial(_Face):
    """``NoisyBinomial(name, total, probs, noise)``: binomial counts of public sizes with noise."""

    @staticmethod
    def _made(total: Any, probs: Any, noise: Any) -> tuple[list[Any], dict[str, Any]]:
        law, sizes = bridging.independent(as_noise(noise)), Binomial(total).sizes
        engine = _engine(
            lambda z, p: bridging.cell_log_prob(law, z, p, sizes),
            lambda z, p: (bridging.cell_means(law, z, p, sizes) - sizes * p) / np.maximum(1 - p, 1e-300),
        )

        def random(probs: Any, rng: Any = None, size: Any = None) -> Any:
            return bridging.simulated(law, rng.binomial(sizes.astype(np.int64), probs, size=size), rng)

        return [probs], {"logp": engine, "random": random, "dtype": "float64"}


class NoisyMultinomial(_Face):
    """``NoisyMultinomial(name, total, probs, noise)``: counts of a public total, with noise of any kind."""

    @staticmethod
    def _made(total: Any, probs: Any, noise: Any) -> tuple[list[Any], dict[str, Any]]:
        law, n = as_noise(noise), Multinomial(as_integer(total, "total")).total
        engine = _engine(
            lambda z, shares: bridging.total_log_prob(law, z, shares, n),
            lambda z, shares: (
                bridging.total_means(law, z, shares, n) - n * shares / shares.sum(-1, keepdims=True)
            ),
            lost=1,
        )

        def random(probs: Any, rng: Any = None, size: Any = None) -> Any:
            return bridging.simulated(
                law, rng.multinomial(n, probs / probs.sum(-1, keepdims=True), size=size), rng
            )

        return [probs], {
            "logp": engine, "random": random, "dtype": "float64", "signature": "(k)->(k)",
        }  # fmt: skip


def observe(likelihood: Likelihood) -> Callable[..., Any]:
    """A statement for a model: ``observe(release.likelihood())(shares)`` says what was published.

    It takes shares where the total is public and rates where it is not, and a ``name``.
    """

    def statement(parameters: Any, name: str = "published") -> Any:
        if isinstance(likelihood, NoisyCells) and likelihood.model.name in ("multinomial", "Poisson"):
            noise: Noise = likelihood.noise
            if likelihood.model.total is None:
                return NoisyPoisson(name, parameters, noise, observed=likelihood.values)
            return NoisyMultinomial(
                name, likelihood.model.total, parameters, noise, observed=likelihood.values
            )
        engine = _engine(
            lambda _, p: likelihood.log_prob(p),
            lambda _, p: likelihood.score(p),
            lost=1,
        )
        return pm.Potential(name, engine(np.zeros(likelihood.k), parameters))

    return statement
