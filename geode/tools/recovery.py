"""What is done about a tool that keeps failing: a retry, a declared alternative, then a structured error.

Failures in a row are counted per tool. The call after the limit still runs as any other; when it fails too, the chain
goes to work on it. A success of the tool sets its count back to zero. Denials, disabled tools and calls that never
reached the tool (bad arguments) do not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from geode.contract import ImageBlock, TextBlock, Tier
from geode.hooks import HookBus, ToolRecoveryAttempted, ToolRecoveryFailed, ToolRecoverySucceeded
from geode.tools import texts
from geode.tools.results import Converted
from geode.tools.toolset import ToolSource
from geode.tools.types import CallStatus, Tool

__all__ = ["Attempt", "FailureCounts", "Recovery", "RecoveryOptions"]


@dataclass(frozen=True, slots=True)
class RecoveryOptions:
    """tool_failures: failures in a row after which the chain is on, 0 turns it off. retry_delay_s: seconds.

    alternatives: tool name to the name of the tool that may stand in for it; it comes before those of a definition.
    """

    tool_failures: int = 2
    retry: bool = True
    retry_delay_s: float = 0.5
    alternative: bool = True
    structured_error: bool = True
    alternatives: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one run of a handler came to. `error_type` is empty unless it raised or timed out."""

    result: Converted
    status: CallStatus = "ok"
    error_type: str = ""

    @property
    def failed(self) -> bool:
        return self.status != "ok"


class FailureCounts:
    """Failures in a row, by tool name."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def of(self, name: str) -> int:
        return self._counts.get(name, 0)

    def note(self, name: str, failed: bool) -> None:
        if failed:
            self._counts[name] = self._counts.get(name, 0) + 1
        elif self._counts:
            self._counts.pop(name, None)


class Recoverable(Protocol):
    """The call that the chain works on."""

    round: int
    tool_use_id: str
    arguments: Mapping[str, Any]

    async def again(self) -> Attempt: ...
    async def instead(self, other: Tool) -> Attempt | None:
        """Runs another tool with the same input; None where that was not approved."""
        ...


class Recovery:
    """The counts of a run and its chain."""

    def __init__(self, options: RecoveryOptions, tools: ToolSource, bus: HookBus) -> None:
        self._options = options
        self._tools = tools
        self._bus = bus
        self.counts = FailureCounts()

    def due(self, tool: Tool) -> bool:
        """Whether the chain is on for a call of this tool that starts now."""
        limit = self._options.tool_failures
        return limit > 0 and self.counts.of(tool.name) >= limit

    async def run(self, call: Recoverable, tool: Tool, failed: Attempt) -> Attempt:
        """The best that the chain can make of a failed attempt; the attempt itself where every step is off.

        The counts are kept here: a retry that works sets the tool's to zero; where another tool stood in, or nothing
        helped, this tool has failed once more.
        """
        tried: list[str] = []
        failures = self.counts.of(tool.name) + 1
        if self._options.retry and tool.tier is Tier.SAFE:
            self._attempted(call, tool, "retry", failures)
            await asyncio.sleep(self._options.retry_delay_s)
            again = await call.again()
            if not again.failed:
                self.counts.note(tool.name, False)
                return self._succeeded(call, tool, "retry", again)
            failed = again
            tried.append("the same input again")
        for other in self._alternatives(call, tool):
            self._attempted(call, tool, "alternative", failures, other.name)
            instead = await call.instead(other)
            if instead is None:
                tried.append(f"{other.name} with the same input: not approved")
                continue
            self.counts.note(other.name, instead.failed)
            if not instead.failed:
                self.counts.note(tool.name, True)
                named = replace(instead, result=_labelled(instead.result, tool.name, other.name))
                return self._succeeded(call, tool, "alternative", named, other.name)
            tried.append(f"{other.name} with the same input")
        if self._options.structured_error:
            self._attempted(call, tool, "structured_error", failures)
            text = texts.structured_error(tool.name, _text(failed.result), failures, tried, self._others(tool))
            failed = replace(failed, result=replace(failed.result, content=text, is_error=True, shape=""))
        self.counts.note(tool.name, True)
        if not tried and not self._options.structured_error:
            return failed
        self._bus.emit(ToolRecoveryFailed(call.round, call.tool_use_id, tool.name, tuple(tried)))
        return failed

    def _alternatives(self, call: Recoverable, tool: Tool) -> list[Tool]:
        if not self._options.alternative:
            return []
        return [
            other
            for name in self._names(tool)
            if (other := self._tools.get(name)) is not None
            and other.tier.rank <= tool.tier.rank
            and not self._tools.violations(other, call.arguments)
        ]

    def _names(self, tool: Tool) -> list[str]:
        declared = [self._options.alternatives.get(tool.name), *tool.alternatives]
        return list(dict.fromkeys(name for name in declared if name and name != tool.name))

    def _others(self, tool: Tool) -> list[str]:
        return [name for name in self._names(tool) if self._tools.get(name) is not None]

    def _attempted(self, call: Recoverable, tool: Tool, step: str, failures: int, other: str | None = None) -> None:
        self._bus.emit(ToolRecoveryAttempted(call.round, call.tool_use_id, tool.name, step, failures, other))

    def _succeeded(
        self, call: Recoverable, tool: Tool, step: str, attempt: Attempt, other: str | None = None
    ) -> Attempt:
        self._bus.emit(ToolRecoverySucceeded(call.round, call.tool_use_id, tool.name, step, other))
        return attempt


def _text(result: Converted) -> str:
    if isinstance(result.content, str):
        return result.content
    return "\n".join(block.text for block in result.content if isinstance(block, TextBlock))


def _labelled(result: Converted, name: str, other: str) -> Converted:
    label = texts.alternative_result(name, other)
    if isinstance(result.content, str):
        return replace(result, content=f"{label}\n{result.content}" if result.content else label)
    blocks: tuple[TextBlock | ImageBlock, ...] = (TextBlock(label), *result.content)
    return replace(result, content=blocks)
