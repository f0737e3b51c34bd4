"""Settings of the `adapter` group. The keys are those of `geode.adapters.options`, whose docstrings explain them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = ["AdapterSettings"]

Tokens = Annotated[int, Field(ge=1)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


class Credential(Part):
    """Where the secret is: names only, never the secret."""

    kind: Literal["env", "codex_file", "none"] = "none"
    env: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...] = ()
    """Names of environment variables; the first that is set is used."""
    file: str | None = None
    scheme: Literal["api_key", "bearer"] = "api_key"
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
    type: Literal["enabled", "adaptive", "disabled"] | None = None
    budget_tokens: Tokens | None = None
    effort: str | None = None
    summary: str | None = None
    clear: bool | None = None
    always: bool = False

    @model_validator(mode="after")
    def _budget(self) -> Thinking:
        if self.budget_tokens is not None and self.type != "enabled":
            raise ValueError("budget_tokens goes with type enabled only")
        return self


class Cache(Part):
    prefix: bool = True
    moving: bool = True
    ttl: Literal["5m", "1h"] = "5m"


class CapabilitySettings(Part):
    """What the backend takes."""

    tools: bool = True
    tool_choices: tuple[Literal["auto", "none", "required", "tool"], ...] = ("auto", "none", "required", "tool")
    images: bool = True
    json_schema: bool = True
    streaming: bool = True
    tool_search: bool = False
    max_tools: Annotated[int, Field(ge=0)] = 0
    max_output_tokens: Annotated[int, Field(ge=0)] = 0
    context_window: Annotated[int, Field(ge=0)] = 0


class Local(Part):
    model_path: str | None = None
    threads: Annotated[int, Field(ge=1)] = 1
    context: Tokens = 4096


class AdapterSettings(Part):
    name: str
    wire: Literal["messages", "responses", "chat", "claude-cli", "codex-cli", "scripted", "replay"]
    model: str = ""
    base_url: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    credential: Credential = Credential()
    headers: dict[str, str] = {}
    betas: tuple[str, ...] = ()
    max_tokens: Tokens = 8192
    timeout_s: Annotated[float, Field(gt=0)] = 600
    connect_timeout_s: Annotated[float, Field(gt=0)] = 10
    stream: bool = False
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    thinking: Thinking = Thinking()
    cache: Cache = Cache()
    capabilities: CapabilitySettings = CapabilitySettings()
    reasoning_model: bool = False
    reasoning_field: str = "reasoning_content"
    reasoning_always: bool = False
    reasoning_placeholder: str | None = None
    max_tokens_field: Literal["max_tokens", "max_completion_tokens", "max_output_tokens"] | None = "max_tokens"
    empty_content: str | None = None
    structured: Literal["json_schema", "json_object", "prompt"] = "json_schema"
    strict: bool = False
    store: bool = False
    instructions_always: bool = False
    extra_body: dict[str, Any] = {}
    on_tools: Literal["degrade", "error"] = "degrade"
    command: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    script: str | None = None
    journal: str | None = None
    local: Local | None = None
    price_as: str | None = None

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
