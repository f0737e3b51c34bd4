"""A transport that records requests instead of sending them: what `geode wire` and snapshots are made of.

It stands where the network stands, below the SDK, so that it sees method, URL, headers and body as a socket would.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import httpx2

from geode.adapters.credentials import Masker, Secrets

__all__ = ["Answer", "CaptureTransport"]

Answer = Mapping[str, Any] | httpx2.Response
"""A provider's JSON (sent with status 200, as events where the request asks for a stream), or a whole response."""

_LEFT_OUT = re.compile(
    r"x-stainless-.+|content-length|transfer-encoding|host|connection|accept-encoding|idempotency-key"
    r"|x-client-request-id|traceparent|tracestate"
)
"""Headers that change with the machine, the day or an installed package's version, and say nothing of the request."""

_VERSION = re.compile(r"[ /]v?\d[\w.+-]*")


class CaptureTransport(httpx2.AsyncBaseTransport):
    """Records each request and answers it without a network.

    answers: one for each request in turn, or a function from the recorded request to its answer. After the last one,
    a short text that ends a conversation. secrets: masked in what is recorded, as is whatever looks like a key.

    requests: the requests so far, each `{method, url, headers, body}`; the body is parsed where it is JSON, with its
    key order kept. Headers of the SDK's version, the platform, lengths and idempotency are left out. bodies: the same
    bodies, byte for byte, unmasked.
    """

    def __init__(
        self,
        answers: Iterable[Answer] | Callable[[Mapping[str, Any]], Answer | None] = (),
        *,
        secrets: Secrets | None = None,
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self._answers: Iterator[Answer] | None = None if callable(answers) else iter(answers)
        self._function = answers if callable(answers) else None
        self._masker = Masker(secrets)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        content = await request.aread()
        body = _parsed(content)
        recorded = {
            "method": request.method,
            "url": self._masker.text(str(request.url)),
            "headers": self._masker.headers(_shown(request.headers)),
            "body": self._masker.json(body),
        }
        self.requests.append(recorded)
        self.bodies.append(content)
        if self._function is not None:
            answer: Answer | None = self._function(recorded)
        else:
            answer = next(self._answers, None) if self._answers is not None else None
        if answer is None:
            answer = _closing(request.url.path)
        if isinstance(answer, httpx2.Response):
            return answer
        if isinstance(body, dict) and body.get("stream") is True:
            events = "".join(_events(request.url.path, answer))
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=events.encode())
        return httpx2.Response(200, json=dict(answer))


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode("utf-8", "replace")


def _shown(headers: httpx2.Headers) -> dict[str, str]:
    """The headers that are shown, by name; versions are cut from the user agent."""
    shown = {name: value for name, value in headers.items() if not _LEFT_OUT.fullmatch(name)}
    if "user-agent" in shown:
        shown["user-agent"] = _VERSION.sub("", shown["user-agent"])
    return dict(sorted(shown.items()))


def _closing(path: str) -> dict[str, Any]:
    """An answer that ends a conversation, in the wire of the request's path."""
    if path.endswith("/chat/completions"):
        choice = {"index": 0, "message": {"role": "assistant", "content": "captured"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        return {"id": "captured", "object": "chat.completion", "model": "captured", "choices": [choice], "usage": usage}
    if path.endswith("/responses"):
        part = {"type": "output_text", "text": "captured", "annotations": []}
        item = {"type": "message", "id": "msg_captured", "role": "assistant", "status": "completed", "content": [part]}
        usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
        return {"id": "captured", "object": "response", "status": "completed", "output": [item], "usage": usage}
    return {
        "id": "captured",
        "type": "message",
        "role": "assistant",
        "model": "captured",
        "content": [{"type": "text", "text": "captured"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def _events(path: str, answer: Mapping[str, Any]) -> Iterator[str]:
    """An answer as the server-sent events of its wire."""
    if path.endswith("/chat/completions"):
        yield from _chat_events(answer)
    elif path.endswith("/responses"):
        items = answer.get("output") or []
        for index, item in enumerate(items):
            yield _event({"type": "response.output_item.done", "output_index": index, "item": item})
        yield _event({"type": "response.completed", "response": dict(answer)})
    else:
        yield from _message_events(answer)


def _event(data: Mapping[str, Any], *, named: bool = True) -> str:
    name = f"event: {data['type']}\n" if named else ""
    return f"{name}data: {json.dumps(data, ensure_ascii=False)}\n\n"


def _chat_events(answer: Mapping[str, Any]) -> Iterator[str]:
    top = {k: v for k, v in answer.items() if k not in ("choices", "usage", "object")}
    top["object"] = "chat.completion.chunk"
    for choice in answer.get("choices") or []:
        delta = dict(choice.get("message") or {})
        if delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(delta["tool_calls"])]
        rest = {k: v for k, v in choice.items() if k not in ("message", "finish_reason")}
        yield _event({**top, "choices": [{**rest, "delta": delta, "finish_reason": None}]}, named=False)
        ended = {**rest, "delta": {}, "finish_reason": choice.get("finish_reason")}
        yield _event({**top, "choices": [ended]}, named=False)
    yield _event({**top, "choices": [], "usage": answer.get("usage")}, named=False)
    yield "data: [DONE]\n\n"


def _message_events(answer: Mapping[str, Any]) -> Iterator[str]:
    ends = ("stop_reason", "stop_sequence", "stop_details")
    start = {**answer, "content": [], "stop_reason": None, "stop_sequence": None}
    yield _event({"type": "message_start", "message": {k: v for k, v in start.items() if k != "stop_details"}})
    for index, block in enumerate(answer.get("content") or []):
        begun, deltas = _block_parts(block)
        yield _event({"type": "content_block_start", "index": index, "content_block": begun})
        for delta in deltas:
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    end = {name: answer[name] for name in ends if name in answer}
    yield _event({"type": "message_delta", "delta": end, "usage": answer.get("usage") or {}})
    yield _event({"type": "message_stop"})


def _block_parts(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(how a content block begins, its deltas)."""
    kind = block.get("type")
    if kind == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block.get("text", "")}]
    if kind == "tool_use":
        text = json.dumps(block.get("input") or {}, ensure_ascii=False)
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": text}]
    if kind == "thinking":
        thought = {"type": "thinking_delta", "thinking": block.get("thinking", "")}
        signed = {"type": "signature_delta", "signature": block.get("signature", "")}
        return {**block, "thinking": "", "signature": ""}, [thought, signed]
    return dict(block), []
