"""Hooks: event names, one payload model per event, and the bus that carries them.

Observers see an event and cannot change the run: one that raises or hangs is reported once and does no harm.
Interceptors (USER_INPUT_RECEIVED, TOOL_EXEC_STARTED, CONTEXT_OVERFLOW_ACTION) may rewrite the payload or block; one
that raises, or takes longer than `timeout_s`, blocks.

The journal, the console display and the OpenTelemetry exporter are observers like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

from geode.contract import Notice, NoticeSink, ToolResultBlock, Usage

__all__ = ["PAYLOADS", "Block", "Event", "HookBus", "Payload"]


class Event(StrEnum):
    """Every event of a run."""

    SESSION_STARTED = "SESSION_STARTED"
    USER_INPUT_RECEIVED = "USER_INPUT_RECEIVED"
    ROUND_STARTED = "ROUND_STARTED"
    TURN_COMPLETED = "TURN_COMPLETED"
    SESSION_ENDED = "SESSION_ENDED"
    LLM_CALL_STARTED = "LLM_CALL_STARTED"
    LLM_CALL_ENDED = "LLM_CALL_ENDED"
    LLM_CALL_FAILED = "LLM_CALL_FAILED"
    LLM_CALL_RETRIED = "LLM_CALL_RETRIED"
    TOOL_EXEC_STARTED = "TOOL_EXEC_STARTED"
    TOOL_EXEC_ENDED = "TOOL_EXEC_ENDED"
    TOOL_EXEC_FAILED = "TOOL_EXEC_FAILED"
    TOOL_RESULT_OFFLOADED = "TOOL_RESULT_OFFLOADED"
    TOOL_RECOVERY_ATTEMPTED = "TOOL_RECOVERY_ATTEMPTED"
    TOOL_RECOVERY_SUCCEEDED = "TOOL_RECOVERY_SUCCEEDED"
    TOOL_RECOVERY_FAILED = "TOOL_RECOVERY_FAILED"
    TOOL_APPROVAL_REQUESTED = "TOOL_APPROVAL_REQUESTED"
    TOOL_APPROVAL_GRANTED = "TOOL_APPROVAL_GRANTED"
    TOOL_APPROVAL_DENIED = "TOOL_APPROVAL_DENIED"
    CONTEXT_CRITICAL = "CONTEXT_CRITICAL"
    CONTEXT_OVERFLOW_ACTION = "CONTEXT_OVERFLOW_ACTION"
    COST_WARNING = "COST_WARNING"
    COST_LIMIT_EXCEEDED = "COST_LIMIT_EXCEEDED"
    HANDOFF_TRIGGERED = "HANDOFF_TRIGGERED"
    HINT_INSERTED = "HINT_INSERTED"
    WRAP_UP_STARTED = "WRAP_UP_STARTED"
    MODEL_SWITCHED = "MODEL_SWITCHED"
    SUBAGENT_STARTED = "SUBAGENT_STARTED"
    SUBAGENT_COMPLETED = "SUBAGENT_COMPLETED"
    SUBAGENT_FAILED = "SUBAGENT_FAILED"


@dataclass(frozen=True, slots=True)
class Payload:
    """Base of all payloads. `event` names the event."""

    event: ClassVar[Event]


@dataclass(frozen=True, slots=True)
class SessionStarted(Payload):
    """A run begins. `tools`: names given to the model. Budgets: 0 means none."""

    event = Event.SESSION_STARTED
    run_id: str
    session_id: str
    adapter: str
    model: str
    tools: tuple[str, ...]
    system: str = ""
    max_rounds: int = 0
    time_budget_s: float = 0.0
    cost_budget: float = 0.0
    scripted: bool = False


@dataclass(frozen=True, slots=True)
class UserInputReceived(Payload):
    """The user's input, before the first round. Interceptors may rewrite `text` or block (ends `input_blocked`)."""

    event = Event.USER_INPUT_RECEIVED
    text: str


