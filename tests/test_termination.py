"""Each way in which a run may end, through the public entry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cli_kit import RunGeode
from loop_kit import PRICE, WIRES, Run, continued, play, turn, usage

from geode.contract import TerminationReason

ECHO = ("echo", {"text": "a"})


@dataclass(frozen=True)
class Case:
    """A script with the settings that make it end so."""

    reason: str
    script: list[dict[str, Any]]
    changes: Mapping[str, Any] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = ""
    """None: some text of geode's own."""
    rounds: int = 1
    code: int = 1
    cancel_at: str | None = None
    """Name of the tool during whose call the run is cancelled."""
    calls: int = 0
    error: Mapping[str, Any] = field(default_factory=dict)


WINDOW = {"pricing__windows": {"MODEL": 9000}, "adapter__max_tokens": 1000}

CASES = {
    "natural": Case("natural", [turn("looking", ECHO), turn("done")], rounds=2, code=0, text="done", calls=1),
    "forced_text": Case(
        "forced_text",
        [turn(None, ECHO), turn("all I have")],
        {"budget__max_rounds": 2},
        rounds=2,
        code=0,
        text="all I have",
        calls=1,
    ),
    "max_rounds": Case(
        "max_rounds",
        [turn("first", ECHO), turn("second", ECHO)],
        {"budget__max_rounds": 2},
        {"max_rounds": 2},
        rounds=2,
        text="second",
        calls=2,
    ),
    "time_budget_expired": Case(
        "time_budget_expired",
        [turn("before", ECHO), turn(None, fault="hang")],
        {"budget__time_budget_s": 0.7, "budget__wrap_up_s": 0},
        {"scope": "run", "in_flight": "llm_call", "time_budget_s": 0.7},
        rounds=2,
        text="before",
        calls=1,
    ),
    "cost_budget_exceeded": Case(
        "cost_budget_exceeded",
        [turn("dear", ECHO, usage=usage(100)), turn("never")],
        {"budget__cost_budget": 0.05, "pricing__overrides": {"MODEL": PRICE}},
        {"cost": 0.1, "cost_budget": 0.05, "hard": False},
        text="dear",
        calls=1,
    ),
    "context_exhausted": Case(
        "context_exhausted",
        [turn("never")],
        {**WINDOW, "task__prompt": "word " * 40_000},
        {"window": 9000},
        rounds=0,
    ),
    "llm_error": Case(
        "llm_error",
        [turn("before", ECHO), turn(fault={"kind": "http", "status": 400, "message": "no such thing"})],
        detail={"kind": "invalid_request", "attempts": 1},
        rounds=2,
        text="before",
        calls=1,
        error={"kind": "invalid_request", "status": 400, "attempts": 1},
    ),
    "model_action_required": Case(
        "model_action_required",
        [turn(None, ("request_action", {"action": "plug it in", "reason": "it is off"}), ECHO)],
        text=None,
        calls=2,
    ),
    "user_clarification_needed": Case(
        "user_clarification_needed",
        [turn(None, ("ask_user", {"question": "Which one?"}), ECHO)],
        text=None,
        calls=2,
    ),
    "model_refusal": Case("model_refusal", [turn(None, ECHO), turn(refusal="cyber")], text=None, rounds=2, calls=1),
    "input_blocked": Case(
        "input_blocked",
        [turn("never")],
        {
            "hooks__interceptors": [{"_target_": "loop_tools.no_input", "event": "USER_INPUT_RECEIVED"}],
        },
        {"reason": "not today"},
        rounds=0,
        text="not today",
    ),
    "billing_error": Case(
        "billing_error",
        [turn(fault={"kind": "http", "status": 402})],
        detail={"kind": "billing", "attempts": 1},
        error={"kind": "billing", "status": 402, "attempts": 1},
    ),
    "user_cancelled": Case(
        "user_cancelled",
        [turn("before", ECHO), turn(None, ECHO, ("slow", {"seconds": 30}))],
        detail={"round": 2},
        text="before",
        rounds=2,
        code=130,
        cancel_at="slow",
        calls=3,
    ),
    "convergence_detected": Case(
        "convergence_detected",
        [turn(None, ECHO, repeat="forever")],
        detail={"repeats": 8, "tools": ["echo"]},
        rounds=8,
        calls=8,
    ),
    "token_budget_exceeded": Case(
        "token_budget_exceeded",
        [turn("so far", ECHO, usage=usage(100, 900))],
        {"budget__token_budget": 1000},
        {"tokens": 1000, "token_budget": 1000, "scope": "all"},
        text="so far",
        calls=1,
    ),
}

