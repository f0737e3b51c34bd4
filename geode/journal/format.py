"""The journal's format: how a record is written as a line of JSON, and how messages and usage are read back."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from geode.contract import (
    Block,
    ImageBlock,
    InputFault,
    Message,
    ReasoningBlock,
    Source,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)

__all__ = [
    "FORMAT",
    "JOURNAL_FILE",
    "JournalError",
    "decode_message",
    "decode_result",
    "decode_usage",
    "dumps",
    "encode_message",
    "shallow",
]

FORMAT = 1
"""Version of the journal's format, in its header."""

JOURNAL_FILE = "journal.jsonl"
"""The journal's name in a run's folder."""

_CLASSES: dict[str, type[Any]] = {
    "text": TextBlock,
    "image": ImageBlock,
    "reasoning": ReasoningBlock,
    "tool_use": ToolUseBlock,
    "tool_result": ToolResultBlock,
}
_TAGS = {cls: tag for tag, cls in _CLASSES.items()}


class JournalError(Exception):
    """A journal that cannot be read: one line that says why."""


def _plain(value: Any) -> Any:
    """What `json` cannot write by itself."""
    if is_dataclass(value) and not isinstance(value, type):
        data = shallow(value)
        tag = _TAGS.get(type(value))
        return {"type": tag, **data} if tag else data
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))


def shallow(value: Any) -> dict[str, Any]:
    """The fields of a dataclass by name, their values as they are."""
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _names(kind)}


_encode = json.JSONEncoder(default=_plain, ensure_ascii=False, separators=(",", ":")).encode


def encode_message(message: Message) -> dict[str, Any]:
    """A message as plain data; `decode_message` reads it back."""
    return json.loads(json.dumps(message, default=_plain))  # type: ignore[no-any-return]


def decode_message(data: Mapping[str, Any]) -> Message:
    """A message from its journalled form. Raises JournalError where it is none."""
    try:
        return Message(data["role"], tuple(_block(b) for b in data["content"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise JournalError(f"a journalled message cannot be read: {type(error).__name__}: {error}") from error


def decode_result(data: Mapping[str, Any]) -> ToolResultBlock:
    """A tool result from its journalled form (with or without its `type`)."""
    block = _block({"type": "tool_result", **data})
    assert isinstance(block, ToolResultBlock)
    return block


def decode_usage(data: Mapping[str, Any]) -> Usage:
    """Token counts from their journalled form."""
    known = {f.name for f in fields(Usage)}
    return Usage(**{key: value for key, value in data.items() if key in known})


def _block(data: Mapping[str, Any]) -> Block:
    """A block: the fields that its class has, by name, so that a new field needs nothing here."""
    cls = _CLASSES.get(data["type"])
    if cls is None:
        raise JournalError(f"unknown block type {data['type']!r}")
    given = {f.name: data[f.name] for f in fields(cls) if f.name in data}
    if given.get("source") is not None:
        given["source"] = Source(**given["source"])
    if given.get("fault") is not None:
        given["fault"] = InputFault(given["fault"])
    if not isinstance(given.get("content", ""), str):
        given["content"] = tuple(_block(part) for part in given["content"])
    block: Block = cls(**given)
    return block


def dumps(record: Mapping[str, Any]) -> str:
    """A record as one line of JSON, whatever it holds."""
    try:
        return _encode(record)
    except (ValueError, TypeError, RecursionError):  # a cycle or an odd key: keep the event, not its shape
        safe = {k: v if isinstance(v, str | int | float | None) else repr(v)[:10_000] for k, v in record.items()}
        return json.dumps(safe, ensure_ascii=False, separators=(",", ":"))
