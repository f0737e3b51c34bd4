"""MCP servers for tests, and a look at which of their processes are left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geode.contract import Notice
from geode.tools.mcp import McpOptions, McpServers, McpStartError, Offered
from geode.tools.types import Tool, ToolContext

RAW = Path(__file__).with_name("mcp_raw_server.py")


def raw(*words: str, **options: Any) -> McpOptions:
    """The raw server, by words (see there)."""
    given = {"env": {"PATH": os.environ["PATH"]}, "start_timeout_s": 20.0, **options}
    return McpOptions(command=sys.executable, args=(str(RAW), *words), **given)


@dataclass(slots=True)
class Servers:
    """Started servers: their tools by name, why others did not start, and what was told."""

    hub: McpServers
    tools: dict[str, Tool] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    async def call(self, name: str, /, **arguments: Any) -> Any:
        return await self.tools[name].handler(arguments, ToolContext(Path()))


@contextlib.asynccontextmanager
async def started(**offered: Offered | McpOptions) -> AsyncIterator[Servers]:
    """Starts servers by name and ends them."""
    servers = Servers(None)  # type: ignore[arg-type]

    def changed(_name: str, tools: Sequence[Tool]) -> None:
        servers.tools.update({tool.name: tool for tool in tools})

    given = {name: one if isinstance(one, Offered) else Offered(one) for name, one in offered.items()}
    servers.hub = McpServers(given, servers.notices.append, changed)
    try:
        for name, outcome in (await servers.hub.start()).items():
            if isinstance(outcome, McpStartError):
                servers.failures[name] = str(outcome)
            else:
                changed(name, outcome)
        yield servers
    finally:
        await servers.hub.aclose()


async def gone(pid: int) -> bool:
    """Whether a process has ended; it gets a moment, since its end is told to its parent first."""
    for _ in range(200):
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z":
                await asyncio.sleep(0.01)
                continue
        return True
    return False
