"""From turns to the `input` items of the Responses API.

Items are those of OpenAI's API reference ("Create a model response", `input`), in the forms that servers which speak
this wire (llama.cpp, vLLM, the Codex backend) take as well: messages with string content where there is only text, no
item ids unless the provider stores them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from geode.adapters.arguments import replay_arguments
from geode.adapters.history import Turn, is_empty, spoken
from geode.contract import (
    Block,
    ImageBlock,
    Message,
    ReasoningBlock,
    Source,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)

__all__ = ["EMPTY_INPUT", "ItemRenderer", "dump"]

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})

EMPTY_INPUT = b'{"type":"message","role":"user","content":""}'
"""Stands for an input of no items, which the API refuses."""

_MAX_CALL_ID = 64
"""Longest `call_id` that the API takes."""

_OUTPUT_ONLY = ("status", "created_by")
"""Keys of an output item that are no part of the same item as input."""

_ID_OPTIONAL = frozenset({"reasoning", "tool_search_call", "tool_search_output", "compaction"})
"""Item types that go back without their id where the provider does not store it (it answers 404 to an unknown one)."""


def dump(value: Any) -> bytes:
    """Compact JSON in UTF-8. Lone surrogates, which UTF-8 cannot hold, are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


class ItemRenderer:
    """Renders turns for one backend.

    source: whose reasoning, item ids and namespaces are this backend's own; others' are not sent back to it. store:
    the provider keeps items, so that their ids mean something to it. encrypted: it is asked for encrypted reasoning.
    images: the model takes images. placeholder: text that follows an answer of reasoning alone. alias: a tool's own
    name to its name on the wire.
    """

    __slots__ = ("_encrypted", "_images", "_placeholder", "_source", "_store", "alias")

    def __init__(self, source: Source, *, store: bool, encrypted: bool, images: bool, placeholder: str | None) -> None:
        self._source = source
        self._store = store
        self._encrypted = encrypted
        self._images = images
        self._placeholder = placeholder
        self.alias: Callable[[str], str] = str

    def normalise(self, message: Message) -> tuple[Block, ...]:
        """What one message has to say here: no empty text, others' reasoning as plain text (or not at all)."""
        return spoken(message, self._source)

    def render(self, turn: Turn) -> Sequence[bytes]:
        """The items of a turn, each as JSON bytes."""
        return self._assistant(turn) if turn.role == "assistant" else self._user(turn)

    def _assistant(self, turn: Turn) -> list[bytes]:
        blocks = list(turn.blocks)
        if any(isinstance(b, TextBlock | ToolUseBlock) for b in blocks):
            # The API refuses reasoning that nothing follows: what it led to is gone, so it goes too.
            while blocks and _is_reasoning(blocks[-1]):
                blocks.pop()
        elif self._placeholder:
            blocks.append(TextBlock(self._placeholder))
        items = []
        for block in blocks:
            if isinstance(block, TextBlock):
                items.append(dump(_message("assistant", block.text, block.phase)))
            elif isinstance(block, ToolUseBlock):
                items.append(dump(self._call(block)))
            elif isinstance(block, ReasoningBlock) and (item := self._opaque(block)):
                items.append(dump(item))
        return items

    def _call(self, call: ToolUseBlock) -> dict[str, Any]:
        item: dict[str, Any] = {"type": "function_call"}
        own = call.source == self._source
        if own and self._store and call.wire_id:
            item["id"] = call.wire_id
        item["call_id"] = _call_id(call.id)
        if own and call.namespace:
            item["namespace"] = call.namespace
        item["name"] = self.alias(call.name)
        item["arguments"] = replay_arguments(call)
        return item

    def _opaque(self, block: ReasoningBlock) -> dict[str, Any] | None:
        """An item that only the provider understands, as it came, less what may not go back.

        Reasoning goes back encrypted, or by id where it is stored. Its open text does only to servers that were not
        asked to encrypt it; what has none of these says nothing and does not go.
        """
        item = {key: value for key, value in block.raw.items() if key not in _OUTPUT_ONLY}
        kind = item.get("type")
        if not self._store and kind in _ID_OPTIONAL:
            item.pop("id", None)
        if kind != "reasoning":
            return item
        item["summary"] = item.get("summary") or []
        if item.get("encrypted_content"):
            item.pop("content", None)
            return item
        item.pop("encrypted_content", None)
        if self._store or self._encrypted:
            item.pop("content", None)
        return item if item.get("id") or item.get("content") else None

    def _user(self, turn: Turn) -> list[bytes]:
        items = []
        rest: list[Block] = []
        for block in turn.blocks:
            if isinstance(block, ToolResultBlock):
                items.append(
                    dump(
                        {
                            "type": "function_call_output",
                            "call_id": _call_id(block.tool_use_id),
                            "output": self._output(block),
                        }
                    )
                )
            else:
                rest.append(block)
        if len(rest) == 1 and isinstance(rest[0], TextBlock):
            items.append(dump(_message("user", rest[0].text)))
        elif rest:
            items.append(dump(_message("user", self._parts(rest))))
        return items

    def _output(self, result: ToolResultBlock) -> str | list[dict[str, Any]]:
        """A result: text, or parts in order where there are images. The wire has no error flag: the text says so."""
        content = result.content
        if isinstance(content, str) or not any(isinstance(b, ImageBlock) for b in content):
            return _error(result.text) if result.is_error else result.text
        blocks = [b for b in content if not is_empty(b)]
        if result.is_error:
            images = [b for b in blocks if isinstance(b, ImageBlock)]
            return self._parts([TextBlock(_error(result.text)), *images])
        return self._parts(blocks)

    def _parts(self, blocks: Sequence[Block]) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                parts.append({"type": "input_text", "text": block.text})
            elif isinstance(block, ImageBlock):
                parts.append(self._image(block))
        return parts

    def _image(self, image: ImageBlock) -> dict[str, Any]:
        if not self._images:
            return {"type": "input_text", "text": f"[{image.media_type} image left out: this model takes no images]"}
        if image.media_type not in IMAGE_TYPES:
            return {"type": "input_text", "text": f"[{image.media_type} image left out: this type cannot be sent]"}
        url = f"data:{image.media_type};base64,{image.data}"
        return {"type": "input_image", "image_url": url, "detail": "auto"}


def _message(role: str, content: str | list[dict[str, Any]], phase: str | None = None) -> dict[str, Any]:
    item = {"type": "message", "role": role, "content": content}
    if phase is not None:
        item["phase"] = phase
    return item


def _error(text: str) -> str:
    return json.dumps({"error": text}, ensure_ascii=False)


def _is_reasoning(block: Block) -> bool:
    return isinstance(block, ReasoningBlock) and block.raw.get("type") == "reasoning"


def _call_id(identifier: str) -> str:
    """The id as the API takes it: a longer one (another provider's) is cut, and kept apart by its digest."""
    if len(identifier) <= _MAX_CALL_ID:
        return identifier
    return f"{identifier[: _MAX_CALL_ID - 9]}_{hashlib.sha256(identifier.encode()).hexdigest()[:8]}"
