"""Calls over the real SDK: unstreamed and streamed answers, errors, cut streams."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from chat_kit import GREP, SOURCE, TOOLS, Answers, adapter, answer, chunk, request, sse, wire_call

from geode.contract import (
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    Delta,
    ErrorKind,
    History,
    InputFault,
    Message,
    ReasoningBlock,
    StopReason,
    TextBlock,
    ToolChoice,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from geode.provider import LoopbackProvider

USAGE = {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 6}}


def reply(payload: Any, status: int = 200, **headers: str) -> httpx2.Response:
    return httpx2.Response(status, json=payload, headers=headers)


async def streamed(
    *events: Any, done: bool = True, deltas: list[Delta] | None = None, **opts: Any
) -> AdapterCallResult:
    made = adapter(transport=Answers(sse(*events, done=done)), stream=True, **opts)
    shown = deltas if deltas is not None else []
    return await made.call(request(tools=TOOLS, on_delta=shown.append))


async def failing(response: httpx2.Response | Exception, **opts: Any) -> AdapterError:
    made = adapter(transport=Answers(response), **opts)
    with pytest.raises(AdapterError) as caught:
        await made.call(request(tools=TOOLS))
    return caught.value


async def test_an_unstreamed_call() -> None:
    transport = Answers(reply({**answer(content="hello"), "usage": USAGE}, **{"x-request-id": "r1"}))
    made = adapter(transport=transport)
    result = await made.call(request(tools=(GREP,)))
    await made.aclose()
    await made.aclose()
    assert (result.text, result.request_id, result.usage) == ("hello", "r1", Usage(4, 4, cache_read_tokens=6))
    (sent,) = transport.requests
    assert (sent.method, str(sent.url)) == ("POST", "https://api.z.ai/api/paas/v4/chat/completions")
    assert sent.headers["authorization"] == "Bearer zai-0123456789abcdef"
    assert sent.content == made.build(request(tools=(GREP,)))


EVENTS = [
    chunk(role="assistant", content=""),
    chunk(reasoning_content="I sh"),
    chunk(reasoning_content="ould look."),
    chunk(content="Let me "),
    chunk(content="look."),
    chunk(
        tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": {"name": "grep_files", "arguments": ""}}]
    ),
    chunk(tool_calls=[{"index": 0, "function": {"arguments": '{"pattern"'}}]),
    chunk(tool_calls=[{"index": 1, "id": "c2", "function": {"name": "read_document", "arguments": '{"path":'}}]),
    chunk(tool_calls=[{"index": 0, "function": {"arguments": ': "x"}'}}]),
    chunk(tool_calls=[{"index": 1, "function": {"arguments": ' "a"}'}}]),
    chunk("tool_calls"),
    {"id": "x", "object": "chat.completion.chunk", "model": "glm-5.3", "choices": [], "usage": USAGE},
]
WHOLE = {
    **answer(
        "tool_calls",
        reasoning_content="I should look.",
        content="Let me look.",
        tool_calls=[wire_call("grep_files", '{"pattern": "x"}'), wire_call("read_document", '{"path": "a"}', "c2")],
    ),
    "usage": USAGE,
}


async def test_a_streamed_answer_is_identical_to_the_unstreamed_one() -> None:
    deltas: list[Delta] = []
    result = await streamed(*EVENTS, deltas=deltas)
    assert result == await adapter(transport=Answers(reply(WHOLE))).call(request(tools=TOOLS))
    assert result.content == (
        ReasoningBlock("I should look.", SOURCE, {"reasoning_content": "I should look."}),
        TextBlock("Let me look."),
        ToolUseBlock("c1", "grep_files", {"pattern": "x"}, '{"pattern": "x"}'),
        ToolUseBlock("c2", "read_document", {"path": "a"}, '{"path": "a"}'),
    )
    assert [d.kind for d in deltas] == ["reasoning"] * 2 + ["text"] * 2 + ["tool"] * 6
    assert "".join(d.text for d in deltas if d.kind == "text") == "Let me look."


@pytest.mark.parametrize(
    "calls",
    [
        [{"index": 0, **wire_call("a", "{}", "c1")}, {"index": 0, **wire_call("b", "{}", "c2")}],
        [wire_call("a", "{}", "c1"), wire_call("b", "{}", "c2")],
        [{"function": {"name": "a", "arguments": "{"}}, {"function": {"arguments": "}"}}, {"function": {"name": "b"}}],
    ],
)
async def test_calls_without_a_usable_index(calls: list[dict[str, Any]]) -> None:
    result = await streamed(*(chunk(tool_calls=[call]) for call in calls), chunk("tool_calls"))
    assert [(c.name, c.input, c.fault) for c in result.tool_uses] == [("a", {}, None), ("b", {}, None)]


async def test_id_and_name_come_with_the_first_delta_only() -> None:
    first = {"index": 0, **wire_call("grep_files", '{"pattern":', "c1")}
    again = {"index": 0, **wire_call("grep_files", '"x"}', "c1")}
    (call,) = (await streamed(chunk(tool_calls=[first]), chunk(tool_calls=[again]), chunk("tool_calls"))).tool_uses
    assert call == ToolUseBlock("c1", "grep_files", {"pattern": "x"}, '{"pattern":"x"}')


async def test_pieces_of_reasoning_details_are_joined() -> None:
    piece = {"type": "reasoning.text", "index": 0, "format": "f"}
    result = await streamed(
        chunk(reasoning="h", reasoning_details=[{**piece, "text": "h"}]),
        chunk(reasoning="m", reasoning_details=[{**piece, "text": "m", "signature": "s"}]),
        chunk(content="a"),
        chunk("stop"),
    )
    details = [{**piece, "text": "hm", "signature": "s"}]
    assert result.content[0] == ReasoningBlock("hm", SOURCE, {"reasoning": "hm", "reasoning_details": details})


async def test_usage_with_every_chunk_or_none() -> None:
    usage = {**USAGE, "completion_tokens": 9}
    each = await streamed({**chunk(content="a"), "usage": USAGE}, {**chunk("stop"), "usage": usage})
    assert each.usage == Usage(4, 9, cache_read_tokens=6)
    assert (await streamed(chunk(content="a"), chunk("stop"))).usage == Usage(known=False)


async def test_a_stream_is_complete_with_a_finish_reason_or_its_end_mark() -> None:
    assert (await streamed(chunk(content="a"), chunk("length"), done=False)).stop_reason is StopReason.MAX_TOKENS
    assert (await streamed(chunk(content="a"), done=True)).stop_reason is StopReason.END_TURN


async def test_a_cut_stream_is_a_connection_error_that_keeps_what_came() -> None:
    error = await failing(sse(*EVENTS[:8], done=False), stream=True)
    assert (error.kind, error.retryable, error.message) == (
        ErrorKind.CONNECTION,
        True,
        "the stream ended before the answer did",
    )
    assert error.partial is not None
    assert error.partial.text == "Let me look."
    assert [c.fault for c in error.partial.tool_uses] == [InputFault.CUT, InputFault.CUT]


async def test_a_stream_without_an_answer() -> None:
    empty = await failing(sse(done=False), stream=True)
    assert (empty.kind, empty.partial) == (ErrorKind.CONNECTION, None)
    assert (await failing(sse({"choices": []}), stream=True)).kind is ErrorKind.BAD_RESPONSE


async def test_an_error_inside_a_stream() -> None:
    error = await failing(sse(chunk(content="a"), {"error": {"code": 503, "message": "Overloaded"}}), stream=True)
    assert (error.kind, error.status) == (ErrorKind.OVERLOADED, 503)
    assert error.partial is not None
    assert error.partial.text == "a"


async def test_an_event_that_is_no_json() -> None:
    broken = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=b"data: {oops\n\n")
    error = await failing(broken, stream=True)
    assert (error.kind, error.message) == (
        ErrorKind.BAD_RESPONSE,
        "an event of the stream is no JSON object: {oops",
    )


async def test_plain_json_in_place_of_a_stream() -> None:
    assert (await failing(reply({"error": {"code": "1113", "message": "x"}}), stream=True)).kind is ErrorKind.BILLING
    assert (await failing(reply(answer(content="a")), stream=True)).kind is ErrorKind.BAD_RESPONSE


@pytest.mark.parametrize("stream", [False, True])
async def test_a_plan_key_on_the_payg_url_is_a_billing_error(stream: bool) -> None:
    body = {"error": {"code": "1113", "message": "Insufficient balance or no resource package. Please recharge."}}
    error = await failing(reply(body, 429, **{"retry-after": "5"}), stream=stream)
    assert (error.kind, error.status, error.code, error.retryable) == (ErrorKind.BILLING, 429, "1113", False)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_400_that_names_tool_choice(stream: bool) -> None:
    error = await failing(reply({"error": {"code": "1210", "message": "Tool choice must be auto"}}, 400), stream=stream)
    assert error.kind is ErrorKind.TOOL_CHOICE


async def test_a_key_never_shows_in_an_error() -> None:
    error = await failing(reply({"error": {"message": "bad key zai-0123456789abcdef"}}, 401))
    assert str(error) == "glm-payg HTTP 401: bad key ***"


async def test_a_200_that_is_no_object() -> None:
    error = await failing(httpx2.Response(200, content=b"<html>busy</html>"))
    assert (error.kind, error.message) == (
        ErrorKind.BAD_RESPONSE,
        "the answer is no JSON object: <html>busy</html>",
    )


async def test_a_dropped_connection_is_retryable() -> None:
    error = await failing(httpx2.RemoteProtocolError("Server disconnected without sending a response."))
    assert (error.kind, error.retryable) == (ErrorKind.CONNECTION, True)


# ---------------------------------------------------------------------------------- over HTTP, every request checked

SCRIPT: dict[str, Any] = {
    "turns": [
        {
            "reasoning": "I should look.",
            "text": "Let me look.",
            "tool_calls": [{"name": "grep_files", "input": {"pattern": "é"}}],
            "usage": {"input": 10, "output": 20, "cache_read": 5, "reasoning": 8},
        },
        {"tool_calls": [{"name": "grep_files", "arguments": '{"pattern":  "a"}', "id": "same"}]},
        {"text": "Done."},
    ]
}


async def converse(stream: bool) -> tuple[list[AdapterCallResult], list[str]]:
    async with LoopbackProvider(SCRIPT) as provider:
        made = adapter(base_url=provider.base_url("chat"), stream=stream)
        history = History([Message.user("find it")])
        results, before = [], b""
        for number in (1, 2, 3):
            asked = AdapterCallRequest(
                history,
                system="be brief",
                tools=TOOLS,
                tool_choice=ToolChoice("none" if number == 3 else "auto"),
                round=number,
            )
            result = await made.call(asked)
            sent = provider.requests[-1].body
            assert sent.startswith(before)
            before = sent[: sent.index(b'],"tools"')]
            history.append(Message("assistant", result.content))
            if result.tool_uses:
                history.append(Message.user(*(ToolResultBlock(c.id, "ok") for c in result.tool_uses)))
            results.append(result)
        await made.aclose()
        return results, provider.problems


async def test_a_conversation_over_http_streamed_and_not() -> None:
    (plain, no_problems), (streamed_results, none_either) = await converse(False), await converse(True)
    assert (no_problems, none_either) == ([], [])
    assert [r.content for r in plain] == [r.content for r in streamed_results]
    assert plain[0].usage == streamed_results[0].usage
    assert [r.stop_reason for r in plain] == [StopReason.TOOL_USE, StopReason.TOOL_USE, StopReason.END_TURN]
    assert plain[0].usage == Usage(10, 20, cache_read_tokens=5, reasoning_tokens=8)
    assert plain[1].tool_uses[0].arguments == '{"pattern":  "a"}'
    assert json.dumps(plain[0].tool_uses[0].input, ensure_ascii=False) == '{"pattern": "é"}'


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"kind": "http", "status": 429, "retry_after": 3}, ErrorKind.RATE_LIMIT),
        ({"kind": "http", "status": 529}, ErrorKind.OVERLOADED),
        ({"kind": "close"}, ErrorKind.CONNECTION),
        ({"kind": "broken_json"}, ErrorKind.BAD_RESPONSE),
        ({"kind": "not_object"}, ErrorKind.BAD_RESPONSE),
        ({"kind": "empty_choices"}, ErrorKind.BAD_RESPONSE),
        ({"kind": "overflow"}, ErrorKind.CONTEXT_OVERFLOW),
        ({"kind": "hang"}, ErrorKind.TIMEOUT),
    ],
)
async def test_a_provider_that_misbehaves(fault: dict[str, Any], kind: ErrorKind) -> None:
    async with LoopbackProvider({"turns": [{"text": "a", "fault": fault}]}) as provider:
        made = adapter(base_url=provider.base_url("chat"))
        with pytest.raises(AdapterError) as caught:
            await made.call(request(timeout_s=0.3 if fault["kind"] == "hang" else 30.0))
        await made.aclose()
    assert caught.value.kind is kind
    assert caught.value.retry_after_s == fault.get("retry_after")


async def test_a_stream_cut_on_the_socket() -> None:
    turn = {"text": "one two three four five six", "fault": {"kind": "cut", "after": 3}}
    async with LoopbackProvider({"turns": [turn]}) as provider:
        made = adapter(base_url=provider.base_url("chat"), stream=True)
        with pytest.raises(AdapterError) as caught:
            await made.call(request())
        await made.aclose()
    assert caught.value.kind is ErrorKind.CONNECTION
