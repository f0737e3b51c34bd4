"""What a report says of a run, read from its journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from geode.contract import Message, Usage
from geode.journal import JOURNAL_FILE, JournalError, decode_message, decode_usage, read_run

__all__ = ["RunSummary", "ToolStats", "add_stats", "find_runs", "read_runs", "summarise_run"]


@dataclass(slots=True)
class ToolStats:
    """How one tool did. `errors`: results that were errors, denials among them; seconds over the calls that ran."""

    name: str
    calls: int = 0
    errors: int = 0
    denied: int = 0
    ran: int = 0
    total_s: float = 0.0
    longest_s: float = 0.0
    offloaded: int = 0
    recovered: int = 0

    @property
    def mean_s(self) -> float:
        return self.total_s / self.ran if self.ran else 0.0


@dataclass(slots=True)
class RunSummary:
    """One run. reason: its termination reason, `unfinished` where it did not come to an end, `unreadable` where its
    journal is damaged. elapsed_s in seconds, cost in US dollars. errors: what went wrong, a line each."""

    folder: Path
    reason: str = "unfinished"
    run_id: str = ""
    adapter: str = ""
    model: str = ""
    started: str = ""
    scripted: bool = False
    resumed: int = 0
    rounds: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    elapsed_s: float = 0.0
    retries: int = 0
    text: str = ""
    errors: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    tools: dict[str, ToolStats] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    hints: int = 0
    subagents: int = 0

    @property
    def answered(self) -> bool:
        return self.reason in ("natural", "forced_text")


def find_runs(folder: Path) -> list[Path]:
    """The run folders in and below a folder, by name. What lies inside a run (sub-agents) belongs to it."""
    found: list[Path] = []
    for journal in sorted(folder.rglob(JOURNAL_FILE), key=lambda path: len(path.parts)):
        if not any(journal.is_relative_to(run) for run in found):
            found.append(journal.parent)
    return sorted(found, key=lambda path: [_natural(part) for part in path.parts])


def _natural(part: str) -> tuple[int, int, str]:
    return (0, int(part), "") if part.isdigit() else (1, 0, part)


def read_runs(folders: Iterable[Path]) -> list[RunSummary]:
    """Their summaries; a damaged journal is a row of its own."""
    runs = []
    for folder in folders:
        try:
            run = summarise_run(folder, read_run(folder / JOURNAL_FILE))
            _check_types(run)
            runs.append(run)
        except (JournalError, ArithmeticError, LookupError, OSError, TypeError, ValueError, AttributeError) as error:
            text = str(error) if isinstance(error, JournalError) else f"{type(error).__name__}: {error}"
            runs.append(RunSummary(folder, "unreadable", errors=[text]))
    return runs


def _check_types(run: RunSummary) -> None:
    """Raises TypeError where a journal that was tampered with put something else into a field."""
    for item in fields(run):
        value, default = getattr(run, item.name), item.default
        kinds = (int, float) if isinstance(default, int | float) and not isinstance(default, bool) else (type(default),)
        if default is not MISSING and not isinstance(value, kinds):
            raise TypeError(f"{item.name} is {type(value).__name__}")


def summarise_run(folder: Path, records: Sequence[Mapping[str, Any]]) -> RunSummary:
    """A run's summary from its journal's records."""
    run = RunSummary(folder)
    length = 0
    for record in records:
        event = record["event"]
        if event == "message":
            if record["index"] < length and run.messages:  # a resumed run may take an answer twice
                run.messages.pop()
            run.messages.append(decode_message(record["message"]))
            length = record["index"] + 1
        elif event == "history":
            length = len(record["messages"])
        elif event == "journal":
            _header(run, record)
        elif event == "notice":
            if record["message"] not in run.notices:
                run.notices.append(record["message"])
        elif event.startswith("TOOL_"):
            _tool(run, event, record)
        else:
            _other(run, event, record)
    return run


def add_stats(runs: Sequence[RunSummary]) -> list[ToolStats]:
    """The tools of many runs, by number of calls."""
    total: dict[str, ToolStats] = {}
    for run in runs:
        for stats in run.tools.values():
            sum_ = total.setdefault(stats.name, ToolStats(stats.name))
            for name in ("calls", "errors", "denied", "ran", "total_s", "offloaded", "recovered"):
                setattr(sum_, name, getattr(sum_, name) + getattr(stats, name))
            sum_.longest_s = max(sum_.longest_s, stats.longest_s)
    return sorted(total.values(), key=lambda stats: (-stats.calls, stats.name))


def _header(run: RunSummary, record: Mapping[str, Any]) -> None:
    if record.get("resumed"):
        run.resumed += 1
        run.reason = "unfinished"
        return
    run.run_id = record.get("run_id", "")
    run.started = datetime.fromtimestamp(record["t"], UTC).strftime("%Y-%m-%d %H:%M:%S")


def _tool(run: RunSummary, event: str, record: Mapping[str, Any]) -> None:
    if "tool" not in record:
        return
    stats = run.tools.setdefault(record["tool"], ToolStats(record["tool"]))
    match event:
        case "TOOL_EXEC_STARTED":
            stats.ran += 1
        case "TOOL_EXEC_ENDED" | "TOOL_EXEC_FAILED":
            stats.calls += 1
            stats.errors += bool(record["result"]["is_error"])
            stats.total_s += record["elapsed_s"]
            stats.longest_s = max(stats.longest_s, record["elapsed_s"])
        case "TOOL_APPROVAL_DENIED":
            stats.denied += 1
            stats.calls += 1
            stats.errors += 1
        case "TOOL_RESULT_OFFLOADED":
            stats.offloaded += 1
        case "TOOL_RECOVERY_SUCCEEDED":
            stats.recovered += 1


def _other(run: RunSummary, event: str, record: Mapping[str, Any]) -> None:
    match event:
        case "SESSION_STARTED":
            run.adapter, run.model = record["adapter"], record["model"]
            run.scripted = bool(record.get("scripted"))
        case "LLM_CALL_ENDED" if record.get("purpose", "round") == "round":
            run.rounds = max(run.rounds, record["round"])
            run.tool_calls += record["tool_uses"]
            run.usage, run.cost = run.usage + decode_usage(record["usage"]), run.cost + (record["cost"] or 0.0)
            run.text = record["text"] or run.text
        case "LLM_CALL_RETRIED":
            run.retries += 1
        case "LLM_CALL_FAILED":
            run.errors.append(f"round {record['round']}: {record['message']}")
        case "HINT_INSERTED":
            run.hints += 1
        case "SUBAGENT_STARTED":
            run.subagents += 1
        case "SUBAGENT_FAILED":
            run.errors.append(f"round {record['round']}: sub-agent {record['agent_id']}: {record['error']}")
        case "TURN_COMPLETED":
            run.usage, run.cost = decode_usage(record["usage"]), record["cost"]
            run.elapsed_s = record["elapsed_s"]
        case "SESSION_ENDED":
            run.reason, run.text = record["termination_reason"], record["text"]
            run.rounds, run.tool_calls = record["rounds"], record["tool_calls"]
            run.usage, run.cost = decode_usage(record["usage"]), record["cost"]
            run.elapsed_s = record["elapsed_s"]
            error = record.get("error")
            message = str(error.get("message", error)) if error else ""
            if message and not any(message in line for line in run.errors):
                run.errors.append(message)
