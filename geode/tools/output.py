"""A bounded record of a stream: its start, its end and how long it was."""

from __future__ import annotations

import asyncio
import re

__all__ = ["HeadTail"]

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class HeadTail:
    """Keeps the first and the last `limit / 2` bytes. `total` counts all."""

    __slots__ = ("_half", "_head", "_tail", "total")

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    async def fill(self, reader: asyncio.StreamReader) -> None:
        """Reads to the end."""
        while part := await reader.read(1 << 16):
            self.add(part)

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 4 * self._half + (1 << 16):
            del self._tail[: -self._half]

    @property
    def truncated(self) -> bool:
        return self.total > 2 * self._half

    def text(self) -> str:
        """As UTF-8, other bytes and control characters replaced; what was left out is said in its place."""
        if not self.truncated:
            return _printable(bytes(self._head + self._tail))
        left_out = self.total - 2 * self._half
        tail = bytes(self._tail[-self._half :])
        return f"{_printable(bytes(self._head))}\n[... {left_out} bytes left out ...]\n{_printable(tail)}"


def _printable(data: bytes) -> str:
    return _CONTROL.sub("\ufffd", data.decode("utf-8", "replace"))
