"""The context window: levels, what is done at each, the provider's own overflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from loop_kit import WIRES, continued, play, turn, usage

from geode.contract import TextBlock
from geode.hooks import Event

MODELS = {None: "scripted", "messages": "claude-sonnet-5-5", "responses": "gpt-6.1-sol", "chat": "glm-5.3"}


def long(mark: str, words: int = 400) -> tuple[str, dict[str, Any]]:
    return ("long", {"words": words, "mark": mark})


def window(tokens: int, wire: str | None = None, **more: Any) -> dict[str, Any]:
    """A small window; room is the window less 1000 tokens of output."""
    return {
        "pricing__windows": {MODELS[wire]: tokens},
        "adapter__max_tokens": 1000,
        "toolset__include": ["long", "echo"],
        **more,
    }


def filled(tokens: int) -> dict[str, int]:
    """A provider that says how full the context is: used by the estimate from then on."""
    return usage(10, tokens - 10)


# ------------------------------------------------------------------------------------------------------------ levels


async def test_nothing_is_done_below_the_warning_level(tmp_path: Path) -> None:
    script = [turn(None, ("echo", {"text": "a"}), usage=filled(7900)), turn("done")]
    run = await play(tmp_path, script, **window(11_000))
    assert (run.reason, run.of(Event.CONTEXT_CRITICAL)) == ("natural", [])


@pytest.mark.parametrize("wire", [None, *WIRES])
async def test_at_the_warning_level_older_results_are_offloaded(tmp_path: Path, wire: str | None) -> None:
    script = [
        turn(None, long("a")),
        turn(None, long("b"), long("c")),
        turn(None, long("d"), usage=filled(8000)),
        turn("done"),
    ]
    run = await play(tmp_path, script, wire, **window(11_000, wire))
    assert run.reason == "natural"
    (critical,) = run.of(Event.CONTEXT_CRITICAL)
    assert (critical.round, critical.window) == (4, 11_000)
    (action,) = run.of(Event.CONTEXT_OVERFLOW_ACTION)
    assert (action.round, action.strategy) == (4, "offload")
    assert action.tokens < critical.tokens
    results = [r for m in run.history for r in m.tool_results]
    assert ["ref_id" in r.text for r in results] == [True, True, True, False]
    assert [e.tool for e in run.of(Event.TOOL_RESULT_OFFLOADED)] == ["long"] * 3
    await continued(run, wire or "chat")


async def test_a_result_that_speaks_of_a_ref_id_is_offloaded_all_the_same(tmp_path: Path) -> None:
    script = [turn(None, long("ref_id")), turn(None, long("b"), usage=filled(8300)), turn("done")]
    run = await play(tmp_path, script, **window(11_000))
    first, second = (r.text for m in run.history for r in m.tool_results)
    assert first.startswith("[The result is too large to show whole (")
    assert second.startswith("b0 b1 ")


async def test_what_was_offloaded_can_be_recalled(tmp_path: Path) -> None:
    recall = {
        "name": "recall_tool_result",
        "input": {"ref_id": "{{ (results[0].text | string).split('ref_id ')[1].split(':')[0] }}", "pattern": "a399"},
    }
    script = [
        turn(None, long("a")),
        turn(None, long("b"), usage=filled(8500)),
        {"tool_calls": [recall]},
        turn("{{ results[-1].text }}"),
    ]
    run = await play(tmp_path, script, **window(11_000))
    assert (run.reason, run.of(Event.TOOL_EXEC_FAILED)) == ("natural", [])
    assert "a399" in run.result.text


@pytest.mark.parametrize(
    ("keep", "short"), [(0, [True, True, False]), (1, [True, True, False]), (2, [True, False, False])]
)
async def test_the_newest_unread_results_always_stay(tmp_path: Path, keep: int, short: list[bool]) -> None:
    script = [turn(None, long("a")), turn(None, long("b")), turn(None, long("c"), usage=filled(8300)), turn("done")]
    run = await play(tmp_path, script, **window(11_000, context__keep_results=keep))
    results = [r for m in run.history for r in m.tool_results]
    assert ["ref_id" in r.text for r in results] == short


async def test_at_the_critical_level_the_oldest_rounds_go_in_pairs(tmp_path: Path) -> None:
    script = [turn(f"round {n}", long("abcdefgh"[n])) for n in range(8)] + [turn("done")]
    run = await play(tmp_path, script, **window(4500, tools__result_tokens=0))
    assert run.reason == "natural"
    assert {a.strategy for a in run.of(Event.CONTEXT_OVERFLOW_ACTION)} == {"prune"}
    assert {c.level for c in run.of(Event.CONTEXT_CRITICAL)} == {"warning", "critical"}
    history = run.history
    assert history[0].text.startswith("Do the task.")
    assert "older messages were removed" in history[0].text
    assert history[-1].text == "done"
    assert len(history) < 17


async def test_still_critical_after_all_is_the_end(tmp_path: Path) -> None:
    script = [turn("thinking", long("a", 6000)), turn("never")]
    run = await play(tmp_path, script, **window(6000, tools__result_tokens=0))
    assert (run.reason, run.result.rounds, run.result.text) == ("context_exhausted", 1, "thinking")
    assert run.result.detail["window"] == 6000
    assert run.result.detail["tokens"] >= 4500


async def test_wide_scripts_are_not_undercounted(tmp_path: Path) -> None:
    chinese = await play(tmp_path, [turn("x")], **window(9000, task__prompt="任务" * 4000))
    english = await play(tmp_path, [turn("x")], **window(9000, task__prompt="ab" * 4000))
    assert (chinese.reason, english.reason) == ("context_exhausted", "natural")


async def test_tools_and_system_prompt_are_counted(tmp_path: Path) -> None:
    run = await play(tmp_path, [turn("x")], **window(9000, task__system="word " * 8000))
    assert run.reason == "context_exhausted"


# ----------------------------------------------------------------------------------------------------------- summary


@pytest.mark.parametrize("wire", WIRES)
async def test_a_summary_takes_the_place_of_older_messages(tmp_path: Path, wire: str) -> None:
    script = [
        turn("looking", long("a")),
        turn("and again", long("b")),
        turn("more", long("c"), usage=filled(8900)),
        turn("I saw a and b.", expect={"tool_choice": "none", "max_tokens": 300}),
        turn("done"),
    ]
    run = await play(
        tmp_path,
        script,
        wire,
        **window(11_000, wire, context__summary={"enabled": True, "max_tokens": 300}, tools__result_tokens=0),
    )
    assert (run.reason, run.result.text, run.result.rounds) == ("natural", "done", 4)
    assert [a.strategy for a in run.of(Event.CONTEXT_OVERFLOW_ACTION)] == ["summarise"]
    assert [c.purpose for c in run.of(Event.LLM_CALL_ENDED)] == ["round"] * 3 + ["summary", "round"]
    history = run.history
    assert history[0].text.startswith("Do the task.")
    assert "I saw a and b." in history[0].text
    assert [m.role for m in history] == ["user", "assistant", "user", "assistant"]
    await continued(run, wire)


async def test_a_summary_that_fails_is_done_without(tmp_path: Path) -> None:
    script = [
        turn("looking", long("a")),
        turn("more", long("b"), usage=filled(9500)),
        turn(fault={"kind": "http", "status": 400, "message": "no"}),
        turn("done"),
    ]
    run = await play(
        tmp_path, script, "chat", **window(11_000, "chat", context__summary={"enabled": True}, tools__result_tokens=0)
    )
    assert (run.reason, run.result.text) == ("natural", "done")
    assert [n.key for n in run.result.notices if n.key == "summary"] == ["summary"]
    overflow = [
        turn("looking", long("a")),
        turn("more", long("b"), usage=filled(9500)),
        turn(fault="overflow"),
        turn("done"),
    ]
    again = await play(
        tmp_path, overflow, "chat", **window(11_000, "chat", context__summary={"enabled": True}, tools__result_tokens=0)
    )
    assert (again.reason, again.result.text) == ("natural", "done")


# ----------------------------------------------------------------------------------------------- the provider's error


@pytest.mark.parametrize("wire", WIRES)
async def test_the_providers_overflow_is_compacted_and_tried_once_more(tmp_path: Path, wire: str) -> None:
    script = [turn("a", long("a")), turn("b", long("b")), turn(fault="overflow"), turn("done")]
    run = await play(tmp_path, script, wire)
    assert (run.reason, run.result.text, run.result.rounds) == ("natural", "done", 3)
    (critical,) = run.of(Event.CONTEXT_CRITICAL)
    assert (critical.round, critical.level) == (3, "overflow")
    assert [(r.kind, r.delay_s) for r in run.of(Event.LLM_CALL_RETRIED)] == [("context_overflow", 0.0)]
    assert len(run.bodies) == 4
    assert len(run.provider.requests[3].body) < len(run.provider.requests[2].body)  # type: ignore[union-attr]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_second_overflow_is_the_end(tmp_path: Path, wire: str) -> None:
    script = [turn("a", long("a")), turn("b", long("b")), turn(fault="overflow"), turn(fault="overflow"), turn("never")]
    run = await play(tmp_path, script, wire)
    assert (run.reason, run.result.rounds, run.result.text) == ("context_exhausted", 3, "b")
    assert run.result.detail["cause"]
    assert [f.kind for f in run.of(Event.LLM_CALL_FAILED)] == ["context_overflow"]
    await continued(run, wire)


async def test_an_overflow_with_nothing_to_free_is_the_end(tmp_path: Path) -> None:
    run = await play(tmp_path, [turn(fault="overflow"), turn("never")], "messages")
    assert (run.reason, len(run.bodies)) == ("context_exhausted", 1)


async def test_an_answer_stopped_by_the_window_is_an_overflow(tmp_path: Path) -> None:
    script = [
        turn("a", long("a")),
        turn("b", long("b")),
        turn("as far as I came", stop="context_window_exceeded"),
        turn("done"),
    ]
    run = await play(tmp_path, script, "messages")
    assert (run.reason, run.result.text, run.result.rounds) == ("natural", "done", 3)
    twice = await play(tmp_path, [*script[:3], script[2], turn("never")], "messages")
    assert (twice.reason, twice.result.text) == ("context_exhausted", "as far as I came")
    assert twice.result.detail == {"cause": "context_window_exceeded"}


# ------------------------------------------------------------------------------------------------------ interceptors


async def test_an_interceptor_chooses_the_strategy_or_blocks(tmp_path: Path) -> None:
    script = [turn("a", long("a")), turn("b", long("b")), turn("c", long("c"), usage=filled(8500)), turn("done")]
    hook = {"event": "CONTEXT_OVERFLOW_ACTION"}
    other = await play(
        tmp_path,
        script,
        **window(11_000, hooks__interceptors=[{"_target_": "loop_tools.prune_instead", **hook}]),
    )
    assert other.reason == "natural"
    assert {a.strategy for a in other.of(Event.CONTEXT_OVERFLOW_ACTION)} == {"prune"}
    blocked = await play(
        tmp_path,
        script,
        **window(11_000, hooks__interceptors=[{"_target_": "loop_tools.no_compaction", **hook}]),
    )
    assert (blocked.reason, blocked.of(Event.CONTEXT_OVERFLOW_ACTION)) == ("natural", [])
    assert len(blocked.history) == 8


async def test_a_blocked_compaction_leaves_an_overflow_to_end_the_run(tmp_path: Path) -> None:
    script = [turn("a", long("a")), turn("b", long("b")), turn(fault="overflow"), turn("never")]
    hooks = [{"_target_": "loop_tools.no_compaction", "event": "CONTEXT_OVERFLOW_ACTION"}]
    run = await play(tmp_path, script, "chat", hooks__interceptors=hooks)
    assert (run.reason, run.result.text) == ("context_exhausted", "b")


# ------------------------------------------------------------------------------------------- what must not be lost


@pytest.mark.parametrize("summary", [False, True])
async def test_a_later_question_outlives_compaction(tmp_path: Path, summary: bool) -> None:
    first = await play(tmp_path, [turn("a", long("a")), turn("first answer")], **window(400_000))
    small: dict[str, Any] = window(
        4500, "chat", tools__result_tokens=0, context__summary={"enabled": summary}, context__warning=0.5
    )
    turns = [turn(f"round {n}", long("bcdefghi"[n])) for n in range(8)]
    if summary:  # its request is answered by whichever turn is next
        text = "{{ 'what I saw' if 'Summarise' in user else 'went on' }}"
        turns = [*(turn(text, long(mark)) for mark in "bcdefghi"), turn(text, repeat="forever")]
    run = await continued(first, "chat", turns, **small)
    assert run.of(Event.CONTEXT_OVERFLOW_ACTION)
    texts = [block.text for m in run.history for block in m.content if isinstance(block, TextBlock)]
    assert texts[0] == "Do the task."
    assert texts.count("Go on.") == 1
    assert sum("older messages were removed" in text for text in texts) == (0 if summary else 1)
    assert sum(text.startswith("Summary of the work so far") for text in texts) == (1 if summary else 0)
    if not summary:
        (note,) = (text for text in texts if "older messages were removed" in text)
        removed = 4 + 2 * 8 + 2 - len(run.history)
        assert note == f"[{removed} older messages were removed to make room]"
