"""The SDK clients: what reaches a request, and what becomes of answers, timeouts and cancels."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import httpx2
import pytest
from chat_kit import Answers, options, sse

from geode.adapters.credentials import PLACEHOLDER, Secrets
from geode.adapters.options import CredentialOptions
from geode.adapters.sdk import ApiClient
from geode.contract import AdapterError, ErrorKind
from geode.provider import LoopbackProvider

KEY = "zai-0123456789abcdef"
Family = Literal["openai", "anthropic"]
FAMILIES: tuple[Family, ...] = ("openai", "anthropic")
LEAKS = {
    "OPENAI_API_KEY": "leak",
    "OPENAI_ADMIN_KEY": "leak",
    "OPENAI_ORG_ID": "leak",
    "OPENAI_PROJECT_ID": "leak",
    "OPENAI_BASE_URL": "https://leak.example",
    "OPENAI_CUSTOM_HEADERS": "X-Leak: leak\nauthorization: Bearer leak\nuser-agent: leak",
    "ANTHROPIC_API_KEY": "leak",
    "ANTHROPIC_AUTH_TOKEN": "leak",
    "ANTHROPIC_BASE_URL": "https://leak.example",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Leak: leak\nauthorization: Bearer leak\nuser-agent: leak",
    "ANTHROPIC_PROFILE": "leak",
}


def client(family: Family, transport: httpx2.AsyncBaseTransport | None = None, **given: Any) -> ApiClient:
    return ApiClient(family, options(**given), Secrets(given.pop("key", KEY)), transport)


def answers(count: int = 1) -> Answers:
    return Answers(*(httpx2.Response(200, json={"a": 1}, headers={"x-request-id": "r1"}) for _ in range(count)))


@pytest.mark.parametrize("family", FAMILIES)
async def test_nothing_from_the_environment_reaches_a_request(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LEAKS.items():
        monkeypatch.setenv(name, value)
    transport = answers()
    payload = await client(family, transport).post("/chat/completions", b'{"x": 1}')
    assert (payload, payload.request_id) == ({"a": 1}, "r1")
    (sent,) = transport.requests
    assert sent.content == b'{"x": 1}'
    assert str(sent.url) == "https://api.z.ai/api/paas/v4/chat/completions"
    assert "leak" not in f"{sent.headers.raw!r}"
    assert sent.headers["user-agent"].startswith(("AsyncOpenAI/", "AsyncAnthropic/"))


@pytest.mark.parametrize(
    ("family", "scheme", "header", "value"),
    [
        ("openai", "api_key", "authorization", f"Bearer {KEY}"),
        ("openai", "bearer", "authorization", f"Bearer {KEY}"),
        ("anthropic", "api_key", "x-api-key", KEY),
        ("anthropic", "bearer", "authorization", f"Bearer {KEY}"),
    ],
)
async def test_how_a_key_goes(family: Family, scheme: Any, header: str, value: str) -> None:
    transport = answers()
    await client(family, transport, credential=CredentialOptions(scheme=scheme)).post("/x", b"{}")
    headers = transport.requests[0].headers
    assert {n: headers[n] for n in ("authorization", "x-api-key") if n in headers} == {header: value}


async def test_a_backend_without_a_key_gets_a_placeholder() -> None:
    transport = answers()
    made = ApiClient("openai", options(), Secrets(), transport)
    await made.post("/x", b"{}")
    assert transport.requests[0].headers["authorization"] == f"Bearer {PLACEHOLDER}"


async def test_own_headers_win_over_the_sdk_s_in_any_case() -> None:
    transport = answers()
    await client("openai", transport, headers={"openai-project": "mine", "ACCEPT": "a/b"}).post("/x", b"{}")
    headers = transport.requests[0].headers
    assert headers.get_list("openai-project") == ["mine"]
    assert headers.get_list("accept") == ["a/b"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("status", [408, 429, 500, 529])
async def test_the_sdk_never_retries(family: Family, status: int) -> None:
    response = httpx2.Response(status, json={"error": {"message": "m"}}, headers={"x-should-retry": "true"})
    transport = Answers(response, response)
    with pytest.raises(AdapterError) as caught:
        await client(family, transport).post("/x", b"{}")
    assert (caught.value.status, len(transport.requests)) == (status, 1)


class Slow(httpx2.AsyncBaseTransport):
    """Never answers; says when a request came and when it was given up."""

    def __init__(self) -> None:
        self.came, self.gone = asyncio.Event(), asyncio.Event()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.came.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.gone.set()
        raise AssertionError


async def test_the_whole_call_has_a_deadline() -> None:
    with pytest.raises(AdapterError) as caught:
        await client("openai", Slow()).post("/x", b"{}", timeout_s=0.05)
    assert (caught.value.kind, caught.value.message) == (ErrorKind.TIMEOUT, "no complete answer within 0.05 s")


async def test_a_cancel_ends_the_request() -> None:
    transport = Slow()
    task = asyncio.create_task(client("openai", transport).post("/x", b"{}"))
    await transport.came.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert transport.gone.is_set()


class Body(httpx2.AsyncByteStream):
    """A body whose pieces are given, then nothing more; says when it is closed."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.closed = False

    async def __aiter__(self) -> Any:
        for piece in self.pieces:
            yield piece
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        self.closed = True


