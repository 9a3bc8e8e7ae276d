"""Drawings as Vega-Lite specifications: data and encodings. Colours and fonts come from the style sheet.

A colour ``"$accent"`` names a variable of the style sheet, which the page fills in, light or dark.
Every specification has a fixed height, so that a page keeps its shape while it is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet._typing import FloatArray
from discreet.distributions.normal import Normal
from discreet.studio.planning import Comparison, MeanPlan, Picture, densities, grid

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
SERIES = ("$accent", "$second", "$third", "$fourth", "$fifth", "$sixth")
MAX_CURVES = len(SERIES)


def _spec(description: str, height: int, **rest: Any) -> Spec:
    size = {"width": "container", "height": height, "autosize": {"type": "fit", "contains": "padding"}}
    return {"$schema": SCHEMA, "description": description, **size, **rest}


def _points(x: FloatArray, y: FloatArray, **more: Any) -> list[dict[str, Any]]:
    """Points whose x may have any unit: its digits are not counted from the decimal point."""
    return [{"x": float(f"{a:.10g}"), "y": round(float(b), 5), **more} for a, b in zip(x, y, strict=True)]


def _share_axis(x: FloatArray, title: str) -> Spec:
    digits = 0 if x[-1] - x[0] > 0.05 else 1 if x[-1] - x[0] > 0.005 else 2
    return {
        "field": "x",
        "type": "quantitative",
        "title": title,
        "scale": {"domain": [float(x[0]), float(x[-1])], "nice": False},
        "axis": {"format": f".{digits}%", "tickCount": 6, "grid": False, "labelFlush": True},
    }


def _number_axis(x: FloatArray, title: str) -> Spec:
    return {
        "field": "x",
        "type": "quantitative",
        "title": title,
        "scale": {"domain": [float(x[0]), float(x[-1])], "nice": False, "zero": False},
        "axis": {"tickCount": 6, "grid": False, "labelFlush": True},
    }


DENSITY: Spec = {
    "field": "y",
    "type": "quantitative",
    "title": "density",
    "axis": {"labels": False, "ticks": False, "grid": False, "titleFontWeight": "normal"},
    "scale": {"zero": True},
}


def priors(curves: Sequence[tuple[str, FloatArray, FloatArray]]) -> Spec:
    """The marginal prior of each level."""
    shown = curves[:MAX_CURVES]
    values = [p for name, x, y in shown for p in _points(x, y, level=name)]
    names = [name for name, _, _ in shown]
    return _spec(
        "Prior density of the share of each level",
        120,
        data={"values": values},
        mark={"type": "area", "line": {"strokeWidth": 2}, "fillOpacity": 0.12},
        encoding={
            "x": {**_share_axis(np.array([0.0, 1.0]), "share of a level before any data")},
            "y": {**DENSITY, "stack": None},
            "color": _colours(names),
        },
    )


def prior_of_mean(prior: Normal, bounds: tuple[float, float]) -> Spec:
    """The prior of a mean, between the bounds of one record: a mean of clipped records lies there."""
    x = np.linspace(*bounds, 161)
    y = prior.logpdf(x)
    return _spec(
        "Prior density of the mean",
        120,
        data={"values": _points(x, np.exp(y - y.max()))},
        mark={"type": "area", "line": {"strokeWidth": 2}, "color": "$accent", "fillOpacity": 0.12},
        encoding={"x": _number_axis(x, "mean before any data"), "y": {**DENSITY, "stack": None}},
    )


def _colours(names: Sequence[str]) -> Spec:
    legend = None if len(names) == 1 else {"orient": "top", "title": None, "labelLimit": 160, "columns": 3}
    return {
        "field": "level",
        "type": "nominal",
        "scale": {"domain": list(names), "range": list(SERIES[: len(names)])},
        "legend": legend,
    }


def comparison(found: Comparison, rows: int) -> Spec:
    """Expected error of each mechanism as bars, with the limit as a line. ``rows`` fixes the height."""
    values = [
        {"mechanism": line.label, "error": round(line.expected, 5), "private": line.private}
        for line in found.lines
        if line.expected is not None
    ]
    order = [line.label for line in found.lines]
    y = {
        "field": "mechanism",
        "type": "nominal",
        "title": None,
        "scale": {"domain": order, "paddingInner": 0.35},
        "axis": {"labelLimit": 150, "ticks": False, "domain": False, "labelPadding": 6},
    }
    x = {
        "field": "error",
        "type": "quantitative",
        "title": "expected error (Hellinger distance, 0 to 1)",
        "scale": {"domain": [0, 1.1], "nice": False},
        "axis": {"values": [0, 0.2, 0.4, 0.6, 0.8, 1], "format": ".1f"},
    }
    fill = "$accent" if found.best is None else "$muted"
    chosen = {
        "condition": {"test": f"datum.mechanism === {_text(found.best)}", "value": "$accent"},
        "value": fill,
    }
    layers: list[Spec] = [
        {
            "data": {"values": values},
            "mark": {"type": "bar", "cornerRadiusEnd": 2},
            "encoding": {"x": x, "y": y, "color": chosen},
        },
        {
            "data": {"values": values},
            "mark": {"type": "text", "align": "left", "dx": 5},
            "encoding": {
                "x": x,
                "y": y,
                "text": {"field": "error", "format": ".3f"},
                "color": {"value": "$ink"},
            },
        },
    ]
    if found.limit is not None:
        layers.append(
            {
                "data": {"values": [{"error": round(found.limit, 5)}]},
                "mark": {"type": "rule", "strokeDash": [4, 3], "strokeWidth": 2, "color": "$second"},
                "encoding": {"x": x},
            }
        )
    return _spec("Expected error of each mechanism", 46 + 26 * rows, layer=layers)


def _text(value: str | None) -> str:
    """A string of Vega's expression language; only names of mechanisms of ours come here."""
    return "''" if value is None else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def releases(shown: Picture, level: str) -> Spec:
    """Ten simulated releases over the posterior without privacy."""
    return _over(
        "Ten simulated releases over the posterior without privacy",
        _share_axis(shown.x, f"share of {level}"),
        shown.x,
        shown.true,
        list(shown.released),
    )


