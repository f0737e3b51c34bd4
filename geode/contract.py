"""The provider-neutral contract: what flows between the loop, the adapters and the tools.

Ground floor of the house: this module imports nothing of geode, no SDK and no validation library. Everything here is
an immutable value, apart from `History`, which only ever grows (or is replaced as a whole by a compaction).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, overload

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

Json = Any
"""A JSON value as `json.loads` gives it."""


# ---------------------------------------------------------------------------------------------------- content blocks


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text of either role. `phase` is the Responses API's message phase, kept on replay."""

    text: str
    phase: str | None = None


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image. `media_type` is a MIME type (image/png, ...); `data` is its bytes as base64 text."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where a block that only its own provider understands came from."""

    wire: str
    """Wire family: `messages`, `responses` or `chat`."""
    adapter: str
    model: str


@dataclass(frozen=True, slots=True)
class ReasoningBlock:
    """A model's reasoning: shown as `text`, replayed verbatim from `raw` to the provider and model it came from.

    `raw` is the provider's own JSON object (a `thinking` or `redacted_thinking` block, a `reasoning` item, or
    `{field_name: value}` of a chat message). To any other wire the reasoning goes as plain text, or not at all where
    `text` is empty.
    """

    text: str
    source: Source
    raw: Mapping[str, Json] = field(default_factory=dict)


class InputFault(StrEnum):
    """Why the arguments of a call cannot be used: the tool is not run, and the model is told."""

    INVALID_JSON = "invalid_json"
    NOT_AN_OBJECT = "not_an_object"
    CUT = "cut"
    """The response ended (output limit, cut stream) inside this call."""
    TOO_LONG = "too_long"
    """Over the wire's limit on argument length."""


@dataclass(frozen=True, slots=True)
class ToolUseBlock:
    """A call that the model asks for.

    `id` is unique in its response; `name` is the tool's own name (wire aliases undone); `input` is the parsed object
    (empty where `fault` is set). `arguments` is the model's own argument text, replayed verbatim when it is a valid
    JSON object, None where the provider sent an object or nothing. `wire_id` is a provider-side item id that is not
    the joining id (Responses `id`), kept only where the provider stores items. `namespace` is the Responses API's, set
    on calls of tools that its hosted tool search loaded, and must go back with them. `source` says whose `wire_id` and
    `namespace` they are (None where both are).
    """

    id: str
    name: str
    input: Mapping[str, Json]
    arguments: str | None = None
    fault: InputFault | None = None
    wire_id: str | None = None
    namespace: str | None = None
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class ToolResultBlock:
    """What a call came to: text, or a sequence of text and image blocks. `tool_use_id` is the call's `id`."""

    tool_use_id: str
    content: str | tuple[TextBlock | ImageBlock, ...]
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text parts, joined."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(b.text for b in self.content if isinstance(b, TextBlock))


