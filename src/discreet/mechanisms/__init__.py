"""The mechanisms by name, and the function that builds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields
from typing import Any

from discreet._declarations import Relation
from discreet._registry import MECHANISMS
from discreet._typing import EpsilonLike
from discreet.errors import InvalidInputError, NoiseWarning, warn
from discreet.mechanisms._outputs import Output
from discreet.mechanisms.base import Mechanism


def check_options(name: str, options: Iterable[str]) -> type[Mechanism]:
    """Return the class of a mechanism, after checking that it takes these options.

    Parameters
    ----------
    name
        Name of the mechanism.
    options
        Names of options.

    Returns
    -------
    type of Mechanism
        The class.

    Raises
    ------
    InvalidInputError
        If there is no such mechanism, or it does not take an option.

    Examples
    --------
    >>> check_options("lattice", ["n", "epsilon"]).__name__
    'Lattice'
    """
    if name == "ehdl" and "calibration" in options:
        name = "ehdl-calibrated"  # another mechanism, which is private, under a name of its own
    cls: type[Mechanism] = MECHANISMS[name]
    known = cls.__dataclass_fields__
    for option in options:
        if option not in known or not known[option].init:
            accepted = {field.name for field in fields(cls) if field.init}
            usual = [key for key in ("prior", "n", "epsilon") if key in accepted]
            extra = sorted(accepted - set(usual))
            raise InvalidInputError(
                f"{option!r} is not an option of {name!r}; it takes {', '.join(usual)}"
                + (f" and {', '.join(extra)}" if extra else " only")
            )
    return cls


def automatic(relation: Relation = Relation.REPLACE_ONE, options: Iterable[str] = ()) -> str:
    """Return the name of the mechanism that ``mechanism="auto"`` selects from public parameters.

    Parameters
    ----------
    relation
        Relation between neighbouring datasets.
    options
        Names of the options given.

    Returns
    -------
    str
        ``gaussian`` if δ, ρ or μ is given; for pure ε, ``geometric`` if n is private and otherwise
        ``lattice``.

    Notes
    -----
    ``lattice`` has the least expected Hellinger error of all pure-ε mechanisms wherever that error is below
    0.85. Where noise dominates, another may be better by a few thousandths, as the reproductions show.

    Examples
    --------
    >>> automatic(), automatic(Relation.ADD_REMOVE), automatic(options=["epsilon", "delta"])
    ('lattice', 'geometric', 'gaussian')
    """
    if not {"delta", "rho", "mu"}.isdisjoint(options):
        return "gaussian"
    return "geometric" if relation is Relation.ADD_REMOVE else "lattice"


def mechanism(
    name: str,
    *,
    prior: Sequence[float],
    n: int | None = None,
    epsilon: EpsilonLike | None = None,
    **options: Any,
) -> Mechanism:
    """Build a mechanism with all public parameters; the data enter only in its ``draw``.

    Parameters
    ----------
    name
        Name of the mechanism, such as ``"lattice"``; ``MECHANISMS`` lists them.
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records, where it is public.
    epsilon
        Privacy budget ε.
    **options
        Further parameters of the mechanism.

    Returns
    -------
    Mechanism
        The mechanism.

    Raises
    ------
    InvalidInputError
        If the name is unknown, or a parameter is missing, not accepted or out of range.

    Examples
    --------
    >>> m = mechanism("lshist", prior=(1, 1, 1), n=60, epsilon=0.8)
    >>> m.guarantee.epsilon, m.guarantee.delta, str(m.guarantee.relation)
    (0.8, 0.0, 'replace-one')
    >>> str(mechanism("geometric", prior=(1, 1, 1), epsilon=0.8).guarantee.relation)
    'add-remove'
    >>> len(m.draw((20, 30, 10)))
    3
    """
    arguments: dict[str, Any] = {k: v for k, v in (("n", n), ("epsilon", epsilon)) if v is not None}
    cls = check_options(name, [*arguments, *options])
    for field in fields(cls):
        needed = field.init and field.default is MISSING and field.default_factory is MISSING
        if needed and field.name not in {"prior", *arguments, *options}:
            raise InvalidInputError(f"{field.name} is missing: {name!r} needs it")
    built = cls(prior=tuple(prior) if isinstance(prior, Sequence) else prior, **arguments, **options)
    if built.n and built.noise_scale >= built.n:
        warn(
            f"epsilon={epsilon}: the noise of {name!r} is about ±{built.noise_scale:.3g} on every count, and "
            f"no count can exceed n={built.n}; the released posterior says little beyond the prior",
            NoiseWarning,
        )
    return built


__all__ = ["MECHANISMS", "Mechanism", "Output", "automatic", "check_options", "mechanism"]
