"""The scripted adapter through the contract: `call`, `build`, `parse`."""

from __future__ import annotations

import asyncio
import json

import pytest

from geode.adapters.scripted import ScriptedAdapter
from geode.contract import (
    AdapterCallRequest,
    AdapterError,
    Delta,
    ErrorKind,
    History,
    InputFault,
    Message,
    ReasoningBlock,
    Source,
    StopReason,
    TextBlock,
    ToolChoice,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
    Usage,
)
from geode.script import Script

GREP = ToolSpec("grep", "Search.", {"type": "object", "properties": {}})


def adapter(*turns: object) -> ScriptedAdapter:
    return ScriptedAdapter(Script.load({"turns": list(turns)}))


def ask(*messages: Message, **fields: object) -> AdapterCallRequest:
    return AdapterCallRequest(messages or (Message.user("go"),), **fields)


async def test_a_turn_becomes_blocks_in_order():
    scripted = adapter(
        {
            "reasoning": "hm",
            "text": "Looking.",
            "tool_calls": [
                {"name": "grep", "input": {"p": 1}},
                {"name": "grep", "arguments": '{"p":', "id": "x"},
                {"name": "grep", "arguments": "[1]", "id": "x"},
                "grep",
            ],
        }
    )
    result = await scripted.call(ask(round=3))
    assert result.content == (
        ReasoningBlock("hm", Source("scripted", "scripted", "scripted"), {"type": "reasoning"}),
        TextBlock("Looking."),
        ToolUseBlock("call_3_0", "grep", {"p": 1}, '{"p":1}'),
        ToolUseBlock("x", "grep", {}, '{"p":', InputFault.INVALID_JSON),
        ToolUseBlock("x_2", "grep", {}, "[1]", InputFault.NOT_AN_OBJECT),
        ToolUseBlock("call_3_3", "grep", {}, "{}"),
    )
    assert (result.stop_reason, result.raw_stop) == (StopReason.TOOL_USE, "tool_use")


async def test_usage_is_given_estimated_or_missing():
    scripted = adapter(
        {"text": "x" * 40},
        {"text": "x", "usage": {"input": 7, "output": 3, "cache_read": 2, "cache_write": 1, "reasoning": 1}},
        {"text": "x", "usage": "missing"},
    )
    history = History([Message.user("y" * 100)])
    first = await scripted.call(AdapterCallRequest(history, system="z" * 20))
    assert first.usage == Usage(31, 11)
    assert (await scripted.call(AdapterCallRequest(history))).usage == Usage(7, 3, 2, 1, 0, 1)
    assert (await scripted.call(AdapterCallRequest(history))).usage == Usage(known=False)


async def test_results_are_seen_as_the_history_grows_and_after_a_compaction():
    scripted = adapter(
        {"tool_calls": [{"name": "grep"}]},
        {"text": "{{ result('grep').json.n }}", "expect": {"results": 1, "last_is_error": False}},
        {"text": "{{ first_user }}/{{ user }}", "expect": {"results": 0}},
    )
    history = History([Message.user("go")])
    first = await scripted.call(AdapterCallRequest(history, tools=(GREP,)))
    history.append(Message("assistant", first.content))
    history.append(Message.user(ToolResultBlock(first.tool_uses[0].id, '{"n": 5}')))
    assert (await scripted.call(AdapterCallRequest(history, tools=(GREP,)))).text == "5"
    history.replace([Message.user("summary")])
    assert (await scripted.call(AdapterCallRequest(history, tools=(GREP,)))).text == "go/summary"
    scripted.player.assert_consumed()


async def test_tool_choice_is_absent_without_tools():
    scripted = adapter({"expect": {"tool_choice": "absent"}}, {"expect": {"tool_choice": "tool:grep"}})
    await scripted.call(ask(tool_choice=ToolChoice("tool", "grep")))
    await scripted.call(ask(tools=(GREP,), tool_choice=ToolChoice("tool", "grep")))


async def test_exhaustion_and_expectation_are_script_errors():
    scripted = adapter({"text": "a", "expect": {"tool_choice": "none"}})
    for message in (
        "script script: turns[0] expects tool_choice none, got 'absent'",
        "script script: turns is over: it holds 1 turns, and request 2 wants one more",
    ):
        with pytest.raises(AdapterError) as caught:
            await scripted.call(ask())
        assert (caught.value.kind, caught.value.message, caught.value.retryable) == (ErrorKind.SCRIPT, message, False)


@pytest.mark.parametrize(
    ("fault", "kind", "status"),
    [
        ({"kind": "http", "status": 429}, ErrorKind.RATE_LIMIT, 429),
        ({"kind": "http", "status": 429, "code": "insufficient_quota"}, ErrorKind.BILLING, 429),
        ({"kind": "http", "status": 402}, ErrorKind.BILLING, 402),
        ({"kind": "http", "status": 529}, ErrorKind.OVERLOADED, 529),
        ({"kind": "http", "status": 503}, ErrorKind.SERVER, 503),
        ({"kind": "http", "status": 401}, ErrorKind.AUTH, 401),
        ({"kind": "http", "status": 422}, ErrorKind.INVALID_REQUEST, 422),
        ({"kind": "http", "status": 400, "message": "Tool choice must be auto"}, ErrorKind.TOOL_CHOICE, 400),
        ({"kind": "http", "status": 400, "error": "truncated_upload"}, ErrorKind.TRUNCATED_UPLOAD, 400),
        ("stream_error", ErrorKind.OVERLOADED, None),
        ("cut", ErrorKind.CONNECTION, None),
        ("close", ErrorKind.CONNECTION, None),
        ("broken_json", ErrorKind.BAD_RESPONSE, 200),
        ("empty_choices", ErrorKind.BAD_RESPONSE, 200),
        ("overflow", ErrorKind.CONTEXT_OVERFLOW, 400),
        ({"kind": "failed", "code": "invalid_prompt"}, ErrorKind.REFUSAL, 200),
    ],
)
async def test_faults_are_adapter_errors(fault, kind, status):
    with pytest.raises(AdapterError) as caught:
        await adapter({"fault": fault}).call(ask())
    assert (caught.value.kind, caught.value.status) == (kind, status)


