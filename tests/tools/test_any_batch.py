"""Whatever calls a response holds: one outcome each, in order, and writes stand apart."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tools_kit import Always, Bench, call, make_tool

from geode.contract import InputFault, ToolUseBlock
from geode.tools.approval import Answer
from geode.tools.types import ToolError

KINDS = ("read", "sync", "fetch", "write", "wipe", "fail", "loop", "missing", "bad", "cut")
STATUS = {
    "read": "ok", "sync": "ok", "fetch": "ok", "write": "ok", "wipe": "denied", "fail": "error", "loop": "error",
    "missing": "unknown", "bad": "invalid", "cut": "invalid",
}  # fmt: skip


class World:
    def __init__(self) -> None:
        self.running: list[str] = []
        self.broken: list[tuple[str, ...]] = []

    async def _work(self, kind: str, turns: int) -> str:
        self.running.append(kind)
        for _ in range(turns):
            await asyncio.sleep(0)
        if "write" in self.running and len(self.running) > 1:
            self.broken.append(tuple(self.running))
        self.running.remove(kind)
        return kind

    async def read(self, n: int) -> str:
        return await self._work("read", n)

    async def fetch(self, n: int) -> str:
        return await self._work("fetch", n)

    async def write(self, n: int) -> str:
        return await self._work("write", n)

    async def fail(self, n: int) -> str:
        await self._work("fail", n)
        raise ToolError("fail")

    async def loop(self, n: int) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "gone"

    def sync(self, n: int) -> str:
        return "sync"

    def bench(self, parallel: int) -> Bench:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        tiers = {"fetch": "expensive", "write": "write", "wipe": "dangerous"}
        functions = {name: getattr(self, name, self.read) for name in KINDS if name not in ("missing", "bad", "cut")}
        tools = [make_tool(f, tiers.get(name, "safe"), schema, name=name) for name, f in functions.items()]
        given_tiers = {"expensive": "ask", "write": "allow", "dangerous": "deny"}
        return Bench(*tools, tiers=given_tiers, approver=Always(Answer(True)), max_parallel=parallel)


def use(kind: str, id: str, n: int) -> ToolUseBlock:
    if kind == "bad":
        return call("read", id, n="x")
    if kind == "cut":
        return ToolUseBlock(id, "read", {}, "{", InputFault.CUT)
    return call(kind, id, n=n)


CALLS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 5)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(CALLS, st.integers(1, 4))
def test_one_outcome_each_in_order(calls: list[tuple[str, int]], parallel: int) -> None:
    world = World()

    async def run() -> Any:
        bench = world.bench(parallel)
        outcomes = await bench.run(*(use(kind, str(i), n) for i, (kind, n) in enumerate(calls)))
        bench.processor.close()
        return outcomes

    outcomes = asyncio.run(run())
    assert [o.result.tool_use_id for o in outcomes] == [str(i) for i in range(len(calls))]
    assert [o.status for o in outcomes] == [STATUS[kind] for kind, _ in calls]
    assert all(o.result.is_error == (o.status != "ok") for o in outcomes)
    assert [o.result.text for o in outcomes if o.status == "ok"] == [k for k, _ in calls if STATUS[k] == "ok"]
    assert world.broken == []


@settings(max_examples=40, deadline=None)
@given(CALLS, st.integers(0, 12))
def test_a_cancel_at_any_moment_leaves_every_call_answered(calls: list[tuple[str, int]], turns: int) -> None:
    async def run() -> Any:
        bench = World().bench(2)
        batch = bench.batch(*(use(kind, str(i), n) for i, (kind, n) in enumerate(calls)))
        task = asyncio.create_task(batch.run())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(done, asyncio.CancelledError | list)
        bench.processor.close()
        return batch.close("stopped")

    outcomes = asyncio.run(run())
    assert [o.result.tool_use_id for o in outcomes] == [str(i) for i in range(len(calls))]
    assert all(o.status in (STATUS[kind], "cancelled") for o, (kind, _) in zip(outcomes, calls, strict=True))
