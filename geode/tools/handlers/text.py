"""Bytes of a file as text and back: encodings, binary detection, line ends."""

from __future__ import annotations

import codecs
import os
from dataclasses import dataclass

from geode.tools.handlers.images import image_type

__all__ = ["Decoded", "decode", "encode", "looks_binary", "read_up_to"]

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WITH_BOM = " with BOM"
_SNIFF_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text with line ends as they are in the file. `encoding` is a name that `encode` takes to write it back alike."""

    text: str
    encoding: str


def read_up_to(descriptor: int, limit: int) -> bytes:
    """At most `limit` bytes from a descriptor's current offset."""
    parts = []
    while limit > 0:
        part = os.read(descriptor, min(limit, 1 << 20))
        if not part:
            break
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def looks_binary(data: bytes) -> bool:
    """True for images and for data with null bytes near its start that no byte-order mark explains."""
    head = data[:_SNIFF_BYTES]
    if image_type(head[:12]):
        return True
    return b"\0" in head and not head.startswith(tuple(bom for bom, _ in _BOMS))


def decode(data: bytes, encoding: str | None = None, *, cut: bool = False) -> Decoded:
    """Text of `data`: by `encoding` where given, else by byte-order mark, UTF-8, or Windows-1252 as the last resort.

    cut: the data is the start of a longer file, so that its last character may be incomplete and is left out then.
    Raises UnicodeDecodeError or LookupError for a given encoding that does not fit.
    """
    if encoding is not None:
        return Decoded(data.decode(encoding), encoding)
    for bom, name in _BOMS:
        if data.startswith(bom):
            return Decoded(data[len(bom) :].decode(name, errors="replace"), name + _WITH_BOM)
    try:
        return Decoded(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError as error:
        if cut and error.start > len(data) - 4:
            return Decoded(data[: error.start].decode("utf-8"), "utf-8")
    try:
        return Decoded(data.decode("cp1252"), "cp1252")
    except UnicodeDecodeError:
        return Decoded(data.decode("latin-1"), "latin-1")


def encode(text: str, encoding: str) -> bytes:
    """Bytes of `text`, the byte-order mark of the original kept. Raises UnicodeEncodeError."""
    if not encoding.endswith(_WITH_BOM):
        return text.encode(encoding)
    codec = encoding.removesuffix(_WITH_BOM)
    return next(bom for bom, name in _BOMS if name == codec) + text.encode(codec)
