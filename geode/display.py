"""What the console shows of a run: an observer of its hooks, and its end.

Progress goes to standard error, the answer and one summary line to standard output, so that a pipe gets the answer.
On a terminal progress is coloured and has a status line. Whatever comes from a model or a tool is shown with its
control characters escaped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from geode import hooks
from geode.contract import Notice, TerminationReason, ToolResultBlock, Usage
from geode.tools.terminal import visible

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.status import Status

    from geode.loop.result import AgenticResult

__all__ = ["REASONS", "Display", "clean", "summary_line"]

REASONS: Mapping[TerminationReason, str] = {
    TerminationReason.NATURAL: "the model finished",
    TerminationReason.FORCED_TEXT: "wrap-up made the model answer in text",
    TerminationReason.MAX_ROUNDS: "the round limit was reached",
    TerminationReason.TIME_BUDGET_EXPIRED: "the time was used up",
    TerminationReason.COST_BUDGET_EXCEEDED: "the cost reached the budget",
    TerminationReason.CONTEXT_EXHAUSTED: "the context window is full, even after pruning",
    TerminationReason.LLM_ERROR: "an LLM call failed for good",
    TerminationReason.MODEL_ACTION_REQUIRED: "the model says that something must be done first",
    TerminationReason.USER_CLARIFICATION_NEEDED: "the model has a question",
    TerminationReason.MODEL_REFUSAL: "the provider's safety system refused",
    TerminationReason.INPUT_BLOCKED: "an interceptor blocked the input",
    TerminationReason.BILLING_ERROR: "payment or quota is at an end",
    TerminationReason.USER_CANCELLED: "cancelled",
    TerminationReason.CONVERGENCE_DETECTED: "the loop repeated itself without progress",
    TerminationReason.TOKEN_BUDGET_EXCEEDED: "the token budget was reached",
}
"""Each termination reason in words."""

_LIMIT = 72
Styled = tuple[str, str]
"""A line and its style (rich's words; ignored where there is no terminal)."""


def clean(text: str) -> str:
    """Text of several lines with its control characters escaped; line ends and tabs stay."""
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in text.splitlines())


