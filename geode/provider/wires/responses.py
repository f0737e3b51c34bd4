"""OpenAI's Responses API, as its API reference describes bodies, stream events and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from geode.contract import StopReason, ToolChoice
from geode.provider.issued import opaque
from geode.provider.reply import pieces, sse
from geode.provider.wires.openai import choice_word, openai_error, openai_overflow
from geode.script import Fault, ScriptResult, ScriptTurn, ScriptUsage, ScriptView, is_error_text

__all__ = ["ResponsesFormat"]

CREATED = 1_700_000_000
"""Creation time of every answer, seconds since 1970: answers do not change from day to day."""

_ECHOED: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
}
"""What an answer repeats of its request, with the defaults."""

_EMPTY: dict[str, dict[str, Any]] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "reasoning": {"summary": []},
}

_INCOMPLETE = {
    StopReason.MAX_TOKENS: "max_output_tokens",
    StopReason.CONTEXT_WINDOW_EXCEEDED: "max_output_tokens",
    StopReason.CONTENT_FILTER: "content_filter",
}


class ResponsesFormat:
    def view(self, body: dict[str, Any], number: int) -> ScriptView:
        view = ScriptView(
            request=number, max_tokens=body.get("max_output_tokens"), system=body.get("instructions") or ""
        )
        view.wants_json = ((body.get("text") or {}).get("format") or {}).get("type", "text") != "text"
        names: dict[str, str] = {}
        results: list[ScriptResult] = []
        given = body.get("input") or ()
        for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
            kind = item.get("type", "message")
            if kind == "function_call":
                names[item.get("call_id", "")] = item.get("name", "")
            elif kind == "function_call_output":
                key, text = item.get("call_id", ""), _text(item.get("output"))
                results.append(ScriptResult(key, names.get(key, ""), text, is_error_text(text)))
            elif kind == "message" and item.get("role") == "user":
                view.user = _text(item.get("content"))
                view.first_user = view.first_user or view.user
            elif kind == "message" and item.get("role") in ("system", "developer"):
                view.system = view.system or _text(item.get("content"))
        view.results = results
        view.tools = tuple(str(tool.get("name", tool.get("type"))) for tool in body.get("tools") or ())
        choice = body.get("tool_choice")
        if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
            view.tool_choice = choice_word(choice.get("mode"))
        elif isinstance(choice, dict):
            view.tool_choice = ToolChoice("tool", choice.get("name"))
        else:
            view.tool_choice = choice_word(choice)
        reasoning = body.get("reasoning")
        view.thinking = isinstance(reasoning, dict) and reasoning.get("effort") not in (None, "none")
        return view

    def answer(self, turn: ScriptTurn, body: dict[str, Any], number: int, chars: int) -> dict[str, Any]:
        reason = _INCOMPLETE.get(turn.stop)
        failed = turn.fault is not None and turn.fault.kind == "failed"
        output = _output(turn, body, number, cut=reason is not None)
        status = "failed" if failed else "incomplete" if reason else "completed"
        usage = turn.estimated_usage(chars)
        error = None
        if turn.fault and failed:
            message = turn.fault.message or "The model failed to generate a response."
            error = {"code": turn.fault.code or "server_error", "message": message}
        return {
            "id": f"resp_loopback_{number:06d}",
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "background": False,
            "error": error,
            "incomplete_details": {"reason": reason} if reason else None,
            "model": body.get("model", ""),
            "output": output,
            **{key: body.get(key, default) for key, default in _ECHOED.items()},
            "usage": None if usage.missing else _usage(usage),
            "user": None,
        }

    def events(self, answer: dict[str, Any], turn: ScriptTurn, body: dict[str, Any]) -> Iterator[bytes]:
        kind = turn.fault.kind if turn.fault else ""
        stream = _Stream(loose=kind == "loose_stream")
        begun = answer | {
            "status": "in_progress",
            "output": [],
            "usage": None,
            "incomplete_details": None,
            "error": None,
        }
        yield stream.event("response.created", response=begun)
        yield stream.event("response.in_progress", response=begun)
        for index, item in enumerate(answer["output"]):
            yield from stream.item(index, item, stale=kind == "stale_reasoning")
        final = answer | {"output": []} if kind == "empty_output" else answer
        yield stream.event(f"response.{answer['status']}", response=final)

    def error(self, status: int, message: str, *, type: str | None, code: str | None, path: str) -> dict[str, Any]:
        return openai_error(status, message, type, code, path)

    def stream_error(self, fault: Fault, sequence: int) -> bytes:
        event = {
            "type": "error",
            "code": fault.code or fault.type or "server_error",
            "message": fault.message or "The server had an error while processing your request.",
            "param": None,
            "sequence_number": sequence,
        }
        return sse(event, "error")

    def overflow(self, fault: Fault, path: str) -> tuple[int, dict[str, Any]]:
        message = "Your input exceeds the context window of this model. Please adjust your input and try again."
        return openai_overflow(fault, message, path)


class _Stream:
    """Numbers the events. `loose` leaves out what llama.cpp's server leaves out: numbers, indexes, done events."""

    def __init__(self, loose: bool) -> None:
        self._loose = loose
        self._sequence = -1

    def event(self, name: str, **fields: Any) -> bytes:
        self._sequence += 1
        if self._loose:
            dropped = ("output_index", "content_index", "summary_index")
            return sse({"type": name, **{k: v for k, v in fields.items() if k not in dropped}}, name)
        return sse({"type": name, "sequence_number": self._sequence, **fields}, name)

    def item(self, index: int, item: dict[str, Any], *, stale: bool) -> Iterator[bytes]:
        kind = item["type"]
        begun = item | {"status": "in_progress"} | _EMPTY[kind]
        yield self.event("response.output_item.added", output_index=index, item=begun)
        at: dict[str, Any] = {"item_id": item["id"], "output_index": index}
        done = item
        if kind == "message":
            for number, part in enumerate(item["content"]):
                yield from self._part(at | {"content_index": number}, part)
        elif kind == "function_call":
            for piece in pieces(item["arguments"]):
                yield self.event("response.function_call_arguments.delta", **at, delta=piece)
            if not self._loose:
                yield self.event("response.function_call_arguments.done", **at, arguments=item["arguments"])
        else:
            for number, part in enumerate(item["summary"]):
                yield from self._summary(at | {"summary_index": number}, part)
            if stale and item.get("encrypted_content"):
                done = item | {"encrypted_content": "gAAAstale"}
        yield self.event("response.output_item.done", output_index=index, item=done)

    def _part(self, at: dict[str, Any], part: dict[str, Any]) -> Iterator[bytes]:
        refusal = part["type"] == "refusal"
        key = "refusal" if refusal else "text"
        name = "response.refusal" if refusal else "response.output_text"
        extra: dict[str, Any] = {} if refusal else {"logprobs": []}
        yield self.event("response.content_part.added", **at, part=part | {key: ""})
        for piece in pieces(part[key]):
            yield self.event(f"{name}.delta", **at, delta=piece, **extra)
        yield self.event(f"{name}.done", **at, **{key: part[key]}, **extra)
        yield self.event("response.content_part.done", **at, part=part)

    def _summary(self, at: dict[str, Any], part: dict[str, Any]) -> Iterator[bytes]:
        yield self.event("response.reasoning_summary_part.added", **at, part=part | {"text": ""})
        for piece in pieces(part["text"]):
            yield self.event("response.reasoning_summary_text.delta", **at, delta=piece)
        yield self.event("response.reasoning_summary_text.done", **at, text=part["text"])
        yield self.event("response.reasoning_summary_part.done", **at, part=part)


