"""One call from wish to result: checks, interceptors, handlers that misbehave, deadlines, cancellation."""

from __future__ import annotations

import asyncio
import contextvars
from pathlib import Path
from typing import Any

import pytest
from tools_kit import Bench, call, make_tool, statuses, texts

from geode.contract import InputFault, Notice, TerminationReason, ToolUseBlock
from geode.hooks import Event, ToolExecFailed
from geode.tools.types import EndRequest, ToolContext, ToolError, ToolReturn

NUMBER = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1}, "tag": {"enum": ["a", "b"]}},
    "required": ["n"],
    "additionalProperties": False,
}


def double(n: int, tag: str = "a") -> int:
    return 2 * n


async def test_one_good_call() -> None:
    bench = Bench(make_tool(double, schema=NUMBER))
    outcome = await bench.one("double", n=21)
    assert (outcome.status, outcome.failed, outcome.result.content, outcome.result.is_error) == (
        "ok",
        False,
        "42",
        False,
    )
    assert (outcome.tier, outcome.end) == ("safe", None)
    assert bench.names() == ["TOOL_APPROVAL_GRANTED", "TOOL_EXEC_STARTED", "TOOL_EXEC_ENDED"]


async def test_no_calls_no_outcomes() -> None:
    assert await Bench().run() == []


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({}, ["$: 'n' is a required property"]),
        ({"n": "x"}, ["$.n: 'x' is not of type 'integer'"]),
        ({"n": True}, ["$.n: True is not of type 'integer'"]),
        ({"n": 0}, ["$.n: 0 is less than the minimum of 1"]),
        ({"n": 1, "tag": "c"}, ["$.tag: 'c' is not one of ['a', 'b']"]),
        ({"n": 1, "m": 1}, ["$: Additional properties are not allowed ('m' was unexpected)"]),
        ({"n": 0, "tag": 1}, ["$.n: 0 is less than the minimum of 1", "$.tag: 1 is not one of ['a', 'b']"]),
    ],
)
async def test_arguments_that_do_not_fit(arguments: dict[str, Any], lines: list[str]) -> None:
    bench = Bench(make_tool(double, schema=NUMBER))
    outcome = await bench.one("double", **arguments)
    assert (outcome.status, outcome.failed, outcome.result.is_error) == ("invalid", True, True)
    head, *rest = outcome.result.text.splitlines()
    assert head == "The call was not run: the arguments do not fit the schema of double:"
    assert rest == [f"- {line}" for line in lines]
    assert bench.names() == ["TOOL_EXEC_FAILED"]


async def test_many_violations_are_cut_short() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    outcome = await Bench(make_tool(double, schema=schema)).one("double", **{f"k{n}": "x" for n in range(9)})
    assert outcome.result.text.splitlines()[1:] == [
        *(f"- $.k{n}: 'x' is not of type 'integer'" for n in range(5)),
        "- (there are more)",
    ]


@pytest.mark.parametrize(
    ("fault", "sent", "text"),
    [
        (
            InputFault.CUT,
            '{"n": 1',
            "The call was not run: the response reached its output limit before the call was complete. "
            "Make the call again with shorter arguments, or split the work over several calls.",
        ),
        (
            InputFault.NOT_AN_OBJECT,
            "[1]",
            "The call was not run: its arguments are valid JSON but no object. "
            "Send one JSON object with named arguments. You sent: [1]",
        ),
        (
            InputFault.INVALID_JSON,
            '{"n": 1,}',
            "The call was not run: its arguments are invalid JSON (Expecting property name enclosed in double quotes: "
            'line 1 column 9 (char 8)). Send one valid JSON object. You sent: {"n": 1,}',
        ),
        (
            InputFault.TOO_LONG,
            "x" * 2000,
            "The call was not run: its arguments are too long (2000 characters). Send shorter ones.",
        ),
    ],
)
async def test_arguments_that_could_not_be_read(fault: InputFault, sent: str, text: str) -> None:
    bench = Bench(make_tool(double))
    (outcome,) = await bench.run(ToolUseBlock("c", "double", {}, arguments=sent, fault=fault))
    assert (outcome.status, outcome.failed, outcome.result.text) == ("invalid", True, text)


