"""Drawings in reports: SVG in the colours of the page, nothing that runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from discreet.documents.answer import Figure

__all__ = ["drawing"]

_LEFT, _RIGHT = 165.0, 570.0
_MAX_DENSITIES, _MAX_ROWS = 8, 40  # beyond these a drawing keeps the intervals only, or is left out


def drawing(figure: Figure) -> str:
    """One line per row: the interval and the mean, and for few rows the density of its law above them."""
    rows = [row for row in figure.rows if row.low is not None and row.high is not None]
    if not rows or len(rows) > _MAX_ROWS:
        return ""
    percent = all(row.share for row in rows)
    dense = len(rows) <= _MAX_DENSITIES and len(figure.series) == len(rows)
    step = 58.0 if dense else 22.0
    of = figure.title
    ticks = _ticks(min(row.low or 0.0 for row in rows), max(row.high or 0.0 for row in rows))
    if percent:
        ticks = [tick for tick in ticks if -1e-9 <= tick <= 1 + 1e-9]
    low, high = ticks[0], ticks[-1]

    def across(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (value - low) / (high - low)

    bottom = step * len(rows) + 12
    marks = []
    for tick in ticks:
        x, text = across(tick), f"{100 * tick:g} %" if percent else f"{tick:,.12g}"
        marks.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{bottom:.1f}" stroke="#8884"/>')
        marks.append(f'<text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{text}</text>')
    for index, row in enumerate(rows):
        y = step * (index + 1)
        if dense:
            marks.append(_density(figure.series[index].law, low, high, percent, across, y - 4, step - 16))
        ends = f'x1="{across(row.low or 0.0):.1f}" x2="{across(row.high or 0.0):.1f}"'
        marks.append(f'<line {ends} y1="{y:.1f}" y2="{y:.1f}" stroke="var(--ink)" stroke-width="4"/>')
        marks.append(f'<circle cx="{across(row.mean):.1f}" cy="{y:.1f}" r="5" fill="var(--ink)"/>')
        short = row.name if len(row.name) <= 18 else row.name[:17] + "…"
        marks.append(f'<text x="{_LEFT - 14:.0f}" y="{y + 4:.1f}" text-anchor="end">{escape(short)}</text>')
    caption = f"{escape(of)}. Bar: 95 % interval; dot: mean" + ("; curve: density." if dense else ".")
    return (
        f'<figure><svg viewBox="0 0 600 {bottom + 26:.0f}" role="img" aria-label="{escape(of)}, '
        f'as in the table below">{"".join(marks)}</svg><figcaption>{caption}</figcaption></figure>'
    )


def _ticks(least: float, most: float) -> list[float]:
    """Round numbers that enclose the range, four to eight of them."""
    span = max(most - least, 1e-9 * max(abs(least), abs(most), 1e-9))
    power = 10.0 ** math.floor(math.log10(span))
    size = next(power * part for part in (0.2, 0.25, 0.5, 1.0, 2.0) if span / (power * part) <= 6)
    first, last = math.floor(least / size - 1e-9), math.ceil(most / size + 1e-9)
    return [float(f"{size * i:.12g}") for i in range(first, max(last, first + 1) + 1)]


def _density(
    law: Any,
    low: float,
    high: float,
    percent: bool,
    across: Callable[[float], float],
    base: float,
    height: float,
) -> str:
    x = np.linspace(low, high, 241)
    inside = np.clip(x, 1e-6, 1 - 1e-6) if percent else x
    y = np.nan_to_num(np.asarray(law.pdf(inside), dtype=float), posinf=0.0)
    y = y / max(float(y.max()), 1e-300)
    seen = np.flatnonzero(y > 0.003)
    if not len(seen):  # narrower than the doubles between the ticks
        return ""
    x, y = x[seen[0] : seen[-1] + 1], height * y[seen[0] : seen[-1] + 1]
    curve = " ".join(f"{across(a):.1f},{base - b:.1f}" for a, b in zip(x, y, strict=True))
    corners = f"{across(x[0]):.1f},{base:.1f} {curve} {across(x[-1]):.1f},{base:.1f}"
    return (
        f'<polygon points="{corners}" fill="var(--ink)" fill-opacity=".18"/>'
        f'<polyline points="{curve}" fill="none" stroke="var(--ink)" stroke-opacity=".6"/>'
    )
