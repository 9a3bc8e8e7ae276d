"""Posterior sampling: release a draw from the posterior itself, whose spread is what hides a record.

Geumlek, Song and Chaudhuri (2017), for every conjugate family of :mod:`discreet.posterior_sampling.families`:

* ``direct``: a draw from the posterior η₀ + ΣS(x), with whatever privacy it has;
* ``diffused``: from η₀ + r ΣS(x), with the largest r ≤ 1 that meets a target;
* ``concentrated``: from η₀/m + ΣS(x), with the largest m ≤ 1 that meets a target.

The target is (λ, ε)-Rényi privacy, or (ε, δ), met on the exact profile. Draws are exact: the output has the
law of a continuous draw rounded to a declared grid, with every comparison certain. Proofs:
``proofs/posterior-sampling.md``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from discreet._declarations import Relation, as_epsilon, as_integer, as_positive, as_size, people_assumption
from discreet._documents.answer import VERSIONS
from discreet._numerics.search import RETREATS, certain, largest_scale
from discreet._randomness.entropy import OSEntropy, private_source
from discreet._registry import FAMILIES
from discreet._text import nearest
from discreet._typing import EpsilonLike, FloatArray
from discreet.errors import InvalidInputError, PrivacyWarning
from discreet.posterior_sampling.family import Family, Natural, add_scaled, public_prior, start
from discreet.posterior_sampling.sample import DRAW_METHODS, Sample
from discreet.privacy.composite_curves import group_curve
from discreet.privacy.composition import compose
from discreet.privacy.curves import Curve, Target
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.interop import opendp_measurement

_SMALLEST = 2.0**-60
_RELATIVE = 1e-9
"""How near to the largest scaling that meets a target the one is that is looked for."""


@dataclass(frozen=True)
class PosteriorSampler:
    """Posterior sampling with everything public bound; the data enters only in ``draw``.

    ``r`` and ``m`` are the chosen scalings: draws come from η₀/m + r ΣS(x). ``guarantee`` is that of one
    draw. Made by :func:`posterior_sampler`.
    """

    name: str
    family: Family
    prior: Any
    n: int
    r: float
    m: float
    grid: Fraction
    guarantee: Guarantee
    target: Mapping[str, Any] = field(default_factory=dict)

    def price(self, size: int = 1) -> Guarantee:
        """The guarantee of ``size`` draws together, at the same δ where one was asked for."""
        number = as_positive(size, "size")
        together = compose([self.guarantee], count=number)
        delta = self.guarantee.exact_delta
        return together.to_dp(delta) if number > 1 and delta else together

    def _eta(self, statistic: Any, n: int | None = None) -> Natural:
        """η₀/m + r ΣS(x) of all records, or of n."""
        more = self.family.contribution(statistic, self.n if n is None else n)
        return add_scaled(start(self.family, self.prior, self.m), more, Fraction(self.r))

    def draw(self, statistic: Any, size: int = 1, entropy: OSEntropy | None = None) -> FloatArray:
        """``size`` private draws of θ; together they cost ``price(size)``.

        ``statistic`` is the sufficient statistic of the n records (see :meth:`statistic`). The randomness
        comes from the operating system; a seeded generator is refused.
        """
        source, eta = private_source(entropy), self._eta(statistic)
        draws = [self.family.draw(eta, self.grid, source) for _ in range(as_positive(size, "size"))]
        return self.family.value(np.array([[float(part) for part in draw] for draw in draws]))

    def release(self, statistic: Any, size: int = 1) -> Sample:
        """``size`` private draws with everything public that led to them, ready to be published."""
        return Sample(
            sampler=self.name,
            family=self.family.to_dict(),
            prior=public_prior(self.prior),
            n=self.n,
            r=self.r,
            m=self.m,
            grid=self.grid,
            target=dict(self.target),
            drawn=self.draw(statistic, size).tolist(),
            guarantee=self.price(size),
            versions=VERSIONS,
        )

    def simulate(self, statistic: Any, size: int = 1, seed: int | None = None) -> FloatArray:
        """``size`` draws from a fast seeded generator in floats, for experiments: **not private**."""
        number, rng = as_integer(size, "size"), np.random.default_rng(seed)
        return self.family.value(self.family.simulate(self._eta(statistic), number, rng))

    def statistic(self, data: Any, column: str | None = None, **options: Any) -> Any:
        """The sufficient statistic of records, exactly: clipped to the declared bounds, summed as integers.

        The data may be anything that :func:`discreet.proportions` takes; for a vector it is an array of n
        rows. A Dirichlet needs ``levels=``. Numbers are rounded to 65,536 steps between the bounds (counts
        are whole already), so that a sum is exact and one record moves it by at most the width of the bounds.
        ``missing=`` says what a missing value counts as.
        """
        statistic, n = self.family.read(data, column, options)
        if n != self.n:
            raise InvalidInputError(f"n={self.n} was declared but the data have another number of records")
        return statistic

    def after_breach(self, statistic: Any, leaked: int) -> Guarantee:
        """What one draw still promises to the others once ``leaked`` of the n records are known.

        ``statistic`` is that of the leaked records. What they added to the posterior is then as public as
        the prior, and the rest are n − ``leaked`` records that stand out from a stronger one.
        """
        number = as_integer(leaked, "leaked")
        if not 0 < number < self.n:
            raise InvalidInputError(
                f"must be between 1 and n − 1 = {self.n - 1}", parameter="leaked", value=leaked
            )
        if self.guarantee.relation is Relation.REPLACE_PERSON:
            raise InvalidInputError("after_breach is about single records, and this guarantee about people")
        curve = self.family.curve(self._eta(statistic, number), self.n - number, Fraction(self.r))
        basis = f"{self.guarantee.basis}, for the others when {number} of {self.n} records are known"
        return replace(self.guarantee, exact_epsilon=None, exact_delta=Fraction(0), basis=basis, curve=curve)

    def to_opendp(self) -> Any:
        """This sampler as a user measurement of OpenDP."""
        return opendp_measurement(self.draw, self.guarantee.effective_curve)


def posterior_sampler(
    name: str,
    family: str | Family,
    *,
    prior: Any,
    n: int,
    epsilon: EpsilonLike | None = None,
    order: float | None = None,
    delta: EpsilonLike | None = None,
    grid: EpsilonLike | None = None,
    per_person: int | None = None,
    **options: Any,
) -> PosteriorSampler:
    """Posterior sampling by name for a family, calibrated to a target before any data is opened.

    ``epsilon`` with ``order``: Rényi privacy of that order. ``epsilon`` with ``delta``: (ε, δ), on the exact
    profile. ``direct`` needs no target and reports what it gives. ``family``: its name with its options, such
    as ``"beta"``, ``"gaussian"`` (``sigma=``, ``bounds=``), ``"binomial"`` (``trials=``), of which
    ``docs/posterior-sampling.md`` has the list, or a family object. ``grid`` is the width of the cells
    to which draws are rounded; a fine one is chosen from public parameters. ``per_person``: the target is met
    for a person of whom at most so many records are among the n, by group privacy.

    >>> sampler = posterior_sampler("diffused", "beta", prior=(6, 12), n=100, epsilon=0.5, order=15)
    >>> sampler.guarantee.rdp(15) <= 0.5, round(sampler.r, 3)
    (True, 0.412)
    """
    check_target(name, epsilon, order, delta)
    model = as_family(family, options)
    size = as_size(n)
    law = model.prior(prior)
    members = 1 if per_person is None else as_positive(per_person, "per_person")
    target = _target(name, epsilon, order, delta, size)

    def loss(r: float, m: float) -> Curve:
        return group_curve(model.curve(start(model, law, m), size, Fraction(r)), members)

    if target and target.order is not None and members > 1 and loss(1.0, 1.0).gaussian_squared is None:
        raise InvalidInputError(
            "with order: group privacy bounds no Rényi divergence of the family "
            f"{model.name!r}; give delta instead",
            parameter="per_person",
            value=per_person,
        )
    r, m = _scalings(name, loss, target)
    curve, eta = loss(r, m), start(model, law, m)
    if target is None and model.assumed and math.isinf(curve.rdp(1.001)):  # it was bounded numerically
        raise InvalidInputError(
            f"n={size}: no bound on what a draw of the family {model.name!r} reveals was found; "
            "take narrower bounds, fewer records, or more prior weight"
        )
    cell = model.grid(eta, size, Fraction(r)) if grid is None else as_epsilon(grid, "grid")
    if model.is_share and (1 / cell).denominator != 1:
        raise InvalidInputError(f"grid={cell} must be 1 divided by a whole number: cells that fill [0, 1]")
    spent = target.epsilon if target and target.order is None else None
    if target and spent and r == m == 1:  # the posterior itself, which may need less than it was allowed
        spent = min(spent, Guarantee(None, curve=curve).to_dp(target.delta).exact_epsilon or spent)
    relation, unit, assumptions = model.protects
    if per_person is not None:
        relation, assumptions = Relation.REPLACE_PERSON, (*assumptions, people_assumption(members))
    basis = f"{name} posterior sampling, {model.name} family (proofs/posterior-sampling.md)"
    delta_spent = target.delta if target else Fraction(0)
    guarantee = Guarantee(spent, relation, delta_spent, basis, assumptions, curve, unit)
    aim = target.to_dict() if target else {}
    return PosteriorSampler(name, model, law, size, r, m, cell, guarantee, aim)


def check_target(
    name: str, epsilon: EpsilonLike | None, order: float | None, delta: EpsilonLike | None
) -> None:
    """Refuses a sampler or a target that cannot be, whatever the number of records."""
    if name not in DRAW_METHODS:
        raise InvalidInputError(f"sampler {name!r} is unknown{nearest(name, DRAW_METHODS)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of δ above 1/n: n is not known here
        _target(name, epsilon, order, delta, 1)


def _target(
    name: str, epsilon: EpsilonLike | None, order: float | None, delta: EpsilonLike | None, n: int
) -> Target | None:
    """What is to be reached; None where ``direct`` is taken as it is."""
    if order is not None and delta is not None:
        raise InvalidInputError("give order (Rényi privacy) or delta ((epsilon, delta)), not both")
    if epsilon is None and (order is not None or delta is not None):
        raise InvalidInputError("epsilon is missing: a target is epsilon with order, or epsilon with delta")
    if epsilon is None and name != "direct":
        raise InvalidInputError(
            f"{name!r} needs a target: epsilon with order (Rényi privacy), or epsilon with delta"
        )
    if epsilon is None:
        return None
    if order is None and delta is None:
        raise InvalidInputError(
            "epsilon alone is no target, because a posterior draw is never purely private: add order=10 "
            "for Rényi privacy of that order, or delta=1e-6"
        )
    return Target.of(epsilon, delta, order, n, "ask for proportions, which need no delta")


def as_family(family: str | Family, options: dict[str, Any]) -> Family:
    if isinstance(family, Family):
        if options:
            raise InvalidInputError(
                f"{', '.join(sorted(options))}: a family object has its own options already"
            )
        FAMILIES.check_made(family.name)
        nearby = getattr(family, "nearby", None)
        if nearby is not None:
            raise InvalidInputError(
                "is no longer made: it is read from documents", parameter="nearby", value=nearby
            )
        return family
    cls: type[Family] = FAMILIES[family]
    known = {own.name for own in fields(cls) if own.init}
    for option in options:
        if option not in known:
            takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
            raise InvalidInputError(f"{option!r} is not an option of family {family!r}; {takes}")
    for own in fields(cls):
        needed = own.default is MISSING and own.default_factory is MISSING and own.name != "bounds"
        if needed and own.name not in options:
            what = ", the known standard deviation of one record" if own.name == "sigma" else ""
            raise InvalidInputError(f"family {family!r} needs {own.name}={what}")
    return cls(**{**({"bounds": None} if "bounds" in known else {}), **options})


def _scalings(name: str, loss: Callable[[float, float], Curve], target: Target | None) -> tuple[float, float]:
    """(r, m): the largest found that meets the target, which is seen to hold at the one returned."""
    if target is None:
        return 1.0, 1.0

    def curve(scale: float) -> Curve:
        return loss(scale, 1.0) if name == "diffused" else loss(1.0, scale)

    full = curve(1.0)
    if target.is_met_by(full):
        return 1.0, 1.0
    if name == "direct":
        raise InvalidInputError(
            f"'direct' does not reach the target: it gives {target.describe_loss(full)}. "
            "'diffused' and 'concentrated' scale the posterior until it does; more prior weight or public "
            "data (prior.updated_with_public) help too"
        )
    rough = largest_scale(
        lambda scale: target.is_met_by(curve(scale), rough=True), least=_SMALLEST, relative=_RELATIVE
    )
    if not rough:
        raise InvalidInputError(
            f"no scaling of {name!r} reaches the target: the smallest tried, {_SMALLEST:.3g}, gives "
            f"{target.describe_loss(curve(_SMALLEST))}"
        )
    retreats = (*RETREATS, *(1 - 0.5**i for i in range(1, 60)))
    found = certain(lambda scale: target.is_met_by(curve(scale)), (rough * (1 - share) for share in retreats))
    if found is None:
        best = target.describe_loss(curve(rough / 2**59))
        raise InvalidInputError(
            f"no scaling of {name!r} was seen to reach the target: the smallest gives {best}"
        )
    return (found, 1.0) if name == "diffused" else (1.0, found)
