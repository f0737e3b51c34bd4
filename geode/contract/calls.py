"""One LLM call: what is asked (tools, tool choice, request) and what comes back (usage, stop reason, result)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from geode.contract.messages import Block, Json, Message, TextBlock, ToolUseBlock

__all__ = ["AdapterCallRequest", "AdapterCallResult", "Delta", "StopReason", "ToolChoice", "ToolSpec", "Usage"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool. `input_schema` is JSON Schema and the contract of the tool's arguments."""

    name: str
    description: str
    input_schema: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """`auto`, `none`, `required` (any) or `tool` with a name. Spellings are parsed in `adapters.tool_choice`."""

    type: Literal["auto", "none", "required", "tool"] = "auto"
    name: str | None = None

    @property
    def forced(self) -> bool:
        return self.type in ("required", "tool")


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streamed response, for display only."""

    kind: Literal["text", "reasoning", "tool"]
    text: str


@dataclass(frozen=True, slots=True)
class AdapterCallRequest:
    """One LLM call in neutral terms. What an adapter's own YAML fixes (model, sampling, headers) is not repeated here.

    messages: a `History` is rendered incrementally; any other sequence from scratch, to the same bytes.
    round: 1-based number of this call in the run (deterministic ids are made from it).
    max_tokens: output limit in tokens for this call; None takes the adapter's.
    thinking: False leaves reasoning off for this call (wrap-up).
    deferred: names of tools that are sent with deferred loading.
    allowed: where set, the subset of tools that may be called; the tool list stays whole.
    timeout_s: seconds the call may take in all; None is the adapter's.
    on_delta: called with each streamed piece; its presence asks for streaming where the adapter can.
    """

    messages: Sequence[Message]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    round: int = 1
    max_tokens: int | None = None
    thinking: bool = True
    response_schema: Mapping[str, Json] | None = None
    deferred: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None
    timeout_s: float | None = None
    on_delta: Callable[[Delta], None] | None = None


class StopReason(StrEnum):
    """Why a response ended, as one enum over all providers. Content, not this, decides whether tools are asked for."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    PAUSE_TURN = "pause_turn"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    CONTEXT_WINDOW_EXCEEDED = "context_window_exceeded"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, each counted once: `input_tokens` excludes cache reads and writes; `output_tokens` includes reasoning.

    `cache_write_1h_tokens` is the part of `cache_write_tokens` with a one-hour life (priced apart); `reasoning_tokens`
    is the part of `output_tokens` spent on reasoning. `known` is False where the provider reported no usage.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    reasoning_tokens: int = 0
    known: bool = True

    @property
    def total_input_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        return self.total_input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.cache_write_1h_tokens + other.cache_write_1h_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.known and other.known,
        )


@dataclass(frozen=True, slots=True)
class AdapterCallResult:
    """A response in neutral terms: what `parse` makes of a provider's JSON.

    `content` holds assistant blocks in the provider's order. `stop_details` is the provider's own object (a refusal's
    category, an incomplete response's reason). `raw_stop` is the provider's stop string. `cost_usd` is the price of the
    call where the backend itself reports one, in USD.
    """

    content: tuple[Block, ...]
    stop_reason: StopReason
    usage: Usage = Usage()
    model: str = ""
    raw_stop: str | None = None
    stop_details: Mapping[str, Json] | None = None
    request_id: str | None = None
    cost_usd: float | None = None

    @property
    def text(self) -> str:
        return "".join(b.text for b in self.content if isinstance(b, TextBlock))

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        return tuple(b for b in self.content if isinstance(b, ToolUseBlock))
