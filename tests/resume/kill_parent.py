"""Kills runs at random moments and resumes them; prints a JSON line for each.

A process of its own that has everything imported before it forks, so that each run takes some ten milliseconds, and
that has no threads, so that forking is safe. usage: kill_parent.py FOLDER COUNT SEED
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from geode import cli
from geode.compose import compose_settings
from geode.journal import JOURNAL_FILE, JournalError, read_journal
from geode.runner import run_settings

HERE = Path(__file__).resolve().parent
ROUNDS = 6


def prepare(folder: Path) -> list[str]:
    """The overrides of a run with two writes and a look in each of its rounds."""

    def definition(name: str, safety: str) -> dict[str, Any]:
        properties = {"key": {"type": "string"}}
        schema = {"type": "object", "properties": properties, "required": ["key"], "additionalProperties": False}
        return {"name": name, "description": name, "category": "test", "cost_tier": "free", "safety": safety,
                "input_schema": schema}  # fmt: skip

    tools = [definition("append_line", "write"), definition("look", "safe")]
    (folder / "tools.json").write_text(json.dumps(tools))
    turns: list[dict[str, Any]] = [
        {
            "text": f"round {number}",
            "tool_calls": [
                {"name": "append_line", "input": {"key": f"{number}a"}},
                {"name": "look", "input": {"key": f"{number}b"}},
                {"name": "append_line", "input": {"key": f"{number}c"}},
            ],
        }
        for number in range(1, ROUNDS + 1)
    ]
    script = {"name": "kill", "turns": [*turns, {"text": "All done."}]}
    (folder / "script.yaml").write_text(json.dumps(script))
    return [
        "adapter=scripted",
        f"adapter.script={folder / 'script.yaml'}",
        "task=chat",
        "task.prompt=Go",
        f"tools.definitions=[{folder / 'tools.json'}]",
        "tools.handlers={append_line:{_target_:kill_tools.append_line},look:{_target_:kill_tools.look}}",
        "toolset.include=[append_line,look]",
        "safety.tiers.write=allow",
        "display=quiet",
    ]


def child(work: Callable[[], int], effects: Path, kill_after_s: float | None) -> int | None:
    """Runs `work` in a forked child; its exit code, None where it was killed."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.environ["EFFECTS"] = str(effects)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            code = work()
        finally:
            os._exit(code)
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def main() -> None:
    folder, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    sys.path.insert(0, str(HERE))
    rng = random.Random(seed)
    settings = compose_settings(prepare(folder))

    def run(place: Path) -> int:
        return asyncio.run(run_settings(settings, place)).termination_reason.exit_code

    def again(place: Path) -> Callable[[], int]:
        try:
            next(read_journal(place / JOURNAL_FILE))
        except (JournalError, StopIteration):  # killed before there was anything to resume
            return lambda: run(place)
        return lambda: cli.main(["resume", str(place)])

    def go(number: int, kill_after_s: float | None, second_s: float | None) -> dict[str, Any]:
        place, effects = folder / f"run{number}", folder / f"effects{number}"
        effects.touch()
        codes = [child(lambda: run(place), effects, kill_after_s)]
        if second_s is not None and codes[-1] is None:
            codes.append(child(again(place), effects, second_s))
        while codes[-1] is None and len(codes) < 4:
            codes.append(child(again(place), effects, None))
        return {"place": str(place), "effects": effects.read_text().split(), "codes": codes}

    go(0, None, None)  # everything imported, also what is imported late
    started = time.monotonic()
    print(json.dumps(go(1, None, None)), flush=True)
    whole = time.monotonic() - started
    for number in range(2, count + 2):
        second = rng.uniform(0, whole) if rng.random() < 0.3 else None
        print(json.dumps(go(number, rng.uniform(0, whole), second)), flush=True)


if __name__ == "__main__":
    main()
