"""Formulas that a user writes: checked, and evaluated in floats or in ball arithmetic (enclosures)."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from operator import methodcaller
from typing import Any

import numpy as np

from discreet._typing import FloatArray
from discreet.errors import InvalidInputError

_NAMES = ("exp", "log", "sqrt", "log1p", "expm1", "cosh", "sinh", "lgamma")
_LONGEST, _LARGEST_POWER, _DEEPEST = 1000, 1000, 300


def _check(node: ast.AST, variables: tuple[str, ...], depth: int = 0) -> Any:
    """Check that a formula consists of numbers, variables, five operators and a few functions, and return it.

    Numbers are converted to floats, so that none grows without bound; whole exponents of a variable stay
    integers of at most 1000.
    """
    if depth > _DEEPEST:
        raise InvalidInputError("nested too deep")
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return ast.Constant(float(value))
        case ast.Name(id=name) if name in variables:
            return node
        case ast.UnaryOp(op=ast.UAdd() | ast.USub()):
            return ast.UnaryOp(node.op, _check(node.operand, variables, depth + 1))
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow()):
            left, right = (_check(side, variables, depth + 1) for side in (node.left, node.right))
            power = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
            varies = any(isinstance(part, ast.Name) for part in ast.walk(left))
            whole = power.value if isinstance(power, ast.Constant) else None
            if isinstance(node.op, ast.Pow) and varies and isinstance(whole, int):
                if whole > _LARGEST_POWER:
                    raise InvalidInputError("too large a power")
                right = node.right
            return ast.BinOp(left, node.op, right)
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _NAMES:
            return ast.Call(node.func, [_check(argument, variables, depth + 1)], [])
    raise InvalidInputError("not a part of a formula")


@lru_cache(maxsize=64)
def compile_formula(text: str, variables: tuple[str, ...]) -> Any:
    """Compile a formula in ``variables``; it may also contain numbers, + − * / ** and a few functions."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise InvalidInputError(f"a formula must be text of at most {_LONGEST} characters")
    try:
        parsed = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InvalidInputError(f"{text!r} is not a formula such as 'log(1 + exp({variables[0]}))'") from None
    try:
        checked = ast.Expression(_check(parsed.body, variables))
        return compile(ast.fix_missing_locations(checked), "formula", "eval")
    except (InvalidInputError, OverflowError, RecursionError):
        allowed = f"use numbers, {', '.join(variables)}, + - * / ** and {', '.join(_NAMES)}"
        raise InvalidInputError(f"{text!r}: {allowed}") from None


def _evaluate(text: str, functions: dict[str, Any], values: dict[str, Any]) -> Any:
    try:
        return eval(compile_formula(text, tuple(values)), {"__builtins__": {}}, {**functions, **values})
    except (ArithmeticError, RecursionError):
        raise InvalidInputError(f"{text!r} cannot be computed: a value in it is undefined") from None


def _lgamma(z: Any) -> Any:
    from scipy.special import gammaln

    return gammaln(np.asarray(z, dtype=np.float64))


_IN_FLOATS = {name: getattr(np, name) for name in _NAMES[:-1]} | {"lgamma": _lgamma}


def in_floats(text: str, **values: Any) -> FloatArray:
    """Evaluate a formula in floating point, at the precision of the values given for its variables."""
    with np.errstate(all="ignore"):
        return np.asarray(_evaluate(text, _IN_FLOATS, values))


def in_balls(text: str, **values: Any) -> Any:
    """Evaluate a formula in ball arithmetic, for balls or power series of balls."""
    from flint import arb

    of: dict[str, Callable[[Any], Any]] = {
        "log1p": lambda z: (1 + z).log(),
        "expm1": lambda z: z.exp() - 1,
        "cosh": lambda z: (z.exp() + (-z).exp()) / 2,
        "sinh": lambda z: (z.exp() - (-z).exp()) / 2,
    }
    of |= {name: methodcaller(name) for name in _NAMES if name not in of}

    def exactly(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda z: function(arb(z) if isinstance(z, float) else z)

    return _evaluate(text, {name: exactly(function) for name, function in of.items()}, values)
