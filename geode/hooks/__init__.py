"""Hooks: event names, one payload model per event, and the bus that carries them.

Observers see an event and cannot change the run: one that raises or hangs is reported once and does no harm.
Interceptors (USER_INPUT_RECEIVED, TOOL_EXEC_STARTED, CONTEXT_OVERFLOW_ACTION) may rewrite the payload or block; one
that raises, or takes longer than `timeout_s`, blocks.

The journal, the console display and the OpenTelemetry exporter are observers like any other.
"""

from geode.hooks.bus import Block, HookBus
from geode.hooks.events import Event
from geode.hooks.payloads import (
    PAYLOADS,
    ContextCritical,
    ContextOverflowAction,
    CostLimitExceeded,
    CostWarning,
    HandoffTriggered,
    HintInserted,
    LlmCallEnded,
    LlmCallFailed,
    LlmCallRetried,
    LlmCallStarted,
    ModelSwitched,
    Payload,
    RoundStarted,
    SessionEnded,
    SessionStarted,
    SubagentCompleted,
    SubagentFailed,
    SubagentStarted,
    ToolApprovalDenied,
    ToolApprovalGranted,
    ToolApprovalRequested,
    ToolExecEnded,
    ToolExecFailed,
    ToolExecStarted,
    ToolRecoveryAttempted,
    ToolRecoveryFailed,
    ToolRecoverySucceeded,
    ToolResultOffloaded,
    TurnCompleted,
    UserInputReceived,
    WrapUpStarted,
)

__all__ = [
    "PAYLOADS",
    "Block",
    "ContextCritical",
    "ContextOverflowAction",
    "CostLimitExceeded",
    "CostWarning",
    "Event",
    "HandoffTriggered",
    "HintInserted",
    "HookBus",
    "LlmCallEnded",
    "LlmCallFailed",
    "LlmCallRetried",
    "LlmCallStarted",
    "ModelSwitched",
    "Payload",
    "RoundStarted",
    "SessionEnded",
    "SessionStarted",
    "SubagentCompleted",
    "SubagentFailed",
    "SubagentStarted",
    "ToolApprovalDenied",
    "ToolApprovalGranted",
    "ToolApprovalRequested",
    "ToolExecEnded",
    "ToolExecFailed",
    "ToolExecStarted",
    "ToolRecoveryAttempted",
    "ToolRecoveryFailed",
    "ToolRecoverySucceeded",
    "ToolResultOffloaded",
    "TurnCompleted",
    "UserInputReceived",
    "WrapUpStarted",
]
