"""Hooks: every event with its payload, their order, hooks from a config folder."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import loop_tools
import pytest
from loop_kit import KEYS, PRICE, Run, changed, play, settings, turn, usage

from geode.compose import compose_settings
from geode.config_errors import ConfigFault
from geode.hooks import PAYLOADS, Event
from geode.runner import run_settings

ECHO = ("echo", {"text": "a"})

ELSEWHERE = {
    Event.SUBAGENT_STARTED,
    Event.SUBAGENT_COMPLETED,
    Event.SUBAGENT_FAILED,
    Event.TOOL_APPROVAL_REQUESTED,
}
"""Emitted in the tests of sub-agents, and where there is a person to ask."""


def test_each_event_has_one_payload_model_that_says_what_it_means() -> None:
    assert set(PAYLOADS) == set(Event)
    for event, model in PAYLOADS.items():
        assert is_dataclass(model)
        assert model.event is event
        assert model.__doc__
        assert not model.__doc__.startswith(f"{model.__name__}("), "documented, not generated"


# ------------------------------------------------------------------------------------------------------ every event


async def _scenes(folder: Path) -> list[Run]:
    failing = [turn(None, ("fail", {"n": n})) for n in range(3)]
    return [
        await play(folder, [turn("x", ECHO), turn("done")], budget__max_rounds=2),
        await play(folder, [turn(fault={"kind": "http", "status": 500}), turn(fault={"kind": "http", "status": 400})]),
        await play(folder, [*failing, turn(None, ("flaky", {}), ("flaky", {}), ("flaky", {})), turn("done")]),
        await play(
            folder, [turn(None, ("flaky", {"n": n})) for n in range(3)] + [turn("done")], tools__result_tokens=0
        ),
        await play(folder, [turn(None, ("long", {"words": 5000})), turn("done")], tools__result_tokens=500),
        await play(
            folder,
            [turn(None, ("write_file", {"path": "a", "content": ""})), turn("done")],
            safety__tiers={"write": "deny"},
        ),
        await play(
            folder,
            [turn(None, ECHO, usage=usage(90)), turn(None, ECHO, usage=usage(90)), turn("never")],
            budget__cost_budget=0.1,
            pricing__overrides={"scripted": PRICE},
        ),
        await play(
            folder,
            [turn(None, ("slow", {"seconds": 0.5})), turn("done")],
            budget__session_s=0.52,
            budget__wrap_up_s=0.1,
        ),
        await play(
            folder,
            [
                turn(None, ("long", {"words": 400})),
                turn(None, ("long", {"words": 401}), usage=usage(10, 8500)),
                turn("d"),
            ],
            pricing__windows={"scripted": 11_000},
            adapter__max_tokens=1000,
        ),
        await play(
            folder,
            [turn(None, ECHO), turn("done")],
            "chat",
            switch__rules=[{"model": "other", "after_rounds": 1}],
        ),
    ]


async def test_every_event_is_emitted_with_its_payload(tmp_path: Path) -> None:
    seen: dict[Event, list[Any]] = {}
    for run in await _scenes(tmp_path):
        for payload in run.events:
            seen.setdefault(payload.event, []).append(payload)
    assert set(Event) - set(seen) == ELSEWHERE
    for payloads in seen.values():
        for payload in payloads:
            _assert_typed(payload)


def _assert_typed(payload: Any) -> None:
    """Each field holds what its annotation says (the outer type)."""
    for name, hint in get_type_hints(type(payload)).items():
        if name == "event":
            continue
        value = getattr(payload, name)
        options = getattr(hint, "__args__", None) if type(hint).__name__ == "UnionType" else (hint,)
        plain = tuple(getattr(option, "__origin__", option) for option in options or ())
        if float in plain:
            plain += (int,)
        assert isinstance(value, plain), f"{type(payload).__name__}.{name} is {value!r}"


async def test_the_order_of_a_plain_run(tmp_path: Path) -> None:
    run = await play(tmp_path, [turn("x", ECHO), turn("done")])
    one = ["ROUND_STARTED", "LLM_CALL_STARTED", "LLM_CALL_ENDED"]
    tools = ["TOOL_APPROVAL_GRANTED", "TOOL_EXEC_STARTED", "TOOL_EXEC_ENDED"]
    assert run.names == [
        "SESSION_STARTED",
        "USER_INPUT_RECEIVED",
        *one,
        *tools,
        "TURN_COMPLETED",
        *one,
        "TURN_COMPLETED",
        "SESSION_ENDED",
    ]


async def test_turn_completed_carries_the_totals_at_the_end_of_each_round(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [turn("x", ECHO, ECHO, usage=usage(10, 100)), turn("done", usage=usage(5, 50))],
        pricing__overrides={"scripted": PRICE},
    )
    first, second = run.of(Event.TURN_COMPLETED)
    assert (first.round, first.tool_calls, first.usage.total_tokens) == (1, 2, 110)
    assert (second.round, second.tool_calls, second.usage.total_tokens) == (2, 0, 165)
    assert first.cost == pytest.approx(0.0101)
    assert second.cost == pytest.approx(0.01515)
    assert 0 < first.elapsed_s < second.elapsed_s


@pytest.mark.parametrize(
    ("script", "settings", "reason", "calls"),
    [
        ([turn(fault={"kind": "http", "status": 400})], {}, "llm_error", 0),
        ([turn("late", delay_s=60)], {"budget__time_budget_s": 0.2}, "time_budget_expired", 0),
        ([turn("x", ("slow", {"seconds": 60}))], {"budget__time_budget_s": 0.3}, "time_budget_expired", 1),
        ([turn(fault={"kind": "overflow"})] * 2, {}, "context_exhausted", 0),
    ],
)
async def test_a_round_that_is_cut_off_completes_too(
    tmp_path: Path, script: list[dict[str, Any]], settings: dict[str, Any], reason: str, calls: int
) -> None:
    run = await play(tmp_path, script, **settings)
    assert run.result.termination_reason == reason
    (completed,) = run.of(Event.TURN_COMPLETED)
    assert (completed.round, completed.tool_calls) == (1, calls)
    assert run.names[-2:] == ["TURN_COMPLETED", "SESSION_ENDED"]


async def test_the_journal_holds_what_the_hooks_saw(tmp_path: Path) -> None:
    run = await play(tmp_path, [turn("x", ECHO), turn("done")])
    lines = [json.loads(line) for line in (run.folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()]
    kinds = [line["event"] for line in lines]
    assert [k for k in kinds if k in Event.__members__] == run.names
    ended = next(line for line in lines if line["event"] == "SESSION_ENDED")
    assert {f.name for f in fields(PAYLOADS[Event.SESSION_ENDED])} <= set(ended)


# ------------------------------------------------------------------------------------------------ hooks from a config


async def test_hooks_are_listed_in_a_users_own_config_folder(tmp_path: Path) -> None:
    group = tmp_path / "conf" / "hooks"
    group.mkdir(parents=True)
    (group / "mine.yaml").write_text(
        "observers:\n"
        "  - {_target_: loop_tools.Recorder, name: from-yaml, events: [TURN_COMPLETED, SESSION_ENDED]}\n"
        "interceptors:\n"
        "  - {_target_: loop_tools.shout, event: USER_INPUT_RECEIVED}\n",
        encoding="utf-8",
    )
    chosen = compose_settings(
        ["--config-dir", str(tmp_path / "conf"), "hooks=mine", "task=question", "task.prompt=hello", "display=quiet"]
    )
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"turns": [turn("done")]}), encoding="utf-8")
    result = await run_settings(changed(chosen, {"adapter__script": str(script)}), tmp_path / "run", environ=KEYS)
    assert result.termination_reason.value == "natural"
    assert [p.event for p in loop_tools.Recorder.seen.pop("from-yaml")] == [Event.TURN_COMPLETED, Event.SESSION_ENDED]
    assert '"HELLO"' in (tmp_path / "run" / "journal.jsonl").read_text(encoding="utf-8")


async def test_a_hook_that_cannot_be_imported_is_a_config_error(tmp_path: Path) -> None:
    chosen = settings(hooks__observers=[{"_target_": "loop_tools.nothing"}, {"_target_": "no_such_module.x"}])
    with pytest.raises(ConfigFault) as caught:
        await run_settings(chosen, tmp_path, environ={})
    assert [line.partition(":")[0] for line in caught.value.lines] == [
        "hooks.observers.0._target_",
        "hooks.observers.1._target_",
    ]
