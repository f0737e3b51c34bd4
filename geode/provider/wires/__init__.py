"""The three wires: how each reads a request, writes an answer (whole or streamed) and words an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from geode.provider.params import Wire
from geode.script import Fault, ScriptTurn, ScriptView

__all__ = ["WireFormat", "wire_format"]


class WireFormat(Protocol):
    """A wire. `number` counts the requests from 1 and makes the ids of responses."""

    def view(self, body: dict[str, Any], number: int) -> ScriptView:
        """The request in neutral terms."""
        ...

    def answer(self, turn: ScriptTurn, body: dict[str, Any], number: int, chars: int) -> dict[str, Any]:
        """The unstreamed answer. `chars`: length of the request, for estimated usage."""
        ...

    def events(self, answer: dict[str, Any], turn: ScriptTurn, body: dict[str, Any]) -> Iterator[bytes]:
        """The same answer as server-sent events."""
        ...

    def error(self, status: int, message: str, *, type: str | None, code: str | None, path: str) -> dict[str, Any]:
        """The provider's error body."""
        ...

    def stream_error(self, fault: Fault, sequence: int) -> bytes:
        """An error as an event inside a stream."""
        ...

    def overflow(self, fault: Fault, path: str) -> tuple[int, dict[str, Any]]:
        """(status, body) of the provider's answer to a prompt that is too long."""
        ...


def wire_format(wire: Wire) -> WireFormat:
    if wire == "messages":
        from geode.provider.wires.messages import MessagesFormat

        return MessagesFormat()
    if wire == "responses":
        from geode.provider.wires.responses import ResponsesFormat

        return ResponsesFormat()
    from geode.provider.wires.chat import ChatFormat

    return ChatFormat()
