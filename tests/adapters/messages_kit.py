"""What the tests of the Messages wire share: an adapter with a transport in place of the network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

import httpx2

from geode.adapters.credentials import Secrets
from geode.adapters.messages import MessagesAdapter
from geode.adapters.options import AdapterOptions, CacheOptions
from geode.contract import AdapterCallRequest, Message, Notice, ReasoningBlock, Source, ToolSpec
from geode.provider.params import problems

NAME = "anthropic-payg"
MODEL = "claude-sonnet-4-5"
SOURCE = Source("messages", NAME, MODEL)
GREP = ToolSpec(
    "grep_files", "Searches files.", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
)
READ = ToolSpec("read_document", "Reads a document.", {"type": "object", "properties": {"path": {"type": "string"}}})
NO_CACHE = CacheOptions(prefix=False, moving=False)
HELLO = (Message.user("hello"),)


class Server(httpx2.AsyncBaseTransport):
    """Answers each request with the next reply: a dict (JSON), bytes (an event stream), or a response."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.requests: list[httpx2.Request] = []
        self.bodies: list[dict[str, Any]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        self.requests.append(request)
        self.bodies.append(json.loads(body))
        reply = self.replies.pop(0)
        if isinstance(reply, Mapping):
            return httpx2.Response(200, headers={"request-id": "req_1"}, json=reply)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, httpx2.Response):
            return reply
        return httpx2.Response(
            200, headers={"request-id": "req_1", "content-type": "text/event-stream"}, stream=Pieces(reply)
        )


class Pieces(httpx2.AsyncByteStream):
    """A response body in pieces; an exception among them is raised in its turn, None waits for ever."""

    def __init__(self, pieces: Iterable[Any]) -> None:
        self.pieces = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if piece is None:
                await asyncio.Event().wait()
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def aclose(self) -> None:
        self.closed = True


class Bench:
    """An adapter, its server and the notices that it gave."""

    def __init__(self, *replies: Any, unsendable: Any = "drop", on_unsupported: Any = "send", **options: Any) -> None:
        given: dict[str, Any] = {
            "name": NAME,
            "wire": "messages",
            "model": MODEL,
            "base_url": "http://127.0.0.1:9",
            "cache": NO_CACHE,
            "max_tokens": 4096,
        }
        self.notices: list[Notice] = []
        self.server = Server(*replies)
        self.adapter = MessagesAdapter(
            AdapterOptions(**{**given, **options}),
            secrets=Secrets("sk-test-0123456789"),
            notify=self.notices.append,
            on_unsupported=on_unsupported,
            unsendable=unsendable,
            transport=self.server,
        )

    def body(self, messages: Sequence[Message] = HELLO, **request: Any) -> dict[str, Any]:
        body = json.loads(self.adapter.build(AdapterCallRequest(messages, **request)))
        assert isinstance(body, dict)
        assert problems("messages", body) == []
        return body

    def messages(self, *messages: Message, **request: Any) -> Any:
        """The message array that a history becomes."""
        return self.body(messages, **request)["messages"]


def thinking(text: str = "let me see", signature: str = "sig", source: Source = SOURCE) -> ReasoningBlock:
    return ReasoningBlock(text, source, {"type": "thinking", "thinking": text, "signature": signature})


def answer(*content: Mapping[str, Any], stop: str | None = "end_turn", **more: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **more,
    }


def events(*given: Mapping[str, Any], named: bool = True) -> list[bytes]:
    """An event stream, one piece an event."""
    return [
        (f"event: {e['type']}\n" if named else "").encode() + b"data: " + json.dumps(e).encode() + b"\n\n"
        for e in given
    ]
