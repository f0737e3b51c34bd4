"""The keys of a Messages request around its history: thinking, sampling, output format, cache breakpoints.

Which model takes which of these is a matter of the adapter's YAML. What no model takes together is settled here, and
said in a notice: Anthropic's thinking documentation is the source of those rules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from geode.adapters import schemas
from geode.adapters.options import AdapterOptions
from geode.contract import AdapterCallRequest, Notice, NoticeSink, ToolChoice

__all__ = ["cache_control", "join", "long_call", "output_schema", "sampling", "system_text", "thinking"]

_MIN_BUDGET = 1024
"""Smallest `budget_tokens` that the API takes."""

_UNSTREAMED_MAX = 21_333
"""Most output tokens of an unstreamed call: beyond, the SDK expects more than ten minutes and refuses it."""


def cache_control(options: AdapterOptions) -> dict[str, str]:
    """A breakpoint with the configured life; five minutes is the API's default and not spelled out."""
    value = {"type": "ephemeral"}
    if options.cache.ttl != "5m":
        value["ttl"] = options.cache.ttl
    return value


def long_call(max_tokens: int) -> bool:
    """Whether a call may take so long that it has to be streamed."""
    return max_tokens > _UNSTREAMED_MAX


def thinking(
    options: AdapterOptions, request: AdapterCallRequest, choice: ToolChoice, max_tokens: int, notify: NoticeSink
) -> tuple[dict[str, Any] | None, str | None]:
    """(`thinking`, effort) of a call, each None where it is not sent.

    Off means `thinking.when_off`, or that the key is left out: models that cannot do without thinking refuse
    `disabled`. On them a low effort is the nearest thing.
    """
    configured = options.thinking
    effort = configured.effort
    if not request.thinking and configured.when_off is not None:
        return {"type": configured.when_off}, "high" if effort in ("xhigh", "max") else effort
    if configured.type is None:
        return None, effort
    if configured.type in ("disabled", "between_tools"):
        return {"type": configured.type}, effort
    if not request.thinking:
        return None, "low" if effort is not None and configured.type == "adaptive" else effort
    value: dict[str, Any] = {"type": configured.type}
    if configured.type == "enabled":
        if choice.forced:
            text = "thinking is off in calls with a forced tool choice: the API refuses both together"
            notify(Notice("thinking.forced_choice", text, "adapter.thinking.type=adaptive"))
            return None, effort
        budget = min(configured.budget_tokens or _MIN_BUDGET, max_tokens - 1)
        if budget < _MIN_BUDGET:
            text = f"thinking is off in calls of at most {max_tokens} output tokens: it needs {_MIN_BUDGET} and more"
            notify(Notice("thinking.max_tokens", text, "adapter.max_tokens"))
            return None, effort
        value["budget_tokens"] = budget
    if configured.summary in ("summarized", "omitted"):
        value["display"] = configured.summary
    return value, effort


def sampling(options: AdapterOptions, thinks: bool, notify: NoticeSink) -> dict[str, Any]:
    """Sampling keys, only those that are configured and that the call can take."""
    values: dict[str, Any] = {}
    if options.stop:
        values["stop_sequences"] = list(options.stop)
    given = {"temperature": options.temperature, "top_p": options.top_p}
    for key, value in given.items():
        if value is None:
            continue
        if options.thinking.type == "adaptive" or (thinks and (key == "temperature" or not 0.95 <= value <= 1)):
            text = f"{key} is not sent: a model that thinks does not take it"
            notify(Notice(f"sampling.{key}", text, f"adapter.{key}=null"))
            continue
        values[key] = value
    if options.seed is not None:
        notify(Notice("sampling.seed", "seed is not sent: the Messages API has none", "adapter.seed=null"))
    return values


def output_schema(
    options: AdapterOptions, schema: Mapping[str, Any] | None, notify: NoticeSink
) -> schemas.Sendable | None:
    """The response schema as the API enforces it; None where it goes in the prompt instead."""
    if schema is None or options.structured != "json_schema" or not options.capabilities.json_schema:
        return None
    converted = schemas.for_output_messages(schema)
    if isinstance(converted, schemas.Unsendable):
        text = f"the response schema is not enforced by the provider, only asked for: {converted.reason}"
        notify(Notice("response.schema", text, "adapter.structured=prompt"))
        return None
    return converted


def system_text(system: str, schema: Mapping[str, Any] | None) -> str:
    """The system prompt, with a response schema at its end where there is one to ask for in words."""
    if schema is None:
        return system
    shown = json.dumps(schema, ensure_ascii=False)
    asked = f"Give your final answer as one JSON value that matches this JSON Schema, and nothing else:\n{shown}"
    return f"{system}\n\n{asked}" if system else asked


def join(parts: Mapping[str, bytes], messages: Sequence[bytes | bytearray]) -> bytes:
    """A JSON object of JSON values; the value of `messages` is an array of the given pieces. One copy, however long the
    history is."""
    chunks: list[bytes | bytearray] = []
    for key, value in parts.items():
        chunks += (b"," if chunks else b"{", json.dumps(key).encode(), b":")
        chunks += (b"[", *messages, b"]") if key == "messages" else (value,)
    return b"".join((*chunks, b"}"))
