"""The state of a sub-agent: what it uses is its parent's use too, at once."""

from __future__ import annotations

from dataclasses import dataclass

from geode.contract import AdapterCallResult
from geode.loop.state import Ledger, RunState

__all__ = ["NestedLedger", "NestedState"]


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
