"""Registries of classes by name, which are imported when they are first used.

Built-in kinds are listed here by module and name; extensions use ``@MECHANISMS.register`` and the like. No
other place lists kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, TypeVar

from discreet._text import nearest
from discreet.errors import InvalidInputError

Thing = TypeVar("Thing", bound=type)


class Registry:
    """Classes or functions by their kind; withdrawn kinds can be read but are no longer offered."""

    def __init__(
        self, what: str, named_by: str, addresses: dict[str, str], withdrawn: dict[str, str] | None = None
    ) -> None:
        self.what = what
        self._named_by = named_by
        self._addresses = addresses
        self._withdrawn = withdrawn or {}
        self._loaded: dict[str, Any] = {}

    def register(self, thing: Thing) -> Thing:
        """Register a class by its own kind; use it as a decorator. Two classes of one kind are an error."""
        kind = getattr(thing, self._named_by)
        home = f"{thing.__module__}:{thing.__qualname__}"
        if self._addresses.setdefault(kind, home) != home:
            raise InvalidInputError(f"{self.what} {kind!r} exists already; choose another name")
        self._loaded[kind] = thing
        return thing

    def unregister(self, kind: str) -> None:
        """Remove a kind that was registered, for tests and notebooks."""
        self._loaded.pop(kind, None)
        self._addresses.pop(kind, None)

    def __contains__(self, kind: object) -> bool:
        return isinstance(kind, str) and kind in self._addresses

    def __iter__(self) -> Iterator[str]:
        return iter(self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)

    def __getitem__(self, kind: str) -> Any:
        if not isinstance(kind, str):  # it may be data, given in the wrong place
            raise InvalidInputError(f"{self.what} must be a name, not a {type(kind).__name__}")
        self.check_made(kind)
        return self.reader(kind)

    def check_made(self, kind: str) -> None:
        """Raise an error for a kind that can be read but is no longer offered."""
        if kind in self._withdrawn:
            raise InvalidInputError(
                f"{self.what} {kind!r} is no longer offered; documents that hold it can still be read, shown "
                "and verified"
            )

    def reader(self, kind: str) -> Any:
        """Return the class of a kind that a document names, even of one that is no longer offered."""
        addresses = self._addresses | self._withdrawn
        if kind not in addresses:
            raise InvalidInputError(f"{self.what} {kind!r} is unknown{nearest(kind, self._addresses)}")
        if kind not in self._loaded:
            module, _, name = addresses[kind].partition(":")
            self._loaded[kind] = getattr(import_module(module), name)
        return self._loaded[kind]

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield every kind with its class or function; imports all of them."""
        return ((kind, self[kind]) for kind in list(self._addresses))


CURVES = Registry(
    "a privacy curve of kind",
    "kind",
    {
        "approximate": "discreet.privacy.curves:Approximate",
        "gaussian": "discreet.privacy.curves:Gaussian",
        "largest": "discreet.privacy.composite_curves:Largest",
        "group": "discreet.privacy.composite_curves:Group",
        "inexact": "discreet.privacy.composite_curves:Inexact",
        "tabulated": "discreet.privacy.composite_curves:Tabulated",
        "composed": "discreet.privacy.composite_curves:Composed",
        "posterior": "discreet.posterior_sampling.family:PosteriorCurve",
    },
)

