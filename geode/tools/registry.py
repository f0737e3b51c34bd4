"""The tools of a run: definitions joined with handlers, checked at start, and the MCP tools that come and go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from geode.config_errors import nearest
from geode.contract import Tier, ToolSpec
from geode.tools import texts
from geode.tools.binding import Binding, Found, bind, from_entry_points, from_folder
from geode.tools.definitions import Definition, read_definitions, read_file
from geode.tools.offload import recall_tool_result
from geode.tools.toolset import Toolset
from geode.tools.types import Tool, ToolConfigError, ToolError
from geode.tools.validation import Check, compile_schema

__all__ = ["RECALL_TOOL", "ToolRegistry"]

RECALL_TOOL = "recall_tool_result"
"""The tool that reads offloaded results; it is part of every toolset with a tool whose results can be offloaded."""


class ToolRegistry:
    """All tools, in a stable order: as defined, then the sources added at run time, MCP servers by name.

    retier, timeouts: by tool name or glob (an exact name wins, else the first glob that matches). alternatives: tool
    to the one that may stand in for it, as the config has them; only their names are looked at here.
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        retier: Mapping[str, str] | None = None,
        timeouts: Mapping[str, float] | None = None,
        alternatives: Mapping[str, str] | None = None,
    ) -> None:
        self._retier = dict(retier or {})
        self._timeouts = dict(timeouts or {})
        self._alternatives = dict(alternatives or {})
        self._base: tuple[Tool, ...] = ()
        self._sources: dict[str, tuple[Tool, ...]] = {}
        self._checks: dict[int, tuple[Tool, Check]] = {}
        self._tools: dict[str, Tool] = {}
        self.version = 0
        """Grows with each change, so that a toolset knows when to look again."""
        faults = _duplicates(tools := tuple(tools))
        faults += [
            f"tools.retier.{name}: {tier!r} is not one of {', '.join(Tier)}{nearest(str(tier), Tier)}"
            for name, tier in self._retier.items()
            if tier not in set(Tier)
        ]
        if faults:
            raise ToolConfigError(faults)
        self._base = tuple(self._adjusted(tool) for tool in tools)
        self._rebuild()

    @classmethod
    def load(
        cls,
        definitions: Sequence[Path],
        *,
        builtin: Mapping[str, Callable[..., Any]] | None = None,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
        folders: Sequence[Path] = (),
        entry_points: bool = True,
        retier: Mapping[str, str] | None = None,
        timeouts: Mapping[str, float] | None = None,
        alternatives: Mapping[str, str] | None = None,
        absent: Collection[str] = (),
        need_handlers: bool = True,
        more_to_come: bool = False,
    ) -> ToolRegistry:
        """Reads, joins and checks everything; raises `ToolConfigError` with all faults at once.

        definitions: JSON files. builtin: geode's own handlers by tool name (those without a definition are left out).
        handlers: the user's, by tool name. folders: of modules. need_handlers: False for printing requests only.
        more_to_come: MCP tools follow, so names in retier, timeouts and alternatives are checked later, by
        `check_names`.
        """
        faults: list[str] = []
        places = [Found("tools.handlers", handlers or {})]
        places += [found for folder in folders for found in from_folder(folder)]
        if entry_points:
            places += from_entry_points()

        defined: list[Definition] = []
        for path in [*definitions, *(path for place in places for path in place.definition_files)]:
            defined += read_file(path, faults)
        for place in places:
            faults += place.faults
            defined += read_definitions(place.definitions, place.where, faults)

        by_name: dict[str, Definition] = {}
        for one in defined:
            other = by_name.setdefault(one.spec.name, one)
            if other is not one:
                where = "twice" if one.where == other.where else f"in {other.where} too"
                faults.append(f"{one.where}: tool {one.spec.name!r}: the name is defined {where}")

        callables = _callables(places, faults)
        if need_handlers:
            faults += [
                f"{where}: tool {name!r}: the handler has no definition{nearest(name, by_name)}"
                for name, (_, where) in callables.items()
                if name not in by_name
            ]
        unclaimed = [name for name in callables if name not in by_name]
        tools = []
        for name, one in by_name.items():
            if name in absent:
                continue
            function = callables[name][0] if name in callables else (builtin or {}).get(name) or _OWN.get(name)
            source = "user" if name in callables or function is None else "builtin"
            if function is None and need_handlers:
                faults.append(f"{one.where}: tool {name!r}: there is no handler{nearest(name, unclaimed)}")
            bound = bind(function or _missing, one.spec.input_schema)
            if need_handlers:
                faults += [f"{one.where}: tool {name!r}: {fault}" for fault in bound.faults]
            tools.append(_tool(one, bound, source))
        try:
            registry = cls(tools, retier=retier, timeouts=timeouts, alternatives=alternatives)
            if not more_to_come:
                registry.check_names()
        except ToolConfigError as error:
            faults += error.faults
        if faults:
            raise ToolConfigError(faults)
        return registry

    def check_names(self, absent: tuple[str, ...] = ()) -> None:
        """Raises `ToolConfigError` where retier, timeouts or an alternative names a tool that is not there.

        absent: prefixes of names that may be missing, since their server is.
        """
        faults = [
            f"tools.{key}.{pattern}: no tool has this name{nearest(pattern, self._tools)}"
            for key, given in (("retier", self._retier), ("timeouts", self._timeouts))
            for pattern in given
            if not pattern.startswith(absent) and not any(fnmatchcase(name, pattern) for name in self._tools)
        ]
        faults += [
            f"recovery.alternatives.{name}: no tool is named {word!r}{nearest(word, self._tools)}"
            for name, other in self._alternatives.items()
            for word in (name, other)
            if word not in self._tools and not word.startswith(absent)
        ]
        faults += [
            f"tool {tool.name!r}: alternative {other!r} is not defined{nearest(other, self._tools)}"
            for tool in self._base
            for other in tool.alternatives
            if other not in self._tools
        ]
        if faults:
            raise ToolConfigError(faults)

    def replace_source(self, source: str, tools: Iterable[Tool]) -> None:
        """Puts the tools of one source (`mcp:NAME`, ...) in place of those it had before; none removes the source.

        Raises `ToolConfigError` where a name is taken by another source; then nothing has changed.
        """
        fresh = tuple(self._adjusted(tool) for tool in tools)
        faults = _duplicates(fresh)
        others = [*self._base, *(t for key, group in self._sources.items() if key != source for t in group)]
        owners = {tool.name: tool.source for tool in others}
        faults += [
            f"{source}: tool {tool.name!r}: {owners[tool.name]} has a tool of this name too"
            for tool in fresh
            if tool.name in owners
        ]
        if faults:
            raise ToolConfigError(faults)
        if fresh:
            self._sources[source] = fresh
        else:
            self._sources.pop(source, None)
        self._rebuild()

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def tools(self) -> tuple[Tool, ...]:
        return tuple(self._tools.values())

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools.values())

    def violations(self, tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
        """What is wrong with arguments by the tool's schema: short lines, none where they fit."""
        known = self._checks.get(id(tool))
        if known is None:
            known = self._checks[id(tool)] = (tool, compile_schema(tool.spec.input_schema))
        return known[1](arguments)

    def select(self, include: Sequence[str] = ("*",), exclude: Sequence[str] = (), *, recall: bool = True) -> Toolset:
        """The tools whose name matches a glob of `include` and none of `exclude`, in this registry's order.

        recall: results can be offloaded, so the tool that reads them back belongs to the set wherever one of its
        tools offloads (unless `exclude` names it exactly).
        """
        return Toolset(self, tuple(include), tuple(exclude), recall)

    def _adjusted(self, tool: Tool) -> Tool:
        tier = _lookup(self._retier, tool.name)
        timeout = _lookup(self._timeouts, tool.name)
        if tier is None and timeout is None:
            return tool
        return replace(
            tool,
            tier=tool.tier if tier is None else Tier(tier),
            timeout_s=tool.timeout_s if timeout is None else float(timeout),
        )

    def _rebuild(self) -> None:
        added = sorted(self._sources.items(), key=lambda item: (item[0].startswith("mcp:"), item[0]))
        self._tools = {tool.name: tool for tool in (*self._base, *(t for _, group in added for t in group))}
        alive = {id(tool) for tool in self._tools.values()}
        self._checks = {key: known for key, known in self._checks.items() if key in alive}
        self.version += 1


_OWN: Mapping[str, Callable[..., Any]] = {RECALL_TOOL: recall_tool_result}


def _callables(places: Iterable[Found], faults: list[str]) -> dict[str, tuple[Callable[..., Any], str]]:
    """The user's handlers by tool name, each with the place it came from."""
    found: dict[str, tuple[Callable[..., Any], str]] = {}
    for place in places:
        for name, function in place.handlers.items():
            if name in found:
                faults.append(f"{place.where}: tool {name!r}: has a handler in {found[name][1]} too")
                continue
            if not callable(function):
                faults.append(f"{place.where}: tool {name!r}: its handler is {type(function).__name__}, no callable")
            found[name] = (function if callable(function) else _missing, place.where)
    return found


def _tool(one: Definition, bound: Binding, source: str) -> Tool:
    recall = one.spec.name == RECALL_TOOL
    return Tool(
        spec=one.spec,
        tier=one.tier,
        handler=bound.handler,
        source=source,
        category=one.category,
        cost_tier=one.cost_tier,
        timeout_s=one.timeout_s,
        offloads=not recall,
        reads_offload=recall,
        alternatives=one.alternatives,
        is_async=bound.is_async,
    )


def _missing(*_args: Any, **_arguments: Any) -> Any:
    raise ToolError(texts.NO_HANDLER)


def _duplicates(tools: Iterable[Tool]) -> list[str]:
    seen: set[str] = set()
    faults = []
    for tool in tools:
        if tool.name in seen:
            faults.append(f"{tool.source}: tool {tool.name!r}: the name is there twice")
        seen.add(tool.name)
    return faults


def _lookup(table: Mapping[str, Any], name: str) -> Any:
    if name in table:
        return table[name]
    return next((value for pattern, value in table.items() if fnmatchcase(name, pattern)), None)
