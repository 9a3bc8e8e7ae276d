"""Posterior sampling: release a draw from the posterior itself, whose spread hides each record.

Geumlek, Song and Chaudhuri (2017), for every conjugate family of :mod:`discreet.posterior_sampling.families`:

* ``direct``: a draw from the posterior η₀ + ΣS(x), whose guarantee depends on prior and n;
* ``diffused``: from η₀ + r ΣS(x), with the largest r ≤ 1 that meets a target;
* ``concentrated``: from η₀/m + ΣS(x), with the largest m ≤ 1 that meets a target.

The target is either (λ, ε)-Rényi privacy or (ε, δ)-differential privacy; the latter is checked on the privacy
profile. Draws are exact: the output has the distribution of a continuous draw rounded to a declared grid,
with every comparison certain. Proofs: ``proofs/posterior-sampling.md``.
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
from discreet._documents.parts import VERSIONS
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

_SMALLEST_SCALING = 2.0**-60
"""The smallest r or m that is tried."""
_SCALING_TOLERANCE = 1e-9
"""Relative tolerance in the search for the largest scaling that meets the target."""


@dataclass(frozen=True)
class PosteriorSampler:
    """A calibrated posterior sampler; the data enter only in :meth:`draw`.

    Draws come from η₀/m + r ΣS(x). Built by :func:`posterior_sampler`.

    Parameters
    ----------
    name : {"direct", "diffused", "concentrated"}
        How the posterior is made private.
    family : Family
        The model of one record.
    prior : object
        The prior, as a distribution of the family.
    n : int
        The public number of records.
    r : float
        The weight of a record, in (0, 1].
    m : float
        The divisor of the prior, in (0, 1].
    grid : Fraction
        The width of the cells that draws are rounded to.
    guarantee : Guarantee
        The guarantee of one draw.
    target : mapping
        The privacy target.

    Examples
    --------
    >>> sampler = posterior_sampler("diffused", "beta", prior=(6, 12), n=100, epsilon=0.5, order=15)
    >>> sampler.name, round(sampler.r, 3), sampler.m
    ('diffused', 0.412, 1.0)
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
        """Return the guarantee of several draws together, at the δ of the target if it has one.

        Parameters
        ----------
        size : int
            The number of draws.

        Returns
        -------
        Guarantee

        Examples
        --------
        >>> sampler = posterior_sampler("diffused", "beta", prior=(6, 12), n=100, epsilon=0.5, order=15)
        >>> bool(sampler.price(2).rdp(15) > sampler.price().rdp(15))
        True
        """
        number = as_positive(size, "size")
        together = compose([self.guarantee], count=number)
        delta = self.guarantee.exact_delta
        return together.to_dp(delta) if number > 1 and delta else together

    def _eta(self, statistic: Any, n: int | None = None) -> Natural:
        """Return η₀/m + r ΣS(x), from the statistic of all records or of ``n``."""
        more = self.family.contribution(statistic, self.n if n is None else n)
        return add_scaled(start(self.family, self.prior, self.m), more, Fraction(self.r))

    def draw(self, statistic: Any, size: int = 1, entropy: OSEntropy | None = None) -> FloatArray:
        """Draw privately from the posterior; together the draws cost ``price(size)``.

        The randomness comes from the operating system; a seeded generator is refused.

        Parameters
        ----------
        statistic : object
            The sufficient statistic of the n records; see :meth:`statistic`.
        size : int
            The number of draws.
        entropy : OSEntropy, optional
            The source of random bits.

        Returns
        -------
        ndarray

        Raises
        ------
        InvalidInputError
            If no dataset of n records has this statistic.

        Examples
        --------
        >>> sampler = posterior_sampler("diffused", "beta", prior=(6, 12), n=100, epsilon=0.5, order=15)
        >>> share = sampler.draw(27)
        >>> share.shape, bool(0 <= share[0] <= 1)
        ((1,), True)
        """
        source, eta = private_source(entropy), self._eta(statistic)
        draws = [self.family.draw(eta, self.grid, source) for _ in range(as_positive(size, "size"))]
        return self.family.value(np.array([[float(part) for part in draw] for draw in draws]))

    def release(self, statistic: Any, size: int = 1) -> Sample:
        """Draw privately, and return the draws with everything public that led to them.

        Parameters
        ----------
        statistic : object
            The sufficient statistic of the n records; see :meth:`statistic`.
        size : int
            The number of draws.

        Returns
        -------
        Sample
        """
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
        """Draw from a seeded generator in floating point, for experiments; **not private**.

        Parameters
        ----------
        statistic : object
            The sufficient statistic of n records.
        size : int
            The number of draws.
        seed : int, optional
            Seed of the pseudo-random numbers.

        Returns
        -------
        ndarray

        Examples
        --------
        >>> sampler = posterior_sampler("diffused", "beta", prior=(6, 12), n=100, epsilon=0.5, order=15)
        >>> bool((sampler.simulate(27, size=3, seed=0) == sampler.simulate(27, size=3, seed=0)).all())
        True
        """
        number, rng = as_integer(size, "size"), np.random.default_rng(seed)
        return self.family.value(self.family.simulate(self._eta(statistic), number, rng))

    def statistic(self, data: Any, column: str | None = None, **options: Any) -> Any:
        """Return the exact sufficient statistic of records.

        Numbers are clipped to the declared bounds and rounded to 65,536 steps between them (counts are whole
        already), so that a sum is exact and one record moves it by at most the width of the bounds.

        Parameters
        ----------
        data : list, array, table, mapping or path
            The records, as in :func:`discreet.proportions`; an array of n rows for vectors.
        column : str, optional
            The column that holds the records; none where the data are one column.
        **options
            How records are read: ``levels=`` for a Dirichlet, ``missing=`` for the value that stands in for
            missing ones.

        Returns
        -------
        object

        Raises
        ------
        InvalidInputError
            If the data have a different number of records than n.

        Examples
        --------
        >>> sampler = posterior_sampler("diffused", "beta", prior=(1, 1), n=4, epsilon=1, order=2)
        >>> sampler.statistic([0, 1, 1, 0])
        Fraction(2, 1)
        """
        statistic, n = self.family.read(data, column, options)
        if n != self.n:
            raise InvalidInputError(
                f"n={self.n} was declared but the data have a different number of records"
            )
        return statistic

    def after_breach(self, statistic: Any, leaked: int) -> Guarantee:
        """Return the guarantee of one draw for the other records once some records are known.

        The known records then act like a part of the prior, so the others are n − ``leaked`` records under a
        stronger prior.

        Parameters
        ----------
        statistic : object
            The sufficient statistic of the known records.
        leaked : int
            The number of known records.

        Returns
        -------
        Guarantee

        Raises
        ------
        InvalidInputError
            If ``leaked`` is not between 1 and n − 1, or the guarantee is about people.

        Examples
        --------
        >>> sampler = posterior_sampler("diffused", "beta", prior=(6, 12), n=100, epsilon=0.5, order=15)
        >>> bool(sampler.after_breach(10, 40).rdp(15) < sampler.guarantee.rdp(15))
        True
        """
        number = as_integer(leaked, "leaked")
        if not 0 < number < self.n:
            raise InvalidInputError(f"must be between 1 and n − 1 = {self.n - 1}", "leaked", leaked)
        if self.guarantee.relation is Relation.REPLACE_PERSON:
            raise InvalidInputError("after_breach needs a guarantee for single records: leave per_person out")
        curve = self.family.curve(self._eta(statistic, number), self.n - number, Fraction(self.r))
        basis = f"{self.guarantee.basis}, for the others when {number} of {self.n} records are known"
        return replace(self.guarantee, exact_epsilon=None, exact_delta=Fraction(0), basis=basis, curve=curve)

    def to_opendp(self) -> Any:
        """Return this sampler as a user measurement of OpenDP.

        Returns
        -------
        opendp.mod.Measurement
        """
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
    """Return a posterior sampler for a family, calibrated to a target before any data are opened.

    Parameters
    ----------
    name : {"direct", "diffused", "concentrated"}
        How the posterior is made private; ``"direct"`` needs no target and reports the guarantee that it has.
    family : str or Family
        The model of one record: its name, such as ``"beta"``, ``"gaussian"`` or ``"binomial"``
        (``docs/how-to/posterior-draws.md`` lists them), or a family object.
    prior : object
        The parameters of the prior.
    n : int
        The public number of records.
    epsilon : number, optional
        The privacy budget.
    order : float, optional
        The order of the target, if that is Rényi privacy.
    delta : number, optional
        The δ of the target, if that is (ε, δ).
    grid : number, optional
        The width of the cells that draws are rounded to; by default a fine one, from public parameters.
    per_person : int, optional
        How many of the n records one person may have; the target is then met for a person, by group privacy.
    **options
        Options of the family, such as ``sigma=``, ``bounds=`` or ``trials=``.

    Returns
    -------
    PosteriorSampler

    Raises
    ------
    InvalidInputError
        If the target is incomplete, or cannot be met.

    Examples
    --------
    >>> sampler = posterior_sampler("diffused", "beta", prior=(6, 12), n=100, epsilon=0.5, order=15)
    >>> sampler.guarantee.rdp(15) <= 0.5, round(sampler.r, 3)
    (True, 0.412)
    """
    check_target(name, epsilon, order, delta)
    model = as_family(family, options)
    size = as_size(n)
    distribution = model.prior(prior)
    members = 1 if per_person is None else as_positive(per_person, "per_person")
    target = _target(name, epsilon, order, delta, size)

    def _loss(r: float, m: float) -> Curve:
        return group_curve(model.curve(start(model, distribution, m), size, Fraction(r)), members)

    if target and target.order is not None and members > 1 and _loss(1.0, 1.0).gaussian_squared is None:
        raise InvalidInputError(
            "cannot be used with order: there is no bound for people in the family "
            f"{model.name!r}; give delta instead",
            "per_person",
            per_person,
        )
    r, m = _scalings(name, _loss, target)
    curve, eta = _loss(r, m), start(model, distribution, m)
    if target is None and model.assumed and math.isinf(curve.rdp(1.001)):  # it was bounded numerically
        raise InvalidInputError(
            f"n={size}: no bound is known on what a draw of the family {model.name!r} reveals; use "
            "narrower bounds, fewer records or a stronger prior"
        )
    cell = model.grid(eta, size, Fraction(r)) if grid is None else as_epsilon(grid, "grid")
    if model.is_share and (1 / cell).denominator != 1:
        raise InvalidInputError(f"grid={cell} must be 1 divided by a whole number, so that cells fill [0, 1]")
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
    return PosteriorSampler(name, model, distribution, size, r, m, cell, guarantee, aim)


