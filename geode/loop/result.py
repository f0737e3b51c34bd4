"""What a run comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from geode.contract import Notice, TerminationReason, Usage

__all__ = ["AgenticResult", "End", "RunEnded"]


@dataclass(frozen=True, slots=True)
class End:
    """Why a run ends. `text` is what is given back where it is not the model's own last text."""

    reason: TerminationReason
    detail: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    error: Mapping[str, Any] | None = None


class RunEnded(Exception):
    """Raised deep in a round where the run cannot go on; the loop turns it into its result."""

    def __init__(self, end: End) -> None:
        super().__init__(end.reason.value)
        self.end = end


@dataclass(frozen=True, slots=True)
class AgenticResult:
    """The result of a run.

    text: the final answer, or what text there was. rounds: LLM calls made. tool_calls: calls that the model asked
    for. cost: US dollars of this run. elapsed_s: wall-clock seconds. parsed: the answer as JSON where there is a
    response schema. error: {kind, message, ...} where something failed. notices: what was denied, degraded, dropped.
    """

    text: str
    termination_reason: TerminationReason
    detail: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    elapsed_s: float = 0.0
    parsed: Any = None
    error: Mapping[str, Any] | None = None
    notices: tuple[Notice, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able data, as it stands in result.json."""
        data = asdict(self)
        data["termination_reason"] = self.termination_reason.value
        data["usage"]["total_tokens"] = self.usage.total_tokens
        return data
