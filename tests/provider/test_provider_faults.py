"""Misbehaviour on request, as the real SDKs (or a plain HTTP client) meet it."""

from __future__ import annotations

import asyncio
import json
from email.utils import parsedate_to_datetime

import anthropic
import httpx2
import openai
import pytest
from provider_kit import BODIES, PATHS, anthropic_client, http_client, openai_client, post, provider

from geode.provider.issued import opaque

WIRES = ("messages", "responses", "chat")
HI = [{"role": "user", "content": "hi"}]
LONG = "some words that make a stream of several pieces, so that it can be cut"


def wrong(kind: str, **fields: object) -> dict[str, object]:
    return {"text": LONG, "fault": {"kind": kind, **fields}}


async def streamed(p, wire: str) -> httpx2.Response:
    return await post(p, PATHS[wire], BODIES[wire] | {"stream": True})


# ----------------------------------------------------------------------------------------------------- HTTP errors


@pytest.mark.parametrize(
    ("fault", "error", "body"),
    [
        ({"status": 429, "retry_after": 2}, anthropic.RateLimitError, ("rate_limit_error", "Rate limit reached.")),
        ({"status": 529}, anthropic.APIStatusError, ("overloaded_error", "Overloaded")),
        ({"status": 402}, anthropic.APIStatusError, ("billing_error", "Your credit balance is too low.")),
        ({"status": 403, "message": "No."}, anthropic.PermissionDeniedError, ("permission_error", "No.")),
        ({"status": 400, "type": "odd", "message": "x"}, anthropic.BadRequestError, ("odd", "x")),
    ],
)
async def test_messages_errors(fault, error, body):
    async with provider(wrong("http", **fault)) as p, anthropic_client(p) as client:
        with pytest.raises(error) as caught:
            await client.messages.create(model="m", max_tokens=10, messages=HI)
    assert caught.value.status_code == fault["status"]
    assert (caught.value.body["error"]["type"], caught.value.body["error"]["message"]) == body
    assert caught.value.response.headers.get("retry-after") == ("2" if "retry_after" in fault else None)
    assert caught.value.request_id == "req_loopback_000001"


@pytest.mark.parametrize(
    ("fault", "error", "body"),
    [
        (
            {"status": 429, "code": "insufficient_quota", "message": "Out."},
            openai.RateLimitError,
            {"message": "Out.", "type": "insufficient_quota", "param": None, "code": "insufficient_quota"},
        ),
        (
            {"status": 429},
            openai.RateLimitError,
            {"message": "Rate limit reached.", "type": "requests", "param": None, "code": "rate_limit_exceeded"},
        ),
        (
            {"status": 500},
            openai.InternalServerError,
            {
                "message": "The server had an error while processing your request.",
                "type": "server_error",
                "param": None,
                "code": None,
            },
        ),
    ],
)
async def test_openai_errors(fault, error, body):
    async with provider(wrong("http", **fault) | {"repeat": 2}) as p, openai_client(p) as client:
        with pytest.raises(error) as caught:
            await client.chat.completions.create(model="m", messages=HI)
        with pytest.raises(error) as other:
            await client.responses.create(model="m", input="hi")
    assert caught.value.body == other.value.body == body
    assert (caught.value.request_id, other.value.request_id) == ("req_loopback_000001", "req_loopback_000002")


async def test_glm_error_form_under_its_own_path():
    fault = wrong("http", status=429, code="1113", message="Insufficient balance")
    async with provider(fault, wrong("overflow")) as p:
        path = "/api/paas/v4/chat/completions"
        first, second = await post(p, path, BODIES["chat"]), await post(p, path, BODIES["chat"])
    assert (first.status_code, first.json()) == (429, {"error": {"code": "1113", "message": "Insufficient balance"}})
    assert (second.status_code, second.json()["error"]["code"]) == (400, "1261")