def _output(turn: ScriptTurn, body: dict[str, Any], number: int, *, cut: bool) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = []
    encrypted = "reasoning.encrypted_content" in (body.get("include") or ())
    for index, part in enumerate(turn.reasoning):
        summary = [] if part.redacted or not part.text else [{"type": "summary_text", "text": part.text}]
        item = {"id": f"rs_{number:06d}_{index}", "type": "reasoning", "summary": summary}
        if encrypted:
            item["encrypted_content"] = opaque(part.text)
        output.append(item)
    content: list[dict[str, Any]] = []
    if turn.text:
        content.append({"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []})
    if turn.refusal:
        content.append({"type": "refusal", "refusal": turn.refusal[1]})
    if content:
        message = {
            "id": f"msg_{number:06d}",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": content,
        }
        output.append(message | ({"phase": turn.phase} if turn.phase else {}))
    given = body.get("input")
    rounds = len(given) if isinstance(given, list) else 1
    for index, call in enumerate(turn.tool_calls):
        fresh = f"call_{rounds:04d}_{index}"
        output.append(
            {
                "id": f"fc_{number:06d}_{index}",
                "type": "function_call",
                "status": "completed",
                "call_id": fresh if call.id is None else call.id,
                "name": call.name,
                "arguments": call.arguments,
            }
        )
    if cut and output and "status" in output[-1]:
        output[-1]["status"] = "incomplete"
    return output


def _usage(usage: ScriptUsage) -> dict[str, Any]:
    sent = usage.input + usage.cache_read + usage.cache_write
    return {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": sent + usage.output,
    }


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(p["text"]) for p in content or () if isinstance(p, dict) and "text" in p)
