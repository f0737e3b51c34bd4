"""Sub-agents: nested loops that `delegate_task` starts, with a toolset and a share of their parent's budgets.

A sub-agent has a folder of its own in its parent's run folder (`agents/agent-N`, with journal and result), an adapter
of its own, and the parent's workspace, approvals and interceptors. What it uses counts as used by its parents too, at
once, so that no budget is passed by delegating. It ends, at the latest, with its parent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from geode import __version__
from geode.config_errors import ConfigFault
from geode.contract import History, Notice, TerminationReason
from geode.hooks import HookBus, SubagentCompleted, SubagentFailed, SubagentStarted
from geode.journal import Journal
from geode.loop.agent_loop import AgentLoop
from geode.loop.result import AgenticResult, End
from geode.loop.state import SessionRecord
from geode.runner.assembly import Budgets, assemble
from geode.runner.backends import Backends
from geode.runner.nested_state import NestedLedger, NestedState, share_of
from geode.runner.notices import NoticeBoard
from geode.runner.records import started_event, write_result
from geode.runner.toolbox import Toolbox, open_toolbox
from geode.settings import Settings, ToolChoiceSettings
from geode.tools.approval import ApprovalDesk
from geode.tools.offload import TokenGuard
from geode.tools.registry import ToolRegistry
from geode.tools.terminal import Terminal
from geode.tools.types import SUBAGENTS, ToolError, ToolReturn

__all__ = ["Shared", "Subagents"]

_CANCEL_WAIT_S = 4.0
"""Seconds that a cancelled sub-agent has to write its result down; less than a cancelled tool call has."""
_TOOL_MARGIN_S = 1.0
"""A sub-agent's time ends so much before its call's, so that its text comes back."""


@dataclass(slots=True)
class Shared:
    """What all agents of a run have in common. started: agents so far, those of an interrupted run included."""

    settings: Settings
    registry: ToolRegistry
    backends: Backends
    desk: ApprovalDesk
    terminal: Terminal | None
    workspace: Path
    environ: Mapping[str, str]
    mask: Callable[[str], str]
    run_id: str = ""
    started: int = 0


@dataclass(slots=True)
class _Agent:
    """One sub-agent. `budgets` is what it was given, `state` what it used."""

    id: str
    text: str
    toolset: str
    background: bool
    folder: Path
    round: int
    budgets: Budgets
    state: NestedState
    task: asyncio.Task[AgenticResult] | None = None
    announced: bool = False


@dataclass(slots=True)
class Subagents:
    """The sub-agents of one run (or of a sub-agent: `depth` levels below the run)."""

    shared: Shared
    run_dir: Path
    bus: HookBus
    notices: NoticeBoard
    depth: int = 0
    _loop: AgentLoop | None = None
    _toolbox: Toolbox | None = None
    _budgets: Budgets | None = None
    _agents: list[_Agent] = field(default_factory=list)

    def bind(self, loop: AgentLoop, toolbox: Toolbox, budgets: Budgets) -> None:
        """Tells whose sub-agents these are."""
        self._loop, self._toolbox, self._budgets = loop, toolbox, budgets
        loop.closing = self.finish
        taken = [p for p in (self.run_dir / "agents").glob("agent-*") if p.name.removeprefix("agent-").isdecimal()]
        self.shared.started = max([self.shared.started, *(int(p.name.removeprefix("agent-")) for p in taken)])

    async def delegate(
        self, task: str, *, toolset: str | None, background: bool, round: int, deadline: float | None
    ) -> ToolReturn:
        """Runs a sub-agent to its end, or starts it in the background. Raises ToolError where it cannot be had."""
        given = self.shared.settings.subagents
        agent = self._make(task, toolset or given.toolset, background and given.background, round, deadline)
        run_dir = agent.folder.relative_to(self.run_dir).as_posix()
        self.bus.emit(SubagentStarted(round, agent.id, task, agent.toolset, agent.background, run_dir))
        agent.task = asyncio.create_task(self._life(agent), name=agent.id)
        if agent.background:
            return ToolReturn({"agent": agent.id, "status": "running", "note": "Its answer comes in a later turn."})
        try:
            await asyncio.wait({agent.task})
        except asyncio.CancelledError:
            await _cancel([agent.task])
            raise
        agent.announced = True
        result = agent.task.result()
        return ToolReturn(_answer(agent, result), is_error=result.termination_reason.exit_code != 0)

    def announcements(self) -> Sequence[str]:
        """Texts for the parent's next turn: one for each background agent that has ended since the last."""
        ended = [a for a in self._agents if not a.announced and a.task is not None and a.task.done()]
        texts = []
        for agent in ended:
            agent.announced = True
            assert agent.task is not None
            result = agent.task.result()
            texts.append(
                f"Sub-agent {agent.id}, which ran in the background, has ended ({result.termination_reason.value}). "
                f"Its task began: {agent.text[:100]!r}. Its answer:\n\n{self._fitting(result.text)}"
            )
        return texts

    async def finish(self, end: End) -> None:
        """Before the parent ends: with an answer, agents in the background may finish within the wrap-up time; what
        still runs is cancelled."""
        running = [a for a in self._agents if a.task is not None and not a.task.done()]
        tasks = [a.task for a in running if a.task is not None]
        if tasks and end.reason.exit_code == 0:
            assert self._loop is not None
            at, _ = self._loop.calls.deadline.at()
            seconds = self.shared.settings.budget.wrap_up_s
            if at is not None:
                seconds = min(seconds, at - time.monotonic())
            await asyncio.wait(tasks, timeout=max(0.0, seconds))
        for agent in self._agents:
            if agent.task is None or agent.announced:
                continue
            agent.announced = True
            done = agent.task.done()
            what = "ended after the last round" if done else "was cancelled, since the run ended before it"
            where = (agent.folder / "result.json").relative_to(self.run_dir).as_posix()
            text = f"sub-agent {agent.id} {what}: its answer was not used ({where})"
            self.notices.post(Notice(f"subagent:{agent.id}", text, "budget.wrap_up_s=SECONDS"))
        await _cancel(tasks)

    # ------------------------------------------------------------------------------------------------------- one agent

    def _make(self, text: str, toolset: str, background: bool, round: int, deadline: float | None) -> _Agent:
        shared, given = self.shared, self.shared.settings.subagents
        if toolset not in shared.settings.toolsets:
            names = ", ".join(sorted(shared.settings.toolsets))
            raise ToolError(f"There is no toolset {toolset!r} for sub-agents. There are: {names}.")
        if shared.started >= given.max_agents:
            raise ToolError(
                f"This run may have {given.max_agents} sub-agents in all, and has had them: do the task yourself."
            )
        shared.started += 1
        budgets = self._share(None if background else deadline)
        assert self._loop is not None
        assert self._budgets is not None
        parent = self._loop.state
        ledger = NestedLedger(parent.ledger, budgets.cost_budget, self._budgets.cost_budget)
        state = NestedState(SessionRecord(parent.session.id), ledger, parent=parent)
        name = f"agent-{shared.started}"
        agent = _Agent(name, text, toolset, background, self.run_dir / "agents" / name, round, budgets, state)
        self._agents.append(agent)
        return agent

    def _share(self, deadline: float | None) -> Budgets:
        assert self._loop is not None
        assert self._budgets is not None
        running = [(a.budgets, a.state) for a in self._agents if a.task is not None and not a.task.done()]
        at, _ = self._loop.calls.deadline.at()
        left = at - time.monotonic() if at is not None else None
        own = deadline - asyncio.get_running_loop().time() - _TOOL_MARGIN_S if deadline is not None else None
        return share_of(self.shared.settings, self._budgets, self._loop.state, running, left, own)

    async def _life(self, agent: _Agent) -> AgenticResult:
        """The whole of a sub-agent. Raises nothing: a fault is a result."""
        try:
            result = await self._run(agent)
        except asyncio.CancelledError:
            result = AgenticResult("", TerminationReason.USER_CANCELLED)
        except ConfigFault as fault:
            result = _failed("config", "; ".join(fault.lines))
        except Exception as error:
            result = _failed("crash", f"{type(error).__name__}: {error}")
        reason = result.termination_reason
        if reason.exit_code == 0:
            self.bus.emit(
                SubagentCompleted(agent.round, agent.id, reason.value, result.rounds, result.usage, result.cost)
            )
        else:
            why = str((result.error or {}).get("message") or result.text[:500] or reason.value)
            self.bus.emit(SubagentFailed(agent.round, agent.id, reason.value, why))
        return result

    async def _run(self, agent: _Agent) -> AgenticResult:
        shared = self.shared
        settings = shared.settings.model_copy(
            update={
                "tool_choice": ToolChoiceSettings(),
                "response": shared.settings.response.model_copy(update={"schema_": None}),
                "toolset": shared.settings.toolsets[agent.toolset],
            }
        )
        agent.folder.mkdir(parents=True, exist_ok=True)
        notices = NoticeBoard()
        notices.tell(lambda notice: self.notices.post(_of(agent, notice)))
        assert self._loop is not None
        async with AsyncExitStack() as stack:
            backend = shared.backends.another(self._loop.calls.board.backend)
            bus = HookBus(timeout_s=settings.hooks.timeout_s, notify=notices.post)
            bus.ask_as_well(self.bus)
            below = Subagents(shared, agent.folder, bus, notices, self.depth + 1)
            toolbox = open_toolbox(
                settings,
                shared.registry,
                run_dir=agent.folder,
                workspace=shared.workspace,
                bus=bus,
                notify=notices.post,
                desk=shared.desk,
                terminal=shared.terminal,
                services={SUBAGENTS: below},
                environ=shared.environ,
                mask=shared.mask,
                origin=agent.id,
                delegates=self.depth + 1 < settings.subagents.max_depth,
            )
            stack.callback(toolbox.processor.close)
            history = History()
            loop = assemble(
                settings,
                backend=backend,
                backends=shared.backends,
                toolbox=toolbox,
                workspace=shared.workspace,
                history=history,
                state=agent.state,
                bus=bus,
                notices=notices,
                budgets=agent.budgets,
                announcements=below.announcements,
            )
            if backend is not self._loop.calls.board.backend:
                stack.push_async_callback(loop.calls.board.aclose)
            below.bind(loop, toolbox, agent.budgets)
            journal = Journal(
                agent.folder / "journal.jsonl",
                fsync=settings.journal.fsync,
                mask=shared.mask,
                notify=notices.post,
            )
            stack.callback(journal.close)
            run_id = f"{shared.run_id}.{agent.id}"
            journal.header(
                run_id=run_id,
                session_id=agent.state.session.id,
                geode=__version__,
                resumed=False,
                workspace=str(shared.workspace),
                settings=settings.model_dump(mode="json", by_alias=True),
            )
            bus.inline(journal.observe)
            history.watch(journal.watch)
            notices.tell(journal.notice)
            stack.push_async_callback(bus.aclose)
            bus.emit(started_event(loop, agent.budgets, run_id, scripted=shared.backends.scripted))
            result = await loop.run(agent.text)
            write_result(agent.folder / "result.json", result, shared.mask)
        return result

    def _fitting(self, text: str) -> str:
        """An answer as it can be announced: a long one goes to the store, as a long tool result does."""
        limit = self.shared.settings.tools.result_tokens
        if not limit or self._toolbox is None:
            return text
        content, _ = TokenGuard(self._toolbox.store, limit, self.notices.post).apply(text)
        return content if isinstance(content, str) else text


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_CANCEL_WAIT_S)


def _answer(agent: _Agent, result: AgenticResult) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "agent": agent.id,
        "termination_reason": result.termination_reason.value,
        "rounds": result.rounds,
        "answer": result.text,
    }
    if result.error is not None:
        answer["error"] = result.error.get("message")
    return answer


def _failed(kind: str, message: str) -> AgenticResult:
    return AgenticResult("", TerminationReason.LLM_ERROR, error={"kind": kind, "message": message})


def _of(agent: _Agent, notice: Notice) -> Notice:
    return replace(notice, key=f"{agent.id}:{notice.key}", message=f"{agent.id}: {notice.message}")
