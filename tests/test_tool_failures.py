"""Tools that fail, calls that repeat: hints, the recovery chain, the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from loop_kit import WIRES, play, turn

from geode.hooks import Event

FAIL = [("fail", {"n": n}) for n in range(20)]
PLAIN = {"recovery__tool_failures": 0}
"""Without the chain."""


def echo(text: str) -> tuple[str, dict[str, Any]]:
    return ("echo", {"text": text})


# ------------------------------------------------------------------------------------------------------ backpressure


@pytest.mark.parametrize("wire", WIRES)
async def test_a_hint_at_the_third_failure_and_each_further_one(tmp_path: Path, wire: str) -> None:
    script = [*(turn(None, FAIL[n]) for n in range(5)), turn(None, echo("x")), turn(None, FAIL[9]), turn("done")]
    run = await play(tmp_path, script, wire, **PLAIN)
    assert (run.reason, run.hints) == (
        "natural",
        [(3, "backpressure"), (4, "backpressure"), (5, "backpressure")],
    )
    texts = [m.text for m in run.history if m.tool_results]
    assert [bool(text) for text in texts] == [False, False, True, True, True, False, False]
    assert texts[2].startswith("3 tool calls in a row have failed.")


async def test_failures_count_over_all_tools_in_call_order(tmp_path: Path) -> None:
    three = await play(
        tmp_path,
        [turn(None, FAIL[0], ("echo", {}), ("no_such_tool", {})), turn("done")],
        **PLAIN,
    )
    assert three.hints == [(1, "backpressure")]
    reset = await play(tmp_path, [turn(None, FAIL[0], FAIL[1], FAIL[2], echo("x")), turn("done")], **PLAIN)
    assert reset.hints == []
    split = await play(
        tmp_path, [turn(None, FAIL[0], echo("x"), FAIL[1]), turn(None, FAIL[2], FAIL[3]), turn("d")], **PLAIN
    )
    assert split.hints == [(2, "backpressure")]


async def test_denials_are_no_failures(tmp_path: Path) -> None:
    script = [turn(None, *(("write_file", {"path": f"{n}", "content": ""}) for n in range(4))), turn("done")]
    run = await play(tmp_path, script, safety__tiers={"write": "deny"}, **PLAIN)
    assert run.hints == []
    assert len(run.of(Event.TOOL_APPROVAL_DENIED)) == 4


# --------------------------------------------------------------------------------------------- diversity, convergence


async def test_the_same_call_five_times_brings_a_hint_and_eight_the_end(tmp_path: Path) -> None:
    run = await play(tmp_path, [turn(None, echo("x"), repeat="forever")])
    assert (run.reason, run.result.rounds, run.hints) == ("convergence_detected", 8, [(5, "diversity")])
    assert run.result.detail == {"repeats": 8, "tools": ["echo"]}
    hint = run.history[10].text
    assert hint.startswith("The same tool calls with the same arguments were made 5 times in a row.")
    assert run.history[-1].tool_results


async def test_another_call_in_between_starts_anew(tmp_path: Path) -> None:
    script = [turn(None, echo("x"), repeat=7), turn(None, echo("y")), turn(None, echo("x"), repeat=5), turn("done")]
    run = await play(tmp_path, script)
    assert (run.reason, run.hints) == ("natural", [(5, "diversity"), (13, "diversity")])


async def test_arguments_count_whatever_the_order_of_their_keys(tmp_path: Path) -> None:
    calls = [{"name": "long", "arguments": a} for a in ('{"words": 1, "mark": "a"}', '{"mark":"a","words":1}')]
    script = [{"tool_calls": [calls[n % 2]]} for n in range(5)] + [turn("done")]
    run = await play(tmp_path, script)
    assert run.hints == [(5, "diversity")]


async def test_the_same_call_beside_others_counts(tmp_path: Path) -> None:
    script = [turn(None, echo("x"), echo(str(n))) for n in range(5)] + [turn("done")]
    run = await play(tmp_path, script)
    assert run.hints == [(5, "diversity")]


@pytest.mark.parametrize(("period", "hint", "end"), [(2, 10, 16), (3, 15, 24)])
async def test_cycles_of_calls_count(tmp_path: Path, period: int, hint: int, end: int) -> None:
    script = [turn(None, echo("abc"[n % period])) for n in range(40)]
    run = await play(tmp_path, script)
    assert (run.reason, run.result.rounds, run.hints) == ("convergence_detected", end, [(hint, "diversity")])


async def test_a_cycle_longer_than_configured_does_not_count(tmp_path: Path) -> None:
    script = [turn(None, echo("abcd"[n % 4])) for n in range(40)] + [turn("done")]
    run = await play(tmp_path, script)
    assert (run.reason, run.hints) == ("natural", [])


async def test_both_rules_can_be_switched_off(tmp_path: Path) -> None:
    script = [turn(None, FAIL[0], repeat=12), turn("done")]
    off = {"recovery__backpressure": 0, "recovery__repeats": 0}
    run = await play(tmp_path, script, **PLAIN, **off)
    assert (run.reason, run.hints) == ("natural", [])
    no_end = await play(tmp_path, [turn(None, echo("x"), repeat=12), turn("done")], recovery__convergence=0)
    assert (no_end.reason, no_end.hints) == ("natural", [(5, "diversity")])


# --------------------------------------------------------------------------------------------------------- the chain


async def test_after_two_failures_the_chain_ends_in_a_structured_error(tmp_path: Path) -> None:
    run = await play(tmp_path, [*(turn(None, FAIL[n]) for n in range(3)), turn("done")])
    assert [(e.round, e.step, e.failures) for e in run.of(Event.TOOL_RECOVERY_ATTEMPTED)] == [
        (3, "retry", 3),
        (3, "structured_error", 3),
    ]
    (failed,) = run.of(Event.TOOL_RECOVERY_FAILED)
    assert (failed.round, failed.tool, failed.tried) == (3, "fail", ("the same input again",))
    results = [r for m in run.history for r in m.tool_results]
    assert [r.text for r in results][:2] == ["ValueError: no luck with 0", "ValueError: no luck with 1"]
    report = json.loads(results[2].text)
    assert (report["error"], report["tool"], report["failures_in_a_row"]) == ("ValueError: no luck with 2", "fail", 3)
    assert report["what_to_do_instead"]
    assert all(r.is_error for r in results)


async def test_a_retry_may_succeed(tmp_path: Path) -> None:
    run = await play(tmp_path, [*(turn(None, ("flaky", {"n": n})) for n in range(4)), turn("done")])
    assert [(e.round, e.step) for e in run.of(Event.TOOL_RECOVERY_SUCCEEDED)] == [(3, "retry")]
    results = [r for m in run.history for r in m.tool_results]
    assert [(r.text, r.is_error) for r in results] == [
        ("RuntimeError: not yet", True),
        ("RuntimeError: not yet", True),
        ("ok", False),
        ("ok", False),
    ]


async def test_a_declared_alternative_stands_in(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [*(turn(None, FAIL[n]) for n in range(3)), turn("done")],
        recovery__alternatives={"fail": "stand_in"},
        recovery__retry=False,
    )
    (attempted,) = run.of(Event.TOOL_RECOVERY_ATTEMPTED)
    assert (attempted.step, attempted.alternative) == ("alternative", "stand_in")
    (succeeded,) = run.of(Event.TOOL_RECOVERY_SUCCEEDED)
    assert (succeeded.step, succeeded.alternative) == ("alternative", "stand_in")
    (result,) = run.history[6].tool_results
    assert (result.text, result.is_error) == (
        "[fail failed again; this is the result of stand_in with the same input]\nstood in for 2",
        False,
    )


@pytest.mark.parametrize("retier", ["write", "dangerous"])
async def test_a_riskier_alternative_is_never_taken_and_a_risky_tool_never_retried(tmp_path: Path, retier: str) -> None:
    script = [*(turn(None, FAIL[n]) for n in range(3)), turn("done")]
    riskier = await play(
        tmp_path, script, recovery__alternatives={"fail": "stand_in"}, tools__retier={"stand_in": retier}
    )
    assert [e.step for e in riskier.of(Event.TOOL_RECOVERY_ATTEMPTED)] == ["retry", "structured_error"]
    risky = await play(tmp_path, script, tools__retier={"fail": retier})
    assert [e.step for e in risky.of(Event.TOOL_RECOVERY_ATTEMPTED)] == ["structured_error"]


async def test_an_alternative_that_does_not_take_the_input_is_passed_over(tmp_path: Path) -> None:
    script = [*(turn(None, FAIL[n]) for n in range(3)), turn("done")]
    run = await play(tmp_path, script, recovery__alternatives={"fail": "echo"})
    assert [e.step for e in run.of(Event.TOOL_RECOVERY_ATTEMPTED)] == ["retry", "structured_error"]


async def test_every_step_can_be_switched_off(tmp_path: Path) -> None:
    off = {f"recovery__{step}": False for step in ("retry", "alternative", "structured_error")}
    run = await play(tmp_path, [*(turn(None, FAIL[n]) for n in range(3)), turn("done")], **off)
    assert run.of(Event.TOOL_RECOVERY_ATTEMPTED) == []
    assert run.history[6].tool_results[0].text == "ValueError: no luck with 2"


# -------------------------------------------------------------------------------------------------- nobody to answer


async def test_a_question_with_nobody_to_ask_ends_the_run(tmp_path: Path) -> None:
    run = await play(tmp_path, [turn(None, ("ask_user", {"question": "Which branch?"})), turn("never")])
    assert (run.reason, run.result.rounds) == ("user_clarification_needed", 1)
    assert "Which branch?" in run.result.text
    assert len(run.history[-1].tool_results) == 1


async def test_an_action_outside_ends_the_run(tmp_path: Path) -> None:
    script = [turn(None, echo("x"), ("request_action", {"action": "Plug it in."}), echo("y")), turn("never")]
    run = await play(tmp_path, script)
    assert (run.reason, run.result.rounds, run.result.tool_calls) == ("model_action_required", 1, 3)
    assert "Plug it in." in run.result.text
    assert len(run.history[-1].tool_results) == 3
