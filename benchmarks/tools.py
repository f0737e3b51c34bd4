"""What running tools costs, besides the tools: `python benchmarks/tools.py [--json]`.

- 100 async tools of 10 ms each in one round with max_parallel=100: goal at most 14 ms in all;
- one call alone (checked, approved, run, converted): goal tens of microseconds, for an async and for a sync handler.

Each is repeated; the median and the best are shown. The best says what the code costs, the median what a busy machine
makes of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path
from typing import Any

from geode.contract import Tier, ToolSpec, ToolUseBlock
from geode.hooks import HookBus
from geode.tools.approval import NoTerminal
from geode.tools.processor import ProcessorOptions, ToolCallProcessor
from geode.tools.registry import ToolRegistry
from geode.tools.safety import SafetyPolicy
from geode.tools.types import Tool, ToolEnvironment

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string", "minLength": 1}, "limit": {"type": "integer", "minimum": 1}},
    "required": ["path"],
    "additionalProperties": False,
}


async def ten_ms(_arguments: Any, _context: Any) -> dict[str, bool]:
    await asyncio.sleep(0.01)
    return {"ok": True}


async def at_once(_arguments: Any, _context: Any) -> dict[str, bool]:
    return {"ok": True}


def in_a_thread(_arguments: Any, _context: Any) -> dict[str, bool]:
    return {"ok": True}


def processor() -> ToolCallProcessor:
    handlers = {"ten_ms": ten_ms, "at_once": at_once, "in_a_thread": in_a_thread}
    registry = ToolRegistry(Tool(ToolSpec(name, "", SCHEMA), Tier.SAFE, one) for name, one in handlers.items())
    return ToolCallProcessor(
        registry,
        SafetyPolicy(),
        HookBus(),
        NoTerminal(),
        None,
        environment=ToolEnvironment(Path(".")),
        options=ProcessorOptions(max_parallel=100),
    )


async def rounds(name: str, calls: int, repeats: int) -> list[float]:
    """Seconds that each of `repeats` rounds took."""
    tools, taken = processor(), []
    for number in range(repeats):
        uses = [ToolUseBlock(f"c{n}", name, {"path": f"file{n}", "limit": 10}) for n in range(calls)]
        start = time.perf_counter()
        outcomes = await tools.batch(uses, round=number + 1).run()
        taken.append(time.perf_counter() - start)
        assert all(outcome.status == "ok" for outcome in outcomes)
    tools.close()
    return taken[len(taken) // 10 :]


def measure() -> list[dict[str, Any]]:
    table = []
    for what, name, calls, repeats, unit, goal in (
        ("100 async tools of 10 ms in one round", "ten_ms", 100, 100, "ms", 14),
        ("one async call", "at_once", 1, 5000, "us", 100),
        ("one sync call, in a thread", "in_a_thread", 1, 3000, "us", 200),
    ):
        factor = {"ms": 1e3, "us": 1e6}[unit]
        taken = [seconds * factor for seconds in asyncio.run(rounds(name, calls, repeats))]
        row = {"median": statistics.median(taken), "best": min(taken)}
        table.append({"what": what, **{k: round(v, 1) for k, v in row.items()}, "goal": goal, "unit": unit})
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="as JSON")
    table = measure()
    if parser.parse_args().json:
        print(json.dumps(table, indent=2))
        return
    for row in table:
        print(f"{row['what']:<40} median {row['median']:>7} {row['unit']}   best {row['best']:>7}   goal {row['goal']}")


if __name__ == "__main__":
    main()
