"""OpenAI's Chat Completions API, with the reasoning_content of Z.ai and others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from geode.contract import StopReason, ToolChoice
from geode.provider.reply import pieces, sse
from geode.provider.wires.openai import choice_word, openai_error, openai_overflow
from geode.script import Fault, ScriptResult, ScriptTurn, ScriptUsage, ScriptView, is_error_text

__all__ = ["ChatFormat"]

CREATED = 1_700_000_000
"""Creation time of every answer, seconds since 1970: answers do not change from day to day."""

_STOPS: Mapping[StopReason, str] = {
    StopReason.TOOL_USE: "tool_calls",
    StopReason.MAX_TOKENS: "length",
    StopReason.CONTEXT_WINDOW_EXCEEDED: "length",
    StopReason.CONTENT_FILTER: "content_filter",
}


class ChatFormat:
    def view(self, body: dict[str, Any], number: int) -> ScriptView:
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        view = ScriptView(request=number, max_tokens=limit)
        view.wants_json = (body.get("response_format") or {}).get("type", "text") != "text"
        names: dict[str, str] = {}
        results: list[ScriptResult] = []
        for message in body.get("messages") or ():
            role = message.get("role")
            if role == "assistant":
                for call in message.get("tool_calls") or ():
                    names[call.get("id", "")] = (call.get("function") or {}).get("name", "")
            elif role == "tool":
                key, text = message.get("tool_call_id", ""), _text(message.get("content"))
                results.append(ScriptResult(key, names.get(key, ""), text, is_error_text(text)))
            elif role == "user":
                view.user = _text(message.get("content"))
                view.first_user = view.first_user or view.user
            elif role in ("system", "developer"):
                view.system = view.system or _text(message.get("content"))
        view.results = results
        view.tools = tuple(str((tool.get("function") or tool).get("name", "")) for tool in body.get("tools") or ())
        choice = body.get("tool_choice")
        if isinstance(choice, dict):
            view.tool_choice = ToolChoice("tool", (choice.get("function") or {}).get("name"))
        else:
            view.tool_choice = choice_word(choice)
        thinking = body.get("thinking")
        asked = body.get("reasoning_effort") not in (None, "none")
        view.thinking = asked or (isinstance(thinking, dict) and thinking.get("type") == "enabled")
        return view

    def answer(self, turn: ScriptTurn, body: dict[str, Any], number: int, chars: int) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": turn.text or (None if turn.tool_calls or turn.refusal else ""),
            "refusal": turn.refusal[1] if turn.refusal else None,
        }
        reasoning = "".join(part.text for part in turn.reasoning if not part.redacted)
        if turn.reasoning:
            message["reasoning_content"] = reasoning
        rounds = len(body.get("messages") or ())
        if turn.tool_calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{rounds:04d}_{index}" if call.id is None else call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for index, call in enumerate(turn.tool_calls)
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _STOPS.get(turn.stop, "stop")}
        answer = _head(body, number, "chat.completion")
        answer["choices"] = [] if turn.fault and turn.fault.kind == "empty_choices" else [choice]
        usage = turn.estimated_usage(chars)
        if not usage.missing:
            answer["usage"] = _usage(usage)
        return answer

    def events(self, answer: dict[str, Any], turn: ScriptTurn, body: dict[str, Any]) -> Iterator[bytes]:
        options = body.get("stream_options")
        counted = isinstance(options, dict) and bool(options.get("include_usage"))
        head = {key: answer[key] for key in ("id", "created", "model", "system_fingerprint")}
        head |= {"object": "chat.completion.chunk"}

        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return sse(head | {"choices": [choice]} | ({"usage": None} if counted else {}))

        for choice in answer["choices"]:
            message = choice["message"]
            yield chunk({"role": "assistant", "content": None if message["content"] is None else "", "refusal": None})
            for key in ("reasoning_content", "content", "refusal"):
                for piece in pieces(message.get(key) or ""):
                    yield chunk({key: piece})
            for index, call in enumerate(message.get("tool_calls", ())):
                name = {"name": call["function"]["name"], "arguments": ""}
                first = {"index": index, "id": call["id"], "type": "function", "function": name}
                yield chunk({"tool_calls": [first]})
                for piece in pieces(call["function"]["arguments"]):
                    yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            yield chunk({}, choice["finish_reason"])
        if counted and "usage" in answer:
            yield sse(head | {"choices": [], "usage": answer["usage"]})
        yield sse("[DONE]")

    def error(self, status: int, message: str, *, type: str | None, code: str | None, path: str) -> dict[str, Any]:
        return openai_error(status, message, type, code, path)

    def stream_error(self, fault: Fault, sequence: int) -> bytes:
        message = fault.message or "The server had an error while processing your request."
        error = {"message": message, "type": fault.type or "server_error", "param": None, "code": fault.code}
        return sse({"error": error})

    def overflow(self, fault: Fault, path: str) -> tuple[int, dict[str, Any]]:
        message = (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens."
        )
        return openai_overflow(fault, message, path)


def _head(body: dict[str, Any], number: int, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-loopback-{number:06d}",
        "object": kind,
        "created": CREATED,
        "model": body.get("model", ""),
        "system_fingerprint": "fp_loopback",
    }


def _usage(usage: ScriptUsage) -> dict[str, Any]:
    sent = usage.input + usage.cache_read + usage.cache_write
    return {
        "prompt_tokens": sent,
        "completion_tokens": usage.output,
        "total_tokens": sent + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(p["text"]) for p in content or () if isinstance(p, dict) and "text" in p)