Block = TextBlock | ImageBlock | ReasoningBlock | ToolUseBlock | ToolResultBlock


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation. Tool results stand in `user` messages, before any text."""

    role: Literal["user", "assistant"]
    content: tuple[Block, ...]

    @classmethod
    def user(cls, *content: Block | str) -> Message:
        return cls("user", tuple(TextBlock(b) if isinstance(b, str) else b for b in content))

    @classmethod
    def assistant(cls, *content: Block | str) -> Message:
        return cls("assistant", tuple(TextBlock(b) if isinstance(b, str) else b for b in content))

    @property
    def text(self) -> str:
        return "\n".join(b.text for b in self.content if isinstance(b, TextBlock))

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        return tuple(b for b in self.content if isinstance(b, ToolUseBlock))

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        return tuple(b for b in self.content if isinstance(b, ToolResultBlock))


class History(Sequence[Message]):
    """The messages of a run. Grows by `append`; `replace` (a compaction) starts a new `generation`.

    A renderer that remembers (generation, length) therefore never has to look at an old message again. `sent` counts
    the messages that some request has carried: those never change within a generation.
    """

    __slots__ = ("_messages", "_watchers", "generation", "sent")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages = list(messages)
        self._watchers: list[Callable[[History, Message | None], None]] = []
        self.generation = 0
        self.sent = 0

    def append(self, message: Message) -> None:
        """Adds a message at the end and tells the watchers."""
        self._messages.append(message)
        for watch in self._watchers:
            watch(self, message)

    def replace(self, messages: Iterable[Message]) -> None:
        """Puts other messages in place of all (compaction, pruning). Watchers get None for the message."""
        self._messages = list(messages)
        self.generation += 1
        self.sent = 0
        for watch in self._watchers:
            watch(self, None)

    def watch(self, watcher: Callable[[History, Message | None], None]) -> None:
        """`watcher(history, message)` is called after each append, `watcher(history, None)` after a replace."""
        self._watchers.append(watcher)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)


# ------------------------------------------------------------------------------------------------- requests, results


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool. `input_schema` is JSON Schema and the contract of the tool's arguments."""

    name: str
    description: str
    input_schema: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """`auto`, `none`, `required` (any) or `tool` with a name. Spellings are parsed in `adapters.tool_choice`."""

    type: Literal["auto", "none", "required", "tool"] = "auto"
    name: str | None = None

    @property
    def forced(self) -> bool:
        return self.type in ("required", "tool")


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streamed response, for display only."""

    kind: Literal["text", "reasoning", "tool"]
    text: str


@dataclass(frozen=True, slots=True)
class AdapterCallRequest:
    """One LLM call in neutral terms. What an adapter's own YAML fixes (model, sampling, headers) is not repeated here.

    messages: a `History` is rendered incrementally; any other sequence from scratch, to the same bytes.
    round: 1-based number of this call in the run (deterministic ids are made from it).
    max_tokens: output limit in tokens for this call; None takes the adapter's.
    thinking: False leaves reasoning off for this call (wrap-up).
    deferred: names of tools that are sent with deferred loading.
    allowed: where set, the subset of tools that may be called; the tool list stays whole.
    timeout_s: seconds the call may take in all; None is the adapter's.
    on_delta: called with each streamed piece; its presence asks for streaming where the adapter can.
    """

    messages: Sequence[Message]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    round: int = 1
    max_tokens: int | None = None
    thinking: bool = True
    response_schema: Mapping[str, Json] | None = None
    deferred: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None
    timeout_s: float | None = None
    on_delta: Callable[[Delta], None] | None = None


class StopReason(StrEnum):
    """Why a response ended, as one enum over all providers. Content, not this, decides whether tools are asked for."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    PAUSE_TURN = "pause_turn"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    CONTEXT_WINDOW_EXCEEDED = "context_window_exceeded"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, each counted once: `input_tokens` excludes cache reads and writes; `output_tokens` includes reasoning.

    `cache_write_1h_tokens` is the part of `cache_write_tokens` with a one-hour life (priced apart); `reasoning_tokens`
    is the part of `output_tokens` spent on reasoning. `known` is False where the provider reported no usage.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    reasoning_tokens: int = 0
    known: bool = True

    @property
    def total_input_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        return self.total_input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.cache_write_1h_tokens + other.cache_write_1h_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.known and other.known,
        )


@dataclass(frozen=True, slots=True)
class AdapterCallResult:
    """A response in neutral terms: what `parse` makes of a provider's JSON.

    `content` holds assistant blocks in the provider's order. `stop_details` is the provider's own object (a refusal's
    category, an incomplete response's reason). `raw_stop` is the provider's stop string. `cost_usd` is the price of the
    call where the backend itself reports one, in USD.
    """

    content: tuple[Block, ...]
    stop_reason: StopReason
    usage: Usage = Usage()
    model: str = ""
    raw_stop: str | None = None
    stop_details: Mapping[str, Json] | None = None
    request_id: str | None = None
    cost_usd: float | None = None

    @property
    def text(self) -> str:
        return "".join(b.text for b in self.content if isinstance(b, TextBlock))

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        return tuple(b for b in self.content if isinstance(b, ToolUseBlock))


class ErrorKind(StrEnum):
    """What kind of fault a failed LLM call is; `AdapterError.retryable` and the loop's retry policy read it."""

    CONNECTION = "connection"
    TIMEOUT = "timeout"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER = "server"
    BAD_RESPONSE = "bad_response"
    """A 200 whose body cannot be read as an answer: retried as a server error."""
    TRUNCATED_UPLOAD = "truncated_upload"
    """A 400 that says the body was cut on the way: retried."""
    AUTH = "auth"
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    INVALID_REQUEST = "invalid_request"
    TOOL_CHOICE = "tool_choice"
    """A 400 that names tool_choice."""
    CONTEXT_OVERFLOW = "context_overflow"
    BILLING = "billing"
    REFUSAL = "refusal"
    """The provider refused the prompt by an error."""
    PROCESS = "process"
    """A CLI adapter's process failed."""
    SCRIPT = "script"
    """A scripted run asked for more than its script holds, or expected something else."""


