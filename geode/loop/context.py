"""Keeping the context inside the window: estimate, offload, summarise, prune."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from geode.contract import (
    AdapterCallResult,
    Block,
    History,
    ImageBlock,
    Message,
    ReasoningBlock,
    TerminationReason,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from geode.hooks import Block as Blocked
from geode.hooks import ContextCritical, ContextOverflowAction, HookBus
from geode.loop.result import End
from geode.tokens import IMAGE_TOKENS, estimate_tokens

__all__ = ["ContextManager", "Offloader", "Summariser", "estimate_message"]

Offloader = Callable[[ToolResultBlock, str, int], ToolResultBlock | None]
"""Puts a result (with its tool's name, in a round) into the offload store: the short form with its ref_id, or None
where it is too short to gain."""

Summariser = Callable[[], Awaitable[str | None]]
"""Asks the model for a summary of the history."""

_SUMMARY = "Summary of the work so far, in place of the older messages:"
_REMOVED = re.compile(r"\[(\d+) older messages were removed to make room\]")
_PER_MESSAGE = 4
_PER_BLOCK = 8


def estimate_message(message: Message) -> int:
    """Estimated tokens of a message, script-aware."""
    return _PER_MESSAGE + sum(_estimate_block(block) for block in message.content)


def _estimate_block(block: Block) -> int:
    if isinstance(block, TextBlock | ReasoningBlock):
        return estimate_tokens(block.text) + _PER_BLOCK
    if isinstance(block, ImageBlock):
        return IMAGE_TOKENS
    if isinstance(block, ToolUseBlock):
        arguments = block.arguments if block.arguments is not None else str(block.input)
        return estimate_tokens(block.name) + estimate_tokens(arguments) + _PER_BLOCK
    if isinstance(block.content, str):
        return estimate_tokens(block.content) + _PER_BLOCK
    return sum(_estimate_block(part) for part in block.content) + _PER_BLOCK


@dataclass(slots=True)
class ContextManager:
    """Watches the size of the context and acts on it before a round.

    window, max_tokens: give the current model's window and output limit in tokens (a window of 0 is unknown: only the
    provider's own overflow error acts). overhead: gives the estimated tokens of system prompt and tools. warning,
    critical: shares of the window less max_tokens. keep_results: rounds whose results are never offloaded, counted
    from the newest.
    """

    history: History
    bus: HookBus
    window: Callable[[], int]
    max_tokens: Callable[[], int]
    overhead: Callable[[], int]
    offload: Offloader | None = None
    summarise: Summariser | None = None
    warning: float = 0.8
    critical: float = 0.9
    keep_results: int = 1
    _base: int | None = None
    _counted: int = 0
    _generation: int = 0
    _idle_at: tuple[int, int] | None = None

    def note(self, response: AdapterCallResult) -> None:
        """Takes the provider's own count of what was sent and answered. Called before the answer is appended."""
        if response.usage.known and response.usage.total_tokens:
            self._base = response.usage.total_tokens
            self._counted = len(self.history) + 1
            self._generation = self.history.generation

    def tokens(self) -> int:
        """The estimated size of the next request in tokens: the last reported usage plus what was added since."""
        if self._base is None or self._generation != self.history.generation:
            self._base, self._counted = self.overhead(), 0
            self._generation = self.history.generation
        for index in range(self._counted, len(self.history)):
            self._base += estimate_message(self.history[index])
        self._counted = max(self._counted, len(self.history))
        return self._base

    async def fit(self, round: int) -> End | None:
        """Acts where a level is passed; an end where the context stays critical."""
        window = self.window()
        if not window:
            return None
        room = max(window - self.max_tokens(), window // 4)
        tokens = self.tokens()
        if tokens < self.warning * room:
            return None
        if self._idle_at == (self.history.generation, len(self.history)):
            return None
        level = "critical" if tokens >= self.critical * room else "warning"
        self.bus.emit(ContextCritical(round, level, tokens, window))
        await self._act(round, level, "offload", window)
        if self.tokens() >= self.warning * room and self.summarise is not None:
            await self._act(round, level, "summarise", window)
        if self.tokens() >= self.critical * room:
            await self._act(round, "critical", "prune", window, int(self.warning * room))
        self._idle_at = (self.history.generation, len(self.history))
        if (tokens := self.tokens()) >= self.critical * room:
            return End(TerminationReason.CONTEXT_EXHAUSTED, {"tokens": tokens, "window": window})
        return None

    async def overflowed(self, round: int) -> bool:
        """One compaction after the provider refused the request as too long; False where nothing could be freed."""
        window, tokens = self.window(), self.tokens()
        self.bus.emit(ContextCritical(round, "overflow", tokens, window))
        before = self.history.generation
        await self._act(round, "overflow", "offload", window)
        if self.tokens() > tokens // 2:
            await self._act(round, "overflow", "prune", window, tokens // 2)
        return self.history.generation != before

    async def _act(self, round: int, level: str, strategy: str, window: int, target: int = 0) -> None:
        action = ContextOverflowAction(round, level, strategy, self.tokens(), window)
        verdict = await self.bus.intercept(action)
        if isinstance(verdict, Blocked):
            return
        before = self.history.generation
        if verdict.strategy == "offload":
            self._offload(round)
        elif verdict.strategy == "summarise":
            await self._summarise()
        elif verdict.strategy == "prune":
            self._prune(target or int(self.warning * max(window - self.max_tokens(), window // 4)))
        if self.history.generation != before:
            self.bus.emit(replace(verdict, tokens=self.tokens()))

    def _offload(self, round: int) -> None:
        """Older results go to the store; the newest unread ones stay."""
        if self.offload is None:
            return
        results_at = [i for i, m in enumerate(self.history) if m.tool_results]
        old = results_at[: -self.keep_results] if self.keep_results else results_at
        if results_at and results_at[-1] == len(self.history) - 1 and results_at[-1] in old:
            old.remove(results_at[-1])  # not read yet
        messages = list(self.history)
        changed = False
        for index in old:
            blocks: list[Block] = []
            names = {use.id: use.name for use in messages[index - 1].tool_uses}
            for block in messages[index].content:
                short = None
                if isinstance(block, ToolResultBlock):
                    short = self.offload(block, names.get(block.tool_use_id, ""), round)
                changed = changed or short is not None
                blocks.append(short if short is not None else block)
            messages[index] = replace(messages[index], content=tuple(blocks))
        if changed:
            self.history.replace(messages)

    async def _summarise(self) -> None:
        """The older messages become one summary behind the task; the newest round stays as it is."""
        if self.summarise is None:
            return
        starts = _round_starts(self.history)
        if len(starts) < 2:
            return
        summary = await self.summarise()
        if summary:
            head = self.history[0]
            asked = [*self.history[1 : starts[0]], *_inputs(self.history, starts[0], starts[-1])]
            kept = [b for i, b in enumerate(head.content) if not i or not _text(b).startswith(_SUMMARY)]
            note = TextBlock(f"{_SUMMARY}\n{summary}")
            self.history.replace([replace(head, content=(*kept, note)), *asked, *self.history[starts[-1] :]])

    def _prune(self, target: int) -> None:
        """Drops the oldest rounds whole (call and results together) until the estimate is at most `target`. What the
        user said stays."""
        starts = _round_starts(self.history)
        tokens, cut = self.tokens(), 0
        while cut < len(starts) - 1 and tokens > target:
            tokens -= sum(estimate_message(m) for m in self.history[starts[cut] : starts[cut + 1]])
            cut += 1
        if not cut:
            return
        asked = _inputs(self.history, starts[0], starts[cut])
        gone = starts[cut] - starts[0] - len(asked)
        first, *head = self.history[: starts[0]]
        blocks: list[Block] = []
        for block in first.content:
            if found := _REMOVED.fullmatch(_text(block)):
                gone += int(found[1])
            else:
                blocks.append(block)
        note = TextBlock(f"[{gone} older messages were removed to make room]")
        first = replace(first, content=(*blocks, note))
        self.history.replace([first, *head, *asked, *self.history[starts[cut] :]])


def _text(block: Block) -> str:
    return block.text if isinstance(block, TextBlock) else ""


def _inputs(history: History, start: int, stop: int) -> list[Message]:
    """What the user said in a part of the history: texts after an answer (what stands behind results is geode's)."""
    return [
        history[i]
        for i in range(start, stop)
        if history[i].role == "user" and not history[i].tool_results and history[i - 1].role == "assistant"
    ]


def _round_starts(history: History) -> list[int]:
    """Where rounds begin: assistant messages that follow a user message."""
    return [i for i, m in enumerate(history) if m.role == "assistant" and i > 0 and history[i - 1].role == "user"]
