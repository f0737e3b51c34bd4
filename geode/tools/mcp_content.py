"""What an MCP server answers a call with, as what a model can be given: text and images."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from geode.contract import ImageBlock, TextBlock
from geode.tools.types import ToolReturn

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["tool_return"]

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The image types that the providers take."""


def tool_return(result: CallToolResult) -> ToolReturn:
    """The result of a call: its content in order, and its structured content where the text does not say it already.

    Resources come as text (or an image); what no model here can take, audio say, is named with its type and size.
    """
    blocks = [block for item in result.content for block in _blocks(item)]
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    if result.structured_content is not None and not _said(result.structured_content, texts):
        blocks.append(TextBlock(json.dumps(result.structured_content, ensure_ascii=False, default=str)))
    content: Any = blocks
    if all(isinstance(block, TextBlock) for block in blocks):
        content = "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    return ToolReturn(content, is_error=bool(result.is_error))


def _blocks(item: Any) -> Sequence[TextBlock | ImageBlock]:
    match item.type:
        case "text":
            return [TextBlock(item.text)]
        case "image":
            return [_binary(item.data, item.mime_type, "image")]
        case "audio":
            return [_binary(item.data, item.mime_type, "audio")]
        case "resource_link":
            parts = [f"[resource {item.uri}]", item.title or item.name, item.mime_type, item.description]
            return [TextBlock(" ".join(str(part) for part in parts if part))]
        case "resource":
            resource = item.resource
            label = f"resource {resource.uri}"
            if (text := getattr(resource, "text", None)) is not None:
                return [TextBlock(f"[{label}]\n{text}")]
            shown = _binary(resource.blob, resource.mime_type or "application/octet-stream", label)
            return [shown] if isinstance(shown, TextBlock) else [TextBlock(f"[{label}]"), shown]
        case _:
            return [TextBlock(json.dumps(item.model_dump(mode="json", by_alias=True, exclude_none=True)))]


def _binary(data: str, media_type: str, label: str) -> TextBlock | ImageBlock:
    try:
        size = len(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return TextBlock(f"[{label}: {media_type}, its data is not base64]")
    if media_type in _IMAGES and size:
        return ImageBlock(media_type, data)
    return TextBlock(f"[{label}: {size} bytes of {media_type}, which cannot be shown here]")


def _said(value: Any, texts: Sequence[str]) -> bool:
    """Whether the text content is the structured content over again, as the protocol asks servers to write it."""
    wrapped = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else None
    for candidate in (value, wrapped):
        if candidate is None:
            continue
        if any(_same(text, candidate) for text in texts):
            return True
        if isinstance(candidate, list) and len(candidate) == len(texts) and all(map(_same, texts, candidate)):
            return True
    return wrapped == [] and not texts


def _same(text: str, value: Any) -> bool:
    if text == value:
        return True
    try:
        return bool(json.loads(text) == value)
    except ValueError:
        return False
