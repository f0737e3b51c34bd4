"""Reports as text and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from geode.report.summary import RunSummary, ToolStats, add_stats

__all__ = ["COLUMNS", "name_of", "plain", "text_report", "write_csv"]

COLUMNS = (
    "run", "termination_reason", "adapter", "model", "started", "resumed", "rounds", "tool_calls", "input_tokens",
    "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "cost_usd", "elapsed_s", "retries",
    "errors",
)  # fmt: skip
_SHOWN = 160


def plain(text: str, limit: int = _SHOWN) -> str:
    """Text on one line, without what could move a terminal's cursor."""
    line = "".join(c if c.isprintable() else " " for c in " ".join(text[: limit * 4].split()))
    return line if len(line) <= limit else line[: limit - 3] + "..."


def name_of(run: RunSummary, base: Path) -> str:
    """A run's folder, relative to the one that is reported on."""
    try:
        relative = str(run.folder.relative_to(base))
    except ValueError:
        relative = str(run.folder)
    return run.folder.name if relative == "." else relative


def text_report(runs: Sequence[RunSummary], base: Path) -> str:
    """A table of the runs, their errors, a table of the tools, and totals."""
    rows = [("run", "reason", "adapter", "rounds", "calls", "tokens", "cost", "time", "errors")]
    notes: dict[int, list[str]] = {}
    for number, run in enumerate(runs, 1):
        rows.append(
            (
                plain(name_of(run, base), 60),
                run.reason + (f" (resumed {run.resumed})" if run.resumed else ""),
                plain(run.adapter, 40) or "-",
                str(run.rounds),
                str(run.tool_calls),
                f"{run.usage.total_tokens:,}",
                f"${run.cost:.4f}",
                f"{run.elapsed_s:.1f} s",
                str(len(run.errors)),
            )
        )
        notes[number] = [plain(line) for line in run.errors]
    lines = _table(rows, 3, notes)
    tools = add_stats(runs)
    if tools:
        lines += ["", *_tools(tools)]
    answered = sum(run.answered for run in runs)
    total = (
        f"{len(runs)} run{'s' * (len(runs) != 1)}",
        f"{answered} answered",
        f"{sum(run.rounds for run in runs)} rounds",
        f"{sum(run.tool_calls for run in runs)} tool calls",
        f"{sum(run.usage.total_tokens for run in runs):,} tokens",
        f"${sum(run.cost for run in runs):.4f}",
        f"{sum(run.elapsed_s for run in runs):.1f} s",
    )
    return "\n".join([*lines, "", f"[{' · '.join(total)}]"])


def _tools(tools: Sequence[ToolStats]) -> list[str]:
    rows = [("tool", "calls", "errors", "denied", "offloaded", "mean", "longest")]
    rows += [
        (
            plain(t.name, 60), str(t.calls), str(t.errors), str(t.denied), str(t.offloaded), f"{t.mean_s:.2f} s",
            f"{t.longest_s:.2f} s",
        )
        for t in tools
    ]  # fmt: skip
    return _table(rows, 1, {})


def _table(rows: Sequence[tuple[str, ...]], left: int, notes: dict[int, list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
        lines += [f"    {note}" for note in notes.get(number, ())]
    return lines


def write_csv(runs: Sequence[RunSummary], base: Path, file: TextIO) -> None:
    """One line per run. Texts that a spreadsheet would take for a formula get a quote in front."""
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    for run in runs:
        usage = run.usage
        writer.writerow(
            [
                _safe(name_of(run, base)), run.reason, _safe(run.adapter), _safe(run.model), run.started, run.resumed,
                run.rounds, run.tool_calls, usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens,
                usage.output_tokens, usage.reasoning_tokens, f"{run.cost:.6f}", f"{run.elapsed_s:.3f}", run.retries,
                _safe("; ".join(run.errors)),
            ]
        )  # fmt: skip


def _safe(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
