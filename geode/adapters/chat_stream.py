"""Puts the chunks of a streamed Chat Completions answer together into the object that an unstreamed call returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from geode.contract import Delta

__all__ = ["ChatAssembler"]

_TEXT_FIELDS = ("content", "refusal", "reasoning_content", "reasoning")


class ChatAssembler:
    """Chunks in, one chat completion out.

    Calls are keyed by their index; id and name come with the first delta only. Servers that leave the index out, or
    give each of several whole calls the index 0, are told apart by their ids. The last usage seen counts: it comes
    in a chunk of its own without choices, or with every chunk.
    """

    def __init__(self, reasoning_field: str, on_delta: Callable[[Delta], None] | None = None) -> None:
        self._fields = tuple(dict.fromkeys((*_TEXT_FIELDS, reasoning_field)))
        self._on_delta = on_delta
        self._top: dict[str, Any] = {}
        self._text: dict[str, list[str]] = {}
        self._details: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._by_index: dict[int, dict[str, Any]] = {}
        self._choice: dict[str, Any] = {}
        self.started = False
        """A chunk with a choice has come."""
        self.finished = False
        """A finish reason has come."""

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Takes one chunk."""
        for name in ("id", "created", "model", "service_tier", "system_fingerprint"):
            if chunk.get(name) is not None:
                self._top.setdefault(name, chunk[name])
        if isinstance(chunk.get("usage"), Mapping):
            self._top["usage"] = chunk["usage"]
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, Mapping) or choice.get("index") not in (None, 0):
            return
        self.started = True
        self._choice.update({k: v for k, v in choice.items() if k == "content_filter_results"})
        if isinstance(choice.get("usage"), Mapping):
            self._top["usage"] = choice["usage"]
        delta = choice.get("delta")
        if isinstance(delta, Mapping):
            self._add_delta(delta)
        if choice.get("finish_reason"):
            self._choice["finish_reason"] = choice["finish_reason"]
            self.finished = True

    @property
    def anything(self) -> bool:
        """Whether anything of an answer has come: text, reasoning or a call."""
        return bool(self._text or self._calls or self._details)

    def payload(self) -> dict[str, Any]:
        """The chat completion as far as it has come."""
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message.update({name: "".join(pieces) for name, pieces in self._text.items()})
        if self._details:
            message["reasoning_details"] = self._details
        if self._calls:
            message["tool_calls"] = [_joined(call) for call in self._calls]
        choice = {"index": 0, "finish_reason": None, **self._choice, "message": message}
        return {"object": "chat.completion", **self._top, "choices": [choice]}

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        for name in self._fields:
            value = delta.get(name)
            if name == "content" and isinstance(value, list):
                value = "".join(p["text"] for p in value if isinstance(p, Mapping) and isinstance(p.get("text"), str))
            if isinstance(value, str) and value:
                self._text.setdefault(name, []).append(value)
                self._show("text" if name in ("content", "refusal") else "reasoning", value)
        details = delta.get("reasoning_details")
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, Mapping):
                self._add_detail(detail)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping):
                self._add_call(call)

    def _add_detail(self, detail: Mapping[str, Any]) -> None:
        """Pieces of one detail share its index and type; their texts are joined, the rest is kept."""
        index = detail.get("index")
        for known in self._details if index is not None else ():
            if known.get("index") == index and known.get("type") == detail.get("type"):
                for name, value in detail.items():
                    if name in ("text", "summary", "data") and isinstance(known.get(name), str) and value:
                        known[name] += value
                    elif value is not None:
                        known[name] = value
                return
        self._details.append(dict(detail))

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        function = piece.get("function")
        function = function if isinstance(function, Mapping) else {}
        call = self._call(piece)
        if not call["id"] and isinstance(piece.get("id"), str):
            call["id"] = piece["id"]
        name = function.get("name")
        if not call["name"] and isinstance(name, str) and name:
            call["name"] = name
            self._show("tool", name)
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call["pieces"].append(arguments)
            if arguments:
                self._show("tool", arguments)
        elif isinstance(arguments, Mapping):
            call["object"] = arguments

    def _call(self, piece: Mapping[str, Any]) -> dict[str, Any]:
        """The call that a piece belongs to, or a new one."""
        index, identifier = piece.get("index"), piece.get("id")
        if isinstance(index, int):
            known = self._by_index.get(index)
        else:
            known = self._calls[-1] if self._calls else None
            function = piece.get("function")
            if not identifier and isinstance(function, Mapping) and function.get("name"):
                known = None
        if known is not None and not (identifier and known["id"] and identifier != known["id"]):
            return known
        call: dict[str, Any] = {"id": "", "name": "", "pieces": [], "object": None}
        self._calls.append(call)
        if isinstance(index, int):
            self._by_index[index] = call
        return call

    def _show(self, kind: Any, text: str) -> None:
        if self._on_delta is not None:
            self._on_delta(Delta(kind, text))


def _joined(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = call["object"] if call["object"] is not None else "".join(call["pieces"])
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}
