"""One pass over a run's journal: what its history, its counters and its open calls are at the end of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from geode.contract import Message, Notice, ToolResultBlock, Usage
from geode.journal import JournalError, decode_message, decode_result, decode_usage

__all__ = ["Walk"]

_MAYBE_BILLED = frozenset({"connection", "timeout", "bad_response", "server"})


@dataclass(slots=True)
class Walk:
    """One pass over the records of a run."""

    header: Mapping[str, Any]
    last: Mapping[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    sent: int = 0
    call: Mapping[str, Any] | None = None
    """The newest LLM_CALL_ENDED of the loop itself."""
    settled: bool = True
    """The newest response was dealt with to the end of its round."""
    used: bool = True
    """The newest response became a message, or its round ended without one."""
    ended: Mapping[str, Any] | None = None
    started: dict[str, str] = field(default_factory=dict)
    results: dict[str, ToolResultBlock] = field(default_factory=dict)
    denied: dict[str, str] = field(default_factory=dict)
    agents: dict[str, str] = field(default_factory=dict)
    agent_dirs: list[str] = field(default_factory=list)
    notices: dict[str, Notice] = field(default_factory=dict)
    rounds: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    uncertain: float = 0.0
    reserved: float = 0.0
    elapsed: float = 0.0
    since: float = 0.0
    totals_at: float = 0.0
    """When usage and cost were last journalled as totals, sub-agents included."""
    answer: str = ""
    answer_before: str = ""
    continuations: int = 0
    continuations_before: int = 0
    repairs: int = 0

    def take(self, record: Mapping[str, Any]) -> None:
        """The next record."""
        event, t = record["event"], record["t"]
        if event == "journal":
            self.header = record  # a resumption's own settings hold from then on
            self.agents = {}  # those that were lost before it were reported by it
            self.elapsed += max(0.0, self.last.get("t", t) - (self.since or t))
            self.since = t
            self.note_uncertain()
        handler = getattr(self, f"_{event.lower()}", None)
        if handler is not None:
            handler(record)
        self.last = record

    def _message(self, record: Mapping[str, Any]) -> None:
        index, message = record["index"], decode_message(record["message"])
        if index > len(self.messages):
            raise JournalError(f"message {len(self.messages)} of the history is missing")
        del self.messages[index:]
        self.messages.append(message)
        self.ended = None
        if message.role == "assistant":
            self.used = True
            self.tool_calls += len(message.tool_uses)
            self.started, self.results, self.denied = {}, {}, {}

    def _history(self, record: Mapping[str, Any]) -> None:
        self.messages = [decode_message(m) for m in record["messages"]]
        self.sent = 0

    def _notice(self, record: Mapping[str, Any]) -> None:
        self.notices[record["key"]] = Notice(record["key"], record["message"], record["override"])

    def _round_started(self, record: Mapping[str, Any]) -> None:
        self.ended = None

    def _llm_call_started(self, record: Mapping[str, Any]) -> None:
        self.sent = len(self.messages)
        self.reserved = record.get("reserved") or 0.0

    def _llm_call_ended(self, record: Mapping[str, Any]) -> None:
        self.usage = self.usage + decode_usage(record["usage"])
        self.cost += record["cost"] or 0.0
        self.reserved = 0.0
        if record.get("purpose", "round") != "round":
            return
        self.call, self.settled, self.used = record, False, False
        self.answer_before, text = self.answer, record.get("text") or ""
        self.answer = self.answer + text if self.continuations else text or self.answer
        self.continuations_before = self.continuations
        if record["stop_reason"] != "pause_turn":
            self.continuations = 0

    def _llm_call_retried(self, record: Mapping[str, Any]) -> None:
        if record["kind"] in _MAYBE_BILLED:
            self.note_uncertain()
        self.reserved = 0.0

    _llm_call_failed = _llm_call_retried

    def _hint_inserted(self, record: Mapping[str, Any]) -> None:
        if record["kind"] == "continue":
            self.continuations = self.continuations_before + 1
        elif record["kind"] == "repair":
            self.repairs += 1

    def _turn_completed(self, record: Mapping[str, Any]) -> None:
        self.usage, self.cost = decode_usage(record["usage"]), record["cost"]
        self.elapsed, self.since = record["elapsed_s"], record["t"]
        self.totals_at = record["t"]
        self.settled = self.used = True

    def _session_ended(self, record: Mapping[str, Any]) -> None:
        self._turn_completed(record)
        self.note_uncertain()
        self.ended = record

    def _tool_exec_started(self, record: Mapping[str, Any]) -> None:
        self.started[record["tool_use_id"]] = record["tier"]

    def _tool_exec_ended(self, record: Mapping[str, Any]) -> None:
        self.results[record["tool_use_id"]] = decode_result(record["result"])

    _tool_exec_failed = _tool_exec_ended

    def _tool_approval_denied(self, record: Mapping[str, Any]) -> None:
        self.denied[record["tool_use_id"]] = f"Denied: {record['reason']}. {record['tool']} was not run."

    def _subagent_started(self, record: Mapping[str, Any]) -> None:
        self.agent_dirs.append(record["run_dir"])
        if record["background"]:
            self.agents[record["agent_id"]] = record["task"]

    def _subagent_completed(self, record: Mapping[str, Any]) -> None:
        self.agents.pop(record["agent_id"], None)

    _subagent_failed = _subagent_completed

    def note_uncertain(self) -> None:
        """Counts what a call without an outcome may have cost."""
        self.uncertain += self.reserved
        self.reserved = 0.0
