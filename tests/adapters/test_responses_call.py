"""Calls of the Responses API through the real SDK client, streamed and not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from responses_kit import (
    SEALED,
    TOOLS,
    Events,
    Wire,
    adapter,
    call_item,
    json_reply,
    message_item,
    reasoning_item,
    request,
    response,
    stream_reply,
)

from geode.adapters.credentials import Secrets
from geode.contract import AdapterCallResult, AdapterError, Delta, ErrorKind, InputFault, ReasoningBlock, StopReason

THOUGHT = reasoning_item(summary=[{"type": "summary_text", "text": "Hm."}])
SAID = message_item("Hello there", phase="commentary")
CALLED = call_item()
WHOLE = response(THOUGHT, SAID, CALLED)


def event(kind: str, **given: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **given}


def added(item: dict[str, Any], index: int) -> dict[str, Any]:
    bare = {**item, "status": "in_progress"}
    bare |= {key: value for key, value in {"arguments": "", "content": [], "summary": []}.items() if key in item}
    bare.pop("encrypted_content", None)
    return event("output_item.added", item=bare, output_index=index)


def stream_of(final: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of WHOLE as OpenAI sends them; `final` is the response of the last one."""
    events = [
        event("created", response={**WHOLE, "status": "in_progress", "output": [], "usage": None}),
        event("in_progress", response={**WHOLE, "status": "in_progress", "output": [], "usage": None}),
        added(THOUGHT, 0),
        event("reasoning_summary_text.delta", delta="Hm.", item_id="rs_1", output_index=0, summary_index=0),
        event("output_item.done", item=THOUGHT, output_index=0),
        added(SAID, 1),
        event("content_part.added", item_id="msg_1", output_index=1, content_index=0, part={"type": "output_text"}),
        event("output_text.delta", delta="Hello ", item_id="msg_1", output_index=1, content_index=0),
        event("output_text.delta", delta="there", item_id="msg_1", output_index=1, content_index=0),
        event("output_text.done", text="Hello there", item_id="msg_1", output_index=1, content_index=0),
        event("output_item.done", item=SAID, output_index=1),
        added(CALLED, 2),
        event("function_call_arguments.delta", delta='{"pattern"', item_id="fc_1", output_index=2),
        event("function_call_arguments.delta", delta=':"x"}', item_id="fc_1", output_index=2),
        event("function_call_arguments.done", arguments='{"pattern":"x"}', item_id="fc_1", output_index=2),
        event("output_item.done", item=CALLED, output_index=2),
        event("completed", response=final),
    ]
    return [{**e, "sequence_number": n} for n, e in enumerate(events)]


