"""A streamed Responses API answer, put together by hand into the response object that an unstreamed one is.

By hand, since servers that speak this wire leave out `sequence_number`, `output_index`, `content_index` or whole
events, on which the SDK's own accumulator raises. `response.completed` is the answer; items from `output_item.done`
stand in where its `output` is empty (the Codex backend), deltas where even those are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from geode.contract import Delta

__all__ = ["ResponseAssembler"]

_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.done"})

_DELTAS = {
    "response.output_text.delta": ("message", "text"),
    "response.refusal.delta": ("message", "refusal"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary"),
    "response.reasoning_text.delta": ("reasoning", "content"),
    "response.function_call_arguments.delta": ("function_call", "arguments"),
}
_SHOWN = {"message": "text", "reasoning": "reasoning", "function_call": "tool"}
_WHOLE = {
    "response.output_text.done": ("message", "text", "text"),
    "response.refusal.done": ("message", "refusal", "refusal"),
    "response.function_call_arguments.done": ("function_call", "arguments", "arguments"),
}


@dataclass(slots=True)
class _Slot:
    """One output item in the making."""

    kind: str
    index: int | None
    item_id: str | None
    item: dict[str, Any]
    done: bool = False
    pieces: dict[str, list[str]] = field(default_factory=dict)

    def assembled(self, status: str) -> dict[str, Any]:
        """The item as it stands: its final form, or what its deltas make."""
        if self.done:
            return self.item
        item = {**self.item, "type": self.kind, "status": status}
        text = {name: "".join(pieces) for name, pieces in self.pieces.items()}
        if self.kind == "function_call" and "arguments" in text:
            item["arguments"] = text["arguments"]
        elif self.kind == "message" and text:
            item["content"] = [
                {"type": "refusal", "refusal": t} if name == "refusal" else {"type": "output_text", "text": t}
                for name, t in text.items()
            ]
        elif self.kind == "reasoning":
            item["summary"] = [{"type": "summary_text", "text": text["summary"]}] if "summary" in text else []
            if "content" in text:
                item["content"] = [{"type": "reasoning_text", "text": text["content"]}]
        return item


class ResponseAssembler:
    """Takes the events of one stream in their order."""

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._base: dict[str, Any] = {}
        self._final: dict[str, Any] | None = None

    @property
    def finished(self) -> bool:
        """Whether the response's last event has come."""
        return self._final is not None

    @property
    def started(self) -> bool:
        """Whether any output has come."""
        return bool(self._slots)

    def feed(self, event: Mapping[str, Any]) -> Delta | None:
        """Takes one event; gives what there is to show of it. Unknown events are skipped."""
        kind = event.get("type")
        if not isinstance(kind, str):
            return None
        if kind in _DELTAS:
            item_kind, name = _DELTAS[kind]
            piece = event.get("delta")
            if not isinstance(piece, str) or not piece:
                return None
            self._slot(event, item_kind).pieces.setdefault(name, []).append(piece)
            return Delta(_SHOWN[item_kind], piece)  # type: ignore[arg-type]
        if kind in _WHOLE:
            item_kind, name, key = _WHOLE[kind]
            if isinstance(event.get(key), str) and not _has_parts(event):
                self._slot(event, item_kind).pieces[name] = [event[key]]
        elif kind in ("response.output_item.added", "response.output_item.done"):
            item = event.get("item")
            if isinstance(item, Mapping):
                self._item(event, item, done=kind.endswith("done"))
        elif isinstance(response := event.get("response"), Mapping):
            if kind in _TERMINAL:
                self._final = dict(response)
            else:
                self._base = dict(response)
        return None

    def response(self) -> dict[str, Any]:
        """The response object: whole after the last event, before it what there is, as an incomplete one."""
        if self._final is None:
            cut = {"status": "incomplete", "incomplete_details": {"reason": "connection"}}
            return {**self._base, **cut, "output": [slot.assembled("incomplete") for slot in self._slots]}
        response = dict(self._final)
        output = response.get("output")
        if not isinstance(output, list) or not output:
            status = "incomplete" if response.get("status") == "incomplete" else "completed"
            response["output"] = [slot.assembled(status) for slot in self._slots]
        else:
            response["output"] = [self._with_encrypted(item) for item in output]
        return response

    def _with_encrypted(self, item: Any) -> Any:
        """The final item's `encrypted_content` counts; the earlier one's stands in only where it has none."""
        if not isinstance(item, Mapping) or item.get("type") != "reasoning" or item.get("encrypted_content"):
            return item
        for slot in self._slots:
            if slot.done and slot.item_id and slot.item_id == item.get("id") and slot.item.get("encrypted_content"):
                return {**item, "encrypted_content": slot.item["encrypted_content"]}
        return item

    def _item(self, event: Mapping[str, Any], item: Mapping[str, Any], *, done: bool) -> None:
        kind = str(item.get("type"))
        index, item_id = _place(event.get("output_index")), _text(item.get("id"))
        slot = self._find(index, item_id)
        if slot is None and index is None and done:
            # No index, and ids that do not match: the oldest open item of the kind is the one that is done.
            slot = next((s for s in self._slots if not s.done and s.kind == kind), None)
        if slot is None:
            slot = self._add(_Slot(kind, index, item_id, {}))
        slot.kind, slot.item_id = kind, item_id or slot.item_id
        slot.item = dict(item)
        slot.done = slot.done or done

    def _slot(self, event: Mapping[str, Any], kind: str) -> _Slot:
        index, item_id = _place(event.get("output_index")), _text(event.get("item_id"))
        slot = self._find(index, item_id)
        if slot is None and index is None:
            slot = next((s for s in reversed(self._slots) if not s.done and s.kind == kind), None)
        return slot or self._add(_Slot(kind, index, item_id, {}))

    def _find(self, index: int | None, item_id: str | None) -> _Slot | None:
        if index is not None:
            return next((s for s in self._slots if s.index == index), None)
        if item_id is not None:
            return next((s for s in self._slots if s.item_id == item_id), None)
        return None

    def _add(self, slot: _Slot) -> _Slot:
        position = len(self._slots)
        if slot.index is not None:
            while position and (self._slots[position - 1].index or 0) > slot.index:
                position -= 1
        self._slots.insert(position, slot)
        return slot


def _has_parts(event: Mapping[str, Any]) -> bool:
    """Whether this is a later part of an item of several, whose whole text is its own part's only."""
    return isinstance(event.get("content_index"), int) and event["content_index"] > 0


def _place(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
