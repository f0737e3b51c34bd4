"""A streamable HTTP server on loopback, made with the mcp package's server side: it speaks the 2026 protocol."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged


@dataclass(slots=True)
class HttpServer:
    """A running server: its address, the headers of its requests, and how many calls were cancelled.

    forget: a status with which the next request is answered, as by a server that does not know the session.
    """

    url: str = ""
    seen: list[dict[str, str]] = field(default_factory=list)
    tools: list[str] = field(default_factory=lambda: ["first", "grow", "hang"])
    cancelled: int = 0
    forget: int = 0


@contextlib.asynccontextmanager
async def http_server(*, token: str | None = None) -> AsyncIterator[HttpServer]:
    """Runs the server on a free port. token: what the Authorization header must hold."""
    state, bus = HttpServer(), InMemorySubscriptionBus()

    async def list_tools(_context: Any, params: Any) -> types.ListToolsResult:
        start = int(params.cursor) if params is not None and params.cursor else 0
        page = state.tools[start : start + 2]
        tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in page]
        more = str(start + 2) if start + 2 < len(state.tools) else None
        return types.ListToolsResult(tools=tools, next_cursor=more)

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name == "hang":
            try:
                await asyncio.sleep(600)
            finally:
                state.cancelled += 1
        if params.name == "grow":
            state.tools.append("grown")
            await bus.publish(ToolsListChanged())
        content = types.TextContent(type="text", text=f"{params.name} {params.arguments}")
        return types.CallToolResult(content=[content])

    server: Server[Any] = Server(
        "web", on_list_tools=list_tools, on_call_tool=call_tool, on_subscriptions_listen=ListenHandler(bus)
    )
    inner = server.streamable_http_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            state.seen.append(headers)
            status, state.forget = state.forget, 0
            if token is not None and headers.get("authorization") != token:
                status = 401
            if status:
                await send({"type": "http.response.start", "status": status, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
        await inner(scope, receive, send)

    config = uvicorn.Config(app, port=0, log_level="critical", timeout_graceful_shutdown=1)
    web = uvicorn.Server(config)
    web.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    serving = asyncio.create_task(web.serve())
    while not web.started:
        await asyncio.sleep(0.01)
    port = web.servers[0].sockets[0].getsockname()[1]
    state.url = f"http://127.0.0.1:{port}/mcp"
    try:
        yield state
    finally:
        web.should_exit = True
        await serving
