"""Inference from noisy counts that others published."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet._declarations import as_choice, as_integer, as_prior
from discreet._inference._likelihoods.kinds import Likelihood, as_values, likelihood
from discreet._inference._likelihoods.models import Model
from discreet._inference.add_remove import AddRemovePosterior, LogUniform
from discreet._interop import Bridged
from discreet._numerics import noises
from discreet._numerics.cells import GivenTotal
from discreet._typing import FloatArray
from discreet.distributions.noise_aware import NoiseAware
from discreet.errors import FileError, InvalidInputError

_NAMES: dict[str, tuple[type[noises.Noise], str]] = {
    "discrete-laplace": (noises.DiscreteLaplace, "scale"),
    "geometric": (noises.DiscreteLaplace, "epsilon"),
    "lattice": (noises.LatticeNoise, "scale"),
    "laplace": (noises.Laplace, "scale"),
    "rounded-laplace": (noises.RoundedLaplace, "scale"),
    "discrete-gaussian": (noises.DiscreteGaussian, "scale"),
    "gaussian": (noises.GaussianNoise, "scale"),
    "rounded-gaussian": (noises.RoundedGaussian, "scale"),
}
_LEAST_AMOUNT, _LARGEST_AMOUNT = 1e-6, 1e12
_UNITS = ("scale", "std", "variance", "epsilon")
_ROUNDED: dict[type[noises.Noise], type[noises.Noise]] = {
    noises.GaussianNoise: noises.RoundedGaussian,
    noises.Laplace: noises.RoundedLaplace,
}


@dataclass(frozen=True, eq=False)
class Published(Bridged):
    """Noisy counts and their noise. The guarantee is the publisher's, not ours."""

    values: FloatArray
    noise: noises.Noise
    total: int | None
    levels: tuple[Any, ...]

    guarantee = "the publisher's; it is neither extended nor checked here"

    def __str__(self) -> str:
        scale = f"{self.noise.scale:g}" if self.noise.scale.ndim == 0 else "one per cell"
        total = "a total that is not public" if self.total is None else f"a public total of {self.total}"
        return (
            f"{len(self.values)} counts with {self.noise.name} noise (scale {scale}) and {total}\n"
            f"Guarantee: {self.guarantee}"
        )

    def likelihood(self, model: Model | None = None) -> Likelihood:
        """Return the likelihood log P(values | parameters).

        The parameters are shares if the total is public, and rates if it is not.

        Parameters
        ----------
        model
            A model of the counts; by default multinomial if the total is public, otherwise Poisson.

        Returns
        -------
        Likelihood
            The likelihood, for PyMC, NumPyro, Stan or any sampler.
        """
        return likelihood(self.values, self.noise, model, total=self.total)

    def noise_aware(
        self, prior: float | Sequence[float] = 1.0, total_range: tuple[float, float] | None = None
    ) -> Any:
        """Return the posterior of the shares with the noise accounted for, under a Dirichlet prior.

        Parameters
        ----------
        prior
            Parameters of the Dirichlet prior, one number or one for each level.
        total_range
            Bounds of the total, where it is not public.

        Returns
        -------
        Answer
            The posterior. Where the total is not public it is integrated over, with the prior 1/total; its
            posterior is ``total``.
        """
        alphas = as_prior(prior, len(self.values))
        if not _LEAST_AMOUNT <= min(alphas) <= max(alphas) <= 1e6:
            raise InvalidInputError(f"prior={_short(prior)} must be between {_LEAST_AMOUNT:g} and 1e6")
        if self.total is None and self.noise.scale.ndim:
            raise InvalidInputError(
                "noise must have one scale for all cells where the total is not public; give total=…"
            )
        if self.total is None:
            if total_range is None:
                scales = self.noise.scales(len(self.values))
                total_range = 1.0, 1e3 * float(np.abs(self.values).sum() + 10 * scales.sum() + 1)
            expected = LogUniform.of(total_range, "total_range")
            return AddRemovePosterior(self.values, alphas, noise=self.noise, total_prior=expected)
        return NoiseAware(alphas, self.total, GivenTotal(self.values, self.noise, alphas, self.total))

    def pool(self, groups: Sequence[Any], sizes: Any = None, seed: int = 0) -> Any:
        """Return shares within groups under a hierarchical model; values are listed group after group.

        Parameters
        ----------
        groups
            Names of the groups.
        sizes
            Their public numbers of records, where those are known. Noise that sums to zero then does so
            within each group, otherwise over the whole table.
        seed
            Seed of the simulation.

        Returns
        -------
        Pooled
            The shares of each group.
        """
        from discreet._inference.pooled import noisy_groups, pool_groups

        names = tuple(groups)
        if not names or len(self.values) % len(names) or len(self.values) < 2 * len(names):
            raise InvalidInputError(
                f"{len(self.values)} values cannot be divided into {len(names)} groups of two or more"
            )
        if isinstance(self.noise, noises.Clamped) or self.noise.scale.ndim:
            raise InvalidInputError("pooling needs noise of one scale, and no clamped or withheld values")
        rows = self.values.reshape(len(names), -1)
        total = int(rows.sum()) if self.noise.together else self.total
        return pool_groups(noisy_groups(rows, self.noise, sizes, total), names, seed=seed)


