"""The `tools` array of a Chat Completions request, made once for a toolset."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from geode.adapters.chat_render import dump
from geode.adapters.names import NameAliases
from geode.adapters.schemas import Unsendable, for_chat, qualifies_strict
from geode.contract import AdapterError, ErrorKind, Notice, ToolSpec

__all__ = ["ToolArray", "make_tool_array"]


@dataclass(frozen=True, slots=True)
class ToolArray:
    """The tools of a request, ready to send.

    aliases: of all the request's tools. json: the array, b"" where no tool is sent. names: own names of the tools that
    are sent. notices: what was changed or left out. key: equal where a history renders to the same bytes.
    """

    aliases: NameAliases
    json: bytes
    names: frozenset[str]
    notices: tuple[Notice, ...]
    key: Hashable


def make_tool_array(
    specs: Sequence[ToolSpec],
    allowed: frozenset[str] | None,
    *,
    adapter: str,
    strict: bool = False,
    max_tools: int = 0,
    unsendable: Literal["drop", "error"] = "drop",
) -> ToolArray:
    """The array of `specs`, narrowed to `allowed` where that is set.

    Narrowing takes tools out of the array, although that costs the cached prefix: `tool_choice: {type: allowed_tools}`
    is OpenAI's own, and the servers that merely speak this wire refuse or ignore it. max_tools: most that the backend
    takes, 0 for no limit. Raises AdapterError(INVALID_REQUEST) for a tool that cannot be sent where `unsendable` says
    so; else it is left out with a notice.
    """
    aliases = NameAliases(spec.name for spec in specs)
    notices: list[Notice] = []
    tools: list[tuple[str, dict[str, Any]]] = []

    def leave_out(name: str, problem: str) -> None:
        if unsendable == "error":
            raise AdapterError(ErrorKind.INVALID_REQUEST, f"tool {name}: {problem}", provider=adapter)
        text = f"tool {name}: {problem}; it is left out"
        notices.append(Notice(f"tools.unsendable.{name}", text, "tools.unsendable=error"))

    for spec in specs:
        if allowed is not None and spec.name not in allowed:
            continue
        sent = for_chat(spec.input_schema)
        if isinstance(sent, Unsendable):
            leave_out(spec.name, f"its schema cannot be sent: {sent.reason}")
            continue
        if max_tools and len(tools) == max_tools:
            leave_out(spec.name, f"the backend takes {max_tools} tools at most")
            continue
        if sent.notes:
            notices.append(Notice(f"tools.schema.{spec.name}", f"tool {spec.name}: {'; '.join(sent.notes)}"))
        function: dict[str, Any] = {
            "name": aliases.to_wire(spec.name),
            "description": spec.description,
            "parameters": sent.schema,
        }
        if strict and qualifies_strict(sent.schema):
            function["strict"] = True
        tools.append((spec.name, {"type": "function", "function": function}))
    renamed = tuple((s.name, aliases.to_wire(s.name)) for s in specs if aliases.to_wire(s.name) != s.name)
    json = dump([tool for _, tool in tools]) if tools else b""
    return ToolArray(aliases, json, frozenset(name for name, _ in tools), tuple(notices), renamed)
