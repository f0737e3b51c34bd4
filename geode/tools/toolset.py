"""Which of the tools a run (or a sub-agent) is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Protocol

from geode.config_errors import nearest
from geode.contract import ToolSpec
from geode.tools.types import Tool, ToolConfigError

__all__ = ["ToolSource", "Toolset"]


class ToolSource(Protocol):
    """What the processor needs of a registry or a toolset."""

    def get(self, name: str) -> Tool | None: ...
    def names(self) -> tuple[str, ...]: ...
    def violations(self, tool: Tool, arguments: Mapping[str, Any]) -> list[str]: ...


class Everything(ToolSource, Protocol):
    """What a toolset needs of the registry that it is a view of."""

    version: int

    def tools(self) -> tuple[Tool, ...]: ...


class Toolset:
    """A view of a registry by include and exclude globs; it follows the registry's changes."""

    def __init__(self, registry: Everything, include: tuple[str, ...], exclude: tuple[str, ...], recall: bool) -> None:
        self._registry = registry
        self._include = include
        self._exclude = exclude
        self._recall = recall
        self._version = -1
        self._tools: dict[str, Tool] = {}
        self._specs: tuple[ToolSpec, ...] = ()

    def check(self, absent: tuple[str, ...] = (), core: Sequence[str] = ()) -> None:
        """Raises `ToolConfigError` where a pattern of include, exclude or `core` matches no tool (`*` always may).

        absent: prefixes of names that may be missing, since their server is. core: `tools.core`.
        """
        names = self._registry.names()
        given = {"toolset.include": self._include, "toolset.exclude": self._exclude, "tools.core": core}
        faults = [
            f"{key}: {pattern!r} matches no tool{nearest(pattern, names)}"
            for key, patterns in given.items()
            for pattern in patterns
            if pattern != "*"
            and not pattern.startswith(absent)
            and not any(fnmatchcase(name, pattern) for name in names)
        ]
        if faults:
            raise ToolConfigError(faults)

    def get(self, name: str) -> Tool | None:
        return self._current().get(name)

    def names(self) -> tuple[str, ...]:
        return tuple(self._current())

    def tools(self) -> tuple[Tool, ...]:
        return tuple(self._current().values())

    def specs(self) -> tuple[ToolSpec, ...]:
        self._current()
        return self._specs

    def violations(self, tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
        return self._registry.violations(tool, arguments)

    @property
    def version(self) -> int:
        return self._registry.version

    def _current(self) -> dict[str, Tool]:
        if self._version != self._registry.version:
            self._tools = self._chosen()
            self._specs = tuple(tool.spec for tool in self._tools.values())
            self._version = self._registry.version
        return self._tools

    def _chosen(self) -> dict[str, Tool]:
        def chosen(name: str) -> bool:
            return _matches(name, self._include) and not _matches(name, self._exclude)

        everything = self._registry.tools()
        names = {tool.name for tool in everything if chosen(tool.name) and not tool.reads_offload}
        if self._recall and any(tool.offloads for tool in everything if tool.name in names):
            names |= {tool.name for tool in everything if tool.reads_offload and tool.name not in self._exclude}
        return {tool.name: tool for tool in everything if tool.name in names}


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
