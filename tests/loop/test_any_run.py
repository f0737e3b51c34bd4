"""Whatever a provider does, within whatever budgets: a run ends in order."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loop_kit import PRICE, Run, play

from geode.contract import TerminationReason
from geode.hooks import Event

MODELS = {None: "scripted", "messages": "claude-sonnet-5-5", "responses": "gpt-6.1-sol", "chat": "glm-5.3"}

usages = st.one_of(
    st.just("missing"),
    st.builds(lambda i, o: {"input": i, "output": o}, st.integers(0, 50), st.integers(0, 16)),
)
ids = st.sampled_from([None, None, "", "same", "same", "call/with spaces", "x" * 100, "é"])
arguments = st.sampled_from(
    ["", "{}", "null", "[1]", '"text"', "{broken", '{"text": "a"}', '{"text": "a\\u0000b"}', '{"text": "\\ud800"}',
     "[" * 2000,
     '{"n": 1e999}', '{"seconds": 30}', '{"seconds": 0}', '{"text": {"deep": [[[]]]}}', "{" + " " * 5000 + "}"]
)  # fmt: skip
names = st.sampled_from(
    [
        "echo",
        "echo",
        "echo",
        "fail",
        "flaky",
        "slow",
        "picture",
        "long",
        "ask_user",
        "no_such_tool",
        "a.b/c",
        "",
        "任务",
        "x" * 90,
    ]
)
calls = st.builds(
    lambda name, arguments, id: {"name": name, "arguments": arguments} | ({"id": id} if id is not None else {}),
    names,
    arguments,
    ids,
)
texts = st.sampled_from([None, "", " ", "done", "a\u2028b\x00c 任务 😀", "trailing   \n", "x" * 3000])
stops = st.sampled_from([None] * 12 + ["end_turn", "tool_use", "max_tokens", "pause_turn", "content_filter", "error"])
faults = st.one_of(
    st.builds(
        lambda status, wait: {"kind": "http", "status": status} | ({"retry_after": wait} if wait is not None else {}),
        st.sampled_from([400, 401, 402, 403, 404, 408, 413, 429, 500, 529]),
        st.sampled_from([None, 0, 0.05, 3600]),
    ),
    st.builds(
        lambda kind, after: {"kind": kind} | ({"after": after} if after is not None else {}),
        st.sampled_from(["hang", "cut", "stream_error"]),
        st.sampled_from([None, 0, 3]),
    ),
    st.sampled_from(
        [
            {"kind": k}
            for k in ("close", "close_after", "broken_json", "not_object", "empty_choices", "overflow", "failed")
        ]
    ),
)


def _turn(text: Any, calls: Any, stop: Any, usage: Any, fault: Any, refusal: Any) -> dict[str, Any]:
    turn = {"text": text, "tool_calls": calls, "stop": stop, "usage": usage, "fault": fault, "refusal": refusal}
    return {key: value for key, value in turn.items() if value is not None}


turns = st.builds(
    _turn,
    texts,
    st.one_of(st.just([]), st.lists(calls, min_size=1, max_size=4), st.lists(calls, min_size=1, max_size=2)),
    stops,
    usages,
    st.integers(0, 5).flatmap(lambda n: faults if n == 0 else st.none()),
    st.sampled_from([None] * 20 + ["cyber"]),
)
scripts = st.lists(turns, max_size=8).map(
    lambda body: [*body, {"text": "the end", "usage": {"input": 1, "output": 1}, "repeat": "forever"}]
)
budgets = st.fixed_dictionaries(
    {
        "budget__time_budget_s": st.sampled_from([0.3, 0.6, 1.0]),
        "budget__wrap_up_s": st.sampled_from([0.0, 30.0]),
        "budget__max_rounds": st.sampled_from([0, 1, 2, 5]),
        "budget__session_s": st.sampled_from([0.0, 0.5, 7200.0]),
        "budget__token_budget": st.sampled_from([0, 0, 40, 500]),
        "budget__cost_budget": st.sampled_from([0.0, 0.01, 0.05, 1.0]),
        "budget__cost_hard": st.booleans(),
        "recovery__convergence": st.sampled_from([0, 1, 3]),
        "adapter__stream": st.booleans(),
        "llm__attempts": st.sampled_from([1, 2, 3]),
        "response__schema": st.sampled_from([None, None, {"type": "object"}]),
        "tools__result_tokens": st.sampled_from([0, 500, 5000]),
        "context__summary": st.sampled_from([{"enabled": False}, {"enabled": True}]),
    }
)


async def _played(
    script: list[dict[str, Any]], wire: str | None, window: int, budget: dict[str, Any]
) -> tuple[Run, float]:
    """The run, and how long this busy machine once let the event loop wait, in seconds."""
    lag = 0.0

    async def heartbeat() -> None:
        nonlocal lag
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0.01)
            lag = max(lag, loop.time() - before - 0.01)

    beating = asyncio.create_task(heartbeat())
    with tempfile.TemporaryDirectory() as folder:
        run = await play(
            Path(folder),
            script,
            wire,
            clean=False,
            adapter__timeout_s=0.4,
            adapter__max_tokens=64,
            llm__base_delay_s=0.001,
            pricing__overrides={MODELS[wire]: PRICE},
            pricing__windows={MODELS[wire]: window},
            hooks__timeout_s=0.2,
            **budget,
        )
    beating.cancel()
    return run, lag


def _assert_stable_prefix(run: Run) -> None:
    """Each request's messages are those of the one before, and more: prompt caches hit."""
    sent = [body.get("messages") or body.get("input") for body in run.bodies if body is not None]
    for before, after in itertools.pairwise(sent):
        assert after[: len(before)] == before


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    scripts, st.sampled_from([None, None, "messages", "responses", "chat"]), st.sampled_from([400_000, 9000]), budgets
)
def test_any_run_ends_in_order(
    script: list[dict[str, Any]], wire: str | None, window: int, budget: dict[str, Any]
) -> None:
    run, lag = asyncio.run(_played(script, wire, window, budget))  # never raises, always paired
    assert run.result.termination_reason in set(TerminationReason) - {TerminationReason.UNKNOWN}
    assert run.names.count("SESSION_ENDED") == 1
    assert run.names[-1] == "SESSION_ENDED"
    assert run.result.elapsed_s <= budget["budget__time_budget_s"] + 0.5 + lag
    if budget["budget__cost_hard"] and budget["budget__cost_budget"]:
        assert run.result.cost <= budget["budget__cost_budget"] + 1e-9
    if budget["budget__max_rounds"]:
        assert run.result.rounds <= budget["budget__max_rounds"]
    started, completed = run.of(Event.ROUND_STARTED), run.of(Event.TURN_COMPLETED)
    assert [p.round for p in started] == [p.round for p in completed]
    assert isinstance(run.result.text, str)
    if run.provider is not None:
        assert run.provider.problems == []
        if not run.of(Event.CONTEXT_OVERFLOW_ACTION):
            _assert_stable_prefix(run)
