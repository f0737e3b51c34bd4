"""Money: warnings, the budget, the hard ceiling, unknown prices and unknown usage."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from loop_kit import PRICE, WIRES, play, settings, turn, usage

from geode.config_errors import ConfigFault
from geode.hooks import Event
from geode.runner import run_settings

ECHO = ("echo", {"text": "a"})
MODELS = {"messages": "claude-sonnet-5-5", "responses": "gpt-6.1-sol", "chat": "glm-5.3"}


def priced(budget: float, model: str = "scripted", **more: Any) -> dict[str, Any]:
    return {"budget__cost_budget": budget, "pricing__overrides": {model: PRICE}, **more}


async def test_the_warning_comes_once_and_the_end_at_the_whole(tmp_path: Path) -> None:
    script = [turn("x", ECHO, usage=usage(40)) for _ in range(5)]
    run = await play(tmp_path, script, **priced(0.1))
    assert (run.reason, run.result.rounds, run.result.cost) == ("cost_budget_exceeded", 3, pytest.approx(0.12))
    (warning,) = run.of(Event.COST_WARNING)
    assert (warning.round, warning.cost, warning.budget, warning.share) == (2, pytest.approx(0.08), 0.1, 0.8)
    (limit,) = run.of(Event.COST_LIMIT_EXCEEDED)
    assert (limit.round, limit.cost, limit.budget, limit.hard) == (4, pytest.approx(0.12), 0.1, False)


async def test_exactly_the_budget_ends_the_run(tmp_path: Path) -> None:
    run = await play(tmp_path, [turn("x", ECHO, usage=usage(125)), turn("never")], **priced(0.125))
    assert (run.reason, run.result.detail["cost"]) == ("cost_budget_exceeded", 0.125)


async def test_a_final_answer_over_the_budget_is_kept(tmp_path: Path) -> None:
    run = await play(tmp_path, [turn("dear but done", usage=usage(200))], **priced(0.1))
    assert (run.reason, run.result.text, run.result.detail) == ("natural", "dear but done", {"over_budget": True})
    assert len(run.of(Event.COST_WARNING)) == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_usage_is_priced_on_every_wire(tmp_path: Path, wire: str) -> None:
    counted = {"input": 1000, "output": 100, "cache_read": 400}
    price = {"input_mtok": 10.0, "output_mtok": 100.0, "cache_read_mtok": 1.0}
    run = await play(tmp_path, [turn("x", usage=counted)], wire, pricing__overrides={MODELS[wire]: price})
    assert run.result.cost == pytest.approx((1000 * 10 + 400 * 1 + 100 * 100) / 1e6)
    assert (run.result.usage.input_tokens, run.result.usage.cache_read_tokens) == (1000, 400)


async def test_an_unknown_price_is_an_error_before_any_call(tmp_path: Path) -> None:
    chosen = settings("glm-payg", adapter__model="no-such-model", budget__cost_budget=1.0, provider__kind="scripted")
    with pytest.raises(ConfigFault) as caught:
        await run_settings(chosen, tmp_path, environ={})
    (line,) = caught.value.lines
    assert line.startswith("budget.cost_budget: the price of 'no-such-model' is unknown")
    assert "pricing.unknown=free" in line


async def test_so_is_the_unknown_price_of_a_model_that_a_rule_switches_to(tmp_path: Path) -> None:
    chosen = settings(
        "glm-payg",
        switch__rules=[{"model": "no-such-model", "after_rounds": 3}],
        budget__cost_budget=1.0,
        provider__kind="scripted",
    )
    with pytest.raises(ConfigFault) as caught:
        await run_settings(chosen, tmp_path, environ={})
    assert "'no-such-model'" in caught.value.lines[0]


async def test_an_unknown_price_counted_as_free_is_told(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [turn("x", usage=usage(1000))],
        "chat",
        adapter__model="no-such-model",
        budget__cost_budget=1.0,
        pricing__unknown="free",
    )
    assert (run.reason, run.result.cost) == ("natural", 0.0)
    assert run.of(Event.LLM_CALL_ENDED)[0].cost is None
    assert "price:no-such-model" in [notice.key for notice in run.result.notices]


@pytest.mark.parametrize("wire", WIRES)
async def test_missing_usage_is_told(tmp_path: Path, wire: str) -> None:
    run = await play(tmp_path, [turn("x", usage="missing")], wire)
    assert (run.reason, run.result.usage.known) == ("natural", False)
    assert [n.message for n in run.result.notices if n.key.startswith("usage:")] != []


# ------------------------------------------------------------------------------------------------------- the ceiling


@pytest.mark.parametrize("wire", WIRES)
async def test_the_ceiling_lowers_the_output_limit_and_refuses_what_cannot_fit(tmp_path: Path, wire: str) -> None:
    field = "max_output_tokens" if wire == "responses" else "max_tokens"
    run = await play(
        tmp_path,
        [turn("x", ECHO, usage=usage(300, 100)), turn("y", ECHO, usage=usage(20, 100), repeat="forever")],
        wire,
        adapter__max_tokens=500,
        budget__cost_hard=True,
        toolset__include=["echo"],
        **priced(0.6, MODELS[wire]),
    )
    limits = [body[field] for body in run.bodies]
    assert limits[0] == 500
    assert all(0 < limit < 500 for limit in limits[1:])
    assert limits == sorted(limits, reverse=True)
    assert run.result.cost <= 0.6


async def test_a_call_that_cannot_fit_is_not_made(tmp_path: Path) -> None:
    run = await play(tmp_path, [turn("never")], "messages", budget__cost_hard=True, **priced(0.001, MODELS["messages"]))
    assert (run.reason, run.bodies, run.result.rounds) == ("cost_budget_exceeded", [], 0)
    assert run.result.detail == {"cost": 0.0, "cost_budget": 0.001, "hard": True}
    (limit,) = run.of(Event.COST_LIMIT_EXCEEDED)
    assert (limit.hard, limit.round) == (True, 1)


def _random_turns(rng: random.Random) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for _ in range(12):
        kind = rng.choice(["call", "call", "call", "missing", "cut", "hang", "429", "500", "empty", "max"])
        output = rng.randint(1, 16)
        match kind:
            case "call":
                turns.append(
                    turn(
                        "x" * rng.randint(1, 40),
                        ("echo", {"text": "y" * rng.randint(0, 200)}),
                        usage=usage(output, rng.randint(1, 300)),
                    )
                )
            case "missing":
                turns.append(turn(None, ECHO, usage="missing"))
            case "cut":
                turns.append(turn("some text that is cut", fault="cut"))
            case "hang":
                turns.append(turn("some text that never ends", fault={"kind": "hang", "after": 3}))
            case "empty":
                turns.append(turn(None, usage=usage(output)))
            case "max":
                turns.append(turn("half", stop="max_tokens", usage=usage(output)))
            case status:
                turns.append(turn(fault={"kind": "http", "status": int(status)}))
    return [*turns, turn("end", usage=usage(1), repeat="forever")]


@pytest.mark.parametrize("seed", range(12))
async def test_the_ceiling_is_never_passed(tmp_path: Path, seed: int) -> None:
    """Whatever is answered, cut, retried or left uncounted: what the provider may have billed stays within it."""
    rng = random.Random(seed)
    wire = WIRES[seed % 3]
    budget = rng.choice([0.02, 0.05, 0.1, 0.4])
    turns = _random_turns(rng)
    run = await play(
        tmp_path,
        turns,
        wire,
        adapter__max_tokens=64,
        adapter__timeout_s=0.15,
        adapter__stream=rng.random() < 0.5,
        budget__cost_hard=True,
        toolset__include=["echo"],
        llm__attempts=3,
        llm__base_delay_s=0.0,
        **priced(budget, MODELS[wire]),
    )
    assert run.result.cost <= budget
    assert run.reason in ("cost_budget_exceeded", "natural", "llm_error", "convergence_detected")
    billed = 0.0
    for index, body in enumerate(run.bodies):
        played = turns[min(index, len(turns) - 1)]
        fault, counted = played.get("fault"), played.get("usage")
        if isinstance(fault, dict) and fault["kind"] == "http":
            continue  # refused by status: not billed
        if fault or counted == "missing":  # whatever it was: at most a token for each byte, and the whole limit
            field = "max_output_tokens" if wire == "responses" else "max_tokens"
            billed += len(run.provider.requests[index].body) / 1e6 + body[field] / 1e3  # type: ignore[union-attr]
        elif counted:
            billed += counted["input"] / 1e6 + counted["output"] / 1e3
    assert billed <= budget
