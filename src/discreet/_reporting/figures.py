"""Drawings for pages: SVG in the colours of the page, nothing that runs. Reports and the studio share them.

Colours are variables of the page's style sheet: ``--accent``, ``--second`` and ``--line``.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from discreet._documents.parts import Figure, Row, Series
from discreet._typing import FloatArray

_LEFT, _RIGHT, _WIDTH = 2.0, 344.0, 360
_GRAPH_WIDTH = 540
_DENSITY = 26.0
_LABEL, _LETTER = 22, 7.4  # letters in a line of a label, and the width of one
_COLOURS = ("var(--accent)", "var(--second)")
_MAX_DENSITIES, _MAX_ROWS = 8, 40  # beyond these a drawing keeps the intervals only, or is left out


class Frame(NamedTuple):
    """A horizontal axis: its ticks, whether they are percentages, and where it begins.

    It begins to the right of the labels.
    """

    ticks: tuple[float, ...]
    percent: bool
    left: float = _LEFT

    def across(self, value: float) -> float:
        """Return the horizontal position of a number, within the frame."""
        low, high = self.ticks[0], self.ticks[-1]
        place = self.left + (_RIGHT - self.left) * (value - low) / (high - low)
        return min(max(place, self.left), _RIGHT)

    def draw_axis(self, bottom: float) -> list[str]:
        """Return the lines and labels of the ticks."""
        marks = []
        texts = [_tick_text(tick, self.percent) for tick in self.ticks]
        between = (_RIGHT - self.left) / (len(texts) - 1)
        every = math.ceil(_LETTER * (max(map(len, texts)) + 1) / between)
        for index, (tick, text) in enumerate(zip(self.ticks, texts, strict=True)):
            x = self.across(tick)
            marks.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{bottom:.1f}" stroke="var(--line)"/>')
            if index % every == 0:
                marks.append(f'<text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{text}</text>')
        return marks


def drawing(figure: Figure | None) -> str:
    """Return a figure as SVG: the graph if there is one, then a line for each row with interval and mean.

    If the rows are few, their densities are drawn above the lines.
    """
    if figure is None:
        return ""
    rows = _show(figure)
    graph = _graph(figure) if figure.graph else _bands(figure) if figure.bands else ""
    if not rows or len(rows) > _MAX_ROWS:
        return graph
    dense = len(rows) <= _MAX_DENSITIES and len(figure.series) == len(rows)
    groups = list(dict.fromkeys(row.group for row in rows))
    names = [textwrap.wrap(row.name, _LABEL) or [row.name] for row in rows]
    room = max(len(line) for lines in names for line in lines)
    aside = max(len(group) for group in groups)
    draws = [value for series in figure.series for value in series.draws]
    lows, highs = ([getattr(row, end) or 0.0 for row in rows] for end in ("low", "high"))
    ticks, percent = _ticks(min([*lows, *draws]), max([*highs, *draws])), all(row.share for row in rows)
    inside = [tick for tick in ticks if not percent or -1e-9 <= tick <= 1 + 1e-9]
    frame = Frame(tuple(inside), percent, _LEFT + _LETTER * (room + aside) + (22 if aside else 12))
    marks: list[str] = []
    y = 0.0
    for index, row in enumerate(rows):
        begins = not row.group or row.group == groups[0]
        y += (22 if begins else 16) + (_DENSITY - 6 if dense else 0)
        if begins:
            for number, line in enumerate(names[index]):
                at = f'x="{_LEFT:.0f}" y="{y + 4.5 + 16 * number:.1f}"'
                marks.append(f'<text class="name" {at}>{escape(line)}</text>')
        if row.group:
            at = f'x="{frame.left - 10:.0f}" y="{y + 4.5:.1f}" text-anchor="end"'
            marks.append(f"<text {at}>{escape(row.group)}</text>")
        if dense:
            marks += _densities(figure.series[index], frame, y - 6)
        colour = _COLOURS[groups.index(row.group) % 2 if len(groups) == 2 else 0]
        ends = f'x1="{frame.across(row.low or 0.0):.1f}" x2="{frame.across(row.high or 0.0):.1f}"'
        marks.append(f'<line {ends} y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="3"/>')
        marks.append(f'<circle cx="{frame.across(row.mean):.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
        y += 16 * (len(names[index]) - 1) if begins and not row.group else 0
    y += 12
    key = ["bar: 95 % interval", "dot: mean"]
    if dense:
        key.append("curve: density")
        key += ["dashed: prior"] * any(series.prior is not None for series in figure.series)
        key += ["ticks: released draws"] * any(series.draws for series in figure.series)
    caption = f"{figure.title}. {'; '.join(key).capitalize()}."
    return graph + _figure([*frame.draw_axis(y), *marks], y + 26, figure.title + ", as in the table", caption)


def _tick_text(tick: float, percent: bool) -> str:
    text = f"{100 * tick:g} %" if percent else f"{tick:,.12g}"
    return text.replace("-", "−", 1) if tick < 0 else text


def _bands(figure: Figure) -> str:
    """Return curves with their bands as SVG, in percent, with a key where there are several."""
    starts, ends = zip(*((band.x[0], band.x[-1]) for band in figure.bands), strict=True)
    along = [tick for tick in _ticks(min(starts), max(ends)) if tick >= min(starts)]
    frame, top, bottom = Frame((min(starts), along[-1]), False, 52.0), 14.0, 214.0
    marks = []
    for part in range(0, 101, 25):
        y = bottom - (bottom - top) * part / 100
        marks.append(f'<line x1="52" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>')
        marks.append(f'<text x="46" y="{y + 4:.1f}" text-anchor="end">{part} %</text>')
    marks += [
        f'<text x="{frame.across(tick):.1f}" y="{bottom + 18}" text-anchor="middle">'
        f"{_tick_text(tick, False)}</text>"
        for tick in along
    ]
    middle = (52 + _RIGHT) / 2
    marks.append(
        f'<text x="{middle:.0f}" y="{bottom + 36}" text-anchor="middle">{escape(figure.axis)}</text>'
    )
    for index, band in enumerate(figure.bands):
        colour, dashes = _COLOURS[index % 2], ("", "7 4", "2 3")[index // 2 % 3]

        def points(values: Sequence[float], x: Sequence[float] = band.x) -> list[str]:
            return [
                f"{frame.across(a):.1f},{bottom - (bottom - top) * b:.1f}"
                for a, b in zip(x, values, strict=True)
            ]

        outline = " ".join([*points(band.low), *reversed(points(band.high))])
        marks.append(f'<polygon points="{outline}" fill="{colour}" fill-opacity=".15"/>')
        style = f'fill="none" stroke="{colour}" stroke-width="2.4" stroke-dasharray="{dashes}"'
        marks.append(f'<polyline points="{" ".join(points(band.y))}" {style}/>')
        if band.name:
            y = bottom + 54 + 18 * index
            marks.append(f'<line x1="52" x2="84" y1="{y - 4}" y2="{y - 4}" {style}/>')
            marks.append(f'<text x="92" y="{y}">{escape(band.name)}</text>')
    height = bottom + 44 + (18 * len(figure.bands) if len(figure.bands) > 1 else 0)
    return _figure(marks, height, figure.title, f"{figure.title}. Line: mean; band: 95 % intervals.")


def _graph(figure: Figure) -> str:
    """Return a graph as SVG: layers from top to bottom, with arrows from parents to children."""
    places, widths = {}, {}
    for name, (across, depth) in figure.places().items():
        room = _GRAPH_WIDTH / len(figure.graph[depth])
        places[name] = _GRAPH_WIDTH * across, 24.0 + 78 * depth
        widths[name] = min(room - 6, 18 + 7.4 * len(name))
    marks = []
    for parent, name in figure.arrows():
        (a, top), (b, bottom) = places[parent], places[name]
        start, end = top + 15, bottom - 15
        outward = math.copysign(24, a + b - _GRAPH_WIDTH)
        bend = outward if bottom - top > 80 else 0.0  # past what stands between
        across, down = b - a - 2 * bend, end - start
        length = math.hypot(across, down)
        u, v = across / length, down / length
        tip = f"{b:.1f},{end:.1f} {b - 8 * u - 4 * v:.1f},{end - 8 * v + 4 * u:.1f} "
        tip += f"{b - 8 * u + 4 * v:.1f},{end - 8 * v - 4 * u:.1f}"
        line = f"M{a:.1f},{start:.1f} Q{(a + b) / 2 + bend:.1f},{(start + end) / 2:.1f} {b:.1f},{end:.1f}"
        marks.append(f'<path d="{line}" fill="none" stroke="currentColor" stroke-opacity=".55"/>')
        marks.append(f'<polygon points="{tip}" fill="currentColor"/>')
    for name, (x, y) in places.items():
        box = f'x="{x - widths[name] / 2:.1f}" y="{y - 15:.1f}" width="{widths[name]:.1f}" height="30" rx="8"'
        marks.append(f'<rect {box} fill="none" stroke="var(--accent)" stroke-width="1.6"/>')
        letters = int((widths[name] - 8) / 7)
        text = name if len(name) <= letters else name[: max(letters - 1, 1)] + "…"
        marks.append(f'<text x="{x:.1f}" y="{y + 4.5:.1f}" text-anchor="middle">{escape(text)}</text>')
    caption = "An arrow leads from a column to one that depends on it"
    return _figure(
        marks, 78 * len(figure.graph) - 24, f"{figure.title}: {caption.lower()}", f"{caption}.", _GRAPH_WIDTH
    )


def _show(figure: Figure) -> list[Row]:
    return [row for row in figure.rows if row.low is not None and row.high is not None]


def _figure(marks: Sequence[str], height: float, label: str, caption: str, width: int = _WIDTH) -> str:
    wide = "" if width == _WIDTH else ' class="wide"'
    return (
        f'<figure{wide}><svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(label)}">'
        f"{''.join(marks)}</svg><figcaption>{escape(caption)}</figcaption></figure>"
    )


def _ticks(least: float, most: float) -> list[float]:
    """Return four to eight round numbers that enclose the range."""
    span = max(most - least, 1e-9 * max(abs(least), abs(most), 1e-9))
    power = 10.0 ** math.floor(math.log10(span))
    size = next(power * part for part in (0.2, 0.25, 0.5, 1.0, 2.0) if span / (power * part) <= 6)
    first, last = math.floor(least / size + 1e-12), math.ceil(most / size - 1e-12)
    return [float(f"{size * i:.12g}") for i in range(first, max(last, first + 1) + 1)]


def _densities(series: Series, frame: Frame, base: float) -> list[str]:
    """Return a density with its area, the prior dashed, and the draws as ticks."""
    x = np.linspace(frame.ticks[0], frame.ticks[-1], 241)
    inside = np.clip(x, 1e-6, 1 - 1e-6) if frame.percent else x

    def heights(distribution: Any) -> FloatArray:
        return np.nan_to_num(np.asarray(distribution.pdf(inside), dtype=np.float64), posinf=0.0)

    y = heights(series.distribution)
    top = float(y.max())
    if not top > 0:  # narrower than the doubles between the ticks
        return []
    line = _line(x, y / top, frame.across, base)
    ends = line.split(" ")
    corners = f"{ends[0].split(',')[0]},{base:.1f} {line} {ends[-1].split(',')[0]},{base:.1f}"
    marks = [
        f'<polygon points="{corners}" fill="var(--accent)" fill-opacity=".18"/>',
        f'<polyline points="{line}" fill="none" stroke="var(--accent)" stroke-opacity=".7"/>',
    ]
    if series.prior is not None:
        other = np.minimum(heights(series.prior) / top, 1.0)
        dashed = 'fill="none" stroke="currentColor" stroke-opacity=".6" stroke-dasharray="4 3"'
        marks.append(f'<polyline points="{_line(x, other, frame.across, base)}" {dashed}/>')
    for value in series.draws:
        at = f'x1="{frame.across(value):.1f}" x2="{frame.across(value):.1f}"'
        marks.append(
            f'<line {at} y1="{base:.1f}" y2="{base - 14:.1f}" stroke="var(--second)" stroke-width="2"/>'
        )
    return marks


def _line(x: FloatArray, y: FloatArray, across: Callable[[float], float], base: float) -> str:
    seen = np.flatnonzero(y > 0.003)
    if not len(seen):
        return f"{across(float(x[0])):.1f},{base:.1f}"
    x, y = x[seen[0] : seen[-1] + 1], (_DENSITY - 6) * y[seen[0] : seen[-1] + 1]
    return " ".join(f"{across(float(a)):.1f},{base - float(b):.1f}" for a, b in zip(x, y, strict=True))


def curve(
    x: Sequence[float],
    y: Sequence[float],
    *,
    title: str,
    axes: tuple[str, str],
    marked: float | None = None,
    floor: float | None = None,
    logarithmic: bool = False,
) -> str:
    """Return a falling curve as SVG; ``marked`` is an x to mark, ``floor`` a lower bound on y.

    If heights differ by a factor of twenty or more, their axis is logarithmic.
    """
    left, right, top, bottom = 52.0, _RIGHT, 28.0, 216.0
    place: Callable[[float], float] = math.log10 if logarithmic else float
    low, high = place(min(x)), place(max(x))
    heights = [value for value in (*y, *([floor] if floor else [])) if value > 0]
    steep = max(heights, default=0.0) > 20 * min(heights, default=1.0) and logarithmic
    if steep:
        ends = math.floor(math.log10(min(heights))), math.ceil(math.log10(max(heights)))
        ticks = [10.0**power for power in range(ends[0], ends[1] + 1)]
    else:
        ticks = [tick for tick in _ticks(0.0, max([*y, floor or 0.0]) or 1.0) if tick >= 0]
    rise: Callable[[float], float] = math.log10 if steep else float

    def across(value: float) -> float:
        return min(max(left + (right - left) * (place(value) - low) / (high - low or 1), left), right)

    def up(value: float) -> float:
        least, most = rise(ticks[0]), rise(ticks[-1])
        return bottom - (bottom - top) * (rise(max(value, ticks[0])) - least) / (most - least)

    along = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0] if logarithmic else _ticks(min(x), max(x))
    marks = []
    for tick in ticks:
        at = f'y1="{up(tick):.1f}" y2="{up(tick):.1f}"'
        marks.append(f'<line x1="{left}" x2="{right}" {at} stroke="var(--line)"/>')
        marks.append(f'<text x="{left - 6}" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    marks += [
        f'<text x="{across(tick):.1f}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>'
        for tick in along
        if min(x) <= tick <= max(x)
    ]
    marks.append(
        f'<text x="{(left + right) / 2:.0f}" y="{bottom + 36}" text-anchor="middle">{escape(axes[0])}</text>'
    )
    marks.append(f'<text x="{left}" y="{top - 14}">{escape(axes[1])}</text>')
    if floor is not None:
        at = f'x1="{left}" x2="{right}" y1="{up(floor):.1f}" y2="{up(floor):.1f}"'
        marks.append(f'<line {at} stroke="currentColor" stroke-dasharray="4 3" stroke-opacity=".6"/>')
    points = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in zip(x, y, strict=True))
    marks.append(f'<polyline points="{points}" fill="none" stroke="var(--accent)" stroke-width="2.4"/>')
    if marked is not None and place(min(x)) <= place(marked) <= place(max(x)):
        at = f'x1="{across(marked):.1f}" x2="{across(marked):.1f}" y1="{top}" y2="{bottom}"'
        marks.append(f'<line {at} stroke="var(--second)" stroke-width="2" stroke-dasharray="4 3"/>')
    return _figure(marks, bottom + 44, title, title + ".")
