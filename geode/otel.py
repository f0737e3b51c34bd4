"""Runs as OpenTelemetry traces, by the semantic conventions for generative AI (opentelemetry.io, version 1.41).

A run is an `invoke_agent` span; below it each LLM attempt is a `chat` span and each tool call an `execute_tool` span.
What the model and the tools said is left out unless `content` is set. Needs the extra `otel`; chosen by `hooks=otel`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from geode import __version__, hooks
from geode.contract import Usage

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

__all__ = ["OpenTelemetry"]

_SECOND = 1_000_000_000
_PROVIDERS = {"anthropic": "anthropic", "claude": "anthropic", "openai": "openai", "codex": "openai", "glm": "z_ai"}
_FINE = ("natural", "forced_text", "user_cancelled")
_MARKS: Mapping[hooks.Event, tuple[str, ...]] = {
    hooks.Event.ROUND_STARTED: ("round", "tool_choice", "wrap_up"),
    hooks.Event.HINT_INSERTED: ("round", "kind"),
    hooks.Event.WRAP_UP_STARTED: ("round", "cause"),
    hooks.Event.CONTEXT_OVERFLOW_ACTION: ("round", "level", "strategy", "tokens", "window"),
    hooks.Event.COST_WARNING: ("round", "cost", "budget"),
    hooks.Event.COST_LIMIT_EXCEEDED: ("round", "cost", "budget", "hard"),
    hooks.Event.HANDOFF_TRIGGERED: ("round", "session_id", "elapsed_s"),
    hooks.Event.MODEL_SWITCHED: ("round", "from_adapter", "from_model", "to_adapter", "to_model", "cause"),
    hooks.Event.TOOL_APPROVAL_DENIED: ("round", "tool_use_id", "tool", "tier", "by"),
    hooks.Event.TOOL_RESULT_OFFLOADED: ("round", "tool_use_id", "tool", "ref_id", "size_bytes", "tokens"),
    hooks.Event.TOOL_RECOVERY_ATTEMPTED: ("round", "tool_use_id", "tool", "step"),
    hooks.Event.SUBAGENT_STARTED: ("round", "agent_id", "toolset", "background"),
    hooks.Event.SUBAGENT_COMPLETED: ("round", "agent_id", "termination_reason"),
    hooks.Event.SUBAGENT_FAILED: ("round", "agent_id", "termination_reason"),
}
"""What becomes an event on the run's span, with the fields that tell no content."""


