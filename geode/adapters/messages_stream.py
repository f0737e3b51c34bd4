"""Assembles a streamed Messages answer into the object that the same call gives unstreamed.

Events are those of Anthropic's streaming reference. Unknown events and deltas are skipped, as it asks of clients.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from geode.adapters.sdk import Payload
from geode.contract import Delta

__all__ = ["MessageAssembler"]


class MessageAssembler:
    """Takes the events of one stream in order.

    complete: the answer ended by its own end mark, or at least with a stop reason. A stream that ends before that was
    cut. started: there is something to read at all.
    """

    __slots__ = ("_blocks", "_json", "_message", "complete")

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._json: dict[int, str] = {}
        self.complete = False

    @property
    def started(self) -> bool:
        return bool(self._message) or bool(self._blocks)

    def feed(self, event: Mapping[str, Any]) -> Delta | None:
        """Takes an event in; gives the piece of display that it holds, if any."""
        kind = event.get("type")
        if kind == "content_block_delta":
            return self._delta(self._index(event), event.get("delta"))
        if kind == "content_block_start":
            return self._start(self._index(event), event.get("content_block"))
        if kind == "message_start":
            message = event.get("message")
            if isinstance(message, Mapping):
                self._message = dict(message)
        elif kind == "message_delta":
            self._message_delta(event)
        elif kind == "message_stop":
            self.complete = True
        return None

    def payload(self, request_id: str | None = None) -> Payload:
        """The `message` object of what has come so far."""
        content = self._message.get("content")
        blocks = list(content) if isinstance(content, list) else []
        for index in sorted(self._blocks):
            block = dict(self._blocks[index])
            if index in self._json:
                block["input"] = _input(self._json[index], block.get("type") == "tool_use")
            blocks.append(block)
        return Payload({**self._message, "content": blocks}, request_id)

    def _index(self, event: Mapping[str, Any]) -> int:
        index = event.get("index")
        if isinstance(index, int):
            return index
        last = max(self._blocks, default=-1)
        return last + 1 if event.get("type") == "content_block_start" else max(last, 0)

    def _start(self, index: int, block: Any) -> Delta | None:
        if not isinstance(block, Mapping):
            return None
        self._blocks[index] = dict(block)
        kind = block.get("type")
        if kind == "text" and isinstance(block.get("text"), str) and block["text"]:
            return Delta("text", block["text"])
        if kind == "thinking" and isinstance(block.get("thinking"), str) and block["thinking"]:
            return Delta("reasoning", block["thinking"])
        if kind == "tool_use" and isinstance(block.get("name"), str):
            return Delta("tool", block["name"])
        return None

    def _delta(self, index: int, delta: Any) -> Delta | None:
        if not isinstance(delta, Mapping):
            return None
        kind = delta.get("type")
        if kind == "text_delta":
            text = self._grow(index, "text", "text", delta.get("text"))
            return Delta("text", text) if text else None
        if kind == "thinking_delta":
            text = self._grow(index, "thinking", "thinking", delta.get("thinking"))
            return Delta("reasoning", text) if text else None
        if kind == "signature_delta":
            self._grow(index, "thinking", "signature", delta.get("signature"))
        elif kind == "input_json_delta":
            piece = delta.get("partial_json")
            if isinstance(piece, str):
                self._blocks.setdefault(index, {"type": "tool_use"})
                self._json[index] = self._json.get(index, "") + piece
        elif kind == "citations_delta" and isinstance(delta.get("citation"), Mapping):
            block = self._blocks.setdefault(index, {"type": "text", "text": ""})
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        return None

    def _grow(self, index: int, kind: str, key: str, text: Any) -> str:
        if not isinstance(text, str):
            return ""
        block = self._blocks.setdefault(index, {"type": kind})
        block[key] = (block.get(key) or "") + text
        return text

    def _message_delta(self, event: Mapping[str, Any]) -> None:
        delta, usage = event.get("delta"), event.get("usage")
        if isinstance(delta, Mapping):
            self._message.update({k: v for k, v in delta.items() if v is not None})
            self.complete = self.complete or delta.get("stop_reason") is not None
        if isinstance(usage, Mapping):
            known = self._message.get("usage")
            given = {k: v for k, v in usage.items() if v is not None}
            self._message["usage"] = {**(known if isinstance(known, Mapping) else {}), **given}


def _input(text: str, call: bool) -> Any:
    """The `input` of a block from its streamed text: the object, as an unstreamed answer has it. The text itself where
    it is no object, or where writing the object anew would not give the same text (1e3, spacing, repeated keys)."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text if call else {}
    if not isinstance(value, dict):
        return text if call else {}
    if not call or text in _usual(value):
        return value
    return text


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _usual(value: dict[str, Any]) -> set[str]:
    return {
        json.dumps(value, ensure_ascii=ascii_only, separators=separators)
        for ascii_only in (False, True)
        for separators in ((",", ":"), (", ", ": "))
    }