async def test_only_the_start_of_long_broken_arguments_is_shown() -> None:
    use = ToolUseBlock("c", "double", {}, arguments="x" * 500, fault=InputFault.INVALID_JSON)
    (outcome,) = await Bench(make_tool(double)).run(use)
    assert outcome.result.text.endswith(f"You sent: {'x' * 200}... (500 characters in all)")


async def test_unknown_tools() -> None:
    outcome = await Bench(make_tool(double)).one("dubble")
    text = "There is no tool 'dubble'. Did you mean 'double'? Available tools: double."
    assert (outcome.status, outcome.failed, outcome.result.text) == ("unknown", True, text)
    assert (await Bench().one("x")).result.text == ("There is no tool 'x', and no tools are available. Answer in text.")


@pytest.mark.parametrize("value", ["a\0b", ["x", "a\0"], {"deep": [{"er": "\0"}]}, {"\0": 1}])
async def test_null_bytes_reach_no_handler(value: Any) -> None:
    outcome = await Bench(make_tool(double)).one("double", value=value)
    assert outcome.status == "invalid"
    assert outcome.result.text.startswith("The call was not run: the arguments hold a null byte (at $.value")


async def test_disabled_tools_are_answered_not_run() -> None:
    bench = Bench(make_tool(double))
    (outcome,) = await bench.run(call("double", n=1), disabled=True)
    text = "Tools are disabled in this round: the call was not run. Answer in text."
    assert (outcome.status, outcome.failed, outcome.result.text) == ("disabled", False, text)
    assert outcome.result.is_error


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (KeyError("k"), "KeyError: 'k'"),
        (ToolError("just this"), "just this"),
        (ToolError(), "The tool failed and gave no message."),
        (SystemExit(3), "SystemExit: 3"),
        (TimeoutError("its own"), "TimeoutError: its own"),
        (Broken(), "Broken"),
        (ValueError("\ud800"), "ValueError: ?"),
    ],
)
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_handler_that_raises(error: BaseException, text: str, kind: str) -> None:
    def fail() -> None:
        raise error

    async def fail_later() -> None:
        raise error

    outcome = await Bench(make_tool(fail if kind == "sync" else fail_later, name="fail")).one("fail")
    assert (outcome.status, outcome.failed, outcome.result.text) == ("error", True, text)


@pytest.mark.parametrize("error", [KeyboardInterrupt("k"), GeneratorExit()])
async def test_what_would_end_the_process_stays_in_the_thread(error: BaseException) -> None:
    def fail() -> None:
        raise error

    outcome = await Bench(make_tool(fail)).one("fail")
    assert outcome.result.text == f"RuntimeError: {type(error).__name__}: {error}"


async def test_a_handler_that_cancels_itself_is_an_error_of_its_own() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    async def cancels_its_task() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    bench = Bench(make_tool(cancelled), make_tool(cancels_its_task))
    outcomes = await bench.run(call("cancelled"), call("cancels_its_task"))
    assert texts(outcomes) == ["CancelledError: the tool's own work was cancelled."] * 2
    assert [o.failed for o in outcomes] == [True, True]


async def test_full_returns() -> None:
    end = EndRequest(TerminationReason.MODEL_ACTION_REQUIRED, "Log in")

    def full() -> ToolReturn:
        return ToolReturn({"a": 1}, is_error=True, end=end)

    outcome = await Bench(make_tool(full)).one("full")
    assert (outcome.status, outcome.failed, outcome.result.text, outcome.end) == ("error", True, '{"a": 1}', end)


