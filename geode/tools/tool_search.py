"""Many tools, loaded on demand: which of them a request carries, and the search that finds the rest.

Where the backend has a tool search of its own, every tool is sent and those outside the core set are marked as
deferred. Where it has none, a request carries the core set, geode's own `tool_search`, and the tools found so far:
these come at the end, in the order in which they were found, so that what a provider has cached of the list stays
valid.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from geode.contract import Capabilities, History, Message, ToolResultBlock, ToolSpec, ToolUseBlock
from geode.tools.toolset import Toolset
from geode.tools.types import LOADER, Tool, ToolContext, ToolError

__all__ = ["SEARCH_TOOL", "LoadOnDemand", "ToolIndex", "tool_search"]

SEARCH_TOOL = "tool_search"

_K1, _B = 1.2, 0.75
"""The usual constants of BM25: how soon a repeated word counts no more, and how far a long text counts less."""
_NAME_WEIGHT = 4
"""A word of the name counts as often as this many in the description."""
_SHOWN = 300
"""Longest description, in characters, that a search result shows."""
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ToolIndex:
    """Ranks tools by BM25 (Robertson and Zaragoza 2009) over name, description and parameters. Deterministic: equal
    scores keep the tools' order."""

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        self._specs = tuple(specs)
        self._counts = [Counter(_document(spec)) for spec in specs]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._average = sum(self._lengths) / max(1, len(self._lengths)) or 1.0
        self._having = Counter(word for counts in self._counts for word in counts)

    def search(self, query: str, limit: int) -> list[ToolSpec]:
        """The best tools for some words, best first; those that share no word with them are left out."""
        words = dict.fromkeys(_words(query))
        asked = query.strip().casefold()
        scored = []
        for index, spec in enumerate(self._specs):
            score = sum(self._score(word, index) for word in words)
            if asked and asked == spec.name.casefold():
                score += 1000.0
            if score > 0:
                scored.append((-score, index))
        return [self._specs[index] for _, index in sorted(scored)[:limit]]

    def _score(self, word: str, index: int) -> float:
        count = self._counts[index][word]
        if not count:
            return 0.0
        having, total = self._having[word], len(self._specs)
        rarity = math.log(1 + (total - having + 0.5) / (having + 0.5))
        length = 1 - _B + _B * self._lengths[index] / self._average
        return rarity * count * (_K1 + 1) / (count + _K1 * length)


class LoadOnDemand:
    """The tools of a run where there may be too many for each request: a toolset with the search tool besides.

    search: geode's own search tool. threshold: up to so many tools, all are sent in full. core: names or globs of the
    tools that always are. What was loaded stays so: by a search, or by a call of a tool that the model knew by name.
    """

    def __init__(self, toolset: Toolset, search: Tool, *, threshold: int, core: Sequence[str]) -> None:
        self._toolset = toolset
        self._search = search
        self.threshold = threshold
        self._core_names = tuple(core)
        self._loaded: dict[str, None] = {}
        self._version = -1
        self._late: dict[str, Tool] = {}
        self._index: ToolIndex | None = None
        self._seen: tuple[int, int] = (0, 0)
        self._searches: set[str] = set()
        self._sent: tuple[Any, tuple[ToolSpec, ...]] = (None, ())

    # -------------------------------------------------------------------------------------------- for the processor

    def get(self, name: str) -> Tool | None:
        return self._search if name == self._search.name else self._toolset.get(name)

    def names(self) -> tuple[str, ...]:
        return (*self._toolset.names(), *((self._search.name,) if self.late() else ()))

    def violations(self, tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
        return self._toolset.violations(tool, arguments)

    # ----------------------------------------------------------------------------------------------- for the requests

    def late(self) -> Mapping[str, Tool]:
        """The tools outside the core set; none where there are few enough tools to send them all."""
        if self._version != self._toolset.version:
            tools = self._toolset.tools()
            few = len(tools) <= self.threshold
            self._late = {} if few else {tool.name: tool for tool in tools if not self._core(tool)}
            self._index = None
            self._version = self._toolset.version
        return self._late

    def deferred(self, capabilities: Capabilities) -> frozenset[str]:
        """Names that a backend with tool search gets as deferred."""
        return frozenset(self.late()) if capabilities.tool_search else frozenset()

    def specs(self, capabilities: Capabilities, history: History) -> tuple[ToolSpec, ...]:
        """The tools of the next request."""
        late = self.late()
        if not late or capabilities.tool_search:
            return self._toolset.specs()
        self._follow(history)
        key = (self._version, tuple(self._loaded), capabilities.max_tools)
        if key != self._sent[0]:
            core = [tool.spec for tool in self._toolset.tools() if tool.name not in late]
            loaded = [late[name].spec for name in self._loaded if name in late]
            if capabilities.max_tools:
                room = max(0, capabilities.max_tools - len(core) - 1)
                loaded = loaded[len(loaded) - min(room, len(loaded)) :]
            self._sent = (key, (*core, self._search.spec, *loaded))
        return self._sent[1]

    def search(self, query: str, limit: int) -> Mapping[str, Any]:
        """Finds tools and loads them."""
        late = self.late()
        if self._index is None:
            self._index = ToolIndex([tool.spec for tool in late.values()])
        found = self._index.search(query, limit)
        for spec in found:
            self._loaded.setdefault(spec.name)
        tools = [{"name": spec.name, "description": _short(spec.description)} for spec in found]
        if tools:
            return {"tools": tools, "count": len(tools)}
        return {"tools": [], "count": 0, "all_names": sorted(late)[:100]}

    def _core(self, tool: Tool) -> bool:
        return tool.reads_offload or any(fnmatchcase(tool.name, pattern) for pattern in self._core_names)

    def _follow(self, history: History) -> None:
        """Loads what the history calls or has found: after a resume, too, each known tool is there again."""
        generation, seen = self._seen
        start = seen if generation == history.generation else 0
        for message in history[start:]:
            self._read(message)
        self._seen = (history.generation, len(history))

    def _read(self, message: Message) -> None:
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                if block.name == self._search.name:
                    self._searches.add(block.id)
                elif block.name in self._late:
                    self._loaded.setdefault(block.name)
            elif isinstance(block, ToolResultBlock) and block.tool_use_id in self._searches:
                for name in re.findall(r'"name": ?"([^"]+)"', block.text):
                    if name in self._late:
                        self._loaded.setdefault(name)


def tool_search(query: str, limit: int = 5, *, context: ToolContext) -> Mapping[str, Any]:
    """The handler: finds tools that are not loaded."""
    loader = context.services.get(LOADER)
    if not isinstance(loader, LoadOnDemand):
        raise ToolError("Every tool is listed already: there is nothing to search.")
    return loader.search(query, limit)


def _document(spec: ToolSpec) -> list[str]:
    words = _words(spec.name) * _NAME_WEIGHT + _words(spec.description)
    properties = spec.input_schema.get("properties")
    if isinstance(properties, Mapping):
        for name, schema in properties.items():
            words += _words(str(name))
            if isinstance(schema, Mapping) and isinstance(schema.get("description"), str):
                words += _words(schema["description"])
    return words


def _words(text: str) -> list[str]:
    return [_stem(word) for word in _WORD.findall(_CAMEL.sub(" ", text).casefold())]


def _stem(word: str) -> str:
    """A word without the endings that most often keep two forms of it apart."""
    for ending, least in (("ing", 6), ("ies", 5), ("es", 5), ("ed", 5), ("s", 4), ("e", 4)):
        if word.endswith(ending) and len(word) >= least:
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
