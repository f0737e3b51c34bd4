"""kill -9 at random moments: the run is resumed to its end, and nothing is written twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_kit import clean_environ

from geode.contract import Message
from geode.journal import JOURNAL_FILE, read_run
from geode.runner.resume import MAYBE_DONE, NO_RESULT, NOT_STARTED, read_resume_point

HERE = Path(__file__).resolve().parent
KEYS = [f"{number}{letter}" for number in range(1, 7) for letter in "abc"]
INTERRUPTED = {MAYBE_DONE, NOT_STARTED, NO_RESULT}


def killed_runs(folder: Path, count: int, seed: int) -> list[dict[str, Any]]:
    environ = clean_environ()
    environ["PYTHONPATH"] = os.pathsep.join([str(HERE), environ["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, str(HERE / "kill_parent.py"), str(folder), str(count), str(seed)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def answered(messages: tuple[Message, ...]) -> list[tuple[str, str, str]]:
    """(tool, key, result) of every call, in order; every call has its result right after it."""
    found = []
    for index, message in enumerate(messages):
        if message.tool_uses:
            results = messages[index + 1].tool_results
            assert [r.tool_use_id for r in results] == [u.id for u in message.tool_uses]
            for use, result in zip(message.tool_uses, results, strict=True):
                assert result.is_error == (result.text in INTERRUPTED)
                found.append((use.name, use.input["key"], result.text))
    return found


def check(run: dict[str, Any]) -> int:
    """Asserts that a run was finished in good order; how many calls were cut off in it."""
    place, effects = Path(run["place"]), run["effects"]
    assert run["codes"][-1] == 0
    assert len(effects) == len(set(effects)), "a write was run twice"
    records = read_run(place / JOURNAL_FILE)
    assert [r["n"] for r in records] == list(range(len(records)))
    ended = [r for r in records if r["event"] == "SESSION_ENDED"]
    assert [r["termination_reason"] for r in ended] == ["natural"]
    assert ended[0]["text"] == "All done."
    assert (ended[0]["rounds"], ended[0]["tool_calls"]) == (7, 18)
    assert json.loads((place / "result.json").read_text())["termination_reason"] == "natural"
    point = read_resume_point(place)
    calls = answered(point.messages)
    assert [key for _, key, _ in calls] == KEYS
    for tool, key, result in calls:
        if tool == "append_line" and key not in effects:
            assert result in (MAYBE_DONE, NOT_STARTED)
        if key in effects:
            assert result in (f"appended {key}", MAYBE_DONE)
    return sum(result in INTERRUPTED for _, _, result in calls)


def test_a_run_that_is_killed_and_resumed_writes_nothing_twice(tmp_path: Path) -> None:
    runs = killed_runs(tmp_path, 10, seed=7)
    assert len(runs) == 11
    assert runs[0]["codes"] == [0]
    assert check(runs[0]) == 0
    for run in runs[1:]:
        check(run)
    assert any(run["codes"][0] is None for run in runs)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_kills(tmp_path: Path) -> None:
    runs = killed_runs(tmp_path, 200, seed=20)
    assert len(runs) == 201
    assert sum(check(run) > 0 for run in runs) > 10
