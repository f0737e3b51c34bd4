"""From whatever a handler returned to what a model can be given: JSON text and image blocks."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime
import enum
import json
import math
from collections.abc import Mapping, Sequence, Set
from pathlib import PurePath
from typing import Any

from geode.contract import ImageBlock, TextBlock
from geode.tools.types import EndRequest, ToolReturn

__all__ = ["Converted", "convert", "image_type", "to_json"]

Content = str | tuple[TextBlock | ImageBlock, ...]

_MAX_DEPTH = 60
_SHORT = 100
"""Characters of a JSON text whose shape is of no use to anybody."""
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_PLAIN = (dict, list, tuple, bool, int, float)


@dataclasses.dataclass(frozen=True, slots=True)
class Converted:
    """A result ready for the model. `shape`: what a JSON result is made of, in words; empty for text."""

    content: Content
    is_error: bool = False
    end: EndRequest | None = None
    shape: str = ""


def convert(value: Any) -> Converted:
    """Never raises. None is empty text; text stays as it is; images become blocks; all else becomes JSON text."""
    if type(value) is dict and (text := _fast(value)) is not None:
        return Converted(_encodable(text), shape=_shape(value) if len(text) > _SHORT else "")
    if isinstance(value, ToolReturn):
        inner = convert(value.content)
        return Converted(inner.content, value.is_error, value.end, inner.shape)
    if value is None:
        return Converted("")
    if isinstance(value, str):
        return Converted(_encodable(value))
    if isinstance(value, TextBlock | ImageBlock):
        return Converted(_blocks([value]))
    if isinstance(value, bytes | bytearray | memoryview):
        return Converted(_bytes(bytes(value)))
    if isinstance(value, list | tuple) and value:
        if all(isinstance(item, TextBlock | ImageBlock) for item in value):
            return Converted(_blocks(value))
        if (blocks := _mcp_content(value)) is not None:
            return Converted(blocks)
    walk = _Walk()
    text = _fast(value)
    if text is None:
        text = json.dumps(walk.plain(value, 0), ensure_ascii=False)
    text = _encodable(text)
    content: Content = (TextBlock(text), *walk.images) if walk.images else text
    return Converted(content, shape=_shape(value))


def to_json(value: Any) -> Any:
    """A JSON value for any Python value: no NaN, no cycle, bounded depth; unknown objects by `str`. Never raises."""
    return _Walk().plain(value, 0)


def image_type(data: bytes) -> str | None:
    """The media type of an image that the providers take (PNG, JPEG, GIF, WebP), by its first bytes."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def _fast(value: Any) -> str | None:
    """Plain JSON values without an image in them, at the speed of the C encoder; None for all others."""
    if type(value) not in _PLAIN:
        return None
    try:
        text = _encode(value)
    except (TypeError, ValueError, RecursionError):
        return None
    return None if '"screenshot"' in text or '"image"' in text or "data:image/" in text else text


