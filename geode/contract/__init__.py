"""The provider-neutral contract: what flows between the loop, the adapters and the tools.

Ground floor of the house: this package imports nothing else of geode, no SDK and no validation library. Everything
here is an immutable value, apart from `History`, which only ever grows (or is replaced as a whole by a compaction).
"""

from geode.contract.adapter import Adapter, AdapterError, Capabilities, ErrorKind
from geode.contract.calls import AdapterCallRequest, AdapterCallResult, Delta, StopReason, ToolChoice, ToolSpec, Usage
from geode.contract.messages import (
    Block,
    History,
    ImageBlock,
    InputFault,
    Json,
    Message,
    ReasoningBlock,
    Source,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from geode.contract.words import Approval, Notice, NoticeSink, TerminationReason, Tier

__all__ = [
    "Adapter",
    "AdapterCallRequest",
    "AdapterCallResult",
    "AdapterError",
    "Approval",
    "Block",
    "Capabilities",
    "Delta",
    "ErrorKind",
    "History",
    "ImageBlock",
    "InputFault",
    "Json",
    "Message",
    "Notice",
    "NoticeSink",
    "ReasoningBlock",
    "Source",
    "StopReason",
    "TerminationReason",
    "TextBlock",
    "Tier",
    "ToolChoice",
    "ToolResultBlock",
    "ToolSpec",
    "ToolUseBlock",
    "Usage",
]
