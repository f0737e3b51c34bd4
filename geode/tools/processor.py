"""Runs the calls of a response: together where that is safe, one after another where order matters.

Consecutive calls that are safe, expensive (once approved) or of an auto-approved server run together. A write or
dangerous call waits for all calls before it and holds back all after it, so that a read after a write sees the write.
Results keep the order of the calls, whichever finished first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from geode.contract import Approval, Tier, ToolUseBlock
from geode.hooks import HookBus, ToolApprovalRequested
from geode.tools import texts
from geode.tools.approval import Answer, ApprovalDesk, Approver
from geode.tools.calls import Call, Parts
from geode.tools.offload import OffloadStore, TokenGuard
from geode.tools.recovery import Recovery, RecoveryOptions
from geode.tools.running import HandlerRunner
from geode.tools.safety import SafetyPolicy
from geode.tools.toolset import ToolSource
from geode.tools.types import CallStatus, ToolEnvironment, ToolOutcome

__all__ = ["ProcessorOptions", "ToolBatch", "ToolCallProcessor"]


@dataclass(frozen=True, slots=True)
class ProcessorOptions:
    """timeout_s: seconds per call, 0 is no limit. max_parallel: calls at a time. result_tokens: the token guard's
    limit in estimated tokens, 0 is off. cancel_grace_s: seconds a cancelled handler has for its clean-up.
    """

    timeout_s: float = 60.0
    max_parallel: int = 16
    result_tokens: int = 5000
    cancel_grace_s: float = 5.0


class ToolCallProcessor:
    """The tools of one run at work. Its desk (and with it what was approved for always) may be shared with sub-agents.

    approver: asks a person; a desk of its own is made for it. origin: name of the sub-agent that this serves.
    """

    def __init__(
        self,
        tools: ToolSource,
        safety: SafetyPolicy,
        bus: HookBus,
        approver: Approver | ApprovalDesk,
        store: OffloadStore | None,
        *,
        environment: ToolEnvironment,
        options: ProcessorOptions | None = None,
        recovery: RecoveryOptions | None = None,
        origin: str = "",
    ) -> None:
        self._options = options = options or ProcessorOptions()
        runner = HandlerRunner(
            environment,
            timeout_s=options.timeout_s,
            cancel_grace_s=options.cancel_grace_s,
            max_threads=options.max_parallel,
        )
        self._parts = Parts(
            tools=tools,
            safety=safety,
            bus=bus,
            desk=approver if isinstance(approver, ApprovalDesk) else ApprovalDesk(approver),
            guard=TokenGuard(store, options.result_tokens, environment.notify),
            recovery=Recovery(recovery or RecoveryOptions(), tools, bus),
            runner=runner,
            environment=environment,
            origin=origin,
        )

    @property
    def desk(self) -> ApprovalDesk:
        return self._parts.desk

    def batch(
        self, tool_uses: Sequence[ToolUseBlock], *, round: int, disabled: bool = False, deadline: float | None = None
    ) -> ToolBatch:
        """The calls of one response. disabled: none is run, each is answered. deadline: `loop.time()`, None is none."""
        return ToolBatch(self._parts, self._options, tool_uses, round, disabled, deadline)

    def close(self) -> None:
        """Lets the threads of sync handlers end."""
        self._parts.runner.close()


class ToolBatch:
    """The calls of one response, from start to end. Made by `ToolCallProcessor.batch`; runs once."""

    def __init__(
        self,
        parts: Parts,
        options: ProcessorOptions,
        tool_uses: Sequence[ToolUseBlock],
        round: int,
        disabled: bool,
        deadline: float | None,
    ) -> None:
        self._parts = parts
        self._options = options
        self._calls = [Call(parts, use, round, deadline) for use in tool_uses]
        self._round = round
        self._disabled = disabled
        self._deadline = deadline

    async def run(self) -> list[ToolOutcome]:
        """Runs all calls; one outcome each, in their order. Raises CancelledError, after the handlers have ended."""
        if self._deadline is None:
            await self._run()
        elif self._deadline > asyncio.get_running_loop().time():
            try:
                async with asyncio.timeout_at(self._deadline):
                    await self._run()
            except TimeoutError:
                pass
        return self._close(texts.OUT_OF_TIME, "timeout")

    def close(self, text: str) -> list[ToolOutcome]:
        """After a cancel: finished results are kept, the open calls get `text` as an error result."""
        return self._close(text, "cancelled")

    def _close(self, text: str, status: CallStatus) -> list[ToolOutcome]:
        outcomes = []
        for call in self._calls:
            call.close(text, status)
            assert call.outcome is not None
            outcomes.append(call.outcome)
        return outcomes

    async def _run(self) -> None:
        for call in self._calls:
            call.prepare(self._disabled)
        await self._ask_for_expensive()
        for group in self._groups():
            await _Together(group, self._options).run()

    async def _ask_for_expensive(self) -> None:
        """One question for all expensive calls of the response that need one."""
        asking = []
        for call in self._calls:
            tool = call.tool
            if tool is None or call.outcome is not None or call.verdict.approval is not Approval.ASK:
                continue
            if tool.tier is Tier.EXPENSIVE and not self._parts.desk.remembered(request := call.request(tool)):
                asking.append((call, request))
        if len(asking) < 2:
            return
        requests = [request for _, request in asking]
        self._parts.bus.emit(
            ToolApprovalRequested(
                self._round,
                tuple(request.tool_use_id for request in requests),
                tuple(request.tool for request in requests),
                Tier.EXPENSIVE,
                tuple(request.arguments for request in requests),
            )
        )
        answer: Answer = await self._parts.desk.ask(requests)
        for call, _ in asking:
            call.answer = answer

    def _groups(self) -> Iterator[list[Call]]:
        """Calls that may run together, in order; looked at anew as each group ends."""
        group: list[Call] = []
        for call in self._calls:
            if call.outcome is not None or call.tool is None:
                continue
            if call.tool.parallel:
                group.append(call)
                continue
            if group:
                yield group
            yield [call]
            group = []
        if group:
            yield group


class _Together:
    """Runs some calls beside each other, a task each, and waits until every one is settled.

    It waits for the calls, not for the tasks: a handler that ignores its cancellation cannot hold up the run.
    """

    def __init__(self, calls: list[Call], options: ProcessorOptions) -> None:
        self._waiting = deque(calls)
        self._options = options
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = len(calls)
        self._loop = asyncio.get_running_loop()
        self._all_done: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> None:
        for _ in range(min(self._options.max_parallel, len(self._waiting))):
            self._start()
        try:
            await self._all_done
        except asyncio.CancelledError:
            self._waiting.clear()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._options.cancel_grace_s)
            raise

    def _start(self) -> None:
        call = self._waiting.popleft()
        call.on_settled = self._settled
        task = self._loop.create_task(call.run())
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, call))

    def _ended(self, call: Call, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._all_done.done():  # where not cancelled from outside: a handler that cancels its own task
            call.close(texts.CANCELLED_ITSELF, "error")

    def _settled(self) -> None:
        self._open -= 1
        if self._waiting:
            self._start()
        elif self._open == 0 and not self._all_done.done():
            self._all_done.set_result(None)
