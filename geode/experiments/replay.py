"""Replays a recorded run against the code and config of today, and says where it goes another way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from geode.contract import Message, TerminationReason, ToolResultBlock, ToolUseBlock
from geode.hooks import HookBus, ToolExecEnded, ToolExecFailed, ToolExecStarted
from geode.journal import JOURNAL_FILE, decode_message, read_run
from geode.tools import texts
from geode.tools.types import CallStatus, EndRequest, ToolOutcome

if TYPE_CHECKING:
    from geode.settings import Settings

__all__ = ["RecordedTools", "Story", "differences", "first_input", "replay", "replay_settings"]

_ASKING = (TerminationReason.USER_CLARIFICATION_NEEDED, TerminationReason.MODEL_ACTION_REQUIRED)
_CUT_OFF = (TerminationReason.USER_CANCELLED.value, TerminationReason.TIME_BUDGET_EXPIRED.value)
_STATUS: Mapping[str, CallStatus] = {
    "InvalidArguments": "invalid",
    "ToolsDisabled": "disabled",
    "UnknownTool": "unknown",
    "TimeoutError": "timeout",
    "CancelledError": "cancelled",
}
_SHOWN = 160


def first_input(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The records up to the answer to the first user input: what can be replayed in one go."""
    header, inputs = 0, 0
    for index, record in enumerate(records):
        if record["event"] == "journal":
            header = index
        elif record["event"] == "USER_INPUT_RECEIVED":
            inputs += 1
            if inputs == 2:
                return list(records[:header])
    return list(records)


def replay_settings(settings: Settings, run_dir: Path, tools: Literal["record", "run"]) -> Settings:
    """The settings with the recorded answers in place of a model, no second one to switch to, and nobody told of it."""
    no_credential = settings.adapter.credential.model_copy(update={"kind": "none"})
    adapter = settings.adapter.model_copy(
        update={"wire": "replay", "journal": str(run_dir), "local": None, "script": None, "credential": no_credential}
    )
    update: dict[str, Any] = {
        "adapter": adapter,
        "adapters": {},
        "provider": settings.provider.model_copy(update={"kind": "live"}),
        "hooks": settings.hooks.model_copy(update={"observers": ()}),
        "switch": settings.switch.model_copy(update={"rules": ()}),
        "session": settings.session.model_copy(update={"id": None}),
    }
    if tools == "record":
        update["mcp"] = settings.mcp.model_copy(update={"servers": {}})
    return settings.model_copy(update=update)


async def replay(
    settings: Settings, run_dir: Path, folder: Path, tools: Literal["record", "run"] = "record"
) -> list[str]:
    """Runs the recorded answers in `folder`; one line for each difference. Raises ConfigFault, JournalError."""
    from geode.runner import run_settings

    recorded = first_input(read_run(run_dir / JOURNAL_FILE))
    ready = replay_settings(settings, run_dir, tools)
    processor = (lambda bus: RecordedTools(recorded, bus)) if tools == "record" else None
    await run_settings(ready, folder, processor=processor)
    return differences(Story.of(recorded), Story.of(read_run(folder / JOURNAL_FILE)))


# ------------------------------------------------------------------------------------------------- tools by the record


_Key = tuple[int, str]
"""A round and the id of a call in it."""


class RecordedTools:
    """Answers each call with the result that it had in the recorded run. Ids may come again in a later round, so that
    a call is known by its round too."""

    def __init__(self, records: Sequence[Mapping[str, Any]], bus: HookBus) -> None:
        self._bus = bus
        self._results: dict[_Key, ToolResultBlock] = {}
        self._newest: dict[str, _Key] = {}
        self._status: dict[_Key, CallStatus] = {}
        self._failed: set[_Key] = set()
        self._end: dict[_Key, EndRequest] = {}
        last: Message | None = None
        round = 0
        for record in records:
            key = (round, record.get("tool_use_id", ""))
            match record["event"]:
                case "ROUND_STARTED":
                    round = record["round"]
                case "message":
                    message = decode_message(record["message"])
                    for result in message.tool_results:
                        self._newest[result.tool_use_id] = (round, result.tool_use_id)
                        self._results[round, result.tool_use_id] = result
                    last = message if message.role == "assistant" else last
                case "TOOL_EXEC_FAILED":
                    status = _STATUS.get(record["error_type"], "error")
                    self._status[key] = status
                    if status not in ("disabled", "cancelled"):
                        self._failed.add(key)
                case "TOOL_EXEC_ENDED" if record["result"]["is_error"]:
                    self._failed.add(key)
                case "TOOL_APPROVAL_DENIED":
                    self._status[key] = "denied"
                case "SESSION_ENDED" if record["termination_reason"] in _ASKING and last is not None:
                    reason = TerminationReason(record["termination_reason"])
                    for use in last.tool_uses:
                        if use.name in ("ask_user", "request_action"):
                            self._end[round, use.id] = EndRequest(reason, record["text"], record["detail"])

    def batch(
        self, tool_uses: Sequence[ToolUseBlock], *, round: int, disabled: bool = False, deadline: float | None = None
    ) -> RecordedBatch:
        return RecordedBatch(self, tool_uses, round, disabled)

    def close(self) -> None:
        """Nothing to close."""

    def outcome(self, use: ToolUseBlock, round: int, disabled: bool) -> ToolOutcome:
        """What the call came to then."""
        if disabled:
            result = ToolResultBlock(use.id, texts.DISABLED, True)
            return self._told(ToolOutcome(use, result, "disabled"), round, "ToolsDisabled")
        key = (round, use.id)
        if key not in self._results:
            key = self._newest.get(use.id, key)
        result = self._results.get(key, ToolResultBlock(use.id, "There is no result of this call on record.", True))
        status = self._status.get(key, "error" if result.is_error else "ok")
        outcome = ToolOutcome(use, result, status, key in self._failed, self._end.get(key))
        if status not in ("denied", "invalid", "unknown"):
            self._bus.emit(ToolExecStarted(round, use.id, use.name, use.input, "safe"))
        return self._told(outcome, round, "Recorded" if key in self._status else "")

    def _told(self, outcome: ToolOutcome, round: int, error_type: str) -> ToolOutcome:
        use, result = outcome.tool_use, outcome.result
        if error_type:
            self._bus.emit(ToolExecFailed(round, use.id, use.name, result, error_type, result.text, 0.0))
        else:
            self._bus.emit(ToolExecEnded(round, use.id, use.name, result, 0.0))
        return outcome


