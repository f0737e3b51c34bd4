"""What a conversation is made of: the content blocks, the message, and the history that grows by messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, overload

__all__ = [
    "Block",
    "History",
    "ImageBlock",
    "InputFault",
    "Json",
    "Message",
    "ReasoningBlock",
    "Source",
    "TextBlock",
    "ToolResultBlock",
    "ToolUseBlock",
]

Json = Any
"""A JSON value as `json.loads` gives it."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text of either role. `phase` is the Responses API's message phase, kept on replay."""

    text: str
    phase: str | None = None


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image. `media_type` is a MIME type (image/png, ...); `data` is its bytes as base64 text."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where a block that only its own provider understands came from."""

    wire: str
    """Wire family: `messages`, `responses` or `chat`."""
    adapter: str
    model: str


@dataclass(frozen=True, slots=True)
class ReasoningBlock:
    """A model's reasoning: shown as `text`, replayed verbatim from `raw` to the provider and model it came from.

    `raw` is the provider's own JSON object (a `thinking` or `redacted_thinking` block, a `reasoning` item, or
    `{field_name: value}` of a chat message). To any other wire the reasoning goes as plain text, or not at all where
    `text` is empty.
    """

    text: str
    source: Source
    raw: Mapping[str, Json] = field(default_factory=dict)


class InputFault(StrEnum):
    """Why the arguments of a call cannot be used: the tool is not run, and the model is told."""

    INVALID_JSON = "invalid_json"
    NOT_AN_OBJECT = "not_an_object"
    CUT = "cut"
    """The response ended (output limit, cut stream) inside this call."""
    TOO_LONG = "too_long"
    """Over the wire's limit on argument length."""


@dataclass(frozen=True, slots=True)
class ToolUseBlock:
    """A call that the model asks for.

    `id` is unique in its response; `name` is the tool's own name (wire aliases undone); `input` is the parsed object
    (empty where `fault` is set). `arguments` is the model's own argument text, replayed verbatim when it is a valid
    JSON object, None where the provider sent an object or nothing. `wire_id` is a provider-side item id that is not
    the joining id (Responses `id`), kept only where the provider stores items. `namespace` is the Responses API's, set
    on calls of tools that its hosted tool search loaded, and must go back with them. `source` says whose `wire_id` and
    `namespace` they are (None where both are).
    """

    id: str
    name: str
    input: Mapping[str, Json]
    arguments: str | None = None
    fault: InputFault | None = None
    wire_id: str | None = None
    namespace: str | None = None
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class ToolResultBlock:
    """What a call came to: text, or a sequence of text and image blocks. `tool_use_id` is the call's `id`."""

    tool_use_id: str
    content: str | tuple[TextBlock | ImageBlock, ...]
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text parts, joined."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(b.text for b in self.content if isinstance(b, TextBlock))


Block = TextBlock | ImageBlock | ReasoningBlock | ToolUseBlock | ToolResultBlock


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation. Tool results stand in `user` messages, before any text."""

    role: Literal["user", "assistant"]
    content: tuple[Block, ...]

    @classmethod
    def user(cls, *content: Block | str) -> Message:
        return cls("user", tuple(TextBlock(b) if isinstance(b, str) else b for b in content))

    @classmethod
    def assistant(cls, *content: Block | str) -> Message:
        return cls("assistant", tuple(TextBlock(b) if isinstance(b, str) else b for b in content))

    @property
    def text(self) -> str:
        return "\n".join(b.text for b in self.content if isinstance(b, TextBlock))

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        return tuple(b for b in self.content if isinstance(b, ToolUseBlock))

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        return tuple(b for b in self.content if isinstance(b, ToolResultBlock))


class History(Sequence[Message]):
    """The messages of a run. Grows by `append`; `replace` (a compaction) starts a new `generation`.

    A renderer that remembers (generation, length) therefore never has to look at an old message again. `sent` counts
    the messages that some request has carried: those never change within a generation.
    """

    __slots__ = ("_messages", "_watchers", "generation", "sent")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages = list(messages)
        self._watchers: list[Callable[[History, Message | None], None]] = []
        self.generation = 0
        self.sent = 0

    def append(self, message: Message) -> None:
        """Adds a message at the end and tells the watchers."""
        self._messages.append(message)
        for watch in self._watchers:
            watch(self, message)

    def replace(self, messages: Iterable[Message]) -> None:
        """Puts other messages in place of all (compaction, pruning). Watchers get None for the message."""
        self._messages = list(messages)
        self.generation += 1
        self.sent = 0
        for watch in self._watchers:
            watch(self, None)

    def watch(self, watcher: Callable[[History, Message | None], None]) -> None:
        """`watcher(history, message)` is called after each append, `watcher(history, None)` after a replace."""
        self._watchers.append(watcher)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)
