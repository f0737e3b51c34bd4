"""The other side of the conversation: answers and tool results, from a script, in every wire's own form."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geode.contract import AdapterError, ToolResultBlock, ToolUseBlock
from geode.tools.types import ToolOutcome

if TYPE_CHECKING:
    from geode.adapters.capture import Answer
    from geode.provider.params import Wire
    from geode.script import Script, ScriptTurn

__all__ = ["CannedProcessor", "Conversation"]

NO_RESULT = '{"result": "geode wire runs no tools"}'
"""What a call comes to where the script says nothing of it."""

_MOST_FAULTS = 1000


class Conversation:
    """Answers requests with the turns of a script; turns that are faults are passed over. Without a script, or after
    its end, there is no answer, and the transport closes the conversation with a short text.

    ended: why the script gave no further answer, "" while it does.
    """

    def __init__(self, script: Script | None) -> None:
        self.ended = ""
        self._player: Any = None
        self._count = 0
        if script is not None:
            from geode.script import ScriptPlayer

            self._player = ScriptPlayer(script)

    def answer(self, request: Mapping[str, Any]) -> Answer | None:
        """The answer to a captured request, in the form of its wire: streamed where it asks for that, since a stream
        carries a call's arguments as the script spells them."""
        if self._player is None or self.ended:
            return None
        from geode.provider.wires import wire_format

        self._count += 1
        form, body = wire_format(_wire(request["url"])), request["body"]
        view = form.view(body, self._count)
        try:
            turn: ScriptTurn = self._player.next(view)
            for _ in range(_MOST_FAULTS):
                if turn.fault is None:
                    break
                turn = self._player.next(view)
        except AdapterError as error:
            self.ended = error.message
            return None
        answer = form.answer(turn, body, self._count, len(str(body)))
        if body.get("stream") is not True:
            return answer
        import httpx2

        events = b"".join(form.events(answer, turn, body))
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=events)


def _wire(url: str) -> Wire:
    path = url.partition("?")[0]
    if path.endswith("/chat/completions"):
        return "chat"
    return "responses" if path.endswith("/responses") else "messages"


class CannedProcessor:
    """Stands where a run's processor stands. The n-th call of a tool comes to the `result` of the n-th call of that
    tool in the script; a call that the script says nothing of comes to a fixed text."""

    def __init__(self, script: Script | None) -> None:
        self._results: dict[str, list[tuple[Any, bool]]] = defaultdict(list)
        self._played: Counter[str] = Counter()
        for _, conversation in script.all_conversations if script is not None else ():
            for turn in conversation.turns:
                for call in turn.tool_calls:
                    self._results[call.name].append((call.result, call.failed))

    def batch(
        self, tool_uses: Sequence[ToolUseBlock], *, round: int, disabled: bool = False, deadline: float | None = None
    ) -> _Batch:
        return _Batch(tuple(self._outcome(call, disabled) for call in tool_uses))

    def _outcome(self, call: ToolUseBlock, disabled: bool) -> ToolOutcome:
        from geode.tools import texts

        if disabled or call.fault is not None:
            text = texts.DISABLED if call.fault is None else texts.input_fault(call.fault, call.arguments)
            status: Any = "disabled" if call.fault is None else "invalid"
            return ToolOutcome(call, ToolResultBlock(call.id, text, is_error=True), status, failed=not disabled)
        known, number = self._results[call.name], self._played[call.name]
        self._played[call.name] += 1
        given, failed = known[min(number, len(known) - 1)] if known else (None, False)
        result = ToolResultBlock(call.id, _content(given), is_error=failed)
        return ToolOutcome(call, result, "error" if failed else "ok", failed=failed)


@dataclass(frozen=True, slots=True)
class _Batch:
    outcomes: tuple[ToolOutcome, ...]

    async def run(self) -> list[ToolOutcome]:
        return list(self.outcomes)

    def close(self, text: str) -> list[ToolOutcome]:
        return list(self.outcomes)


def _content(result: Any) -> Any:
    if result is None:
        return NO_RESULT
    from geode.tools.results import convert

    return convert(result).content
