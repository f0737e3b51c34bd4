"""The HTTP side: asyncio streams and h11.

h11 rather than a framework: the faults need the bytes (a chunked body without its end, a connection that closes
without notice), and the server starts in a millisecond inside the caller's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import h11

from geode.provider.handler import Handler, RecordedRequest, Strict
from geode.provider.params import Wire
from geode.provider.reply import Reply
from geode.script import Script, ScriptPlayer

__all__ = ["LoopbackProvider"]

_READ = 1 << 18


class LoopbackProvider:
    """A provider on the loopback interface that speaks Messages, Responses and Chat Completions from a script.

    script: a `Script`, a mapping or a path. strict: see `Handler`. keep: how many requests stay in `requests`.

        async with LoopbackProvider(script) as provider:
            client = AsyncAnthropic(base_url=provider.base_url("messages"), api_key="any")
    """

    def __init__(
        self,
        script: Script | Mapping[str, Any] | str | Path,
        *,
        strict: Strict = True,
        host: str = "127.0.0.1",
        port: int = 0,
        keep: int | None = None,
    ) -> None:
        loaded = script if isinstance(script, Script) else Script.load(script)
        self._handler = Handler(loaded, strict, keep)
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # ----------------------------------------------------------------------------------------------------- what came

    @property
    def requests(self) -> list[RecordedRequest]:
        """The requests so far, in order."""
        return self._handler.requests

    @property
    def problems(self) -> list[str]:
        """`METHOD PATH: PROBLEM` for all that was wrong with the requests so far."""
        return self._handler.problems

    @property
    def player(self) -> ScriptPlayer:
        return self._handler.player

    def assert_clean(self) -> None:
        """Raises AssertionError where a request had a problem, or the script was not played to its end."""
        if self.problems:
            raise AssertionError("the provider found problems:\n" + "\n".join(self.problems))
        self.player.assert_consumed()

    # -------------------------------------------------------------------------------------------------------- address

    @property
    def port(self) -> int:
        """The port, once started."""
        return self._port

    @property
    def origin(self) -> str:
        return f"http://{self._host}:{self._port}"

    def base_url(self, wire: Wire, path: str | None = None) -> str:
        """What the wire's SDK takes as base_url. `path` puts it under a provider's own base path (`/api/paas/v4`)."""
        if path is not None:
            return self.origin + path
        return self.origin if wire == "messages" else f"{self.origin}/v1"

    # ----------------------------------------------------------------------------------------------------- life cycle

    async def start(self) -> None:
        """Listens; port 0 takes a free one."""
        self._server = await asyncio.start_server(self._accept, self._host, self._port, limit=_READ)
        self._port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Closes the listener and every connection, hanging ones too. Safe to call twice."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> LoopbackProvider:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, h11.RemoteProtocolError, asyncio.CancelledError):
                await _Connection(self._handler, reader, writer).serve()
        finally:
            self._tasks.discard(task)
            writer.close()


class _Connection:
    """One kept-alive connection."""

    def __init__(self, handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._handler = handler
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)

    async def serve(self) -> None:
        while True:
            event = await self._next()
            if not isinstance(event, h11.Request):
                return
            body = bytearray()
            while True:
                part = await self._next()
                if isinstance(part, h11.Data):
                    body += part.data
                elif isinstance(part, h11.EndOfMessage):
                    break
                else:
                    return
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
            method = event.method.decode("ascii")
            reply = self._handler.handle(method, event.target.decode("latin-1"), headers, bytes(body))
            if not await self._send(reply, head=method == "HEAD"):
                return
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _next(self) -> Any:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self._http.they_are_waiting_for_100_continue:
                self._write(h11.InformationalResponse(status_code=100, headers=[]))
            self._http.receive_data(await self._reader.read(_READ))

    async def _send(self, reply: Reply, *, head: bool) -> bool:
        """Writes a reply; False where the connection is to be closed."""
        wrong = reply.wrong
        if reply.delay_s:
            await asyncio.sleep(reply.delay_s)
        if wrong.cut_after == -1:
            return False
        if wrong.hang_after == -1:
            await self._hang()
        frames = reply.frames if reply.streamed else _halves(reply)
        length = [] if reply.streamed else [("content-length", str(sum(map(len, frames))))]
        headers = [*reply.headers, *length, ("server", "loopback")]
        out = bytearray(self._http.send(h11.Response(status_code=reply.status, headers=headers)) or b"")
        stop = next((n for n in (wrong.cut_after, wrong.hang_after) if n is not None), None)
        for index, frame in enumerate(() if head else frames):
            if index == stop:
                break
            out += self._http.send(h11.Data(data=frame)) or b""
            if wrong.interval_s:
                await self._flush(out)
                await asyncio.sleep(wrong.interval_s)
        if stop is None:
            out += self._http.send(h11.EndOfMessage()) or b""
        await self._flush(out)
        if wrong.hang_after is not None:
            await self._hang()
        return stop is None and not wrong.close_after

    async def _hang(self) -> None:
        """Waits until the client gives up (it closes the connection) or the provider is closed."""
        while await self._reader.read(_READ):
            pass
        raise ConnectionResetError

    async def _flush(self, out: bytearray) -> None:
        self._writer.write(bytes(out))
        out.clear()
        await self._writer.drain()

    def _write(self, event: Any) -> None:
        self._writer.write(self._http.send(event) or b"")


def _halves(reply: Reply) -> tuple[bytes, ...]:
    """A plain body, in two where it is to be cut or to hang in the middle."""
    if reply.wrong.cut_after is None and reply.wrong.hang_after is None:
        return reply.frames
    body = b"".join(reply.frames)
    return body[: len(body) // 2], body[len(body) // 2 :]