def noisy_counts(
    values: Any,
    noise: Any,
    total: Any = None,
    *,
    column: str | None = None,
    levels: Any = None,
    clamped: Any = None,
    rounded: bool = False,
    suppressed_below: Any = None,
) -> Published:
    """Read noisy counts that any tool published.

    Parameters
    ----------
    values
        A sequence, a mapping from level to value, or a table (a data frame, or the path of a CSV file) whose
        ``column`` holds the values.
    noise
        ``(name, amount)``: ``("discrete-laplace", scale)``, ``("geometric", epsilon)``, ``("laplace",
        scale)``, ``("discrete-gaussian", sigma)``, ``("gaussian", sigma)``; an amount is one number, one
        for each cell, or the name of a column. Other units are named: ``("laplace", {"std": 3})``,
        ``{"variance": …}``, ``{"epsilon": …}`` (for one record that moves one count by one), ``{"scale":
        …}``. A measurement of OpenDP stands for its own noise.
    total
        The exact number of records, if it is public.
    column
        The column of the values, in a table.
    levels
        Names of the counts, or the column that holds them.
    clamped
        ``0`` or ``(0, 100)`` where values were clamped.
    rounded
        Whether noise with a density was rounded to whole numbers.
    suppressed_below
        The threshold below which values were withheld; None or NaN stands for those.

    Returns
    -------
    Published
        The counts, with their likelihood and posteriors.

    Examples
    --------
    >>> published = noisy_counts([61, 45], noise=("discrete-laplace", 10.0), total=100)
    >>> bool(0.4 < published.noise_aware().mean()[0] < 0.7)
    True
    """
    table = _table(values) if column is not None else None
    if table is not None:
        values = _column(table, str(column))
        levels = _column(table, levels) if isinstance(levels, str) else levels
    elif isinstance(values, Mapping):
        levels, values = tuple(values) if levels is None else levels, list(values.values())
    elif isinstance(values, str | Path):
        raise InvalidInputError(
            "is a file: name the column that holds the values, column=…", "values", str(values)
        )
    array = as_values(values, gaps=True)
    distribution = as_noise(noise, table)
    if rounded is not False:
        distribution = _round(distribution, rounded)
    distribution, array = _censor(distribution, array, clamped, suppressed_below)
    distribution.check(array)
    names = tuple(range(len(array))) if levels is None else tuple(levels)
    if len(names) != len(array):
        raise InvalidInputError(f"levels has {len(names)} entries for {len(array)} values")
    size = None if total is None else as_integer(total, "total")
    published = Published(array, distribution, size, names)
    published.likelihood()  # refuses scales, totals and values that do not fit together
    return published


