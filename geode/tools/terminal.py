"""A terminal to ask a person at: one question at a time, cancellable, without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import unicodedata
from collections.abc import AsyncIterator, Callable

__all__ = ["Terminal", "TerminalDialogue", "visible"]

_LOCK_POLL_S = 0.05
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    """Text with every character escaped that could move the cursor, hide or reorder what a person reads."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) if unicodedata.category(c) in _HIDDEN else c for c in text)


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class Terminal:
    """A tty by its path. on_prompt: called with True before a dialogue and False after it (to pause a live display).

    Dialogues exclude each other: within the process, and with other processes on the same terminal (the workers of a
    sweep) by an advisory lock on the device.
    """

    def __init__(self, path: str, *, on_prompt: Callable[[bool], None] | None = None) -> None:
        self.path = path
        self._on_prompt = on_prompt or (lambda _asking: None)
        self._lock = asyncio.Lock()

    @classmethod
    def find(cls, *, on_prompt: Callable[[bool], None] | None = None) -> Terminal | None:
        """The terminal of standard input, None where standard input is none: then there is nobody to ask."""
        try:
            return cls(os.ttyname(sys.stdin.fileno()), on_prompt=on_prompt) if sys.stdin.isatty() else None
        except (OSError, ValueError, AttributeError):
            return None

    @contextlib.asynccontextmanager
    async def dialogue(self) -> AsyncIterator[TerminalDialogue]:
        """Takes the terminal for some questions. Raises OSError where it cannot be opened."""
        async with self._lock:
            fd = os.open(self.path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                await _lock_device(fd)
                self._on_prompt(True)
                try:
                    yield TerminalDialogue(fd)
                finally:
                    self._on_prompt(False)
            finally:
                os.close(fd)


class TerminalDialogue:
    """The terminal while it is taken."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""
        _drop_typeahead(fd)

    async def write(self, text: str) -> None:
        """Shows text as it is: what came from a model must have gone through `visible`."""
        data = text.encode("utf-8", "replace")
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                await asyncio.sleep(0.01)

    async def ask(self, prompt: str) -> str | None:
        """Shows a prompt and reads a line, without its line end. None at end of input (Ctrl-D, terminal gone)."""
        await self.write(prompt)
        while b"\n" not in self._rest:
            chunk = await self._chunk()
            if not chunk:
                return None
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")

    async def _chunk(self) -> bytes:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._fd, _settle, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self._fd)
        try:
            return os.read(self._fd, 4096)
        except BlockingIOError:
            return await self._chunk()
        except OSError:  # the other end is gone
            return b""


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _drop_typeahead(fd: int) -> None:
    """What was typed before the question was shown is no answer to it."""
    import termios

    with contextlib.suppress(termios.error):
        termios.tcflush(fd, termios.TCIFLUSH)


async def _lock_device(fd: int) -> None:
    import fcntl

    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(_LOCK_POLL_S)
        except OSError:  # devices that cannot be locked
            return
        else:
            return
