"""Arguments and ids of calls, as providers send them and as they must be replayed.

Malformed arguments never reach a tool and never poison the history: what is replayed is always a JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from geode.contract import InputFault, ToolUseBlock

__all__ = ["MAX_ARGUMENT_CHARS", "call_id", "parse_arguments", "replay_arguments", "replay_input", "unique_ids"]

MAX_ARGUMENT_CHARS = 1_048_576
"""Longest argument text that the Responses API takes back; a longer one makes every later request fail."""

_KEPT_OF_TOO_LONG = 2_000


def parse_arguments(
    raw: str | Mapping[str, Any] | None, *, cut: bool = False, limit: int | None = None
) -> tuple[Mapping[str, Any], str | None, InputFault | None]:
    """Reads a call's arguments: (input, argument text to keep, fault).

    `raw`: the provider's text or object; "" and None mean `{}`; a JSON string whose content is an object is taken as
    that object. `cut`: the response ended inside this call, so it is not run whatever the text looks like. `limit`:
    most characters that the wire takes back. The argument text is kept verbatim only when it is a valid JSON object
    (or, with a fault, as the raw text that the model is shown).
    """
    if isinstance(raw, Mapping):
        return raw, None, InputFault.CUT if cut else None
    text = raw or ""
    if cut:
        value = _loads(text)
        return {}, text if isinstance(value, dict) else (text or None), InputFault.CUT
    if not text.strip():
        return {}, None, None
    if limit is not None and len(text) > limit:
        return {}, text[:_KEPT_OF_TOO_LONG], InputFault.TOO_LONG
    value = _loads(text)
    if isinstance(value, dict):
        return value, text, None
    if isinstance(value, str):
        inner = _loads(value)
        if isinstance(inner, dict):
            return inner, None, None
    return {}, text, InputFault.INVALID_JSON if value is _BROKEN else InputFault.NOT_AN_OBJECT


_BROKEN = object()


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return _BROKEN


def replay_input(call: ToolUseBlock) -> Mapping[str, Any]:
    """The object that is replayed for a call (Messages): its input, or `{"INVALID_JSON": raw}` for a faulty one."""
    if call.fault is None:
        return call.input
    if call.fault is InputFault.CUT and call.arguments is None:
        return call.input
    if call.fault is InputFault.CUT and isinstance(value := _loads(call.arguments or ""), dict):
        return value
    return {"INVALID_JSON": call.arguments or ""}


def replay_arguments(call: ToolUseBlock) -> str:
    """The argument text that is replayed for a call (Responses, Chat Completions): always a JSON object's text.

    The model's own text goes back verbatim where it is one, since a re-dump would break the provider's prompt cache.
    """
    if call.fault is None and call.arguments is not None:
        return call.arguments
    return json.dumps(replay_input(call), ensure_ascii=False, separators=(",", ":"))


def call_id(round: int, index: int) -> str:
    """The id of a call whose provider gave none: deterministic. `round` is 1-based, `index` 0-based."""
    return f"call_{round}_{index}"


def unique_ids(ids: Iterable[str | None], round: int) -> Iterator[str]:
    """Makes the ids of one response non-empty and unique: the first keeps its id, later ones get `ID_2`, `ID_3`."""
    given = list(ids)
    taken = {i for i in given if i}
    seen: set[str] = set()
    for index, identifier in enumerate(given):
        fresh = identifier or call_id(round, index)
        base, n = fresh, 2
        while fresh in seen or (fresh in taken and fresh != identifier):
            fresh = f"{base}_{n}"
            n += 1
        seen.add(fresh)
        yield fresh
