"""The adapter: what a backend does, what it can, and how it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from geode.contract.calls import AdapterCallRequest, AdapterCallResult
from geode.contract.messages import Json

__all__ = ["Adapter", "AdapterError", "Capabilities", "ErrorKind"]


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