@dataclass(frozen=True, slots=True)
class RoundStarted(Payload):
    """A round passed its guards. `remaining_*`: None where there is no such budget."""

    event = Event.ROUND_STARTED
    round: int
    tool_choice: str
    wrap_up: bool = False
    remaining_rounds: int | None = None
    remaining_s: float | None = None
    remaining_usd: float | None = None


@dataclass(frozen=True, slots=True)
class TurnCompleted(Payload):
    """The end of a round: what it used, and the run's totals so far. Seconds, US dollars."""

    event = Event.TURN_COMPLETED
    round: int
    tool_calls: int
    usage: Usage
    cost: float
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class SessionEnded(Payload):
    """The run is over. `detail` explains `termination_reason`."""

    event = Event.SESSION_ENDED
    termination_reason: str
    detail: Mapping[str, Any]
    text: str
    rounds: int
    tool_calls: int
    usage: Usage
    cost: float
    elapsed_s: float
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class LlmCallStarted(Payload):
    """An attempt of an LLM call. `attempt` is 1-based; `purpose` is `round`, `summary` or `repair`; `reserved` is its
    worst case in US dollars where the ceiling is hard."""

    event = Event.LLM_CALL_STARTED
    round: int
    adapter: str
    model: str
    attempt: int = 1
    max_tokens: int | None = None
    thinking: bool = True
    purpose: str = "round"
    reserved: float = 0.0


@dataclass(frozen=True, slots=True)
class LlmCallEnded(Payload):
    """An LLM call came back. `cost` in US dollars, None where the price is unknown. `stop_details` is the provider's
    own object on why it stopped."""

    event = Event.LLM_CALL_ENDED
    round: int
    adapter: str
    model: str
    stop_reason: str
    usage: Usage
    cost: float | None
    elapsed_s: float
    text: str = ""
    tool_uses: int = 0
    request_id: str | None = None
    raw_stop: str | None = None
    purpose: str = "round"
    stop_details: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class LlmCallFailed(Payload):
    """An LLM call failed for good."""

    event = Event.LLM_CALL_FAILED
    round: int
    adapter: str
    model: str
    kind: str
    message: str
    status: int | None = None
    code: str | None = None
    request_id: str | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class LlmCallRetried(Payload):
    """An attempt failed and another follows after `delay_s` seconds."""

    event = Event.LLM_CALL_RETRIED
    round: int
    adapter: str
    model: str
    attempt: int
    delay_s: float
    kind: str
    message: str
    status: int | None = None


@dataclass(frozen=True, slots=True)
class ToolExecStarted(Payload):
    """A call is about to run. Interceptors may rewrite `input` (checked and approved again) or block."""

    event = Event.TOOL_EXEC_STARTED
    round: int
    tool_use_id: str
    tool: str
    input: Mapping[str, Any]
    tier: str


@dataclass(frozen=True, slots=True)
class ToolExecEnded(Payload):
    """A call came back, well or with an error result of the tool's own. `result` is what the model gets."""

    event = Event.TOOL_EXEC_ENDED
    round: int
    tool_use_id: str
    tool: str
    result: ToolResultBlock
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class ToolExecFailed(Payload):
    """A call failed: it raised, timed out, was cancelled, or its arguments were no good."""

    event = Event.TOOL_EXEC_FAILED
    round: int
    tool_use_id: str
    tool: str
    result: ToolResultBlock
    error_type: str
    message: str
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class ToolResultOffloaded(Payload):
    """A result went to the offload store. Sizes in bytes of UTF-8 and in estimated tokens."""

    event = Event.TOOL_RESULT_OFFLOADED
    round: int
    tool_use_id: str
    tool: str
    ref_id: str
    size_bytes: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ToolRecoveryAttempted(Payload):
    """A step of the recovery chain starts: `retry`, `alternative` or `structured_error`."""

    event = Event.TOOL_RECOVERY_ATTEMPTED
    round: int
    tool_use_id: str
    tool: str
    step: str
    failures: int
    alternative: str | None = None


