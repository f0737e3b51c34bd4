"""A child process with its pipes on the event loop: no thread, bounded output, ended with its whole group."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from typing import IO

__all__ = ["MAX_STDOUT", "POLL_S", "Child", "Output", "feed", "until"]

MAX_STDOUT = 64 * 1024 * 1024
"""Most bytes of output that are read; beyond it the run is an error."""

MAX_STDERR = 16 * 1024
"""Bytes of the end of stderr that are kept."""

GRACE_S = 1.0
"""Seconds between asking the group to end and ending it."""

POLL_S = 0.01
"""Seconds between looks at whether the process has ended."""


class Child:
    """A process that leads a group. It is reaped last, so that the group's number cannot go to another before.

    asyncio's own child watching starts a thread per child and, where none can be started, leaves the child running.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    @property
    def exited(self) -> bool:
        if self.process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):
            return self.process.poll() is not None
        try:
            return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    @property
    def status(self) -> int:
        status = self.process.returncode
        return -signal.SIGKILL if status is None else status

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def close(self) -> None:
        self.process.poll()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


async def until(done: Callable[[], bool]) -> None:
    """Waits for `done`, but not for ever."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE_S):
            while not done():
                await asyncio.sleep(0.005)


async def _ready(pipe: IO[bytes], *, write: bool = False) -> None:
    """Until the pipe can be read from (written to)."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if write else (loop.add_reader, loop.remove_reader)
    add(pipe.fileno(), lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        remove(pipe.fileno())


async def _chunks(pipe: IO[bytes] | None) -> AsyncIterator[bytes]:
    assert pipe is not None
    os.set_blocking(pipe.fileno(), False)
    while True:
        await _ready(pipe)
        with contextlib.suppress(BlockingIOError):
            chunk = os.read(pipe.fileno(), 65536)
            if not chunk:
                return
            yield chunk


class Output:
    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        self.on_line = on_line
        self.too_much = False
        self._out = bytearray()
        self._seen = 0
        self._err = bytearray()

    @property
    def stdout(self) -> str:
        return self._out.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self._err.decode("utf-8", "replace").strip()

    async def read_stdout(self, child: Child) -> None:
        async for chunk in _chunks(child.process.stdout):
            if len(self._out) + len(chunk) > MAX_STDOUT:
                self.too_much = True
                return
            self._out += chunk
            self._tell()

    def _tell(self) -> None:
        if self.on_line is None:
            return
        while (end := self._out.find(b"\n", self._seen)) >= 0:
            line = self._out[self._seen : end].decode("utf-8", "replace")
            self._seen = end + 1
            self.on_line(line)

    async def read_stderr(self, child: Child) -> None:
        async for chunk in _chunks(child.process.stderr):
            self._err += chunk
            del self._err[:-MAX_STDERR]


async def feed(child: Child, data: bytes) -> None:
    pipe = child.process.stdin
    assert pipe is not None
    os.set_blocking(pipe.fileno(), False)
    rest = memoryview(data)
    try:
        while rest:
            await _ready(pipe, write=True)
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(pipe.fileno(), rest[:65536]) :]
    except (BrokenPipeError, ConnectionResetError):
        return  # it need not read its input to the end
    finally:
        pipe.close()