class OpenTelemetry:
    """An observer of one run.

    endpoint: URL of the collector's traces (OTLP over HTTP); None takes OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
    OTEL_EXPORTER_OTLP_ENDPOINT or http://localhost:4318/v1/traces. Headers come from OTEL_EXPORTER_OTLP_HEADERS.
    content: also send what was asked, said, and given to and by tools; it is not masked. timeout_s: seconds that an
    export may take. exporter: in place of OTLP. Raises ImportError where the extra is missing.
    """

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        service_name: str = "geode",
        content: bool = False,
        timeout_s: float = 3.0,
        exporter: SpanExporter | None = None,
    ) -> None:
        try:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            if exporter is None:
                from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

                exporter = OTLPSpanExporter(endpoint=endpoint, timeout=timeout_s)
        except ImportError as error:
            raise ImportError(
                f"it needs the extra otel: pip install 'geode[otel]' ({error.name} is missing)"
            ) from error
        self._content = content
        self._timeout_ms = int(timeout_s * 1000)
        resource = Resource.create({"service.name": service_name, "service.version": __version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("geode", __version__)
        self._run: Span | None = None
        self._provider_name = "geode"
        self._call: tuple[hooks.LlmCallStarted, int] | None = None
        self._tools: dict[str, tuple[hooks.ToolExecStarted, int]] = {}

    def __call__(self, payload: hooks.Payload) -> None:
        """Takes an event."""
        now = time.time_ns()
        match payload:
            case hooks.SessionStarted():
                self._begin(payload, now)
            case hooks.UserInputReceived() if self._run is not None and self._content:
                self._run.set_attribute("gen_ai.input.messages", _messages("user", payload.text))
            case hooks.LlmCallStarted():
                self._end_call(now, error="interrupted")
                self._call = (payload, now)
            case hooks.LlmCallEnded():
                self._ended(payload, now)
            case hooks.LlmCallRetried() | hooks.LlmCallFailed():
                self._end_call(now, error=payload.kind, status=payload.status)
            case hooks.ToolExecStarted():
                self._tools[payload.tool_use_id] = (payload, now)
            case hooks.ToolExecEnded():
                self._tool(payload, now, "tool_error" if payload.result.is_error else "")
            case hooks.ToolExecFailed():
                self._tool(payload, now, payload.error_type)
            case hooks.SessionEnded():
                self._end(payload, now)
            case _ if payload.event in _MARKS and self._run is not None:
                marks = {f"geode.{name}": getattr(payload, name) for name in _MARKS[payload.event]}
                self._run.add_event(f"geode.{payload.event.lower()}", _attributes(marks), now)

    # ----------------------------------------------------------------------------------------------------------- spans

    def _begin(self, payload: hooks.SessionStarted, now: int) -> None:
        from opentelemetry.trace import SpanKind

        self._provider_name = _provider(payload.adapter)
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": self._provider_name,
            "gen_ai.agent.name": "geode",
            "gen_ai.agent.version": __version__,
            "gen_ai.conversation.id": payload.session_id,
            "gen_ai.request.model": payload.model,
            "geode.run_id": payload.run_id,
            "geode.adapter": payload.adapter,
            "geode.scripted": payload.scripted,
        }
        if self._content and payload.system:
            attributes["gen_ai.system_instructions"] = json.dumps([{"type": "text", "content": payload.system}])
        self._run = self._tracer.start_span(
            "invoke_agent geode", kind=SpanKind.INTERNAL, attributes=_attributes(attributes), start_time=now
        )

    def _ended(self, payload: hooks.LlmCallEnded, now: int) -> None:
        attributes = {
            "gen_ai.response.model": payload.model,
            "gen_ai.response.finish_reasons": [payload.raw_stop or payload.stop_reason],
            "geode.stop_reason": payload.stop_reason,
            "geode.request_id": payload.request_id,
            "geode.cost_usd": payload.cost,
            **_usage(payload.usage),
        }
        if self._content:
            attributes["gen_ai.output.messages"] = _messages("assistant", payload.text)
        self._end_call(now, attributes, now - int(payload.elapsed_s * _SECOND))

    def _end_call(
        self,
        now: int,
        attributes: Mapping[str, Any] | None = None,
        start: int | None = None,
        *,
        error: str = "",
        status: int | None = None,
    ) -> None:
        if self._call is None:
            return
        (call, begun), self._call = self._call, None
        known = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider(call.adapter),
            "gen_ai.request.model": call.model,
            "gen_ai.request.max_tokens": call.max_tokens,
            "geode.round": call.round,
            "geode.attempt": call.attempt,
            "geode.purpose": call.purpose,
            "http.response.status_code": status,
            **(attributes or {}),
        }
        self._child(f"chat {call.model}", True, known, begun if start is None else start, now, error)

    def _tool(self, payload: hooks.ToolExecEnded | hooks.ToolExecFailed, now: int, error: str) -> None:
        started, begun = self._tools.pop(payload.tool_use_id, (None, now))
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": payload.tool,
            "gen_ai.tool.call.id": payload.tool_use_id,
            "gen_ai.tool.type": "function",
            "geode.round": payload.round,
            "geode.tier": started.tier if started is not None else None,
        }
        if self._content:
            if started is not None:
                attributes["gen_ai.tool.call.arguments"] = json.dumps(dict(started.input), default=str)
            attributes["gen_ai.tool.call.result"] = payload.result.text
        start = now - int(payload.elapsed_s * _SECOND) if payload.elapsed_s else begun
        self._child(f"execute_tool {payload.tool}", False, attributes, start, now, error)

    def _child(
        self, name: str, client: bool, attributes: Mapping[str, Any], start: int, end: int, error: str = ""
    ) -> None:
        from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context

        if self._run is None:
            return
        span = self._tracer.start_span(
            name,
            context=set_span_in_context(self._run),
            kind=SpanKind.CLIENT if client else SpanKind.INTERNAL,
            attributes=_attributes(attributes),
            start_time=start,
        )
        if error:
            span.set_attribute("error.type", error)
            span.set_status(StatusCode.ERROR)
        span.end(end)

    def _end(self, payload: hooks.SessionEnded, now: int) -> None:
        from opentelemetry.trace import StatusCode

        self._end_call(now, error=payload.termination_reason)
        self._tools.clear()
        if self._run is not None:
            attributes = {
                "geode.termination_reason": payload.termination_reason,
                "geode.rounds": payload.rounds,
                "geode.tool_calls": payload.tool_calls,
                "geode.cost_usd": payload.cost,
                **_usage(payload.usage),
            }
            if self._content:
                attributes["gen_ai.output.messages"] = _messages("assistant", payload.text)
            self._run.set_attributes(_attributes(attributes))
            if payload.termination_reason not in _FINE:
                self._run.set_attribute("error.type", payload.termination_reason)
                self._run.set_status(StatusCode.ERROR)
            self._run.end(now)
            self._run = None
        self._provider.force_flush(self._timeout_ms)
        self._provider.shutdown()


def _provider(adapter: str) -> str:
    """The conventions' name of a provider; the adapter's own where they have none."""
    return _PROVIDERS.get(adapter.partition("-")[0], adapter)


def _usage(usage: Usage) -> dict[str, Any]:
    """Token counts. By the conventions input includes what was read from and written to the cache."""
    if not usage.known:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.total_input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }


def _messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}], ensure_ascii=False)


def _attributes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is not known."""
    return {key: value for key, value in given.items() if value is not None}
