"""What the tests of the Chat Completions adapter share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import httpx2

from geode.adapters.chat import ChatAdapter
from geode.adapters.credentials import Secrets
from geode.adapters.options import AdapterOptions
from geode.contract import AdapterCallRequest, History, Message, Notice, Source, ToolResultBlock, ToolSpec, ToolUseBlock

MODEL = "glm-5.3"
SOURCE = Source("chat", "glm-payg", MODEL)
GREP = ToolSpec(
    "grep_files",
    "Search files",
    {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]},
)
READ = ToolSpec("read_document", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}})
TOOLS = (GREP, READ)


def options(**given: Any) -> AdapterOptions:
    defaults: dict[str, Any] = {
        "name": "glm-payg",
        "wire": "chat",
        "model": MODEL,
        "base_url": "https://api.z.ai/api/paas/v4",
        "max_tokens": 1000,
    }
    return AdapterOptions(**{**defaults, **given})


def adapter(
    notices: list[Notice] | None = None,
    *,
    transport: httpx2.AsyncBaseTransport | None = None,
    on_unsupported: Any = "send",
    unsendable: Any = "drop",
    **given: Any,
) -> ChatAdapter:
    return ChatAdapter(
        options(**given),
        secrets=Secrets("zai-0123456789abcdef"),
        notify=(notices if notices is not None else []).append,
        on_unsupported=on_unsupported,
        unsendable=unsendable,
        transport=transport,
    )


def request(*messages: Message, **given: Any) -> AdapterCallRequest:
    return AdapterCallRequest(messages or (Message.user("hi"),), **given)


def body(made: ChatAdapter, asked: AdapterCallRequest) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(made.build(asked))
    return parsed


def messages(*given: Message, **opts: Any) -> list[dict[str, Any]]:
    """The messages that a history becomes."""
    found: list[dict[str, Any]] = body(adapter(**opts), request(*given))["messages"]
    return found


def call(identifier: str = "c1", name: str = "grep_files", arguments: str | None = '{"pattern":"x"}') -> ToolUseBlock:
    return ToolUseBlock(identifier, name, {"pattern": "x"}, arguments)


def result(text: str = "ok", identifier: str = "c1", *, is_error: bool = False) -> ToolResultBlock:
    return ToolResultBlock(identifier, text, is_error)


def array_bytes(sent: bytes) -> bytes:
    """The bytes of a body's message array, without its brackets."""
    start = sent.index(b'"messages":[') + len(b'"messages":[')
    depth, at, quoted = 1, start, False
    while depth:
        char = sent[at : at + 1]
        if quoted:
            if char == b"\\":
                at += 1
            elif char == b'"':
                quoted = False
        elif char == b'"':
            quoted = True
        elif char in (b"[", b"{"):
            depth += 1
        elif char in (b"]", b"}"):
            depth -= 1
        at += 1
    return sent[start : at - 1]


def answer(finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion with one choice."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion", "model": MODEL, "choices": [choice]}


def wire_call(name: str, arguments: Any, identifier: Any = "c1") -> dict[str, Any]:
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


class Answers(httpx2.AsyncBaseTransport):
    """Answers requests from a list of functions or responses; records the requests."""

    def __init__(self, *answers: httpx2.Response | Exception | Callable[[httpx2.Request], httpx2.Response]) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        self.requests.append(request)
        given = self.answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given if isinstance(given, httpx2.Response) else given(request)


def sse(*events: Any, done: bool = True) -> httpx2.Response:
    """A streamed answer."""
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    text = "".join(lines) + ("data: [DONE]\n\n" if done else "")
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=text.encode())


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {
        "id": "x",
        "object": "chat.completion.chunk",
        "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def grown(*batches: Sequence[Message]) -> tuple[list[bytes], ChatAdapter]:
    """The message arrays of a history that grows by one batch for each request."""
    made = adapter()
    history = History()
    arrays = []
    for batch in batches:
        for message in batch:
            history.append(message)
        arrays.append(array_bytes(made.build(AdapterCallRequest(history, system="s", tools=TOOLS))))
    return arrays, made
