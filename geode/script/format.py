"""The script file: pydantic models that say what may stand in it, and the loader that words its faults."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from geode.contract import ErrorKind, StopReason

__all__ = ["Conversation", "Expect", "Fault", "Script", "ScriptFormatError", "Turn"]

FaultKind = Literal[
    "http",
    "stream_error",
    "hang",
    "cut",
    "close",
    "close_after",
    "broken_json",
    "not_object",
    "empty_choices",
    "overflow",
    "failed",
    "loose_stream",
    "empty_output",
    "stale_reasoning",
    "slow",
]


class ScriptFormatError(ValueError):
    """A script that cannot be used. `faults` has one line for each thing that is wrong, with its path."""

    def __init__(self, source: str, faults: list[str]) -> None:
        super().__init__("\n".join(f"{source}: {fault}" for fault in faults))
        self.source = source
        self.faults = faults


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _short(field: str) -> BeforeValidator:
    """Accepts a bare word or number in place of a mapping with that one field."""
    return BeforeValidator(lambda value: {field: value} if isinstance(value, (str, int, float)) else value)


class Call(_Model):
    """A tool call. `arguments` is the raw text to send in place of `input`: it may be malformed on purpose."""

    name: str
    input: dict[str, Any] | str | None = None
    arguments: str | None = None
    id: str | None = None
    result: Any = None
    """What the call comes to where tools are not run (`geode wire`): a text or JSON. Runs do not look at it."""
    failed: bool = False
    """That result is an error."""

    @model_validator(mode="after")
    def _one_of(self) -> Call:
        if self.input is not None and self.arguments is not None:
            raise ValueError("give input or arguments, not both")
        if isinstance(self.input, str) and "{{" not in self.input:
            raise ValueError("input is a mapping, or one {{ expression }} that gives a mapping; raw text is arguments")
        return self


class Reasoning(_Model):
    """Reasoning before the answer; `redacted` sends it in the provider's unreadable form."""

    text: str = ""
    redacted: bool = False


class Usage(_Model):
    """Tokens, each counted once: `input` excludes cache reads and writes, `output` includes `reasoning`."""

    input: int = Field(0, ge=0)
    output: int = Field(0, ge=0)
    cache_read: int = Field(0, ge=0)
    cache_write: int = Field(0, ge=0)
    cache_write_1h: int = Field(0, ge=0)
    reasoning: int = Field(0, ge=0)


class Refusal(_Model):
    """A refusal by the provider, HTTP 200. `category` as in the Messages API's stop_details."""

    category: str | None = None
    explanation: str = "This request was refused."


class Fault(_Model):
    """What goes wrong in place of (or around) the answer.

    http: `status` with the provider's error body (or `body` verbatim) and `headers`; `retry_after` in seconds, or as an
        HTTP date that many seconds from now (`retry_after_date`).
    stream_error: an error event inside the stream after `after` events (unstreamed: the same as an HTTP error).
    hang: nothing more comes, before the headers or (with `after`) after that many events. cut: the connection closes
        after `after` events. close: it closes without a response. close_after: it closes after a whole response.
    broken_json, not_object, empty_choices: a 200 that is no answer. overflow: the provider's context overflow error.
    failed: a Responses answer with status failed and `code`. loose_stream: a stream without sequence numbers, indexes.
    empty_output: response.completed with an empty output list. stale_reasoning: encrypted_content of output_item.done
        is not the final one. slow: `interval_s` seconds between events.
    """

    kind: FaultKind
    status: int = Field(500, ge=400, le=599)
    type: str | None = None
    code: str | None = None
    message: str | None = None
    body: str | None = None
    headers: dict[str, str] = {}
    retry_after: float | None = None
    retry_after_date: float | None = None
    after: int | None = Field(None, ge=0)
    interval_s: float = Field(0.05, ge=0)
    error: ErrorKind | None = None
    """The in-process adapter's kind of error, where the status does not say it."""


def _words(value: Any) -> Any:
    return value if not isinstance(value, (str, int)) else [value]


Words = Annotated[list[str], BeforeValidator(_words)]


class Expect(_Model):
    """What must hold of the request that this turn answers; anything else fails with a text that names both."""

    tool_choice: str | None = None
    """auto, none, required, tool:NAME, or absent."""
    tools: Words | None = None
    """The tools' names, in any order."""
    with_tools: Words = []
    without_tools: Words = []
    last_is_error: bool | None = None
    results: int | None = None
    """How many tool results the history holds."""
    last_result: str | None = None
    """A text that the newest tool result contains."""
    user: str | None = None
    """A text that the newest user text contains."""
    system: str | None = None
    """A text that the system prompt contains."""
    max_tokens: int | None = None
    thinking: bool | None = None

    @field_validator("tool_choice")
    @classmethod
    def _choice(cls, value: str | None) -> str | None:
        if value is not None and value not in ("auto", "none", "required", "absent") and not value.startswith("tool:"):
            raise ValueError(f"{value!r} is not one of auto, none, required, absent, tool:NAME")
        return value


