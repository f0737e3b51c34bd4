"""Responses without a tool call: an end, or a reason to ask on. And the result that a run is given back as."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from geode.contract import (
    AdapterCallResult,
    Block,
    History,
    Message,
    Notice,
    ReasoningBlock,
    StopReason,
    TerminationReason,
    TextBlock,
)
from geode.hooks import HintInserted, HookBus, SessionEnded
from geode.loop.answers import CONTINUE_TEXT, AnswerContract, Checked, refusal_text
from geode.loop.guards import CostGuard
from geode.loop.llm import LlmCaller
from geode.loop.policy import RoundPlan
from geode.loop.result import AgenticResult, End
from geode.loop.state import RunState

__all__ = ["Answering", "is_refusal", "is_unfinished"]

_NOTHING = TextBlock("(no content)")


def is_refusal(response: AdapterCallResult) -> bool:
    """Whether the provider's safety system ended the response."""
    return response.stop_reason in (StopReason.REFUSAL, StopReason.CONTENT_FILTER)


def is_unfinished(response: AdapterCallResult) -> bool:
    """Whether a response has neither a tool call nor an end."""
    return not response.tool_uses and response.stop_reason in (StopReason.MAX_TOKENS, StopReason.PAUSE_TURN)


@dataclass(slots=True)
class Answering:
    """Takes text responses and makes the result.

    contract: the response schema, if any. continuations: times that a cut answer is asked to go on.
    """

    history: History
    state: RunState
    bus: HookBus
    contract: AnswerContract | None = None
    continuations: int = 2
    notices: Callable[[], tuple[Notice, ...]] = tuple
    cost_guard: CostGuard | None = None
    _checked: Checked | None = None

    def take(self, plan: RoundPlan, response: AdapterCallResult) -> End | None:
        """Appends the response; None where another round is to follow."""
        state = self.state
        self.history.append(Message("assistant", _kept(response)))
        state.answer = state.answer + response.text if state.continuations else response.text or state.answer
        if response.stop_reason is StopReason.PAUSE_TURN:
            return None
        cut = response.stop_reason is StopReason.MAX_TOKENS
        if cut and state.continuations < self.continuations and not plan.wrap_up:
            state.continuations += 1
            self._ask(plan.round, "continue", CONTINUE_TEXT)
            return None
        state.continuations = 0
        if response.stop_reason is StopReason.ERROR:
            facts = {"kind": "error", "message": f"the provider ended the response by {response.raw_stop or 'error'}"}
            return End(TerminationReason.LLM_ERROR, error=facts)
        if self.contract is not None:
            self._checked = self.contract.check(state.answer)
            if self._checked.faults and state.repairs < self.contract.repair and not plan.wrap_up:
                state.repairs += 1
                self._ask(plan.round, "repair", self.contract.repair_text(self._checked))
                return None
        reason = TerminationReason.FORCED_TEXT if plan.wrap_up else TerminationReason.NATURAL
        return End(reason, {"truncated": True} if cut else {})

    def refuse(self, response: AdapterCallResult) -> End:
        """The end by a refusal; text that came is kept, calls are dropped."""
        text = tuple(b for b in response.content if isinstance(b, TextBlock) and b.text.strip())
        if text:
            self.history.append(Message("assistant", (*text[:-1], TextBlock(text[-1].text.rstrip()))))
        details = dict(response.stop_details or {})
        detail = {"category": details.get("category"), "stop_details": details, "raw_stop": response.raw_stop}
        return End(TerminationReason.MODEL_REFUSAL, detail, text=response.text or refusal_text(details))

    def finish(self, end: End, calls: LlmCaller) -> AgenticResult:
        """The run's result, told to the hooks."""
        state, detail, error = self.state, dict(end.detail), end.error
        if self.cost_guard is not None and self.cost_guard.cost_budget:
            self.cost_guard.warn(state)
            if end.reason.exit_code == 0 and state.ledger.total > self.cost_guard.cost_budget:
                detail["over_budget"] = True
        if calls.board.switches:
            detail["switched"] = list(calls.board.switches)
        if self._checked is not None and self._checked.faults and error is None:
            error = {"kind": "response_schema", "message": "; ".join(self._checked.faults)}
        text = end.text if end.text is not None else (calls.partial or state.answer)
        parsed = self._checked.parsed if self._checked is not None else None
        cost, elapsed = state.ledger.spent, state.elapsed_s
        state.keep_session()
        self.bus.emit(
            SessionEnded(
                end.reason.value, detail, text, state.rounds, state.tool_calls, state.usage, cost, elapsed, error
            )
        )
        return AgenticResult(
            text,
            end.reason,
            detail,
            state.rounds,
            state.tool_calls,
            state.usage,
            cost,
            elapsed,
            parsed,
            error,
            self.notices(),
        )

    def _ask(self, round: int, kind: str, text: str) -> None:
        self.bus.emit(HintInserted(round, kind, text))
        self.history.append(Message.user(text))


def _kept(response: AdapterCallResult) -> tuple[Block, ...]:
    """What of a text response goes into the history: never nothing, no trailing white space at the end."""
    content: list[Any] = list(response.content)
    while content and isinstance(content[-1], TextBlock) and not content[-1].text.strip():
        content.pop()
    if content and isinstance(content[-1], TextBlock):
        content[-1] = replace(content[-1], text=content[-1].text.rstrip())
    if not content or all(isinstance(b, ReasoningBlock) and not b.raw for b in content):
        content.append(_NOTHING)
    return tuple(content)