@dataclass(frozen=True, slots=True)
class RecordedBatch:
    """The calls of one response."""

    tools: RecordedTools
    uses: Sequence[ToolUseBlock]
    round: int
    disabled: bool

    async def run(self) -> list[ToolOutcome]:
        """What each call came to then."""
        await asyncio.sleep(0)
        return [self.tools.outcome(use, self.round, self.disabled) for use in self.uses]

    def close(self, text: str) -> list[ToolOutcome]:
        """Every call with `text` as its result."""
        return [ToolOutcome(u, ToolResultBlock(u.id, text, True), "cancelled") for u in self.uses]


# ---------------------------------------------------------------------------------------------------------- comparison


@dataclass(slots=True)
class Story:
    """What a run did, as named facts in their order. `cut_off`: it did not come to an end of its own."""

    facts: dict[str, Any] = field(default_factory=dict)
    cut_off: bool = True

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]]) -> Story:
        """The story that a journal tells."""
        story, round, seen = cls(), 0, set[str]()
        names: dict[str, str] = {}
        length = 0

        def tell(key: str, value: Any) -> None:
            number = 1
            while (numbered := key if number == 1 else f"{key} ({number})") in seen:
                number += 1
            seen.add(numbered)
            story.facts[numbered] = value

        for record in records:
            match record["event"]:
                case "ROUND_STARTED" if record["round"] != round:
                    round = record["round"]
                    tell(f"round {round}: tool choice", record["tool_choice"])
                    tell(f"round {round}: wrap-up", record["wrap_up"])
                case "LLM_CALL_ENDED":
                    tell(f"round {round}: {record.get('purpose', 'round')} call", record["stop_reason"])
                case "LLM_CALL_RETRIED" | "LLM_CALL_FAILED":
                    tell(f"round {round}: LLM error", record["kind"])
                case "CONTEXT_OVERFLOW_ACTION":
                    tell(f"round {round}: context", record["strategy"])
                case "history":
                    length = len(record["messages"])
                case "message" if record["index"] >= length:  # a resumed run may take an answer twice
                    length = record["index"] + 1
                    message = decode_message(record["message"])
                    names.update({use.id: use.name for use in message.tool_uses})
                    for use in message.tool_uses:
                        tell(f"round {round}: call of {use.name}", dict(use.input))
                    for result in message.tool_results:
                        content = result.text if isinstance(result.content, str) else list(result.content)
                        name = names.get(result.tool_use_id, "?")
                        tell(f"round {round}: result of {name}", ("error", content) if result.is_error else content)
                    if message.text:
                        tell(f"round {round}: {message.role} text", message.text)
                case "SESSION_ENDED":
                    story.cut_off = record["termination_reason"] in _CUT_OFF
                    for key in ("termination_reason", "text", "rounds", "tool_calls"):
                        story.facts[f"end: {key.replace('_', ' ')}"] = record[key]
        return story


def differences(recorded: Story, now: Story) -> list[str]:
    """One line for each fact in which two runs differ. A run that was cut off is compared as far as it goes."""
    lines = []
    for key in dict.fromkeys([*recorded.facts, *now.facts]):
        if recorded.cut_off and (key.startswith("end: ") or key not in recorded.facts):
            continue
        if key not in now.facts:
            lines.append(f"{key}: recorded {_shown(recorded.facts[key])}, now missing")
        elif key not in recorded.facts:
            lines.append(f"{key}: not recorded, now {_shown(now.facts[key])}")
        elif recorded.facts[key] != now.facts[key]:
            lines.append(f"{key}: recorded {_shown(recorded.facts[key])}, now {_shown(now.facts[key])}")
    return lines


def _shown(value: Any) -> str:
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")
