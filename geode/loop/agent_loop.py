"""The loop: one provider-neutral round after another, until a guard, the model or the user ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from geode.contract import (
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    ErrorKind,
    History,
    Message,
    StopReason,
    TerminationReason,
    TextBlock,
    ToolSpec,
    ToolUseBlock,
)
from geode.hooks import Block as Blocked
from geode.hooks import HintInserted, HookBus, TurnCompleted, UserInputReceived
from geode.loop.answering import Answering, is_refusal, is_unfinished
from geode.loop.context import ContextManager
from geode.loop.guards import Guard, OverthinkingGuard
from geode.loop.llm import LlmCaller
from geode.loop.policy import RoundPlan, TurnPolicy
from geode.loop.progress import ProgressWatch
from geode.loop.result import AgenticResult, End, RunEnded
from geode.loop.state import RunState
from geode.tools.types import ToolOutcome

__all__ = ["AgentLoop", "Batch", "Processor"]

_UNANSWERED = TextBlock("(no answer: the call was interrupted)")


class Batch(Protocol):
    """The calls of one response while they run."""

    async def run(self) -> list[ToolOutcome]: ...
    def close(self, text: str) -> list[ToolOutcome]: ...


class Processor(Protocol):
    """Runs the calls of a response."""

    def batch(
        self, tool_uses: Sequence[ToolUseBlock], *, round: int, disabled: bool = False, deadline: float | None = None
    ) -> Batch: ...


@dataclass(slots=True)
class AgentLoop:
    """One run. Owns its history and state; everything it uses is handed in.

    request: the parts of a request that stay the same all through (system, response_schema). tools, deferred: give
    the specs of the moment, and the names of those that are loaded on demand. additions: gives texts for the newest
    message before a round (status, the end of a background sub-agent). closing: awaited once the end is known.
    """

    history: History
    state: RunState
    bus: HookBus
    calls: LlmCaller
    processor: Processor
    guards: Sequence[Guard]
    policy: TurnPolicy
    context: ContextManager
    progress: ProgressWatch
    overthinking: OverthinkingGuard
    answering: Answering
    request: AdapterCallRequest
    tools: Callable[[], tuple[ToolSpec, ...]]
    additions: Callable[[], Sequence[str]] = tuple
    deferred: Callable[[], frozenset[str]] = frozenset
    closing: Callable[[End], Awaitable[None]] | None = None
    _batch: Batch | None = None
    _open: tuple[int, int] | None = None
    """The round that has started and not completed, and how many tool calls it asked for."""

    async def run(self, text: str | None) -> AgenticResult:
        """Runs to an end and returns it; never raises for anything that a provider, a tool or the user does.

        text: the user's input; None goes on from the history as it is. A cancel ends the run `user_cancelled`.
        """
        try:
            end = await self._begin(text) or await self._rounds()
        except RunEnded as ended:
            end = ended.end
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            end = End(TerminationReason.USER_CANCELLED, {"round": self.state.rounds})
        if self._batch is not None:
            self._append_results(self._batch.close(f"This call was interrupted: {end.reason.value}."))
        self._complete_round()
        await self._close(end)
        return self.answering.finish(end, self.calls)

    async def _close(self, end: End) -> None:
        """Ends what goes on beside the loop; a cancel meanwhile only hurries it."""
        if self.closing is None:
            return
        try:
            await self.closing(end)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            await self.closing(End(TerminationReason.USER_CANCELLED))

    async def _rounds(self) -> End:
        while True:
            self.calls.board.before_round(self.state)
            for guard in self.guards:
                if (end := guard.check(self.state)) is not None:
                    return end
            plan = self.policy.plan(self.state)
            self._open = (plan.round, 0)
            self._announce(plan)
            if (end := await self.context.fit(plan.round)) is not None:
                return end
            response = await self._call(plan)
            self._open = (plan.round, len(response.tool_uses))
            end = await self._take(plan, response)
            self._complete_round()
            self.state.keep_session()
            if end is not None:
                return end

    async def _begin(self, text: str | None) -> End | None:
        if text is None:
            return None
        self.state.answer, self.state.continuations, self.state.repairs = "", 0, 0
        verdict = await self.bus.intercept(UserInputReceived(text))
        if isinstance(verdict, Blocked):
            self.bus.emit(UserInputReceived(text))
            return End(TerminationReason.INPUT_BLOCKED, {"reason": verdict.reason}, text=verdict.reason)
        self.bus.emit(verdict)
        if self.history and self.history[-1].role == "user" and self.history.sent >= len(self.history):
            self.history.append(Message("assistant", (_UNANSWERED,)))  # a message that was sent is never changed
        self.history.append(Message.user(verdict.text))
        return None

    def _announce(self, plan: RoundPlan) -> None:
        if self.history and self.history[-1].role == "user" and (texts := self.additions()):
            self.history.append(Message.user(*texts))
        self.policy.announce(plan, self.state)

    async def _call(self, plan: RoundPlan) -> AdapterCallResult:
        """The round's LLM call; a context overflow is compacted and tried once more."""
        for last in (False, True):
            request = replace(
                self.request,
                messages=self.history,
                tools=self.tools(),
                deferred=self.deferred(),
                tool_choice=plan.tool_choice,
                round=plan.round,
                max_tokens=plan.max_tokens,
                thinking=plan.thinking,
            )
            failure: AdapterError | None = None
            try:
                response = await self.calls.call(request)
                if response.stop_reason is not StopReason.CONTEXT_WINDOW_EXCEEDED:
                    self.context.note(response)
                    return response
                self.state.answer = response.text or self.state.answer
            except AdapterError as error:
                if error.kind is not ErrorKind.CONTEXT_OVERFLOW:
                    raise
                failure = error
            again = not last and await self.context.overflowed(plan.round)
            if failure is not None:
                self.calls.overflowed(failure, again)
            if not again:
                break
        cause = str(failure) if failure is not None else StopReason.CONTEXT_WINDOW_EXCEEDED.value
        raise RunEnded(End(TerminationReason.CONTEXT_EXHAUSTED, {"cause": cause}))

    async def _take(self, plan: RoundPlan, response: AdapterCallResult) -> End | None:
        """Content decides: calls are run, a text is an end or a reason to ask on."""
        self.overthinking.note(self.state, response.usage.output_tokens, is_unfinished(response))
        if is_refusal(response):
            return self.answering.refuse(response)
        if not response.tool_uses:
            return self.answering.take(plan, response)
        self.state.tool_calls += len(response.tool_uses)
        self.state.continuations = 0
        self.state.answer = response.text or self.state.answer
        self.history.append(Message("assistant", response.content))
        disabled, (at, _) = plan.tool_choice.type == "none", self.calls.deadline.at()
        self._batch = self.processor.batch(response.tool_uses, round=plan.round, disabled=disabled, deadline=at)
        outcomes = await self._batch.run()
        hints, end = self.progress.note(outcomes)
        for hint in hints:
            self.bus.emit(HintInserted(plan.round, hint.kind, hint.text))
        self._append_results(outcomes, *(hint.text for hint in hints))
        asked = next((o.end for o in outcomes if o.end is not None), None)
        return End(asked.reason, asked.detail, text=asked.text) if asked is not None else end

    def _complete_round(self) -> None:
        """Every round that started completes, however it ended."""
        if self._open is not None:
            (number, asked), self._open = self._open, None
            usage, cost = self.state.usage, self.state.ledger.spent
            self.bus.emit(TurnCompleted(number, asked, usage, cost, self.state.elapsed_s))

    def _append_results(self, outcomes: Sequence[ToolOutcome], *hints: str) -> None:
        """Results first, hints after them, in one message: ids stay paired."""
        self._batch = None
        self.history.append(Message.user(*(outcome.result for outcome in outcomes), *hints))
