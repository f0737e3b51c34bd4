"""A turn after its templates are filled in: what the scripted adapter and the loopback provider send."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geode.contract import StopReason

if TYPE_CHECKING:
    from geode.script.format import Fault

__all__ = ["ScriptCall", "ScriptReasoning", "ScriptTurn", "ScriptUsage"]


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A tool call. `arguments` is its JSON text, malformed where the script says so; `id` None takes a fresh one."""

    name: str
    arguments: str
    id: str | None = None
    raw: bool = False
    """The script gave the text itself."""


@dataclass(frozen=True, slots=True)
class ScriptReasoning:
    """Reasoning text, or the same in the provider's unreadable form."""

    text: str
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class ScriptUsage:
    """Tokens, each counted once; `missing` leaves usage out of the answer."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0
    missing: bool = False


@dataclass(frozen=True, slots=True)
class ScriptTurn:
    """One answer. `label` is its path in the script, for messages; `usage` None asks for an estimate.

    `refusal` is None, or (category or None, explanation).
    """

    label: str
    text: str | None = None
    reasoning: tuple[ScriptReasoning, ...] = ()
    tool_calls: tuple[ScriptCall, ...] = ()
    stop: StopReason = StopReason.END_TURN
    stop_sequence: str | None = None
    usage: ScriptUsage | None = None
    refusal: tuple[str | None, str] | None = None
    phase: str | None = None
    delay_s: float = 0.0
    fault: Fault | None = None
    output_chars: int = 0
    """Characters of text, reasoning and arguments together."""
    reasoning_chars: int = 0

    def estimated_usage(self, input_chars: int) -> ScriptUsage:
        """The script's usage, or one token for each four characters, at least one each way."""
        if self.usage is not None:
            return self.usage
        return ScriptUsage(
            input=input_chars // 4 + 1, output=self.output_chars // 4 + 1, reasoning=self.reasoning_chars // 4
        )


def dump(value: Mapping[str, Any] | Any) -> str:
    """Compact JSON, as models write their arguments."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
