"""What a round asks for: tool choice, output limit, thinking, and when wrap-up begins."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from geode.contract import ToolChoice
from geode.hooks import HookBus, RoundStarted, WrapUpStarted
from geode.loop.limits import Deadline
from geode.loop.state import RunState

__all__ = ["RoundPlan", "TurnPolicy"]


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """One round's request, apart from the messages. `max_tokens` None takes the adapter's limit."""

    round: int
    tool_choice: ToolChoice
    max_tokens: int | None = None
    thinking: bool = True
    wrap_up: bool = False


@dataclass(slots=True)
class TurnPolicy:
    """Plans each round.

    tool_choice: the configured value; a forced one holds for the first round only, unless `every_round`.
    wrap_up_rounds: last rounds in which the model must answer in text (never the only round); wrap_up_s: the same by
    seconds left (never more than a quarter of the time budget or session). wrap_up_max_tokens: output limit there.
    limit: gives the current adapter's output limit in tokens. cost_budget: US dollars, told with each round.
    """

    bus: HookBus
    deadline: Deadline
    limit: Callable[[], int]
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    every_round: bool = False
    max_rounds: int = 0
    cost_budget: float = 0.0
    wrap_up_rounds: int = 1
    wrap_up_s: float = 30.0
    wrap_up_max_tokens: int = 4096
    _wrapping: bool = False

    def plan(self, state: RunState) -> RoundPlan:
        """The plan of the next round. Announces wrap-up once."""
        number = state.rounds + 1
        cause = self._wrap_up_cause(state)
        if cause is None:
            choice = self.tool_choice
            if choice.forced and not self.every_round and state.rounds > 0:
                choice = ToolChoice()
            return RoundPlan(number, choice)
        if not self._wrapping:
            self._wrapping = True
            self.bus.emit(WrapUpStarted(number, cause))
        limit = min(self.wrap_up_max_tokens, self.limit()) if self.wrap_up_max_tokens else None
        return RoundPlan(number, ToolChoice("none"), limit, thinking=False, wrap_up=True)

    def announce(self, plan: RoundPlan, state: RunState) -> None:
        """Tells that a round starts, and what is left of the budgets."""
        at, _ = self.deadline.at()
        self.bus.emit(
            RoundStarted(
                plan.round,
                plan.tool_choice.name or plan.tool_choice.type,
                plan.wrap_up,
                remaining_rounds=self.max_rounds - plan.round if self.max_rounds else None,
                remaining_s=at - time.monotonic() if at is not None else None,
                remaining_usd=self.cost_budget - state.ledger.total if self.cost_budget else None,
            )
        )

    def _wrap_up_cause(self, state: RunState) -> str | None:
        if self.max_rounds and state.rounds >= self.max_rounds - min(self.wrap_up_rounds, self.max_rounds - 1):
            return "rounds"
        budgets = (
            (self.deadline.time_budget_s, state.elapsed_s),
            (self.deadline.session_s, state.session_elapsed_s),
        )
        for budget, elapsed in budgets:
            if budget and budget - elapsed <= min(self.wrap_up_s, budget / 4):
                return "time"
        return None
