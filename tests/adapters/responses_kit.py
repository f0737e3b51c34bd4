"""What the tests of the Responses adapter share."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import httpx2

from geode.adapters.credentials import Secrets
from geode.adapters.options import AdapterOptions
from geode.adapters.responses import ResponsesAdapter
from geode.contract import AdapterCallRequest, Message, Notice, Source, ToolSpec
from geode.provider.checks import semantic
from geode.provider.issued import opaque
from geode.provider.params import problems

SOURCE = Source("responses", "openai-payg", "gpt-6.1-sol")
SEALED = opaque("thought")

GREP = ToolSpec(
    "grep_files",
    "Search files",
    {
        "type": "object",
        "properties": {"pattern": {"type": "string"}},
        "required": ["pattern"],
        "additionalProperties": False,
    },
)
READ = ToolSpec("read_document", "Read a document", {"type": "object", "properties": {"path": {"type": "string"}}})
TOOLS = (GREP, READ)


def options(**given: Any) -> AdapterOptions:
    base: dict[str, Any] = {
        "name": "openai-payg",
        "wire": "responses",
        "model": "gpt-6.1-sol",
        "base_url": "http://127.0.0.1:9/v1",
        "max_tokens": 4096,
        "max_tokens_field": "max_output_tokens",
        "reasoning_model": True,
    }
    return AdapterOptions(**{**base, **given})


def adapter(
    notices: list[Notice] | None = None,
    transport: httpx2.AsyncBaseTransport | None = None,
    secrets: Secrets | None = None,
    on_unsupported: Any = "send",
    unsendable: Any = "drop",
    **given: Any,
) -> ResponsesAdapter:
    sink = notices if notices is not None else []
    return ResponsesAdapter(
        options(**given),
        secrets=secrets or Secrets("sk-test-key"),
        notify=sink.append,
        on_unsupported=on_unsupported,
        unsendable=unsendable,
        transport=transport,
    )


def request(*messages: Message, **given: Any) -> AdapterCallRequest:
    return AdapterCallRequest(messages=messages or (Message.user("hi"),), **given)


def body(made: ResponsesAdapter, asked: AdapterCallRequest, *, path: str = "") -> dict[str, Any]:
    """The body as parsed JSON, after the SDK's types and the API's own rules have found nothing wrong with it."""
    parsed: dict[str, Any] = json.loads(made.build(asked))
    assert problems("responses", parsed) == []
    assert semantic("responses", parsed, path) == []
    return parsed


def response(*output: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    """A finished response object as the API gives it."""
    base: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "gpt-6.1-sol-2026-10-01",
        "output": list(output),
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": 120,
        },
    }
    return {**base, **given}


def call_item(name: str = "grep_files", arguments: Any = '{"pattern":"x"}', **given: Any) -> dict[str, Any]:
    base = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": arguments}
    return {**base, "status": "completed", **given}


def message_item(text: str = "hello", **given: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content, **given}


def reasoning_item(**given: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SEALED, **given}


Reply = Callable[[httpx2.Request], httpx2.Response]


class Wire(httpx2.AsyncBaseTransport):
    """Takes the place of the network: keeps the requests, answers with what it is given."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.requests: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        self.requests.append(request)
        return self._reply(request)

    @property
    def bodies(self) -> list[bytes]:
        return [r.content for r in self.requests]


def json_reply(payload: Any, status: int = 200, **headers: str) -> Wire:
    content = json.dumps(payload).encode()
    given = {"content-type": "application/json", "x-request-id": "req_1", **headers}
    return Wire(lambda _: httpx2.Response(status, headers=given, content=content))


class Events(httpx2.AsyncByteStream):
    """A body of server-sent events; an exception among them breaks the connection there."""

    def __init__(self, events: Sequence[Mapping[str, Any] | Exception | str]) -> None:
        self._events = events
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            if isinstance(event, str):
                yield event.encode()
                continue
            yield f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n".encode()

    async def aclose(self) -> None:
        self.closed = True


def stream_reply(*events: Mapping[str, Any] | Exception | str) -> Wire:
    given = {"content-type": "text/event-stream", "x-request-id": "req_1"}
    return Wire(lambda _: httpx2.Response(200, headers=given, stream=Events(events)))
