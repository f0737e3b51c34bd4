"""What bounds an LLM call: waiting between attempts, the moment at which it is cut, the hard cost ceiling."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from geode.contract import AdapterError, TerminationReason, Usage
from geode.loop.result import End
from geode.loop.state import RunState

__all__ = ["CostCeiling", "Deadline", "RetryPolicy"]

_MIN_OUTPUT_TOKENS = 16
"""Least output limit that the Responses API takes; below it a call is not worth its input."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """attempts: tries in all. Delays in seconds: base x 2^(n-1), at most `max_delay_s`, spread by `jitter` (a share).
    A provider's Retry-After is taken as it is."""

    attempts: int = 4
    base_delay_s: float = 1.0
    max_delay_s: float = 60.0
    jitter: float = 0.25

    def delay(self, attempt: int, error: AdapterError, rng: random.Random) -> float:
        if error.retry_after_s is not None:
            return max(0.0, error.retry_after_s)
        backoff = min(self.max_delay_s, self.base_delay_s * 2.0 ** min(attempt - 1, 60))
        return backoff * (1 + self.jitter * (2 * rng.random() - 1))


@dataclass(slots=True)
class Deadline:
    """The moment at which what is in flight is cut: the run's time budget or the session's end, whichever is first."""

    state: RunState
    time_budget_s: float = 0.0
    session_s: float = 0.0

    def at(self) -> tuple[float | None, str]:
        """(absolute monotonic seconds or None, `run` or `session`)."""
        now = time.monotonic()
        run = now + self.time_budget_s - self.state.elapsed_s if self.time_budget_s else None
        session = now + self.session_s - self.state.session_elapsed_s if self.session_s else None
        if run is not None and (session is None or run <= session):
            return run, "run"
        return session, "session"

    def expired(self, scope: str, in_flight: str) -> End:
        detail: dict[str, Any] = {"scope": scope, "in_flight": in_flight}
        detail["time_budget_s" if scope == "run" else "session_s"] = (
            self.time_budget_s if scope == "run" else self.session_s
        )
        return End(TerminationReason.TIME_BUDGET_EXPIRED, detail)


@dataclass(slots=True)
class CostCeiling:
    """`budget.cost_hard`: the worst case of a call is reserved before it is made.

    budget: US dollars over the session. margin_tokens: added to the input bound. image_tokens: most tokens that one
    image can cost. cost: US dollars of a usage on the current model.
    """

    budget: float
    margin_tokens: int
    image_tokens: int
    cost: Callable[[Usage], float]

    def reserve(self, state: RunState, body_bytes: int, images: int, max_tokens: int) -> tuple[float, int] | None:
        """(US dollars reserved, output limit lowered to fit), or None where the call cannot fit.

        A token is at least one byte of UTF-8 in the body, so the body's length bounds the input.
        """
        tokens = body_bytes + images * self.image_tokens + self.margin_tokens
        room = self.budget - state.ledger.committed

        def worst(output: int) -> float:
            return max(
                self.cost(Usage(input_tokens=tokens, output_tokens=output)),
                self.cost(Usage(cache_write_tokens=tokens, output_tokens=output)),
                self.cost(Usage(cache_write_tokens=tokens, cache_write_1h_tokens=tokens, output_tokens=output)),
            )

        full = worst(max_tokens)
        if full <= room:
            return full, max_tokens
        empty = worst(0)
        if full <= empty:
            return None
        fitting = int(max_tokens * (room - empty) / (full - empty))
        while fitting >= _MIN_OUTPUT_TOKENS and (cost := worst(fitting)) > room:
            fitting -= 1 + int((cost - room) / (full - empty) * max_tokens)
        return (worst(fitting), fitting) if fitting >= _MIN_OUTPUT_TOKENS else None
