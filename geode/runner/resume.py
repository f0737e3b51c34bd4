"""Where a run stopped, from its journal: history, counters, and what its open calls came to.

A call of a tool that is on record as started and has no result may have taken effect: it is answered with an error
result that says so, and never run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geode.contract import AdapterCallResult, History, Message, Tier, ToolResultBlock, ToolUseBlock, Usage
from geode.journal import (
    JOURNAL_FILE,
    JournalError,
    decode_message,
    decode_result,
    decode_usage,
    read_run,
)
from geode.loop.llm import LlmCaller
from geode.loop.state import RunState
from geode.recorded import RecordedCall, recorded_calls, recorded_response
from geode.runner.backends import Played

__all__ = ["ResumePoint", "read_resume_point"]

NOT_STARTED = "The run was interrupted before this call was started: it was not run."
NO_RESULT = "The run was interrupted while this call was running: it has no result. Call again if it is still needed."
MAYBE_DONE = (
    "The run was interrupted while this call was running. It may have taken effect, in whole or in part, and was not "
    "run again. Check what it did before you repeat it."
)
LOST_AGENT = "The run was interrupted: sub-agent {id} was lost and will not report."
_MAYBE_BILLED = frozenset({"connection", "timeout", "bad_response", "server"})


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """A run that stopped, ready to go on.

    header: the newest header, with the config. messages: the history as journalled; `additions` follow it.
    text: the user's next input, None goes on from the history. recorded: an answer that came but was not used yet.
    next_number, size: the journal's next line number, and its length in bytes when it was read. ended: the payload of
    SESSION_ENDED where the run came to an end, None where it was cut off. played: turns of scripts played so far.
    sent: messages that some request carried. Seconds, US dollars.
    """

    run_dir: Path
    header: Mapping[str, Any]
    run_id: str
    next_number: int
    size: int
    messages: tuple[Message, ...]
    additions: tuple[Message, ...] = ()
    text: str | None = None
    recorded: AdapterCallResult | None = None
    ended: Mapping[str, Any] | None = None
    open_end: bool = False
    """The history ends with a message that the model is still to answer (or to go on with)."""
    played: tuple[Played, ...] = ()
    sent: int = 0
    rounds: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    uncertain: float = 0.0
    elapsed_s: float = 0.0
    answer: str = ""
    continuations: int = 0
    repairs: int = 0

    def restore(self, state: RunState) -> None:
        """Sets the counters of a fresh state. What a session that spans runs already holds of this run is not counted
        twice."""
        state.rounds, state.tool_calls, state.usage = self.rounds, self.tool_calls, self.usage
        state.ledger.spent, state.ledger.uncertain = self.cost, self.uncertain
        state.elapsed_before_s = self.elapsed_s
        state.answer, state.continuations, state.repairs = self.answer, self.continuations, self.repairs
        if state.session.save is not None:
            state.session.elapsed_s = max(0.0, state.session.elapsed_s - self.elapsed_s)
            state.ledger.before = max(0.0, state.ledger.before - self.cost)

    def begin(self, history: History, calls: LlmCaller) -> None:
        """Closes what was open. Called when the journal is there to write it down."""
        history.sent = self.sent
        calls.recorded = self.recorded
        for message in self.additions:
            history.append(message)


def read_resume_point(run_dir: Path) -> ResumePoint:
    """Reads a run's journal. Raises JournalError where it cannot be gone on from."""
    path = run_dir / JOURNAL_FILE
    size = path.stat().st_size if path.is_file() else 0
    records = read_run(path)
    walk = _Walk(records[0])
    try:
        for record in records:
            walk.take(record)
        calls = recorded_calls(records)
        return walk.point(run_dir, size, calls)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise JournalError(f"{path} cannot be read: {type(error).__name__}: {error}") from error