def without(events: list[dict[str, Any]], *kinds: str, keys: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    dropped = {f"response.{kind}" for kind in kinds}
    return [{k: v for k, v in e.items() if k not in keys} for e in events if e["type"] not in dropped]


async def streamed(*events: Any, **given: Any) -> AdapterCallResult:
    made = adapter(transport=stream_reply(*events), stream=True, **given)
    try:
        return await made.call(request(tools=TOOLS, round=2))
    finally:
        await made.aclose()


async def unstreamed() -> AdapterCallResult:
    return await adapter(transport=json_reply(WHOLE)).call(request(tools=TOOLS, round=2))


async def fails(wire: Wire, **given: Any) -> AdapterError:
    made = adapter(transport=wire, **given)
    with pytest.raises(AdapterError) as caught:
        await made.call(request(tools=TOOLS, round=2))
    await made.aclose()
    return caught.value


# -------------------------------------------------------------------------------------------------------------- request


async def test_the_built_bytes_are_what_is_sent() -> None:
    wire = json_reply(WHOLE)
    made = adapter(transport=wire, base_url="http://127.0.0.1:9/v1")
    result = await made.call(request(tools=TOOLS))
    sent = wire.requests[0]
    assert (sent.method, str(sent.url)) == ("POST", "http://127.0.0.1:9/v1/responses")
    assert wire.bodies == [adapter().build(request(tools=TOOLS))]
    assert sent.headers["authorization"] == "Bearer sk-test-key"
    assert sent.headers["content-type"] == "application/json"
    assert "chatgpt-account-id" not in sent.headers
    assert (result.request_id, result.stop_reason) == ("req_1", StopReason.TOOL_USE)


async def test_codex_sends_the_account_and_reads_items_where_the_final_output_is_empty() -> None:
    wire = stream_reply(*stream_of(response(output=[])))
    made = adapter(
        transport=wire,
        secrets=Secrets("token-of-chatgpt", account_id="acct_1"),
        base_url="https://chatgpt.com/backend-api/codex",
        stream=True,
        instructions_always=True,
        max_tokens_field=None,
    )
    result = await made.call(request(tools=TOOLS, round=2))
    sent = wire.requests[0]
    assert str(sent.url) == "https://chatgpt.com/backend-api/codex/responses"
    assert sent.headers["chatgpt-account-id"] == "acct_1"
    assert sent.headers["authorization"] == "Bearer token-of-chatgpt"
    assert json.loads(sent.content)["stream"] is True
    assert result == await unstreamed()


# ------------------------------------------------------------------------------------------------------------- assembly


async def test_a_streamed_answer_is_the_unstreamed_one() -> None:
    assert await streamed(*stream_of(WHOLE)) == await unstreamed()


@pytest.mark.parametrize("final", [WHOLE, response()])
@pytest.mark.parametrize(
    "keys", [("sequence_number",), ("output_index", "content_index", "summary_index"), ("output_index", "item_id")]
)
async def test_servers_that_leave_indices_out(final: Any, keys: tuple[str, ...]) -> None:
    kinds = ("function_call_arguments.done", "content_part.added", "output_text.done", "in_progress")
    assert await streamed(*without(stream_of(final), *kinds, keys=keys)) == await unstreamed()


async def test_without_done_events_the_deltas_make_the_items() -> None:
    result = await streamed(*without(stream_of(response()), "output_item.done"))
    whole = await unstreamed()
    assert (result.text, result.tool_uses, result.usage) == (whole.text, whole.tool_uses, whole.usage)
    assert result.content[1] == whole.content[1]


async def test_without_added_and_done_events_there_is_still_text() -> None:
    deltas = (event("output_text.delta", delta="a"), event("output_text.delta", delta="b"))
    result = await streamed(*deltas, event("completed", response=response()))
    assert (result.text, result.stop_reason) == ("ab", StopReason.END_TURN)


async def test_encrypted_reasoning_is_that_of_the_completed_response() -> None:
    early = [
        {**e, "item": {**e["item"], "encrypted_content": "early"}}
        if e["type"] == "response.output_item.done" and e["item"]["type"] == "reasoning"
        else e
        for e in stream_of(WHOLE)
    ]
    block = (await streamed(*early)).content[0]
    assert isinstance(block, ReasoningBlock)
    assert block.raw["encrypted_content"] == SEALED


async def test_encrypted_reasoning_that_the_completed_response_lacks_is_not_lost() -> None:
    bare = {k: v for k, v in THOUGHT.items() if k != "encrypted_content"}
    block = (await streamed(*stream_of(response(bare, SAID, CALLED)))).content[0]
    assert isinstance(block, ReasoningBlock)
    assert block.raw["encrypted_content"] == SEALED


async def test_parallel_calls_whose_deltas_interleave() -> None:
    two = call_item(id="fc_2", call_id="call_2", arguments='{"pattern":"y"}')
    events = [added(CALLED, 0), added(two, 1)]
    for piece in ('{"pattern":', "V", "}"):
        for index, value in ((0, '"x"'), (1, '"y"')):
            delta = piece.replace("V", value)
            events.append(event("function_call_arguments.delta", delta=delta, output_index=index))
    result = await streamed(*events, event("completed", response=response()))
    assert [(c.id, c.input) for c in result.tool_uses] == [("call_1", {"pattern": "x"}), ("call_2", {"pattern": "y"})]


async def test_pieces_are_shown_as_they_come() -> None:
    shown: list[Delta] = []
    wire = stream_reply(*stream_of(WHOLE))
    await adapter(transport=wire).call(request(tools=TOOLS, on_delta=shown.append))
    assert shown == [
        Delta("reasoning", "Hm."),
        Delta("text", "Hello "),
        Delta("text", "there"),
        Delta("tool", '{"pattern"'),
        Delta("tool", ':"x"}'),
    ]


async def test_a_streamed_answer_cut_by_its_limit_is_an_answer() -> None:
    cut = call_item(arguments='{"pat', status="incomplete")
    final = response(cut, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    result = await streamed(added(cut, 0), event("incomplete", response=final))
    assert (result.stop_reason, result.tool_uses[0].fault) == (StopReason.MAX_TOKENS, InputFault.CUT)


# --------------------------------------------------------------------------------------------------------------- errors


async def test_a_failed_stream_is_an_error_by_its_code() -> None:
    final = response(status="failed", error={"code": "server_error", "message": "oops"})
    error = await fails(stream_reply(event("failed", response=final)), stream=True)
    assert (error.kind, error.code, error.message, error.request_id) == (
        ErrorKind.SERVER,
        "server_error",
        "oops",
        "req_1",
    )


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "m"}, ErrorKind.RATE_LIMIT),
        ({"type": "error", "error": {"code": "server_is_overloaded", "message": "m"}}, ErrorKind.OVERLOADED),
        ({"type": "error", "code": "cyber_policy", "message": "m"}, ErrorKind.REFUSAL),
        ({"error": {"code": "context_length_exceeded", "message": "m"}}, ErrorKind.CONTEXT_OVERFLOW),
    ],
)
async def test_an_error_event_is_an_error_and_keeps_what_had_come(given: Any, kind: ErrorKind) -> None:
    error = await fails(stream_reply(*stream_of(WHOLE)[:8], given), stream=True)
    assert (error.kind, error.message) == (kind, "m")
    assert error.partial is not None
    assert (error.partial.text, error.partial.stop_reason) == ("Hello ", StopReason.ERROR)


