"""Failed LLM calls: what is retried and how, what is not, refusals, billing, refused tool choices, empty answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from loop_kit import WIRES, continued, deltas, play, turn, usage

from geode.hooks import Event

ECHO = ("echo", {"text": "a"})
DONE = turn("done")


def http(status: int, **more: Any) -> dict[str, Any]:
    return turn(fault={"kind": "http", "status": status, **more})


# ----------------------------------------------------------------------------------------------------------- retries


@pytest.mark.parametrize("wire", WIRES)
async def test_what_passes_is_retried(tmp_path: Path, wire: str) -> None:
    faults = [
        http(408),
        http(409),
        http(429),
        http(500),
        http(503),
        http(529),
        turn(fault="close"),
        turn(fault="broken_json"),
    ]
    run = await play(tmp_path, [*faults, DONE], wire, llm__attempts=9, llm__max_delay_s=0.01)
    assert (run.reason, run.result.text, run.result.rounds) == ("natural", "done", 1)
    retried = run.of(Event.LLM_CALL_RETRIED)
    assert [r.attempt for r in retried] == list(range(1, 9))
    assert [r.status for r in retried][:6] == [408, 409, 429, 500, 503, 529]
    assert [r.kind for r in retried] == [
        "timeout", "server", "rate_limit", "server", "server", "overloaded", "connection", "bad_response",
    ]  # fmt: skip
    assert len({body["model"] for body in run.bodies}) == 1
    assert len({request.body for request in run.provider.requests}) == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_does_not_pass_is_not_retried(tmp_path: Path, status: int) -> None:
    wire = WIRES[status % 3]
    run = await play(tmp_path, [http(status), turn("never")], wire)
    assert (run.reason, run.of(Event.LLM_CALL_RETRIED)) == ("llm_error", [])
    error = run.result.error
    assert error is not None
    assert (error["status"], error["attempts"]) == (status, 1)
    assert error["request_id"] == "req_loopback_000001"
    assert error["provider"]
    (failed,) = run.of(Event.LLM_CALL_FAILED)
    assert (failed.round, failed.status, failed.attempts, failed.kind) == (1, status, 1, error["kind"])


async def test_attempts_run_out(tmp_path: Path) -> None:
    run = await play(tmp_path, [http(500), http(502), http(503), turn("never")], "chat", llm__attempts=3)
    assert run.reason == "llm_error"
    assert run.result.error is not None
    assert (run.result.error["status"], run.result.error["attempts"], run.result.error["kind"]) == (503, 3, "server")
    assert len(run.of(Event.LLM_CALL_RETRIED)) == 2


@pytest.mark.parametrize(
    ("fault", "delay"),
    [
        ({"retry_after": 0.15}, 0.15),
        ({"headers": {"x-ratelimit-reset-requests": "120ms", "x-ratelimit-reset-tokens": "180ms"}}, 0.18),
    ],
)
async def test_the_provider_says_how_long_to_wait(tmp_path: Path, fault: dict[str, Any], delay: float) -> None:
    run = await play(tmp_path, [http(429, **fault), DONE], "responses")
    (retried,) = run.of(Event.LLM_CALL_RETRIED)
    assert retried.delay_s == pytest.approx(delay, abs=0.01)
    assert run.result.elapsed_s >= delay - 0.01


async def test_backoff_doubles_up_to_its_limit(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [*(http(500) for _ in range(5)), DONE],
        "chat",
        llm__attempts=6,
        llm__base_delay_s=0.01,
        llm__max_delay_s=0.04,
        llm__jitter=0.0,
    )
    assert [r.delay_s for r in run.of(Event.LLM_CALL_RETRIED)] == [0.01, 0.02, 0.04, 0.04, 0.04]


async def test_a_cut_stream_is_retried_and_its_text_does_not_stick(tmp_path: Path) -> None:
    seen, on_delta = deltas()
    text = "A long enough answer to come in several pieces."
    run = await play(
        tmp_path, [turn(text, fault={"kind": "cut", "after": 5}), turn("whole")], "messages", on_delta=on_delta
    )
    assert (run.reason, run.result.text) == ("natural", "whole")
    assert [r.kind for r in run.of(Event.LLM_CALL_RETRIED)] == ["connection"]
    assert seen


async def test_the_text_of_a_stream_cut_for_good_is_given_back(tmp_path: Path) -> None:
    text = "A long enough answer to come in several pieces."
    run = await play(
        tmp_path,
        [turn(text, fault={"kind": "cut", "after": 6})],
        "messages",
        adapter__stream=True,
        llm__attempts=1,
    )
    assert run.reason == "llm_error"
    assert run.result.text
    assert text.startswith(run.result.text)


async def test_a_truncated_upload_is_retried(tmp_path: Path) -> None:
    run = await play(tmp_path, [http(400, message="unexpected end of data"), DONE], "messages")
    assert (run.reason, [r.kind for r in run.of(Event.LLM_CALL_RETRIED)]) == ("natural", ["truncated_upload"])


# ------------------------------------------------------------------------------------------------- billing, refusals


@pytest.mark.parametrize(
    ("wire", "fault"),
    [
        ("messages", {"status": 402}),
        ("responses", {"status": 429, "code": "insufficient_quota"}),
        ("responses", {"status": 400, "code": "billing_hard_limit_reached"}),
        ("chat", {"status": 429, "code": "1113"}),
    ],
)
async def test_billing_is_never_retried(tmp_path: Path, wire: str, fault: dict[str, Any]) -> None:
    run = await play(tmp_path, [turn("a", ECHO), http(**fault), turn("never")], wire)
    assert (run.reason, run.of(Event.LLM_CALL_RETRIED), run.result.text) == ("billing_error", [], "a")
    assert run.result.error is not None
    assert (run.result.error["kind"], run.result.error["status"]) == ("billing", fault["status"])


@pytest.mark.parametrize("text", [None, "I began to "])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_refusal_is_honest(tmp_path: Path, wire: str, text: str | None) -> None:
    refused = turn(text, refusal={"category": "cyber", "explanation": "That is not allowed."})
    run = await play(tmp_path, [turn(None, ECHO), refused], wire)
    assert (run.reason, run.result.error) == ("model_refusal", None)
    assert run.result.text.strip()
    if wire == "messages":
        assert run.result.detail["category"] == "cyber"
        assert run.result.detail["stop_details"]["category"] == "cyber"
        if text is None:
            assert "cyber" in run.result.text
    if text is not None and wire == "messages":
        assert run.result.text == text
    await continued(run, wire)


async def test_a_prompt_refused_by_an_error_is_a_refusal(tmp_path: Path) -> None:
    script = [turn(fault={"kind": "failed", "code": "invalid_prompt", "message": "Your prompt was flagged."})]
    run = await play(tmp_path, script, "responses")
    assert (run.reason, run.of(Event.LLM_CALL_RETRIED)) == ("model_refusal", [])
    assert "flagged" in run.result.text


# ------------------------------------------------------------------------------------------------------ empty answers


@pytest.mark.parametrize("wire", WIRES)
async def test_an_empty_answer_is_asked_for_once_more(tmp_path: Path, wire: str) -> None:
    run = await play(tmp_path, [turn(usage=usage(1)), DONE], wire, llm__attempts=1)
    assert (run.reason, run.result.text, run.result.rounds) == ("natural", "done", 1)
    (retried,) = run.of(Event.LLM_CALL_RETRIED)
    assert (retried.kind, retried.delay_s) == ("bad_response", 0.0)
    assert len(run.history) == 2


@pytest.mark.parametrize("wire", WIRES)
async def test_two_empty_answers_are_an_error(tmp_path: Path, wire: str) -> None:
    run = await play(tmp_path, [turn(None, ECHO), turn(usage=usage(1)), turn(usage=usage(1)), turn("never")], wire)
    assert run.reason == "llm_error"
    assert run.result.error is not None
    assert run.result.error["kind"] == "bad_response"
    assert "two responses in a row were empty" in run.result.error["message"]
    await continued(run, wire)


# ------------------------------------------------------------------------------------------------------- tool choice


@pytest.mark.parametrize("wire", ["responses", "chat"])
async def test_a_refused_none_goes_without_tools_and_is_remembered(tmp_path: Path, wire: str) -> None:
    run = await play(
        tmp_path,
        [turn(None, ECHO), http(400, message="tool_choice none is not supported"), turn("", ECHO), turn("forced")],
        wire,
        budget__max_rounds=3,
        budget__wrap_up_rounds=2,
    )
    assert (run.reason, run.result.text, run.result.rounds) == ("forced_text", "forced", 3)
    assert ["tool_choice" in body for body in run.bodies] == [True, True, False, False]
    assert ["tools" in body for body in run.bodies] == [True, True, False, False]
    (retried,) = run.of(Event.LLM_CALL_RETRIED)
    assert (retried.kind, retried.status, retried.delay_s) == ("tool_choice", 400, 0.0)
    assert any(notice.key.startswith("tool_choice_none:") for notice in run.result.notices)


@pytest.mark.parametrize("rounds", ["first", "all"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_forced_choice_holds_as_long_as_configured(tmp_path: Path, wire: str, rounds: str) -> None:
    run = await play(
        tmp_path,
        [turn(None, ECHO), turn(None, ECHO), turn("done")],
        wire,
        tool_choice={"type": "tool", "name": "echo", "rounds": rounds, "on_unsupported": "send"},
    )
    named: Any = {
        "messages": {"type": "tool", "name": "echo"},
        "responses": {"type": "function", "name": "echo"},
        "chat": {"type": "function", "function": {"name": "echo"}},
    }[wire]
    auto: Any = {"type": "auto"} if wire == "messages" else "auto"
    then = named if rounds == "all" else auto
    assert [body["tool_choice"] for body in run.bodies] == [named, then, then]
    assert [r.tool_choice for r in run.of(Event.ROUND_STARTED)] == [
        "echo",
        *(["echo"] * 2 if rounds == "all" else ["auto"] * 2),
    ]


async def test_a_wrong_forced_choice_400_is_an_error(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [http(400, message="tool_choice required is not supported"), turn("never")],
        "responses",
        tool_choice={"type": "required"},
    )
    assert (run.reason, run.of(Event.LLM_CALL_RETRIED)) == ("llm_error", [])
    assert run.result.error is not None
    assert run.result.error["kind"] == "tool_choice"


# ---------------------------------------------------------------------------------------- endings without a tool call


@pytest.mark.parametrize("wire", WIRES)
async def test_a_cut_answer_is_asked_to_go_on(tmp_path: Path, wire: str) -> None:
    cut = {"stop": "max_tokens", "usage": usage(10)}
    run = await play(tmp_path, [turn("one ", **cut), turn("two ", **cut), turn("three")], wire)
    assert (run.reason, run.result.text, run.result.detail) == ("natural", "one two three", {})
    assert run.hints == [(1, "continue"), (2, "continue")]
    assert [m.role for m in run.history] == ["user", "assistant"] * 3


async def test_continuations_end(tmp_path: Path) -> None:
    cut = turn("x", stop="max_tokens", usage=usage(10))
    run = await play(tmp_path, [cut, cut, cut, turn("never")])
    assert (run.reason, run.result.text, run.result.detail, run.result.rounds) == (
        "natural", "xxx", {"truncated": True}, 3,
    )  # fmt: skip


async def test_a_paused_turn_goes_on(tmp_path: Path) -> None:
    run = await play(tmp_path, [turn("looking", stop="pause_turn"), turn("found")], "messages")
    assert (run.reason, run.result.text, run.result.rounds) == ("natural", "found", 2)
    assert run.bodies[1]["messages"][:2] == [
        *run.bodies[0]["messages"],
        {"role": "assistant", "content": [{"type": "text", "text": "looking"}]},
    ]


async def test_content_decides_not_the_stop_reason(tmp_path: Path) -> None:
    run = await play(tmp_path, [turn("x", ECHO, stop="end_turn"), turn("done", stop="tool_use")], "messages")
    assert (run.reason, run.result.text, run.result.tool_calls) == ("natural", "done", 1)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_call_cut_by_the_output_limit_is_not_run(tmp_path: Path, wire: str) -> None:
    cut = turn("x", ECHO, stop="max_tokens")
    cut["tool_calls"] = [{"name": "echo", "arguments": '{"text": "a'}]
    run = await play(tmp_path, [cut, turn("done")], wire)
    assert (run.reason, run.of(Event.TOOL_EXEC_STARTED)) == ("natural", [])
    (result,) = run.history[2].tool_results
    assert (result.is_error, "output limit" in result.text) == (True, True)


async def test_a_stop_sequence_is_natural(tmp_path: Path) -> None:
    run = await play(
        tmp_path, [turn("so far", stop="stop_sequence", stop_sequence="END")], "messages", adapter__stop=["END"]
    )
    assert (run.reason, run.result.text) == ("natural", "so far")


@pytest.mark.parametrize("wire", WIRES)
async def test_a_display_that_raises_does_not_break_a_call(tmp_path: Path, wire: str) -> None:
    def broken(_delta: object) -> None:
        raise RuntimeError("no screen")

    run = await play(tmp_path, [turn("a", ECHO), turn("done")], wire, on_delta=broken)
    assert (run.reason, run.result.text, run.of(Event.LLM_CALL_RETRIED)) == ("natural", "done", [])
