"""Resuming a run that has sub-agents: what they used is counted, and what they did is not done again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from resume_kit import call, cut, events, lines, result, resume, run

from geode.runner.resume import LOST_AGENT, NO_RESULT, NOT_STARTED, read_resume_point

USAGE = {"input": 10, "output": 1}
NESTED = ("subagents.enabled=true", "safety.tiers.expensive=allow", "toolset.include=[delegate_task,read_document]")


def conversations(background: bool) -> list[dict[str, Any]]:
    """The agent's conversation and its parent's."""
    agent = [
        {"tool_calls": [call("read_document", path="x")], "usage": USAGE},
        {"text": "Nothing there.", "usage": USAGE},
    ]
    delegated = call("delegate_task", task="Look around.", background=background)
    parent = [
        {"tool_calls": [delegated], "usage": USAGE},
        {"tool_calls": [call("read_document", path="y")], "usage": USAGE},
        {"text": "All looked at.", "usage": USAGE},
    ]
    return [{"match": "^Look", "turns": agent, "each": True, "optional": True}, {"match": "^Write", "turns": parent}]


@pytest.mark.parametrize("background", [False, True])
def test_a_run_cut_off_after_any_line_is_finished(tmp_path: Path, background: bool) -> None:
    run(tmp_path, conversations(background), *NESTED)
    folder = tmp_path / "run"
    original = lines(folder)
    (started,) = events(folder, "SUBAGENT_STARTED")
    for kept in range(started["n"] + 1, len(original), 3):
        again = tmp_path / f"cut{kept}"
        shutil.copytree(folder, again)
        cut(again, original[:kept])
        assert resume(again) == 0, kept
        assert result(again)["text"] == "All looked at."
        lost = '"event":"LLM_CALL_ENDED"' in original[kept - 1]  # an answer that was paid for and asked for again
        assert result(again)["usage"]["output_tokens"] == 5 + lost, kept
        assert len(list((again / "agents").iterdir())) == 1


def test_an_agent_that_was_under_way_is_lost_and_the_model_is_told(tmp_path: Path) -> None:
    run(tmp_path, conversations(True), *NESTED)
    folder = tmp_path / "run"
    original = lines(folder)
    (started,) = events(folder, "SUBAGENT_STARTED")
    cut(folder, original[: started["n"] + 1])
    point = read_resume_point(folder)
    (closed, told) = point.additions
    assert closed.tool_results[0].text in (NO_RESULT, NOT_STARTED)
    assert told.text == LOST_AGENT.format(id="agent-1")
    journal = folder / "agents" / "agent-1" / "journal.jsonl"
    assert json.loads(journal.read_text().splitlines()[0])["event"] == "journal"
