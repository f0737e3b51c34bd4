"""Calls of one response: what runs together, what waits for what, in which order results come back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cli_kit import clean_environ
from tools_kit import Always, Bench, call, make_tool, statuses, texts

from geode.tools.approval import Answer


class Log:
    """Tools that note when they begin and end, and one file that some of them read and one writes."""

    def __init__(self, folder: Path) -> None:
        self.lines: list[str] = []
        self.file = folder / "file"
        self.file.write_text("old")

    async def read(self, n: int) -> str:
        self.lines.append(f"+{n}")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.lines.append(f"-{n}")
        return self.file.read_text()

    async def write(self, n: int) -> str:
        self.lines.append(f"+w{n}")
        await asyncio.sleep(0)
        self.file.write_text(f"new{n}")
        self.lines.append(f"-w{n}")
        return "written"


async def test_a_read_after_a_write_sees_the_write(tmp_path: Path) -> None:
    log = Log(tmp_path)
    bench = Bench(make_tool(log.read), make_tool(log.write, "write"))
    calls = [
        call("read", "a", n=1),
        call("read", "b", n=2),
        call("write", "c", n=1),
        call("read", "d", n=3),
        call("read", "e", n=4),
        call("write", "f", n=2),
        call("write", "g", n=3),
        call("read", "h", n=5),
    ]
    outcomes = await bench.run(*calls)
    assert texts(outcomes) == ["old", "old", "written", "new1", "new1", "written", "written", "new3"]
    assert [o.result.tool_use_id for o in outcomes] == list("abcdefgh")
    assert " ".join(log.lines) == "+1 +2 -1 -2 +w1 -w1 +3 +4 -3 -4 +w2 -w2 +w3 -w3 +5 -5"


@pytest.mark.parametrize(
    ("tier", "auto", "together"),
    [
        ("safe", False, True),
        ("expensive", False, True),
        ("write", True, True),
        ("dangerous", True, True),
        ("write", False, False),
        ("dangerous", False, False),
    ],
)
async def test_which_tiers_run_together(tmp_path: Path, tier: str, auto: bool, together: bool) -> None:
    log = Log(tmp_path)
    bench = Bench(make_tool(log.read, tier, auto_approved=auto))
    await bench.run(call("read", "a", n=1), call("read", "b", n=2))
    assert log.lines == (["+1", "+2", "-1", "-2"] if together else ["+1", "-1", "+2", "-2"])


async def test_results_keep_the_order_of_the_calls() -> None:
    gates = [asyncio.Event() for _ in range(4)]
    finished = []

    async def wait(n: int) -> int:
        if n < 3:
            await gates[n + 1].wait()  # the last one ends first
        finished.append(n)
        gates[n].set()
        return n

    outcomes = await Bench(make_tool(wait)).run(*(call("wait", f"c{n}", n=n) for n in range(4)))
    assert finished == [3, 2, 1, 0]
    assert texts(outcomes) == ["0", "1", "2", "3"]


async def test_no_more_than_max_parallel_of_a_thousand_calls() -> None:
    running, most = 0, 0

    async def work(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return n

    bench = Bench(make_tool(work), max_parallel=7)
    outcomes = await bench.run(*(call("work", f"c{n}", n=n) for n in range(1000)))
    assert texts(outcomes) == [str(n) for n in range(1000)]
    assert most == 7


async def test_fifty_sync_tools_leave_the_loop_free() -> None:
    together = threading.Barrier(51)  # fifty handlers and this test: it breaks unless all wait at once

    def block(n: int) -> int:
        together.wait(30)
        return n

    bench = Bench(make_tool(block), max_parallel=50)
    running = asyncio.create_task(bench.run(*(call("block", f"c{n}", n=n) for n in range(50))))
    turns = 0
    while together.n_waiting < 50:
        await asyncio.sleep(0.001)
        turns += 1
    together.wait(0)
    assert texts(await running) == [str(n) for n in range(50)]
    assert turns > 0


async def test_sync_calls_too_are_bounded() -> None:
    lock, running, seen = threading.Lock(), [0], []

    def work(n: int) -> int:
        with lock:
            running[0] += 1
            seen.append(running[0])
        with lock:
            running[0] -= 1
        return n

    outcomes = await Bench(make_tool(work), max_parallel=3).run(*(call("work", f"c{n}", n=n) for n in range(200)))
    assert texts(outcomes) == [str(n) for n in range(200)]
    assert max(seen) <= 3


async def test_a_failure_or_a_denial_leaves_the_siblings_alone() -> None:
    async def good(n: int) -> int:
        await asyncio.sleep(0)
        return n

    async def bad() -> None:
        raise ValueError("no luck")

    async def wipe() -> None: ...

    bench = Bench(make_tool(good), make_tool(bad), make_tool(wipe, "dangerous"), tiers={"dangerous": "deny"})
    outcomes = await bench.run(
        call("good", "1", n=1), call("bad", "2"), call("good", "3", n=3), call("wipe", "4"), call("good", "5", n=5),
        call("missing", "6"), call("good", "7", n=7),
    )  # fmt: skip
    assert statuses(outcomes) == ["ok", "error", "ok", "denied", "ok", "unknown", "ok"]
    assert [o.failed for o in outcomes] == [False, True, False, False, False, True, False]
    assert texts(outcomes)[0::2] == ["1", "3", "5", "7"]
    assert outcomes[1].result.text == "ValueError: no luck"


async def test_one_question_for_all_expensive_calls_of_a_response() -> None:
    def fetch(n: int) -> int:
        return n

    def write() -> str:
        return "written"

    person = Always(Answer(True))
    bench = Bench(make_tool(fetch, "expensive"), make_tool(write, "write"), tiers={}, approver=person)
    calls = [call("fetch", "1", n=1), call("write", "2"), call("fetch", "3", n=3), call("write", "4")]
    assert texts(await bench.run(*calls)) == ["1", "written", "3", "written"]
    assert person.asked == [["fetch", "fetch"], ["write"], ["write"]]


HUNG = """
import asyncio, threading, time
from tools_kit import Bench, call, make_tool

def hang():
    threading.Event().wait()

async def main():
    bench = Bench(make_tool(hang, timeout_s=0.05), max_parallel=1)
    for outcome in await bench.run(call("hang", "1"), call("hang", "2")):
        print(outcome.status, outcome.failed, outcome.result.text)
    bench.processor.close()

asyncio.run(main())
print("over")
"""


def test_a_hung_sync_handler_holds_up_neither_the_next_call_nor_the_end_of_the_process() -> None:
    environ = clean_environ()
    environ["PYTHONPATH"] += f":{Path(__file__).parent}"
    done = subprocess.run([sys.executable, "-c", HUNG], env=environ, capture_output=True, text=True, timeout=30)
    line = "timeout True The tool did not finish within 0.05 s. It was given up, but may still be running."
    assert (done.stdout.splitlines(), done.returncode, done.stderr) == ([line, line, "over"], 0, "")
