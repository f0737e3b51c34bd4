"""The budgets and the state of a sub-agent: a share of its parent's, and what it uses is its parent's use too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from geode.contract import AdapterCallResult
from geode.loop.guards import counted_tokens
from geode.loop.state import Ledger, RunState
from geode.runner.assembly import Budgets
from geode.settings import Settings

__all__ = ["NestedLedger", "NestedState", "share_of"]

_LEAST_S = 0.001
_LEAST_USD = 1e-9
"""A budget of 0 would be none: this much is as good as nothing."""


class NestedLedger(Ledger):
    """A sub-agent's money, in US dollars: spent, reserved and uncertain amounts are the parent's as well.

    budget: the sub-agent's own, 0 is none. parent_budget: its parent's. What others leave it of the parent's budget
    bounds it too: `total` and `committed` are never less than what leaves no more room than the parent has.
    """

    def __init__(self, parent: Ledger, budget: float, parent_budget: float) -> None:
        self._parent = parent
        self._budget = budget
        self._parent_budget = parent_budget
        self._amounts = {"spent": 0.0, "uncertain": 0.0, "reserved": 0.0}
        self.before = 0.0

    def _set(self, name: str, value: float) -> None:
        setattr(self._parent, name, getattr(self._parent, name) + value - self._amounts[name])
        self._amounts[name] = value

    @property
    def spent(self) -> float:
        return self._amounts["spent"]

    @spent.setter
    def spent(self, value: float) -> None:
        self._set("spent", value)

    @property
    def uncertain(self) -> float:
        return self._amounts["uncertain"]

    @uncertain.setter
    def uncertain(self, value: float) -> None:
        self._set("uncertain", value)

    @property
    def reserved(self) -> float:
        return self._amounts["reserved"]

    @reserved.setter
    def reserved(self, value: float) -> None:
        self._set("reserved", value)

    @property
    def total(self) -> float:
        return max(self.spent, self._used_up(self._parent.total))

    @property
    def committed(self) -> float:
        own = self.spent + self.uncertain + self.reserved
        return max(own, self._used_up(self._parent.committed))

    def _used_up(self, parent: float) -> float:
        return self._budget - (self._parent_budget - parent) if self._budget and self._parent_budget else 0.0


@dataclass(slots=True)
class NestedState(RunState):
    """Counters of a sub-agent; its tokens count in every state above it."""

    parent: RunState | None = None

    def add(self, response: AdapterCallResult, cost: float) -> None:
        RunState.add(self, response, cost)
        above = self.parent
        while above is not None:
            above.usage = above.usage + response.usage
            above = above.parent if isinstance(above, NestedState) else None


def share_of(
    settings: Settings,
    have: Budgets,
    state: RunState,
    running: Sequence[tuple[Budgets, NestedState]],
    left_s: float | None,
    call_s: float | None,
) -> Budgets:
    """The share that a new agent gets of what is left of its parent's budgets.

    running: budgets and states of the agents at work: what they may still use is not left. left_s: seconds until the
    parent is cut, call_s: until the call that waits for the agent is; None is no limit.
    """
    share, scope = settings.subagents.share, settings.budget.token_scope
    rounds = settings.subagents.max_rounds
    if have.max_rounds:
        rounds = min(rounds, max(1, int(share * (have.max_rounds - state.rounds))))
    limits = [share * left_s] if left_s is not None else []
    limits += [call_s] if call_s is not None else []
    seconds = max(_LEAST_S, min(limits)) if limits else 0.0
    cost, tokens = 0.0, 0
    if have.cost_budget:
        promised = sum(max(0.0, given.cost_budget - used.ledger.spent) for given, used in running)
        cost = max(_LEAST_USD, share * (have.cost_budget - state.ledger.committed - promised))
    if have.token_budget:
        promised = sum(max(0, given.token_budget - counted_tokens(used.usage, scope)) for given, used in running)
        tokens = max(1, int(share * (have.token_budget - counted_tokens(state.usage, scope) - promised)))
    return Budgets(rounds, seconds, 0.0, cost, tokens)