def as_noise(noise: Any, table: Any = None) -> noises.Noise:
    """Return the noise distribution for a description; see :func:`noisy_counts`."""
    if isinstance(noise, noises.Noise):
        return noise
    if hasattr(noise, "output_measure") and hasattr(noise, "map"):
        return _of_opendp(noise)
    if isinstance(noise, str) or not isinstance(noise, Sequence) or len(noise) != 2:
        raise InvalidInputError(
            "must be a pair such as ('discrete-laplace', 4.0), or a measurement of OpenDP", "noise", noise
        )
    name, amount = noise
    kind, unit = _NAMES[as_choice(name, _NAMES, "noise")]
    if isinstance(amount, Mapping):
        if len(amount) != 1 or (unit := next(iter(amount))) not in _UNITS:
            raise InvalidInputError(
                f"the amount of noise must be one of {', '.join(_UNITS)}, such as {{'std': 3.0}}"
            )
        amount = amount[unit]
    if isinstance(amount, str):
        if table is None:
            raise InvalidInputError(
                f"noise names the column {amount!r}, but values is not a table; give a table and column=…"
            )
        amount = _column(table, amount)
    try:
        array = np.asarray(amount, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(f"{unit} must be a number, or one for each cell") from None
    if array.ndim > 1 or not np.all(np.isfinite(array) & (array > 0)):
        raise InvalidInputError(f"{unit}={_short(amount)} of the noise must be positive and finite")
    if not np.all((array > _LEAST_AMOUNT) & (array < _LARGEST_AMOUNT)):
        limits = f"between {_LEAST_AMOUNT:g} and {_LARGEST_AMOUNT:g}"
        raise InvalidInputError(f"{unit}={_short(amount)} of the noise must be {limits}")
    return kind(_scale(kind, unit, array))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _scale(kind: type[noises.Noise], unit: str, amount: FloatArray) -> FloatArray:
    if unit == "scale":
        return amount
    gaussian = kind in (noises.GaussianNoise, noises.DiscreteGaussian, noises.RoundedGaussian)
    if unit == "epsilon":
        if gaussian:
            raise InvalidInputError(
                "epsilon alone does not determine the scale of Gaussian noise; give its 'std' or 'variance'"
            )
        return np.asarray((2.0 if kind is noises.LatticeNoise else 1.0) / amount)
    variance = amount if unit == "variance" else amount**2
    if gaussian:
        return np.sqrt(variance)
    if kind is noises.DiscreteLaplace:  # variance 1/(cosh(1/b) − 1)
        return np.asarray(1 / np.arccosh(1 + 1 / variance))
    if kind is noises.LatticeNoise:
        raise InvalidInputError("lattice noise takes 'epsilon' or 'scale' (2/epsilon)")
    return np.sqrt(variance / 2)


def _of_opendp(measurement: Any) -> noises.Noise:
    """Return the noise of an OpenDP measurement; its scale follows from its privacy loss for one record."""
    measure, carrier = str(measurement.output_measure), str(measurement.input_domain)
    fractional = "f64" in carrier or "f32" in carrier
    for step in (1.0,) if fractional else (1, 1.0):
        try:
            loss = float(measurement.map(step))
            break
        except Exception as error:
            problem = error
    else:
        raise InvalidInputError(
            f"the privacy loss of the measurement for one record cannot be computed ({problem}); give its "
            "scale, as in noise=('discrete-laplace', scale)"
        )
    if not (math.isfinite(loss) and loss > 0):
        raise InvalidInputError(f"the measurement has loss {loss} for one record, so it adds no noise")
    if "ZeroConcentrated" in measure:
        return (noises.GaussianNoise if fractional else noises.DiscreteGaussian)(1 / math.sqrt(2 * loss))
    if "MaxDivergence" in measure:
        return (noises.Laplace if fractional else noises.DiscreteLaplace)(1 / loss)
    raise InvalidInputError(
        f"the measurement's privacy is measured by {measure}, which does not determine its noise; give "
        "noise=(name, scale)"
    )


def _round(distribution: noises.Noise, rounded: Any) -> noises.Noise:
    if rounded is not True:
        raise InvalidInputError(
            ": values rounded to other than whole numbers are not modelled; "
            "ask the publisher for the unrounded ones",
            "rounded",
            rounded,
        )
    if distribution.integer:
        return distribution
    return _ROUNDED[type(distribution)](distribution.scale)


def _censor(
    distribution: noises.Noise, values: FloatArray, clamped: Any, below: Any
) -> tuple[noises.Noise, FloatArray]:
    """Return the noise combined with clamping and suppression, and the values with gaps filled."""
    low, high = -math.inf, math.inf
    if clamped is not None:
        try:
            first, second = (clamped, None) if np.ndim(clamped) == 0 else clamped
            low = -math.inf if first is None else float(first)
            high = math.inf if second is None else float(second)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInputError("must be a number, or two such as (0, 100)", "clamped", clamped) from None
    gaps = np.isnan(values)
    if below is not None:
        try:
            edge = float(below)
            if not math.isfinite(edge):
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            raise InvalidInputError("must be a number, such as 10", "suppressed_below", below) from None
        low = max(low, math.ceil(edge) - 1 if distribution.integer else edge)
        if np.any(values[~gaps] < edge):
            raise InvalidInputError(
                f"values must be at least suppressed_below={below!r}, or missing; some are smaller"
            )
        values = np.where(gaps, low, values)
    elif gaps.any():
        raise InvalidInputError(
            "values has gaps (None or NaN): give suppressed_below=… if small values were withheld; otherwise "
            "leave the cell out"
        )
    if math.isinf(low) and math.isinf(high):
        return distribution, values
    if distribution.together:
        raise InvalidInputError(
            "noise that sums to zero cannot be modelled after clamping or suppression; use the raw values"
        )
    return noises.Clamped(distribution, low, high), values


def _table(source: Any) -> Any:
    if not isinstance(source, str | Path):
        return source
    try:
        with open(source, newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"{source} cannot be read as CSV: {type(error).__name__}") from None
    if not rows:
        raise FileError(f"{source} has no rows")
    return {name: [row[name] for row in rows] for name in rows[0]}


def _column(table: Any, name: str) -> Any:
    try:
        return list(table[name])
    except (KeyError, TypeError, IndexError):
        raise InvalidInputError(f"column {name!r} is not in the table") from None
