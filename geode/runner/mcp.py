"""The MCP servers of a config: started together, their tools put into the registry, closed on every exit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from geode.adapters.credentials import Masker
from geode.config_errors import ConfigFault
from geode.contract import Notice, NoticeSink
from geode.settings import McpServer as ServerSettings
from geode.settings import Settings
from geode.tools.registry import ToolRegistry
from geode.tools.types import Tool, ToolConfigError

if TYPE_CHECKING:
    from geode.tools.mcp import McpServers, Offered

__all__ = ["McpTools", "absent_prefixes", "list_mcp_tools"]

_INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ")
"""What every child gets of the environment; nothing else, unless `env_names` names it."""


class McpTools:
    """The servers of a run. Nothing is imported or started where the config names none.

    log_dir: folder for what the servers write to standard error, None drops it.
    """

    def __init__(
        self,
        settings: Settings,
        registry: ToolRegistry,
        *,
        environ: Mapping[str, str],
        notify: NoticeSink,
        log_dir: Path | None = None,
    ) -> None:
        self._settings = settings.mcp.servers
        self._registry = registry
        self._environ = environ
        self._notify = notify
        self._log_dir = log_dir
        self._servers: McpServers | None = None
        names = {name for server in self._settings.values() for name in _named(server)}
        self._masker = Masker(*(environ.get(name) for name in sorted(names))) if names else None

    def mask(self, text: str) -> str:
        """`text` without the values of the variables that the servers are given."""
        return self._masker.text(text) if self._masker is not None else text

    async def open(self) -> None:
        """Starts all servers at once and registers their tools.

        A server that fails to start is a notice, or a fault where the config says `required`. Raises ConfigFault for
        such, and for a name that two tools have.
        """
        if not self._settings:
            return
        from geode.tools.mcp import McpServers, McpStartError

        faults: list[str] = []
        offered: dict[str, Offered] = {}
        for name, server in self._settings.items():
            missing = [variable for variable in _named(server) if variable not in self._environ]
            if missing:
                self._failed(name, f"environment variable {missing[0]} is not set", faults)
            else:
                offered[name] = self._offered(name, server)
        self._servers = McpServers(offered, self._notify, self._changed)
        for name, outcome in (await self._servers.start()).items():
            if isinstance(outcome, McpStartError):
                self._failed(name, str(outcome), faults)
                continue
            try:
                self._register(name, outcome)
            except ToolConfigError as error:
                faults += [f"mcp.servers.{fault.removeprefix('mcp:')}" for fault in error.faults]
        try:
            self._registry.check_names(absent=absent_prefixes(self._settings, self._registry.names()))
        except ToolConfigError as error:
            faults += error.faults
        if faults:
            raise ConfigFault(faults)

    async def aclose(self) -> None:
        """Ends all servers. Safe to call twice."""
        servers, self._servers = self._servers, None
        if servers is not None:
            await servers.aclose()

    def _failed(self, name: str, reason: str, faults: list[str]) -> None:
        text = f"could not be started: {reason}"
        if self._settings[name].required:
            faults.append(f"mcp.servers.{name}: {text} (required: true)")
        else:
            message = f"MCP server {name} {text}; the run goes on without its tools"
            self._notify(Notice(f"mcp:{name}:start", message, f"mcp.servers.{name}.required=true"))

    def _register(self, name: str, tools: Sequence[Tool]) -> None:
        from geode.tools.mcp import source_of

        self._registry.replace_source(source_of(name), tools)

    def _changed(self, name: str, tools: Sequence[Tool]) -> None:
        """A server's list changed: the next round has the new tools."""
        try:
            self._register(name, tools)
        except ToolConfigError as error:
            text = f"MCP server {name}: its changed tools are not taken over: {error.faults[0]}"
            self._notify(Notice(f"mcp:{name}:clash", text, f"mcp.servers.{name}.prefix=true"))

    def _offered(self, name: str, server: ServerSettings) -> Offered:
        from geode.tools.mcp import McpOptions, Offered

        environ = self._environ
        env = {variable: environ[variable] for variable in _INHERITED if variable in environ}
        env |= {variable: environ[variable] for variable in server.env_names}
        stdio = server.transport == "stdio"
        options = McpOptions(
            command=(sys.executable if server.command == "python" else server.command) if stdio else None,
            args=server.args,
            env=env,
            url=None if stdio else server.url,
            headers={header: environ[variable] for header, variable in server.header_env.items()},
            start_timeout_s=server.start_timeout_s,
            log=self._log_dir / f"{name}.log" if self._log_dir is not None else None,
            mask=self.mask,
        )
        return Offered(options, server.prefix, server.auto_approve, server.timeout_s, server.include, server.exclude)


async def list_mcp_tools(
    settings: Settings, registry: ToolRegistry, *, environ: Mapping[str, str], notify: Callable[[Notice], None]
) -> None:
    """Starts the config's servers, puts their tools into `registry`, and ends them: for printing, not for running.

    Raises ConfigFault as `McpTools.open` does.
    """
    servers = McpTools(settings, registry, environ=environ, notify=notify)
    try:
        await servers.open()
    finally:
        await servers.aclose()


def absent_prefixes(servers: Collection[str], names: Sequence[str]) -> tuple[str, ...]:
    """Prefixes of the tools that would be there if their server were (it failed to start, or is not started)."""
    prefixes = (f"{server}__" for server in servers)
    return tuple(prefix for prefix in prefixes if not any(name.startswith(prefix) for name in names))


def _named(server: ServerSettings) -> tuple[str, ...]:
    return (*server.env_names, *server.header_env.values())
