"""A conversation as one text prompt, for backends that take no messages: the command-line adapters.

History that holds tool calls (from another adapter, before a switch) is told in words; nothing of it is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from geode.contract import (
    AdapterCallRequest,
    AdapterError,
    Block,
    ErrorKind,
    ImageBlock,
    Message,
    Notice,
    NoticeSink,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)

__all__ = ["check_text_only", "flatten"]


def flatten(request: AdapterCallRequest) -> str:
    """The prompt: the text itself where the conversation is one user message, else a transcript to continue."""
    names: dict[str, str] = {}
    messages = [(m, _told(m, names)) for m in request.messages]
    messages = [(m, text) for m, text in messages if text]
    if len(messages) == 1 and messages[0][0].role == "user":
        prompt = messages[0][1]
    else:
        turns = [f"{m.role.capitalize()}:\n{text}" for m, text in messages]
        prompt = "\n\n".join(
            ["The conversation so far:", *turns, "Write the assistant's next message. Give its text only."]
        )
    if request.response_schema is not None:
        prompt = f"{prompt}\n\n{_schema_text(request.response_schema)}"
    return prompt


def _schema_text(schema: Mapping[str, Any]) -> str:
    text = json.dumps(schema, ensure_ascii=False, default=str)
    return f"Answer with one JSON value and nothing else, no code fence. It must match this JSON Schema:\n{text}"


def _told(message: Message, names: dict[str, str]) -> str:
    return "\n".join(text for text in (_block(b, names) for b in message.content) if text)


def _block(block: Block, names: dict[str, str]) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ReasoningBlock):
        return f"[reasoning] {block.text}" if block.text else ""
    if isinstance(block, ImageBlock):
        return f"[an image, {block.media_type}, that cannot be shown here]"
    if isinstance(block, ToolUseBlock):
        names[block.id] = block.name
        given = block.arguments or json.dumps(dict(block.input), ensure_ascii=False, default=str)
        return f"[tool call] {block.name} {given}"
    return f"[tool {'error' if block.is_error else 'result'}] {names.get(block.tool_use_id, '')}: {_result(block)}"


def _result(block: ToolResultBlock) -> str:
    if isinstance(block.content, str):
        return block.content
    return "\n".join(_block(b, {}) for b in block.content)


def check_text_only(request: AdapterCallRequest, name: str, on_tools: str, notify: NoticeSink) -> None:
    """Says once that tools, a forced choice or images do not go to a text-only backend.

    Raises AdapterError(INVALID_REQUEST) for tools or a forced choice where `on_tools` is `error`.
    """
    if request.tools or request.tool_choice.forced:
        what = f"{len(request.tools)} tools" if request.tools else f"tool_choice {request.tool_choice.type}"
        if request.tools and request.tool_choice.forced:
            what += f" and tool_choice {request.tool_choice.type}"
        text = f"{name} is text only: {what} cannot be passed on"
        if on_tools == "error":
            message = f"{text} (adapter.on_tools=degrade goes on without)"
            raise AdapterError(ErrorKind.INVALID_REQUEST, message, provider=name)
        notify(Notice("adapter.on_tools", f"{text}; the run goes on without", "adapter.on_tools=error"))
    if any(_has_image(block) for message in request.messages for block in message.content):
        notify(Notice("adapter.images", f"{name} is text only: images are named in the prompt, not shown"))


def _has_image(block: Block) -> bool:
    if isinstance(block, ToolResultBlock):
        return not isinstance(block.content, str) and any(isinstance(b, ImageBlock) for b in block.content)
    return isinstance(block, ImageBlock)
