"""LLM calls as the loop makes them: attempts, waiting, deadlines, the hard cost ceiling, switching of models."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from geode.contract import (
    Adapter,
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    Delta,
    ErrorKind,
    History,
    Notice,
    NoticeSink,
    StopReason,
    TerminationReason,
    TextBlock,
    ToolChoice,
)
from geode.hooks import CostLimitExceeded, HookBus, LlmCallEnded, LlmCallFailed, LlmCallRetried, LlmCallStarted
from geode.loop.limits import CostCeiling, Deadline, RetryPolicy
from geode.loop.result import End, RunEnded
from geode.loop.state import RunState
from geode.loop.switching import Switchboard

__all__ = ["LlmCaller", "error_end"]

_MAYBE_BILLED = frozenset({ErrorKind.CONNECTION, ErrorKind.TIMEOUT, ErrorKind.BAD_RESPONSE, ErrorKind.SERVER})


@dataclass(slots=True)
class LlmCaller:
    """Makes a call until it succeeds, or raises `RunEnded`; only CONTEXT_OVERFLOW comes out as an AdapterError."""

    board: Switchboard
    state: RunState
    bus: HookBus
    deadline: Deadline
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    ceiling: CostCeiling | None = None
    notify: NoticeSink = lambda _notice: None
    on_delta: Callable[[Delta], None] | None = None
    rng: random.Random = field(default_factory=random.Random)
    partial: str = ""
    recorded: AdapterCallResult | None = None
    """The response to the next call, where an earlier process got it and could not use it: paid for and counted."""
    _none_refused: set[str] = field(default_factory=set)

    async def call(self, request: AdapterCallRequest, purpose: str = "round") -> AdapterCallResult:
        """One LLM call with its retries, counted in the state. An empty answer is asked for again once."""
        if self.recorded is not None:
            response, self.recorded = self.recorded, None
            self.state.rounds = request.round
            return response
        attempt, empty = 0, False
        while True:
            attempt += 1
            adapter = self.board.adapter
            wire_request = self._without_refused_choice(request)
            try:
                response = await self._attempt(adapter, wire_request, attempt, purpose)
                if not _is_empty(response):
                    return response
                if not empty:
                    empty = True
                    self._retried(attempt, 0.0, AdapterError(ErrorKind.BAD_RESPONSE, "the response was empty"))
                    continue
                message = "two responses in a row were empty"
                error = AdapterError(ErrorKind.BAD_RESPONSE, message, provider=adapter.name)
            except AdapterError as failure:
                error = failure
                if error.kind is ErrorKind.CONTEXT_OVERFLOW:
                    raise
                refused = error.kind is ErrorKind.TOOL_CHOICE and wire_request.tool_choice.type == "none"
                if refused and adapter.name not in self._none_refused:
                    self._none_refused.add(adapter.name)
                    self._none_notice(adapter)
                    self._retried(attempt, 0.0, error)
                    continue
                delay = self.retry.delay(attempt, error, self.rng)
                if error.retryable and attempt < self.retry.attempts and self._may_wait(delay):
                    self._retried(attempt, delay, error)
                    await asyncio.sleep(delay)
                    continue
            ended = self._failed(error, attempt)
            if ended.end.reason is not TerminationReason.LLM_ERROR or not self.board.after_error(self.state):
                raise ended from error
            attempt, empty = 0, False

    async def _attempt(
        self, adapter: Adapter, request: AdapterCallRequest, attempt: int, purpose: str
    ) -> AdapterCallResult:
        at, scope = self.deadline.at()
        if at is not None and at <= time.monotonic():
            raise RunEnded(self.deadline.expired(scope, "llm_call"))
        request, reserved = self._reserve(adapter, request)
        ledger = self.state.ledger
        if purpose == "round":
            self.state.rounds = request.round
        self.bus.emit(
            LlmCallStarted(
                request.round,
                adapter.name,
                adapter.model,
                attempt,
                request.max_tokens,
                request.thinking,
                purpose,
                reserved,
            )
        )
        self.partial = ""
        if self.on_delta is not None or self.board.backend.streams:
            request = replace(request, on_delta=self._note_delta)
        started = time.monotonic()
        ledger.reserved += reserved
        if isinstance(request.messages, History):
            request.messages.sent = len(request.messages)
        try:
            async with asyncio.timeout_at(at) as limit:
                response = await adapter.call(request)
        except TimeoutError as error:
            if limit.expired():
                ledger.uncertain += reserved
                raise RunEnded(self.deadline.expired(scope, "llm_call")) from error
            ledger.uncertain += reserved
            message = f"no answer in time: {error}" if str(error) else "no answer in time"
            raise AdapterError(ErrorKind.TIMEOUT, message, provider=adapter.name) from error
        except AdapterError as error:
            if error.kind in _MAYBE_BILLED or error.partial is not None:
                ledger.uncertain += reserved
            raise
        except asyncio.CancelledError:
            ledger.uncertain += reserved
            raise
        except Exception as error:  # an adapter's own fault must not end the run by a traceback
            ledger.uncertain += reserved
            message = f"the answer could not be read: {type(error).__name__}: {error}"
            raise AdapterError(ErrorKind.BAD_RESPONSE, message, provider=adapter.name) from error
        finally:
            ledger.reserved -= reserved
        self.partial = ""
        cost = self.board.cost(response.usage) if response.cost_usd is None else response.cost_usd
        if not response.usage.known:
            ledger.uncertain += reserved
            self._usage_notice(adapter)
        self.state.add(response, cost or 0.0)
        self.bus.emit(
            LlmCallEnded(
                request.round,
                adapter.name,
                response.model or adapter.model,
                response.stop_reason.value,
                response.usage,
                cost,
                time.monotonic() - started,
                response.text,
                len(response.tool_uses),
                response.request_id,
                response.raw_stop,
                purpose,
                response.stop_details,
            )
        )
        return response

    def _reserve(self, adapter: Adapter, request: AdapterCallRequest) -> tuple[AdapterCallRequest, float]:
        """The request with an output limit that fits the hard ceiling, and what it may cost at most."""
        if self.ceiling is None:
            return request, 0.0
        limit = request.max_tokens or adapter.max_tokens
        try:
            body = adapter.build(request)
        except AdapterError:
            raise
        except Exception as error:
            message = f"the request could not be built: {type(error).__name__}: {error}"
            raise AdapterError(ErrorKind.INVALID_REQUEST, message, provider=adapter.name) from error
        images = body.count(b'"image')  # at least one for each image block on every wire
        room = self.ceiling.reserve(self.state, len(body), images, limit)
        if room is None:
            ledger = self.state.ledger
            self.bus.emit(CostLimitExceeded(request.round, ledger.total, self.ceiling.budget, hard=True))
            detail = {"cost": ledger.total, "cost_budget": self.ceiling.budget, "hard": True}
            raise RunEnded(End(TerminationReason.COST_BUDGET_EXCEEDED, detail))
        reserved, fitting = room
        if fitting < limit:
            request = replace(request, max_tokens=fitting, thinking=False)
        return request, reserved

    def _without_refused_choice(self, request: AdapterCallRequest) -> AdapterCallRequest:
        """A backend that once refused `none` is asked without tools instead."""
        if request.tool_choice.type == "none" and self.board.adapter.name in self._none_refused:
            return replace(request, tools=(), tool_choice=ToolChoice(), deferred=frozenset(), allowed=None)
        return request

    def overflowed(self, error: AdapterError, again: bool) -> None:
        """Tells of a request that was too long: tried again after a compaction, or given up."""
        if again:
            self._retried(1, 0.0, error)
        else:
            self._failed(error, 1)

    def _may_wait(self, delay: float) -> bool:
        at, _ = self.deadline.at()
        return at is None or time.monotonic() + delay < at

    def _note_delta(self, delta: Delta) -> None:
        if delta.kind == "text":
            self.partial += delta.text
        if self.on_delta is not None:
            with contextlib.suppress(Exception):  # who only looks on cannot break a call
                self.on_delta(delta)

    def _none_notice(self, adapter: Adapter) -> None:
        self.notify(
            Notice(
                f"tool_choice_none:{adapter.name}",
                f"{adapter.name} refused tool_choice none: such calls go without tools from now on",
            )
        )

    def _usage_notice(self, adapter: Adapter) -> None:
        self.notify(
            Notice(
                f"usage:{adapter.name}",
                f"{adapter.name} reported no usage for a call: its tokens and cost are not in the totals",
            )
        )

    def _retried(self, attempt: int, delay: float, error: AdapterError) -> None:
        adapter = self.board.adapter
        self.bus.emit(
            LlmCallRetried(
                self.state.rounds, adapter.name, adapter.model, attempt, delay, error.kind, str(error), error.status
            )
        )

    def _failed(self, error: AdapterError, attempts: int) -> RunEnded:
        adapter = self.board.adapter
        self.bus.emit(
            LlmCallFailed(
                self.state.rounds,
                adapter.name,
                adapter.model,
                error.kind.value,
                str(error),
                error.status,
                error.code,
                error.request_id,
                attempts,
            )
        )
        return RunEnded(error_end(error, attempts))


def _is_empty(response: AdapterCallResult) -> bool:
    """Whether a response that claims to be whole holds neither text, call nor reasoning."""
    if response.stop_reason not in (StopReason.END_TURN, StopReason.TOOL_USE):
        return False
    return all(isinstance(b, TextBlock) and not b.text.strip() for b in response.content)


def error_end(error: AdapterError, attempts: int) -> End:
    """How a run ends by a failed call."""
    facts = {
        "kind": error.kind.value,
        "message": str(error),
        "provider": error.provider or None,
        "status": error.status,
        "code": error.code,
        "request_id": error.request_id,
        "attempts": attempts,
    }
    text = error.partial.text if error.partial is not None and error.partial.text else None
    if error.kind is ErrorKind.REFUSAL:
        details = dict(error.details or {})
        detail = {"category": details.get("category"), "stop_details": details, **facts}
        return End(TerminationReason.MODEL_REFUSAL, detail, text=text or error.message)
    reason = TerminationReason.BILLING_ERROR if error.kind is ErrorKind.BILLING else TerminationReason.LLM_ERROR
    return End(reason, {"kind": error.kind.value, "attempts": attempts}, text=text, error=facts)