@dataclass(frozen=True, slots=True)
class ToolRecoverySucceeded(Payload):
    """A step of the chain gave a good result."""

    event = Event.TOOL_RECOVERY_SUCCEEDED
    round: int
    tool_use_id: str
    tool: str
    step: str
    alternative: str | None = None


@dataclass(frozen=True, slots=True)
class ToolRecoveryFailed(Payload):
    """The whole chain failed; the model gets a structured error that lists `tried`."""

    event = Event.TOOL_RECOVERY_FAILED
    round: int
    tool_use_id: str
    tool: str
    tried: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolApprovalRequested(Payload):
    """A person is asked. A batch (expensive calls of one response) asks once for all its ids."""

    event = Event.TOOL_APPROVAL_REQUESTED
    round: int
    tool_use_ids: tuple[str, ...]
    tools: tuple[str, ...]
    tier: str
    inputs: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ToolApprovalGranted(Payload):
    """A call may run. `by`: `policy`, `user`, `always`."""

    event = Event.TOOL_APPROVAL_GRANTED
    round: int
    tool_use_id: str
    tool: str
    tier: str
    by: str


@dataclass(frozen=True, slots=True)
class ToolApprovalDenied(Payload):
    """A call may not run. `by`: `policy`, `user`, `no_terminal`, `interceptor`."""

    event = Event.TOOL_APPROVAL_DENIED
    round: int
    tool_use_id: str
    tool: str
    tier: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class ContextCritical(Payload):
    """The estimated context passed a level (`warning`, `critical` or `overflow`). Tokens."""

    event = Event.CONTEXT_CRITICAL
    round: int
    level: str
    tokens: int
    window: int


@dataclass(frozen=True, slots=True)
class ContextOverflowAction(Payload):
    """What is about to be done: `offload`, `summarise`, `prune`. Interceptors may choose another, or block."""

    event = Event.CONTEXT_OVERFLOW_ACTION
    round: int
    level: str
    strategy: str
    tokens: int
    window: int


@dataclass(frozen=True, slots=True)
class CostWarning(Payload):
    """Cost reached the warning share of the budget. Once a run. US dollars."""

    event = Event.COST_WARNING
    round: int
    cost: float
    budget: float
    share: float


@dataclass(frozen=True, slots=True)
class CostLimitExceeded(Payload):
    """Cost reached the budget, or (hard) the next call cannot fit in it. US dollars."""

    event = Event.COST_LIMIT_EXCEEDED
    round: int
    cost: float
    budget: float
    hard: bool = False


@dataclass(frozen=True, slots=True)
class HandoffTriggered(Payload):
    """The session nears its end: hand over. Once a session. Seconds."""

    event = Event.HANDOFF_TRIGGERED
    round: int
    session_id: str
    elapsed_s: float
    session_s: float


@dataclass(frozen=True, slots=True)
class HintInserted(Payload):
    """A hint went into the next turn. `kind`: `backpressure`, `diversity`, `continue`, `repair`, `status`."""

    event = Event.HINT_INSERTED
    round: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class WrapUpStarted(Payload):
    """From this round on the model answers in text. `cause`: `rounds` or `time`."""

    event = Event.WRAP_UP_STARTED
    round: int
    cause: str


@dataclass(frozen=True, slots=True)
class ModelSwitched(Payload):
    """Another adapter or model takes over. `cause`: the rule that fired."""

    event = Event.MODEL_SWITCHED
    round: int
    from_adapter: str
    from_model: str
    to_adapter: str
    to_model: str
    cause: str


@dataclass(frozen=True, slots=True)
class SubagentStarted(Payload):
    """A nested run begins. `run_dir` is relative to the parent's run folder."""

    event = Event.SUBAGENT_STARTED
    round: int
    agent_id: str
    task: str
    toolset: str
    background: bool
    run_dir: str


