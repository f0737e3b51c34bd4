"""What a round costs, besides the model and the tools: `python benchmarks/rounds.py [--json] [N ...]`.

Scripted runs of N rounds as `geode` makes them (settings, journal on, display off), each with one call of a trivial
async tool. Each N has a process of its own; the memory is its peak above that of a process that has run two rounds, and
so imported the same libraries. Goals: at most 0.5 ms a round, the last tenth of a run at most 1.3 times as slow as the
first, at most 15 MB.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS = (50, 200, 800, 2000)
GOALS = {"ms a round": 0.5, "last / first tenth": 1.3, "MB": 15.0}

TOOL = {
    "name": "tick",
    "description": "Counts.",
    "safety": "safe",
    "input_schema": {"type": "object", "properties": {"step": {"type": "integer"}}, "required": ["step"]},
}


async def tick(step: int) -> dict[str, int]:
    return {"step": step}


def measure(rounds: int, folder: Path, *extra: str) -> dict[str, Any]:
    """Runs one experiment in this process and says what it took."""
    from geode.compose import compose_settings
    from geode.hooks import Event
    from geode.runner import run_settings

    (folder / "tools.json").write_text(json.dumps([TOOL]))
    call = {"name": "tick", "input": {"step": 1}}
    turns = [{"tool_calls": [call], "repeat": rounds - 1}, {"text": "Done."}]
    (folder / "script.yaml").write_text(json.dumps({"turns": turns}))
    settings = compose_settings(
        [
            "adapter=scripted",
            f"adapter.script={folder / 'script.yaml'}",
            "task=question",
            "task.prompt=Count.",
            f"tools.definitions=[{folder / 'tools.json'}]",
            f"tools.handlers.tick={{_target_: {__name__}.tick}}",
            "toolset.include=[tick]",
            "budget.max_rounds=0",
            "recovery.repeats=0",
            "display=quiet",
            *extra,
        ]
    )
    marks: list[float] = []

    def observe(payload: Any) -> None:
        if payload.event is Event.ROUND_STARTED:
            marks.append(time.perf_counter())

    result = asyncio.run(run_settings(settings, folder / "run", observers=[observe]))
    assert (result.termination_reason.value, result.rounds) == ("natural", rounds), result
    taken = [(b - a) * 1e3 for a, b in itertools.pairwise(marks)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB; on macOS bytes
    tenth = max(1, len(taken) // 10)
    return {
        "rounds": rounds,
        "mean": statistics.mean(taken),
        "median": statistics.median(taken),
        "first": statistics.median(taken[1 : 1 + tenth] or taken),
        "last": statistics.median(taken[-tenth:]),
        "peak": peak / (1024 * 1024 if sys.platform == "darwin" else 1024),
    }


def in_process(rounds: int, extra: list[str]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", str(rounds), *extra]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rounds", nargs="*", help="numbers of rounds, and overrides (KEY=VALUE)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    counts = [int(word) for word in options.rounds if word.isdigit()]
    extra = [word for word in options.rounds if not word.isdigit()]
    if options.one:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(counts[0], Path(folder), *extra)))
        return
    base = in_process(2, extra)["peak"]
    table = []
    for rounds in counts or ROUNDS:
        row = in_process(rounds, extra)
        table.append(
            {
                "rounds": rounds,
                "ms a round": round(row["mean"], 3),
                "median": round(row["median"], 3),
                "first tenth": round(row["first"], 3),
                "last tenth": round(row["last"], 3),
                "last / first tenth": round(row["last"] / row["first"], 2),
                "MB": round(row["peak"] - base, 1),
            }
        )
    if options.json:
        print(json.dumps({"base_mb": round(base, 1), "goals": GOALS, "rows": table}, indent=2))
        return
    print("  ".join(f"{name:>{max(len(name), 8)}}" for name in table[0]))
    for row in table:
        print("  ".join(f"{value:>{max(len(name), 8)}}" for name, value in row.items()))
    print("goals: " + ", ".join(f"{name} <= {value}" for name, value in GOALS.items()) + f"; base {base:.1f} MB")


if __name__ == "__main__":
    main()
