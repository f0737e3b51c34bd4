"""What a config gives the model, tool by tool."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

from geode.config_errors import shown
from geode.contract import NoticeSink
from geode.runner.backends import adapter_options
from geode.runner.mcp import list_mcp_tools
from geode.runner.toolbox import choose_tools, load_registry
from geode.settings import Rule, Settings
from geode.tokens import estimate_tokens
from geode.tools.tool_search import SEARCH_TOOL
from geode.tools.types import Tool

__all__ = ["Listing", "Row", "listing"]

_STRICTNESS = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True)
class Row:
    """One tool. tokens: estimate of what its definition takes in a request. approval: `allow`, `ask` or `deny`; rules:
    what calls with certain arguments need instead. deferred: loaded on demand.
    """

    name: str
    tier: str
    source: str
    tokens: int
    approval: str
    rules: tuple[str, ...]
    deferred: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a config, those that it has but does not give the model, and why none are sent where that is so."""

    rows: tuple[Row, ...]
    left_out: tuple[str, ...]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "tools": [asdict(row) for row in self.rows],
            "left_out": list(self.left_out),
            "tokens": sum(row.tokens for row in self.rows),
        }
        return {**found, "note": self.note} if self.note else found

    def table(self) -> str:
        head = ("NAME", "TIER", "SOURCE", "TOKENS", "APPROVAL", "DEFERRED")
        lines = [head, *(_cells(row) for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        at_once = sum(row.tokens for row in self.rows if not row.deferred)
        late = sum(row.deferred for row in self.rows)
        total = f"{len(self.rows)} tools, about {sum(row.tokens for row in self.rows)} tokens"
        text += ["", f"{total}; {late} on demand, the others about {at_once}" if late else total]
        if self.left_out:
            text.append(f"not given to the model (toolset): {', '.join(self.left_out)}")
        if self.note:
            text.append(self.note)
        return "\n".join(line.rstrip() for line in text)


def _cells(row: Row) -> tuple[str, ...]:
    approval = "; ".join((row.approval, *row.rules))
    return row.name, row.tier, row.source, str(row.tokens), approval, "yes" if row.deferred else "no"


async def listing(settings: Settings, environ: Mapping[str, str], notify: NoticeSink) -> Listing:
    """Reads the tools of a config, its MCP servers' too. Raises ConfigFault."""
    registry = load_registry(settings)
    await list_mcp_tools(settings, registry, environ=environ, notify=notify)
    toolset, on_demand = choose_tools(settings, registry)
    options = adapter_options(settings.adapter)
    late = on_demand.late() if on_demand is not None and options.capabilities.tools else {}
    given = list(toolset.tools())
    if late and not options.capabilities.tool_search and (search := registry.get(SEARCH_TOOL)) is not None:
        given.append(search)
    rows = tuple(_row(tool, settings, deferred=tool.name in late) for tool in given)
    names = {row.name for row in rows} | {SEARCH_TOOL}
    left_out = tuple(name for name in registry.names() if name not in names)
    note = "" if options.capabilities.tools else f"{options.name} takes text only: none of them is sent"
    return Listing(rows, left_out, note)


def _row(tool: Tool, settings: Settings, *, deferred: bool) -> Row:
    spec = tool.spec
    sent = {"name": spec.name, "description": spec.description, "input_schema": dict(spec.input_schema)}
    tokens = estimate_tokens(json.dumps(sent, ensure_ascii=False, default=str))
    approval, rules = _approval(tool, settings)
    return Row(tool.name, tool.tier.value, tool.source, tokens, approval, rules, deferred)


def _approval(tool: Tool, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """What a call needs in general, and the rules that say otherwise for some arguments."""
    rules = [rule for rule in settings.safety.rules if fnmatchcase(tool.name, rule.tool)]
    always = [rule.approval for rule in rules if not rule.arguments]
    if always:
        approval: str = _strictest(always)
    elif tool.auto_approved:
        approval = "allow"
    else:
        approval = getattr(settings.safety.tiers, tool.tier.value)
    some = [rule for rule in rules if rule.arguments and (not always or _stricter(rule.approval, approval))]
    return approval, tuple(_said(rule) for rule in some)


def _strictest(approvals: Iterable[str]) -> str:
    return max(approvals, key=_STRICTNESS.index)


def _stricter(one: str, other: str) -> bool:
    return _STRICTNESS.index(one) > _STRICTNESS.index(other)


def _said(rule: Rule) -> str:
    conditions: Sequence[str] = [f"{name} {'=' if rule.approval == 'allow' else '~'} {shown(pattern)}"
                                 for name, pattern in rule.arguments.items()]  # fmt: skip
    return f"{rule.approval} if {' and '.join(conditions)}"
