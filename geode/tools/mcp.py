"""Tools of MCP servers: the servers of a run, and their tools as tools of geode.

Protocol: https://modelcontextprotocol.io/specification. Hints of a server are taken only where they make a tool more
dangerous: a server that is not trusted may say of any tool that it only reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from geode.contract import Notice, NoticeSink, Tier, ToolSpec
from geode.tools.mcp_server import McpOptions, McpServer, McpStartError
from geode.tools.types import Tool, ToolContext, ToolReturn
from geode.tools.validation import schema_fault

if TYPE_CHECKING:
    import mcp_types

__all__ = ["McpOptions", "McpServers", "McpStartError", "Offered", "source_of"]


@dataclass(frozen=True, slots=True)
class Offered:
    """A server and how its tools are offered. prefix: tools are named `server__tool`. include, exclude: globs over the
    server's own names. timeout_s: seconds a call may take, 0 is no limit."""

    options: McpOptions
    prefix: bool = True
    auto_approve: bool = False
    timeout_s: float = 60.0
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()


def source_of(server: str) -> str:
    """The source of a server's tools in the registry."""
    return f"mcp:{server}"


class McpServers:
    """The MCP servers of a run. changed: called with a server's name and tools after its list changed."""

    def __init__(
        self, servers: Mapping[str, Offered], notify: NoticeSink, changed: Callable[[str, Sequence[Tool]], None]
    ) -> None:
        self._offered = dict(servers)
        self._notify = notify
        self._servers = {
            name: McpServer(
                name, offered.options, notify=notify, changed=lambda server: changed(server.name, self._tools(server))
            )
            for name, offered in self._offered.items()
        }

    async def start(self) -> Mapping[str, Sequence[Tool] | McpStartError]:
        """Starts all at once: each server's tools, or why it could not be started."""
        outcomes = await asyncio.gather(*(self._start(server) for server in self._servers.values()))
        return dict(zip(self._servers, outcomes, strict=True))

    async def aclose(self) -> None:
        """Ends all servers at once. Safe to call twice."""
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))

    async def _start(self, server: McpServer) -> Sequence[Tool] | McpStartError:
        try:
            await server.start()
        except McpStartError as error:
            return error
        return self._tools(server)

    def _tools(self, server: McpServer) -> Sequence[Tool]:
        offered = self._offered[server.name]
        tools: dict[str, Tool] = {}
        for given in server.tools:
            wanted = any(fnmatchcase(given.name, p) for p in offered.include)
            if not wanted or any(fnmatchcase(given.name, p) for p in offered.exclude):
                continue
            schema = dict(given.input_schema)
            fault = schema_fault(schema)
            if not given.name or given.name in tools:
                fault = "its name is empty" if not given.name else "the server lists the name twice"
            if fault is not None:
                text = f"MCP server {server.name}: tool {given.name!r} is left out: {fault}"
                self._notify(Notice(f"mcp:{server.name}:tool:{given.name}", text))
                continue
            tools[given.name] = _tool(server, given, schema, offered)
        return tuple(tools.values())


def _tool(server: McpServer, given: mcp_types.Tool, schema: Mapping[str, Any], offered: Offered) -> Tool:
    hints = given.annotations
    destructive = hints is not None and hints.destructive_hint is True and hints.read_only_hint is not True
    own_name = given.name

    async def handler(arguments: Mapping[str, Any], _context: ToolContext) -> ToolReturn:
        return await server.call(own_name, arguments)

    return Tool(
        ToolSpec(
            f"{server.name}__{own_name}" if offered.prefix else own_name,
            given.description or given.title or "",
            schema,
        ),
        Tier.DANGEROUS if destructive else Tier.WRITE,
        handler,
        source_of(server.name),
        category="mcp",
        timeout_s=offered.timeout_s,
        auto_approved=offered.auto_approve,
    )
