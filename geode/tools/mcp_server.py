"""One MCP server: connecting, listing its tools, calling them, and starting it again after it crashed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geode.contract import Notice, NoticeSink
from geode.tools.mcp_content import tool_return
from geode.tools.mcp_errors import McpStartError, leaf, one_line, start_fault
from geode.tools.mcp_process import ServerLog, ServerProcess, stdio_transport
from geode.tools.types import ToolError, ToolReturn

if TYPE_CHECKING:
    import mcp_types
    from mcp import Client, MCPError

__all__ = ["McpOptions", "McpServer", "McpStartError"]

_MOST_PAGES = 1000
_REFRESH_WAIT_S = 5.0
_LISTEN_WAIT_S = 2.0
_CONNECTION_CLOSED = "Connection closed"
"""The client's own words for a connection that ended."""


@dataclass(frozen=True, slots=True)
class McpOptions:
    """How a server is reached. command: it runs as a child process over stdio; url: streamable HTTP.

    env: environment of the child. headers: of each request. start_timeout_s: seconds to connect and list the tools.
    exit_grace_s: seconds for the child to end by itself, and again after SIGTERM. log: file for what the child writes
    to standard error. mask: takes secrets out of texts.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    start_timeout_s: float = 20.0
    exit_grace_s: float = 2.0
    log: Path | None = None
    mask: Callable[[str], str] = lambda text: text


class McpServer:
    """A connection that is kept for a run. A task of its own enters and leaves the client, as the client demands.

    changed: called when the server's tools are other than before. After a crash, the next call starts the server once
    more; the call that was in flight is not repeated, since nobody knows what became of it.
    """

    def __init__(
        self, name: str, options: McpOptions, *, notify: NoticeSink, changed: Callable[[McpServer], None]
    ) -> None:
        self.name = name
        self.tools: tuple[mcp_types.Tool, ...] = ()
        self._options = options
        self._notify = notify
        self._changed = changed
        self._client: Client | None = None
        self._process: ServerProcess | None = None
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        self._broken = False
        self._closed = False
        self._restarting = asyncio.Lock()
        self._refreshing: asyncio.Task[None] | None = None
        self._stale = False
        self._status: int | None = None

    async def start(self) -> None:
        """Connects and lists the tools. Raises McpStartError."""
        self._over, self._broken = asyncio.Event(), False
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(ready, self._over), name=f"mcp-{self.name}")
        try:
            seconds = self._options.start_timeout_s or None
            await asyncio.wait({ready, self._task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._stop()
            raise
        if ready.done() and not ready.cancelled() and ready.exception() is None:
            return
        late = not ready.done() and not self._task.done()
        await self._stop()
        error = ready.exception() if ready.done() and not ready.cancelled() else None
        raise McpStartError(self._why(None if late else error))

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolReturn:
        """Calls a tool by the server's own name for it. Raises ToolError where no result came."""
        from mcp import MCPError

        for last in (False, True):
            if self._client is None or self._broken or (self._process is not None and self._process.ended.is_set()):
                await self._restart()
            try:
                result = await self._guarded(name, arguments)
            except MCPError as error:
                # A server that was started anew knows no session: 404 by the protocol, a bare 400 with some.
                bare = error.message == "Server returned an error response" and self._status == 400
                if (error.message == "Session terminated" or bare) and not last:
                    self._broken = True  # it did not run the call, so once more, from the start
                    continue
                raise ToolError(self._error_text(error)) from error
            break
        if self._refreshing is not None:  # a change that the call made is there in the next round
            await asyncio.wait({self._refreshing}, timeout=_REFRESH_WAIT_S)
        return tool_return(result)

    async def aclose(self) -> None:
        """Ends the connection and the process. Safe to call twice."""
        self._closed = True
        await self._stop()

    # ------------------------------------------------------------------------------------------------------- its life

    async def _live(self, ready: asyncio.Future[None], over: asyncio.Event) -> None:
        """The whole life of one connection."""
        from mcp import Client

        if not (logger := logging.getLogger("mcp")).handlers:
            logger.addHandler(logging.NullHandler())  # else what it logs goes to the console; a user's logging has it
        listener: asyncio.Task[None] | None = None
        try:
            async with AsyncExitStack() as stack:
                transport = await self._transport(stack)
                client = Client(transport, message_handler=self._message, cache=None)
                await stack.enter_async_context(client)
                try:
                    tools = client.server_capabilities.tools
                    if tools is not None and tools.list_changed:
                        heard = asyncio.Event()
                        listener = asyncio.create_task(self._listen(client, heard))
                        with contextlib.suppress(TimeoutError):
                            await asyncio.wait_for(heard.wait(), _LISTEN_WAIT_S)
                    self.tools = await self._list(client) if tools is not None else ()
                    self._client = client
                    if not ready.done():
                        ready.set_result(None)
                    await over.wait()
                finally:
                    self._client = None
                    for task in (listener, self._refreshing):
                        if task is not None:
                            task.cancel()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if not ready.done():
                ready.set_exception(leaf(error))
                ready.exception()  # taken: nobody may be waiting any more
        finally:
            self._client = None

    async def _transport(self, stack: AsyncExitStack) -> Any:
        o = self._options
        if o.command is not None:
            self._process = ServerProcess(ServerLog(o.log, o.mask), o.exit_grace_s)
            return stdio_transport(o.command, o.args, o.env, self._process)
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client

        http = await stack.enter_async_context(create_mcp_http_client(headers=dict(o.headers)))
        http.event_hooks = {**http.event_hooks, "response": [self._note_status]}
        assert o.url is not None
        return streamable_http_client(o.url, http_client=http)

    async def _note_status(self, response: Any) -> None:
        """The client tells of an error answer, but not which: that is what a wrong credential shows in."""
        self._status = response.status_code if response.status_code >= 400 else None

    async def _stop(self) -> None:
        task, self._task = self._task, None
        self._over.set()
        if task is None:
            return
        if self._client is None:  # not yet connected: nothing to take leave from
            task.cancel()
        try:
            done, _ = await asyncio.wait({task}, timeout=10)
            if not done:
                task.cancel()
                await asyncio.wait({task}, timeout=5)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=5)
            raise
        if task.done() and not task.cancelled():
            task.exception()

    async def _restart(self) -> None:
        """One attempt to have the server back. Calls that come together share it. Raises ToolError."""
        async with self._restarting:
            if self._closed:
                raise ToolError(f"The MCP server {self.name!r} was closed: the run is ending.")
            if self._client is not None and not self._broken and not (self._process and self._process.ended.is_set()):
                return
            await self._stop()
            try:
                await self.start()
            except McpStartError as error:
                self._broken = True
                text = f"MCP server {self.name} ended during the run and could not be started again: {error}"
                self._notify(Notice(f"mcp:{self.name}:gone", text))
                raise ToolError(f"The MCP server {self.name!r} ended and could not be started again: {error}") from None
            text = f"MCP server {self.name} ended during the run and was started again"
            self._notify(Notice(f"mcp:{self.name}:restart", text))
            self._changed(self)

    # --------------------------------------------------------------------------------------------------------- requests

    async def _guarded(self, name: str, arguments: Mapping[str, Any]) -> mcp_types.CallToolResult:
        """A call that ends, with an error, when the connection does."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        client, life = self._client, self._task
        if client is None or life is None:
            raise MCPError(CONNECTION_CLOSED, _CONNECTION_CLOSED)
        call = asyncio.create_task(client.call_tool(name, dict(arguments)))
        try:
            await asyncio.wait({call, life}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not call.done():
                call.cancel()
                await asyncio.wait({call}, timeout=1)
        if call.cancelled() or not call.done():
            self._broken = True
            raise MCPError(CONNECTION_CLOSED, _CONNECTION_CLOSED)
        error = call.exception()
        if error is None:
            return call.result()
        error = leaf(error)
        if isinstance(error, MCPError):
            self._broken = self._broken or _closed(error)
        elif not isinstance(error, ValueError | RuntimeError | TypeError):
            self._broken = True  # the transport's own trouble
        raise error

    async def _list(self, client: Client) -> tuple[mcp_types.Tool, ...]:
        """All pages of the tool list. Raises McpStartError where the pages go round in circles."""
        tools: list[mcp_types.Tool] = []
        seen: set[str] = set()
        cursor: str | None = None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return tuple(tools)
            if cursor in seen or len(seen) >= _MOST_PAGES:
                raise McpStartError(f"its tool list does not end (nextCursor {cursor[:40]!r} came again)")
            seen.add(cursor)

    async def _listen(self, client: Client, heard: asyncio.Event) -> None:
        """Servers of the 2026 protocol tell of changes on a stream of its own; older ones by a notification."""
        try:
            async with client.listen(tools_list_changed=True) as subscription:
                heard.set()
                async for _ in subscription:
                    self._refresh(client)
        except Exception:  # not offered, or the stream is gone: the tools stay as they are
            return
        finally:
            heard.set()

    async def _message(self, message: Any) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification) and self._client is not None:
            self._refresh(self._client)

    def _refresh(self, client: Client) -> None:
        self._stale = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refreshed(client))

    async def _refreshed(self, client: Client) -> None:
        while self._stale:
            self._stale = False
            try:
                tools = await self._list(client)
            except Exception as error:
                text = f"MCP server {self.name}: its changed tools could not be listed: {one_line(leaf(error))}"
                self._notify(Notice(f"mcp:{self.name}:refresh", self._options.mask(text)))
                return
            if tools != self.tools:
                self.tools = tools
                self._changed(self)

    def _why(self, error: BaseException | None) -> str:
        """Why a start failed, in one line."""
        o = self._options
        return o.mask(start_fault(error, o.command, self._process, o.start_timeout_s) + self._http_status())

    def _error_text(self, error: MCPError) -> str:
        if _closed(error):
            return (
                f"The MCP server {self.name!r} ended during this call; whether the call took effect is not known. "
                "The next call starts the server again."
            )
        return self._options.mask(f"MCP error {error.code}: {error.message}{self._http_status()}")

    def _http_status(self) -> str:
        return f" (HTTP {self._status})" if self._status is not None else ""


def _closed(error: MCPError) -> bool:
    """Whether the client made this error itself, of a connection that ended: a server may use its code for its own."""
    from mcp_types import CONNECTION_CLOSED

    return error.code == CONNECTION_CLOSED and error.message == _CONNECTION_CLOSED
