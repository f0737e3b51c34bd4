"""Which adapter a run uses, and the rules by which it changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from geode.contract import Adapter, Usage
from geode.hooks import HookBus, ModelSwitched
from geode.loop.state import RunState

__all__ = ["Backend", "SwitchRule", "Switchboard"]


@dataclass(frozen=True, slots=True)
class Backend:
    """An adapter with what the loop must know of its model.

    window: context window in tokens, 0 unknown. cost: US dollars of a usage, None where the price is unknown.
    streams: it is asked to stream by its own options, so that what came of a call that is cut can be given back.
    """

    adapter: Adapter
    window: int
    cost: Callable[[Usage], float | None]
    streams: bool = False


@dataclass(frozen=True, slots=True)
class SwitchRule:
    """Change to the adapter (and model) after N rounds, from a share of the cost budget, or after an LLM error."""

    adapter: str
    model: str | None = None
    after_rounds: int | None = None
    cost_share: float | None = None
    on_llm_error: bool = False

    @property
    def cause(self) -> str:
        if self.on_llm_error:
            return "llm_error"
        return f"after_rounds={self.after_rounds}" if self.after_rounds is not None else f"cost_share={self.cost_share}"


@dataclass(slots=True)
class Switchboard:
    """Holds the backend in use. `open_backend(adapter, model)` makes another; each rule fires once."""

    backend: Backend
    bus: HookBus
    rules: Sequence[SwitchRule] = ()
    cost_budget: float = 0.0
    open_backend: Callable[[str, str | None], Backend] | None = None
    switches: list[str] = field(default_factory=list)
    _fired: set[int] = field(default_factory=set)
    _opened: list[Backend] = field(default_factory=list)

    @property
    def adapter(self) -> Adapter:
        return self.backend.adapter

    def cost(self, usage: Usage) -> float | None:
        return self.backend.cost(usage)

    def before_round(self, state: RunState) -> None:
        """Fires the rules that are due by rounds or cost."""
        for index, rule in enumerate(self.rules):
            if index in self._fired or rule.on_llm_error:
                continue
            by_rounds = rule.after_rounds is not None and state.rounds >= rule.after_rounds
            by_cost = (
                rule.cost_share is not None
                and self.cost_budget > 0
                and state.ledger.total >= rule.cost_share * self.cost_budget
            )
            if by_rounds or by_cost:
                self._fire(index, rule, state.rounds + 1)

    def after_error(self, state: RunState) -> bool:
        """Takes the next fallback; False where there is none left."""
        for index, rule in enumerate(self.rules):
            if rule.on_llm_error and index not in self._fired:
                self._fire(index, rule, state.rounds)
                return True
        return False

    async def aclose(self) -> None:
        """Closes every adapter that this run opened."""
        for backend in [*self._opened, self.backend]:
            await backend.adapter.aclose()

    def _fire(self, index: int, rule: SwitchRule, round: int) -> None:
        assert self.open_backend is not None, "rules need a way to open a backend"
        self._fired.add(index)
        old = self.backend
        self._opened.append(old)
        self.backend = self.open_backend(rule.adapter, rule.model)
        new = self.backend.adapter
        self.switches.append(f"{old.adapter.name} -> {new.name} ({rule.cause})")
        self.bus.emit(ModelSwitched(round, old.adapter.name, old.adapter.model, new.name, new.model, rule.cause))