class Turn(_Model):
    """One answer. Strings may be Jinja2 templates over the request (docs/scripts.md)."""

    text: str | None = None
    reasoning: Annotated[list[Annotated[Reasoning, _short("text")]], BeforeValidator(lambda v: _listed(v))] = []
    tool_calls: list[Annotated[Call, _short("name")]] = []
    stop: StopReason | None = None
    stop_sequence: str | None = None
    usage: Usage | Literal["missing"] | None = None
    refusal: Annotated[Refusal, _short("category")] | None = None
    phase: Literal["commentary", "final_answer"] | None = None
    delay_s: float = Field(0.0, ge=0)
    fault: Annotated[Fault, _short("kind")] | None = None
    expect: Expect | None = None
    repeat: Annotated[int, Field(ge=1)] | Literal["forever"] = 1


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class Conversation(_Model):
    """The turns for requests whose first user text `match` (a regular expression) is found in; without it, for any.

    each: every distinct first user text plays the turns from their start (sub-agents that share a pattern).
    """

    match: str | None = None
    each: bool = False
    optional: bool = False
    """It is no fault when nothing asks for this conversation."""
    turns: list[Turn] = Field(min_length=1)

    @field_validator("match")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"is no regular expression: {error}") from None
        return value


class Script(_Model):
    """A whole script: `turns` for one conversation, or `conversations` for several."""

    name: str = "script"
    description: str = ""
    turns: list[Turn] = []
    conversations: list[Conversation] = []

    @model_validator(mode="after")
    def _some(self) -> Script:
        if not self.turns and not self.conversations:
            raise ValueError("needs turns or conversations")
        return self

    @property
    def all_conversations(self) -> tuple[tuple[str, Conversation], ...]:
        """(path in the file, conversation): those with `match` in their order, the bare `turns` last."""
        found = [(f"conversations[{i}].turns", c) for i, c in enumerate(self.conversations)]
        found.sort(key=lambda pair: pair[1].match is None)
        if self.turns:
            found.append(("turns", Conversation(turns=self.turns)))
        return tuple(found)

    @classmethod
    def load(cls, source: str | Path | Mapping[str, Any]) -> Script:
        """Reads a YAML file or a mapping. Raises ScriptFormatError with one line for each fault."""
        where, value = "script", source
        if isinstance(source, (str, Path)):
            import yaml

            where = str(source)
            try:
                value = yaml.safe_load(Path(source).read_text(encoding="utf-8"))
            except OSError as error:
                raise ScriptFormatError(where, [f"cannot be read: {error.strerror}"]) from None
            except (yaml.YAMLError, UnicodeDecodeError) as error:
                raise ScriptFormatError(where, [f"is no YAML: {' '.join(str(error).split())}"]) from None
        if not isinstance(value, Mapping):
            raise ScriptFormatError(where, [f"a script is a mapping, not {type(value).__name__}"])
        try:
            return cls.model_validate(dict(value))
        except ValidationError as error:
            raise ScriptFormatError(where, _faults(error)) from None


_KEYS = {
    name
    for model in (Call, Reasoning, Usage, Refusal, Fault, Expect, Turn, Conversation, Script)
    for name in model.model_fields
}


def _faults(error: ValidationError) -> list[str]:
    """One line for each path; what the members of a union say of it is joined by `or`."""
    found: dict[str, list[str]] = {}
    for item in error.errors(include_url=False, include_context=False):
        unknown = item["type"] == "extra_forbidden"
        path = ""
        for index, part in enumerate(item["loc"]):
            if isinstance(part, int):
                path += f"[{part}]"
            elif part in _KEYS or (unknown and index == len(item["loc"]) - 1):
                path += f".{part}" if path else part
        message = item["msg"].removeprefix("Value error, ")
        if unknown:
            near = difflib.get_close_matches(str(item["loc"][-1]), sorted(_KEYS), n=1)
            message = "unknown key" + (f"; did you mean {near[0]}?" if near else "")
        elif not isinstance(item["input"], (dict, list)) and item["type"] != "missing":
            message += f" (given: {item['input']!r})"
        found.setdefault(path or "script", []).append(message)
    return [f"{path}: {' or '.join(dict.fromkeys(messages))}" for path, messages in found.items()]
