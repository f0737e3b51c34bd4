"""How a response schema goes over Chat Completions: as `response_format`, in the system message, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geode.adapters.chat_render import dump
from geode.adapters.options import AdapterOptions
from geode.adapters.schemas import Sendable, for_output_chat, qualifies_strict
from geode.contract import Notice, NoticeSink

__all__ = ["AnswerFormat", "make_format"]

_SCHEMA_PROMPT = (
    "Your final answer must be one JSON value and nothing else: no prose, no code fence. It must match this JSON "
    "Schema:\n"
)


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """given: the response schema. json: `response_format`, b"" for none. prompt: what the system message says of it.
    sent: undoes a wrapper, where the schema's root is no object."""

    given: Mapping[str, Any] | None = None
    json: bytes = b""
    prompt: str = ""
    sent: Sendable | None = None


def make_format(options: AdapterOptions, schema: Mapping[str, Any] | None, notify: NoticeSink) -> AnswerFormat:
    """The format of a response schema, by `adapter.structured` and what the backend has.

    `json_object` is taken by more backends than `json_schema`, but says nothing of the schema: that goes into the
    system message (which also holds the word JSON, as OpenAI's API demands).
    """
    if schema is None:
        return AnswerFormat()
    how = options.structured
    if how == "json_schema" and not options.capabilities.json_schema:
        how = "json_object"
    if how == "prompt":
        return AnswerFormat(schema, prompt=_prompt(schema))
    sent = for_output_chat(schema)
    if not isinstance(sent, Sendable):
        text = f"the response schema cannot be sent: {sent.reason}; the model is told it in words"
        notify(Notice("response.schema", text))
        return AnswerFormat(schema, prompt=_prompt(schema))
    undo = sent if sent.renames or sent.wrapped is not None else None
    if how == "json_schema":
        given = {"name": "response", "schema": sent.schema, "strict": qualifies_strict(sent.schema)}
        return AnswerFormat(schema, dump({"type": "json_schema", "json_schema": given}), sent=undo)
    shown = sent.schema if undo is not None else schema
    return AnswerFormat(schema, b'{"type":"json_object"}', _prompt(shown), undo)


def _prompt(schema: Mapping[str, Any]) -> str:
    return _SCHEMA_PROMPT + dump(schema).decode()
