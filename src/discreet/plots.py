"""Pictures of releases, legible in black and white. Needs matplotlib: ``pip install discreet[plots]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.core import DiscreetError, NotPrivateError, TooLargeError
from discreet.families import Beta, Dirichlet
from discreet.releases import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ("-", "--", "-.")


def _axes(ax: Axes | None) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise DiscreetError("plots need matplotlib: pip install 'discreet[plots]'") from None
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def posterior(
    release: Release, ax: Axes | None = None, *, interval: float = 0.95, truth: Beta | Dirichlet | None = None
) -> Axes:
    """The posterior density of each level's proportion: noise-aware with its interval shaded, plug-in dotted.

    ``truth`` draws another posterior thin and grey for comparison: only for data that are public anyway.
    """
    axes = _axes(ax)
    # Two levels have mirrored densities: the last declared one is what people ask about ("yes").
    shown = [1] if len(release.levels) == 2 else list(range(len(release.levels)))
    plug_in = [release.posterior.marginal(i) for i in shown]
    try:
        aware = release.noise_aware()
        marginals: list[Any] = [aware.marginal(i) for i in shown]
    except (NotPrivateError, TooLargeError):
        marginals = list(plug_in)
    others = [truth.marginal(i) for i in shown] if truth is not None else []
    ends = [m.ppf([0.0005, 0.9995]) for m in (*marginals, *plug_in, *others)]
    low, high = min(float(e[0]) for e in ends), max(float(e[1]) for e in ends)
    margin = 0.04 * (high - low)
    theta = np.linspace(max(low - margin, 1e-9), min(high + margin, 1 - 1e-9), 801)
    for position, (index, marginal) in enumerate(zip(shown, marginals, strict=True)):
        last = position == len(shown) - 1
        density = marginal.pdf(theta)
        left, right = marginal.interval(interval)
        style = _STYLES[position % len(_STYLES)]
        (line,) = axes.plot(theta, density, style, linewidth=1.6, label=f"{release.levels[index]}")
        inside = (theta >= left) & (theta <= right)
        axes.fill_between(theta[inside], density[inside], alpha=0.15, color=line.get_color(), linewidth=0)
        if marginal is not plug_in[position]:
            label = "plug-in: noise ignored" if last else None
            axes.plot(theta, plug_in[position].pdf(theta), ":", color="0.2", linewidth=1.0, label=label)
        if others:
            label = "without privacy" if last else None
            axes.plot(theta, others[position].pdf(theta), "-", color="0.55", linewidth=0.9, label=label)
    axes.set_xlim(theta[0], theta[-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("proportion" if len(shown) > 1 else f"proportion of “{release.levels[1]}”")
    axes.set_ylabel("posterior density")
    axes.set_title(f"{release.mechanism}, {release.guarantee}, n = {release.n}", fontsize=10)
    axes.legend(frameon=False, title=f"shaded: {100 * interval:g} % interval", title_fontsize=8, fontsize=9)
    return axes  # type: ignore[no-any-return]