def endless(*pieces: bytes) -> tuple[Body, Answers]:
    stream = Body(*pieces)
    response = httpx2.Response(200, headers={"content-type": "text/event-stream", "request-id": "r2"}, stream=stream)
    return stream, Answers(response)


@pytest.mark.parametrize("family", FAMILIES)
async def test_events_come_as_plain_objects(family: Family) -> None:
    text = b'event: ping\ndata: {"type": "ping"}\n\n: comment\n\nevent: a\ndata: {"b":\ndata: 1}\n\ndata: [DONE]\n\n'
    response = httpx2.Response(200, headers={"content-type": "text/event-stream", "x-request-id": "r"}, content=text)
    async with client(family, Answers(response)).stream("/x", b"{}") as events:
        assert [event async for event in events] == [{"b": 1}]
        assert (events.request_id, events.done) == ("r", True)
        assert [event async for event in events] == []


async def test_leaving_a_stream_early_closes_it() -> None:
    body, transport = endless(b'data: {"a": 1}\n\n')
    async with client("openai", transport).stream("/x", b"{}") as events:
        async for event in events:
            assert event == {"a": 1}
            break
        assert not body.closed
    assert body.closed
    assert events.request_id == "r2"


async def test_a_stream_has_a_deadline_and_is_closed_by_it() -> None:
    body, transport = endless(b'data: {"a": 1}\n\n')
    events = client("openai", transport).stream("/x", b"{}", timeout_s=0.05)
    assert await anext(events) == {"a": 1}
    with pytest.raises(AdapterError) as caught:
        await anext(events)
    assert caught.value.kind is ErrorKind.TIMEOUT
    assert body.closed


async def test_a_cancel_closes_a_stream() -> None:
    body, transport = endless(b'data: {"a": 1}\n\n')
    events = client("openai", transport).stream("/x", b"{}")
    assert await anext(events) == {"a": 1}
    task = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert body.closed


async def test_an_error_event_keeps_its_kind() -> None:
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(AdapterError) as caught:
        async with client("anthropic", Answers(sse(event))).stream("/v1/messages", b"{}") as events:
            await anext(events)
    assert (caught.value.kind, caught.value.code) == (ErrorKind.OVERLOADED, "overloaded_error")


async def test_a_wrong_base_url_is_not_retried() -> None:
    with pytest.raises(AdapterError) as caught:
        await client("openai", base_url="api.example.com/v1").post("/x", b"{}")
    assert (caught.value.kind, caught.value.retryable) == (ErrorKind.INVALID_REQUEST, False)


async def test_a_loopback_server_is_reached_past_any_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with LoopbackProvider({"turns": [{"text": "a"}]}) as provider:
        made = client("openai", base_url=provider.base_url("chat"))
        body = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
        payload = await made.post("/chat/completions", body)
        await made.aclose()
    assert payload["choices"][0]["message"]["content"] == "a"


async def test_a_kept_connection_that_the_server_closed_is_a_connection_error() -> None:
    turns = [{"text": "a", "fault": {"kind": "close_after"}}, {"text": "b", "fault": {"kind": "close"}}]
    async with LoopbackProvider({"turns": turns}) as provider:
        made = client("openai", base_url=provider.base_url("chat"))
        body = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
        await made.post("/chat/completions", body)
        with pytest.raises(AdapterError) as caught:
            await made.post("/chat/completions", body)
        await made.aclose()
    assert (caught.value.kind, caught.value.retryable) == (ErrorKind.CONNECTION, True)
