"""Pictures of releases, legible in black and white. Needs matplotlib: ``pip install discreet[plots]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.core import DiscreetError
from discreet.families import Beta, Dirichlet
from discreet.releases import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ("-", "--", "-.", ":")


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
    """The released posterior density of each level's proportion, with its credible interval shaded.

    ``truth`` draws another posterior thin and grey for comparison: only for data that are public anyway.
    """
    axes = _axes(ax)
    # Two levels have mirrored densities: the last declared one is what people ask about ("yes").
    shown = [1] if len(release.levels) == 2 else list(range(len(release.levels)))
    marginals = [release.posterior.marginal(i) for i in shown]
    low = min(float(m.ppf(0.0005)) for m in marginals)
    high = max(float(m.ppf(0.9995)) for m in marginals)
    if truth is not None:
        low = min([low, *(float(truth.marginal(i).ppf(0.0005)) for i in shown)])
        high = max([high, *(float(truth.marginal(i).ppf(0.9995)) for i in shown)])
    margin = 0.04 * (high - low)
    theta = np.linspace(max(low - margin, 1e-9), min(high + margin, 1 - 1e-9), 1201)
    for position, (index, marginal) in enumerate(zip(shown, marginals, strict=True)):
        density = marginal.pdf(theta)
        left, right = marginal.interval(interval)
        style = _STYLES[position % len(_STYLES)]
        (line,) = axes.plot(theta, density, style, linewidth=1.6, label=f"{release.levels[index]}")
        inside = (theta >= left) & (theta <= right)
        axes.fill_between(theta[inside], density[inside], alpha=0.15, color=line.get_color(), linewidth=0)
        if truth is not None:
            label = "without privacy" if position == len(shown) - 1 else None
            axes.plot(theta, truth.marginal(index).pdf(theta), "-", color="0.55", linewidth=0.9, label=label)
    axes.set_xlim(theta[0], theta[-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("proportion" if len(shown) > 1 else f"proportion of “{release.levels[1]}”")
    axes.set_ylabel("posterior density")
    axes.set_title(f"{release.mechanism}, {release.guarantee}, n = {release.n}", fontsize=10)
    axes.legend(frameon=False, title=f"shaded: {100 * interval:g} % interval", title_fontsize=8, fontsize=9)
    return axes  # type: ignore[no-any-return]