async def test_a_handler_gets_context_and_a_copy_of_its_arguments(tmp_path: Path) -> None:
    seen: list[ToolContext] = []
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    def spoil(items: list[int], context: ToolContext) -> str:
        seen.append(context)
        items.append(9)
        return variable.get()

    bench = Bench(make_tool(spoil), folder=tmp_path, timeout_s=5)
    use = call("spoil", items=[1])
    before = asyncio.get_running_loop().time()
    (outcome,) = await bench.run(use, round=3)
    assert (outcome.result.text, use.input) == ("set", {"items": [1]})
    context = seen[0]
    assert (context.workspace, context.round, context.tool_use_id, context.tool) == (tmp_path, 3, "id_spoil", "spoil")
    assert context.deadline is not None
    assert before + 5 <= context.deadline <= before + 10
    assert context.stopped is not None
    assert context.stopped.is_set()


async def test_a_call_has_a_deadline() -> None:
    async def sleep() -> None:
        await asyncio.sleep(60)

    outcome = await Bench(make_tool(sleep), timeout_s=0.02).one("sleep")
    text = "The tool did not finish within 0.02 s and was stopped."
    assert (outcome.status, outcome.failed, outcome.result.text) == ("timeout", True, text)
    assert (await Bench(make_tool(sleep, timeout_s=0.01)).one("sleep")).status == "timeout"


async def test_a_handler_that_ignores_its_cancellation_is_left_behind() -> None:
    release = asyncio.Event()

    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    bench = Bench(make_tool(stubborn), timeout_s=0.01, cancel_grace_s=0.01)
    outcome = await bench.one("stubborn")
    assert (outcome.status, outcome.failed) == ("timeout", True)
    assert bench.notices == [
        Notice("stuck:stubborn", "stubborn did not stop when its time was up: it may still be running")
    ]
    release.set()
    await asyncio.sleep(0)
    text = "The tool did not finish within 0.01 s. It was given up, but may still be running."
    assert outcome.result.text == text


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


async def test_the_batch_deadline_closes_what_is_open() -> None:
    bench = Bench(make_tool(double), make_tool(wait_for_ever), make_tool(double, "write", name="later"))
    at = asyncio.get_running_loop().time() + 0.02
    calls = call("double", n=1), call("wait_for_ever"), call("later", n=2)
    outcomes = await bench.run(*calls, deadline=at)
    assert statuses(outcomes) == ["ok", "timeout", "timeout"]
    assert [o.failed for o in outcomes] == [False, False, False]
    text = "The time budget ended before this call came back: it was stopped and has no result."
    assert texts(outcomes) == ["2", text, text]


async def test_a_deadline_that_has_passed_runs_nothing() -> None:
    bench = Bench(make_tool(double))
    (outcome,) = await bench.run(call("double", n=1), deadline=asyncio.get_running_loop().time())
    assert (outcome.status, bench.names()) == ("timeout", ["TOOL_EXEC_FAILED"])


async def test_a_cancel_ends_the_handlers_and_close_keeps_what_is_finished() -> None:
    ended = []

    async def tidy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("tidy")

    bench = Bench(make_tool(double), make_tool(tidy), make_tool(double, "write", name="later"))
    batch = bench.batch(call("double", n=4), call("tidy"), call("later", n=1))
    task = asyncio.create_task(batch.run())
    while not bench.told(Event.TOOL_EXEC_ENDED):
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["tidy"]
    outcomes = batch.close("This call was interrupted: user_cancelled.")
    assert statuses(outcomes) == ["ok", "cancelled", "cancelled"]
    assert texts(outcomes)[1:] == ["This call was interrupted: user_cancelled."] * 2
    assert [o.result.is_error for o in outcomes] == [False, True, True]


async def test_failures_say_what_they_were() -> None:
    bench = Bench(make_tool(wait_for_ever), timeout_s=0.01)
    await bench.run(call("wait_for_ever"), call("missing"))
    failed = [p for p in bench.events if isinstance(p, ToolExecFailed)]
    assert [(p.tool, p.error_type) for p in failed] == [("missing", "UnknownTool"), ("wait_for_ever", "TimeoutError")]
