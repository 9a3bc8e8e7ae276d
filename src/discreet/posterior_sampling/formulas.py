"""Formulas that a user writes: checked, with bounded work, and evaluated in floats or in balls."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from discreet._typing import FloatArray
from discreet.errors import InvalidInput

_NAMES = ("exp", "log", "sqrt", "log1p", "expm1", "cosh", "sinh", "lgamma")
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.UAdd, ast.USub)
_LONGEST, _LARGEST_POWER = 1000, 1000


class _Formula(ast.NodeTransformer):
    """Lets numbers, named variables, five operators and a few functions pass, with bounded work.

    Numbers become floats, so that none grows without end; whole powers of a variable stay whole.
    """

    def __init__(self, variables: tuple[str, ...]) -> None:
        self.variables = variables

    def generic_visit(self, node: ast.AST) -> ast.AST:
        raise InvalidInput("no part of a formula")

    def visit_Expression(self, node: ast.Expression) -> ast.AST:
        return ast.Expression(self.visit(node.body))

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, int | float) or isinstance(node.value, bool):
            raise InvalidInput("no number")
        return ast.Constant(float(node.value))

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.variables:
            raise InvalidInput("another variable")
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return ast.UnaryOp(self.operator(node.op), self.visit(node.operand))

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        left, right = self.visit(node.left), self.visit(node.right)
        power = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
        varies = any(isinstance(part, ast.Name) for part in ast.walk(left))
        if isinstance(node.op, ast.Pow) and varies and isinstance(power, ast.Constant):
            if isinstance(power.value, int) and power.value <= _LARGEST_POWER:
                right = node.right
            elif isinstance(power.value, int):
                raise InvalidInput("too large a power")
        return ast.BinOp(left, self.operator(node.op), right)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        named = isinstance(node.func, ast.Name) and node.func.id in _NAMES
        if not named or node.keywords or len(node.args) != 1:
            raise InvalidInput("no such function")
        return ast.Call(node.func, [self.visit(node.args[0])], [])

    @staticmethod
    def operator(one: Any) -> Any:
        if not isinstance(one, _OPERATORS):
            raise InvalidInput("no such operator")
        return one


@lru_cache(maxsize=64)
def compiled(text: str, variables: tuple[str, ...]) -> Any:
    """A formula of these variables: numbers, + − * / ** and a few functions."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise InvalidInput(f"a formula is a text of at most {_LONGEST} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InvalidInput(f"{text!r} is no formula, such as 'log(1 + exp({variables[0]}))'") from None
    try:
        checked = ast.fix_missing_locations(_Formula(variables).visit(tree))
        return compile(checked, "formula", "eval")
    except (InvalidInput, OverflowError, RecursionError):
        allowed = f"use numbers, {', '.join(variables)}, + - * / ** and {', '.join(_NAMES)}"
        raise InvalidInput(f"{text!r}: {allowed}") from None


def _evaluated(text: str, functions: dict[str, Any], values: dict[str, Any]) -> Any:
    try:
        return eval(compiled(text, tuple(values)), {"__builtins__": {}}, {**functions, **values})
    except (ArithmeticError, RecursionError):
        raise InvalidInput(f"{text!r} cannot be computed: one of its numbers is no number") from None


def _lgamma(z: Any) -> Any:
    from scipy.special import gammaln

    return gammaln(np.asarray(z, dtype=np.float64))


_IN_FLOATS = {name: getattr(np, name) for name in _NAMES[:-1]} | {"lgamma": _lgamma}


def in_floats(text: str, **values: Any) -> FloatArray:
    """The formula at some values of its variables, in floats as they are: doubles, or more where given."""
    with np.errstate(all="ignore"):
        return np.asarray(_evaluated(text, _IN_FLOATS, values))


def outermost(known: Any) -> Any:
    """Which nodes of some lattices have a neighbour that is not known: floats may have overflowed there."""
    around = np.pad(known, [(0, 0)] + [(1, 1)] * (known.ndim - 1))
    inside = np.ones_like(known)
    for axis, side in itertools.product(range(1, known.ndim), (0, 2)):
        window = [slice(None)] + [slice(1, -1)] * (known.ndim - 1)
        window[axis] = slice(side, side + known.shape[axis])
        inside &= around[tuple(window)]
    return ~inside


def in_balls(text: str, analytic: bool = False, **values: Any) -> Any:
    """The formula in balls, or in series of them.

    Inside an integral ``analytic`` asks for balls that are not finite where a function has a cut.
    """
    from flint import acb, arb

    number = acb if analytic else arb
    cut = {"analytic": True} if analytic else {}

    def lgamma(z: Any) -> Any:
        return acb("nan") if analytic and not z.real > 0 else z.lgamma()

    of: dict[str, Callable[[Any], Any]] = {
        "exp": lambda z: z.exp(),
        "log": lambda z: z.log(**cut),
        "sqrt": lambda z: z.sqrt(**cut),
        "log1p": lambda z: (1 + z).log(**cut),
        "expm1": lambda z: z.exp() - 1,
        "cosh": lambda z: (z.exp() + (-z).exp()) / 2,
        "sinh": lambda z: (z.exp() - (-z).exp()) / 2,
        "lgamma": lgamma,
    }

    def exactly(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda z: function(number(z) if isinstance(z, float) else z)

    return _evaluated(text, {name: exactly(function) for name, function in of.items()}, values)
