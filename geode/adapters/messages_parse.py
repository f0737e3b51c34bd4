"""From a Messages API answer to neutral blocks.

The shape is that of Anthropic's Messages reference, read with tolerance for servers that leave parts of it out.
Content decides what an answer asks for; the stop string only says how it ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geode.adapters import schemas
from geode.adapters.arguments import parse_arguments, unique_ids
from geode.adapters.messages_tools import Toolbox
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

__all__ = ["MessageReader", "parse_usage"]

_STOPS: Mapping[str, StopReason] = {
    "end_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "pause_turn": StopReason.PAUSE_TURN,
    "refusal": StopReason.REFUSAL,
    "content_filter": StopReason.REFUSAL,
    "model_context_window_exceeded": StopReason.CONTEXT_WINDOW_EXCEEDED,
}
_CUTS = frozenset({StopReason.MAX_TOKENS, StopReason.CONTEXT_WINDOW_EXCEEDED, StopReason.REFUSAL, StopReason.ERROR})
"""Ends that can fall inside the last block: a call there is not whole."""


@dataclass(frozen=True, slots=True)
class MessageReader:
    """Reads one backend's answers.

    source: stamped on the blocks that only this backend understands. toolbox: the tools of the request that is
    answered. output: the response schema as it was sent, None for none.
    """

    source: Source
    toolbox: Toolbox
    output: schemas.Sendable | None = None

    def read(self, payload: Any, round: int, *, cut: bool = False) -> AdapterCallResult:
        """The result of a `message` object. round: 1-based; missing ids are made from it. cut: a stream that broke off.

        Raises AdapterError(BAD_RESPONSE) where it is none.
        """
        if not isinstance(payload, Mapping):
            raise self._bad("the answer is no JSON object", None)
        content = payload.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if content is None and "content" in payload:
            content = []
        if not isinstance(content, list) or not all(isinstance(b, Mapping) for b in content):
            raise self._bad("the answer has no content blocks", payload)
        raw = payload.get("stop_reason")
        stop = StopReason.ERROR if cut else _STOPS.get(raw) if isinstance(raw, str) else None
        blocks = self._blocks(content, round, stop in _CUTS)
        calls = any(isinstance(b, ToolUseBlock) for b in blocks)
        if stop in (None, StopReason.END_TURN, StopReason.STOP_SEQUENCE, StopReason.TOOL_USE):
            stop = StopReason.TOOL_USE if calls else StopReason.END_TURN if stop is not _SEQUENCE else stop
        details, model = payload.get("stop_details"), payload.get("model")
        return AdapterCallResult(
            blocks,
            stop or StopReason.END_TURN,
            parse_usage(payload.get("usage")),
            model if isinstance(model, str) else "",
            raw if isinstance(raw, str) else None,
            dict(details) if isinstance(details, Mapping) else None,
            getattr(payload, "request_id", None),
        )

    def _bad(self, problem: str, payload: Mapping[str, Any] | None) -> AdapterError:
        inner = payload.get("error") if payload else None
        if isinstance(inner, Mapping) and isinstance(inner.get("message"), str):
            problem = f"{problem}: {inner['message']}"
        return AdapterError(ErrorKind.BAD_RESPONSE, problem, provider=self.source.adapter, details=payload)

    def _blocks(self, content: Sequence[Mapping[str, Any]], round: int, cut: bool) -> tuple[Block, ...]:
        given = (b.get("id") for b in content if b.get("type") == "tool_use")
        ids = unique_ids((i if isinstance(i, str) else None for i in given), round)
        calls = any(b.get("type") == "tool_use" for b in content)
        blocks: list[Block] = []
        for index, block in enumerate(content):
            kind = block.get("type")
            if kind == "text":
                if isinstance(text := block.get("text"), str) and text:
                    if self.output is not None and not calls and not cut:
                        text = schemas.undo_text(self.output, text)
                    blocks.append(TextBlock(text))
            elif kind == "tool_use":
                blocks.append(self._call(block, next(ids), cut and index == len(content) - 1))
            else:
                shown = block.get("thinking") if kind == "thinking" else None
                blocks.append(ReasoningBlock(shown if isinstance(shown, str) else "", self.source, dict(block)))
        return tuple(blocks)

    def _call(self, block: Mapping[str, Any], identifier: str, cut: bool) -> ToolUseBlock:
        raw = block.get("input")
        if raw is not None and not isinstance(raw, str | Mapping):
            raw = json.dumps(raw, ensure_ascii=False)
        value, text, fault = parse_arguments(raw, cut=cut)
        name = block.get("name")
        own = self.toolbox.aliases.to_own(name) if isinstance(name, str) else ""
        if fault is None and self.toolbox.renames(own):
            # The text speaks the wire's names, and another wire would not know them.
            value, text = self.toolbox.own_input(own, value), None
        return ToolUseBlock(identifier, own, value, text, fault)


_SEQUENCE = StopReason.STOP_SEQUENCE


def parse_usage(usage: Any) -> Usage:
    """Token counts. The API's `input_tokens` already excludes cache reads and writes; `output_tokens` includes
    thinking, whose share is given on newer models."""
    if not isinstance(usage, Mapping):
        return Usage(known=False)
    split = usage.get("cache_creation")
    hour = _count(split, "ephemeral_1h_input_tokens")
    written = max(_count(usage, "cache_creation_input_tokens"), hour + _count(split, "ephemeral_5m_input_tokens"))
    return Usage(
        input_tokens=_count(usage, "input_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        cache_read_tokens=_count(usage, "cache_read_input_tokens"),
        cache_write_tokens=written,
        cache_write_1h_tokens=hour,
        reasoning_tokens=_count(usage.get("output_tokens_details"), "thinking_tokens"),
        known=_given(usage, "input_tokens") and _given(usage, "output_tokens"),
    )


def _given(counts: Mapping[str, Any], key: str) -> bool:
    return isinstance(counts.get(key), int | float)


def _count(counts: Any, key: str) -> int:
    value = counts.get(key) if isinstance(counts, Mapping) else None
    return int(value) if isinstance(value, int | float) and value > 0 else 0