def check_target(
    name: str, epsilon: EpsilonLike | None, order: float | None, delta: EpsilonLike | None
) -> None:
    """Raise an error if a sampler is unknown, or its target cannot be met for any number of records.

    Parameters
    ----------
    name : str
        The name of the sampler.
    epsilon : number, optional
        The privacy budget.
    order : float, optional
        The Rényi order.
    delta : number, optional
        The δ of the guarantee.

    Raises
    ------
    InvalidInputError
        If the name is unknown, or the target is incomplete.

    Examples
    --------
    >>> check_target("diffused", 1, None, "1e-6")
    """
    if name not in DRAW_METHODS:
        raise InvalidInputError(f"sampler {name!r} is unknown{nearest(name, DRAW_METHODS)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of δ above 1/n: n is not known here
        _target(name, epsilon, order, delta, 1)


def _target(
    name: str, epsilon: EpsilonLike | None, order: float | None, delta: EpsilonLike | None, n: int
) -> Target | None:
    """Return the privacy target; None for ``direct`` without one."""
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
            "epsilon alone is not a target, because a posterior draw is never purely private: add delta, "
            "such as 1e-6, for (ε, δ); or the option order, such as 10, for Rényi privacy of that order"
        )
    return Target.of(epsilon, delta, order, n, "ask for proportions, which need no delta")


