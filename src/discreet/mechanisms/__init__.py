"""The mechanisms by name, and the one function that builds them."""

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
    """The class of mechanism ``name``, which must exist and take these options."""
    if name == "ehdl" and "calibration" in options:
        name = "ehdl-calibrated"  # another mechanism, which is private, under a name of its own
    cls: type[Mechanism] = MECHANISMS[name]
    known = {field.name for field in fields(cls) if field.init}
    for option in options:
        if option not in known:
            usual = [key for key in ("prior", "n", "epsilon") if key in known]
            extra = sorted(known - set(usual))
            raise InvalidInputError(
                f"{option!r} is not an option of {name!r}; it takes {', '.join(usual)}"
                + (f" and {', '.join(extra)}" if extra else " only")
            )
    return cls


def automatic(relation: Relation = Relation.REPLACE_ONE, options: Iterable[str] = ()) -> str:
    """What ``mechanism="auto"`` means: a rule on public parameters, in constant time.

    ``gaussian`` where a δ, ρ or μ is given. For pure ε: ``geometric`` where n is private; else ``lattice``,
    which has the least expected Hellinger error of all pure-ε mechanisms wherever that error is below 0.85;
    where everything is noise another may be ahead by a few thousandths, as the reproductions show.
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
    """The mechanism ``name`` with everything public bound; the data enters only in its ``draw``.

    >>> m = mechanism("lshist", prior=(1, 1, 1), n=60, epsilon=0.8)
    >>> m.guarantee.epsilon, m.guarantee.delta, str(m.guarantee.relation)
    (0.8, 0.0, 'replace-one')
    >>> str(mechanism("geometric", prior=(1, 1, 1), epsilon=0.8).guarantee.relation)
    'add-remove'
    """
    given: dict[str, Any] = {k: v for k, v in (("n", n), ("epsilon", epsilon)) if v is not None}
    cls = check_options(name, [*given, *options])
    for field in fields(cls):
        needed = field.init and field.default is MISSING and field.default_factory is MISSING
        if needed and field.name not in {"prior", *given, *options}:
            raise InvalidInputError(f"{field.name}=None: {name!r} needs it")
    built = cls(prior=tuple(prior) if isinstance(prior, Sequence) else prior, **given, **options)
    if built.n and built.noise_scale >= built.n:
        warn(
            f"epsilon={epsilon}: the noise of {name!r} is about ±{built.noise_scale:.3g} on every count, and "
            f"no count can exceed n={built.n}; the released posterior says little beyond the prior",
            NoiseWarning,
        )
    return built


__all__ = ["MECHANISMS", "Mechanism", "Output", "automatic", "check_options", "mechanism"]