MODELS = {None: "scripted", "messages": "claude-sonnet-5-5", "responses": "gpt-6.1-sol", "chat": "glm-5.3"}


def _for_model(changes: Mapping[str, Any], wire: str | None) -> dict[str, Any]:
    model = MODELS[wire]
    return {
        key: {model: value["MODEL"]} if isinstance(value, dict) and "MODEL" in value else value
        for key, value in changes.items()
    }


def test_every_reason_has_a_case() -> None:
    assert set(CASES) | {"unknown"} == {reason.value for reason in TerminationReason}


DIFFERENT = ("natural", "time_budget_expired", "llm_error", "model_refusal", "billing_error", "user_cancelled")
"""Reasons whose way through the adapter differs from wire to wire; the rest is the loop's own."""


@pytest.mark.parametrize(
    ("name", "wire"),
    [(n, w) for i, n in enumerate(CASES) for w in (WIRES if n in DIFFERENT else (WIRES[i % 3],))] + [("natural", None)],
)
async def test_each_reason_is_reached_and_its_history_goes_on(tmp_path: Path, name: str, wire: str | None) -> None:
    case = CASES[name]
    run = await play(
        tmp_path,
        case.script,
        wire,
        cancel_at=case.cancel_at,
        **_for_model(case.changes, wire),
    )

    assert (run.reason, run.result.error) == (case.reason, run.result.error)
    assert {key: run.result.detail.get(key) for key in case.detail} == case.detail
    assert (run.result.rounds, run.result.tool_calls) == (case.rounds, case.calls)
    assert run.result.termination_reason.exit_code == case.code
    if case.text is None:
        assert run.result.text
    else:
        assert run.result.text == case.text
    found = run.result.error or {}
    assert {key: found.get(key) for key in case.error} == case.error
    _assert_told(run)
    await continued(run, wire or "chat")


def _assert_told(run: Run) -> None:
    """The last event and result.json say the same as the result."""
    data = json.loads((run.folder / "result.json").read_text(encoding="utf-8"))
    assert data["termination_reason"] == run.reason
    assert run.names[-1] == "SESSION_ENDED"
    assert (run.events[-1].termination_reason, run.events[-1].text) == (run.reason, run.result.text)  # type: ignore[attr-defined]
    assert run.names.count("SESSION_ENDED") == 1


@pytest.mark.parametrize(
    ("script", "more", "code", "reason"),
    [
        ([turn("done")], [], 0, "natural"),
        ([turn(None, "glob_files"), turn("forced")], ["budget.max_rounds=2"], 0, "forced_text"),
        ([turn(None, "glob_files")], ["budget.max_rounds=1"], 1, "max_rounds"),
        ([turn(refusal="bio")], [], 1, "model_refusal"),
    ],
)
def test_exit_code_of_the_command(
    geode: RunGeode, tmp_path: Path, script: list[dict[str, Any]], more: list[str], code: int, reason: str
) -> None:
    (tmp_path / "script.yaml").write_text(json.dumps({"turns": script}), encoding="utf-8")
    ran = geode("adapter.script=script.yaml", *more)
    result = json.loads((ran.run_dir() / "result.json").read_text(encoding="utf-8"))
    assert (ran.code, result["termination_reason"]) == (code, reason)