def as_family(family: str | Family, options: dict[str, Any]) -> Family:
    """Return a family from its name and options, or the family itself.

    Parameters
    ----------
    family : str or Family
        The name, or the family.
    options : dict
        Options of the family, such as ``bounds``; none for a family object.

    Returns
    -------
    Family

    Raises
    ------
    InvalidInputError
        If an option is unknown or missing.

    Examples
    --------
    >>> as_family("poisson", {"bounds": (0, 20)}).name
    'poisson'
    """
    if isinstance(family, Family):
        if options:
            raise InvalidInputError(
                f"{', '.join(sorted(options))}: a family object already has its options; leave these out"
            )
        FAMILIES.check_made(family.name)
        nearby = getattr(family, "nearby", None)
        if nearby is not None:
            raise InvalidInputError("is no longer offered; only its documents are read", "nearby", nearby)
        return family
    cls: type[Family] = FAMILIES[family]
    allowed = {option_field.name for option_field in fields(cls) if option_field.init}
    for option in options:
        if option not in allowed:
            takes = f"it takes {', '.join(sorted(allowed))}" if allowed else "it takes none"
            raise InvalidInputError(f"{option!r} is not an option of family {family!r}; {takes}")
    for option_field in fields(cls):
        needed = (
            option_field.default is MISSING
            and option_field.default_factory is MISSING
            and option_field.name != "bounds"
        )
        if needed and option_field.name not in options:
            what = ", the known standard deviation of one record" if option_field.name == "sigma" else ""
            raise InvalidInputError(f"family {family!r} needs {option_field.name}={what}")
    return cls(**{**({"bounds": None} if "bounds" in allowed else {}), **options})


