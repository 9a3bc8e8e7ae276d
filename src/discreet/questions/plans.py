"""A plan that a ledger stores, in words for whoever audits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet._registry import QUESTIONS
from discreet.questions.text import words

_ELSEWHERE = ("question", "plan", "epsilon", "delta", "target")  # the title, and the price in exact numbers


def described_plan(plan: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """What was asked: a title, and the label and text of each parameter besides the price.

    A plan of 0.1.0, or of a question that is not known here, is told by its own names.
    """
    kind = str(plan.get("question", "question"))
    labels: dict[str, str] = {}
    title = kind.capitalize()
    if kind in QUESTIONS and "plan" in plan:
        title = QUESTIONS[kind].title
        labels = {one.name: one.label for one in QUESTIONS[kind].parameters()}
    names = [*(name for name in labels if name in plan), *(name for name in plan if name not in labels)]
    told = [
        (labels.get(name, name.replace("_", " ").capitalize()), _stated(plan[name]))
        for name in names
        if name not in _ELSEWHERE
    ]
    return title, [(label, text) for label, text in told if text]


def plan_in_words(plan: Mapping[str, Any]) -> str:
    """The same as one line."""
    title, parameters = described_plan(plan)
    told = "; ".join(f"{label[:1].lower()}{label[1:]}: {text}" for label, text in parameters)
    return f"{title} – {told}" if told else title


def _stated(value: Any) -> str:
    """A value in words, without what was left open; the levels of a column stand behind its name."""
    if isinstance(value, Mapping):
        given = {key: item for key, item in value.items() if _stated(item)}
        column = given.pop("column", None)
        if column is not None and set(given) == {"levels"}:
            return f"{column} ({_stated(given['levels'])})"
        inside = ", ".join(f"{key} {_stated(item)}" for key, item in given.items())
        return inside if column is None else f"{column} ({inside})"
    if isinstance(value, list | tuple):
        return ", ".join(_stated(item) for item in value)
    return "" if value is None else words(value)
