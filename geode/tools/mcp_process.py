"""An MCP server as a child process: newline-delimited JSON-RPC over its standard input and output.

In place of the client library's own stdio transport for three things that it does not do: the whole process group is
ended, also when the server itself went in time and left children behind; what it writes to standard error goes to a
bounded file with secrets masked; a line of standard output that is no message goes there too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["ServerLog", "ServerProcess", "stdio_transport"]

_POLL_S = 0.01
_ORPHANS_S = 0.5
"""Seconds for children that a server left behind to end at SIGTERM."""
_MAX_LINE = 64 * 1024 * 1024
"""Longest message in bytes: a server that never ends its line must not fill the memory."""
_LOG_BYTES = 256 * 1024


class ServerLog:
    """What a server writes to standard error, in a file that is made with the first of it. path None drops it.

    At most `max_bytes` of it are kept. mask: takes secrets out of a line.
    """

    def __init__(
        self, path: Path | None, mask: Callable[[str], str] = lambda text: text, max_bytes: int = _LOG_BYTES
    ) -> None:
        self.path = path
        self.last = ""
        """The last line that was not empty."""
        self._mask = mask
        self._left = max_bytes
        self._rest = b""

    def write(self, data: bytes) -> None:
        """Takes the next piece of output; whole lines are written."""
        *lines, rest = (self._rest + data).split(b"\n")
        if len(rest) > 65536:
            lines, rest = [*lines, rest], b""
        self._rest = rest
        for line in lines:
            self._line(line)

    def end(self) -> None:
        """Writes what came without a line's end."""
        if self._rest:
            self._line(self._rest)
            self._rest = b""

    def _line(self, raw: bytes) -> None:
        text = self._mask(raw.decode("utf-8", "replace").rstrip("\r"))
        self.last = text.strip() or self.last
        if self.path is None or self._left <= 0:
            return
        line = f"{text}\n".encode()
        self._left -= len(line)
        if self._left <= 0:
            line = b"(the rest is left out)\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(line)
        except OSError:
            self.path = None


@dataclass(slots=True)
class ServerProcess:
    """How a child is doing. `ended` is set when its output is at its end; `by_itself`: before it was told to end.

    grace_s: seconds for a server to end once its input is closed, and again after SIGTERM.
    """

    log: ServerLog
    grace_s: float = 2.0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    by_itself: bool = False
    exit_status: int | None = None


@contextlib.asynccontextmanager
async def stdio_transport(
    command: str, args: Sequence[str], env: Mapping[str, str], state: ServerProcess
) -> AsyncIterator[tuple[Any, Any]]:
    """Starts the server in a process group of its own; yields the streams that the client takes. Raises OSError."""
    import anyio

    child = await asyncio.create_subprocess_exec(
        command,
        *args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(env),
        start_new_session=True,
    )
    inbound, read_stream = anyio.create_memory_object_stream[Any](0)
    write_stream, outbound = anyio.create_memory_object_stream[Any](0)
    pumps = [
        asyncio.create_task(_read(child, inbound, state)),
        asyncio.create_task(_write(child, outbound, inbound)),
        asyncio.create_task(_log(child, state)),
    ]
    try:
        yield read_stream, write_stream
    finally:
        state.by_itself = state.ended.is_set()
        try:
            for stream in (read_stream, write_stream):
                stream.close()
            await _end(child, state.grace_s)
            await asyncio.wait(pumps, timeout=0.5)
        finally:
            _kill_group(child, signal.SIGKILL)
            state.exit_status = child.returncode
            for pump in pumps:
                pump.cancel()
            for stream in (inbound, outbound):
                stream.close()
            child._transport.close()  # type: ignore[attr-defined]  # a surviving grandchild may hold a pipe open


async def _read(child: asyncio.subprocess.Process, inbound: Any, state: ServerProcess) -> None:
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    assert child.stdout is not None
    pieces: list[bytes] = []
    size = 0
    deaf = False
    try:
        while chunk := await child.stdout.read(65536):
            if deaf:
                continue  # nobody listens any more: read on, so that the server can end
            *lines, rest = chunk.split(b"\n")
            if lines:
                lines[0] = b"".join([*pieces, lines[0]])
                pieces, size = [], 0
            pieces.append(rest)
            size += len(rest)
            for line in lines:
                if not line.strip():
                    continue
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    state.log.write(b"(on standard output) " + line[:2000] + b"\n")
                    continue
                try:
                    await inbound.send(SessionMessage(message))
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    deaf = True
                    break
            if size > _MAX_LINE:
                state.log.write(b"(a message was longer than 64 MiB: the connection is closed)\n")
                break
    finally:
        state.ended.set()
        inbound.close()


async def _write(child: asyncio.subprocess.Process, outbound: Any, inbound: Any) -> None:
    assert child.stdin is not None
    try:
        async for message in outbound:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            child.stdin.write(text.encode("utf-8", "replace") + b"\n")
            await child.stdin.drain()
    except (OSError, RuntimeError):
        inbound.close()  # the session sees the connection end instead of waiting for an answer
    finally:
        with contextlib.suppress(OSError, RuntimeError):
            child.stdin.close()


async def _log(child: asyncio.subprocess.Process, state: ServerProcess) -> None:
    assert child.stderr is not None
    try:
        while chunk := await child.stderr.read(65536):
            state.log.write(chunk)
    finally:
        state.log.end()


async def _end(child: asyncio.subprocess.Process, grace_s: float) -> None:
    """Closes the server's input and waits for it; one that does not go is told to."""
    assert child.stdin is not None
    with contextlib.suppress(OSError, RuntimeError):
        child.stdin.close()

    def lives() -> bool:
        return child.returncode is None

    went = await _gone(lives, grace_s)
    if not _kill_group(child, signal.SIGTERM):
        return
    if went:  # children that it left; ended ones count until their new parent takes notice, so not for long
        await _gone(lambda: _kill_group(child, 0), min(grace_s, _ORPHANS_S))
    else:
        await _gone(lives, grace_s)
    _kill_group(child, signal.SIGKILL)
    await _gone(lives, grace_s)


async def _gone(alive: Callable[[], bool], seconds: float) -> bool:
    # not child.wait(): that waits for the pipes too, which a grandchild may hold open
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while alive() and loop.time() < deadline:
        await asyncio.sleep(_POLL_S)
    return not alive()


def _kill_group(child: asyncio.subprocess.Process, number: int) -> bool:
    """Sends a signal to the group (0 only asks). False where nobody is left."""
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
