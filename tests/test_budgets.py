"""Guards and their order, wrap-up, time, sessions, tokens, overthinking."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from loop_kit import PRICE, WIRES, assert_paired, continued, play, turn, usage

from geode.contract import Delta
from geode.hooks import Event

ECHO = ("echo", {"text": "a"})
LONG = turn("thinking aloud", stop="max_tokens", usage=usage(1024))


# ------------------------------------------------------------------------------------------------------------- order


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        (0, "max_rounds"),
        (1, "time_budget_expired"),
        (2, "time_budget_expired"),
        (3, "cost_budget_exceeded"),
        (4, "token_budget_exceeded"),
    ],
)
async def test_guards_are_asked_in_their_order(tmp_path: Path, missing: int, reason: str) -> None:
    limits: list[dict[str, Any]] = [
        {"budget__max_rounds": 1},
        {"budget__time_budget_s": 0.6},
        {"budget__session_s": 0.65},
        {"budget__cost_budget": 0.01},
        {"budget__token_budget": 10},
    ]
    changes: dict[str, Any] = {"pricing__overrides": {"scripted": PRICE}, "budget__wrap_up_s": 0}
    for limit in limits[missing:]:
        changes |= limit
    script = [turn(None, ("slow", {"seconds": 5 if missing < 3 else 0}), usage=usage(100)), turn("never")]
    run = await play(tmp_path, script, **changes)
    assert run.reason == reason
    if reason == "time_budget_expired":
        assert run.result.detail["scope"] == ("run" if missing == 1 else "session")


# ----------------------------------------------------------------------------------------------------------- wrap-up


@pytest.mark.parametrize("wire", WIRES)
async def test_the_last_round_must_answer_in_text(tmp_path: Path, wire: str) -> None:
    thinking = {"adapter__thinking": {"type": "enabled", "budget_tokens": 1024}} if wire == "messages" else {}
    run = await play(
        tmp_path,
        [turn(None, ECHO), turn(None, ECHO), turn("forced")],
        wire,
        budget__max_rounds=3,
        budget__wrap_up_max_tokens=700,
        adapter__max_tokens=2000,
        **thinking,
    )
    assert (run.reason, run.result.text, run.result.rounds) == ("forced_text", "forced", 3)
    choices = [body["tool_choice"] for body in run.bodies]
    none = {"type": "none"} if wire == "messages" else "none"
    auto = {"type": "auto"} if wire == "messages" else "auto"
    assert choices == [auto, auto, none]
    field = "max_output_tokens" if wire == "responses" else "max_tokens"
    assert [body[field] for body in run.bodies] == [2000, 2000, 700]
    assert run.bodies[0]["tools"] == run.bodies[2]["tools"]
    if wire == "messages":
        assert [body.get("thinking") for body in run.bodies][:2] == [{"type": "enabled", "budget_tokens": 1024}] * 2
        assert run.bodies[2].get("thinking") in (None, {"type": "disabled"})
    (started,) = run.of(Event.WRAP_UP_STARTED)
    assert (started.round, started.cause) == (3, "rounds")
    assert [r.wrap_up for r in run.of(Event.ROUND_STARTED)] == [False, False, True]


async def test_wrap_up_is_never_the_only_round(tmp_path: Path) -> None:
    one = await play(tmp_path, [turn("a", ECHO)], budget__max_rounds=1, budget__wrap_up_rounds=3)
    assert (one.reason, one.of(Event.WRAP_UP_STARTED)) == ("max_rounds", [])
    script = [turn("a", ECHO, expect={"tool_choice": "auto"}), turn("b", expect={"tool_choice": "none"})]
    two = await play(tmp_path, script, budget__max_rounds=2, budget__wrap_up_rounds=3)
    assert (two.reason, two.of(Event.WRAP_UP_STARTED)[0].round) == ("forced_text", 2)


async def test_no_wrap_up_rounds(tmp_path: Path) -> None:
    script = [turn("a", ECHO), turn("b", expect={"tool_choice": "auto"})]
    run = await play(tmp_path, script, budget__max_rounds=2, budget__wrap_up_rounds=0)
    assert (run.reason, run.of(Event.WRAP_UP_STARTED)) == ("natural", [])


async def test_a_call_in_spite_of_none_is_answered_not_run(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [turn("a", ECHO), turn("b", ECHO, ("fail", {})), turn("text", expect={"last_is_error": True})],
        budget__max_rounds=3,
        budget__wrap_up_rounds=2,
    )
    assert (run.reason, run.result.text) == ("forced_text", "text")
    assert [e.round for e in run.of(Event.TOOL_EXEC_STARTED)] == [1]
    disabled = "Tools are disabled in this round: the call was not run. Answer in text."
    assert [(r.text, r.is_error) for r in run.history[4].tool_results] == [(disabled, True)] * 2
    assert run.hints == []


async def test_wrap_up_by_seconds_is_at_most_a_quarter_of_the_budget(tmp_path: Path) -> None:
    script = [turn(None, ("slow", {"seconds": 1.3}), expect={"tool_choice": "auto"}), turn("forced")]
    run = await play(tmp_path, script, budget__time_budget_s=1.7)
    assert (run.reason, run.result.rounds) == ("forced_text", 2)
    assert run.of(Event.WRAP_UP_STARTED)[0].cause == "time"


async def test_an_unfitting_answer_of_wrap_up_is_kept(tmp_path: Path) -> None:
    run = await play(
        tmp_path, [turn(None, ECHO), turn("no json")], budget__max_rounds=2, response__schema={"type": "object"}
    )
    assert (run.reason, run.result.text, run.result.parsed) == ("forced_text", "no json", None)
    assert run.result.error is not None
    assert run.result.error["kind"] == "response_schema"


# -------------------------------------------------------------------------------------------------------------- time


@pytest.mark.parametrize("wire", WIRES)
async def test_a_hanging_stream_gives_back_what_came(tmp_path: Path, wire: str) -> None:
    text = "The answer is forty-two, and here is the reason why that is so."
    run = await play(
        tmp_path,
        [turn(text, fault={"kind": "hang", "after": 6})],
        wire,
        budget__time_budget_s=0.5,
        budget__wrap_up_s=0,
        adapter__stream=True,
    )
    assert run.reason == "time_budget_expired"
    assert run.result.detail == {"scope": "run", "in_flight": "llm_call", "time_budget_s": 0.5}
    assert run.result.text
    assert text.startswith(run.result.text)
    assert run.result.elapsed_s < 5
    await continued(run, wire)


async def test_a_hanging_tool_is_closed_in_the_history(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [turn("now", ECHO, ("slow", {"seconds": 30}), ECHO)],
        budget__time_budget_s=0.5,
        budget__wrap_up_s=0,
    )
    assert (run.reason, run.result.text) == ("time_budget_expired", "now")
    stopped = "The time budget ended before this call came back: it was stopped and has no result."
    results = run.history[-1].tool_results
    assert [r.text for r in results] == ["echo: a", stopped, "echo: a"]
    assert [r.is_error for r in results] == [False, True, False]
    assert run.result.elapsed_s < 5


async def test_waiting_for_a_retry_never_passes_the_time_budget(tmp_path: Path) -> None:
    script = [turn(fault={"kind": "http", "status": 429, "retry_after": 60}), turn("never")]
    run = await play(tmp_path, script, "chat", budget__time_budget_s=1.0)
    assert (run.reason, run.of(Event.LLM_CALL_RETRIED)) == ("llm_error", [])
    assert run.result.error is not None
    assert (run.result.error["status"], run.result.error["attempts"]) == (429, 1)


# ----------------------------------------------------------------------------------------------------------- session


async def test_a_session_spans_runs(tmp_path: Path) -> None:
    kept = tmp_path / "sessions" / "ours.json"
    shared: dict[str, Any] = {
        "session__id": "ours",
        "session__dir": str(kept.parent),
        "budget__session_s": 1000.0,
        "budget__handoff_s": 600.0,
        "budget__wrap_up_s": 0,
    }

    def pass_time(until: float) -> None:
        kept.write_text(json.dumps({**json.loads(kept.read_text()), "elapsed_s": until}))

    first = await play(tmp_path, [turn(None, ECHO), turn("one")], **shared)
    assert (first.reason, first.of(Event.HANDOFF_TRIGGERED)) == ("natural", [])
    assert json.loads(kept.read_text())["elapsed_s"] == pytest.approx(first.result.elapsed_s, abs=0.1)

    pass_time(880)  # a handoff is never more than a tenth of the session before its end
    early = await play(tmp_path, [turn("early")], **shared)
    assert early.of(Event.HANDOFF_TRIGGERED) == []
    pass_time(901)
    second = await play(tmp_path, [turn(None, ECHO), turn("two")], **shared)
    assert (second.reason, second.result.text) == ("natural", "two")
    (handoff,) = second.of(Event.HANDOFF_TRIGGERED)
    assert (handoff.round, handoff.session_id, handoff.session_s) == (1, "ours", 1000.0)
    assert handoff.elapsed_s >= 901

    pass_time(999.5)
    third = await play(tmp_path, [turn(None, ("slow", {"seconds": 30})), turn("never")], **shared)
    assert (third.reason, third.result.detail["scope"]) == ("time_budget_expired", "session")
    assert third.of(Event.HANDOFF_TRIGGERED) == []
    fourth = await play(tmp_path, [turn("never")], **shared)
    assert fourth.reason == "time_budget_expired"
    assert fourth.result.detail == {"scope": "session", "session_s": 1000.0, "session_id": "ours"}
    assert fourth.result.rounds == 0


async def test_a_sessions_cost_is_summed_over_its_runs(tmp_path: Path) -> None:
    shared: dict[str, Any] = {
        "session__id": "purse",
        "session__dir": str(tmp_path / "sessions"),
        "budget__cost_budget": 1.0,
        "pricing__overrides": {"scripted": PRICE},
    }
    first = await play(tmp_path, [turn("one", usage=usage(600))], **shared)
    assert (first.reason, first.result.cost, first.of(Event.COST_WARNING)) == ("natural", 0.6, [])
    second = await play(tmp_path, [turn(None, ECHO, usage=usage(300)), turn("two", usage=usage(50))], **shared)
    assert (second.reason, second.result.cost) == ("natural", pytest.approx(0.35))
    (warning,) = second.of(Event.COST_WARNING)
    assert (warning.round, warning.cost, warning.share) == (1, pytest.approx(0.9), 0.8)
    third = await play(tmp_path, [turn(None, ECHO, usage=usage(60)), turn("never")], **shared)
    assert (third.reason, third.result.detail["cost"]) == ("cost_budget_exceeded", pytest.approx(1.01))


# ------------------------------------------------------------------------------------------------ tokens, long thought


@pytest.mark.parametrize(
    ("scope", "budget", "rounds"), [("all", 1000, 1), ("all", 1001, 2), ("output", 200, 2), ("output", 201, 3)]
)
async def test_token_budgets(tmp_path: Path, scope: str, budget: int, rounds: int) -> None:
    script = [turn("x", ECHO, usage=usage(100, 900), repeat="forever")]
    run = await play(tmp_path, script, budget__token_budget=budget, budget__token_scope=scope)
    assert (run.reason, run.result.rounds) == ("token_budget_exceeded", rounds)
    assert run.result.detail == {
        "tokens": rounds * (1000 if scope == "all" else 100),
        "token_budget": budget,
        "scope": scope,
    }


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ([LONG, LONG, turn("never")], "user_clarification_needed"),
        ([LONG, turn("x", stop="max_tokens", usage=usage(1023)), turn("end")], "natural"),
        ([LONG, turn("x", ECHO), LONG, turn("end")], "natural"),
        ([LONG, turn("x", stop="pause_turn", usage=usage(1024)), turn("never")], "user_clarification_needed"),
    ],
)
async def test_overthinking(tmp_path: Path, turns: list[dict[str, Any]], reason: str) -> None:
    run = await play(tmp_path, turns, response__continuations=5)
    assert run.reason == reason
    if reason != "natural":
        assert run.result.detail == {"cause": "overthinking", "responses": 2}
        assert run.result.text.endswith("?")
        assert run.result.rounds == 2


async def test_overthinking_takes_the_smaller_of_share_and_limit(tmp_path: Path) -> None:
    cut = turn("x", stop="max_tokens", usage=usage(400))
    run = await play(tmp_path, [cut, cut, turn("never")], adapter__max_tokens=400)
    assert run.reason == "user_clarification_needed"
    large = {"pricing__windows": {"scripted": 200_000}}  # one per cent of the window is 2000 tokens
    at = [turn("x", stop="max_tokens", usage=usage(n)) for n in (1999, 2000)]
    few = await play(tmp_path, [at[0], at[0], turn("end")], **large)
    many = await play(tmp_path, [at[1], at[1], turn("never")], **large)
    assert (few.reason, many.reason) == ("natural", "user_clarification_needed")


async def test_an_end_of_any_kind_leaves_calls_paired(tmp_path: Path) -> None:
    run = await play(tmp_path, [turn(None, ECHO, ("fail", {}), ECHO)], budget__max_rounds=1)
    assert_paired(run.history)
    assert [r.is_error for r in run.history[-1].tool_results] == [False, True, False]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_cancel_gives_back_what_was_streamed(tmp_path: Path, wire: str) -> None:
    text = "The answer is forty-two, and here is the reason why that is so."
    pieces: list[str] = []

    def cancel_at_the_third(delta: Delta) -> None:
        pieces.append(delta.text)
        if len(pieces) == 3:
            task.cancel()

    task = asyncio.ensure_future(
        play(tmp_path, [turn(text, fault={"kind": "slow", "interval_s": 0.02})], wire, on_delta=cancel_at_the_third)
    )
    run = await task
    assert (run.reason, run.result.detail) == ("user_cancelled", {"round": 1})
    assert run.result.text == "".join(pieces)
    assert text.startswith(run.result.text)
    await continued(run, wire)
