"""From neutral messages to the Messages API's: what each block becomes, as JSON bytes.

The rules are those of Anthropic's Messages reference and of the errors its API answers with: tool results before text,
no empty text blocks, no trailing white space in a final assistant text, thinking blocks unchanged or not at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from geode.adapters.arguments import replay_input, unique_ids
from geode.adapters.history import Transcript, Turn
from geode.adapters.messages_tools import Toolbox
from geode.contract import (
    Block,
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)

__all__ = ["IMAGE_TYPES", "NO_CONTENT", "Normaliser", "Renderer", "dumps"]

NO_CONTENT = "(no content)"
"""Stands where the API wants text and there is none."""

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})

_ILLEGAL_ID = re.compile(r"[^a-zA-Z0-9_-]")
_REMEMBERED = 16


def dumps(value: Any) -> bytes:
    """Compact JSON, UTF-8, keys in their order. A lone surrogate becomes `?` and NaN null: JSON has neither."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        value = json.loads(json.dumps(value), parse_constant=lambda _: None)
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


class Normaliser:
    """What one message becomes on this wire, before turns are made: the same blocks each time it is asked.

    adapter, model: whose reasoning blocks are sent back verbatim; others go as plain text. images: the backend takes
    images.
    """

    __slots__ = ("_adapter", "_forgotten", "_images", "_known", "_model")

    def __init__(self, adapter: str, model: str, images: bool) -> None:
        self._adapter = adapter
        self._model = model
        self._images = images
        self._known: dict[int, tuple[Message, tuple[Block, ...]]] = {}
        self._forgotten: dict[int, ReasoningBlock] = {}

    def __call__(self, message: Message) -> tuple[Block, ...]:
        known = self._known.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        blocks = self._assistant(message) if message.role == "assistant" else self._user(message)
        if len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[id(message)] = (message, blocks)
        return blocks

    def forget_thinking(self, messages: Sequence[Message]) -> bool:
        """Leaves the thinking in `messages` out from now on. False where there is none that would be sent."""
        found = [
            block
            for message in messages
            for block in message.content
            if isinstance(block, ReasoningBlock) and _is_thinking(block) and self._own(block)
        ]
        self._forgotten.update((id(block), block) for block in found)
        self._known.clear()
        return bool(found)

    def _user(self, message: Message) -> tuple[Block, ...]:
        blocks: list[Block] = []
        for block in message.content:
            if isinstance(block, ReasoningBlock) or (isinstance(block, TextBlock) and not block.text.strip()):
                continue
            if isinstance(block, ImageBlock) and (why := self._no_image(block)):
                block = TextBlock(why)
            elif isinstance(block, ToolResultBlock) and not isinstance(block.content, str):
                block = self._result(block)
            blocks.append(block)
        return tuple(blocks)

    def _result(self, result: ToolResultBlock) -> ToolResultBlock:
        """A result with the images that cannot go as text. A failed result takes text only."""
        parts: list[TextBlock | ImageBlock] = []
        for part in result.content:
            if isinstance(part, ImageBlock):
                why = self._no_image(part)
                if result.is_error and not why:
                    why = f"[image of type {part.media_type} left out: a failed result takes text only]"
                parts.append(TextBlock(why) if why else part)
            elif isinstance(part, TextBlock) and part.text.strip():
                parts.append(part)
        return ToolResultBlock(result.tool_use_id, tuple(parts), result.is_error)

    def _no_image(self, image: ImageBlock) -> str:
        """Text in place of an image that the backend does not take, "" where it does."""
        if not self._images:
            return f"[image of type {image.media_type} left out: the model takes no images]"
        if image.media_type not in IMAGE_TYPES:
            return f"[image of type {image.media_type} left out: only JPEG, PNG, GIF and WebP can be sent]"
        return ""

    def _assistant(self, message: Message) -> tuple[Block, ...]:
        blocks: list[Block] = []
        for block in message.content:
            if isinstance(block, ReasoningBlock):
                if self._own(block):
                    blocks.append(block)
                elif block.text.strip() and id(block) not in self._forgotten:
                    blocks.append(TextBlock(block.text))
            elif isinstance(block, TextBlock):
                if block.text.strip():
                    blocks.append(block)
            elif isinstance(block, ToolUseBlock):
                blocks.append(block)
        after: Block | None = None
        for index, block in reversed(list(enumerate(blocks))):
            if isinstance(block, ReasoningBlock):  # it may be bound to what stands before it, to the letter
                break
            if isinstance(block, TextBlock) and not isinstance(after, TextBlock):
                stripped = block.text.rstrip()
                blocks[index] = block if stripped == block.text else TextBlock(stripped)
            after = block
        if blocks and all(isinstance(b, ReasoningBlock) and _is_thinking(b) for b in blocks):
            blocks.append(TextBlock(NO_CONTENT))
        return tuple(blocks)

    def _own(self, block: ReasoningBlock) -> bool:
        """Whether a block goes back verbatim: it came from here, and thinking carries its signature."""
        source = block.source
        if id(block) in self._forgotten:
            return False
        if source.wire != "messages" or source.adapter != self._adapter or source.model != self._model:
            return False
        kind = block.raw.get("type")
        if kind == "thinking":
            return bool(block.raw.get("signature"))
        if kind == "redacted_thinking":
            return bool(block.raw.get("data"))
        return isinstance(kind, str)