def _encodable(text: str) -> str:
    """Text that UTF-8 can carry: surrogate pairs joined, lone surrogates replaced."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _blocks(blocks: Sequence[TextBlock | ImageBlock]) -> Content:
    cleaned = tuple(TextBlock(_encodable(b.text)) if isinstance(b, TextBlock) else b for b in blocks)
    if any(isinstance(b, ImageBlock) for b in cleaned):
        return cleaned
    return "\n".join(b.text for b in cleaned if isinstance(b, TextBlock))


def _bytes(data: bytes) -> Content:
    media_type = image_type(data)
    if media_type:
        return (ImageBlock(media_type, base64.b64encode(data).decode("ascii")),)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return f"<{len(data)} bytes of binary data>"


def _mcp_content(items: Sequence[Any]) -> Content | None:
    """A list of MCP or Messages content items with an image among them, as blocks in their order."""
    blocks: list[TextBlock | ImageBlock] = []
    for item in items:
        if not isinstance(item, Mapping):
            return None
        if item.get("type") == "text" and isinstance(item.get("text"), str):
            blocks.append(TextBlock(item["text"]))
        elif (image := _image_item(item)) is not None:
            blocks.append(image)
        else:
            return None
    return _blocks(blocks) if any(isinstance(b, ImageBlock) for b in blocks) else None


def _image_item(item: Mapping[Any, Any]) -> ImageBlock | None:
    if item.get("type") != "image":
        return None
    inner = item.get("source")
    source = inner if isinstance(inner, Mapping) else item
    data, media_type = source.get("data"), source.get("mimeType") or source.get("media_type")
    if isinstance(data, str) and isinstance(media_type, str) and data:
        return ImageBlock(media_type, data)
    return None


def _image_text(text: str, *, must_be_url: bool) -> ImageBlock | None:
    """An image given as base64 text or as a data URL."""
    if text.startswith("data:"):
        head, _, text = text.partition(",")
        if not (head.startswith("data:image/") and head.endswith(";base64")):
            return None
    elif must_be_url:
        return None
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    media_type = image_type(data)
    return ImageBlock(media_type, base64.b64encode(data).decode("ascii")) if media_type else None


class _Walk:
    """One pass over a value: makes it plain JSON and takes the images out of it."""

    def __init__(self) -> None:
        self.images: list[ImageBlock] = []
        self._open: set[int] = set()

    def plain(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, enum.Enum):
            return self.plain(value.value, depth)
        if isinstance(value, str):
            if value.startswith("data:image/") and (image := _image_text(value, must_be_url=True)) is not None:
                return self._image(image)
            return str(value)
        if isinstance(value, int):
            return int(value) if abs(int(value)).bit_length() < 10_000 else f"<integer of {value.bit_length()} bits>"
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else None
        if depth >= _MAX_DEPTH:
            return "<nested too deeply>"
        if id(value) in self._open:
            return "<refers to itself>"
        self._open.add(id(value))
        try:
            return self._composite(value, depth + 1)
        except Exception:
            return _name(value)
        finally:
            self._open.discard(id(value))

    def _composite(self, value: Any, depth: int) -> Any:
        if isinstance(value, TextBlock):
            return value.text
        if isinstance(value, ImageBlock):
            return self._image(value)
        if isinstance(value, bytes | bytearray | memoryview):
            content = _bytes(bytes(value))
            return content if isinstance(content, str) else self.plain(content[0], depth)
        if isinstance(value, Mapping):
            image = _image_item(value)
            return self._image(image) if image is not None else self._mapping(value, depth)
        if isinstance(value, Set):
            items = [self.plain(item, depth) for item in value]
            return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
        if isinstance(value, datetime.date | datetime.time):
            return value.isoformat()
        if isinstance(value, PurePath):
            return str(value)
        if isinstance(value, BaseException):
            return f"{type(value).__name__}: {value}"
        if isinstance(value, type):
            return _name(value)
        if callable(dump := getattr(value, "model_dump", None)):  # pydantic
            return self.plain(dump(), depth)
        if dataclasses.is_dataclass(value):
            return self._mapping({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}, depth)
        if isinstance(value, Sequence):
            return [self.plain(item, depth) for item in value]
        if callable(tolist := getattr(value, "tolist", None)):  # numpy, torch
            return self.plain(tolist(), depth)
        return str(value)

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        result = {}
        for key, item in value.items():
            if key == "screenshot" and (image := _screenshot(item)) is not None:
                result[key] = self._image(image)
            else:
                result[_key(key)] = self.plain(item, depth)
        return result

    def _image(self, image: ImageBlock) -> str:
        self.images.append(image)
        return f"[image {len(self.images)}]"


def _screenshot(value: Any) -> ImageBlock | None:
    if isinstance(value, str):
        return _image_text(value, must_be_url=False)
    if isinstance(value, bytes | bytearray | memoryview):
        content = _bytes(bytes(value))
        return content[0] if isinstance(content, tuple) and isinstance(content[0], ImageBlock) else None
    return None


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str(key)
    if key is None or isinstance(key, bool):
        return json.dumps(key)
    try:
        return str(key)
    except Exception:
        return _name(key)


def _name(value: Any) -> str:
    return f"<{value.__name__ if isinstance(value, type) else type(value).__name__}>"


def _shape(value: Any) -> str:
    if isinstance(value, Mapping):
        keys = [_key(key)[:40] for key in list(value)[:10]]
        more = f" and {len(value) - 10} more" if len(value) > 10 else ""
        return f"a JSON object with the keys {', '.join(keys)}{more}" if keys else ""
    if isinstance(value, list | tuple):
        return f"a JSON list of {len(value)}"
    return ""