@pytest.mark.parametrize("end", [(), ("data: [DONE]\n\n",), (httpx2.RemoteProtocolError("peer closed"),)])
async def test_a_cut_stream_is_a_connection_error_with_what_came(end: tuple[Any, ...]) -> None:
    error = await fails(stream_reply(*stream_of(WHOLE)[:13], *end), stream=True)
    assert (error.kind, error.retryable) == (ErrorKind.CONNECTION, True)
    assert error.partial is not None
    assert error.partial.text == "Hello there"
    assert [(c.id, c.input, c.fault) for c in error.partial.tool_uses] == [("call_1", {}, InputFault.CUT)]


async def test_a_stream_that_is_cut_before_anything_came_has_no_partial() -> None:
    error = await fails(stream_reply(*stream_of(WHOLE)[:2]), stream=True)
    assert (error.kind, error.partial) == (ErrorKind.CONNECTION, None)


async def test_a_connection_that_breaks_after_the_last_event_changes_nothing() -> None:
    broken = httpx2.RemoteProtocolError("peer closed")
    assert await streamed(*stream_of(WHOLE), broken) == await unstreamed()


async def test_a_stream_that_does_not_end_after_its_last_event_is_left() -> None:
    body = _Hanging(stream_of(WHOLE))
    headers = {"content-type": "text/event-stream", "x-request-id": "req_1"}
    made = adapter(transport=Wire(lambda _: httpx2.Response(200, headers=headers, stream=body)), stream=True)
    assert await made.call(request(tools=TOOLS, round=2)) == await unstreamed()
    assert body.closed


async def test_a_cancel_closes_the_connection() -> None:
    body = _Hanging(stream_of(WHOLE)[:8])
    headers = {"content-type": "text/event-stream"}
    made = adapter(transport=Wire(lambda _: httpx2.Response(200, headers=headers, stream=body)), stream=True)
    task = asyncio.create_task(made.call(request()))
    await body.hangs.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert body.closed


async def test_the_time_limit_bounds_a_stream_as_a_whole() -> None:
    body = _Hanging(stream_of(WHOLE)[:8])
    headers = {"content-type": "text/event-stream"}
    made = adapter(transport=Wire(lambda _: httpx2.Response(200, headers=headers, stream=body)), stream=True)
    with pytest.raises(AdapterError) as caught:
        await made.call(request(timeout_s=0.5))
    assert caught.value.kind is ErrorKind.TIMEOUT
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hello "
    assert body.closed


class _Hanging(Events):
    """Sends its events, then nothing, and stays open."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        super().__init__(events)
        self.hangs = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in super().__aiter__():
            yield piece
        self.hangs.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("status", "error", "kind", "retryable"),
    [
        (401, {"code": "invalid_api_key", "message": "m"}, ErrorKind.AUTH, False),
        (429, {"code": "insufficient_quota", "message": "m"}, ErrorKind.BILLING, False),
        (429, {"code": "rate_limit_exceeded", "message": "m"}, ErrorKind.RATE_LIMIT, True),
        (400, {"code": "context_length_exceeded", "message": "m"}, ErrorKind.CONTEXT_OVERFLOW, False),
        (400, {"code": "invalid_prompt", "message": "m"}, ErrorKind.REFUSAL, False),
        (400, {"code": "cyber_policy", "message": "m"}, ErrorKind.REFUSAL, False),
        (400, {"code": None, "param": "tool_choice", "message": "m"}, ErrorKind.TOOL_CHOICE, False),
        (500, {"code": "server_error", "message": "m"}, ErrorKind.SERVER, True),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_http_errors(status: int, error: Any, kind: ErrorKind, retryable: bool, stream: bool) -> None:
    wire = json_reply({"error": error}, status, **{"retry-after": "7"})
    raised = await fails(wire, stream=stream)
    assert (raised.kind, raised.retryable, raised.status, raised.message) == (kind, retryable, status, "m")
    assert raised.request_id == "req_1"
    assert len(wire.requests) == 1
    if retryable:
        assert raised.retry_after_s == 7


async def test_an_answer_that_is_no_json_is_a_bad_response() -> None:
    wire = Wire(lambda _: httpx2.Response(200, content=b"<html>"))
    assert (await fails(wire)).kind is ErrorKind.BAD_RESPONSE
