"""From a Chat Completions answer to neutral blocks.

The shape is that of OpenAI's API reference (the chat completion object), read with tolerance for the servers that
speak it: Z.ai's finish reasons, reasoning under three names, `<think>` in the content, parts left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from geode.adapters.arguments import parse_arguments, unique_ids
from geode.adapters.errors import from_body, shorten
from geode.contract import (
    AdapterCallResult,
    AdapterError,
    Block,
    ErrorKind,
    ReasoningBlock,
    Source,
    StopReason,
    TextBlock,
    ToolUseBlock,
    Usage,
)

__all__ = ["REASONING_FIELDS", "ChatReader", "parse_usage"]

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Fields of a message that hold its reasoning as text; `reasoning_details` holds it as a list of objects."""

_STOPS = {
    "stop": StopReason.END_TURN,
    "end_turn": StopReason.END_TURN,
    "eos": StopReason.END_TURN,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "length": StopReason.MAX_TOKENS,
    "max_tokens": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "content_filter": StopReason.CONTENT_FILTER,
    "sensitive": StopReason.CONTENT_FILTER,  # Z.ai
    "model_context_window_exceeded": StopReason.CONTEXT_WINDOW_EXCEEDED,  # Z.ai
}
_FAILED = frozenset({"network_error", "error", "insufficient_system_resource", "abort"})
"""Finish reasons that say the backend broke off (Z.ai, gateways, DeepSeek, vLLM)."""


@dataclass(frozen=True, slots=True)
class ChatReader:
    """Reads one backend's answers.

    source: stamped on reasoning. reasoning_field: the field that the config names. to_own: a name on the wire to the
    tool's own.
    """

    source: Source
    reasoning_field: str
    to_own: Callable[[str], str]

    def read(self, payload: Any, round: int, *, cut: bool = False) -> AdapterCallResult:
        """The result of a chat completion. `round` is 1-based: ids that are missing are made from it.

        cut: the stream broke off, so that the last call may be unfinished. Raises AdapterError: BAD_RESPONSE where
        the payload is no answer, the error's own kind where it carries one.
        """
        choice = self._choice(payload)
        message = choice.get("message")
        if not isinstance(message, Mapping):
            raise self._bad("the first choice has no message", payload)
        raw_stop = choice.get("finish_reason")
        raw_stop = raw_stop if isinstance(raw_stop, str) and raw_stop else None
        content, think = _content(message)
        blocks: list[Block] = [*self._reasoning(message, think)]
        if content:
            blocks.append(TextBlock(content))
        refusal = _refusal(message)
        if refusal:
            blocks.append(TextBlock(refusal))
        calls = self._calls(message, round, cut, _STOPS.get(raw_stop or "") is StopReason.MAX_TOKENS)
        blocks.extend(calls)
        stop, details = _stop(raw_stop, choice, refusal, bool(calls), bool(content))
        result = AdapterCallResult(
            tuple(blocks),
            stop,
            usage=parse_usage(payload.get("usage")),
            model=_string(payload.get("model")) or self.source.model,
            raw_stop=raw_stop,
            stop_details=details,
            cost_usd=_cost(payload.get("usage")),
        )
        if raw_stop in _FAILED:
            raise AdapterError(
                ErrorKind.SERVER,
                f"the backend broke off (finish_reason {raw_stop!r})",
                provider=self.source.adapter,
                code=raw_stop,
                partial=result if blocks else None,
            )
        return result

    def _choice(self, payload: Any) -> Mapping[str, Any]:
        if not isinstance(payload, Mapping):
            raise self._bad("the answer is no JSON object", payload)
        choices = payload.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
            return choices[0]
        if payload.get("error"):
            raise from_body(None, {}, payload, self.source.adapter)
        raise self._bad("the answer has no choices", payload)

    def _bad(self, problem: str, payload: Any) -> AdapterError:
        shown = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False, default=str)
        return AdapterError(
            ErrorKind.BAD_RESPONSE,
            f"{problem}: {shorten(shown)}",
            provider=self.source.adapter,
            details=payload if isinstance(payload, Mapping) else None,
        )

    def _reasoning(self, message: Mapping[str, Any], think: str) -> list[Block]:
        """Reasoning in its own fields, kept as it came; and what stood in `<think>`, which is not sent back."""
        raw: dict[str, Any] = {}
        text = ""
        for name in dict.fromkeys((self.reasoning_field, *REASONING_FIELDS)):
            value = message.get(name)
            if isinstance(value, str) and value:
                raw[name] = text = value
                break
        details = message.get("reasoning_details")
        if isinstance(details, list) and details:
            raw["reasoning_details"] = details
            text = text or "".join(_detail_text(d) for d in details)
        blocks: list[Block] = [ReasoningBlock(text, self.source, raw)] if raw else []
        if think:
            blocks.append(ReasoningBlock(think, self.source))
        return blocks

    def _calls(self, message: Mapping[str, Any], round: int, cut: bool, limited: bool) -> list[ToolUseBlock]:
        """The calls. The output limit can only have cut the last one, a cut stream any."""
        given = message.get("tool_calls")
        entries = [c for c in given if isinstance(c, Mapping)] if isinstance(given, list) else []
        if not entries and isinstance(message.get("function_call"), Mapping):
            entries = [{"function": message["function_call"]}]
        ids = unique_ids([_string(c.get("id")) for c in entries], round)
        calls: list[ToolUseBlock] = []
        for index, (entry, identifier) in enumerate(zip(entries, ids, strict=True)):
            function = entry.get("function")
            function = function if isinstance(function, Mapping) else {}
            raw = function.get("arguments")
            if not isinstance(raw, str | Mapping | None):
                raw = json.dumps(raw, ensure_ascii=False)
            open_ended = cut or (limited and index == len(entries) - 1)
            unfinished = open_ended and not _is_whole(raw)
            value, text, fault = parse_arguments(raw, cut=unfinished)
            name = self.to_own(_string(function.get("name")) or "")
            calls.append(ToolUseBlock(identifier, name, value, text, fault))
        return calls


