"""The `tools` array of a Messages request, and the names that its tools go by.

Deferred loading and the hosted search tool are those of Anthropic's tool search documentation: a deferred tool stays
out of the model's context until the search tool finds it, and takes no cache breakpoint.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from geode.adapters import schemas
from geode.adapters.names import NameAliases
from geode.contract import AdapterError, ErrorKind, Notice, ToolSpec

__all__ = ["SEARCH_TOOL", "ToolOptions", "Toolbox", "make_toolbox"]

SEARCH_TOOL: Mapping[str, str] = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
"""Hosted tool search by natural-language queries (its sibling takes regular expressions)."""


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What an adapter's options say of its tools.

    cache_control: the breakpoint of the last tool that is not deferred, None for none. strict: ask for strict tools
    where a schema qualifies. max_tools: most tools of a request, the search tool counted; 0 is no limit. unsendable:
    what becomes of a tool that cannot be sent.
    """

    adapter: str
    cache_control: Mapping[str, str] | None = None
    strict: bool = False
    max_tools: int = 0
    unsendable: Literal["drop", "error"] = "drop"


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of a request, ready to send.

    array: the JSON array, b"" where no tool is sent. names: own names of the tools that are sent. sent: their schemas
    as sent. key: equal for toolboxes under which a history renders to the same bytes.
    """

    aliases: NameAliases
    array: bytes
    names: frozenset[str]
    sent: Mapping[str, schemas.Sendable]
    notices: tuple[Notice, ...]
    key: Hashable

    def wire_input(self, name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """A call's input in the property names of the wire."""
        known = self.sent.get(name)
        if known is None or not known.renames:
            return dict(value)
        return dict(schemas.redo(known.renames, value))

    def own_input(self, name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """A call's input, as it came, in the tool's own property names."""
        known = self.sent.get(name)
        if known is None or not known.renames:
            return value
        return dict(schemas.undo(known.renames, value))

    def renames(self, name: str) -> bool:
        """Whether properties of the tool go by other names on the wire."""
        known = self.sent.get(name)
        return known is not None and bool(known.renames)


def make_toolbox(
    specs: Sequence[ToolSpec], deferred: frozenset[str], allowed: frozenset[str] | None, options: ToolOptions
) -> Toolbox:
    """The toolbox of `specs`: the core tools, then the hosted search tool and the deferred ones.

    allowed: the tools to narrow to (the Messages API has no other way to offer a subset), None for all. Raises
    AdapterError(INVALID_REQUEST) for what cannot be sent where the options say so.
    """
    aliases = NameAliases(s.name for s in specs)
    notices: list[Notice] = []
    sent: dict[str, schemas.Sendable] = {}
    for spec in specs:
        converted = schemas.for_messages(spec.input_schema)
        if isinstance(converted, schemas.Unsendable):
            _unsendable(f"tool {spec.name}: its schema cannot be sent: {converted.reason}", spec.name, options, notices)
            continue
        if converted.notes:
            notices.append(Notice(f"tools.schema.{spec.name}", f"tool {spec.name}: {'; '.join(converted.notes)}"))
        sent[spec.name] = converted
    key = (
        tuple((s.name, aliases.to_wire(s.name)) for s in specs if aliases.to_wire(s.name) != s.name),
        tuple((name, tuple(s.renames.items())) for name, s in sent.items() if s.renames),
    )
    offered = [s for s in specs if s.name in sent and (allowed is None or s.name in allowed)]
    late = [s for s in offered if s.name in deferred]
    core = [s for s in offered if s.name not in deferred]
    most = options.max_tools - bool(late) if options.max_tools else len(offered)
    for spec in (*core, *late)[most:]:
        _unsendable(
            f"tool {spec.name}: the backend takes {options.max_tools} tools at most", spec.name, options, notices
        )
    core, late = core[:most], late[: max(0, most - len(core))]
    items = [_tool(s, sent[s.name], aliases, options) for s in core]
    if late:
        items.append(dict(SEARCH_TOOL))
    if items and options.cache_control is not None:
        items[-1]["cache_control"] = dict(options.cache_control)
    items.extend({**_tool(s, sent[s.name], aliases, options), "defer_loading": True} for s in late)
    array = json.dumps(items, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") if items else b""
    return Toolbox(aliases, array, frozenset(s.name for s in (*core, *late)), sent, tuple(notices), key)


def _tool(spec: ToolSpec, sent: schemas.Sendable, aliases: NameAliases, options: ToolOptions) -> dict[str, Any]:
    tool: dict[str, Any] = {
        "name": aliases.to_wire(spec.name),
        "description": spec.description,
        "input_schema": sent.schema,
    }
    if options.strict and _strict(spec, sent):
        tool["strict"] = True
    return tool


def _strict(spec: ToolSpec, sent: schemas.Sendable) -> bool:
    """Whether a schema is in the subset of strict tool use as it stands: nothing would have to be narrowed."""
    closed = schemas.for_output_messages(spec.input_schema)
    return isinstance(closed, schemas.Sendable) and closed.schema == sent.schema


def _unsendable(text: str, name: str, options: ToolOptions, notices: list[Notice]) -> None:
    if options.unsendable == "error":
        raise AdapterError(ErrorKind.INVALID_REQUEST, text, provider=options.adapter)
    notices.append(Notice(f"tools.unsendable.{name}", f"{text}; it is left out", "tools.unsendable=error"))
