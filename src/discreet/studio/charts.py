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
from discreet.documents.answer import Figure, Row, Series
from discreet.studio.planning import Comparison, MeanPlan, Picture, densities, grid

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
INKS = ("$accent", "$second", "$third", "$fourth", "$fifth", "$sixth")
MAX_CURVES = len(INKS)
MAX_ROWS = 40
"""Beyond these a drawing is left out: the table has them."""


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
        "scale": {"domain": list(names), "range": list(INKS[: len(names)])},
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


def drawing(figure: Figure) -> tuple[Spec, list[tuple[str, str]]] | None:
    """What is to be drawn of an answer, with its key: densities for few numbers, intervals for many."""
    if 0 < len(figure.series) <= MAX_CURVES:
        return _densities(figure)
    rows = [row for row in figure.rows if row.low is not None and row.high is not None]
    if not rows or len(rows) > MAX_ROWS:
        return None
    return _intervals(figure, rows), [("k-accent", "95 % interval"), ("k-ink", "mean")]


def _densities(figure: Figure) -> tuple[Spec, list[tuple[str, str]]] | None:
    """Each law as a line with its area; the plug-in law, or a single prior, dashed; draws as rules.

    The height is relative: densities in the units of the records can be any number.
    """
    series, share = figure.series, all(row.share for row in figure.rows)
    alone = series[0] if len(series) == 1 else None
    x = _window(series, share)
    if x is None:
        return None
    laws = {one.name: _heights(one.law, x, share) for one in series}
    top = max(float(y.max()) for y in laws.values())
    if not top > 0:
        return None
    if alone is not None and alone.prior is not None:
        top = max(top, min(float(_heights(alone.prior, x, share).max()), 1.5 * top))
    title = figure.axis or ("share of the records" if share else "" if alone is None else alone.name)
    axis = _share_axis(x, title) if share else _number_axis(x, title)
    encoding = {
        "x": axis,
        "y": {**DENSITY, "scale": {"domain": [0, 1.04], "nice": False}, "stack": None},
        "color": _colours([one.name for one in series]),
    }

    def layer(curves: dict[str, FloatArray], **mark: Any) -> Spec:
        values = [p for name, y in curves.items() for p in _points(x, y / top, level=name)]
        return {"data": {"values": values}, "mark": {"clip": True, **mark}, "encoding": encoding}

    layers = [layer(laws, type="area", line={"strokeWidth": 2.2}, fillOpacity=0.1)]
    plug_in = {one.name: _heights(one.plug_in, x, share) for one in series if one.plug_in is not None}
    dashed = {"type": "line", "strokeWidth": 1.4, "strokeDash": [5, 4]}
    key = [("k-ink", "solid: noise-aware"), ("k-dash", "dashed: plug-in")] if plug_in else []
    if plug_in:
        layers.append(layer(plug_in, **dashed))
    key = key or [("k-accent" if alone is not None else "k-ink", "what is known after the release")]
    if alone is not None and alone.prior is not None:
        layers.append(layer({alone.name: _heights(alone.prior, x, share)}, **dashed, color="$ink"))
        layers[-1]["encoding"] = {name: encoding[name] for name in ("x", "y")}
        key.append(("k-dash", "prior"))
    if alone is not None and alone.draws:
        rules = {"type": "rule", "strokeWidth": 2.4, "color": "$second", "clip": True}
        values = [{"x": float(value)} for value in alone.draws]
        layers.append({"data": {"values": values}, "mark": rules, "encoding": {"x": axis}})
        key.append(("k-rule", "released draw"))
    return _spec(figure.title, 260, layer=layers), key


def _heights(law: Any, x: FloatArray, share: bool) -> FloatArray:
    if share:
        return densities(law, x)
    return np.nan_to_num(np.asarray(law.pdf(x), dtype=np.float64), posinf=0.0)


def _window(series: Sequence[Series], share: bool) -> FloatArray | None:
    """That of the laws, widened towards the prior, which may be far wider or reach to infinity at 0."""
    laws = [law for one in series for law in (one.law, one.plug_in) if law is not None]
    if share:
        return grid(laws, 301)
    low = min(float(law.ppf(0.001)) for law in laws)
    high = max(float(law.ppf(0.999)) for law in laws)
    least, width = -np.inf, high - low
    if len(series) == 1:
        low, high = min(low, *series[0].draws), max(high, *series[0].draws)
        prior = series[0].prior
        if prior is not None:
            low = min(low, max(float(prior.ppf(0.001)), low - 0.75 * width))
            high = max(high, min(float(prior.ppf(0.999)), high + 0.75 * width))
            least = 0.0 if float(prior.cdf(0.0)) == 0 and low >= 0 else least  # a rate has no place below 0
    margin = 0.05 * (high - low)
    if not (np.isfinite(low) and np.isfinite(high) and margin > 1e-12 * max(abs(low), abs(high))):
        return None
    return np.linspace(max(low - margin, least), high + margin, 2 * 301 + 1)[1::2]


def _intervals(figure: Figure, rows: Sequence[Row]) -> Spec:
    """One line for each number: its interval and its mean."""
    percent = all(row.share for row in rows)
    values = [{"name": row.name, "low": row.low, "mean": row.mean, "high": row.high} for row in rows]
    axis = {"format": ".0%"} if percent else {}
    x = {
        "type": "quantitative",
        "title": figure.axis or None,
        "axis": {**axis, "tickCount": 6},
        "scale": {"zero": False},
    }
    y = {
        "field": "name",
        "type": "nominal",
        "title": None,
        "scale": {"domain": [row.name for row in rows]},
        "axis": {"labelLimit": 150, "ticks": False, "domain": False},
    }
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 3, "color": "$accent"},
            "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 50, "color": "$ink"},
            "encoding": {"x": {**x, "field": "mean"}, "y": y},
        },
    ]
    height = 260 if len(rows) <= 10 else 520 if len(rows) <= 25 else 900
    return _spec(figure.title, height, data={"values": values}, layer=layers)


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