_RETRYABLE = frozenset(
    {
        ErrorKind.CONNECTION,
        ErrorKind.TIMEOUT,
        ErrorKind.RATE_LIMIT,
        ErrorKind.OVERLOADED,
        ErrorKind.SERVER,
        ErrorKind.BAD_RESPONSE,
        ErrorKind.TRUNCATED_UPLOAD,
    }
)


class AdapterError(Exception):
    """A failed LLM call. Keeps provider, status, code and request id, and never a secret.

    retry_after_s: seconds the provider asks to wait, from Retry-After or its rate-limit reset headers.
    partial: what a cut stream had delivered, where there was anything.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retry_after_s: float | None = None,
        partial: AdapterCallResult | None = None,
        details: Mapping[str, Json] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.provider = provider
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        self.partial = partial
        self.details = details

    @property
    def retryable(self) -> bool:
        return self.kind in _RETRYABLE

    def __str__(self) -> str:
        parts = [self.provider or "provider"]
        if self.status is not None:
            parts.append(f"HTTP {self.status}")
        if self.code:
            parts.append(str(self.code))
        text = f"{' '.join(parts)}: {self.message}"
        return f"{text} (request {self.request_id})" if self.request_id else text


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an adapter's backend takes. Declared in its YAML, never guessed from a model's name.

    tool_choices: neutral words it accepts (auto, none, required, tool).
    tool_search: the backend has hosted tool search and deferred loading.
    max_tools: most tools in one request, the search tool counted; 0 is no limit.
    max_output_tokens: the model's cap on output, 0 unknown. context_window: tokens, 0 takes the price table's.
    """

    tools: bool = True
    tool_choices: frozenset[str] = frozenset({"auto", "none", "required", "tool"})
    images: bool = True
    json_schema: bool = True
    streaming: bool = True
    tool_search: bool = False
    max_tools: int = 0
    max_output_tokens: int = 0
    context_window: int = 0


class Adapter(Protocol):
    """One backend behind one wire. `build` and `parse` are pure; `call` is `parse(await send(build(request)))`."""

    name: str
    model: str
    max_tokens: int
    """Output limit in tokens of an ordinary call."""
    capabilities: Capabilities

    def build(self, request: AdapterCallRequest) -> bytes:
        """The request's body, byte for byte as it is sent."""
        ...

    def parse(self, payload: Mapping[str, Json], round: int = 1) -> AdapterCallResult:
        """Reads a provider's answer. Raises AdapterError(BAD_RESPONSE) where it is none."""
        ...

    async def call(self, request: AdapterCallRequest) -> AdapterCallResult:
        """Raises AdapterError. Cancellable at any await: nothing is left open."""
        ...

    async def aclose(self) -> None:
        """Closes connections and child processes. Safe to call twice."""
        ...


# ------------------------------------------------------------------------------------------------------ small words


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that was degraded, dropped or denied: shown once on the console and listed in the result.

    `key` makes it unique in a run; `override` is the config override that changes it, "" where none does.
    """

    key: str
    message: str
    override: str = ""


NoticeSink = Callable[[Notice], None]


class Tier(StrEnum):
    """Safety tier of a tool; a tool without one is dangerous."""

    SAFE = "safe"
    EXPENSIVE = "expensive"
    WRITE = "write"
    DANGEROUS = "dangerous"

    @property
    def rank(self) -> int:
        return ("safe", "expensive", "write", "dangerous").index(self.value)


class Approval(StrEnum):
    """What the safety policy says of a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class TerminationReason(StrEnum):
    """How a run ended: exactly one of these; `unknown` is the default and never leaves a run."""

    NATURAL = "natural"
    FORCED_TEXT = "forced_text"
    MAX_ROUNDS = "max_rounds"
    TIME_BUDGET_EXPIRED = "time_budget_expired"
    COST_BUDGET_EXCEEDED = "cost_budget_exceeded"
    CONTEXT_EXHAUSTED = "context_exhausted"
    LLM_ERROR = "llm_error"
    MODEL_ACTION_REQUIRED = "model_action_required"
    USER_CLARIFICATION_NEEDED = "user_clarification_needed"
    MODEL_REFUSAL = "model_refusal"
    INPUT_BLOCKED = "input_blocked"
    BILLING_ERROR = "billing_error"
    USER_CANCELLED = "user_cancelled"
    CONVERGENCE_DETECTED = "convergence_detected"
    TOKEN_BUDGET_EXCEEDED = "token_budget_exceeded"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> int:
        """0 for natural and forced_text, 130 for user_cancelled, 1 for the rest."""
        if self in (TerminationReason.NATURAL, TerminationReason.FORCED_TEXT):
            return 0
        return 130 if self is TerminationReason.USER_CANCELLED else 1