def _over(description: str, axis: Spec, x: FloatArray, true: FloatArray, others: list[FloatArray]) -> Spec:
    values = [p for i, y in enumerate(others) for p in _points(x, y, release=i)]
    return _spec(
        description,
        240,
        layer=[
            {
                "data": {"values": values},
                "mark": {"type": "line", "strokeWidth": 1.4, "opacity": 0.75, "color": "$accent"},
                "encoding": {"x": axis, "y": DENSITY, "detail": {"field": "release", "type": "nominal"}},
            },
            {
                "data": {"values": _points(x, true)},
                "mark": {"type": "line", "strokeWidth": 3, "color": "$ink"},
                "encoding": {"x": axis, "y": DENSITY},
            },
        ],
    )


def means(found: MeanPlan) -> Spec:
    """What ten simulated draws would say of a mean, over its posterior without privacy."""
    ends = [found.centre - 4 * found.deviation, found.centre + 4 * found.deviation]
    for law in found.given:
        ends += law.interval(0.99)
    x = np.linspace(min(ends), max(ends), 161)
    released = [law.pdf(x) for law in found.given]
    true = Normal(found.centre, found.deviation).pdf(x)
    top = max(float(curve.max()) for curve in (true, *released))  # heights are relative: any unit will do
    return _over(
        "What ten simulated draws say, over the posterior without privacy",
        _number_axis(x, "mean, in the unit of the records"),
        x,
        true / top,
        [curve / top for curve in released],
    )


def posteriors(names: Sequence[str], plug_in: Sequence[Any], aware: Sequence[Any] | None) -> Spec:
    """The released posterior of each level: noise-aware as a line with its area, plug-in dashed."""
    laws = [*plug_in, *(aware or ())]
    x = grid(laws, 301)
    solid = plug_in if aware is None else aware
    values = [
        p for name, law in zip(names, solid, strict=True) for p in _points(x, densities(law, x), level=name)
    ]
    encoding = {
        "x": _share_axis(x, "share of the records"),
        "y": {**DENSITY, "stack": None},
        "color": _colours(names),
    }
    layers: list[Spec] = [
        {
            "data": {"values": values},
            "mark": {"type": "area", "line": {"strokeWidth": 2.2}, "fillOpacity": 0.1},
            "encoding": encoding,
        }
    ]
    if aware is not None:
        dashed = [
            p
            for name, law in zip(names, plug_in, strict=True)
            for p in _points(x, densities(law, x), level=name)
        ]
        layers.append(
            {
                "data": {"values": dashed},
                "mark": {"type": "line", "strokeWidth": 1.4, "strokeDash": [5, 4]},
                "encoding": encoding,
            }
        )
    return _spec("Released posterior densities of the shares", 260, layer=layers)


