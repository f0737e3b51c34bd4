"""From settings to a loop: every part made once, in one place, and handed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from geode.adapters.cli_prompt import check_text_only
from geode.config_errors import ConfigFault
from geode.contract import (
    AdapterCallRequest,
    AdapterError,
    Delta,
    History,
    Message,
    Notice,
    TerminationReason,
    ToolChoice,
    ToolSpec,
    Usage,
)
from geode.hooks import HookBus
from geode.loop.agent_loop import AgentLoop
from geode.loop.answering import Answering
from geode.loop.answers import AnswerContract
from geode.loop.context import ContextManager, Summariser
from geode.loop.guards import (
    CostGuard,
    OverthinkingGuard,
    RoundsGuard,
    SessionGuard,
    TimeGuard,
    TokenGuard,
)
from geode.loop.limits import CostCeiling, Deadline, RetryPolicy
from geode.loop.llm import LlmCaller
from geode.loop.policy import TurnPolicy
from geode.loop.progress import ProgressWatch
from geode.loop.result import RunEnded
from geode.loop.state import RunState
from geode.loop.switching import Backend, Switchboard
from geode.runner.backends import Backends
from geode.runner.notices import NoticeBoard
from geode.runner.request_parts import additions, read_schema, resolve_tool_choice, system_prompt
from geode.runner.toolbox import Toolbox
from geode.settings import Settings
from geode.tokens import estimate_tokens

__all__ = ["Budgets", "assemble", "check_request"]

_IMAGE_TOKENS = 6000
"""Most tokens that one image costs on any of the wires (high-resolution images on Messages come to some 4,800)."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """The budgets of a run: the config's, or a sub-agent's share of its parent's."""

    max_rounds: int
    time_budget_s: float
    session_s: float
    cost_budget: float
    token_budget: int

    @classmethod
    def of(cls, settings: Settings) -> Budgets:
        b = settings.budget
        return cls(b.max_rounds, b.time_budget_s, b.session_s, b.cost_budget, b.token_budget)


def assemble(
    settings: Settings,
    *,
    backend: Backend,
    backends: Backends,
    toolbox: Toolbox,
    workspace: Path,
    history: History,
    state: RunState,
    bus: HookBus,
    notices: NoticeBoard,
    budgets: Budgets,
    on_delta: Callable[[Delta], None] | None = None,
    announcements: Callable[[], Sequence[str]] = tuple,
    frozen: Mapping[str, Any] | None = None,
) -> AgentLoop:
    """The loop of one run. Raises ConfigFault where a part cannot be made.

    frozen: values of `task.status` in place of those that a clock gives.
    """
    b, notify = settings.budget, notices.post
    choice = resolve_tool_choice(settings, toolbox.toolset.names())
    schema = read_schema(settings)
    system = system_prompt(settings, backend, toolbox, workspace)
    board = Switchboard(backend, bus, backends.switch_rules(), budgets.cost_budget, open_backend=backends.switch)
    deadline = Deadline(state, budgets.time_budget_s, budgets.session_s)
    calls = LlmCaller(
        board,
        state,
        bus,
        deadline,
        RetryPolicy(**settings.llm.model_dump()),
        _ceiling(settings, budgets, board),
        notify,
        on_delta,
    )
    on_demand = toolbox.on_demand

    def tools() -> tuple[ToolSpec, ...]:
        capabilities = board.adapter.capabilities
        if not capabilities.tools:
            return ()
        return toolbox.toolset.specs() if on_demand is None else on_demand.specs(capabilities, history)

    def deferred() -> frozenset[str]:
        return frozenset() if on_demand is None else on_demand.deferred(board.adapter.capabilities)

    if on_demand is not None and backend.adapter.capabilities.tools and (late := len(on_demand.late())):
        text = f"{late} of {len(toolbox.toolset.names())} tools are loaded on demand (more than {on_demand.threshold})"
        notify(Notice("tools.deferred", text, "tools.defer_threshold=0"))
    if not backend.adapter.capabilities.tools:
        _say_text_only(settings, backend, toolbox, choice, notices)
    request = AdapterCallRequest((), system, response_schema=schema)
    overhead = _overhead(system, tools)
    context = ContextManager(
        history,
        bus,
        window=lambda: board.backend.window,
        max_tokens=lambda: board.adapter.max_tokens,
        overhead=overhead,
        offload=toolbox.offload if settings.tools.result_tokens else None,
        summarise=_summariser(settings, calls, request, history, tools, deferred),
        warning=settings.context.warning,
        critical=settings.context.critical,
        keep_results=settings.context.keep_results,
    )
    o = b.overthinking
    overthinking = OverthinkingGuard(
        o.responses,
        lambda: min(max(o.min_tokens, int(o.window_share * board.backend.window)), board.adapter.max_tokens),
    )
    cost_guard = CostGuard(budgets.cost_budget, b.cost_warning, bus)
    policy = TurnPolicy(
        bus,
        deadline,
        lambda: board.adapter.max_tokens,
        choice,
        settings.tool_choice.rounds == "all",
        budgets.max_rounds,
        budgets.cost_budget,
        b.wrap_up_rounds,
        b.wrap_up_s,
        b.wrap_up_max_tokens,
    )
    r = settings.recovery
    return AgentLoop(
        history,
        state,
        bus,
        calls,
        toolbox.processor,
        [
            RoundsGuard(budgets.max_rounds),
            TimeGuard(budgets.time_budget_s),
            SessionGuard(budgets.session_s, b.handoff_s, bus),
            cost_guard,
            TokenGuard(budgets.token_budget, b.token_scope),
            overthinking,
        ],
        policy,
        context,
        ProgressWatch(r.backpressure, r.repeats, r.cycle, r.convergence),
        overthinking,
        Answering(
            history,
            state,
            bus,
            AnswerContract(schema, settings.response.repair) if schema is not None else None,
            settings.response.continuations,
            notices.all,
            cost_guard,
        ),
        request,
        tools,
        additions(settings, state, policy, deadline, announcements, frozen or {}, notices.post),
        deferred,
    )


