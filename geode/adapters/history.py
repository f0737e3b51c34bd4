"""From a history to the wire: pairing, turns, and rendering each message once.

What goes on the wire is always paired: each call has exactly one result right after it, each result has a call. A
crash, a cancel or a hand-edited history is repaired here, the same way every time, and a sound history is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from geode.adapters.arguments import unique_ids
from geode.contract import (
    Block,
    History,
    ImageBlock,
    Message,
    ReasoningBlock,
    Source,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)

__all__ = ["CLOSED_TEXT", "Transcript", "Turn", "is_empty", "pair", "spoken"]

CLOSED_TEXT = "No result: this call was interrupted before it finished."
"""The result that closes a call that has none. Fixed: no clock and no random, so that a repair is repeatable."""

Normalise = Callable[[Message], tuple[Block, ...]]
"""What one message becomes on a wire before turns are made (empty text dropped, foreign reasoning as text, ...)."""


def is_empty(block: Block) -> bool:
    """Whether a block is a text with nothing in it."""
    return isinstance(block, TextBlock) and not block.text


def spoken(message: Message, source: Source) -> tuple[Block, ...]:
    """What one message has to say to `source`: no empty text, others' reasoning as plain text (or not at all)."""
    if message.role == "user":
        return tuple(b for b in message.content if not isinstance(b, ReasoningBlock) and not is_empty(b))
    blocks: list[Block] = []
    for block in message.content:
        if isinstance(block, ReasoningBlock) and block.source != source:
            block = TextBlock(block.text)
        if not is_empty(block) and not isinstance(block, ImageBlock):
            blocks.append(block)
    return tuple(blocks)


@dataclass(frozen=True, slots=True)
class Turn:
    """Consecutive messages of one role as one. A user turn has its tool results first, in call order.

    `start` is the index of its first message.
    """

    role: str
    blocks: tuple[Block, ...]
    start: int

    @property
    def results(self) -> tuple[ToolResultBlock, ...]:
        return tuple(b for b in self.blocks if isinstance(b, ToolResultBlock))

    @property
    def calls(self) -> tuple[ToolUseBlock, ...]:
        return tuple(b for b in self.blocks if isinstance(b, ToolUseBlock))


def _blocks(message: Message) -> tuple[Block, ...]:
    return message.content


class _Pairer:
    """Reads messages one by one and gives turns. An assistant turn's calls stay open until the next assistant turn."""

    def __init__(self, merge: bool) -> None:
        self.turns: list[Turn] = []
        self._merge = merge
        self._assistant: list[Block] = []
        self._assistant_start = 0
        self._calls: list[ToolUseBlock] = []
        self._given: list[str] = []
        self._results: list[ToolResultBlock | None] = []
        self._user: list[Block] = []
        self._user_start: int | None = None

    def feed(self, index: int, role: str, blocks: tuple[Block, ...]) -> None:
        if role == "assistant":
            self._feed_assistant(index, blocks)
        else:
            self._feed_user(index, blocks)

    def _feed_assistant(self, index: int, blocks: tuple[Block, ...]) -> None:
        blocks = tuple(b for b in blocks if not isinstance(b, ToolResultBlock))
        if not blocks:
            return
        if self._user_start is not None or self._calls or (self._assistant and not self._merge):
            self.flush(index)
        if not self._assistant:
            self._assistant_start = index
        given = [b for b in blocks if isinstance(b, ToolUseBlock)]
        self._given = [c.id for c in given]
        fresh = iter(unique_ids(self._given, index))
        for block in blocks:
            if isinstance(block, ToolUseBlock):
                identifier = next(fresh)
                if identifier != block.id:
                    block = replace(block, id=identifier)
                self._calls.append(block)
            self._assistant.append(block)
        self._results = [None] * len(self._calls)

    def _feed_user(self, index: int, blocks: tuple[Block, ...]) -> None:
        for block in blocks:
            if isinstance(block, ToolUseBlock):
                continue
            if isinstance(block, ToolResultBlock):
                if not self._take(block):
                    continue
            else:
                self._user.append(block)
            if self._user_start is None:
                self._user_start = index

    def _take(self, result: ToolResultBlock) -> bool:
        """Gives a result to the first call of that id that has none; False where there is none: an orphan."""
        for position, call in enumerate(self._calls):
            if self._results[position] is None and result.tool_use_id in (self._given[position], call.id):
                self._results[position] = (
                    result if result.tool_use_id == call.id else replace(result, tool_use_id=call.id)
                )
                return True
        return False

    def flush(self, index: int) -> None:
        """Ends the open assistant and user turns, closing the calls that have no result."""
        if self._assistant:
            self.turns.append(Turn("assistant", tuple(self._assistant), self._assistant_start))
        results = [
            r if r is not None else ToolResultBlock(c.id, CLOSED_TEXT, is_error=True)
            for c, r in zip(self._calls, self._results, strict=True)
        ]
        if results or self._user:
            start = index if self._user_start is None else self._user_start
            self.turns.append(Turn("user", (*results, *self._user), start))
        self._assistant, self._calls, self._given, self._results = [], [], [], []
        self._user, self._user_start = [], None


