"""Small words that all parts share: notices, safety tiers, approvals, and how a run ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Approval", "Notice", "NoticeSink", "TerminationReason", "Tier"]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that was degraded, dropped or denied: shown once on the console and listed in the result.

    `key` makes it unique in a run; `override` is the config override that changes it, "" where none does.
    """

    key: str
    message: str
    override: str = ""


NoticeSink = Callable[[Notice], None]


class Tier(StrEnum):
    """Safety tier of a tool; a tool without one is dangerous."""

    SAFE = "safe"
    EXPENSIVE = "expensive"
    WRITE = "write"
    DANGEROUS = "dangerous"

    @property
    def rank(self) -> int:
        return ("safe", "expensive", "write", "dangerous").index(self.value)


class Approval(StrEnum):
    """What the safety policy says of a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class TerminationReason(StrEnum):
    """How a run ended: exactly one of these; `unknown` is the default and never leaves a run."""

    NATURAL = "natural"
    FORCED_TEXT = "forced_text"
    MAX_ROUNDS = "max_rounds"
    TIME_BUDGET_EXPIRED = "time_budget_expired"
    COST_BUDGET_EXCEEDED = "cost_budget_exceeded"
    CONTEXT_EXHAUSTED = "context_exhausted"
    LLM_ERROR = "llm_error"
    MODEL_ACTION_REQUIRED = "model_action_required"
    USER_CLARIFICATION_NEEDED = "user_clarification_needed"
    MODEL_REFUSAL = "model_refusal"
    INPUT_BLOCKED = "input_blocked"
    BILLING_ERROR = "billing_error"
    USER_CANCELLED = "user_cancelled"
    CONVERGENCE_DETECTED = "convergence_detected"
    TOKEN_BUDGET_EXCEEDED = "token_budget_exceeded"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> int:
        """0 for natural and forced_text, 130 for user_cancelled, 1 for the rest."""
        if self in (TerminationReason.NATURAL, TerminationReason.FORCED_TEXT):
            return 0
        return 130 if self is TerminationReason.USER_CANCELLED else 1