def _content(message: Mapping[str, Any]) -> tuple[str, str]:
    """(text, text of a leading `<think>`). Content may be null, a string, or a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        texts = [p.get("text") for p in content if isinstance(p, Mapping) and p.get("type") in ("text", "output_text")]
        thinks = [_detail_text(p) for p in content if isinstance(p, Mapping) and p.get("type") == "thinking"]
        text, think = "".join(t for t in texts if isinstance(t, str)), "".join(thinks)
    else:
        text, think = (content if isinstance(content, str) else ""), ""
    head = text.lstrip()
    if head.startswith("<think>"):
        inner, _, rest = head.removeprefix("<think>").partition("</think>")
        return rest.lstrip(), (f"{think}{inner}").strip()
    return text, think


def _refusal(message: Mapping[str, Any]) -> str:
    refusal = _string(message.get("refusal"))
    if refusal is None and isinstance(message.get("content"), list):
        parts = [p for p in message["content"] if isinstance(p, Mapping) and p.get("type") == "refusal"]
        refusal = "".join(_string(p.get("refusal")) or "" for p in parts)
    return refusal or ""


def _stop(
    raw: str | None, choice: Mapping[str, Any], refusal: str, calls: bool, text: bool
) -> tuple[StopReason, Mapping[str, Any] | None]:
    """Content goes before the provider's word: calls are calls, a refusal is one under any finish reason."""
    if refusal:
        return StopReason.REFUSAL, {"type": "refusal", "category": None, "explanation": refusal}
    stop = _STOPS.get(raw or "stop", StopReason.END_TURN)
    if raw in _FAILED:
        return StopReason.ERROR, None
    if stop is StopReason.CONTENT_FILTER:
        details: dict[str, Any] = {"type": "refusal", "category": raw, "explanation": None}
        if isinstance(results := choice.get("content_filter_results"), Mapping):
            details["content_filter_results"] = dict(results)
        return (StopReason.CONTENT_FILTER if text or calls else StopReason.REFUSAL), details
    if stop in (StopReason.END_TURN, StopReason.STOP_SEQUENCE, StopReason.TOOL_USE):
        return (StopReason.TOOL_USE if calls else StopReason.END_TURN if stop is StopReason.TOOL_USE else stop), None
    return stop, None


def parse_usage(usage: Any) -> Usage:
    """Tokens, each counted once: `prompt_tokens` includes the cached ones. Missing usage is unknown, never an error."""
    if not isinstance(usage, Mapping):
        return Usage(known=False)
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    given = usage.get("prompt_tokens_details")
    details: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    cached = _count(details, "cached_tokens") or _count(usage, "cached_tokens")
    cached = min(prompt, cached or _count(usage, "prompt_cache_hit_tokens"))
    written = min(prompt - cached, _count(details, "cache_write_tokens"))
    given = usage.get("completion_tokens_details")
    output: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    return Usage(
        input_tokens=prompt - cached - written,
        output_tokens=completion,
        cache_read_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=min(completion, _count(output, "reasoning_tokens")),
        known="prompt_tokens" in usage or "completion_tokens" in usage,
    )


def _cost(usage: Any) -> float | None:
    """The price of the call in USD, where a gateway reports it (OpenRouter's `usage.cost`)."""
    cost = usage.get("cost") if isinstance(usage, Mapping) else None
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0


def _is_whole(raw: str | Mapping[str, Any] | None) -> bool:
    """Whether arguments are a finished JSON object: then the output limit did not cut them."""
    if isinstance(raw, Mapping):
        return True
    try:
        return isinstance(json.loads(raw or ""), dict)
    except (ValueError, RecursionError):
        return False


def _detail_text(detail: Any) -> str:
    """The text of a reasoning detail or a thinking part: a string, or parts of text."""
    if not isinstance(detail, Mapping):
        return ""
    for name in ("text", "summary", "thinking"):
        value = detail.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "".join(_detail_text(part) for part in value)
    return ""


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
