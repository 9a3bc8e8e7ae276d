"""Plots of answers, legible in black and white. They need matplotlib, the extra ``plots``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.answers.network import NetworkRelease
from discreet.answers.release import Release
from discreet.distributions.beta_dirichlet import Beta, Dirichlet
from discreet.errors import InvalidInputError, TooLargeError, missing_extra
from discreet.planning.audit import Audit
from discreet.planning.candidates import CandidateDistribution
from discreet.posterior_sampling.sample import Sample
from discreet.regression._newton.fit import Fit

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
        raise missing_extra("matplotlib", "plots") from None
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def posterior(
    release: Release | Sample,
    ax: Axes | None = None,
    *,
    level: float = 0.95,
    truth: Beta | Dirichlet | None = None,
) -> Axes:
    """Plot the posterior densities of an answer, with their intervals shaded.

    For proportions the plug-in density is dotted. For posterior draws the prior is dotted and ticks mark
    the draws.

    Parameters
    ----------
    release : Release or Sample
        Proportions, or posterior draws.
    ax : matplotlib axes, optional
        The axes to draw on; by default a new figure.
    level : float
        The probability of the shaded intervals.
    truth : Beta or Dirichlet, optional
        Another posterior for comparison, thin and grey: only for data that are public anyway.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import discreet
    >>> smokers = discreet.proportions(["no"] * 70 + ["yes"] * 30, schema=("no", "yes"), epsilon=1)
    >>> posterior(smokers).get_xlabel()
    'proportion of “yes”'
    """
    axes = _axes(ax)
    if isinstance(release, Sample):
        _posterior_of_draws(release, axes, level)
    else:
        _posterior_of_shares(release, axes, level, truth)
    return axes  # type: ignore[no-any-return]


def _posterior_of_shares(release: Release, axes: Any, level: float, truth: Beta | Dirichlet | None) -> None:
    # Two levels have mirrored densities: the last declared one is what people ask about ("yes").
    shown = [1] if len(release.levels) == 2 else list(range(len(release.levels)))
    plug_in = [release.plug_in.marginal(i) for i in shown]
    aware = release.posterior_or_none()
    distributions: list[Any] = list(plug_in) if aware is None else [aware.marginal(i) for i in shown]
    others = [] if truth is None else [truth.marginal(i) for i in shown]
    low, high = _ends([*distributions, *plug_in, *others])
    theta = np.linspace(max(low, 1e-9), min(high, 1 - 1e-9), 801)
    beside = {"plug-in: noise ignored": plug_in, "without privacy": others}
    _densities(axes, [release.levels[i] for i in shown], distributions, beside, theta, level)
    axes.set_xlabel("proportion" if len(shown) > 1 else f"proportion of “{release.levels[1]}”")
    axes.set_ylabel("posterior density")
    size = "n private" if release.n is None else f"n = {release.n}"
    axes.set_title(f"{release.mechanism}, {release.guarantee}, {size}", fontsize=10)


def _posterior_of_draws(sample: Sample, axes: Any, level: float) -> None:
    names, before = sample.names, sample.prior_marginals()
    try:
        distributions = sample.marginals()
    except (TooLargeError, InvalidInputError):  # nobody knows what the draws say: they stand beside the prior
        distributions = before
    theta, drawn = np.linspace(*_ends(distributions), 801), np.atleast_2d(sample.values.T).T
    colours = _densities(axes, names, distributions, {"prior": before}, theta, level)
    for column, colour in zip(drawn.T, colours, strict=True):
        axes.plot(column, np.zeros(len(drawn)), "|", color=colour, markersize=14, markeredgewidth=1.6)
    axes.set_xlabel(names[0] if len(names) == 1 else "value")
    label = "density given the draw" + ("s" if len(drawn) > 1 else "")
    axes.set_ylabel("prior density" if distributions is before else label)
    axes.set_title(f"{sample.sampler}, {sample.guarantee}, n = {sample.n}", fontsize=10)


def _ends(distributions: Sequence[Any]) -> tuple[float, float]:
    """Return the range of values in which the distributions have nearly all their probability."""
    ends = np.array([distribution.ppf([0.0005, 0.9995]) for distribution in distributions])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    return low - 0.04 * (high - low), high + 0.04 * (high - low)


def _densities(
    axes: Any,
    names: Sequence[Any],
    distributions: Sequence[Any],
    beside: Mapping[str, Sequence[Any]],
    theta: Any,
    level: float,
) -> list[Any]:
    """Plot distributions with shaded intervals, and others as thin lines for comparison; return the
    colours."""
    colours = []
    for index, (name, distribution) in enumerate(zip(names, distributions, strict=True)):
        density, (left, right) = distribution.pdf(theta), distribution.interval(level)
        (line,) = axes.plot(theta, density, _STYLES[index % len(_STYLES)], linewidth=1.6, label=f"{name}")
        inside = (theta >= left) & (theta <= right)
        axes.fill_between(theta[inside], density[inside], alpha=0.15, color=line.get_color(), linewidth=0)
        colours.append(line.get_color())
        for (called, others), style, grey in zip(beside.items(), (":", "-"), ("0.2", "0.55"), strict=False):
            if others and others[index] is not distribution:
                label = called if index == len(distributions) - 1 else None
                axes.plot(theta, others[index].pdf(theta), style, color=grey, linewidth=1.0, label=label)
    axes.set_xlim(theta[0], theta[-1])
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, title=f"shaded: {100 * level:g} % interval", title_fontsize=8, fontsize=9)
    return colours


def intervals(answer: Any, ax: Axes | None = None, *, level: float = 0.95) -> Axes:
    """Plot the estimate and interval of each number of an answer, or the graph of a network.

    Parameters
    ----------
    answer : Answer or Pooled
        The answer to plot.
    ax : matplotlib axes, optional
        The axes to draw on; by default a new figure.
    level : float
        The probability of the intervals.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    InvalidInputError
        If the answer has nothing to draw.

    Examples
    --------
    >>> import discreet
    >>> hours = discreet.quantiles([8, 20, 38, 40] * 100, schema=(0, 80), epsilon=1)
    >>> intervals(hours).get_xlabel()
    '95 % interval'
    """
    figure = answer.figure(level)
    if figure is None:
        raise InvalidInputError("this answer has nothing to draw; plot its parts instead")
    if figure.graph:
        return network(answer, ax)
    axes = _axes(ax)
    for band in figure.bands:
        (line,) = axes.plot(band.x, band.y, label=band.name)
        axes.fill_between(band.x, band.low, band.high, alpha=0.15, color=line.get_color(), linewidth=0)
    if figure.bands:
        axes.set(xlabel=figure.axis, ylim=(0, 1.02), ylabel=f"share, with {100 * level:g} % intervals")
        axes.set_title(figure.title, fontsize=10)
        if len(figure.bands) > 1:
            axes.legend(frameon=False)
        return axes  # type: ignore[no-any-return]
    places = np.arange(len(figure.rows))[::-1]
    for place, row in zip(places, figure.rows, strict=True):
        if row.low is not None:
            axes.plot([row.low, row.high], [place, place], color="black", linewidth=1.0)
        axes.plot(row.mean, place, marker="o", color="white", markeredgecolor="black", markersize=5)
    named = [row.label for row in figure.rows]
    axes.set_yticks(*([places, named] if len(places) <= 60 else [[]]))
    axes.set_xlabel(f"{100 * level:g} % interval")
    axes.set_title(figure.title, fontsize=10)
    return axes  # type: ignore[no-any-return]


def coefficients(fit: Fit, ax: Axes | None = None, *, level: float = 0.95) -> Axes:
    """Plot each coefficient except the intercept with its interval.

    The thick part of a line is the interval that would remain without the noise of privacy.

    Parameters
    ----------
    fit : Fit
        A regression.
    ax : matplotlib axes, optional
        The axes to draw on; by default a new figure.
    level : float
        The probability of the intervals.

    Returns
    -------
    matplotlib axes
    """
    axes = intervals(fit, ax, level=level)
    figure: Any = fit.figure(level)
    for place, row in enumerate(reversed(figure.rows)):
        part = math.sqrt(1 - row.noise)
        inner = [row.mean + part * (end - row.mean) for end in (row.low or 0.0, row.high or 0.0)]
        axes.plot(inner, [place, place], color="black", linewidth=3.5, solid_capstyle="butt", zorder=1.5)
    axes.axvline(0, linestyle=":", color="0.4", linewidth=1.0)
    axes.set_xlabel(f"coefficient, {100 * level:g} % interval; thick: without the noise of privacy")
    return axes


def network(answer: NetworkRelease, ax: Axes | None = None) -> Axes:
    """Plot the graph of a network, with arrows from each column to those that depend on it.

    Parameters
    ----------
    answer : NetworkRelease
        A network.
    ax : matplotlib axes, optional
        The axes to draw on; by default a new figure.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import discreet
    >>> schema = discreet.Schema({"sex": ["f", "m"], "smoker": ["no", "yes"]}, n=400)
    >>> data = {"sex": ["f", "m"] * 200, "smoker": ["no"] * 300 + ["yes"] * 100}
    >>> answer = discreet.network(data, {"sex": [], "smoker": ["sex"]}, schema=schema, epsilon=1)
    >>> sorted(text.get_text() for text in network(answer).texts if text.get_text())
    ['sex', 'smoker']
    """
    axes = _axes(ax)
    figure: Any = answer.figure()
    places = {name: (across, -depth) for name, (across, depth) in figure.places().items()}
    for parent, name in figure.arrows():
        bent = places[parent][1] - places[name][1] > 1
        arrow = {"arrowstyle": "-|>", "color": "0.3", "shrinkA": 11, "shrinkB": 11}
        arrow["connectionstyle"] = f"arc3,rad={0.12 if bent else 0}"
        axes.annotate("", places[name], places[parent], arrowprops=arrow)
    for name, place in places.items():
        frame = {"boxstyle": "round", "facecolor": "white", "edgecolor": "0.2"}
        axes.text(*place, name, ha="center", va="center", bbox=frame, fontsize=9)
    axes.set_xlim(0, 1)
    axes.set_ylim(0.5 - len(figure.graph), 0.5)
    axes.set_axis_off()
    return axes  # type: ignore[no-any-return]


def distribution(found: CandidateDistribution, ax: Axes | None = None) -> Axes:
    """Plot the distribution of the distance between a mechanism's output and the true posterior.

    Parameters
    ----------
    found : CandidateDistribution
        Made by :func:`discreet.planning.candidates.candidate_distribution`.
    ax : matplotlib axes, optional
        The axes to draw on; by default a new figure.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import discreet
    >>> from discreet.planning.candidates import candidate_distribution
    >>> mechanism = discreet.mechanism("ehds", prior=(1, 1), n=8, epsilon=0.8)
    >>> distribution(candidate_distribution(mechanism, (4, 4))).get_ylabel()
    'probability of this distance or less'
    """
    axes = _axes(ax)
    for (name, values), style in zip(found.columns.items(), ("-", "--", "-.", ":"), strict=False):
        axes.step(found.distance, np.cumsum(values), style, where="post", label=name)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("Hellinger distance")
    axes.set_ylabel("probability of this distance or less")
    counts = ", ".join(map(str, found.counts))
    epsilon = float(found.mechanism.epsilon)
    axes.set_title(f"{found.mechanism.name} at ({counts}), ε = {epsilon:g}: not private", fontsize=10)
    axes.legend(frameon=False, fontsize=9)
    return axes  # type: ignore[no-any-return]


def profile(audit: Audit, ax: Axes | None = None) -> Axes:
    """Plot the exact privacy profile δ(ε) of an audit on a logarithmic axis, with a dotted line at the
    claimed ε.

    Parameters
    ----------
    audit : Audit
        Made by :func:`discreet.audit`.
    ax : matplotlib axes, optional
        The axes to draw on; by default a new figure.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import discreet
    >>> mechanism = discreet.mechanism("lshist", prior=(1, 1), n=20, epsilon=0.5)
    >>> profile(discreet.audit(mechanism)).get_ylabel()
    'δ'
    """
    axes = _axes(ax)
    epsilons, deltas = audit.profile()
    shown = deltas > 0
    axes.semilogy(epsilons[shown], deltas[shown], "-", color="black", linewidth=1.6, label="exact δ(ε)")
    if audit.claimed.is_private:
        axes.axvline(audit.claimed.epsilon, linestyle=":", color="0.3", linewidth=1.2, label="claimed ε")
    axes.axvline(audit.epsilon, linestyle="--", color="0.5", linewidth=1.0, label="exact ε")
    axes.set_xlim(left=0)
    axes.set_xlabel("ε")
    axes.set_ylabel("δ")
    axes.set_title(f"{audit.mechanism}, {audit.claimed}", fontsize=10)
    axes.legend(frameon=False, fontsize=9)
    return axes  # type: ignore[no-any-return]