def _say_text_only(
    settings: Settings, backend: Backend, toolbox: Toolbox, choice: ToolChoice, notices: NoticeBoard
) -> None:
    """A backend that takes no tools goes on without them, or is a fault (`adapter.on_tools`)."""
    asked = AdapterCallRequest((), tools=toolbox.toolset.specs(), tool_choice=choice)
    try:
        check_text_only(asked, backend.adapter.name, settings.adapter.on_tools, notices.post)
    except AdapterError as error:
        raise ConfigFault([f"adapter.on_tools: {error.message}"]) from error


def check_request(loop: AgentLoop, settings: Settings) -> None:
    """Builds the first request before anything runs: what the adapter refuses to send is a fault of the config."""
    request = replace(
        loop.request,
        messages=(Message.user(settings.task.prompt),),
        tools=loop.tools(),
        deferred=loop.deferred(),
        tool_choice=loop.policy.tool_choice,
    )
    try:
        loop.calls.board.adapter.build(request)
    except AdapterError as error:
        raise ConfigFault([error.message]) from error


def _ceiling(settings: Settings, budgets: Budgets, board: Switchboard) -> CostCeiling | None:
    if not settings.budget.cost_hard or not budgets.cost_budget:
        return None

    def cost(usage: Usage) -> float:
        return board.cost(usage) or 0.0

    return CostCeiling(budgets.cost_budget, settings.budget.cost_margin_tokens, _IMAGE_TOKENS, cost)


def _overhead(system: str, tools: Callable[[], Any]) -> Callable[[], int]:
    def overhead() -> int:
        specs = (f"{s.name}{s.description}{dict(s.input_schema)}" for s in tools())
        return estimate_tokens(system) + sum(estimate_tokens(text) for text in specs)

    return overhead


def _summariser(
    settings: Settings,
    calls: LlmCaller,
    request: AdapterCallRequest,
    history: History,
    tools: Callable[[], Any],
    deferred: Callable[[], frozenset[str]],
) -> Summariser | None:
    """Asks the model in use. A summary that fails is done without: the run goes on, and older messages are pruned."""
    if not settings.context.summary.enabled:
        return None
    summary = settings.context.summary

    async def summarise() -> str | None:
        asked = replace(
            request,
            messages=(*history, Message.user(summary.prompt)),
            tools=tools(),
            deferred=deferred(),
            tool_choice=ToolChoice("none"),
            round=calls.state.rounds + 1,
            max_tokens=summary.max_tokens,
            thinking=False,
            response_schema=None,
        )
        try:
            return (await calls.call(asked, purpose="summary")).text.strip() or None
        except AdapterError as error:
            reason = str(error)
        except RunEnded as ended:
            if ended.end.reason is not TerminationReason.LLM_ERROR:
                raise
            reason = str((ended.end.error or {}).get("message"))
        calls.notify(Notice("summary", f"no summary was made: {reason}", "context.summary.enabled=false"))
        return None

    return summarise
