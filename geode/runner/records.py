"""What a run writes down besides its journal, and the event that begins it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from geode.hooks import SessionStarted
from geode.loop.agent_loop import AgentLoop
from geode.loop.result import AgenticResult
from geode.runner.assembly import Budgets
from geode.runner.files import write_whole

__all__ = ["started_event", "write_result"]


def started_event(loop: AgentLoop, budgets: Budgets, run_id: str, *, scripted: bool) -> SessionStarted:
    """The first event of a run."""
    adapter = loop.calls.board.adapter
    return SessionStarted(
        run_id,
        loop.state.session.id,
        adapter.name,
        adapter.model,
        tuple(spec.name for spec in loop.tools()),
        loop.request.system,
        budgets.max_rounds,
        budgets.time_budget_s,
        budgets.cost_budget,
        scripted,
    )


def write_result(path: Path, result: AgenticResult, mask: Callable[[str], str]) -> None:
    """Writes result.json, whole or not at all. mask: takes secrets out of it. Raises OSError."""
    text = mask(json.dumps(result.to_dict(), ensure_ascii=False, indent=2, default=str))
    write_whole(path, text + "\n")
