"""Another adapter or model takes over: rules, fallback, and histories that go from wire to wire."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from loop_kit import ADAPTERS, PRICE, WIRES, play, turn, usage

from geode.hooks import Event

ECHO = ("echo", {"text": "a"})
PAIRS = list(itertools.permutations(WIRES, 2))


def to(wire: str, **when: Any) -> list[dict[str, Any]]:
    return [{"adapter": ADAPTERS[wire], **when}]


def wires_of(bodies: list[Any]) -> list[str]:
    return [
        "responses" if "input" in b else "messages" if "system" in b and "max_tokens" in b else "chat" for b in bodies
    ]


HARD_TURNS = [
    turn(
        "Looking at three things.",
        ("echo", {"text": "é 任务 \u2028"}),
        ("picture", {}),
        ("fail", {"n": 1}),
        reasoning=["First I think.", {"redacted": True}],
    ),
    {
        "text": None,
        "tool_calls": [{"name": "echo", "arguments": '{"text": "broken'}, {"name": "no.such tool", "input": {}}],
    },
    {"reasoning": ["Only a thought."], "text": "A remark.", "tool_calls": [{"name": "echo", "input": {"text": "b"}}]},
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_a_hard_history_goes_over_whole(tmp_path: Path, first: str, second: str) -> None:
    """Parallel calls, an image, an error, broken arguments, an unknown name, reasoning: there and back again."""
    run = await play(
        tmp_path,
        [*HARD_TURNS, *HARD_TURNS, turn("and back", ECHO), turn("done")],
        first,
        wires=(second,),
        switch__rules=[*to(second, after_rounds=3), *to(first, after_rounds=6)],
    )
    assert (run.reason, run.result.text, run.result.rounds) == ("natural", "done", 8)
    assert wires_of(run.bodies) == [first] * 3 + [second] * 3 + [first] * 2
    assert [(e.round, e.from_adapter, e.to_adapter) for e in run.of(Event.MODEL_SWITCHED)] == [
        (4, ADAPTERS[first], ADAPTERS[second]),
        (7, ADAPTERS[second], ADAPTERS[first]),
    ]
    assert run.result.detail["switched"] == [
        f"{ADAPTERS[first]} -> {ADAPTERS[second]} (after_rounds=3)",
        f"{ADAPTERS[second]} -> {ADAPTERS[first]} (after_rounds=6)",
    ]
    text = str(run.bodies[3])
    assert "First I think." in text  # foreign reasoning goes as plain text
    assert "no luck with 1" in text


async def test_a_share_of_the_cost_budget_switches(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [turn(None, ECHO, usage=usage(40)), turn(None, ECHO, usage=usage(10)), turn("done", usage=usage(1))],
        "messages",
        wires=("chat",),
        switch__rules=to("chat", cost_share=0.5),
        budget__cost_budget=0.1,
        pricing__overrides={"claude-sonnet-5-5": PRICE, "glm-5.3": PRICE},
    )
    assert (run.reason, wires_of(run.bodies)) == ("natural", ["messages", "messages", "chat"])
    (switched,) = run.of(Event.MODEL_SWITCHED)
    assert (switched.round, switched.cause) == (3, "cost_share=0.5")


async def test_a_rule_may_change_the_model_alone(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [turn(None, ECHO), turn("done")],
        "chat",
        switch__rules=[{"model": "glm-5.3-air", "after_rounds": 1}],
    )
    assert [body["model"] for body in run.bodies] == ["glm-5.3", "glm-5.3-air"]
    (switched,) = run.of(Event.MODEL_SWITCHED)
    assert (switched.from_model, switched.to_model) == ("glm-5.3", "glm-5.3-air")


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_a_fallback_takes_over_after_the_last_attempt(tmp_path: Path, first: str, second: str) -> None:
    down = turn(fault={"kind": "http", "status": 500})
    run = await play(
        tmp_path,
        [HARD_TURNS[0], down, down, turn("saved")],
        first,
        wires=(second,),
        switch__rules=to(second, on="llm_error"),
        llm__attempts=2,
    )
    assert (run.reason, run.result.text, run.result.error) == ("natural", "saved", None)
    assert wires_of(run.bodies) == [first] * 3 + [second]
    assert run.result.detail["switched"] == [f"{ADAPTERS[first]} -> {ADAPTERS[second]} (llm_error)"]
    assert [e.attempts for e in run.of(Event.LLM_CALL_FAILED)] == [2]
    assert run.of(Event.MODEL_SWITCHED)[0].round == 2


async def test_two_empty_answers_fall_back_too(tmp_path: Path) -> None:
    empty = turn(usage=usage(1))
    run = await play(
        tmp_path,
        [empty, empty, turn("saved")],
        "chat",
        wires=("messages",),
        switch__rules=to("messages", on="llm_error"),
    )
    assert (run.reason, run.result.text, wires_of(run.bodies)) == ("natural", "saved", ["chat", "chat", "messages"])


async def test_a_fallback_that_fails_ends_the_run(tmp_path: Path) -> None:
    down = turn(fault={"kind": "http", "status": 401})
    run = await play(tmp_path, [down, down], "chat", wires=("messages",), switch__rules=to("messages", on="llm_error"))
    assert (run.reason, wires_of(run.bodies)) == ("llm_error", ["chat", "messages"])
    assert run.result.detail["switched"] == ["glm-payg -> anthropic-payg (llm_error)"]


@pytest.mark.parametrize("fault", [{"kind": "http", "status": 402}, None])
async def test_neither_billing_nor_refusal_falls_back(tmp_path: Path, fault: Any) -> None:
    script = [turn(fault=fault) if fault else turn(refusal="bio"), turn("never")]
    run = await play(tmp_path, script, "messages", wires=("chat",), switch__rules=to("chat", on="llm_error"))
    assert (run.reason, run.of(Event.MODEL_SWITCHED)) == ("billing_error" if fault else "model_refusal", [])


async def test_without_a_rule_nothing_falls_back(tmp_path: Path) -> None:
    run = await play(
        tmp_path, [turn(fault={"kind": "http", "status": 400}), turn("never")], "chat", wires=("messages",)
    )
    assert (run.reason, "switched" in run.result.detail) == ("llm_error", False)


# ---------------------------------------------------------------------------------------------- a stable prefix


def messages_of(wire: str, body: Any) -> list[Any]:
    return list(body["input" if wire == "responses" else "messages"])


@pytest.mark.parametrize("wire", WIRES)
async def test_the_status_stays_in_the_newest_message_and_the_prefix_is_stable(tmp_path: Path, wire: str) -> None:
    run = await play(
        tmp_path,
        [*HARD_TURNS, turn("half", stop="max_tokens", usage=usage(5)), turn("done")],
        wire,
        task__status="Round {{ round }}, {{ rounds_left }} left.",
        budget__max_rounds=10,
    )
    assert run.reason == "natural"
    sent = [messages_of(wire, body) for body in run.bodies]
    for before, after in itertools.pairwise(sent):
        assert after[: len(before)] == before
    for number, messages in enumerate(sent, 1):
        assert f"Round {number}, {11 - number} left." in str(messages[-1])
        assert str(messages).count("left.") == number
    if wire != "chat":
        key = "instructions" if wire == "responses" else "system"
        assert len({str(body[key]) for body in run.bodies}) == 1
    assert len({str(body["tools"]) for body in run.bodies}) == 1
