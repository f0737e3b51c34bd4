"""The tools of a Responses API request: flat function tools, tool choice, hosted tool search."""

from __future__ import annotations

from typing import Any, Literal

from geode.adapters import tool_choice
from geode.adapters.names import NameAliases
from geode.adapters.options import AdapterOptions
from geode.adapters.responses_items import dump
from geode.adapters.schemas import Unsendable, for_responses, qualifies_strict
from geode.contract import AdapterCallRequest, AdapterError, ErrorKind, Notice, NoticeSink, ToolChoice, ToolSpec

__all__ = ["ToolRenderer"]

_SEARCH = b'{"type":"tool_search"}'


class ToolRenderer:
    """Renders a toolset once, and again only where the toolset or what is asked of it changes.

    on_unsupported: what happens to a tool choice that the backend does not declare. unsendable: what happens to a
    tool that cannot be sent, `drop` (with a notice) or `error`.
    """

    def __init__(
        self,
        options: AdapterOptions,
        notify: NoticeSink,
        on_unsupported: tool_choice.OnUnsupported,
        unsendable: Literal["drop", "error"],
    ) -> None:
        self._options = options
        self._notify = notify
        self._on_unsupported: tool_choice.OnUnsupported = on_unsupported
        self._unsendable = unsendable
        self._tools: tuple[ToolSpec, ...] = ()
        self._rendered: dict[str, tuple[bytes, bytes]] = {}
        self._key: Any = None
        self._parts: dict[str, bytes] = {}
        self.aliases = NameAliases(())
        self.renamed: tuple[tuple[str, str], ...] = ()
        """(own name, name on the wire) of the tools whose names differ: what replayed calls depend on."""

    def parts(self, request: AdapterCallRequest) -> dict[str, bytes]:
        """The keys of the body that tools bring, each with its JSON; none without tools."""
        if request.tools != self._tools:
            self._prepare(request.tools)
        key = (request.tool_choice, request.deferred, request.allowed)
        if key != self._key:
            self._parts = self._render(request)
            self._key = key
        return self._parts

    def _prepare(self, tools: tuple[ToolSpec, ...]) -> None:
        self._key = None
        self.aliases = NameAliases(tool.name for tool in tools)
        pairs = ((tool.name, self.aliases.to_wire(tool.name)) for tool in tools)
        self.renamed = tuple(sorted((own, wire) for own, wire in pairs if own != wire))
        rendered = {}
        for tool in tools:
            sendable = for_responses(tool.input_schema)
            if isinstance(sendable, Unsendable):
                self._drop(tool.name, f"its schema cannot be sent: {sendable.reason}")
                continue
            if sendable.notes:
                text = f"the schema of tool {tool.name} is sent changed: {'; '.join(sendable.notes)}"
                self._notify(Notice(f"tools.schema.{tool.name}", text))
            function = {
                "type": "function",
                "name": self.aliases.to_wire(tool.name),
                "description": tool.description,
                "parameters": sendable.schema,
                "strict": self._options.strict and qualifies_strict(sendable.schema),
            }
            rendered[tool.name] = (dump(function), dump({**function, "defer_loading": True}))
        self._rendered = rendered
        self._tools = tools

    def _render(self, request: AdapterCallRequest) -> dict[str, bytes]:
        if not self._rendered:
            return {}
        capabilities = self._options.capabilities
        try:
            choice, narrowed = tool_choice.resolve(
                request.tool_choice, capabilities, self._on_unsupported, self._notify, self._options.name
            )
        except tool_choice.ToolChoiceError as error:
            raise AdapterError(ErrorKind.TOOL_CHOICE, str(error), provider=self._options.name) from None
        if choice.type == "tool" and choice.name not in self._rendered:
            text = f"tool_choice names {choice.name}, which is not sent: sent as auto"
            self._notify(Notice("tool_choice.dropped", text))
            choice = ToolChoice("auto")
        names = [name for name in self._rendered if narrowed is None or name in narrowed]
        # Deferred tools cannot be named in a choice, and what a search loads would not be the named one.
        deferred = request.deferred if capabilities.tool_search and choice.type != "tool" else frozenset()
        search = any(name in deferred for name in names)
        names = self._limited(names, search, choice)
        if not names:
            return {}
        tools = [self._rendered[name][name in deferred] for name in names]
        if search:
            tools.append(_SEARCH)
        return {
            "tools": b"[" + b",".join(tools) + b"]",
            "tool_choice": dump(self._choice(choice, request.allowed, names)),
            "parallel_tool_calls": b"true",
        }

    def _choice(self, choice: ToolChoice, allowed: frozenset[str] | None, names: list[str]) -> Any:
        """A subset of the tools goes as `allowed_tools`, so that the list, which is cached, stays whole."""
        alias = self.aliases.to_wire
        if allowed is None or choice.type not in ("auto", "required") or allowed.issuperset(names):
            return tool_choice.to_wire(choice, "responses", alias)
        subset = [{"type": "function", "name": alias(name)} for name in names if name in allowed]
        if not subset:
            return "none"
        return {"type": "allowed_tools", "mode": choice.type, "tools": subset}

    def _limited(self, names: list[str], search: bool, choice: ToolChoice) -> list[str]:
        """At most the backend's number of tools, the search tool counted; a named one is never left out."""
        limit = self._options.capabilities.max_tools
        room = limit - search
        if not limit or len(names) <= room:
            return names
        kept = names[:room]
        if choice.type == "tool" and choice.name is not None and choice.name not in kept:
            kept = [*kept[:-1], choice.name]
        for name in names:
            if name not in kept:
                self._drop(name, f"{self._options.name} takes {limit} tools in one request")
        return kept

    def _drop(self, name: str, reason: str) -> None:
        text = f"tool {name} is not sent: {reason}"
        if self._unsendable == "error":
            raise AdapterError(ErrorKind.INVALID_REQUEST, text, provider=self._options.name)
        self._notify(Notice(f"tools.unsendable.{name}", text, "tools.unsendable=error"))
