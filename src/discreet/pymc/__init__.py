"""PyMC distributions of noisy counts: what a private release says, inside any ``pm.Model``.

    with pm.Model():
        rate = pm.Gamma("rate", 2, 0.1, shape=k)
        discreet.pymc.NoisyPoisson("z", rate, ("geometric", 0.5), observed=values)

True counts are summed out, once, into tables of the observed values that NumPy looks up; gradients come with
them, so NUTS applies. Draws of the distributions are simulated releases, for predictive checks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from discreet._declarations import as_integer
from discreet._inference._likelihoods import bridging
from discreet._inference._likelihoods.kinds import Likelihood, NoisyCells
from discreet._inference._likelihoods.models import Binomial, Multinomial
from discreet._inference.published import as_noise
from discreet.errors import missing_extra

try:
    import pymc as pm
    import pytensor.tensor as pt
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op
except ImportError:
    raise missing_extra("PyMC", "pymc") from None

__all__ = ["NoisyBinomial", "NoisyMultinomial", "NoisyPoisson", "bambi_family", "observe"]


def _remember_last(both: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
    """The last answer is kept: PyTensor asks for the value and for the derivative one after the other."""
    last: list[Any] = [None, None]

    def found(z: Any, parameter: Any) -> tuple[Any, Any]:
        key = z.shape, parameter.shape, z.tobytes(), parameter.tobytes()
        if key != last[0]:
            last[:] = key, both(z, parameter)
        answer: tuple[Any, Any] = last[1]
        return answer

    return found


class _LogProb(Op):  # type: ignore[misc]
    """log P(z), or its derivative by the parameter; ``both`` gives the two.

    ``lost`` last axes of the parameter are summed over.
    """

    def __init__(self, both: Callable[..., tuple[Any, Any]], lost: int = 0, derivative: bool = False) -> None:
        self.both, self.lost, self.derivative = both, lost, derivative

    def make_node(self, z: Any, parameter: Any) -> Any:
        z = pt.as_tensor_variable(z).astype("float64")
        parameter = pt.as_tensor_variable(parameter).astype("float64")
        if z.ndim < parameter.ndim:
            z = pt.shape_padleft(z, parameter.ndim - z.ndim)
        if parameter.ndim < z.ndim:
            parameter = pt.shape_padleft(parameter, z.ndim - parameter.ndim)
        kept = z.ndim - (0 if self.derivative else self.lost)
        return Apply(self, [z, parameter], [pt.tensor("found", dtype="float64", shape=(None,) * kept)])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = np.asarray(self.both(*inputs)[self.derivative], dtype=np.float64)

    def pullback(self, inputs: Any, outputs: Any, gradients: Any) -> Any:
        z, parameter = inputs
        (upstream,) = gradients
        for _ in range(self.lost):
            upstream = upstream[..., None]
        full = upstream * _LogProb(self.both, self.lost, derivative=True)(z, parameter)
        # Broadcast axes of the parameter collect what flowed along them.
        for axis, one in enumerate(parameter.type.broadcastable):
            if one:
                full = full.sum(axis=axis, keepdims=True)
        return [z.zeros_like().astype("float64"), full]

    L_op = pullback  # its name in PyTensor before 3

    def infer_shape(self, *given: Any) -> Any:
        """``given`` ends with the shapes of the inputs; PyTensor before 3 gives the graph as well."""
        z, parameter = given[-1]
        shape = [pt.maximum(a, b) for a, b in zip(z, parameter, strict=True)]
        return [tuple(shape[: len(shape) - (0 if self.derivative else self.lost)])]


class _Face(ABC):
    """``Noisy…(name, …, observed=…)`` inside a model, ``Noisy….dist(…)`` outside of one."""

    def __new__(cls, name: str, *parameters: Any, **options: Any) -> Any:
        arguments, made = cls._parts(*parameters)
        observed = options.get("observed")
        if isinstance(observed, np.ndarray | Sequence):
            cls._check(np.asarray(observed, dtype=np.float64), *parameters)
        return pm.CustomDist(name, *arguments, **made, **options)

    @classmethod
    def dist(cls, *parameters: Any, **options: Any) -> Any:
        """The distribution without a name."""
        arguments, made = cls._parts(*parameters)
        return pm.CustomDist.dist(*arguments, **made, **options)

    @staticmethod
    def _check(observed: Any, *parameters: Any) -> None:
        """Refuse values that the noise cannot have produced."""
        as_noise(parameters[-1]).check(observed)

    @staticmethod
    @abstractmethod
    def _parts(*parameters: Any) -> tuple[list[Any], dict[str, Any]]:
        """The parameter, and what makes the distribution."""


def _cells(noise: Any, parameter: Any, draw: Any, size: Any = None) -> tuple[list[Any], dict[str, Any]]:
    law = bridging.independent(as_noise(noise))

    def both(z: Any, parameter: Any) -> tuple[Any, Any]:
        return bridging.looked_up(np, law, z, parameter, size)

    def random(parameter: Any, rng: Any = None, size: Any = None) -> Any:
        return law.draw(draw(rng, parameter, size).astype(np.float64), rng)

    return [parameter], {"logp": _LogProb(both), "random": random, "dtype": "float64"}


class NoisyPoisson(_Face):
    """``NoisyPoisson(name, rate, noise)``: Poisson counts with independent noise on every cell.

    ``noise`` is what :func:`discreet.noisy_counts` takes, such as ``("geometric", epsilon)``.
    """

    @staticmethod
    def _parts(rate: Any, noise: Any) -> tuple[list[Any], dict[str, Any]]:
        return _cells(noise, rate, lambda rng, rate, size: rng.poisson(rate, size=size))


class NoisyBinomial(_Face):
    """``NoisyBinomial(name, total, probs, noise)``: binomial counts of public sizes with noise."""

    @staticmethod
    def _parts(total: Any, probs: Any, noise: Any) -> tuple[list[Any], dict[str, Any]]:
        sizes = Binomial(total, "total").sizes
        whole = sizes.astype(np.int64)
        return _cells(noise, probs, lambda rng, probs, size: rng.binomial(whole, probs, size=size), sizes)


class NoisyMultinomial(_Face):
    """``NoisyMultinomial(name, total, probs, noise)``: counts of a public total, with noise of any kind."""

    @staticmethod
    def _check(observed: Any, *parameters: Any) -> None:
        for row in observed.reshape(-1, observed.shape[-1]):
            NoisyCells(row, as_noise(parameters[-1]), Multinomial(as_integer(parameters[0], "total")))

    @staticmethod
    def _parts(total: Any, probs: Any, noise: Any) -> tuple[list[Any], dict[str, Any]]:
        law, n = as_noise(noise), Multinomial(as_integer(total, "total")).total

        def both(z: Any, probs: Any) -> tuple[Any, Any]:
            sums = probs.sum(axis=-1, keepdims=True)
            value, means = bridging.fast_totals(law, z, probs, n)
            return value, means / np.maximum(probs, 1e-300) - n / sums

        def random(probs: Any, rng: Any = None, size: Any = None) -> Any:
            counts = rng.multinomial(n, probs / probs.sum(-1, keepdims=True), size=size)
            return law.draw(counts.astype(np.float64), rng)

        return [probs], {
            "logp": _LogProb(_remember_last(both), lost=1),
            "random": random,
            "dtype": "float64",
            "signature": "(k)->(k)",
        }


def bambi_family(noise: Any, total: Any = None) -> Any:
    """A family for ``bambi.Model("z ~ …", data, family=…)``: noisy counts of rates with a log link.

    With a public ``total`` (one, or one a row) the counts are binomial and the link is the logit.
    """
    try:
        import bambi
    except ImportError:
        raise missing_extra("bambi", "bambi") from None
    noise = bridging.independent(as_noise(noise))
    kind, given, parent, link = (
        (NoisyPoisson, (), "mu", "log") if total is None else (NoisyBinomial, (total,), "p", "logit")
    )

    class Noisy:
        """The distribution with everything given but the mean."""

        def __new__(cls, name: str, **options: Any) -> Any:
            return kind(name, *given, options.pop(parent), noise, **options)

        @staticmethod
        def dist(**options: Any) -> Any:
            return kind.dist(*given, options.pop(parent), noise, **options)

    likelihood = bambi.Likelihood(kind.__name__, params=[parent], parent=parent, dist=Noisy)
    return bambi.Family(kind.__name__, likelihood, link)


def observe(likelihood: Likelihood) -> Callable[..., Any]:
    """A statement for a model: ``observe(release.likelihood())(shares)`` says what was published.

    It takes shares where the total is public and rates where it is not, and a ``name``.
    """

    def both(_: Any, parameters: Any) -> tuple[Any, Any]:
        return likelihood.log_prob(parameters), likelihood.score(parameters) / np.maximum(parameters, 1e-300)

    def statement(parameters: Any, name: str = "published") -> Any:
        if isinstance(likelihood, NoisyCells) and bridging.plain(likelihood):
            given, total = (parameters, likelihood.noise), likelihood.model.total
            if total is None:
                return NoisyPoisson(name, *given, observed=likelihood.values)
            return NoisyMultinomial(name, total, *given, observed=likelihood.values)
        return pm.Potential(name, _LogProb(both, lost=1)(np.zeros(likelihood.k), parameters))

    return statement
