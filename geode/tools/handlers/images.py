"""Images as tools hand them back: recognised by their first bytes, bounded in bytes and pixels."""

from __future__ import annotations

import base64
import struct

from geode.contract import ImageBlock, TextBlock
from geode.tools.results import image_type
from geode.tools.types import ToolError, ToolReturn

__all__ = ["MAX_IMAGE_BYTES", "image_return", "image_type"]

MAX_IMAGE_BYTES = 3_750_000
"""Bytes of one image: its base64 text stays within 5 MB, the least that the providers accept."""
MAX_IMAGE_SIDE = 8000
"""Pixels of the longer side that providers accept."""


def image_return(name: str, media_type: str, data: bytes) -> ToolReturn:
    """A caption and the image. Raises ToolError where a provider would refuse the image."""
    if len(data) > MAX_IMAGE_BYTES:
        raise ToolError(f"{name}: the image has {len(data)} bytes, at most {MAX_IMAGE_BYTES} can be shown")
    size = _dimensions(media_type, data)
    if size and max(size) > MAX_IMAGE_SIDE:
        raise ToolError(
            f"{name}: the image is {size[0]}x{size[1]} pixels, at most {MAX_IMAGE_SIDE} a side can be shown"
        )
    pixels = f", {size[0]}x{size[1]} pixels" if size else ""
    caption = f"{name} ({media_type}{pixels}, {len(data)} bytes)"
    return ToolReturn([TextBlock(caption), ImageBlock(media_type, base64.b64encode(data).decode("ascii"))])


def _dimensions(media_type: str, data: bytes) -> tuple[int, int] | None:
    try:
        if media_type == "image/png":
            width, height = struct.unpack(">II", data[16:24])
        elif media_type == "image/gif":
            width, height = struct.unpack("<HH", data[6:10])
        elif media_type == "image/webp":
            return _webp(data)
        else:
            return _jpeg(data)
    except (struct.error, IndexError):
        return None
    return width, height


def _webp(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None