def _is_thinking(block: ReasoningBlock) -> bool:
    return block.raw.get("type") in ("thinking", "redacted_thinking")


class Renderer:
    """One history's transcript, rendered with the toolbox of the request at hand."""

    __slots__ = ("_toolbox", "_transcript")

    def __init__(self, normalise: Normaliser) -> None:
        # The API takes consecutive assistant messages and combines them itself: a continued `pause_turn` answer is
        # sent back as it was (Anthropic's "Stop reasons": the paused response is appended, then the next one).
        self._transcript = Transcript(self._render, normalise, merge=False)
        self._toolbox: Toolbox | None = None

    def pieces(self, messages: Sequence[Message], toolbox: Toolbox) -> list[bytes | bytearray]:
        """The items of the `messages` array, without its brackets, in pieces."""
        self._toolbox = toolbox
        return self._transcript.pieces(messages, toolbox.key)

    def _render(self, turn: Turn) -> list[bytes]:
        assert self._toolbox is not None
        return _render(turn, self._toolbox)


def _render(turn: Turn, toolbox: Toolbox) -> list[bytes]:
    """The items of the `messages` array that a turn becomes."""
    if turn.role == "user":
        ids = _wire_ids([r.tool_use_id for r in turn.results])
        user = [_user_block(b, ids) for b in turn.blocks]
        return [_item(b"user", user)] if user else []
    ids = _wire_ids([c.id for c in turn.calls])
    items = [_item(b"assistant", [_assistant_block(b, ids, toolbox) for b in turn.blocks])]
    if turn.start == 0:  # the API wants a user message first
        items.insert(0, _item(b"user", [dumps({"type": "text", "text": NO_CONTENT})]))
    return items


def _item(role: bytes, content: list[bytes]) -> bytes:
    return b'{"role":"' + role + b'","content":[' + b",".join(content) + b"]}"


def _wire_ids(ids: Sequence[str]) -> dict[str, str]:
    """Ids as the API takes them, unique in their turn. Calls and results have the same ids in the same order, so both
    sides come to the same ones."""
    legal = [_ILLEGAL_ID.sub("_", i) for i in ids]
    return dict(zip(ids, unique_ids(legal, 0), strict=True))


def _user_block(block: Block, ids: dict[str, str]) -> bytes:
    if isinstance(block, ToolResultBlock):
        return _result(block, ids[block.tool_use_id])
    return dumps(_plain(block))


def _plain(block: Block) -> dict[str, Any]:
    if isinstance(block, ImageBlock):
        return {"type": "image", "source": {"type": "base64", "media_type": block.media_type, "data": block.data}}
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    raise TypeError(f"a {type(block).__name__} has no place here")


def _result(result: ToolResultBlock, identifier: str) -> bytes:
    content: Any
    if isinstance(result.content, str):
        content = result.content if result.content.strip() else NO_CONTENT
    else:
        content = [_plain(b) for b in result.content] or NO_CONTENT
    value: dict[str, Any] = {"type": "tool_result", "tool_use_id": identifier, "content": content}
    if result.is_error:
        value["is_error"] = True
    return dumps(value)


def _assistant_block(block: Block, ids: dict[str, str], toolbox: Toolbox) -> bytes:
    if isinstance(block, ReasoningBlock):
        return dumps(dict(block.raw))
    if isinstance(block, ToolUseBlock):
        head = dumps({"type": "tool_use", "id": ids[block.id], "name": toolbox.aliases.to_wire(block.name)})
        return head[:-1] + b',"input":' + _input(block, toolbox) + b"}"
    return dumps(_plain(block))


def _input(call: ToolUseBlock, toolbox: Toolbox) -> bytes:
    """The call's input: the model's own text where it is kept, since a re-dump may spell a number another way."""
    if call.fault is None and call.arguments is not None and _is_object(call.arguments):
        return call.arguments.encode("utf-8", "replace")
    value = replay_input(call)
    return dumps(toolbox.wire_input(call.name, value) if call.fault is None else dict(value))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