def _scalings(name: str, loss: Callable[[float, float], Curve], target: Target | None) -> tuple[float, float]:
    """Return the largest (r, m) that the search finds and verifies to meet the target."""
    if target is None:
        return 1.0, 1.0

    def _curve(scale: float) -> Curve:
        return loss(scale, 1.0) if name == "diffused" else loss(1.0, scale)

    full = _curve(1.0)
    if target.is_met_by(full):
        return 1.0, 1.0
    if name == "direct":
        raise InvalidInputError(
            f"'direct' does not reach the target: it gives {target.describe_loss(full)}. "
            "'diffused' and 'concentrated' scale the posterior until they do; more prior weight or public "
            "data (prior.updated_with_public) help too"
        )
    rough = largest_scale(
        lambda scale: target.is_met_by(_curve(scale), rough=True),
        least=_SMALLEST_SCALING,
        relative=_SCALING_TOLERANCE,
    )
    if not rough:
        raise InvalidInputError(
            f"no scaling of {name!r} reaches the target: the smallest tried, {_SMALLEST_SCALING:.3g}, gives "
            f"{target.describe_loss(_curve(_SMALLEST_SCALING))}"
        )
    retreats = (*RETREATS, *(1 - 0.5**i for i in range(1, 60)))
    scaling = certain(
        lambda scale: target.is_met_by(_curve(scale)), (rough * (1 - share) for share in retreats)
    )
    if scaling is None:
        best = target.describe_loss(_curve(rough / 2**59))
        raise InvalidInputError(
            f"no scaling of {name!r} could be shown to reach the target: the smallest gives {best}"
        )
    return (scaling, 1.0) if name == "diffused" else (1.0, scaling)
