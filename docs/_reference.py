"""The reference from docstrings: a line ``::: name`` in docs/reference/ becomes what the name is.

A name is one that ``import discreet`` gives, or ``module.name`` for one that lives deeper.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from typing import Any

import discreet

LINE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
UNDERLINED = re.compile(r"(\w+)\n-{3,}\n")  # a section as scikit-learn writes it: terms, and words indented
TERM = re.compile(r"^(\S.*)$", re.MULTILINE)
ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):`~?([^`]+)`")


def expand(markdown: str) -> str:
    """The page with every ``::: name`` replaced by heading, signature, docstring and members."""
    return LINE.sub(lambda match: "\n".join(described(match.group(1))), markdown)


def find(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(import_module(f"discreet.{module}") if module else discreet, last)


def described(name: str) -> Iterator[str]:
    value = find(name)
    yield f"## `discreet.{name}`\n"
    if inspect.ismodule(value):
        yield from prose(value)
        for member in sorted(own_functions(value)):
            yield f"### `{name}.{member}`\n"
            yield from callable_text(getattr(value, member), member)
        return
    if issubclass_of_exception(value):
        bases = ", ".join(f"`{base.__name__}`" for base in value.__mro__[1:-2])
        yield f"Is a {bases}.\n"
        yield from prose(value)
        return
    yield from callable_text(value, name.rpartition(".")[2])
    if inspect.isclass(value):
        for member, inside in members(value):
            if isinstance(inside, property) or not callable(inside):
                yield f"#### `{member}`\n"
                yield from prose(inside)
            else:
                yield f"#### `{member}()`\n"
                yield from callable_text(inside, member)


def callable_text(value: Any, name: str) -> Iterator[str]:
    if not (inspect.isclass(value) and issubclass(value, Enum)):
        yield f"```text\n{signature(value, name)}\n```\n"
    yield from prose(value)


def signature(value: Any, name: str) -> str:
    """The call, on one line or with one parameter per line."""
    found = inspect.signature(value)
    kept = [
        parameter.replace(annotation=Bare.of(parameter.annotation))
        for parameter in found.parameters.values()
        if parameter.name not in ("self", "cls") and not parameter.name.startswith("_")
    ]
    returned = inspect.Signature.empty if inspect.isclass(value) else Bare.of(found.return_annotation)
    found = found.replace(parameters=kept, return_annotation=returned)
    if len(name) + len(str(found)) <= 96:
        return name + str(found)
    parts, keyword_only = [], False
    for parameter in kept:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        parts.append(str(parameter))
    end = "" if found.return_annotation is found.empty else f" -> {found.return_annotation}"
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){end}"])


class Bare(str):
    """An annotation that prints without quotes."""

    @classmethod
    def of(cls, annotation: Any) -> Any:
        return cls(annotation) if isinstance(annotation, str) else annotation

    def __repr__(self) -> str:
        return str(self)


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties with words of their own, base classes of ours first."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == "discreet":
            found.update({name: inside for name, inside in vars(base).items() if not name.startswith("_")})
    for name, inside in sorted(found.items()):
        if isinstance(inside, classmethod | staticmethod):
            inside = inside.__func__
        described_property = isinstance(inside, property) or type(inside).__name__ == "cached_property"
        if (inspect.isfunction(inside) or described_property) and (inside.__doc__ or "").strip():
            yield name, inside


def own_functions(module: Any) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def issubclass_of_exception(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, BaseException)


def prose(value: Any) -> Iterator[str]:
    """A docstring as Markdown: roles and double backticks become code, examples a fenced block."""
    for block in re.split(r"\n\s*\n", inspect.getdoc(value) or ""):
        text = ROLE.sub(r"`\1`", block).replace("``", "`")
        if block.startswith(">>>"):
            yield f"```pycon\n{block}\n```\n"
        elif underlined := UNDERLINED.match(text):
            yield f"**{underlined.group(1)}**\n"
            yield TERM.sub(r"- `\1`:", text[underlined.end() :]) + "\n"
        else:
            yield text + "\n"
