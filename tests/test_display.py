"""What the console shows, line by line; nothing from a model or a tool can move the cursor."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from geode import hooks
from geode.contract import Notice, TerminationReason, ToolResultBlock, Usage
from geode.display import REASONS, Display, clean, summary_line
from geode.loop.result import AgenticResult

USAGE = Usage(input_tokens=1200, output_tokens=80, cache_read_tokens=300)


def shown(*payloads: hooks.Payload, mode: str = "plain") -> list[str]:
    err = io.StringIO()
    display = Display(mode, out=io.StringIO(), err=err)
    for payload in payloads:
        display.observe(payload)
    display.close()
    return err.getvalue().splitlines()


def test_a_round_of_two_tools() -> None:
    assert shown(
        hooks.SessionStarted("r", "s", "glm-payg", "glm-5.3", ("a", "b"), cost_budget=1.0),
        hooks.RoundStarted(1, "auto"),
        hooks.ToolExecStarted(1, "t1", "grep_files", {"pattern": "x", "limit": 3}, "safe"),
        hooks.ToolExecStarted(1, "t2", "calculate", {"expression": "1/0"}, "safe"),
        hooks.ToolExecFailed(1, "t2", "calculate", ToolResultBlock("t2", "no", True), "E", "division by zero", 0.0),
        hooks.ToolExecEnded(1, "t1", "grep_files", ToolResultBlock("t1", '{"count": 2}'), 0.25),
        hooks.TurnCompleted(1, 2, USAGE, 0.0123, 2.04),
    ) == [
        "glm-payg (glm-5.3) · 2 tools",
        "round 1",
        '  ✗ calculate(expression="1/0") → division by zero (0.00 s)',
        '  ✓ grep_files(pattern="x", limit=3) → {"count": 2} (0.25 s)',
        "  1,500 in, 80 out, 300 cached · $0.0123 of $1.00 · 2.0 s",
    ]


@pytest.mark.parametrize(
    ("payload", "line"),
    [
        (
            hooks.SessionStarted("r", "s", "scripted", "scripted", ("a",), scripted=True),
            "scripted · scripted, no model · 1 tool",
        ),
        (hooks.RoundStarted(3, "none", wrap_up=True), "round 3 · wrap-up"),
        (hooks.RoundStarted(1, "required"), "round 1 · tool choice required"),
        (
            hooks.LlmCallRetried(1, "a", "m", 1, 1.5, "rate_limit", "slow down", 429),
            "  ! attempt 1 failed (rate_limit HTTP 429), again in 1.5 s",
        ),
        (
            hooks.LlmCallFailed(1, "a", "m", "auth", "bad key", 401),
            "  ✗ LLM call failed (auth): bad key",
        ),
        (
            hooks.ToolApprovalDenied(1, "t", "write_file", "write", "no_terminal", "nobody to ask"),
            "  ✗ write_file denied (write): nobody to ask",
        ),
        (hooks.HintInserted(1, "diversity", "Try\nanother way"), "  ! hint (diversity): Try another way"),
        (hooks.CostWarning(1, 0.8, 1.0, 0.8), "  ! $0.8000 of $1.00 spent (80%)"),
        (hooks.WrapUpStarted(4, "time"), "  ! wrap-up: the time nears its end"),
        (
            hooks.ModelSwitched(2, "a", "m", "b", "n", "on llm_error"),
            "  ! a (m) → b (n): on llm_error",
        ),
        (
            hooks.SubagentFailed(2, "agent-1", "max_rounds", "no answer"),
            "  ✗ sub-agent agent-1: max_rounds, no answer",
        ),
    ],
)
def test_lines(payload: hooks.Payload, line: str) -> None:
    assert shown(payload) == [line]


def test_control_characters_of_tools_and_models_are_escaped() -> None:
    lines = shown(
        hooks.ToolExecStarted(1, "t", "evil\x1b[2J", {"a": "\x1b]0;title\x07"}, "safe"),
        hooks.ToolExecEnded(1, "t", "evil\x1b[2J", ToolResultBlock("t", "\x1b[31mred\u202e"), 0.0),
    )
    assert "\x1b" not in "".join(lines)
    assert "\\x1b[31mred\\u202e" in lines[0]
    assert clean("a\tb\r\x1b[2J\nc") == "a\tb\n\\x1b[2J\nc"


def result(reason: TerminationReason = TerminationReason.NATURAL, **more: object) -> AgenticResult:
    return AgenticResult("The answer.", reason, rounds=2, tool_calls=1, usage=USAGE, cost=0.5, elapsed_s=3.2, **more)  # type: ignore[arg-type]


def finish(mode: str, done: AgenticResult) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    Display(mode, out=out, err=err).finish(done, Path("/somewhere/run"))
    return out.getvalue(), err.getvalue()


def test_the_answer_and_the_summary_go_to_standard_output() -> None:
    assert finish("plain", result()) == (
        "The answer.\n"
        "[natural: the model finished · 2 rounds · 1 tool call · 1,580 tokens · $0.5000 · 3.2 s · /somewhere/run]\n",
        "",
    )


def test_quiet_speaks_up_only_when_there_is_no_answer() -> None:
    assert finish("quiet", result()) == ("The answer.\n", "")
    out, err = finish("quiet", result(TerminationReason.MAX_ROUNDS))
    assert out == "The answer.\n"
    assert err.startswith("[max_rounds: the round limit was reached · ")
    _, err = finish("quiet", result(TerminationReason.LLM_ERROR, error={"kind": "auth", "message": "bad key"}))
    assert err.splitlines()[0] == "  ✗ bad key"


def test_notices_are_shown_once_with_their_override() -> None:
    err = io.StringIO()
    notice = Notice("k", "tools are left out", "adapter.on_tools=error")
    display = Display("plain", out=io.StringIO(), err=err)
    display.notice(notice)
    display.finish(result(notices=(notice,)), None)
    assert err.getvalue() == "  ! tools are left out (adapter.on_tools=error)\n"


def test_details_stand_in_the_summary() -> None:
    line = summary_line(result(TerminationReason.TIME_BUDGET_EXPIRED, detail={"scope": "session"}), None, scripted=True)
    assert line == (
        "[time_budget_expired: the time was used up, scope session · 2 rounds · 1 tool call · 1,580 tokens · $0.5000 · "
        "3.2 s · scripted, no model]"
    )
    assert "over the cost budget" in summary_line(result(detail={"over_budget": True}), None)


def test_every_reason_has_words() -> None:
    assert set(REASONS) == set(TerminationReason) - {TerminationReason("unknown")}


def test_live_mode_shows_the_same_lines() -> None:
    lines = shown(hooks.RoundStarted(1, "auto"), hooks.WrapUpStarted(1, "rounds"), mode="live")
    assert [line for line in lines if "round" in line] == ["round 1", "  ! wrap-up: the rounds near their end"]
