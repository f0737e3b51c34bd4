"""calculate: exact results and clear refusals."""

from __future__ import annotations

from typing import Any

import pytest

from geode.tools.handlers import BUILTIN_HANDLERS
from geode.tools.types import ToolError


def calculate(expression: str) -> Any:
    return BUILTIN_HANDLERS["calculate"](expression=expression)


@pytest.mark.parametrize(
    ("expression", "result", "text", "exact"),
    [
        ("0.1 + 0.2", 0.3, "0.3", True),
        ("1/3*3", 1, "1", True),
        ("2**100", 2**100, str(2**100), True),
        ("17.50*1.19", 20.825, "20.825", True),
        ("-7 // 2", -4, "-4", True),
        ("-7 % 3", 2, "2", True),
        ("round(2.675, 2)", 2.68, "2.68", True),
        ("round(-0.5)", -1, "-1", True),
        ("sqrt(16)", 4, "4", True),
        ("sqrt(2)", 2**0.5, "1.4142135623730951", False),
        ("sum([1, 2, 3.5])", 6.5, "6.5", True),
        ("mean(1, 2, 3)", 2, "2", True),
        ("max(1, [2, 7])", 7, "7", True),
        ("10/3", 10 / 3, "3.333333333333333333333333333333...", True),
        ("1**999999999999", 1, "1", True),
        ("(-1)**999999999999", -1, "-1", True),
        ("log(8, 2)", 3, "3", False),
        ("factorial(20)", 2432902008176640000, "2432902008176640000", True),
        (" 1e3 ", 1000, "1000", True),
    ],
)
def test_results(expression: str, result: float, text: str, exact: bool) -> None:
    answer = calculate(expression)
    assert (answer["result"], answer["text"], answer["exact"]) == (result, text, exact)
    assert type(answer["result"]) is type(result)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1/0", "division by zero"),
        ("0**-1", "division by zero"),
        ("9**9**9", "the power is too large"),
        ("2**100000", "the power is too large"),
        ("1e9999", "1e9999 is out of range"),
        ("factorial(100000)", "factorial: at most 400"),
        ("2^3", "^ is not a power here: use **"),
        ("'a'*9", "'a' is no number"),
        ("True", "True is no number"),
        ("x + 1", "unknown name 'x' (constants: pi, e, tau)"),
        ("sqrt(-1)", "sqrt of a negative number"),
        ("(-8)**0.5", "sqrt of a negative number"),
        ("log(0)", "log: math domain error"),
        ("exp(100000)", "the result is too large"),
        ("[1]*10", "a list stands where a number is needed"),
        ("1 +", "the expression cannot be read: invalid syntax"),
        ("mean()", "mean: at least one number is needed"),
        ("1" * 1001, "the expression is longer than 1000 characters"),
    ],
)
def test_refusals(expression: str, message: str) -> None:
    with pytest.raises(ToolError) as error:
        calculate(expression)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os')",
        "().__class__",
        "(lambda: 1)()",
        "[x for x in (1,)]",
        "1 if 1 else 2",
        "print(1)",
        "a.b",
        "1 < 2",
    ],
)
def test_nothing_but_arithmetic(expression: str) -> None:
    with pytest.raises(ToolError):
        calculate(expression)


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    with pytest.raises(ToolError, match="the expression cannot be read: too many nested parentheses"):
        calculate("(" * 300 + "1" + ")" * 300)
    with pytest.raises(ToolError, match="1,000 is a list too"):
        calculate("1,000")
