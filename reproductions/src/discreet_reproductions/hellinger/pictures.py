"""Pictures of expected Hellinger errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import cycle
from typing import TYPE_CHECKING, Any

from discreet._declarations import as_epsilon, as_prior, as_size
from discreet.errors import DiscreetError
from discreet_reproductions.arrays import EpsilonLike
from discreet_reproductions.hellinger.expected_error import label
from discreet_reproductions.hellinger.optimal import optimal_error
from discreet_reproductions.hellinger.plan import Choice, chosen_mechanisms, plan, simulated_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ("-", "--", "-.")
_MARKERS = ("o", "s", "^", "D", "v", "x", "+", "*", "P")
EPSILONS = (0.1, 0.2, 0.5, 1, 2, 5)
"""Where :func:`error_curve` is drawn unless told otherwise."""


def _axes(ax: Axes | None) -> Any:
    if ax is not None:
        return ax
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def error_curve(
    prior: Sequence[float],
    n: int,
    epsilons: Iterable[EpsilonLike] = EPSILONS,
    ax: Axes | None = None,
    mechanisms: Iterable[Choice] | None = None,
) -> Axes:
    """Expected Hellinger error against ε, one curve per mechanism, and the limit of all where it is known.

    Uses public parameters only, as :func:`plan` does; bars are two standard errors where a figure
    is simulated.
    """
    axes = _axes(ax)
    parameters, size = as_prior(prior), as_size(n)
    chosen = chosen_mechanisms(mechanisms, parameters, size)
    values = list(epsilons)
    plans = [plan(prior=parameters, n=size, epsilon=e, mechanisms=chosen, quick=True) for e in values]
    budgets = [p.epsilon for p in plans]
    looks = zip(cycle(_MARKERS), cycle(_STYLES), strict=False)
    for (name, options), (marker, style) in zip(chosen, looks, strict=False):
        rows = [p.row(name, **options) for p in plans]
        expected, noise = [row.expected for row in rows], [2 * row.standard_error for row in rows]
        called = label(name, options) + ("" if rows[0].comparable else " (not private)")
        thin = {"markersize": 4, "linewidth": 1.2, "elinewidth": 0.8}
        axes.errorbar(budgets, expected, yerr=noise, fmt=marker + style, label=called, **thin)
    with suppress(DiscreetError):  # too large for the linear program
        limit = [optimal_error(prior=parameters, n=size, epsilon=e) for e in values]
        axes.plot(budgets, limit, "-", color="black", linewidth=3, alpha=0.35, label="limit", zorder=1)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xticks(budgets, [f"{e:g}" for e in budgets])
    axes.minorticks_off()
    axes.set_xlabel("ε")
    axes.set_ylabel("expected Hellinger error")
    axes.set_title(f"n = {size}, prior ({', '.join(f'{a:g}' for a in parameters)})", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes  # type: ignore[no-any-return]


def errors_box(
    prior: Sequence[float],
    n: int,
    epsilon: EpsilonLike,
    counts: Sequence[int] | None = None,
    mechanisms: Iterable[Choice] | None = None,
    size: int = 1000,
    seed: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Box plots of simulated Hellinger errors: quartiles, whiskers from 5 to 95 %, the mean as a diamond.

    At ``counts``, which must be made up or public, or over datasets drawn from the prior predictive.
    """
    axes = _axes(ax)
    parameters, number = as_prior(prior), as_size(n)
    chosen = chosen_mechanisms(mechanisms, parameters, number)
    errors = [
        simulated_errors(name, options, parameters, number, epsilon, size=size, seed=seed, counts=counts)
        for name, options in chosen
    ]
    black = {"color": "black", "linewidth": 1.0}
    diamond = {"marker": "D", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 5}
    drawn: dict[str, Any] = {f"{part}props": black for part in ("box", "whisker", "cap")}
    drawn |= {"medianprops": {**black, "linewidth": 2.0}, "meanprops": diamond}
    axes.boxplot(errors, whis=(5, 95), showfliers=False, showmeans=True, widths=0.6, **drawn)
    names = [label(name, options) for name, options in chosen]
    axes.set_xticks(range(1, len(chosen) + 1), names, rotation=30, horizontalalignment="right")
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("mechanism")
    axes.set_ylabel("Hellinger error")
    where = "prior predictive datasets" if counts is None else f"counts {tuple(int(c) for c in counts)}"
    axes.set_title(f"n = {number}, ε = {float(as_epsilon(epsilon)):g}, {where}", fontsize=10)
    return axes  # type: ignore[no-any-return]
