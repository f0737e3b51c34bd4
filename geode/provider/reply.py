"""What the server writes for one request, and how it misbehaves while doing so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["Reply", "Wrong", "compact", "json_reply", "pieces", "sse"]


@dataclass(frozen=True, slots=True)
class Wrong:
    """Misbehaviour on the connection. Counts are events of a stream (of a plain body: its halves).

    hang_after, cut_after: frames written before nothing more comes, or the connection closes; -1 is before the status
    line. close_after: the connection closes after the whole response without notice. interval_s: seconds between
    frames.
    """

    hang_after: int | None = None
    cut_after: int | None = None
    close_after: bool = False
    interval_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Reply:
    """A response: one frame is sent with a content length, a stream of frames in chunks."""

    status: int
    frames: tuple[bytes, ...]
    headers: tuple[tuple[str, str], ...] = ()
    streamed: bool = False
    wrong: Wrong = field(default_factory=Wrong)
    delay_s: float = 0.0

    def with_headers(self, *headers: tuple[str, str]) -> Reply:
        return replace(self, headers=self.headers + headers)


def compact(value: Any) -> str:
    """Compact JSON that can be encoded: half a surrogate pair goes as its escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


def json_reply(status: int, value: Any, *headers: tuple[str, str]) -> Reply:
    return Reply(status, (compact(value).encode(),), (("content-type", "application/json"), *headers))


def sse(data: Any, event: str | None = None) -> bytes:
    """One server-sent event; `data` is JSON, or text as it stands."""
    text = data if isinstance(data, str) else compact(data)
    return f"event: {event}\ndata: {text}\n\n".encode() if event else f"data: {text}\n\n".encode()


def pieces(text: str) -> Iterator[str]:
    """A text in at most nine pieces, as a stream delivers it."""
    size = max(8, len(text) // 8)
    return (text[i : i + size] for i in range(0, len(text), size))
