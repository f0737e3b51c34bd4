"""What a script may look at: a neutral view of one request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from geode.contract import ToolChoice

__all__ = ["ScriptResult", "ScriptView", "is_error_text"]

_UNREAD: Any = object()


def is_error_text(text: str) -> bool:
    """Whether a result without an error flag (Responses, Chat Completions) is of the form `{"error": ...}`."""
    return text.startswith('{"error"')


@dataclass(slots=True)
class ScriptResult:
    """A tool result: `json` is its text parsed, and raises ValueError where it is no JSON, as `is_json` tells."""

    id: str
    name: str
    text: str
    is_error: bool = False
    _json: Any = field(default=_UNREAD, repr=False, compare=False)

    @property
    def json(self) -> Any:
        if self._json is _UNREAD:
            try:
                self._json = json.loads(self.text)
            except ValueError:
                raise ValueError(f"the result of {self.name} is no JSON: {self.text[:80]!r}") from None
        return self._json

    @property
    def is_json(self) -> bool:
        try:
            return self.json is not _UNREAD
        except ValueError:
            return False


@dataclass(slots=True)
class ScriptView:
    """One request in neutral terms. `tool_choice` is None where the request has none; `request` counts from 1."""

    system: str = ""
    user: str = ""
    """The newest user text."""
    first_user: str = ""
    tools: tuple[str, ...] = ()
    tool_choice: ToolChoice | None = None
    results: Sequence[ScriptResult] = ()
    request: int = 1
    max_tokens: int | None = None
    thinking: bool | None = None
    wants_json: bool = False
    """Whether the provider is told that the answer must be JSON."""