def _short(text: str, limit: int = _LIMIT) -> str:
    text = visible(" ".join(text.split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _call(tool: str, arguments: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False, default=str)}" for key, value in arguments.items())
    return f"{visible(tool)}({_short(shown)})"


def _result(result: ToolResultBlock) -> str:
    images = 0 if isinstance(result.content, str) else sum(hasattr(block, "media_type") for block in result.content)
    return _short(result.text + (f" [{images} image{'s' * (images > 1)}]" if images else ""))


def _usage(usage: Usage) -> str:
    parts = [f"{usage.total_input_tokens:,} in", f"{usage.output_tokens:,} out"]
    if usage.cache_read_tokens:
        parts.append(f"{usage.cache_read_tokens:,} cached")
    return ", ".join(parts)


class _Lines:
    """Turns payloads into lines. Knows the calls that are under way."""

    def __init__(self) -> None:
        self.cost_budget = 0.0
        self._calls: dict[str, str] = {}

    def of(self, payload: hooks.Payload) -> Iterable[Styled]:
        make: Callable[[Any], Iterable[Styled]] | None = getattr(self, payload.event.value.lower(), None)
        return make(payload) if make else ()

    def session_started(self, p: hooks.SessionStarted) -> Iterable[Styled]:
        self.cost_budget = p.cost_budget
        who = f"{p.adapter} ({p.model})" if p.model and p.model != p.adapter else p.adapter
        scripted = " · scripted, no model" if p.scripted else ""
        yield f"{who}{scripted} · {len(p.tools)} tool{'s' * (len(p.tools) != 1)}", "bold"

    def round_started(self, p: hooks.RoundStarted) -> Iterable[Styled]:
        extra = " · wrap-up" if p.wrap_up else "" if p.tool_choice == "auto" else f" · tool choice {p.tool_choice}"
        yield f"round {p.round}{extra}", "bold cyan"

    def llm_call_ended(self, p: hooks.LlmCallEnded) -> Iterable[Styled]:
        if p.tool_uses and p.text.strip():
            yield f"  {_short(p.text, 100)}", "italic"

    def llm_call_retried(self, p: hooks.LlmCallRetried) -> Iterable[Styled]:
        status = f" HTTP {p.status}" if p.status else ""
        yield f"  ! attempt {p.attempt} failed ({p.kind}{status}), again in {p.delay_s:.1f} s", "yellow"

    def llm_call_failed(self, p: hooks.LlmCallFailed) -> Iterable[Styled]:
        yield f"  ✗ LLM call failed ({p.kind}): {_short(p.message, 120)}", "red"

    def tool_exec_started(self, p: hooks.ToolExecStarted) -> Iterable[Styled]:
        self._calls[p.tool_use_id] = _call(p.tool, p.input)
        return ()

    def tool_exec_ended(self, p: hooks.ToolExecEnded) -> Iterable[Styled]:
        call = self._calls.pop(p.tool_use_id, visible(p.tool))
        mark, style = ("✗", "red") if p.result.is_error else ("✓", "green")
        yield f"  {mark} {call} → {_result(p.result)} ({p.elapsed_s:.2f} s)", style

    def tool_exec_failed(self, p: hooks.ToolExecFailed) -> Iterable[Styled]:
        call = self._calls.pop(p.tool_use_id, visible(p.tool))
        yield f"  ✗ {call} → {_short(p.message)} ({p.elapsed_s:.2f} s)", "red"

    def tool_result_offloaded(self, p: hooks.ToolResultOffloaded) -> Iterable[Styled]:
        yield f"  · {visible(p.tool)}: {p.tokens:,} tokens kept aside as {p.ref_id}", "dim"

    def tool_recovery_attempted(self, p: hooks.ToolRecoveryAttempted) -> Iterable[Styled]:
        other = f" {p.alternative}" if p.alternative else ""
        yield f"  ! {visible(p.tool)} failed {p.failures} times: {p.step.replace('_', ' ')}{other}", "yellow"

    def tool_approval_denied(self, p: hooks.ToolApprovalDenied) -> Iterable[Styled]:
        yield f"  ✗ {visible(p.tool)} denied ({p.tier}): {_short(p.reason)}", "yellow"

    def context_overflow_action(self, p: hooks.ContextOverflowAction) -> Iterable[Styled]:
        yield f"  ! context {p.tokens:,} of {p.window:,} tokens: {p.strategy}", "yellow"

    def cost_warning(self, p: hooks.CostWarning) -> Iterable[Styled]:
        yield f"  ! ${p.cost:.4f} of ${p.budget:.2f} spent ({p.cost / p.budget:.0%})", "yellow"

    def handoff_triggered(self, p: hooks.HandoffTriggered) -> Iterable[Styled]:
        yield f"  ! the session ends in {max(0.0, p.session_s - p.elapsed_s):.0f} s", "yellow"

    def hint_inserted(self, p: hooks.HintInserted) -> Iterable[Styled]:
        if p.kind != "status":
            yield f"  ! hint ({p.kind}): {_short(p.text)}", "yellow"

    def wrap_up_started(self, p: hooks.WrapUpStarted) -> Iterable[Styled]:
        what = "rounds near their end" if p.cause == "rounds" else "time nears its end"
        yield f"  ! wrap-up: the {what}", "yellow"

    def model_switched(self, p: hooks.ModelSwitched) -> Iterable[Styled]:
        yield f"  ! {p.from_adapter} ({p.from_model}) → {p.to_adapter} ({p.to_model}): {p.cause}", "yellow"

    def subagent_started(self, p: hooks.SubagentStarted) -> Iterable[Styled]:
        yield f"  · sub-agent {p.agent_id} ({p.toolset}): {_short(p.task)}", "dim"

    def subagent_completed(self, p: hooks.SubagentCompleted) -> Iterable[Styled]:
        yield f"  · sub-agent {p.agent_id}: {p.termination_reason} after {p.rounds} rounds, ${p.cost:.4f}", "dim"

    def subagent_failed(self, p: hooks.SubagentFailed) -> Iterable[Styled]:
        yield f"  ✗ sub-agent {p.agent_id}: {p.termination_reason}, {_short(p.error)}", "red"

    def turn_completed(self, p: hooks.TurnCompleted) -> Iterable[Styled]:
        of = f" of ${self.cost_budget:.2f}" if self.cost_budget else ""
        yield f"  {_usage(p.usage)} · ${p.cost:.4f}{of} · {p.elapsed_s:.1f} s", "dim"


class Display:
    """The console of one run.

    mode: `auto` (live on a terminal, else plain), `live`, `plain` or `quiet`. `observe` is for the hook bus, `notice`
    a notice sink, `pause` for a terminal that asks a question. Lines go to `err`, the answer to `out`.
    """

    def __init__(self, mode: str = "auto", *, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._out, self._err = out or sys.stdout, err or sys.stderr
        if mode == "auto":
            mode = "live" if self._out.isatty() and self._err.isatty() else "plain"
        self.mode = mode
        self._lines = _Lines()
        self._scripted = False
        self._console: RichConsole | None = None
        self._status: Status | None = None
        self._noticed: set[str] = set()
        self._mask: Callable[[str], str] = lambda text: text
        if mode == "live":
            from rich.console import Console

            self._console = Console(file=self._err, highlight=False, markup=False, emoji=False)

    def hide(self, mask: Callable[[str], str]) -> None:
        """Takes secrets out of everything from here on."""
        self._mask = mask

    def observe(self, payload: hooks.Payload) -> None:
        """Shows an event."""
        if isinstance(payload, hooks.SessionStarted):
            self._scripted = payload.scripted
        for text, style in self._lines.of(payload):
            self._line(text, style)
        if self._console is not None:
            self._update(payload)

    def notice(self, notice: Notice) -> None:
        """Shows what was degraded, dropped or denied, once, with the override that changes it."""
        if notice.key in self._noticed:
            return
        self._noticed.add(notice.key)
        override = f" ({notice.override})" if notice.override else ""
        self._line(f"  ! {clean(notice.message)}{override}", "yellow")

    def pause(self, asking: bool) -> None:
        """Takes the status line away while a question stands on the terminal."""
        if self._status is not None:
            (self._status.stop if asking else self._status.start)()

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def finish(self, result: AgenticResult, folder: Path | None) -> None:
        """Shows the answer, the notices that were not shown yet, and one line that sums the run up."""
        self.close()
        for notice in result.notices:
            self.notice(notice)
        summary = summary_line(result, folder, scripted=self._scripted)
        good = result.termination_reason in (TerminationReason.NATURAL, TerminationReason.FORCED_TEXT)
        if result.error:
            self._line(f"  ✗ {clean(str(result.error.get('message', result.error)))}", "red", always=True)
        if result.text:
            print(clean(self._mask(result.text)), file=self._out)
        if self.mode != "quiet":
            print(("\n" if self.mode == "live" else "") + summary, file=self._out)
        elif not good:
            print(summary, file=self._err)
        self._out.flush()

    def _line(self, text: str, style: str, *, always: bool = False) -> None:
        text = self._mask(text)
        if self._console is not None:
            self._console.print(text, style=style, soft_wrap=True)
        elif self.mode == "plain" or always:
            print(text, file=self._err, flush=True)

    def _update(self, payload: hooks.Payload) -> None:
        assert self._console is not None
        if isinstance(payload, hooks.SessionEnded):
            self.close()
            return
        if isinstance(payload, hooks.LlmCallStarted):
            text = f"{payload.adapter} is thinking"
        elif isinstance(payload, hooks.ToolExecStarted):
            text = f"running {_call(payload.tool, payload.input)}"
        else:
            return
        text = self._mask(text)
        if self._status is None:
            self._status = self._console.status(_plain(text))
            self._status.start()
        else:
            self._status.update(_plain(text))


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)


def summary_line(result: AgenticResult, folder: Path | None, *, scripted: bool = False) -> str:
    """One line: why the run ended, what it used, where its files are."""
    reason = result.termination_reason
    scope = f", scope {result.detail['scope']}" if result.detail.get("scope") else ""
    over = ", over the cost budget" if result.detail.get("over_budget") else ""
    cut = ", cut off" if result.detail.get("truncated") else ""
    parts = [
        f"{reason.value}: {REASONS.get(reason, reason.value)}{scope}{over}{cut}",
        f"{result.rounds} round{'s' * (result.rounds != 1)}",
        f"{result.tool_calls} tool call{'s' * (result.tool_calls != 1)}",
        f"{result.usage.total_tokens:,} tokens",
        f"${result.cost:.4f}",
        f"{result.elapsed_s:.1f} s",
    ]
    if scripted:
        parts.append("scripted, no model")
    if folder is not None:
        parts.append(_relative(folder))
    return f"[{' · '.join(parts)}]"


def _relative(folder: Path) -> str:
    try:
        return str(folder.relative_to(Path.cwd()))
    except ValueError:
        return str(folder)
