"""The Messages wire: calls through the real SDK, streamed and not, with a transport in place of the network."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from messages_kit import GREP, HELLO, SOURCE, Bench, Pieces, answer, events, thinking

from geode.adapters.options import CredentialOptions
from geode.contract import (
    AdapterCallRequest,
    AdapterError,
    Delta,
    ErrorKind,
    History,
    InputFault,
    Message,
    ReasoningBlock,
    StopReason,
    TextBlock,
    ToolSpec,
    ToolUseBlock,
    Usage,
)

REQUEST = AdapterCallRequest(HELLO, tools=(GREP,))
START = {"type": "message_start", "message": {**answer(stop=None), "usage": {"input_tokens": 10, "output_tokens": 1}}}
STOP = {"type": "message_stop"}


def end(stop: str | None = "end_turn", **usage: int) -> dict[str, Any]:
    return {
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": None},
        "usage": {"output_tokens": 5, **usage},
    }


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": d} for d in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text_block(index: int, *pieces: str) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": p} for p in pieces))


def call_block(index: int, *pieces: str) -> list[dict[str, Any]]:
    start = {"type": "tool_use", "id": f"toolu_{index}", "name": "grep_files", "input": {}}
    return block(index, start, *({"type": "input_json_delta", "partial_json": p} for p in pieces))


async def failing(bench: Bench, request: AdapterCallRequest = REQUEST) -> AdapterError:
    with pytest.raises(AdapterError) as caught:
        await bench.adapter.call(request)
    await bench.adapter.aclose()
    return caught.value


async def test_a_call_sends_the_built_bytes_and_reads_the_answer() -> None:
    bench = Bench(answer({"type": "text", "text": "hi"}))
    result = await bench.adapter.call(REQUEST)
    request = bench.server.requests[0]
    assert (request.method, str(request.url)) == ("POST", "http://127.0.0.1:9/v1/messages")
    assert await request.aread() == bench.adapter.build(REQUEST)
    assert result.text == "hi"
    assert result.request_id == "req_1"
    await bench.adapter.aclose()
    await bench.adapter.aclose()


async def test_an_oauth_token_goes_as_bearer_with_the_beta_beside_the_configs_own() -> None:
    bench = Bench(
        answer({"type": "text", "text": "hi"}),
        credential=CredentialOptions("env", scheme="bearer"),
        headers={"anthropic-beta": "one"},
        betas=("oauth-2025-04-20",),
    )
    await bench.adapter.call(REQUEST)
    headers = bench.server.requests[0].headers
    assert headers["authorization"] == "Bearer sk-test-0123456789"
    assert headers["anthropic-beta"] == "one,oauth-2025-04-20"
    assert "x-api-key" not in headers
    assert headers["user-agent"].startswith("AsyncAnthropic/Python")


async def test_a_streamed_answer_is_the_same_as_an_unstreamed_one() -> None:
    content = [
        {"type": "thinking", "thinking": "let me see", "signature": "sig"},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "text", "text": "I look."},
        {"type": "server_tool_use", "id": "srv_1", "name": "tool_search_tool_bm25", "input": {"query": "x"}},
        {
            "type": "tool_search_tool_result",
            "tool_use_id": "srv_1",
            "content": {"type": "tool_search_tool_search_result", "tool_references": []},
        },
        {"type": "tool_use", "id": "toolu_5", "name": "grep_files", "input": {"q": "é", "n": 1}},
        {"type": "tool_use", "id": "toolu_6", "name": "grep_files", "input": {}},
    ]
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 0}
    start = {**answer(stop=None), "usage": {**usage, "output_tokens": 1}}
    stream = events(
        {"type": "message_start", "message": start},
        {"type": "ping"},
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "let "},
            {"type": "thinking_delta", "thinking": "me see"},
            {"type": "signature_delta", "signature": "sig"},
        ),
        *block(1, content[1]),
        *text_block(2, "I ", "look."),
        *block(
            3,
            {**content[3], "input": {}},
            {"type": "input_json_delta", "partial_json": '{"que'},
            {"type": "input_json_delta", "partial_json": 'ry": "x"}'},
        ),
        *block(4, content[4]),
        *call_block(5, "", '{"q": "é", ', '"n": 1}'),
        *call_block(6),
        {"type": "an event of tomorrow"},
        end("tool_use"),
        STOP,
    )
    bench = Bench(answer(*content, stop="tool_use", usage=usage), stream)
    unstreamed = await bench.adapter.call(REQUEST)
    seen: list[Delta] = []
    streamed = await bench.adapter.call(AdapterCallRequest(HELLO, tools=(GREP,), on_delta=seen.append))
    assert streamed == unstreamed
    assert bench.server.bodies[1] == {**bench.server.bodies[0], "stream": True}
    assert seen == [
        Delta("reasoning", "let "),
        Delta("reasoning", "me see"),
        Delta("text", "I "),
        Delta("text", "look."),
        Delta("tool", "grep_files"),
        Delta("tool", "grep_files"),
    ]


@pytest.mark.parametrize("text", ['{"q":  "x"}', '{"q": 1e3}', '{"q": 1, "q": 2}', '{"q": "\\u0041"}'])
async def test_streamed_arguments_are_kept_verbatim_where_a_dump_would_differ(text: str) -> None:
    bench = Bench(events(START, *call_block(0, text[:4], text[4:]), end("tool_use"), STOP), stream=True)
    (call,) = (await bench.adapter.call(REQUEST)).tool_uses
    assert call.arguments == text
    assert call.input == json.loads(text)


async def test_streamed_arguments_that_are_no_object() -> None:
    bench = Bench(events(START, *call_block(0, '{"q": '), *text_block(1, "x"), end("tool_use"), STOP), stream=True)
    (call,) = (await bench.adapter.call(REQUEST)).tool_uses
    assert call == ToolUseBlock("toolu_0", "grep_files", {}, '{"q": ', InputFault.INVALID_JSON)


async def test_streamed_arguments_cut_by_the_output_limit() -> None:
    bench = Bench(events(START, *call_block(0, '{"q": '), end("max_tokens"), STOP), stream=True)
    result = await bench.adapter.call(REQUEST)
    assert result.tool_uses == (ToolUseBlock("toolu_0", "grep_files", {}, '{"q": ', InputFault.CUT),)
    assert result.stop_reason is StopReason.MAX_TOKENS


async def test_streamed_refusal_keeps_its_details() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": None}
    delta = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}, "usage": {}}
    bench = Bench(events(START, *text_block(0, "Well"), delta, STOP), stream=True)
    result = await bench.adapter.call(REQUEST)
    assert (result.stop_reason, result.stop_details, result.text) == (StopReason.REFUSAL, details, "Well")


async def test_usage_of_the_last_event_wins_and_what_it_leaves_out_stays() -> None:
    bench = Bench(events(START, *text_block(0, "hi"), end(cache_read_input_tokens=3), STOP), stream=True)
    assert (await bench.adapter.call(REQUEST)).usage == Usage(10, 5, 3)


async def test_citations_of_a_streamed_text_do_no_harm() -> None:
    cited = {"type": "citations_delta", "citation": {"type": "char_location"}}
    bench = Bench(
        events(
            START,
            *block(0, {"type": "text", "text": "", "citations": []}, cited, {"type": "text_delta", "text": "hi"}),
            end(),
            STOP,
        ),
        stream=True,
    )
    assert (await bench.adapter.call(REQUEST)).content == (TextBlock("hi"),)


@pytest.mark.parametrize("named", [True, False])
async def test_a_server_that_leaves_out_event_names_indexes_and_the_end_mark(named: bool) -> None:
    told = [START, *text_block(0, "one"), *call_block(1, '{"q":"x"}'), end("tool_use")]
    bare = [{k: v for k, v in e.items() if k != "index"} for e in told]
    bench = Bench(events(*bare, named=named), stream=True)
    result = await bench.adapter.call(REQUEST)
    assert result.content == (TextBlock("one"), ToolUseBlock("toolu_1", "grep_files", {"q": "x"}))


async def test_overloaded_inside_a_stream_is_retryable_and_keeps_what_came() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    bench = Bench(events(START, *text_block(0, "par", "tial"), error), stream=True)
    caught = await failing(bench)
    assert caught.kind is ErrorKind.OVERLOADED
    assert caught.retryable
    assert caught.partial is not None
    assert (caught.partial.text, caught.partial.stop_reason) == ("partial", StopReason.ERROR)


async def test_a_stream_that_ends_too_early_is_a_connection_error_with_the_call_marked_as_cut() -> None:
    pieces = events(START, *text_block(0, "one"), *call_block(1, '{"q": "x"}'))
    caught = await failing(Bench(pieces, stream=True))
    assert caught.kind is ErrorKind.CONNECTION
    assert caught.request_id == "req_1"
    assert caught.partial is not None
    assert caught.partial.text == "one"
    assert caught.partial.tool_uses[0].fault is InputFault.CUT


async def test_a_connection_that_breaks_inside_a_stream() -> None:
    pieces = [*events(START, *text_block(0, "one")), httpx2.RemoteProtocolError("peer closed connection")]
    caught = await failing(Bench(pieces, stream=True))
    assert caught.kind is ErrorKind.CONNECTION
    assert caught.partial is not None
    assert caught.partial.content == (TextBlock("one"),)


async def test_a_connection_that_was_closed_while_idle_is_a_connection_error() -> None:
    error = httpx2.RemoteProtocolError("Server disconnected without sending a response.")
    caught = await failing(Bench(error))
    assert caught.kind is ErrorKind.CONNECTION
    assert caught.partial is None


async def test_an_empty_stream_is_a_connection_error_without_partial() -> None:
    caught = await failing(Bench([], stream=True))
    assert caught.kind is ErrorKind.CONNECTION
    assert caught.partial is None


@pytest.mark.parametrize("stream", [False, True])
async def test_the_timeout_of_the_request_bounds_the_whole_call(stream: bool) -> None:
    pieces = [*events(START, *text_block(0, "one")), None] if stream else [None]
    bench = Bench(pieces, stream=stream)
    caught = await failing(bench, AdapterCallRequest(HELLO, timeout_s=0.05))
    assert caught.kind is ErrorKind.TIMEOUT
    assert (caught.partial is not None) is stream


async def test_a_cancel_closes_the_connection() -> None:
    body = Pieces([*events(START, *text_block(0, "one")), None])
    bench = Bench(httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=body), stream=True)
    started = asyncio.Event()
    request = AdapterCallRequest(HELLO, on_delta=lambda d: started.set())
    task = asyncio.create_task(bench.adapter.call(request))
    await asyncio.wait_for(started.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert body.closed


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected"),
    [
        (400, "invalid_request_error", "prompt is too long: 300000 tokens > 200000 maximum", "context_overflow"),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            "context_overflow",
        ),
        (413, "request_too_large", "Request exceeds the maximum size", "context_overflow"),
        (529, "overloaded_error", "Overloaded", "overloaded"),
        (400, "invalid_request_error", "tool_choice: unsupported", "tool_choice"),
        (401, "authentication_error", "invalid x-api-key", "auth"),
        (429, "rate_limit_error", "slow down", "rate_limit"),
        (500, "api_error", "Internal server error", "server"),
    ],
)
async def test_error_answers(status: int, kind: str, message: str, expected: str) -> None:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    caught = await failing(Bench(httpx2.Response(status, headers={"request-id": "req_9"}, json=body)))
    assert (caught.kind.value, caught.status, caught.request_id) == (expected, status, "req_9")


async def test_an_error_body_without_its_type_is_read() -> None:
    caught = await failing(Bench(httpx2.Response(500, json={"error": {"message": "no tool named x", "code": 500}})))
    assert (caught.kind, caught.message) == (ErrorKind.SERVER, "no tool named x")


@pytest.mark.parametrize("reply", [httpx2.Response(200, text="<html>oops"), httpx2.Response(200, json=[1])])
async def test_a_200_that_is_no_object_is_a_bad_response(reply: httpx2.Response) -> None:
    caught = await failing(Bench(reply))
    assert caught.kind is ErrorKind.BAD_RESPONSE


async def test_each_answer_is_read_with_the_names_of_its_own_request() -> None:
    """Sub-agents share an adapter: another request built meanwhile does not change how an answer is read."""
    bench = Bench(answer({"type": "tool_use", "id": "1", "name": "git_log", "input": {}}))
    task = asyncio.create_task(bench.adapter.call(AdapterCallRequest(HELLO, tools=(ToolSpec("git.log", "", {}),))))
    await asyncio.sleep(0)
    bench.adapter.build(AdapterCallRequest(HELLO, tools=(GREP,)))
    assert (await task).tool_uses[0].name == "git.log"


async def test_a_paused_turn_goes_back_as_it_came() -> None:
    served = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}
    bench = Bench(answer(served, stop="pause_turn"), answer({"type": "text", "text": "done"}))
    history = History(HELLO)
    paused = await bench.adapter.call(AdapterCallRequest(history, tools=(GREP,)))
    assert paused.stop_reason is StopReason.PAUSE_TURN
    assert paused.content == (ReasoningBlock("", SOURCE, served),)
    history.append(Message.assistant(*paused.content))
    await bench.adapter.call(AdapterCallRequest(history, tools=(GREP,)))
    first, second = bench.server.bodies
    assert second["messages"] == [*first["messages"], {"role": "assistant", "content": [served]}]
    assert second["tools"] == first["tools"]


BOUND = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


def refused(message: str) -> httpx2.Response:
    return httpx2.Response(400, json={"type": "error", "error": {"type": "invalid_request_error", "message": message}})


async def test_thinking_that_the_model_refuses_after_a_compaction_is_left_out_from_then_on() -> None:
    bench = Bench(refused(BOUND), answer({"type": "text", "text": "hi"}), answer({"type": "text", "text": "hi"}))
    history = History([*HELLO, Message.assistant(thinking("old"), "so"), Message.user("go on")])
    assert (await bench.adapter.call(AdapterCallRequest(history))).text == "hi"
    first, second = bench.server.bodies
    assert first["messages"][1]["content"][0]["type"] == "thinking"
    assert second["messages"][1]["content"] == [{"type": "text", "text": "so"}]
    assert [n.key for n in bench.notices] == ["thinking.bound"]
    history.append(Message.assistant(thinking("new"), "more"))
    history.append(Message.user("and on"))
    await bench.adapter.call(AdapterCallRequest(history))
    third = bench.server.bodies[2]["messages"]
    assert third[:3] == second["messages"]
    assert third[3]["content"][0] == {"type": "thinking", "thinking": "new", "signature": "sig"}


@pytest.mark.parametrize("message", [BOUND, "messages: something else is wrong"])
async def test_a_refusal_without_thinking_to_leave_out_is_not_sent_again(message: str) -> None:
    caught = await failing(Bench(refused(message)))
    assert caught.kind is ErrorKind.INVALID_REQUEST