def pair(
    messages: Sequence[Message], normalise: Normalise = _blocks, start: int = 0, *, merge: bool = True
) -> list[Turn]:
    """The turns of `messages[start:]`, alternating and paired. Idempotent: a sound history comes out as it is.

    - a result whose call is gone is removed; a call without result is closed with `CLOSED_TEXT` as an error;
    - duplicate or empty ids in one message get fresh ones, in call and result alike; an id used again later is
      matched by position;
    - consecutive messages of one role are merged, results first; a message with nothing left is dropped.

    `start` must be 0 or the start of an assistant turn. Without `merge`, consecutive assistant messages stay apart: a
    continued answer then follows the one that was sent before, and changes nothing of it.
    """
    pairer = _Pairer(merge)
    for index in range(start, len(messages)):
        message = messages[index]
        pairer.feed(index, message.role, normalise(message))
    pairer.flush(len(messages))
    return pairer.turns


class Transcript:
    """The message array of a request, as JSON bytes. With a `History`, each message is rendered once in a run.

    render: a turn to its array items, each the bytes of one JSON value. Pure. merge: see `pair`.
    """

    __slots__ = (
        "_closed",
        "_closed_messages",
        "_generation",
        "_history",
        "_key",
        "_merge",
        "_normalise",
        "_open",
        "_render",
    )

    def __init__(
        self, render: Callable[[Turn], Sequence[bytes]], normalise: Normalise = _blocks, *, merge: bool = True
    ) -> None:
        self._render = render
        self._merge = merge
        self._normalise = normalise
        self._history: History | None = None
        self._generation = 0
        self._key: Hashable = None
        self._closed = bytearray()
        self._closed_messages = 0
        self._open: list[tuple[Turn, bytes]] = []

    def items(self, messages: Sequence[Message], key: Hashable = None) -> bytes:
        """The items of the array, joined by commas, without the brackets."""
        return b"".join(self.pieces(messages, key))

    def pieces(self, messages: Sequence[Message], key: Hashable = None) -> list[bytes | bytearray]:
        """The same in pieces, for a caller that joins them with the rest of a body: the history is copied once. They
        are good until the next call.

        key: whatever else the rendering depends on (the aliases of names, say): another key renders all anew.
        """
        if not isinstance(messages, History):
            return _separated([b for b in map(self._joined, self._turns(messages, 0)) if b])
        if (
            messages is not self._history
            or messages.generation != self._generation
            or key != self._key
            or len(messages) < self._closed_messages
        ):
            self._history, self._generation, self._key = messages, messages.generation, key
            self._closed, self._closed_messages, self._open = bytearray(), 0, []
        turns = self._turns(messages, self._closed_messages)
        known = self._open
        self._open = []
        last_assistant = max((i for i, turn in enumerate(turns) if turn.role == "assistant"), default=0)
        for position, turn in enumerate(turns):
            rendered = next((b for old, b in known if _same(old, turn)), None)
            if rendered is None:
                rendered = self._joined(turn)
            if position < last_assistant:
                self._close(rendered)
            else:
                self._open.append((turn, rendered))
        if turns:
            self._closed_messages = turns[last_assistant].start if last_assistant else self._closed_messages
        parts: list[bytes | bytearray] = [b for _, b in self._open if b]
        if self._closed:
            parts.insert(0, self._closed)
        return _separated(parts)

    def _turns(self, messages: Sequence[Message], start: int) -> list[Turn]:
        return pair(messages, self._normalise, start, merge=self._merge)

    def _close(self, rendered: bytes) -> None:
        if rendered:
            if self._closed:
                self._closed += b","
            self._closed += rendered

    def _joined(self, turn: Turn) -> bytes:
        return b",".join(self._render(turn))


def _separated(parts: Sequence[bytes | bytearray]) -> list[bytes | bytearray]:
    found: list[bytes | bytearray] = []
    for part in parts:
        found += (b",", part) if found else (part,)
    return found


def _same(old: Turn, new: Turn) -> bool:
    """Whether a turn is made of the same blocks (the very objects: no deep comparison)."""
    return (
        old.role == new.role
        and len(old.blocks) == len(new.blocks)
        and all(a is b for a, b in zip(old.blocks, new.blocks, strict=True))
    )
