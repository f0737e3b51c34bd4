"""Interceptors of calls, and tools whose schema's root is no object."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tools_kit import Always, Bench, call, make_tool

from geode.hooks import Block, Event, ToolApprovalDenied, ToolExecStarted
from geode.tools.approval import Answer
from geode.tools.types import ToolContext

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def double(n: int) -> int:
    return 2 * n


async def test_what_an_interceptor_rewrites_is_checked_and_approved_again() -> None:
    person = Always(Answer(True))
    bench = Bench(make_tool(double, "write", NUMBER), tiers={"write": "ask"}, approver=person)
    new: dict[str, Any] = {"n": 5}
    bench.bus.intercept_with(Event.TOOL_EXEC_STARTED, lambda p: replace(p, input=dict(new)))
    assert (await bench.one("double", n=1)).result.text == "10"
    assert person.asked == [["double"], ["double"]]
    (started,) = bench.told(Event.TOOL_EXEC_STARTED)
    assert isinstance(started, ToolExecStarted)
    assert started.input == {"n": 5}
    new["n"] = "x"
    outcome = await bench.one("double", n=1)
    assert outcome.result.text == (
        "An interceptor rewrote the arguments. The call was not run: the arguments do not fit the schema of double:\n"
        "- $.n: 'x' is not of type 'integer'"
    )
    person.answer = Answer(False)
    assert (await bench.one("double", n=1)).status == "denied"


async def test_an_interceptor_that_changes_its_copy_in_place_is_no_way_round_the_checks() -> None:
    def spoil(payload: ToolExecStarted) -> ToolExecStarted:
        payload.input["n"] = "x"  # type: ignore[index]
        return payload

    bench = Bench(make_tool(double, schema=NUMBER))
    bench.bus.intercept_with(Event.TOOL_EXEC_STARTED, spoil)
    use = call("double", n=1)
    (outcome,) = await bench.run(use)
    assert (outcome.status, use.input) == ("invalid", {"n": 1})


@pytest.mark.parametrize(
    ("interceptor", "reason"),
    [
        (lambda p: Block("not on Fridays"), "not on Fridays"),
        (lambda p: 1 / 0, "interceptor <lambda> raised ZeroDivisionError: division by zero"),
        (lambda p: 5, "interceptor <lambda> returned int, not ToolExecStarted"),
    ],
)
async def test_an_interceptor_blocks(interceptor: Any, reason: str) -> None:
    interceptor.__qualname__ = "<lambda>"
    bench = Bench(make_tool(double))
    bench.bus.intercept_with(Event.TOOL_EXEC_STARTED, interceptor)
    outcome = await bench.one("double", n=1)
    assert (outcome.status, outcome.failed) == ("denied", False)
    assert outcome.result.text == f"Denied: double was blocked and not run: {reason}"
    (denied,) = bench.told(Event.TOOL_APPROVAL_DENIED)
    assert isinstance(denied, ToolApprovalDenied)
    assert (denied.by, denied.reason) == ("interceptor", reason)
    assert [n.override for n in bench.notices] == ["hooks.interceptors=[]"]


@pytest.mark.parametrize("definitions", [False, True])
async def test_a_schema_whose_root_is_no_object(definitions: bool) -> None:
    items: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}
    schema = {"$ref": "#/$defs/numbers", "$defs": {"numbers": items}} if definitions else items

    def total(numbers: list[int], context: ToolContext) -> int:
        return sum(numbers)

    bench = Bench(make_tool(total, schema=schema))
    assert (await bench.one("total", value=[1, 2, 3])).result.text == "6"
    assert (await bench.one("total", value=[1, "x"])).result.text.splitlines()[1:] == [
        "- $.value[1]: 'x' is not of type 'integer'"
    ]
    assert (await bench.one("total", numbers=[1])).result.text.splitlines()[1:] == [
        "- $: must be an object with the one property 'value', which holds the value"
    ]