@dataclass(frozen=True, slots=True)
class SubagentCompleted(Payload):
    """A nested run ended with an answer."""

    event = Event.SUBAGENT_COMPLETED
    round: int
    agent_id: str
    termination_reason: str
    rounds: int
    usage: Usage
    cost: float


@dataclass(frozen=True, slots=True)
class SubagentFailed(Payload):
    """A nested run ended without an answer."""

    event = Event.SUBAGENT_FAILED
    round: int
    agent_id: str
    termination_reason: str
    error: str


PAYLOADS: dict[Event, type[Payload]] = {cls.event: cls for cls in Payload.__subclasses__()}
"""The payload model of each event."""

INTERCEPTABLE = frozenset({Event.USER_INPUT_RECEIVED, Event.TOOL_EXEC_STARTED, Event.CONTEXT_OVERFLOW_ACTION})


@dataclass(frozen=True, slots=True)
class Block:
    """An interceptor's verdict that stops what was about to happen."""

    reason: str


P = TypeVar("P", bound=Payload)
Observer = Callable[[Any], Awaitable[None] | None]
Interceptor = Callable[[Any], Any]


@dataclass(slots=True)
class _Lane:
    """A user's observer with a queue of its own, so that a slow one delays nobody and keeps its order."""

    name: str
    observer: Observer
    queue: asyncio.Queue[Payload] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[None] | None = None
    broken: bool = False


_GRACE_S = 0.25
"""Seconds past a hook's own limit that the end of a run waits, so that a slow hook is told of in its own words."""


class _TooSlow(Exception):
    """A hook took longer than it may."""


