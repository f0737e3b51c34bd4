"""calculate: exact arithmetic on a small language, evaluated over a syntax tree and never by Python itself.

Numbers are fractions, so 0.1 + 0.2 is 0.3 and 1/3*3 is 1. Roots, logarithms and angles are floating point where no
exact answer exists; `exact` says which it was. Sizes of numbers, powers and the expression itself are bounded.
"""

from __future__ import annotations

import ast
import math
import operator
import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from geode.tools.types import ToolError

__all__ = ["calculate"]

MAX_CHARS = 1000
MAX_BITS = 4096
"""Bits of a numerator or denominator: about 1200 decimal digits."""
MAX_FACTORIAL = 400

Number = Fraction | float
Value = Number | list[Any]


def calculate(expression: str) -> dict[str, Any]:
    """`result` is a JSON number, `text` the same in full (30 digits of one that never ends), `exact` a flag."""
    if len(expression) > MAX_CHARS:
        raise ToolError(f"the expression is longer than {MAX_CHARS} characters")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        value = _evaluate(tree.body, expression)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        what = error.msg if isinstance(error, SyntaxError) else str(error) or "it is nested too deeply"
        raise ToolError(f"the expression cannot be read: {what}") from None
    except ZeroDivisionError:
        raise ToolError("division by zero") from None
    except OverflowError:
        raise ToolError("the result is too large") from None
    if isinstance(value, list):
        raise ToolError("the result is a list: use sum, mean, min, max or another function on it (1,000 is a list too)")
    return {"expression": expression, **_shown(value)}


def _evaluate(node: ast.expr, source: str) -> Value:
    match node:
        case ast.Constant(value=bool() | str() | bytes() | complex() | None):
            raise ToolError(f"{ast.unparse(node)} is no number")
        case ast.Constant(value=int() as number):
            return _bounded(Fraction(number))
        case ast.Constant(value=float()):
            return _literal(ast.get_source_segment(source.strip(), node) or "")
        case ast.Name(id=name):
            if name not in _CONSTANTS:
                raise ToolError(f"unknown name {name!r} (constants: {', '.join(_CONSTANTS)})")
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _number(_evaluate(operand, source))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(_evaluate(operand, source))
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _number(_evaluate(left, source)), _number(_evaluate(right, source)))
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_evaluate(item, source) for item in items]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            function = _FUNCTIONS.get(name)
            if function is None:
                raise ToolError(f"unknown function {name!r} (functions: {', '.join(sorted(_FUNCTIONS))})")
            values = [_evaluate(argument, source) for argument in arguments]
            try:
                result = function(*values)
            except (TypeError, ValueError, statistics.StatisticsError) as error:
                raise ToolError(f"{name}: {error}") from None
            return _bounded(result)
    hint = " (a power is **)" if isinstance(node, ast.BinOp) else ""
    raise ToolError(
        f"{type(node).__name__} is not arithmetic{hint}: use numbers, + - * / // % **, parentheses, functions"
    )


def _binary(op: ast.operator, left: Number, right: Number) -> Number:
    if isinstance(op, ast.Pow):
        return _power(left, right)
    if isinstance(op, ast.BitXor):
        raise ToolError("^ is not a power here: use **")
    apply = _OPERATORS.get(type(op))
    if apply is None:
        raise ToolError(f"the operator {type(op).__name__} is not arithmetic: use + - * / // % **")
    result: Number = apply(left, right)
    return _bounded(result)


def _power(base: Value, exponent: Value) -> Number:
    base, exponent = _number(base), _number(exponent)
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        size = max(base.numerator.bit_length(), base.denominator.bit_length())
        if size > 1 and size * abs(exponent.numerator) > MAX_BITS + abs(exponent.numerator):
            raise ToolError("the power is too large")
        if abs(base) in (0, 1) and abs(exponent) > 2:
            # the same value without the work of a huge exponent
            exponent = Fraction(2 + exponent.numerator % 2) if exponent > 0 else Fraction(-2 - exponent.numerator % 2)
        return _bounded(base**exponent.numerator)
    if isinstance(base, Fraction) and exponent == Fraction(1, 2):
        return _sqrt(base)
    result = float(base) ** float(exponent)
    if isinstance(result, complex):
        raise ToolError("a negative number has no real power with a fractional exponent")
    return _bounded(result)


def _sqrt(value: Value) -> Number:
    value = _number(value)
    if value < 0:
        raise ToolError("sqrt of a negative number")
    if isinstance(value, Fraction):
        roots = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if roots[0] ** 2 == value.numerator and roots[1] ** 2 == value.denominator:
            return Fraction(*roots)
    return math.sqrt(value)


def _round(value: Value, digits: Value = Fraction(0)) -> Number:
    """Half away from zero, as people round; on the exact decimal value."""
    value, places = _number(value), _integer(digits)
    if abs(places) > 300:
        raise ValueError("at most 300 digits")
    exact = value if isinstance(value, Fraction) else Fraction(repr(value))
    scaled = abs(exact) * Fraction(10) ** places
    rounded = Fraction(math.floor(scaled + Fraction(1, 2))) / Fraction(10) ** places
    return rounded if exact >= 0 else -rounded


