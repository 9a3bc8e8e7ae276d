"""Checks of a formula before it is evaluated: a list of allowed operations, and bounds on its size.

A formula may come from an untrusted document. Its operators are expanded here as sets of factors, with a
bound at every step, so that ``(a + b + …)**20`` is refused before a library multiplies it out. Python code in
a formula may use only a few kinds of syntax, with bounds on powers, knots and numbers.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from discreet.errors import InvalidInputError

MOST_TERMS = 2000
MOST_COLUMNS = 2000
"""The most coefficients of one output."""
MOST_WAYS = 6
"""The most factors in one term."""
_LONGEST, _DEEPEST, _LARGEST_POWER, _MOST_KNOTS, _LARGEST = 100_000, 20, 10, 100, 1e15

_MORE = 24
"""A spline has at most this many columns more than knots, because of its degree and its ends."""

Terms: TypeAlias = dict[frozenset[str], None]
"""The terms of a formula in order, each as its set of factors."""

_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`[^`\n]+`)|(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)|(?P<number>[0-9]+)"
    r"|(?P<sign>\*\*|[-+*/:^()~]))"
)
_SPLINES = {"bs", "cr", "cc", "cs"}
_MATHS = ("log", "exp", "sqrt", "log1p")
_NUMPY = {f"np.{name}" for name in (*_MATHS, "sin", "cos", "abs", "maximum", "minimum")}
_PART = re.compile(r"[^:\[]+(?:\[.*?\](?=:|$))?")
_LEVEL = re.compile(r"(?:C\(([^,()]+)(?:, *(.*))?\)|([^\[\]]+))\[([TS]\.)?(.*)\]")
_BASE = re.compile(r"""\((?:base *= *)?(['"]?)(.+?)\1\)""")
_CONTRASTS = {"contr.treatment", "contr.sum"}
FUNCTIONS = {"C", "I", *_CONTRASTS, *_SPLINES, *_MATHS, *_NUMPY}


class _Reader:
    """A parser of the right side of a formula; only brackets recurse, and their depth is bounded."""

    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self) -> tuple[str, str]:
        if self.at == len(self.tokens):
            raise InvalidInputError("it ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def sums(self, depth: int = 0) -> Terms:
        if depth > _DEEPEST:
            raise InvalidInputError(f"brackets are nested more than {_DEEPEST} deep")
        sign = self.take()[1] if self.peek() in ("+", "-") else "+"
        terms: Terms = {}
        while True:
            part = self.products(depth)
            terms = {t: None for t in terms if t not in part} if sign == "-" else _check_bounds(terms | part)
            if self.peek() not in ("+", "-"):
                return terms
            sign = self.take()[1]

    def products(self, depth: int) -> Terms:
        terms = self.interactions(depth)
        while self.peek() in ("*", "/"):
            sign, other = self.take()[1], self.interactions(depth)
            whole = terms if sign == "*" else {frozenset().union(*terms): None}
            terms = _check_bounds(terms | (other if sign == "*" else {}) | _product(whole, other))
        return terms

    def interactions(self, depth: int) -> Terms:
        terms = self.powers(depth)
        while self.peek() == ":":
            self.take()
            terms = _product(terms, self.powers(depth))
        return terms

    def powers(self, depth: int) -> Terms:
        terms = self.factor(depth)
        while self.peek() in ("**", "^"):
            self.take()
            kind, text = self.take()
            if kind != "number" or len(text) > 2 or not 1 <= int(text) <= _LARGEST_POWER:
                raise InvalidInputError(f"a power must be a number from 1 to {_LARGEST_POWER}")
            once = terms
            for _ in range(min(int(text), len(once)) - 1):
                terms = _check_bounds(terms | _product(terms, once))
        return terms

    def factor(self, depth: int) -> Terms:
        kind, text = self.take()
        if text == "(":
            terms = self.sums(depth + 1)
            if self.take()[1] != ")":
                raise InvalidInputError("a bracket is not closed")
            return terms
        if kind == "number":
            if text not in ("0", "1"):
                raise InvalidInputError("numbers other than 0 and 1 must be inside I(…)")
            return {}
        if kind not in ("quoted", "name", "call"):
            raise InvalidInputError(f"{text!r} is not a column")
        return {frozenset([text.strip("`")]): None}


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while text[at:].strip():
        token = _TOKEN.match(text, at)
        if token is None:
            raise InvalidInputError(f"{text[at:].strip()[:10]!r} cannot be read")
        at, kind = token.end(), str(token.lastgroup)
        if kind == "name" and text[at : at + 1] == "(":
            end = _closing(text, at)
            yield "call", text[token.start(kind) : end]
            at = end
        else:
            yield kind, token[kind]


def _closing(text: str, at: int) -> int:
    """Return where the bracket that opens at ``at`` closes; brackets in quoted text do not count."""
    depth, quote = 0, ""
    for place in range(at, len(text)):
        sign = text[place]
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        else:
            depth += (sign in "([") - (sign in ")]")
            if depth == 0:
                return place + 1
    raise InvalidInputError("a bracket is not closed")


def _check_bounds(terms: Terms) -> Terms:
    if len(terms) > MOST_TERMS:
        raise InvalidInputError(f"it has more than {MOST_TERMS:,} terms")
    return terms


def _product(first: Terms, second: Terms) -> Terms:
    if len(first) * len(second) > 10 * MOST_TERMS:
        raise InvalidInputError(f"it has more than {MOST_TERMS:,} terms")
    terms = {a | b: None for a in first for b in second}
    if any(len(term) > MOST_WAYS for term in terms):
        raise InvalidInputError(f"a term multiplies more than {MOST_WAYS} factors")
    return _check_bounds(terms)


def check_formula(formula: str, levels: Mapping[str, Any] | None = None) -> tuple[int, int]:
    """Refuse a formula that is too large to evaluate, or that contains anything not allowed.

    Parameters
    ----------
    formula
        The text, such as ``"income ~ age + C(sex)"``.
    levels
        The number of levels of each column that is not numeric.

    Returns
    -------
    tuple of int
        Lower and upper bounds on the number of columns, which depends on how levels are coded.

    Raises
    ------
    InvalidInputError
        If it has too many characters, terms, factors or columns, or cannot be read.
    """
    shown = formula if len(formula) <= 200 else f"{formula[:200]}…"
    try:
        if len(formula) > _LONGEST or formula.count("~") != 1:
            raise InvalidInputError(f"it must have one '~', and at most {_LONGEST:,} characters")
        reader = _Reader(formula.partition("~")[2])
        terms = reader.sums()
        if reader.at < len(reader.tokens):
            raise InvalidInputError(f"{reader.peek()[:20]!r} is not expected there")
        widths: dict[str, tuple[int, int]] = {}
        least, most = 0, 1
        for term in terms:
            for factor in term:
                if factor not in widths:
                    widths[factor] = _width(factor, levels or {})
            low, high = (math.prod(widths[factor][end] for factor in term) for end in (0, 1))
            least, most = least + low, most + high
            if least > MOST_COLUMNS or most > 16 * MOST_COLUMNS:
                raise InvalidInputError(f"it has more than {MOST_COLUMNS:,} columns")
    except InvalidInputError as reason:
        raise InvalidInputError(f"cannot be used: {reason}", parameter="formula", value=shown) from None
    return least, most


def _width(factor: str, levels: Mapping[str, Any]) -> tuple[int, int]:
    """Return the fewest and the most columns of a factor."""
    if not factor.endswith(")") or factor in levels:
        number = int(levels.get(factor, 1))
        return max(1, number - (factor in levels)), number
    names, width = check_call(factor)
    sizes = [int(levels[name]) for name in names if name in levels]
    return (max(1, max(sizes) - 1), width * max(sizes)) if sizes else (max(1, width - _MORE), width)


def check_call(text: str) -> tuple[list[str], int]:
    """Return the columns that a Python term of a formula uses, and the number of columns that it makes."""
    try:
        body = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InvalidInputError(f"{text[:100]}: this cannot be read") from None
    names: dict[str, None] = {}
    try:
        width = _check(body, names, 0)
    except _Refused as why:
        raise InvalidInputError(f"{text[:100]}: {why}") from None
    return list(names), width


class _Refused(ValueError):
    """The reason why a Python term is not allowed in a formula."""


def _check(node: ast.AST, names: dict[str, None], depth: int) -> int:
    """Walk through an expression, refuse what is not allowed, and return its columns."""
    if depth > _DEEPEST:
        raise _Refused("it is nested too deep")
    inner: Callable[[ast.AST], int] = lambda part: _check(part, names, depth + 1)  # noqa: E731
    match node:
        case ast.Name(id=name):
            names.setdefault(name)
            return 1
        case ast.Constant():
            _number(node)
            return 1
        case ast.UnaryOp(op=ast.UAdd() | ast.USub()):
            return inner(node.operand)
        case ast.BinOp(op=ast.Pow()):
            power = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
            if not isinstance(power, ast.Constant) or abs(_number(power)) > _LARGEST_POWER:
                raise _Refused(f"a power must be a number up to {_LARGEST_POWER}")
            if not any(isinstance(part, ast.Name) for part in ast.walk(node.left)):
                raise _Refused("write powers of numbers out")
            return inner(node.left)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
            return max(inner(node.left), inner(node.right))
        case ast.Call(args=[first, *others], keywords=keywords):
            function = ast.unparse(node.func)
            if function not in FUNCTIONS:
                raise _Refused(
                    f"{function[:40]} may learn from the data, or is unknown; allowed are "
                    f"{', '.join(sorted(FUNCTIONS))}. Declared bounds already scale each column"
                )
            options = {keyword.arg: keyword.value for keyword in keywords}
            if function in _SPLINES:
                return inner(first) * _spline(function, others, options)
            if function == "C":
                _contrast([*others, *options.values()])
                return inner(first)
            if options or (others and function not in ("np.maximum", "np.minimum")):
                raise _Refused(f"{function} takes a column and no options")
            return max(map(inner, [first, *others]))
    raise _Refused("this is not allowed in a formula; use columns, numbers and functions")


def _number(node: ast.AST) -> float:
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        raise _Refused(f"a number must be finite and at most {_LARGEST:g}")
    return value


def _sign(node: ast.AST) -> float:
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    return -_number(node.operand) if negative else _number(node)  # type: ignore[attr-defined]


def _spline(function: str, others: list[ast.expr], options: Mapping[str | None, ast.expr]) -> int:
    """Return the number of columns of a spline, whose knots must be declared."""
    if others or "knots" not in options:
        raise _Refused(f"declare the knots, such as {function}(x, knots=[30, 50])")
    width = _MORE
    for name, value in options.items():
        if name == "knots":
            if not isinstance(value, ast.List | ast.Tuple) or len(value.elts) > _MOST_KNOTS:
                raise _Refused(f"knots must be a list of at most {_MOST_KNOTS} numbers")
            width += len([_sign(knot) for knot in value.elts])
        elif name in ("degree", "df"):
            if not 0 <= _number(value) <= _LARGEST_POWER + (name == "df") * _MOST_KNOTS:
                raise _Refused(f"{name} is too large")
        elif name in ("lower_bound", "upper_bound"):
            _sign(value)
        elif not isinstance(value, ast.Constant) or not isinstance(value.value, bool | str):
            raise _Refused(f"{name} must be a plain value")
    return width


def _contrast(options: list[ast.expr]) -> None:
    """Refuse codings other than treatment or sum contrasts with at most one plain argument."""
    for option in options:
        call = option if isinstance(option, ast.Call) else ast.Call(option, [], [])
        values = [*call.args, *(keyword.value for keyword in call.keywords)]
        plain = all(isinstance(value, ast.Constant) for value in values)
        if ast.unparse(call.func) not in _CONTRASTS or len(values) > 1 or not plain:
            raise _Refused("levels must be coded by contr.treatment, with or without a base, or by contr.sum")


def term_in_words(name: str, levels: Mapping[str, Sequence[Any]]) -> str:
    """Return a coefficient of a formula in words, with the level that it is compared with.

    Examples
    --------
    >>> term_in_words("age:C(sex)[T.m]", {"sex": ("f", "m")})
    'age × sex: m (rather than f)'
    """
    parts = []
    for part in _PART.findall(name):
        match = _LEVEL.fullmatch(part)
        if match is None:
            parts.append(part)
            continue
        column, options, plain, coding, level = match.groups()
        column, base = column or plain, _BASE.search(options or "")
        reference = base[2] if base else next(map(str, levels.get(column, ())), "")
        against = {"T.": reference, "S.": "the average"}.get(coding)
        parts.append(f"{column}: {level}" + (f" (rather than {against})" if against else ""))
    return " × ".join(parts)
