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

from geode.contract import (
    AdapterCallResult,
    History,
    Message,
    Notice,
    TerminationReason,
    Tier,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from geode.journal import (
    JOURNAL_FILE,
    JournalError,
    decode_message,
    decode_usage,
    read_run,
)
from geode.loop.answers import AnswerContract
from geode.loop.llm import LlmCaller
from geode.loop.result import AgenticResult
from geode.loop.state import RunState
from geode.recorded import RecordedCall, recorded_calls, recorded_response
from geode.runner.backends import Played
from geode.runner.request_parts import read_schema
from geode.runner.resume_walk import Walk
from geode.settings import Settings

__all__ = ["ResumePoint", "read_resume_point"]

NOT_STARTED = "The run was interrupted before this call was started: it was not run."
NO_RESULT = "The run was interrupted while this call was running: it has no result. Call again if it is still needed."
MAYBE_DONE = (
    "The run was interrupted while this call was running. It may have taken effect, in whole or in part, and was not "
    "run again. Check what it did before you repeat it."
)
LOST_AGENT = "The run was interrupted: sub-agent {id} was lost and will not report."


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
    notices: tuple[Notice, ...] = ()

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

    def result(self, settings: Settings) -> AgenticResult:
        """The result of a run that ended, from its last line."""
        assert self.ended is not None
        reason, schema = TerminationReason(self.ended["termination_reason"]), read_schema(settings)
        text, error = self.ended["text"], self.ended.get("error")
        parsed = AnswerContract(schema).check(text).parsed if schema is not None and error is None else None
        totals = (self.rounds, self.tool_calls, self.usage, self.cost, self.elapsed_s)
        return AgenticResult(text, reason, self.ended["detail"], *totals, parsed, error, self.notices)


def read_resume_point(run_dir: Path) -> ResumePoint:
    """Reads a run's journal. Raises JournalError where it cannot be gone on from."""
    path = run_dir / JOURNAL_FILE
    size = path.stat().st_size if path.is_file() else 0
    records = read_run(path)
    walk = Walk(records[0])
    try:
        for record in records:
            walk.take(record)
        calls = recorded_calls(records)
        return _point(walk, run_dir, size, calls)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise JournalError(f"{path} cannot be read: {type(error).__name__}: {error}") from error


def _point(walk: Walk, run_dir: Path, size: int, calls: Sequence[RecordedCall]) -> ResumePoint:
    nested = _nested(walk, run_dir)
    if walk.ended is None:
        walk.elapsed += max(0.0, walk.last["t"] - walk.since)
        walk.note_uncertain()
        _count_nested(walk, nested)
    messages, recorded = walk.messages, None
    additions: list[Message] = []
    answer, continuations = walk.answer, walk.continuations
    rounds = walk.call["round"] if walk.call is not None else 0
    newest = messages[-1] if messages else None
    if newest is not None and newest.tool_uses:
        additions.append(Message.user(*(_result(walk, use) for use in newest.tool_uses)))
    elif walk.call is not None and walk.ended is None:
        paused = walk.settled and walk.call["stop_reason"] == "pause_turn"
        if newest is not None and newest.role == "assistant" and walk.used and not paused:
            recorded = recorded_response(walk.call, newest)  # an answer whose end is not on record: taken again
            messages = messages[:-1]
        if recorded is not None or not walk.used:
            rounds -= 1
            answer, continuations = walk.answer_before, walk.continuations_before
    newest = (*messages, *additions)[-1] if messages else None
    if walk.agents and newest is not None and newest.role == "user":
        additions.append(Message.user(*(LOST_AGENT.format(id=agent) for agent in walk.agents)))
    paused = walk.call is not None and walk.call["stop_reason"] == "pause_turn"
    return ResumePoint(
        run_dir,
        walk.header,
        walk.header["run_id"],
        walk.last["n"] + 1,
        size,
        tuple(messages),
        tuple(additions),
        recorded=recorded,
        ended=walk.ended,
        open_end=newest is not None and (newest.role == "user" or paused),
        played=tuple(played for records in ((), *nested) for played in _played(walk, records, calls)),
        sent=min(walk.sent, len(messages)),
        rounds=rounds,
        tool_calls=walk.tool_calls,
        usage=walk.usage,
        cost=walk.cost,
        uncertain=walk.uncertain,
        elapsed_s=walk.elapsed,
        answer=answer,
        continuations=continuations,
        repairs=walk.repairs,
        notices=tuple(walk.notices.values()),
    )


def _result(walk: Walk, use: ToolUseBlock) -> ToolResultBlock:
    if use.id in walk.results:
        return walk.results[use.id]
    if use.id in walk.started:
        risky = walk.started[use.id] in (Tier.WRITE, Tier.DANGEROUS)
        return ToolResultBlock(use.id, MAYBE_DONE if risky else NO_RESULT, True)
    return ToolResultBlock(use.id, walk.denied.get(use.id, NOT_STARTED), True)


def _nested(walk: Walk, run_dir: Path) -> list[list[dict[str, Any]]]:
    """The records of the sub-agents that this run started, and of theirs."""
    found = []
    for folder in walk.agent_dirs:
        for path in sorted((run_dir / folder).glob(f"**/{JOURNAL_FILE}")):
            with suppress(JournalError):
                found.append(read_run(path))
    return found


def _count_nested(walk: Walk, nested: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """What sub-agents used since the last totals of the run itwalk."""
    for record in (r for records in nested for r in records):
        if record["event"] == "LLM_CALL_ENDED" and record["t"] > walk.totals_at:
            walk.usage = walk.usage + decode_usage(record["usage"])
            walk.cost += record["cost"] or 0.0


def _played(walk: Walk, nested: Sequence[Mapping[str, Any]], calls: Sequence[RecordedCall]) -> list[Played]:
    if not nested:
        return _count(walk.messages, calls)
    messages = [decode_message(record["message"]) for record in nested if record["event"] == "message"]
    return _count(messages, recorded_calls(nested))


def _count(messages: Sequence[Message], calls: Sequence[RecordedCall]) -> list[Played]:
    first = next((m.text for m in messages if m.role == "user" and m.text), "")
    names = [call.adapter for call in calls if not call.lost]
    return [Played(name, first, names.count(name)) for name in dict.fromkeys(names)]
