"""The journal: an append-only record of a run, one JSON object a line, and its reader.

Each event is handed to the operating system as it happens (one `write`), so that kill -9 loses at most the event in
flight; `fsync` says how often it is also forced to disk. Messages are journalled as they enter the history, so that a
run can be resumed, replayed and reported from its journal alone.

Line kinds: `journal` (the header), `message` and `history` (a message appended; all replaced), `notice`, and the
events of `geode.hooks` with their payload's fields. Every line has `n` (running number) and `t` (seconds since 1970).
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import queue
import threading
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
    Usage,
)
from geode.hooks import Event, Payload

__all__ = [
    "FORMAT",
    "JOURNAL_FILE",
    "Journal",
    "JournalBusy",
    "JournalError",
    "decode_message",
    "decode_result",
    "decode_usage",
    "encode_message",
    "read_journal",
    "read_run",
]

FORMAT = 1
"""Version of the journal's format, in its header."""

JOURNAL_FILE = "journal.jsonl"
"""The journal's name in a run's folder."""

_CLASSES: dict[str, type[Any]] = {
    "text": TextBlock,
    "image": ImageBlock,
    "reasoning": ReasoningBlock,
    "tool_use": ToolUseBlock,
    "tool_result": ToolResultBlock,
}
_TAGS = {cls: tag for tag, cls in _CLASSES.items()}


class JournalError(Exception):
    """A journal that cannot be read: one line that says why."""


class JournalBusy(JournalError):
    """Another process writes this journal, or wrote to it since it was read."""


def _plain(value: Any) -> Any:
    """What `json` cannot write by itself."""
    if is_dataclass(value) and not isinstance(value, type):
        data = _shallow(value)
        tag = _TAGS.get(type(value))
        return {"type": tag, **data} if tag else data
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))


def _shallow(value: Any) -> dict[str, Any]:
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _names(kind)}


_encode = json.JSONEncoder(default=_plain, ensure_ascii=False, separators=(",", ":")).encode


def encode_message(message: Message) -> dict[str, Any]:
    """A message as plain data; `decode_message` reads it back."""
    return json.loads(json.dumps(message, default=_plain))  # type: ignore[no-any-return]