async def test_headers_dates_and_bodies_of_errors():
    turns = [
        wrong("http", status=429, headers={"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}),
        wrong("http", status=503, retry_after_date=60),
        wrong("http", status=502, body="<html>Bad gateway</html>"),
        wrong("http", status=400, body='{"detail": "unexpected end of data"}'),
    ]
    async with provider(*turns) as p:
        first, second, third, fourth = [await post(p, PATHS["chat"], BODIES["chat"]) for _ in turns]
    assert first.headers["x-ratelimit-reset-requests"] == "1s"
    assert first.headers["x-ratelimit-reset-tokens"] == "6m0s"
    assert parsedate_to_datetime(second.headers["retry-after"]).tzinfo is not None
    assert (third.text, third.headers["content-type"]) == ("<html>Bad gateway</html>", "text/plain")
    assert fourth.json() == {"detail": "unexpected end of data"}


@pytest.mark.parametrize(
    ("wire", "status", "code", "message"),
    [
        ("messages", 400, None, "prompt is too long: 210000 tokens > 200000 maximum"),
        (
            "responses",
            400,
            "context_length_exceeded",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
        (
            "chat",
            400,
            "context_length_exceeded",
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        ),
    ],
)
async def test_overflow_in_each_form(wire, status, code, message):
    async with provider(wrong("overflow")) as p:
        answer = await post(p, PATHS[wire], BODIES[wire])
    error = answer.json()["error"]
    assert (answer.status_code, error.get("code"), error["message"]) == (status, code, message)


# ---------------------------------------------------------------------------------------------------- wrong answers


@pytest.mark.parametrize("wire", WIRES)
async def test_bodies_that_are_no_answer(wire):
    async with provider(wrong("broken_json"), wrong("not_object")) as p:
        first, second = [await post(p, PATHS[wire], BODIES[wire]) for _ in range(2)]
    assert (first.status_code, first.text) == (200, '{"id": "broken", "content": [')
    assert (second.status_code, second.json()) == (200, ["not", "an", "object"])
    with pytest.raises(json.JSONDecodeError):
        first.json()


async def test_empty_choices():
    async with provider(wrong("empty_choices") | {"repeat": 2}) as p, openai_client(p) as client:
        assert (await client.chat.completions.create(model="m", messages=HI)).choices == []
        stream = await client.chat.completions.create(model="m", messages=HI, stream=True)
        assert [chunk async for chunk in stream] == []


@pytest.mark.parametrize("wire", WIRES)
async def test_missing_usage(wire):
    async with provider({"text": "a", "usage": "missing", "repeat": 2}) as p:
        whole = (await post(p, PATHS[wire], BODIES[wire])).json()
        stream = await streamed(p, wire)
    assert whole.get("usage") is None
    assert '"usage":{' not in stream.text


async def test_failed_response():
    fault = wrong("failed", code="rate_limit_exceeded", message="Slow down.")
    async with provider(fault | {"repeat": 3}) as p, openai_client(p) as client:
        whole = await client.responses.create(model="m", input="hi")
        stream = await client.responses.create(model="m", input="hi", stream=True)
        last = [event async for event in stream][-1]
        assert (await post(p, PATHS["chat"], BODIES["chat"])).status_code == 500
    assert (whole.status, whole.error.code, whole.error.message) == ("failed", "rate_limit_exceeded", "Slow down.")
    assert (last.type, last.response.error.code) == ("response.failed", "rate_limit_exceeded")


# ------------------------------------------------------------------------------------------------------ connections


@pytest.mark.parametrize("wire", WIRES)
async def test_closed_without_a_response(wire):
    async with provider(wrong("close")) as p:
        with pytest.raises(httpx2.RemoteProtocolError, match="disconnected without sending a response"):
            await post(p, PATHS[wire], BODIES[wire])
        assert p.requests[0].status == 0


async def received(p, wire: str, got: bytearray) -> None:
    """Reads a stream into `got`."""
    headers = {"authorization": "Bearer k", "anthropic-version": "2023-06-01"}
    body = BODIES[wire] | {"stream": True}
    async with http_client() as client, client.stream("POST", p.origin + PATHS[wire], json=body, headers=headers) as s:
        async for part in s.aiter_bytes():
            got += part


@pytest.mark.parametrize("wire", WIRES)
async def test_a_cut_stream_and_a_cut_body(wire):
    got = bytearray()
    async with provider(wrong("cut", after=2), wrong("cut")) as p:
        with pytest.raises(httpx2.RemoteProtocolError, match="incomplete chunked read"):
            await received(p, wire, got)
        with pytest.raises(httpx2.RemoteProtocolError, match="without sending complete message body"):
            await post(p, PATHS[wire], BODIES[wire])
    assert got.count(b"data: ") == 2


async def test_a_hang_before_the_headers_lasts_until_the_client_gives_up():
    async with provider(wrong("hang")) as p, openai_client(p, timeout=0.1) as client:
        with pytest.raises(openai.APITimeoutError):
            await client.chat.completions.create(model="m", messages=HI)


async def test_a_hang_inside_a_stream_lasts_until_the_client_gives_up():
    async with provider(wrong("hang", after=1)) as p, anthropic_client(p, timeout=1) as client:
        stream = await client.messages.create(model="m", max_tokens=10, messages=HI, stream=True)
        assert (await anext(stream)).type == "message_start"
        with pytest.raises(httpx2.ReadTimeout):
            await anext(stream)


async def test_closing_the_provider_ends_a_hang():
    p = provider(wrong("hang"))
    await p.start()
    task = asyncio.create_task(post(p, PATHS["chat"], BODIES["chat"]))
    while not p.requests:
        await asyncio.sleep(0.001)
    await p.aclose()
    await p.aclose()
    with pytest.raises(httpx2.RemoteProtocolError):
        await task


async def test_a_kept_alive_connection_that_closes_without_notice():
    async with provider(wrong("close_after"), {"text": "a"}) as p:
        reader, writer = await asyncio.open_connection("127.0.0.1", p.port)
        body = json.dumps(BODIES["chat"]).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.read()
        writer.close()
    assert b"200" in answer.splitlines()[0]
    assert b"connection: close" not in answer.lower()
    assert answer.endswith(b"}")


# ---------------------------------------------------------------------------------------------------------- streams


async def test_an_overloaded_error_inside_a_messages_stream():
    async with provider(wrong("stream_error", after=3) | {"repeat": 2}) as p, anthropic_client(p) as client:
        stream = await client.messages.create(model="m", max_tokens=10, messages=HI, stream=True)
        with pytest.raises(anthropic.APIStatusError, match="Overloaded") as caught:
            [event async for event in stream]
        with pytest.raises(anthropic.APIStatusError) as plain:
            await client.messages.create(model="m", max_tokens=10, messages=HI)
    assert caught.value.body == {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert plain.value.status_code == 529


async def test_an_error_inside_the_openai_streams():
    fault = wrong("stream_error", type="server_error", message="Broke.", after=2)
    async with provider(fault | {"repeat": 2}) as p, openai_client(p) as client:
        stream = await client.chat.completions.create(model="m", messages=HI, stream=True)
        with pytest.raises(openai.APIError, match="Broke"):
            [chunk async for chunk in stream]
        events = await client.responses.create(model="m", input="hi", stream=True)
        last = [event async for event in events][-1]
    assert (last.type, last.code, last.message, last.sequence_number) == ("error", "server_error", "Broke.", 2)


async def test_a_loose_responses_stream():
    turn = wrong("loose_stream") | {"tool_calls": ["grep"]}
    async with provider(turn) as p:
        text = (await streamed(p, "responses")).text
    assert "sequence_number" not in text
    assert "output_index" not in text
    assert "content_index" not in text
    assert "function_call_arguments.done" not in text
    assert "event: response.output_item.done" in text
    assert "event: response.completed" in text


async def test_empty_output_and_stale_reasoning():
    calls = {"reasoning": "why", "tool_calls": ["grep"]}
    turns = [calls | {"fault": "empty_output"}, calls | {"fault": "stale_reasoning"}]
    async with provider(*turns) as p, openai_client(p) as client:
        done = []
        for _ in turns:
            include = ["reasoning.encrypted_content"]
            stream = await client.responses.create(model="m", input="hi", stream=True, include=include)
            done.append([event async for event in stream])
    first, second = done
    assert first[-1].response.output == []
    assert [e.item.type for e in first if e.type == "response.output_item.done"] == ["reasoning", "function_call"]
    item = next(e.item for e in second if e.type == "response.output_item.done")
    assert item.encrypted_content == "gAAAstale"
    assert second[-1].response.output[0].encrypted_content == opaque("why")


async def test_ids_are_the_scripts_own():
    calls = [{"name": "grep", "id": "call_abc"}, {"name": "grep", "id": ""}, {"name": "grep", "id": "call_abc"}]
    async with provider({"tool_calls": calls}) as p:
        answer = (await post(p, PATHS["messages"], BODIES["messages"])).json()
    assert [block["id"] for block in answer["content"]] == ["call_abc", "", "call_abc"]


async def test_slow_and_delayed_answers_come_whole():
    async with provider(wrong("slow", interval_s=0.001), {"text": "late", "delay_s": 0.01}) as p:
        slow = await streamed(p, "chat")
        late = await post(p, PATHS["chat"], BODIES["chat"])
    assert slow.text.endswith("data: [DONE]\n\n")
    assert late.json()["choices"][0]["message"]["content"] == "late"
