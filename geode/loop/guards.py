"""Round-entry guards: small objects with one method each. The loop asks them in their order before every round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from geode.contract import TerminationReason, Usage
from geode.hooks import CostLimitExceeded, CostWarning, HandoffTriggered, HookBus
from geode.loop.result import End
from geode.loop.state import RunState

__all__ = [
    "CostGuard",
    "Guard",
    "OverthinkingGuard",
    "RoundsGuard",
    "SessionGuard",
    "TimeGuard",
    "TokenGuard",
    "counted_tokens",
]


_DUST = 1e-9
"""US dollars: what a sum of floats may be off by."""


class Guard(Protocol):
    """Says whether another round may start."""

    def check(self, state: RunState) -> End | None:
        """None to go on, else why the run ends."""
        ...


@dataclass(slots=True)
class RoundsGuard:
    """Ends after `max_rounds` LLM calls; 0 is no limit."""

    max_rounds: int

    def check(self, state: RunState) -> End | None:
        if self.max_rounds and state.rounds >= self.max_rounds:
            return End(TerminationReason.MAX_ROUNDS, {"max_rounds": self.max_rounds})
        return None


@dataclass(slots=True)
class TimeGuard:
    """Ends when the run's wall-clock budget (seconds, 0 is none) is used up."""

    time_budget_s: float

    def check(self, state: RunState) -> End | None:
        if self.time_budget_s and state.elapsed_s >= self.time_budget_s:
            return End(TerminationReason.TIME_BUDGET_EXPIRED, {"scope": "run", "time_budget_s": self.time_budget_s})
        return None


@dataclass(slots=True)
class SessionGuard:
    """Announces the handoff once, `handoff_s` before the end of the session (never more than a tenth of it), and
    stops hard at the end. Seconds; 0 is no limit."""

    session_s: float
    handoff_s: float
    bus: HookBus

    def check(self, state: RunState) -> End | None:
        if not self.session_s:
            return None
        elapsed = state.session_elapsed_s
        if elapsed >= self.session_s - min(self.handoff_s, self.session_s / 10) and not state.session.handed_off:
            state.session.handed_off = True
            state.keep_session()
            self.bus.emit(HandoffTriggered(state.rounds + 1, state.session.id, elapsed, self.session_s))
        if elapsed >= self.session_s:
            detail = {"scope": "session", "session_s": self.session_s, "session_id": state.session.id}
            return End(TerminationReason.TIME_BUDGET_EXPIRED, detail)
        return None


@dataclass(slots=True)
class CostGuard:
    """Warns once at `warning` (a share) of the budget and ends at the whole of it. US dollars over the session; 0 is
    no budget."""

    cost_budget: float
    warning: float
    bus: HookBus
    warned: bool = False

    def check(self, state: RunState) -> End | None:
        if not self.cost_budget:
            return None
        cost = state.ledger.total
        self.warn(state)
        if cost >= self.cost_budget - _DUST:
            self.bus.emit(CostLimitExceeded(state.rounds + 1, cost, self.cost_budget))
            return End(
                TerminationReason.COST_BUDGET_EXCEEDED, {"cost": cost, "cost_budget": self.cost_budget, "hard": False}
            )
        return None

    def warn(self, state: RunState) -> None:
        """Emits the warning where it is due; asked again at the end, since the last answer may cross the share."""
        cost = state.ledger.total
        if self.cost_budget and not self.warned and cost >= self.warning * self.cost_budget - _DUST:
            self.warned = True
            self.bus.emit(CostWarning(max(state.rounds, 1), cost, self.cost_budget, self.warning))


def counted_tokens(usage: Usage, scope: str) -> int:
    """The tokens that a token budget counts: `all` (input and output) or `output`."""
    return usage.output_tokens if scope == "output" else usage.total_tokens


@dataclass(slots=True)
class TokenGuard:
    """Ends when `token_budget` tokens are used (0 is none), counted as `scope` says."""

    token_budget: int
    scope: str

    def check(self, state: RunState) -> End | None:
        used = counted_tokens(state.usage, self.scope)
        if self.token_budget and used >= self.token_budget:
            detail = {"tokens": used, "token_budget": self.token_budget, "scope": self.scope}
            return End(TerminationReason.TOKEN_BUDGET_EXCEEDED, detail)
        return None


@dataclass(slots=True)
class OverthinkingGuard:
    """Ends after `responses` consecutive long responses without a tool call and without an end.

    `threshold` gives the length in tokens that counts as long: min(max(min_tokens, window_share of the context
    window), max_tokens) of the adapter in use.
    """

    responses: int
    threshold: Callable[[], int] = field(default=lambda: 1024)

    def note(self, state: RunState, output_tokens: int, unfinished: bool) -> None:
        """Counts a response."""
        if unfinished and output_tokens >= self.threshold():
            state.unfinished += 1
        else:
            state.unfinished = 0

    def check(self, state: RunState) -> End | None:
        if not self.responses or state.unfinished < self.responses:
            return None
        question = (
            f"The last {state.unfinished} responses were long and neither used a tool nor came to an end. Which part "
            "of the task matters most, and may the answer be shorter or be given in parts?"
        )
        detail = {"cause": "overthinking", "responses": state.unfinished}
        return End(TerminationReason.USER_CLARIFICATION_NEEDED, detail, text=question)
