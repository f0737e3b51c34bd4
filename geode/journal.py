"""The journal: an append-only record of a run, one JSON object a line, and its reader.

Each event is handed to the operating system as it happens (one `write`), so that kill -9 loses at most the event in
flight; `fsync` says how often it is also forced to disk. Messages are journalled as they enter the history, so that a
run can be resumed, replayed and reported from its journal alone.

Line kinds: `journal` (the header), `message` and `history` (a message appended; all replaced), `notice`, and the
events of `geode.hooks` with their payload's fields. Every line has `n` (running number) and `t` (seconds since 1970).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from geode.contract import (
    Block,
    History,
    ImageBlock,
    InputFault,
    Message,
    Notice,
    ReasoningBlock,
    Source,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from geode.hooks import Event, Payload

__all__ = ["FORMAT", "Journal", "JournalError", "decode_message", "decode_result", "encode_message", "read_journal"]

FORMAT = 1
"""Version of the journal's format, in its header."""

_TAGS: dict[type, str] = {
    TextBlock: "text",
    ImageBlock: "image",
    ReasoningBlock: "reasoning",
    ToolUseBlock: "tool_use",
    ToolResultBlock: "tool_result",
}


class JournalError(Exception):
    """A journal that cannot be read: one line that says why."""


def _plain(value: Any) -> Any:
    """What `json` cannot write by itself."""
    if is_dataclass(value) and not isinstance(value, type):
        data = {f.name: getattr(value, f.name) for f in fields(value)}
        tag = _TAGS.get(type(value))
        return {"type": tag, **data} if tag else data
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def encode_message(message: Message) -> dict[str, Any]:
    """A message as plain data; `decode_message` reads it back."""
    return json.loads(json.dumps(message, default=_plain))  # type: ignore[no-any-return]


def decode_message(data: Mapping[str, Any]) -> Message:
    """A message from its journalled form."""
    return Message(data["role"], tuple(_block(b) for b in data["content"]))


def decode_result(data: Mapping[str, Any]) -> ToolResultBlock:
    """A tool result from its journalled form."""
    content = data["content"]
    parts = content if isinstance(content, str) else tuple(_part(p) for p in content)
    return ToolResultBlock(data["tool_use_id"], parts, data["is_error"])


def _part(data: Mapping[str, Any]) -> TextBlock | ImageBlock:
    if data["type"] == "image":
        return ImageBlock(data["media_type"], data["data"])
    return TextBlock(data["text"], data.get("phase"))


def _block(data: Mapping[str, Any]) -> Block:
    kind = data["type"]
    if kind in ("text", "image"):
        return _part(data)
    if kind == "reasoning":
        return ReasoningBlock(data["text"], Source(**data["source"]), data["raw"])
    if kind == "tool_use":
        fault = InputFault(data["fault"]) if data["fault"] else None
        return ToolUseBlock(data["id"], data["name"], data["input"], data["arguments"], fault, data["wire_id"])
    if kind == "tool_result":
        return decode_result(data)
    raise JournalError(f"unknown block type {kind!r}")


class Journal:
    """Writes a run's journal. An inline observer of the bus and a watcher of the history.

    fsync: `never`, `round` (at each TURN_COMPLETED and at the end) or `event`. mask: takes secrets out of a line.
    A disk that cannot be written to is reported once (`notify`); the run goes on.
    """

    def __init__(
        self,
        path: Path,
        *,
        fsync: Literal["never", "round", "event"] = "round",
        mask: Callable[[str], str] | None = None,
        notify: Callable[[Notice], None] | None = None,
        first: int = 0,
    ) -> None:
        self.path = path
        self._fsync = fsync
        self._mask = mask
        self._notify = notify
        self._broken = False
        self._n = first
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if _lacks_newline(path):
            os.write(self._fd, b"\n")

    def header(self, **facts: Any) -> None:
        """The first line of a run, and of each time that it is resumed."""
        self._write("journal", {"format": FORMAT, **facts})

    def observe(self, payload: Payload) -> None:
        """Writes an event."""
        event = payload.event
        self._write(event.value, {f.name: getattr(payload, f.name) for f in fields(payload)})
        if self._fsync == "round" and event in (Event.TURN_COMPLETED, Event.SESSION_ENDED):
            self._sync()

    def watch(self, history: History, message: Message | None) -> None:
        """Writes a change of the history."""
        if message is not None:
            self._write("message", {"index": len(history) - 1, "message": message})
        else:
            self._write("history", {"generation": history.generation, "messages": list(history)})

    def notice(self, notice: Notice) -> None:
        """Writes a notice."""
        self._write("notice", {"key": notice.key, "message": notice.message, "override": notice.override})

    def close(self) -> None:
        """Forces what there is to disk and closes. Safe to call twice."""
        if self._fd >= 0:
            if self._fsync != "never":
                self._sync()
            os.close(self._fd)
            self._fd = -1

    def _write(self, event: str, data: Mapping[str, Any]) -> None:
        if self._fd < 0 or self._broken:
            return
        record = {"n": self._n, "t": round(time.time(), 6), "event": event, **data}
        line = _dumps(record)
        if self._mask is not None:
            line = self._mask(line)
        try:
            _write_all(self._fd, line.encode("utf-8", "backslashreplace") + b"\n")
            self._n += 1
            if self._fsync == "event":
                os.fsync(self._fd)
        except OSError as error:
            self._broken = True
            if self._notify is not None:
                reason = error.strerror or str(error)
                self._notify(Notice("journal", f"the journal cannot be written any more: {reason} ({self.path.name})"))

    def _sync(self) -> None:
        if self._fd >= 0 and not self._broken:
            os.fsync(self._fd)


def _dumps(record: Mapping[str, Any]) -> str:
    try:
        return json.dumps(record, default=_plain, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):  # a cycle or an odd key: keep the event, not its shape
        safe = {k: v if isinstance(v, str | int | float | None) else repr(v)[:10_000] for k, v in record.items()}
        return json.dumps(safe, ensure_ascii=False, separators=(",", ":"))


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _lacks_newline(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """The journal's records, in order. A line that a crash cut short is passed over.

    Raises JournalError where there is no journal, or its format is newer than this reader.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise JournalError(f"no journal at {path}: {error.strerror}") from error
    with file:
        for raw in file:
            try:
                record = json.loads(raw)
            except ValueError:
                continue
            if not isinstance(record, dict) or "event" not in record:
                continue
            if record["event"] == "journal" and record.get("format", 0) > FORMAT:
                raise JournalError(f"{path} has journal format {record['format']}; this geode reads up to {FORMAT}")
            yield record
