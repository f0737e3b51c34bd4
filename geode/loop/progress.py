"""Repetition without progress: hints first, then an end."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from geode.contract import TerminationReason, ToolUseBlock
from geode.loop.result import End

__all__ = ["Hint", "ProgressWatch"]


class Outcome(Protocol):
    """What the watch reads of a tool outcome."""

    @property
    def tool_use(self) -> ToolUseBlock: ...
    @property
    def status(self) -> str: ...
    @property
    def failed(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Hint:
    """A text for the next turn. `kind` is the HINT_INSERTED payload's."""

    kind: str
    text: str


@dataclass(slots=True)
class ProgressWatch:
    """Counts failures in a row and repetitions, over all tools, in call order.

    backpressure: failures in a row from which each gives a hint. repeats: consecutive rounds with the same call, or
    repeats of a cycle of up to `cycle` calls, that give the diversity hint. convergence: further repeats after that
    hint that end the run. 0 switches a rule off.
    """

    backpressure: int = 3
    repeats: int = 5
    cycle: int = 3
    convergence: int = 3
    _errors: int = 0
    _streaks: dict[str, int] = field(default_factory=dict)
    _calls: deque[str] = field(default_factory=deque)
    _hinted: bool = False

    def note(self, outcomes: Sequence[Outcome]) -> tuple[list[Hint], End | None]:
        """Counts a round's outcomes: the hints for the next turn, and the end where it goes on too long."""
        hints: list[Hint] = []
        if self._count_errors(outcomes):
            hints.append(
                Hint(
                    "backpressure",
                    f"{self._errors} tool calls in a row have failed. Do not send them again as they are: read the "
                    "errors, then try another tool, other arguments, or answer with what you have.",
                )
            )
        repeats = self._count_repeats([_signature(o.tool_use) for o in outcomes])
        if not self.repeats or repeats < self.repeats:
            self._hinted = False
            return hints, None
        if not self._hinted:
            self._hinted = True
            hints.append(
                Hint(
                    "diversity",
                    f"The same tool calls with the same arguments were made {repeats} times in a row. Their results "
                    "are above: use them, change the approach, or give the answer.",
                )
            )
        if self.convergence and repeats >= self.repeats + self.convergence:
            names = sorted({o.tool_use.name for o in outcomes})
            return hints, End(TerminationReason.CONVERGENCE_DETECTED, {"repeats": repeats, "tools": names})
        return hints, None

    def _count_errors(self, outcomes: Sequence[Outcome]) -> bool:
        due = False
        for outcome in outcomes:
            if outcome.failed:
                self._errors += 1
                due = bool(self.backpressure) and self._errors >= self.backpressure
            elif outcome.status == "ok":
                self._errors = 0
                due = False
        return due

    def _count_repeats(self, signatures: list[str]) -> int:
        self._streaks = {s: self._streaks.get(s, 0) + 1 for s in set(signatures)}
        longest = max(self._streaks.values(), default=0)
        most = (self.repeats + self.convergence) * self.cycle
        self._calls.extend(signatures)
        while len(self._calls) > most:
            self._calls.popleft()
        calls = list(self._calls)
        for period in range(2, self.cycle + 1):
            same = period
            while same < len(calls) and calls[-1 - same] == calls[-1 - same + period]:
                same += 1
            if len(set(calls[-period:])) > 1 and len(calls) >= period:
                longest = max(longest, same // period)
        return longest


def _signature(call: ToolUseBlock) -> str:
    """One text for the same tool with the same arguments, whatever the order of keys."""
    if call.fault is not None:
        return f"{call.name}\0{call.arguments}"
    return f"{call.name}\0{json.dumps(call.input, sort_keys=True, default=str)}"
