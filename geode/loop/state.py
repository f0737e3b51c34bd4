"""What a run has used so far, and the ledger of its money."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from geode.contract import AdapterCallResult, Usage

__all__ = ["Ledger", "RunState", "SessionRecord"]


@dataclass(slots=True)
class SessionRecord:
    """A session that may span runs: seconds and US dollars that its earlier runs used, and whether the handoff was
    announced. `save` is called with it as it changes (None: the session is this run's alone)."""

    id: str
    elapsed_s: float = 0.0
    cost: float = 0.0
    handed_off: bool = False
    save: Callable[[SessionRecord], SessionRecord] | None = None
    """Keeps the totals, and gives back those of all runs of the session."""


@dataclass(slots=True)
class Ledger:
    """Money in US dollars. `spent` is this run's; `uncertain` what failed attempts may have cost besides (they are
    billed or not, nobody says), counted where the ceiling is hard; `before` what the session's earlier runs spent."""

    spent: float = 0.0
    before: float = 0.0
    uncertain: float = 0.0
    reserved: float = 0.0

    @property
    def total(self) -> float:
        """The session's cost so far."""
        return self.before + self.spent

    @property
    def committed(self) -> float:
        """The most that the session can have cost, with what is in flight."""
        return self.total + self.uncertain + self.reserved


@dataclass(slots=True)
class RunState:
    """Counters of a run. `rounds` counts LLM calls; `elapsed_before_s` what a resumed run used before."""

    session: SessionRecord
    ledger: Ledger = field(default_factory=Ledger)
    rounds: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    elapsed_before_s: float = 0.0
    started: float = field(default_factory=time.monotonic)
    answer: str = ""
    """The answer so far: the newest text, with the pieces of a cut one joined."""
    unfinished: int = 0
    """Consecutive long responses without a tool call and without an end."""
    continuations: int = 0
    repairs: int = 0

    @property
    def elapsed_s(self) -> float:
        return self.elapsed_before_s + time.monotonic() - self.started

    @property
    def session_elapsed_s(self) -> float:
        return self.session.elapsed_s + self.elapsed_s

    def add(self, response: AdapterCallResult, cost: float) -> None:
        """Counts a response, whatever it was for."""
        self.usage = self.usage + response.usage
        self.ledger.spent += cost

    def keep_session(self) -> None:
        """Writes the session's totals where it spans runs, and counts what others have used meanwhile."""
        if self.session.save is not None:
            elapsed_s, spent = self.elapsed_s, self.ledger.spent
            own = SessionRecord(
                self.session.id, self.session.elapsed_s + elapsed_s, self.ledger.total, self.session.handed_off
            )
            kept = self.session.save(own)
            self.session.elapsed_s, self.ledger.before = kept.elapsed_s - elapsed_s, kept.cost - spent
