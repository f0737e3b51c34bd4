"""Hooks that misbehave, and interceptors that rewrite or block."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import loop_tools
import pytest
from loop_kit import Run, play, turn

from geode import hooks as hooks_module
from geode.contract import Notice
from geode.hooks import Block, Event, HintInserted, HookBus, UserInputReceived
from geode.journal import read_journal

ECHO = ("echo", {"text": "a"})


# -------------------------------------------------------------------------------------------- observers that misbehave


@pytest.mark.parametrize("hook", ["raising", "raising_async", "leaving", "own_timeout"])
async def test_an_observer_that_raises_is_told_once_and_does_no_harm(tmp_path: Path, hook: str) -> None:
    run = await play(tmp_path, [turn("x", ECHO), turn("done")], hooks__observers=[{"_target_": f"loop_tools.{hook}"}])
    assert (run.reason, run.result.text) == ("natural", "done")
    assert _noticed(run) == [f"hook:loop_tools.{hook}"]


def _noticed(run: Run) -> list[str]:
    """Keys of the hooks that the journal says something of."""
    records = read_journal(run.folder / "journal.jsonl")
    return [r["key"] for r in records if r["event"] == "notice" and r["key"].startswith("hook:")]


@pytest.mark.parametrize("hook", ["hanging", "hanging_async"])
async def test_an_observer_that_hangs_holds_nothing_up(tmp_path: Path, hook: str) -> None:
    run = await play(
        tmp_path,
        [turn("x", ECHO), turn("done")],
        hooks__observers=[{"_target_": f"loop_tools.{hook}"}],
        hooks__timeout_s=0.2,
    )
    assert run.reason == "natural"
    assert _noticed(run) in ([], [f"hook:loop_tools.{hook}"])  # a run may be over before the time is up


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        (loop_tools.raising, "raised ValueError at HINT_INSERTED: this hook is broken"),
        (loop_tools.raising_async, "raised ValueError at HINT_INSERTED: this hook is broken"),
        (loop_tools.leaving, "raised RuntimeError at HINT_INSERTED: SystemExit: 3"),
        (loop_tools.own_timeout, "raised TimeoutError at HINT_INSERTED: my own"),
        (loop_tools.hanging, "took over 0.05 s at HINT_INSERTED and was switched off"),
        (loop_tools.hanging_async, "took over 0.05 s at HINT_INSERTED and was switched off"),
    ],
)
async def test_what_is_said_of_a_faulty_observer(hook: Any, said: str) -> None:
    notices: list[Notice] = []
    good: list[Any] = []
    bus = HookBus(timeout_s=0.05, notify=notices.append)
    bus.observe(hook, name="mine")
    bus.observe(good.append)
    for number in range(3):
        bus.emit(HintInserted(number, "status", "x"))
    await bus.aclose()
    assert notices == [Notice("hook:mine", f"hook mine {said}")]
    assert [payload.round for payload in good] == [0, 1, 2]


async def test_an_observer_that_is_behind_is_ended_with_the_run() -> None:
    notices: list[Notice] = []

    async def steady(_payload: Any) -> None:
        await asyncio.sleep(0.15)

    bus = HookBus(timeout_s=0.2, notify=notices.append)
    bus.observe(steady, name="mine")
    for number in range(20):
        bus.emit(HintInserted(number, "status", "x"))
    await bus.aclose()
    (notice,) = notices
    assert notice.message.startswith("hook mine was ended with the run: ")


async def test_an_observer_gets_its_events_only_and_in_order() -> None:
    seen: list[Any] = []

    async def slow_then_fast(payload: Any) -> None:
        await asyncio.sleep(0.02 if payload.event is Event.HINT_INSERTED else 0)
        seen.append(payload.event)

    bus = HookBus()
    bus.observe(slow_then_fast, frozenset({Event.HINT_INSERTED, Event.USER_INPUT_RECEIVED}))
    bus.emit(HintInserted(1, "status", "x"))
    bus.emit(hooks_module.RoundStarted(1, "auto"))
    bus.emit(UserInputReceived("x"))
    await bus.aclose()
    assert seen == [Event.HINT_INSERTED, Event.USER_INPUT_RECEIVED]


# ------------------------------------------------------------------------------------------------------ interceptors


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        ("no_input", "not today"),
        ("raising", "interceptor loop_tools.raising raised ValueError: this hook is broken"),
        ("raising_async", "interceptor loop_tools.raising_async raised ValueError: this hook is broken"),
        ("hanging", "interceptor loop_tools.hanging did not answer within 0.1 s"),
        ("hanging_async", "interceptor loop_tools.hanging_async did not answer within 0.1 s"),
        ("wrong_type", "interceptor loop_tools.wrong_type returned dict, not UserInputReceived"),
        ("wrong_field", "interceptor loop_tools.wrong_field returned text as int"),
        ("leaving", "interceptor loop_tools.leaving raised RuntimeError: SystemExit: 3"),
    ],
)
async def test_an_interceptor_that_blocks_or_misbehaves_blocks_the_input(
    tmp_path: Path, hook: str, reason: str
) -> None:
    run = await play(
        tmp_path,
        [turn("never")],
        "chat",
        hooks__interceptors=[{"_target_": f"loop_tools.{hook}", "event": "USER_INPUT_RECEIVED"}],
        hooks__timeout_s=0.1,
    )
    assert (run.reason, run.result.text, run.result.detail) == ("input_blocked", reason, {"reason": reason})
    assert (run.bodies, run.result.rounds, run.history) == ([], 0, [])


async def test_interceptors_rewrite_in_their_order(tmp_path: Path) -> None:
    event = {"event": "USER_INPUT_RECEIVED"}
    run = await play(
        tmp_path,
        [turn("done")],
        hooks__interceptors=[{"_target_": "loop_tools.later", **event}, {"_target_": "loop_tools.shout", **event}],
    )
    assert run.history[0].text == "DO THE TASK., PLEASE"
    assert run.of(Event.USER_INPUT_RECEIVED)[0].text == "DO THE TASK., PLEASE"


async def test_a_blocked_call_is_a_result_for_the_model(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [turn(None, ECHO, ("stand_in", {})), turn("done", expect={"last_is_error": True})],
        hooks__interceptors=[{"_target_": "loop_tools.no_tool", "event": "TOOL_EXEC_STARTED"}],
    )
    assert (run.reason, run.hints) == ("natural", [])
    assert [r.text for r in run.history[2].tool_results] == [
        "Denied: echo was blocked and not run: no echo here",
        "Denied: stand_in was blocked and not run: no stand_in here",
    ]
    assert [d.by for d in run.of(Event.TOOL_APPROVAL_DENIED)] == ["interceptor", "interceptor"]


async def test_a_rewritten_call_is_checked_again(tmp_path: Path) -> None:
    rewriting = [{"_target_": "loop_tools.other_text", "event": "TOOL_EXEC_STARTED"}]
    run = await play(tmp_path, [turn(None, ECHO, ("picture", {})), turn("done")], hooks__interceptors=rewriting)
    first, _second = run.history[2].tool_results
    assert "echo: rewritten" in first.text


def test_only_three_events_can_be_intercepted() -> None:
    with pytest.raises(ValueError, match="TURN_COMPLETED cannot be intercepted"):
        HookBus().intercept_with(Event.TURN_COMPLETED, lambda _payload: Block("no"))