FAMILIES = Registry(
    "family",
    "name",
    {
        "beta": "discreet.posterior_sampling.families.categorical:BetaFamily",
        "dirichlet": "discreet.posterior_sampling.families.categorical:DirichletFamily",
        "poisson": "discreet.posterior_sampling.families.rates:Poisson",
        "exponential": "discreet.posterior_sampling.families.rates:Exponential",
        "gaussian": "discreet.posterior_sampling.families.means:GaussianMean",
        "gaussian-vector": "discreet.posterior_sampling.families.means:GaussianVector",
        "binomial": "discreet.posterior_sampling.families.categorical:BinomialFamily",
        "multinomial": "discreet.posterior_sampling.families.categorical:MultinomialFamily",
        "geometric": "discreet.posterior_sampling.families.categorical:GeometricFamily",
        "negative-binomial": "discreet.posterior_sampling.families.categorical:NegativeBinomialFamily",
        "gamma": "discreet.posterior_sampling.families.rates:GammaTimes",
        "defined": "discreet.posterior_sampling.families.defined:DefinedFamily",
        "normal": "discreet.posterior_sampling.families.means:NormalFamily",
    },
    withdrawn={
        "soft-categories": "discreet.posterior_sampling.families._withdrawn:SoftCategories",
        "correlated-vector": "discreet.posterior_sampling.families._withdrawn:CorrelatedVector",
        "defined-vector": "discreet.posterior_sampling.families._withdrawn:DefinedVector",
    },
)

MECHANISMS = Registry(
    "mechanism",
    "name",
    {  # in the order in which they are listed and preferred at equal error
        "lattice": "discreet.mechanisms.lattice:Lattice",
        "lshist": "discreet.mechanisms.independent:LSHist",
        "lsdim": "discreet.mechanisms.independent:LSDim",
        "lszhang": "discreet.mechanisms.independent:LSZhang",
        "ehdl-calibrated": "discreet.mechanisms.hellinger.exponential:EHDLCalibrated",
        "ehds": "discreet.mechanisms.hellinger.exponential:EHDS",
        "ehd": "discreet.mechanisms.hellinger.exponential:EHD",
        "exponential": "discreet.mechanisms.exponential:Exponential",
        "mbeta": "discreet.mechanisms.hellinger.exponential:MBeta",
        "ehdl": "discreet.mechanisms.hellinger.exponential:EHDL",
        "geometric": "discreet.mechanisms.independent:Geometric",
        "gaussian": "discreet.mechanisms.independent:GaussianCounts",
    },
    withdrawn={"optimal": "discreet.mechanisms._withdrawn:Optimal"},
)

DOCUMENTS = Registry(
    "a document of format",
    "format",
    {
        "discreet/release": "discreet.answers.release:Release",
        "discreet/conditional": "discreet.answers.conditional:ConditionalRelease",
        "discreet/quantiles": "discreet.answers.quantiles:QuantileAnswer",
        "discreet/survival": "discreet.answers.survival:SurvivalAnswer",
        "discreet/network": "discreet.answers.network:NetworkRelease",
        "discreet/discovered": "discreet.answers.selected:Discovered",
        "discreet/sparse": "discreet.answers.selected:SparseRelease",
        "discreet/sample": "discreet.posterior_sampling.sample:Sample",
        "discreet/logistic": "discreet.regression.release:LogisticRelease",
        "discreet/regression": "discreet.regression._newton.fit:Fit",
        "discreet/mean": "discreet.regression.means:Mean",
        "discreet/means": "discreet.regression.means:Means",
        "discreet/weighted": "discreet.answers.weighted:Weighted",
        "discreet/study": "discreet._documents.study:StudyResult",
    },
)

QUESTIONS = Registry(
    "kind",
    "kind",
    {
        "proportions": "discreet.questions.proportions:Proportions",
        "mean": "discreet.questions.mean:Mean",
        "quantiles": "discreet.questions.quantiles:Quantiles",
        "survival": "discreet.questions.survival:Survival",
        "regress": "discreet.questions.regress:Regress",
        "draw": "discreet.questions.draw:Draw",
        "network": "discreet.questions.network:Network",
    },
)

SENTENCES = {
    "proportions": "Release the private posterior of proportions: of a column, a table, or public groups.",
    "mean": "Release the private mean of a bounded column, with its standard deviation.",
    "quantiles": "Release private quantiles of a bounded column, and its distribution function.",
    "survival": "Release private survival curves of times to an event, some of them censored.",
    "regress": "Release a private regression with intervals, from a formula.",
    "draw": "Release draws from a posterior whose own spread hides each record.",
    "network": "Release private posteriors of the conditional tables of a declared Bayesian network.",
}
"""The description of each kind of question, listed here so that ``discreet --help`` loads none of them."""