def draws(prior: Any, posterior: Any | None, values: Sequence[float], title: str) -> Spec:
    """Released draws as rules, what they say about the parameter, and the prior dashed.

    The height is relative: densities in the units of the records can be any number. The window is that of the
    posterior, widened towards the prior, which may be far wider or reach to infinity at 0.
    """
    x = _window(prior, posterior, values)
    before = np.nan_to_num(np.asarray(prior.pdf(x), dtype=np.float64), posinf=0.0)
    after = before if posterior is None else np.asarray(posterior.pdf(x), dtype=np.float64)
    after = np.nan_to_num(after, posinf=0.0)
    top = max(float(after.max()), min(float(before.max()), 1.5 * float(after.max()))) or 1.0
    axis = _number_axis(x, title)
    height = {**DENSITY, "scale": {"domain": [0, 1.04], "nice": False}, "stack": None}
    layers: list[Spec] = []
    if posterior is not None:
        layers.append(
            {
                "data": {"values": _points(x, after / top)},
                "mark": {
                    "type": "area",
                    "line": {"strokeWidth": 2.4, "color": "$accent"},
                    "color": "$accent",
                    "fillOpacity": 0.12,
                },
                "encoding": {"x": axis, "y": height},
            }
        )
    layers += [
        {
            "data": {"values": _points(x, before / top)},
            "mark": {
                "type": "line",
                "strokeWidth": 1.6,
                "strokeDash": [5, 4],
                "color": "$ink",
                "clip": True,
            },
            "encoding": {"x": axis, "y": height},
        },
        {
            "data": {"values": [{"x": float(value)} for value in values]},
            "mark": {"type": "rule", "strokeWidth": 2.4, "color": "$second", "clip": True},
            "encoding": {"x": axis},
        },
    ]
    return _spec("What the released draw says, over the prior", 260, layer=layers)


def _window(prior: Any, posterior: Any | None, values: Sequence[float]) -> FloatArray:
    ends = 0.001, 0.999
    low, high = (float((prior if posterior is None else posterior).ppf(q)) for q in ends)
    width = high - low
    before = [float(prior.ppf(q)) for q in ends]
    low = min(low, max(before[0], low - 0.75 * width), *values)
    high = max(high, min(before[1], high + 0.75 * width), *values)
    margin = 0.05 * (high - low)
    least = 0.0 if float(prior.cdf(0.0)) == 0 and low >= 0 else -np.inf  # a rate has no place below 0
    return np.linspace(max(low - margin, least), high + margin, 2 * 301 + 1)[1::2]


def profile(epsilons: FloatArray, deltas: FloatArray, claimed: float | None) -> Spec:
    """δ(ε) of an audited mechanism, with the claimed ε as a line."""
    x: Spec = {"field": "x", "type": "quantitative", "title": "ε", "axis": {"tickCount": 6, "grid": False}}
    y: Spec = {
        "field": "y",
        "type": "quantitative",
        "title": "δ(ε)",
        "axis": {"tickCount": 5, "format": ".2~g"},
    }
    layers: list[Spec] = [
        {
            "data": {"values": _points(epsilons, deltas)},
            "mark": {
                "type": "area",
                "line": {"strokeWidth": 2.2, "color": "$accent"},
                "color": "$accent",
                "fillOpacity": 0.12,
            },
            "encoding": {"x": x, "y": y},
        }
    ]
    if claimed is not None:
        layers.append(
            {
                "data": {"values": [{"x": claimed}]},
                "mark": {"type": "rule", "strokeDash": [4, 3], "strokeWidth": 2, "color": "$second"},
                "encoding": {"x": x},
            }
        )
    return _spec("The smallest δ for each ε", 260, layer=layers)
