"""What a tool is, what its handler gets and may return, and what became of a call."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from geode.contract import (
    ImageBlock,
    Notice,
    NoticeSink,
    TerminationReason,
    TextBlock,
    Tier,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
)

__all__ = [
    "ASKER",
    "LOADER",
    "OFFLOAD_STORE",
    "SUBAGENTS",
    "CallStatus",
    "EndRequest",
    "Handler",
    "Tool",
    "ToolConfigError",
    "ToolContext",
    "ToolEnvironment",
    "ToolError",
    "ToolOutcome",
    "ToolReturn",
]

# Keys of `ToolContext.services`.
OFFLOAD_STORE = "offload_store"
ASKER = "asker"
SUBAGENTS = "subagents"
LOADER = "loader"


def _ignore(_notice: Notice) -> None:
    """A notice sink for tools used outside a run."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a handler may know of the call it serves.

    workspace: the folder that file tools work in. environ: environment variables without secrets (those that
    `safety.sandbox.env` names besides the harmless ones).
    deadline: `loop.time()` at which the call is cancelled, None where it has no limit.
    limits: plain values of the config's `safety.sandbox` and `safety.web`, under `sandbox` and `web`.
    stopped: set when a sync handler's call was given up (deadline, cancel): a long loop in a thread may look at it,
    since a thread cannot be ended from outside. None for async handlers, which are cancelled.
    """

    workspace: Path
    round: int = 1
    tool_use_id: str = ""
    tool: str = ""
    deadline: float | None = None
    notify: NoticeSink = _ignore
    environ: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    services: Mapping[str, Any] = field(default_factory=dict)
    stopped: threading.Event | None = None


@dataclass(frozen=True, slots=True)
class ToolEnvironment:
    """The part of a `ToolContext` that is the same for every call of a run."""

    workspace: Path
    notify: NoticeSink = _ignore
    environ: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    services: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndRequest:
    """A handler's wish that the run end after this round (nobody to ask, something to be done outside)."""

    reason: TerminationReason
    text: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolReturn:
    """A handler's result in full: content as text, as blocks or as any JSON value; an error flag; an end request."""

    content: str | Sequence[TextBlock | ImageBlock] | Any
    is_error: bool = False
    end: EndRequest | None = None


Handler = Callable[[Mapping[str, Any], ToolContext], Any | Awaitable[Any]]
"""A bound handler. It returns a str, a JSON value, a `ToolReturn`, or an awaitable of one."""


class ToolError(Exception):
    """Raised by a handler: the model gets an error result with exactly this message."""


class ToolConfigError(Exception):
    """The tools as configured cannot be used. `faults`: all of them, one line each, naming tool and file."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that can be called.

    source: `builtin`, `user`, `geode` or `mcp:NAME`. timeout_s: seconds a call may take, None takes the config's.
    auto_approved: calls need no approval and run beside others (an MCP server with `auto_approve`).
    offloads: a large result goes to the offload store. reads_offload: the tool reads from that store.
    alternatives: names of tools that may stand in for this one when it keeps failing.
    is_async: the handler returns an awaitable at once; otherwise it is called in a thread. Found out where not given.
    """

    spec: ToolSpec
    tier: Tier
    handler: Handler
    source: str = "user"
    category: str = ""
    cost_tier: str = ""
    timeout_s: float | None = None
    auto_approved: bool = False
    offloads: bool = True
    reads_offload: bool = False
    alternatives: tuple[str, ...] = ()
    is_async: bool | None = None

    def __post_init__(self) -> None:
        if self.is_async is None:
            call = getattr(self.handler, "__call__", None)  # noqa: B004
            known = inspect.iscoroutinefunction(self.handler) or inspect.iscoroutinefunction(call)
            object.__setattr__(self, "is_async", known)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def parallel(self) -> bool:
        """Whether calls may run beside each other: nothing they do is seen by another call."""
        return self.auto_approved or self.tier in (Tier.SAFE, Tier.EXPENSIVE)


CallStatus = Literal["ok", "error", "denied", "disabled", "invalid", "unknown", "timeout", "cancelled"]


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What became of one call.

    failed: counts as a tool failure (denials, disabled tools and cancelled calls do not). elapsed_s: seconds from the
    call's start to its result, 0 where it was not run. tier: None where the tool is unknown or was not looked up.
    """

    tool_use: ToolUseBlock
    result: ToolResultBlock
    status: CallStatus
    failed: bool = False
    end: EndRequest | None = None
    elapsed_s: float = 0.0
    tier: Tier | None = None