@dataclass(slots=True)
class _Walk:
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
        event, t = record["event"], record["t"]
        if event == "journal":
            self.header = record  # a resumption's own settings hold from then on
            self.elapsed += max(0.0, self.last.get("t", t) - (self.since or t))
            self.since = t
            self._uncertain()
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
            self._uncertain()
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
        self._uncertain()
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

    def _uncertain(self) -> None:
        self.uncertain += self.reserved
        self.reserved = 0.0

    # ------------------------------------------------------------------------------------------------------ the point

    def point(self, run_dir: Path, size: int, calls: Sequence[RecordedCall]) -> ResumePoint:
        nested = self._nested(run_dir)
        if self.ended is None:
            self.elapsed += max(0.0, self.last["t"] - self.since)
            self._uncertain()
            self._count_nested(nested)
        messages, recorded = self.messages, None
        additions: list[Message] = []
        answer, continuations = self.answer, self.continuations
        rounds = self.call["round"] if self.call is not None else 0
        newest = messages[-1] if messages else None
        if newest is not None and newest.tool_uses:
            additions.append(Message.user(*(self._result(use) for use in newest.tool_uses)))
        elif self.call is not None and self.ended is None:
            paused = self.settled and self.call["stop_reason"] == "pause_turn"
            if newest is not None and newest.role == "assistant" and self.used and not paused:
                recorded = recorded_response(self.call, newest)  # an answer whose end is not on record: taken again
                messages = messages[:-1]
            if recorded is not None or not self.used:
                rounds -= 1
                answer, continuations = self.answer_before, self.continuations_before
        newest = (*messages, *additions)[-1] if messages else None
        if self.agents and newest is not None and newest.role == "user":
            additions.append(Message.user(*(LOST_AGENT.format(id=agent) for agent in self.agents)))
        paused = self.call is not None and self.call["stop_reason"] == "pause_turn"
        return ResumePoint(
            run_dir,
            self.header,
            self.header["run_id"],
            self.last["n"] + 1,
            size,
            tuple(messages),
            tuple(additions),
            recorded=recorded,
            ended=self.ended,
            open_end=newest is not None and (newest.role == "user" or paused),
            played=tuple(played for records in ((), *nested) for played in self._played(records, calls)),
            sent=min(self.sent, len(messages)),
            rounds=rounds,
            tool_calls=self.tool_calls,
            usage=self.usage,
            cost=self.cost,
            uncertain=self.uncertain,
            elapsed_s=self.elapsed,
            answer=answer,
            continuations=continuations,
            repairs=self.repairs,
        )

    def _result(self, use: ToolUseBlock) -> ToolResultBlock:
        if use.id in self.results:
            return self.results[use.id]
        if use.id in self.started:
            risky = self.started[use.id] in (Tier.WRITE, Tier.DANGEROUS)
            return ToolResultBlock(use.id, MAYBE_DONE if risky else NO_RESULT, True)
        return ToolResultBlock(use.id, self.denied.get(use.id, NOT_STARTED), True)

    def _nested(self, run_dir: Path) -> list[list[dict[str, Any]]]:
        """The records of the sub-agents that this run started, and of theirs."""
        found = []
        for folder in self.agent_dirs:
            for path in sorted((run_dir / folder).glob(f"**/{JOURNAL_FILE}")):
                with suppress(JournalError):
                    found.append(read_run(path))
        return found

    def _count_nested(self, nested: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        """What sub-agents used since the last totals of the run itself."""
        for record in (r for records in nested for r in records):
            if record["event"] == "LLM_CALL_ENDED" and record["t"] > self.totals_at:
                self.usage = self.usage + decode_usage(record["usage"])
                self.cost += record["cost"] or 0.0

    def _played(self, nested: Sequence[Mapping[str, Any]], calls: Sequence[RecordedCall]) -> list[Played]:
        if not nested:
            return _count(self.messages, calls)
        messages = [decode_message(record["message"]) for record in nested if record["event"] == "message"]
        return _count(messages, recorded_calls(nested))


def _count(messages: Sequence[Message], calls: Sequence[RecordedCall]) -> list[Played]:
    first = next((m.text for m in messages if m.role == "user" and m.text), "")
    names = [call.adapter for call in calls if not call.lost]
    return [Played(name, first, names.count(name)) for name in dict.fromkeys(names)]