async def test_retry_after_is_kept():
    with pytest.raises(AdapterError) as caught:
        await adapter({"fault": {"kind": "http", "status": 429, "retry_after": 2}}).call(ask())
    assert caught.value.retry_after_s == 2


async def test_a_cut_stream_keeps_what_came():
    pieces: list[Delta] = []
    scripted = adapter({"text": "abcdefghijkl" * 3, "fault": {"kind": "cut", "after": 2}})
    with pytest.raises(AdapterError) as caught:
        await scripted.call(ask(on_delta=pieces.append))
    assert caught.value.partial is not None
    assert caught.value.partial.text == "abcdefghijkl" * 2 == "".join(p.text for p in pieces)


async def test_a_hang_ends_with_the_time_limit_or_a_cancel():
    scripted = adapter({"fault": "hang"}, {"delay_s": 60, "text": "late"})
    with pytest.raises(AdapterError) as caught:
        await scripted.call(ask(timeout_s=0.01))
    assert (caught.value.kind, caught.value.message) == (ErrorKind.TIMEOUT, "no answer within 0.01 s")
    task = asyncio.create_task(scripted.call(ask()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_streamed_pieces_add_up_to_the_result():
    pieces: list[Delta] = []
    turn = {"reasoning": "think " * 9, "text": "word " * 30, "tool_calls": [{"name": "grep", "input": {"a": "b" * 50}}]}
    result = await adapter(turn).call(ask(on_delta=pieces.append))
    assert "".join(p.text for p in pieces if p.kind == "text") == result.text == "word " * 30
    assert "".join(p.text for p in pieces if p.kind == "reasoning") == "think " * 9
    assert "".join(p.text for p in pieces if p.kind == "tool") == 'grep{"a":"' + "b" * 50 + '"}'
    assert sum(p.kind == "text" for p in pieces) > 1


@pytest.mark.parametrize(
    ("turn", "stop"),
    [
        ({"text": "a", "stop": "pause_turn"}, StopReason.PAUSE_TURN),
        ({"text": "a", "stop": "max_tokens"}, StopReason.MAX_TOKENS),
        ({"text": "a", "stop_sequence": "END"}, StopReason.STOP_SEQUENCE),
        ({"stop": "content_filter"}, StopReason.CONTENT_FILTER),
    ],
)
async def test_stop_reasons(turn, stop):
    assert (await adapter(turn).call(ask())).stop_reason is stop


async def test_a_refusal_keeps_its_category():
    result = await adapter({"refusal": "cyber"}).call(ask())
    assert (result.stop_reason, result.content) == (StopReason.REFUSAL, ())
    assert result.stop_details == {
        "type": "refusal",
        "category": "cyber",
        "explanation": "This request was refused.",
    }


async def test_a_call_cut_by_the_output_limit_is_marked():
    turn = {"stop": "max_tokens", "tool_calls": [{"name": "a"}, {"name": "b", "arguments": '{"x'}]}
    result = await adapter(turn).call(ask())
    assert [(u.name, u.fault) for u in result.tool_uses] == [("a", None), ("b", InputFault.CUT)]


async def test_nested_runs_share_the_adapter():
    script = Script.load(
        {
            "conversations": [{"match": "child", "turns": [{"text": "c1"}, {"text": "c2"}]}],
            "turns": [{"text": "p1"}, {"text": "p2"}],
        }
    )
    scripted = ScriptedAdapter(script)
    parent, child = History([Message.user("parent task")]), History([Message.user("child task")])
    order = [parent, child, child, parent]
    assert [(await scripted.call(AdapterCallRequest(h))).text for h in order] == ["p1", "c1", "c2", "p2"]
    scripted.player.assert_consumed()


def test_build_is_neutral_json():
    use = ToolUseBlock("c", "grep", {"a": 1})
    request = AdapterCallRequest(
        (Message.user("go"), Message.assistant(use), Message.user(ToolResultBlock("c", "bad", True))),
        system="Be brief",
        tools=(GREP,),
        tool_choice=ToolChoice("tool", "grep"),
        max_tokens=9,
    )
    assert json.loads(adapter({"text": "a"}).build(request)) == {
        "model": "scripted",
        "max_tokens": 9,
        "system": "Be brief",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "grep", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "id": "c", "content": "bad", "is_error": True}]},
        ],
        "tools": [{"name": "grep", "description": "Search.", "input_schema": {"type": "object", "properties": {}}}],
        "tool_choice": {"type": "tool", "name": "grep"},
    }


def test_parse_reads_a_turn():
    scripted = adapter({"text": "a"})
    assert scripted.parse({"text": "hi"}).text == "hi"
    with pytest.raises(AdapterError) as caught:
        scripted.parse({"txt": "hi"})
    assert caught.value.kind is ErrorKind.BAD_RESPONSE
