"""Settings of what steers the loop: `tool_choice`, `budget`, `context`, `llm`, `pricing`, `response` and `switch`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from geode.settings_base import STRICT, Count, Dollars, Seconds, Share

__all__ = ["Budget", "Context", "Llm", "Pricing", "Response", "Switch", "ToolChoiceSettings"]


class Part(BaseModel):
    model_config = STRICT


class ToolChoiceSettings(Part):
    """Accepts every spelling of a choice: `any`, `{name: X}`, `{type: function, name: X}`, `{function: {name: X}}`."""

    type: Literal["auto", "none", "required", "any", "tool"] = "auto"
    """How far the model is free; `required` and `any` are the same."""
    name: str | None = None
    """The tool of a named choice."""
    rounds: Literal["first", "all"] = "first"
    """How long a forced choice holds."""
    on_unsupported: Literal["send", "degrade", "error"] = "send"
    """What to do where the backend declares that it does not take the choice."""

    @model_validator(mode="before")
    @classmethod
    def _spellings(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"type": value}
        if not isinstance(value, dict):
            return value
        value = dict(value)
        function = value.get("function")
        if isinstance(function, dict) and set(function) <= {"name"} and value.get("name") is None:
            del value["function"]
            value["name"] = function.get("name")
            value.setdefault("type", "tool")
        if value.get("name") is not None:
            value.setdefault("type", "tool")
        if value.get("type") == "function":
            value["type"] = "tool"
        return value

    @model_validator(mode="after")
    def _named(self) -> ToolChoiceSettings:
        if self.type == "tool" and not self.name:
            raise ValueError("a named tool choice needs a name: tool_choice=named tool_choice.name=TOOL")
        if self.type != "tool" and self.name is not None:
            raise ValueError(f"name {self.name!r} goes with a named choice only, not with {self.type!r}")
        return self


class Overthinking(Part):
    """Consecutive responses without a call and without an end, each of at least
    min(max(min_tokens, window_share of the context window), max_tokens) output tokens."""

    responses: Count = 2
    """Consecutive such responses that end the run with a question to the user; 0 never."""
    min_tokens: Count = 1024
    """Output of a response that counts as long,"""
    window_share: Share = 0.01
    """or this share of the context window, where that is more."""


class Budget(Part):
    max_rounds: Count = 50
    """LLM calls."""
    time_budget_s: Seconds = 0
    """Wall clock of the run; it also cuts what is in flight."""
    session_s: Seconds = 7200
    """Wall clock of the session, all its runs together."""
    handoff_s: Seconds = 600
    """So long before the end of the session (at most a tenth of it) HANDOFF_TRIGGERED fires."""
    cost_budget: Dollars = 0
    """US dollars, summed over the session."""
    cost_warning: Share = 0.8
    """Share of the cost budget at which a warning is given once."""
    cost_hard: bool = False
    """Reserve the worst case of each call before it is made, so that the sum never passes the budget."""
    cost_margin_tokens: Count = 256
    """Tokens added to that worst case for what the provider adds to a request."""
    token_budget: Count = 0
    """Tokens of the run, as token_scope counts them."""
    token_scope: Literal["all", "output"] = "all"
    """Input and output, or output only."""
    wrap_up_rounds: Count = 1
    """Last rounds in which the model must answer in text (never the only one)."""
    wrap_up_s: Seconds = 30
    """Last seconds of the time budget or session (at most a quarter) that do the same."""
    wrap_up_max_tokens: Annotated[int, Field(ge=1)] = 4096
    """Output limit of a wrap-up call."""
    overthinking: Overthinking = Overthinking()


class Summary(Part):
    enabled: bool = False
    """Ask the model for a summary of older messages before any are pruned."""
    max_tokens: Annotated[int, Field(ge=1)] = 1024
    """Length of a summary."""
    prompt: str = (
        "Summarise the conversation so far for yourself: the task, what was found (with exact values, paths and "
        "names), what was decided, and what is still to do."
    )
    """What the model is asked."""


class Context(Part):
    warning: Share = 0.8
    """Share of the window (less max_tokens) at which older tool results are offloaded."""
    critical: Share = 0.9
    """Share at which the oldest messages are pruned."""
    keep_results: Count = 1
    """Rounds whose tool results stay whole, the newest first."""
    summary: Summary = Summary()


class Llm(Part):
    """Retries of a failed LLM call: exponential back-off from base_delay_s, at most max_delay_s."""

    attempts: Annotated[int, Field(ge=1)] = 4
    """Calls in all."""
    base_delay_s: Seconds = 1.0
    """Wait before the first retry; it doubles with each further one."""
    max_delay_s: Seconds = 60
    """Most of such a wait (a Retry-After is taken as it is)."""
    jitter: Share = 0.25
    """Share of a delay that is random."""


class Price(Part):
    """US dollars per million tokens."""

    input_mtok: Dollars
    """Input."""
    output_mtok: Dollars
    """Output."""
    cache_read_mtok: Dollars | None = None
    """Input read from a cache; null is as input."""
    cache_write_mtok: Dollars | None = None
    """Input written to a cache; null is 1.25 times the input."""
    cache_write_1h_mtok: Dollars | None = None
    """Input written to a cache for an hour; null is twice the input."""


class Pricing(Part):
    unknown: Literal["error", "free"] = "error"
    """A model without a known price, with a cost budget set."""
    overrides: dict[str, Price] = {}
    windows: dict[str, Annotated[int, Field(ge=1)]] = {}
    """Context window of a model, tokens."""


class Response(Part):
    model_config = ConfigDict(populate_by_name=True)
    schema_: str | dict[str, Any] | None = Field(default=None, alias="schema")
    """JSON Schema of the final answer: a path, or the schema itself."""
    repair: Count = 1
    """Rounds in which an answer that does not fit may be repaired."""
    continuations: Count = 2
    """How often an answer cut by max_tokens is asked to go on."""


class SwitchRule(Part):
    """Another adapter or model takes over: after a round, from a share of the cost budget, or on an LLM error."""

    adapter: str | None = None
    """Adapter that takes over; null keeps the run's own and changes its model."""
    model: str | None = None
    """Its model; null takes the adapter's."""
    after_rounds: Annotated[int, Field(ge=1)] | None = None
    """After so many rounds."""
    cost_share: Annotated[float, Field(gt=0, le=1)] | None = None
    """From this share of the cost budget on."""
    on: Literal["llm_error"] | None = None
    """When a call failed for good."""

    @model_validator(mode="before")
    @classmethod
    def _yaml_on(cls, value: Any) -> Any:
        """YAML 1.1 reads a bare `on` as true: the key is meant all the same."""
        if isinstance(value, dict) and True in value:
            return {"on" if key is True else key: item for key, item in value.items()}
        return value

    @model_validator(mode="after")
    def _whole(self) -> SwitchRule:
        if self.adapter is None and self.model is None:
            raise ValueError("a switch rule needs an adapter or a model to switch to")
        if sum(x is not None for x in (self.after_rounds, self.cost_share, self.on)) != 1:
            raise ValueError("a switch rule needs exactly one of after_rounds, cost_share and on")
        return self


class Switch(Part):
    rules: tuple[SwitchRule, ...] = ()
