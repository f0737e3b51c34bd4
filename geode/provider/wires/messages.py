"""Anthropic's Messages API, as its API reference describes bodies, stream events and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from geode.contract import StopReason, ToolChoice
from geode.provider.issued import opaque, signature
from geode.provider.reply import pieces, sse
from geode.script import Fault, ScriptCall, ScriptResult, ScriptTurn, ScriptUsage, ScriptView

__all__ = ["MessagesFormat"]

_STOPS: Mapping[StopReason, str] = {
    StopReason.CONTENT_FILTER: "refusal",
    StopReason.CONTEXT_WINDOW_EXCEEDED: "model_context_window_exceeded",
    StopReason.ERROR: "end_turn",
}

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}

_CHOICES: Mapping[str, ToolChoice] = {
    "auto": ToolChoice("auto"),
    "none": ToolChoice("none"),
    "any": ToolChoice("required"),
}


class MessagesFormat:
    def view(self, body: dict[str, Any], number: int) -> ScriptView:
        view = ScriptView(request=number, max_tokens=body.get("max_tokens"), system=_text(body.get("system")))
        view.wants_json = "format" in (body.get("output_config") or {})
        names: dict[str, str] = {}
        results: list[ScriptResult] = []
        for message in body.get("messages") or ():
            role, content = message.get("role"), message.get("content")
            if isinstance(content, str):
                texts = [content]
            else:
                texts = [b.get("text", "") for b in content or () if b.get("type") == "text"]
                for block in content or ():
                    if block.get("type") == "tool_use":
                        names[block.get("id", "")] = block.get("name", "")
                    elif block.get("type") == "tool_result":
                        key = block.get("tool_use_id", "")
                        text = _text(block.get("content"))
                        results.append(ScriptResult(key, names.get(key, ""), text, bool(block.get("is_error"))))
            if role == "user" and texts:
                view.user = "\n".join(texts)
                view.first_user = view.first_user or view.user
        view.results = results
        view.tools = tuple(str(tool.get("name", "")) for tool in body.get("tools") or ())
        choice = body.get("tool_choice")
        if isinstance(choice, dict):
            kind = str(choice.get("type"))
            view.tool_choice = _CHOICES.get(kind) or ToolChoice("tool", choice.get("name"))
        thinking = body.get("thinking")
        view.thinking = isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive")
        return view

    def answer(self, turn: ScriptTurn, body: dict[str, Any], number: int, chars: int) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        for part in turn.reasoning:
            if part.redacted:
                content.append({"type": "redacted_thinking", "data": opaque(part.text)})
            else:
                content.append({"type": "thinking", "thinking": part.text, "signature": signature(part.text)})
        if turn.text:
            content.append({"type": "text", "text": turn.text})
        rounds = len(body.get("messages") or ())
        for index, call in enumerate(turn.tool_calls):
            fresh = f"toolu_{rounds:04d}_{index}"
            content.append(
                {
                    "type": "tool_use",
                    "id": fresh if call.id is None else call.id,
                    "name": call.name,
                    "input": _input(call),
                }
            )
        details = None
        if turn.refusal:
            details = {"type": "refusal", "category": turn.refusal[0], "explanation": turn.refusal[1]}
        answer: dict[str, Any] = {
            "id": f"msg_loopback_{number:06d}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", ""),
            "content": content,
            "stop_reason": _STOPS.get(turn.stop, turn.stop.value),
            "stop_sequence": turn.stop_sequence,
            "stop_details": details,
        }
        usage = turn.estimated_usage(chars)
        if not usage.missing:
            answer["usage"] = _usage(usage)
        return answer

    def events(self, answer: dict[str, Any], turn: ScriptTurn, body: dict[str, Any]) -> Iterator[bytes]:
        usage = answer.get("usage")
        start = answer | {"content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None}
        if usage:
            start["usage"] = {k: v for k, v in usage.items() if k != "output_tokens_details"} | {"output_tokens": 1}
        yield _event("message_start", message=start)
        raw = {i: call.arguments for i, call in enumerate(turn.tool_calls)}
        call_index = 0
        for index, block in enumerate(answer["content"]):
            empty, deltas = _deltas(block, raw.get(call_index, ""))
            call_index += block["type"] == "tool_use"
            yield _event("content_block_start", index=index, content_block=empty)
            if index == 0:
                yield _event("ping")
            for delta in deltas:
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        ending = {"stop_reason": answer["stop_reason"], "stop_sequence": answer["stop_sequence"]}
        if answer["stop_details"]:
            ending["stop_details"] = answer["stop_details"]
        final = {}
        if usage:
            kept = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
            final = {k: usage[k] for k in (*kept, "output_tokens_details") if k in usage}
        yield _event("message_delta", delta=ending, **({"usage": final} if usage else {}))
        yield _event("message_stop")

    def error(self, status: int, message: str, *, type: str | None, code: str | None, path: str) -> dict[str, Any]:
        kind = type or _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def stream_error(self, fault: Fault, sequence: int) -> bytes:
        error = {"type": fault.type or "overloaded_error", "message": fault.message or "Overloaded"}
        return sse({"type": "error", "error": error}, "error")

    def overflow(self, fault: Fault, path: str) -> tuple[int, dict[str, Any]]:
        message = fault.message or "prompt is too long: 210000 tokens > 200000 maximum"
        return 400, self.error(400, message, type=fault.type, code=None, path=path)


def _event(name: str, **fields: Any) -> bytes:
    return sse({"type": name, **fields}, name)


def _deltas(block: dict[str, Any], arguments: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The block as it starts, and what is added to it."""
    match block["type"]:
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": p} for p in pieces(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "text":
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in pieces(block["text"])]
        case "tool_use":
            parts = ["", *pieces(arguments)]
            return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": p} for p in parts]
        case _:
            return block, []


def _input(call: ScriptCall) -> Any:
    """The input as an object; text that is no JSON stays text, as an unstreamed answer cannot hold it otherwise."""
    if not call.arguments:
        return {}
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments


def _usage(usage: ScriptUsage) -> dict[str, Any]:
    found: dict[str, Any] = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": max(0, usage.cache_write - usage.cache_write_1h),
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
        "output_tokens": usage.output,
        "service_tier": "standard",
    }
    if usage.reasoning:
        found["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return found


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(b.get("text", "")) for b in content or () if b.get("type") == "text")
