"""From turns and tools to the `messages` and `tools` of Chat Completions.

The forms are those of OpenAI's API reference ("Create chat completion") that the servers which speak this wire (Z.ai,
vLLM, llama.cpp, Ollama, gateways) take as well: string content where there is only text, tool messages of text alone,
reasoning sent back under the field it came in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from geode.adapters.arguments import replay_arguments
from geode.adapters.history import Turn, spoken
from geode.contract import Block, ImageBlock, Message, ReasoningBlock, Source, TextBlock, ToolResultBlock, ToolUseBlock

__all__ = ["EMPTY_INPUT", "MessageRenderer", "dump"]

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
EMPTY_INPUT = b'{"role":"user","content":""}'
"""Stands for a conversation without a message, which the API refuses."""

_NO_CONTENT = "(no content)"
"""Content of a replayed turn of reasoning alone: a message needs content or calls."""


def dump(value: Any) -> bytes:
    """Compact JSON in UTF-8. Lone surrogates, which UTF-8 cannot hold, are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


class MessageRenderer:
    """Renders turns for one backend.

    source: whose reasoning is this backend's own; another's goes as plain text. images: the model takes images.
    empty_content: content of a turn of calls alone, None for JSON null. always: the reasoning field that every tool
    turn must have, "" where there is none; None where it need not. placeholder: content of a turn of reasoning alone.
    alias: a tool's own name to its name on the wire.
    """

    __slots__ = ("_always", "_empty_content", "_images", "_placeholder", "_source", "alias")

    def __init__(
        self,
        source: Source,
        *,
        images: bool,
        empty_content: str | None = None,
        always: str | None = None,
        placeholder: str | None = None,
    ) -> None:
        self._source = source
        self._images = images
        self._empty_content = empty_content
        self._always = always
        self._placeholder = placeholder or empty_content or _NO_CONTENT
        self.alias: Callable[[str], str] = str

    def normalise(self, message: Message) -> tuple[Block, ...]:
        """What one message has to say here: no empty text, others' reasoning as plain text (or not at all)."""
        return spoken(message, self._source)

    def render(self, turn: Turn) -> Sequence[bytes]:
        """The messages of one turn, each as JSON."""
        messages = [self._assistant(turn)] if turn.role == "assistant" else self._user(turn)
        return [dump(message) for message in messages]

    def _assistant(self, turn: Turn) -> dict[str, Any]:
        text = "\n".join(b.text for b in turn.blocks if isinstance(b, TextBlock))
        calls = [self._call(b) for b in turn.blocks if isinstance(b, ToolUseBlock)]
        reasoning = _reasoning(turn)
        message: dict[str, Any] = {"role": "assistant"}
        message["content"] = text or (self._empty_content if calls else self._placeholder)
        if calls and self._always is not None and not reasoning:
            reasoning = {self._always: ""}
        message.update(reasoning)
        if calls:
            message["tool_calls"] = calls
        return message

    def _call(self, call: ToolUseBlock) -> dict[str, Any]:
        function = {"name": self.alias(call.name), "arguments": replay_arguments(call)}
        return {"id": call.id, "type": "function", "function": function}

    def _user(self, turn: Turn) -> list[dict[str, Any]]:
        """Tool messages right after their calls, then one user message: the results' images, then what was said."""
        messages: list[dict[str, Any]] = []
        parts: list[dict[str, Any]] = []
        shown = 0
        for result in turn.results:
            content, images = self._result(result, shown)
            messages.append({"role": "tool", "tool_call_id": result.tool_use_id, "content": content})
            for image in images:
                shown += 1
                parts.append({"type": "text", "text": f"Image {shown}, from the tool result {result.tool_use_id}:"})
                parts.append(_image(image))
        for block in turn.blocks:
            if isinstance(block, TextBlock):
                parts.append({"type": "text", "text": block.text})
            elif isinstance(block, ImageBlock):
                problem = self._problem(block)
                parts.append({"type": "text", "text": problem} if problem else _image(block))
        if parts:
            only_text = all(part["type"] == "text" for part in parts)
            content = "\n".join(part["text"] for part in parts) if only_text else ""
            messages.append({"role": "user", "content": content if only_text else parts})
        return messages

    def _result(self, result: ToolResultBlock, shown: int) -> tuple[str, list[ImageBlock]]:
        """(text of the tool message, images that follow it). The wire has no error flag: the text says so."""
        images: list[ImageBlock] = []
        if isinstance(result.content, str):
            text = result.content
        else:
            lines: list[str] = []
            for block in result.content:
                if isinstance(block, TextBlock):
                    lines.append(block.text)
                elif problem := self._problem(block):
                    lines.append(problem)
                else:
                    images.append(block)
                    lines.append(f"[image {shown + len(images)}: {block.media_type}, in the next user message]")
            text = "\n".join(lines)
        return (json.dumps({"error": text}, ensure_ascii=False) if result.is_error else text), images

    def _problem(self, image: ImageBlock) -> str:
        """The text in place of an image that cannot be sent; "" where it can."""
        if not self._images:
            return f"[image of type {image.media_type} left out: this model takes no images]"
        if image.media_type not in IMAGE_TYPES:
            return f"[image of type {image.media_type} left out: only JPEG, PNG, GIF and WebP can be sent]"
        return ""


def _image(image: ImageBlock) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}}


def _reasoning(turn: Turn) -> dict[str, Any]:
    """The reasoning fields of a turn, unmodified; those of merged messages are joined field by field."""
    fields: dict[str, Any] = {}
    for block in turn.blocks:
        if not isinstance(block, ReasoningBlock):
            continue
        for name, value in block.raw.items():
            known = fields.get(name)
            if isinstance(known, str) and isinstance(value, str):
                fields[name] = f"{known}\n{value}"
            elif isinstance(known, list) and isinstance(value, list):
                fields[name] = [*known, *value]
            else:
                fields[name] = value
    return fields
