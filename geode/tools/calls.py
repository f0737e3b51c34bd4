"""One call from the model's wish to its result: checks, approval, interceptors, the handler, recovery, the guard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from geode.contract import Approval, InputFault, Notice, Tier, ToolResultBlock, ToolUseBlock
from geode.hooks import (
    Block,
    Event,
    HookBus,
    ToolApprovalDenied,
    ToolApprovalGranted,
    ToolApprovalRequested,
    ToolExecEnded,
    ToolExecFailed,
    ToolExecStarted,
    ToolResultOffloaded,
)
from geode.tools import texts
from geode.tools.approval import Answer, ApprovalDesk, ApprovalRequest
from geode.tools.offload import TokenGuard
from geode.tools.recovery import Attempt, Recovery
from geode.tools.results import Converted
from geode.tools.running import HandlerRunner, own_copy
from geode.tools.safety import SafetyPolicy, Verdict
from geode.tools.toolset import ToolSource
from geode.tools.types import CallStatus, Tool, ToolEnvironment, ToolOutcome
from geode.tools.validation import null_byte_path

__all__ = ["Call", "Parts"]

DeniedBy = Literal["policy", "user", "no_terminal", "interceptor"]


@dataclass(frozen=True, slots=True)
class Parts:
    """What every call of a processor uses. origin: name of the sub-agent, empty for the run itself."""

    tools: ToolSource
    safety: SafetyPolicy
    bus: HookBus
    desk: ApprovalDesk
    guard: TokenGuard
    recovery: Recovery
    runner: HandlerRunner
    environment: ToolEnvironment
    origin: str = ""


class Call:
    """One call of a response. `outcome` is set once, by `_settle`; what comes after that is dropped."""

    __slots__ = (
        "_parts",
        "_started",
        "answer",
        "arguments",
        "deadline",
        "on_settled",
        "outcome",
        "round",
        "tool",
        "tool_use_id",
        "use",
        "verdict",
    )

    def __init__(self, parts: Parts, use: ToolUseBlock, round: int, deadline: float | None) -> None:
        self._parts = parts
        self.use = use
        self.round = round
        self.deadline = deadline
        self.tool_use_id = use.id
        self.arguments: Mapping[str, Any] = use.input
        self.tool: Tool | None = None
        self.verdict = Verdict(Approval.DENY)
        self.answer: Answer | None = None
        """The answer to a question that stood for several calls."""
        self.outcome: ToolOutcome | None = None
        self.on_settled: Callable[[], None] | None = None
        """Called once, when the outcome is there."""
        self._started: float | None = None

    # ------------------------------------------------------------------------------------------- before anything runs

    def prepare(self, disabled: bool) -> None:
        """Everything that can be said without running or asking: settles the call, or leaves tool and verdict."""
        try:
            self._prepare(disabled)
        except Exception as error:  # arguments nested beyond what can be looked at
            self._refuse(texts.internal(error), "invalid", type(error).__name__)

    def _prepare(self, disabled: bool) -> None:
        use, tools = self.use, self._parts.tools
        if disabled:
            return self._refuse(texts.DISABLED, "disabled", "ToolsDisabled", failed=False)
        if use.fault is InputFault.CUT:
            return self._refuse(texts.input_fault(use.fault, use.arguments), "invalid", "InvalidArguments")
        tool = self.tool = tools.get(use.name)
        if tool is None:
            return self._refuse(texts.unknown_tool(use.name, tools.names()), "unknown", "UnknownTool")
        if use.fault is not None:
            return self._refuse(texts.input_fault(use.fault, use.arguments), "invalid", "InvalidArguments")
        if (wrong := self._wrong(tool)) is not None:
            return self._refuse(wrong, "invalid", "InvalidArguments")
        self.verdict = self._parts.safety.decide(tool, self.arguments)
        return None

    def _wrong(self, tool: Tool) -> str | None:
        if (path := null_byte_path(self.arguments)) is not None:
            return texts.null_byte(path)
        lines = self._parts.tools.violations(tool, self.arguments)
        return texts.violations(tool.name, lines) if lines else None

    # ------------------------------------------------------------------------------------------------------- approval

    def request(self, tool: Tool) -> ApprovalRequest:
        return ApprovalRequest(self.use.id, tool.name, tool.tier, self.arguments, self._parts.origin)

    async def _approved(self, tool: Tool, verdict: Verdict, *, settle: bool = True) -> bool:
        """Whether the call may run this tool; where not (and `settle`), the call is settled as denied."""
        if verdict.approval is Approval.ALLOW:
            self._granted(tool, "policy")
            return True
        if verdict.approval is Approval.DENY:
            text = texts.denied_by_policy(tool.name, tool.tier, verdict.rule)
            self._deny(tool, "policy", "the safety policy denies it", text, verdict.override, settle)
            return False
        answer = self.answer if self.answer is not None else await self._ask(tool)
        if answer.allowed:
            self._granted(tool, answer.by)
        elif answer.by == "no_terminal":
            text = texts.denied_no_terminal(tool.name, tool.tier)
            self._deny(tool, "no_terminal", "there is no terminal to ask at", text, verdict.override, settle)
        else:
            text = texts.denied_by_user(tool.name, answer.reason)
            self._deny(tool, "user", answer.reason or "the user said no", text, verdict.override, settle)
        return answer.allowed

    async def _ask(self, tool: Tool) -> Answer:
        desk, request = self._parts.desk, self.request(tool)
        if desk.remembered(request):
            return Answer(True, "always")
        self._parts.bus.emit(
            ToolApprovalRequested(self.round, (self.use.id,), (tool.name,), tool.tier, (self.arguments,))
        )
        return await desk.ask([request])

    def _granted(self, tool: Tool, by: str) -> None:
        self._parts.bus.emit(ToolApprovalGranted(self.round, self.use.id, tool.name, tool.tier, by))

    def _deny(self, tool: Tool, by: DeniedBy, reason: str, text: str, override: str, settle: bool) -> None:
        if self.outcome is not None:
            return
        self._parts.bus.emit(ToolApprovalDenied(self.round, self.use.id, tool.name, tool.tier, by, reason))
        self._parts.environment.notify(
            Notice(f"denied:{tool.name}:{by}", f"{tool.name} ({tool.tier}) was denied: {reason}", override)
        )
        if settle:
            self._settle(text, True, "denied", tier=tool.tier)

    # -------------------------------------------------------------------------------------------------------- running

    async def run(self) -> None:
        """Approval, interceptors, handler, recovery. Raises CancelledError only, and then leaves the call open."""
        try:
            await self._run()
        except Exception as error:  # a fault of geode's own: the model still gets a result
            self._finish(Attempt(Converted(texts.internal(error), True), "error", type(error).__name__))
        finally:
            self.answer = None

    async def _run(self) -> None:
        tool, parts = self.tool, self._parts
        if tool is None or self.outcome is not None or not await self._approved(tool, self.verdict):
            return
        if parts.bus.has_interceptors(Event.TOOL_EXEC_STARTED) and not await self._intercepted(tool):
            return
        parts.bus.emit(ToolExecStarted(self.round, self.use.id, tool.name, self.arguments, tool.tier))
        self._started = asyncio.get_running_loop().time()
        due = parts.recovery.due(tool)
        attempt = await self._attempt(tool)
        if attempt.failed and due:
            attempt = await parts.recovery.run(self, tool, attempt)
        else:
            parts.recovery.counts.note(tool.name, attempt.failed)
        self._finish(attempt)

    async def _intercepted(self, tool: Tool, *, settle: bool = True) -> bool:
        """Asks the interceptors; what they rewrite is checked and approved again. False where it may not run."""
        given = ToolExecStarted(self.round, self.use.id, tool.name, own_copy(self.arguments), tool.tier)
        verdict = await self._parts.bus.intercept(given)
        if isinstance(verdict, Block):
            text = texts.blocked(tool.name, verdict.reason)
            self._deny(tool, "interceptor", verdict.reason, text, "hooks.interceptors=[]", settle)
            return False
        if verdict.input == self.arguments:
            return True
        self.arguments = verdict.input
        self.answer = None
        if (wrong := self._wrong(tool)) is not None:
            if settle:
                self._refuse(f"{texts.REWRITTEN} {wrong}", "invalid", "InvalidArguments")
            return False
        return await self._approved(tool, self._parts.safety.decide(tool, self.arguments), settle=settle)

    async def _attempt(self, tool: Tool) -> Attempt:
        return await self._parts.runner.attempt(
            tool,
            self.arguments,
            round=self.round,
            tool_use_id=self.use.id,
            deadline=self.deadline,
            abandon=self._abandon,
        )

    async def again(self) -> Attempt:
        """The retry of the recovery chain: same tool, same input."""
        assert self.tool is not None
        return await self._attempt(self.tool)

    async def instead(self, other: Tool) -> Attempt | None:
        """The alternative of the recovery chain: approved and intercepted like any call of that tool."""
        arguments, self.answer = self.arguments, None
        try:
            if not await self._approved(other, self._parts.safety.decide(other, arguments), settle=False):
                return None
            if self._parts.bus.has_interceptors(Event.TOOL_EXEC_STARTED) and not await self._intercepted(
                other, settle=False
            ):
                return None
            return await self._attempt(other)
        finally:
            self.arguments = arguments

    # ----------------------------------------------------------------------------------------------------- settlement

    def close(self, text: str, status: CallStatus) -> None:
        """Settles a call that is still open with a text; one that is settled stays as it is."""
        if self.outcome is None:
            error_type = "TimeoutError" if status == "timeout" else "CancelledError"
            self._refuse(text, status, error_type, failed=status == "error")

    def _abandon(self, attempt: Attempt) -> None:
        """The handler ignores its cancellation: the run goes on without it."""
        tool = self.tool
        if self.outcome is None and tool is not None:
            message = f"{tool.name} did not stop when its time was up: it may still be running"
            self._parts.environment.notify(Notice(f"stuck:{tool.name}", message))
            self._parts.recovery.counts.note(tool.name, True)
            self._finish(attempt)

    def _refuse(self, text: str, status: CallStatus, error_type: str, failed: bool = True) -> None:
        self._settle(text, True, status, failed=failed, tier=self.tool.tier if self.tool is not None else None)
        assert self.outcome is not None
        result, elapsed = self.outcome.result, self.outcome.elapsed_s
        self._parts.bus.emit(ToolExecFailed(self.round, self.use.id, self.use.name, result, error_type, text, elapsed))

    def _finish(self, attempt: Attempt) -> None:
        if self.outcome is not None:  # closed or abandoned meanwhile
            return
        tool, bus, converted = self.tool, self._parts.bus, attempt.result
        content = converted.content
        if tool is None or tool.offloads:
            content, away = self._parts.guard.apply(content, converted.shape)
            if away is not None:
                bus.emit(
                    ToolResultOffloaded(
                        self.round, self.use.id, self.use.name, away.ref_id, away.size_bytes, away.tokens
                    )
                )
        result = ToolResultBlock(self.use.id, content, attempt.failed)
        tier = None if tool is None else tool.tier
        elapsed = self._elapsed()
        self._set(ToolOutcome(self.use, result, attempt.status, attempt.failed, converted.end, elapsed, tier))
        if attempt.error_type:
            message = result.text
            bus.emit(
                ToolExecFailed(self.round, self.use.id, self.use.name, result, attempt.error_type, message, elapsed)
            )
        else:
            bus.emit(ToolExecEnded(self.round, self.use.id, self.use.name, result, elapsed))

    def _settle(
        self, text: str, is_error: bool, status: CallStatus, *, failed: bool = False, tier: Tier | None = None
    ) -> None:
        result = ToolResultBlock(self.use.id, text, is_error)
        self._set(ToolOutcome(self.use, result, status, failed, None, self._elapsed(), tier))

    def _set(self, outcome: ToolOutcome) -> None:
        self.outcome = outcome
        if self.on_settled is not None:
            self.on_settled()

    def _elapsed(self) -> float:
        return 0.0 if self._started is None else asyncio.get_running_loop().time() - self._started
