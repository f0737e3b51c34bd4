"""The LLM calls of a recorded run, read back from its journal: what was answered, and what failed.

Calls are not journalled whole: a response stands in the journal as its LLM_CALL_ENDED event and the assistant message
that it became. Here the two are put together again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from geode.contract import AdapterCallResult, Block, ErrorKind, Message, StopReason, TextBlock
from geode.journal import decode_message, decode_usage

__all__ = ["RecordedCall", "recorded_calls", "recorded_response"]

_PLACEHOLDER = "(no content)"
"""What the loop puts into the history for an answer without content."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One attempt of an LLM call that came to something.

    response: what was answered; None where it failed (`kind`, `text`, `status`, `code`). lost: the process ended before
    the answer was used. purpose: `round`, `summary` or `repair`.
    """

    round: int
    adapter: str
    model: str
    purpose: str
    response: AdapterCallResult | None = None
    kind: ErrorKind | None = None
    text: str = ""
    status: int | None = None
    code: str | None = None
    lost: bool = False


def recorded_calls(records: Iterable[Mapping[str, Any]]) -> list[RecordedCall]:
    """The attempts of a run in their order. One that a crash or a cancel cut off left nothing and is passed over."""
    reader = _Reader([])
    for record in records:
        reader.take(record)
    return reader.close()


def recorded_response(ended: Mapping[str, Any], message: Message | None) -> AdapterCallResult:
    """A response from its LLM_CALL_ENDED event and the message that it became (None where it became none)."""
    text = ended.get("text") or ""
    content: tuple[Block, ...] = (TextBlock(text),) if text else ()
    if message is not None:
        content = message.content
        last = content[-1] if content else None
        if not message.tool_uses and isinstance(last, TextBlock):
            before = "".join(b.text for b in content[:-1] if isinstance(b, TextBlock))
            if last.text == _PLACEHOLDER and not text.strip():
                content = content[:-1]
            elif text.startswith(before):  # the loop takes white space off the end: give it back
                content = (*content[:-1], replace(last, text=text[len(before) :]))
    return AdapterCallResult(
        content,
        StopReason(ended["stop_reason"]),
        decode_usage(ended["usage"]),
        model=ended["model"],
        raw_stop=ended.get("raw_stop"),
        stop_details=ended.get("stop_details"),
        request_id=ended.get("request_id"),
        cost_usd=ended.get("cost"),
    )


@dataclass(slots=True)
class _Reader:
    calls: list[RecordedCall]
    _open: Mapping[str, Any] | None = None
    """The attempt that has not come back yet."""
    _ended: Mapping[str, Any] | None = None
    """The newest call of the loop itself that may still become a message."""

    def take(self, record: Mapping[str, Any]) -> None:
        match record["event"]:
            case "journal":
                if self._ended is not None and self.calls:
                    self.calls[-1] = replace(self.calls[-1], lost=True)
                self._open = self._ended = None
            case "LLM_CALL_STARTED":
                if self._open is not None:  # tried again at once: the backend refused tool_choice none
                    self._failed(ErrorKind.TOOL_CHOICE, "tool_choice none was refused")
                self._open, self._ended = record, None
            case "LLM_CALL_ENDED":
                response = recorded_response(record, None)
                call = RecordedCall(
                    record["round"], record["adapter"], record["model"], record.get("purpose", "round"), response
                )
                self.calls.append(call)
                self._open = None
                self._ended = record if call.purpose == "round" else None
            case "message":
                if self._ended is not None and record["message"]["role"] == "assistant":
                    response = recorded_response(self._ended, decode_message(record["message"]))
                    self.calls[-1] = replace(self.calls[-1], response=response)
                    self._ended = None
            case "LLM_CALL_RETRIED" | "LLM_CALL_FAILED":
                self._failed(ErrorKind(record["kind"]), record["message"], record.get("status"), record.get("code"))
            case "CONTEXT_CRITICAL" if record.get("level") == "overflow":
                self._failed(ErrorKind.CONTEXT_OVERFLOW, "the context is too long")
            case "TURN_COMPLETED" | "SESSION_ENDED":
                if self._open is not None and record.get("termination_reason") == "context_exhausted":
                    self._failed(ErrorKind.CONTEXT_OVERFLOW, "the context is too long")
                self._ended = None

    def _failed(self, kind: ErrorKind, text: str, status: int | None = None, code: str | None = None) -> None:
        if self._open is None:
            return  # two empty answers in a row: no attempt of its own
        o = self._open
        purpose = o.get("purpose", "round")
        self.calls.append(
            RecordedCall(o["round"], o["adapter"], o["model"], purpose, kind=kind, text=text, status=status, code=code)
        )
        self._open = None

    def close(self) -> list[RecordedCall]:
        """The calls, the last one marked where the process ended before its answer was used."""
        self.take({"event": "journal"})
        return self.calls
