"""Tools, processors and people for the tests of running tools."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import pty
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from geode.contract import Notice, Tier, ToolSpec, ToolUseBlock
from geode.hooks import Event, HookBus, Payload
from geode.tools.approval import Answer, ApprovalRequest, NoTerminal
from geode.tools.binding import bind
from geode.tools.offload import OffloadStore
from geode.tools.processor import ProcessorOptions, ToolBatch, ToolCallProcessor
from geode.tools.recovery import RecoveryOptions
from geode.tools.registry import ToolRegistry
from geode.tools.safety import SafetyPolicy
from geode.tools.terminal import Terminal
from geode.tools.types import OFFLOAD_STORE, Tool, ToolEnvironment, ToolOutcome

ANYTHING: Mapping[str, Any] = {"type": "object"}
ALLOW_ALL = {"safe": "allow", "expensive": "allow", "write": "allow", "dangerous": "allow"}


def make_tool(
    function: Callable[..., Any],
    tier: str = "safe",
    schema: Mapping[str, Any] = ANYTHING,
    *,
    name: str = "",
    **more: Any,
) -> Tool:
    """A tool of a plain function, bound as the registry binds it."""
    bound = bind(function, schema)
    spec = ToolSpec(name or function.__name__, "", schema)
    return Tool(spec, Tier(tier), bound.handler, is_async=bound.is_async, **more)


def call(name: str, id: str = "", **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(id or f"id_{name}", name, arguments)


class Always:
    """Gives the same answer to every question, and keeps the questions."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[list[str]] = []

    async def ask(self, calls: Sequence[ApprovalRequest]) -> Answer:
        self.asked.append([call.tool for call in calls])
        return self.answer


class Bench:
    """A processor over some tools, with everything that it told."""

    def __init__(
        self,
        *tools: Tool,
        tiers: Mapping[str, str] = ALLOW_ALL,
        rules: Sequence[Mapping[str, Any]] = (),
        approver: Any = None,
        recovery: RecoveryOptions | None = None,
        folder: Path = Path("."),
        registry: ToolRegistry | None = None,
        store: OffloadStore | None = None,
        **options: Any,
    ) -> None:
        self.events: list[Payload] = []
        self.notices: list[Notice] = []
        self.bus = HookBus(notify=self.notices.append)
        self.bus.inline(self.events.append)
        self.registry = registry or ToolRegistry(tools)
        self.processor = ToolCallProcessor(
            self.registry,
            SafetyPolicy.from_config(tiers, rules),
            self.bus,
            approver or NoTerminal(),
            store,
            environment=ToolEnvironment(folder, self.notices.append, services={OFFLOAD_STORE: store} if store else {}),
            options=ProcessorOptions(**options),
            recovery=recovery or RecoveryOptions(tool_failures=0),
        )

    def batch(self, *calls: ToolUseBlock, round: int = 1, **more: Any) -> ToolBatch:
        return self.processor.batch(calls, round=round, **more)

    async def run(self, *calls: ToolUseBlock, **more: Any) -> list[ToolOutcome]:
        return await self.batch(*calls, **more).run()

    async def one(self, name: str, **arguments: Any) -> ToolOutcome:
        (outcome,) = await self.run(call(name, **arguments))
        return outcome

    def told(self, *events: Event) -> list[Payload]:
        """The payloads of these events, in order."""
        return [p for p in self.events if p.event in events]

    def names(self, skip: Iterable[Event] = ()) -> list[str]:
        return [p.event.value for p in self.events if p.event not in set(skip)]


def texts(outcomes: Iterable[ToolOutcome]) -> list[str]:
    return [outcome.result.text for outcome in outcomes]


def statuses(outcomes: Iterable[ToolOutcome]) -> list[str]:
    return [outcome.status for outcome in outcomes]


class Person:
    """Somebody at a real terminal who answers each prompt with the next of some lines."""

    def __init__(self, *answers: str, prompt: str = "): ") -> None:
        self.answers = list(answers)
        self.prompt = prompt
        self.master, self.slave = pty.openpty()
        self.terminal = Terminal(os.ttyname(self.slave))
        self.shown = ""
        self._new = ""

    def __enter__(self) -> Person:
        asyncio.get_running_loop().add_reader(self.master, self._read)
        return self

    def __exit__(self, *_exc: object) -> None:
        asyncio.get_running_loop().remove_reader(self.master)
        os.close(self.master)
        os.close(self.slave)

    def _read(self) -> None:
        text = os.read(self.master, 65536).decode()
        self.shown += text
        self._new += text
        if self._new.endswith(self.prompt) and self.answers:
            self._new = ""
            os.write(self.master, self.answers.pop(0).encode())

    @property
    def lines(self) -> list[str]:
        """What was shown, without the prompts' answers and empty lines."""
        return [line for line in re.split(r"\r?\n", self.shown) if line]


async def run_config(folder: Path, *words: str) -> Path:
    """Runs a config in this process, with nobody at its terminal; gives the run's folder."""
    from geode.compose import compose_settings
    from geode.runner import run_settings

    run_dir = folder / "run"
    with contextlib.chdir(folder), mock.patch("sys.stdin", io.StringIO()):
        result = await run_settings(compose_settings(words), run_dir)
    assert result.termination_reason == "natural", result
    return run_dir