def decode_message(data: Mapping[str, Any]) -> Message:
    """A message from its journalled form. Raises JournalError where it is none."""
    try:
        return Message(data["role"], tuple(_block(b) for b in data["content"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise JournalError(f"a journalled message cannot be read: {type(error).__name__}: {error}") from error


def decode_result(data: Mapping[str, Any]) -> ToolResultBlock:
    """A tool result from its journalled form (with or without its `type`)."""
    block = _block({"type": "tool_result", **data})
    assert isinstance(block, ToolResultBlock)
    return block


def decode_usage(data: Mapping[str, Any]) -> Usage:
    """Token counts from their journalled form."""
    known = {f.name for f in fields(Usage)}
    return Usage(**{key: value for key, value in data.items() if key in known})


def _block(data: Mapping[str, Any]) -> Block:
    """A block: the fields that its class has, by name, so that a new field needs nothing here."""
    cls = _CLASSES.get(data["type"])
    if cls is None:
        raise JournalError(f"unknown block type {data['type']!r}")
    given = {f.name: data[f.name] for f in fields(cls) if f.name in data}
    if given.get("source") is not None:
        given["source"] = Source(**given["source"])
    if given.get("fault") is not None:
        given["fault"] = InputFault(given["fault"])
    if not isinstance(given.get("content", ""), str):
        given["content"] = tuple(_block(part) for part in given["content"])
    block: Block = cls(**given)
    return block


class Journal:
    """Writes a run's journal. An inline observer of the bus and a watcher of the history.

    fsync: `never`, `round` (begun at each TURN_COMPLETED, in a thread, since a disk may take its time; done at the end)
    or `event`. mask: takes secrets out of a line. A disk that cannot be written to is reported once (`notify`); the run
    goes on.

    first: number of the first line. size: bytes that the file has, where it was read before (a resume). One process at
    a time writes a journal. Raises JournalBusy where another one does, or did since it was read.
    """

    def __init__(
        self,
        path: Path,
        *,
        fsync: Literal["never", "round", "event"] = "round",
        mask: Callable[[str], str] | None = None,
        notify: Callable[[Notice], None] | None = None,
        first: int = 0,
        size: int | None = None,
    ) -> None:
        self.path = path
        self._fsync = fsync
        self._mask = mask
        self._notify = notify
        self._broken = False
        self._n = first
        self._syncer: _Syncer | None = None
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            _lock(self._fd, path)
            if size is not None and os.fstat(self._fd).st_size != size:
                raise JournalBusy(f"{path} was written by another process since it was read: try again")
        except JournalError:
            os.close(self._fd)
            raise
        if _lacks_newline(path):
            os.write(self._fd, b"\n")

    def header(self, **facts: Any) -> None:
        """The first line of a run, and of each time that it is resumed."""
        self._write("journal", {"format": FORMAT, **facts})

    def observe(self, payload: Payload) -> None:
        """Writes an event."""
        event = payload.event
        self._write(event.value, _shallow(payload))
        if self._fsync == "round":
            if event is Event.TURN_COMPLETED:
                self._syncer = self._syncer or _Syncer(self._fd)
                self._syncer.begin()
            elif event is Event.SESSION_ENDED:
                _sync(self._fd)

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
            if self._syncer is not None:
                self._syncer.close()
            if self._fsync != "never":
                _sync(self._fd)
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


class _Syncer:
    """Forces a file to disk in a thread of its own. What is asked for while it does so is done once, after it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="geode-journal-fsync", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        self._asked.put(True)

    def close(self) -> None:
        """Waits for what is being done."""
        self._asked.put(False)
        self._thread.join()

    def _work(self) -> None:
        while self._asked.get():
            while not self._asked.empty():
                if not self._asked.get():
                    return
            _sync(self._fd)


def _sync(fd: int) -> None:
    if fd >= 0:
        with contextlib.suppress(OSError):
            os.fsync(fd)


def _dumps(record: Mapping[str, Any]) -> str:
    try:
        return _encode(record)
    except (ValueError, TypeError, RecursionError):  # a cycle or an odd key: keep the event, not its shape
        safe = {k: v if isinstance(v, str | int | float | None) else repr(v)[:10_000] for k, v in record.items()}
        return json.dumps(safe, ensure_ascii=False, separators=(",", ":"))


def _lock(fd: int, path: Path) -> None:
    """One writer at a time. The lock goes with the process, however it ends."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise JournalBusy(f"{path} is being written by another process: this run is still going on") from error
    except OSError:  # a file system without locks: nothing to be done
        pass


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
        try:
            for raw in file:
                try:
                    record = json.loads(raw)
                except (ValueError, RecursionError):
                    continue
                if not isinstance(record, dict) or "event" not in record:
                    continue
                if record["event"] == "journal" and record.get("format", 0) > FORMAT:
                    raise JournalError(f"{path} has journal format {record['format']}; this geode reads up to {FORMAT}")
                yield record
        except OSError as error:
            raise JournalError(f"cannot read {path}: {error.strerror}") from error


def read_run(path: Path) -> list[dict[str, Any]]:
    """The records of the newest run in a journal, from its header on, all resumptions included.

    Raises JournalError where there is none, or where lines are missing or damaged in the middle.
    """
    records: list[dict[str, Any]] = []
    for record in read_journal(path):
        if record["event"] == "journal" and not record.get("resumed"):
            records = []
        elif not records:
            break
        elif record.get("n") != records[-1].get("n", -1) + 1:
            number = records[-1].get("n", -1) + 1
            raise JournalError(f"{path} is damaged: record {number} is missing or cannot be read")
        records.append(record)
    if not records:
        raise JournalError(f"{path} is no journal of geode's: it has no header")
    return records
