"""What each event carries: one frozen payload model per event, with its fields and units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from geode.contract import ToolResultBlock, Usage
from geode.hooks.events import Event


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