def _literal(text: str) -> Fraction:
    mantissa, _, exponent = text.lower().replace("_", "").partition("e")
    if exponent and abs(int(exponent)) > 1000:
        raise ToolError(f"{text} is out of range")
    return _bounded_fraction(Fraction(mantissa) * Fraction(10) ** int(exponent or 0))


def _bounded(value: Value) -> Number:
    number = _number(value)
    if isinstance(number, Fraction):
        return _bounded_fraction(number)
    if not math.isfinite(number):
        raise ToolError("the result is not a finite number")
    return number


def _bounded_fraction(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise ToolError("the number is too large")
    return value


def _number(value: Any) -> Number:
    if isinstance(value, list):
        raise ToolError("a list stands where a number is needed")
    return Fraction(value) if isinstance(value, int) else value


def _integer(value: Value) -> int:
    number = _number(value)
    if number != int(number):
        raise ValueError("a whole number is needed")
    return int(number)


def _flat(arguments: tuple[Value, ...]) -> list[Any]:
    values: list[Any] = []
    for argument in arguments:
        values.extend(_flat(tuple(argument)) if isinstance(argument, list) else [argument])
    if not values:
        raise ValueError("at least one number is needed")
    return values


def _of_all(function: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    return lambda *arguments: function(_flat(arguments))


def _real(function: Callable[..., float]) -> Callable[..., Any]:
    return lambda *arguments: function(*(float(_number(a)) for a in arguments))


def _whole(function: Callable[..., int]) -> Callable[..., Any]:
    return lambda *arguments: function(*(_integer(a) for a in arguments))


def _factorial(value: int) -> int:
    if value > MAX_FACTORIAL:
        raise ValueError(f"at most {MAX_FACTORIAL}")
    return math.factorial(value)


def _comb(n: int, k: int) -> int:
    if n > 4 * MAX_FACTORIAL:
        raise ValueError(f"n is at most {4 * MAX_FACTORIAL}")
    return math.comb(n, k)


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CONSTANTS: dict[str, float] = {"pi": math.pi, "e": math.e, "tau": math.tau}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": lambda value: abs(_number(value)),
    "sqrt": _sqrt,
    "pow": _power,
    "round": _round,
    "floor": lambda value: math.floor(_number(value)),
    "ceil": lambda value: math.ceil(_number(value)),
    "trunc": lambda value: math.trunc(_number(value)),
    "sum": _of_all(sum),
    "min": _of_all(min),
    "max": _of_all(max),
    "mean": _of_all(statistics.mean),
    "median": _of_all(statistics.median),
    "stdev": _of_all(lambda values: _sqrt(statistics.variance(values))),
    "count": _of_all(len),
    "product": _of_all(lambda values: _product(values)),
    "gcd": _whole(math.gcd),
    "lcm": _whole(math.lcm),
    "factorial": _whole(_factorial),
    "comb": _whole(_comb),
    "exp": _real(math.exp),
    "log": _real(math.log),
    "ln": _real(math.log),
    "log2": _real(math.log2),
    "log10": _real(math.log10),
    "sin": _real(math.sin),
    "cos": _real(math.cos),
    "tan": _real(math.tan),
    "asin": _real(math.asin),
    "acos": _real(math.acos),
    "atan": _real(math.atan),
    "atan2": _real(math.atan2),
    "degrees": _real(math.degrees),
    "radians": _real(math.radians),
}


def _product(values: list[Any]) -> Number:
    result: Number = Fraction(1)
    for value in values:
        result = _bounded(result * value)
    return result


def _shown(value: Number) -> dict[str, Any]:
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < 2**53
        result = int(value) if whole else value
        return {"result": result, "text": repr(result), "exact": False}
    if value.denominator == 1:
        return {"result": value.numerator, "text": str(value.numerator), "exact": True}
    digits = _finite_digits(value.denominator)
    if digits is not None:
        return {"result": float(value), "text": _decimal(value, digits), "exact": True}
    return {"result": float(value), "text": _decimal(value, 30) + "...", "exact": True, "fraction": str(value)}


def _finite_digits(denominator: int) -> int | None:
    """Decimal places that write the fraction in full, None where it never ends (or is very long)."""
    twos = fives = 0
    while denominator % 2 == 0:
        denominator //= 2
        twos += 1
    while denominator % 5 == 0:
        denominator //= 5
        fives += 1
    places = max(twos, fives)
    return places if denominator == 1 and places <= 100 else None


def _decimal(value: Fraction, places: int) -> str:
    scaled = abs(value.numerator) * 10**places // value.denominator
    whole, rest = divmod(scaled, 10**places)
    return f"{'-' if value < 0 else ''}{whole}.{rest:0{places}d}"