class HookBus:
    """Carries payloads to observers and interceptors of one run.

    timeout_s: seconds one user hook may take for one event; past that it is switched off (observer) or blocks
    (interceptor). `notify` gets one notice per faulty hook.
    """

    def __init__(self, *, timeout_s: float = 5.0, notify: NoticeSink | None = None) -> None:
        self._inline: list[tuple[frozenset[Event] | None, Callable[[Payload], None]]] = []
        self._lanes: list[tuple[frozenset[Event] | None, _Lane]] = []
        self._interceptors: list[tuple[Event, str, Interceptor]] = []
        self._timeout_s = timeout_s
        self._notify = notify or (lambda _notice: None)
        self._reported: set[str] = set()

    def inline(self, observer: Callable[[Payload], None], events: frozenset[Event] | None = None) -> None:
        """Adds one of geode's own observers, called at once: it must be quick and may not raise."""
        self._inline.append((events, observer))

    def observe(self, observer: Observer, events: frozenset[Event] | None = None, name: str = "") -> None:
        """Adds a user's observer (sync or async) for `events` (None is all)."""
        self._lanes.append((events, _Lane(name or _name(observer), observer)))

    def intercept_with(self, event: Event, interceptor: Interceptor, name: str = "") -> None:
        """Adds an interceptor: it returns None (go on), a payload of the same event (rewritten) or a `Block`."""
        if event not in INTERCEPTABLE:
            allowed = ", ".join(sorted(INTERCEPTABLE))
            raise ValueError(f"{event} cannot be intercepted (allowed: {allowed})")
        self._interceptors.append((event, name or _name(interceptor), interceptor))

    def ask_as_well(self, other: HookBus) -> None:
        """Adds another bus's interceptors: what a sub-agent does passes those of its run."""
        self._interceptors += other._interceptors

    def has_interceptors(self, event: Event) -> bool:
        """Whether anybody would be asked at `event`."""
        return any(e is event for e, _, _ in self._interceptors)

    def emit(self, payload: Payload) -> None:
        """Tells every observer. Never raises, never waits."""
        for events, observer in self._inline:
            if events is None or payload.event in events:
                try:
                    observer(payload)
                except Exception:  # it must not raise, and if it does the run goes on
                    continue
        for events, lane in self._lanes:
            if not lane.broken and (events is None or payload.event in events):
                lane.queue.put_nowait(payload)
                if lane.task is None:
                    lane.task = asyncio.get_running_loop().create_task(self._drain(lane))

    async def intercept(self, payload: P) -> P | Block:
        """Asks the interceptors in their order; the result is the payload to go on with, or a Block."""
        for event, name, interceptor in self._interceptors:
            if event is not payload.event:
                continue
            try:
                verdict = await self._bounded(interceptor, payload)
            except asyncio.CancelledError:
                raise
            except _TooSlow:
                return Block(f"interceptor {name} did not answer within {self._timeout_s:g} s")
            except Exception as error:
                return Block(f"interceptor {name} raised {type(error).__name__}: {error}")
            if isinstance(verdict, Block):
                return verdict
            if verdict is None:
                continue
            if type(verdict) is not type(payload):
                return Block(f"interceptor {name} returned {type(verdict).__name__}, not {type(payload).__name__}")
            for item in fields(payload):
                was, now = getattr(payload, item.name), getattr(verdict, item.name)
                kind = next((k for k in (str, Mapping) if isinstance(was, k)), None)
                if kind is not None and not isinstance(now, kind):
                    return Block(f"interceptor {name} returned {item.name} as {type(now).__name__}")
            payload = verdict
        return payload

    async def aclose(self) -> None:
        """Lets the observers finish what is queued, each for at most `timeout_s`, then ends them."""
        lanes = [lane for _, lane in self._lanes if lane.task is not None]
        if lanes:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timeout_s + _GRACE_S):
                    await asyncio.gather(*(lane.queue.join() for lane in lanes))
        for lane in lanes:
            assert lane.task is not None
            if not lane.broken and not lane.queue.empty():
                self._report(lane.name, f"was ended with the run: {lane.queue.qsize()} events had to wait too long")
            lane.task.cancel()
        await asyncio.gather(*(lane.task for lane in lanes if lane.task), return_exceptions=True)

    async def _drain(self, lane: _Lane) -> None:
        while True:
            payload = await lane.queue.get()
            try:
                if not lane.broken:
                    await self._bounded(lane.observer, payload)
            except asyncio.CancelledError:
                raise
            except _TooSlow:
                lane.broken = True
                self._report(lane.name, f"took over {self._timeout_s:g} s at {payload.event} and was switched off")
            except Exception as error:
                self._report(lane.name, f"raised {type(error).__name__} at {payload.event}: {error}")
            finally:
                lane.queue.task_done()

    async def _bounded(self, hook: Callable[[Any], Any], payload: Payload) -> Any:
        """What the hook returns, at once or in the end. Raises `_TooSlow` past `timeout_s`."""
        limit = asyncio.timeout(self._timeout_s)
        try:
            async with limit:
                if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__):
                    return await hook(payload)
                value = await _in_daemon_thread(hook, payload)
                return await value if inspect.isawaitable(value) else value
        except TimeoutError as error:
            if limit.expired():
                raise _TooSlow from error
            raise

    def _report(self, name: str, what: str) -> None:
        if name in self._reported:
            return
        self._reported.add(name)
        self._notify(Notice(f"hook:{name}", f"hook {name} {what}"))


async def _in_daemon_thread(function: Callable[[Any], Any], argument: Any) -> Any:
    """Runs a sync hook where it cannot block the run, nor (a daemon) the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(setter: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            setter(value)

    def work() -> None:
        try:
            value = function(argument)
        except BaseException as error:
            if not isinstance(error, Exception) or isinstance(error, StopIteration):  # a future cannot carry these
                error = RuntimeError(f"{type(error).__name__}: {error}")
            outcome: tuple[Callable[[Any], None], Any] = (future.set_exception, error)
        else:
            outcome = (future.set_result, value)
        with contextlib.suppress(RuntimeError):  # the event loop is gone: nobody waits any more
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=work, name="geode-hook", daemon=True).start()
    return await future


def _name(hook: object) -> str:
    return getattr(hook, "__qualname__", type(hook).__qualname__)
