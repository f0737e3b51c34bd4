"""Writing a run's journal: one writer at a time, a line a record, and how often it is forced to disk."""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from geode.contract import History, Message, Notice
from geode.hooks import Event, Payload
from geode.journal.format import FORMAT, JournalError, dumps, shallow

__all__ = ["Journal", "JournalBusy"]


class JournalBusy(JournalError):
    """Another process writes this journal, or wrote to it since it was read."""


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
        self._write(event.value, shallow(payload))
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
        line = dumps(record)
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
