"""Claude Code's command line as a text-only backend: `claude -p`, prompt on standard input, JSON lines back.

The CLI's own tools, settings, MCP servers and session files stay out; the user's login works, since HOME is kept.
The system prompt goes by file (`--system-prompt-file`), where neither a process list nor a limit on argument length
meets it. Its `result` event says `subtype: "success"` even for failures: only `is_error`, `api_error_status` and the
exit status tell (seen with claude-code 2.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from geode.adapters.cli_adapter import CliAdapter
from geode.adapters.cli_process import Command, events, failure_text
from geode.adapters.cli_prompt import flatten
from geode.adapters.errors import from_body
from geode.contract import (
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    ErrorKind,
    StopReason,
    TextBlock,
    Usage,
)

__all__ = ["ClaudeCliAdapter"]

_SYNTHETIC = "<synthetic>"
"""The model name under which the CLI writes its own error banners as assistant messages."""

_KINDS = {
    "authentication_failed": ErrorKind.AUTH,
    "oauth_org_not_allowed": ErrorKind.PERMISSION,
    "billing_error": ErrorKind.BILLING,
    "rate_limit": ErrorKind.RATE_LIMIT,
    "overloaded": ErrorKind.OVERLOADED,
    "invalid_request": ErrorKind.INVALID_REQUEST,
    "model_not_found": ErrorKind.NOT_FOUND,
    "server_error": ErrorKind.SERVER,
}


class ClaudeCliAdapter(CliAdapter):
    """One `claude` process per call."""

    INSTALL = "npm install -g @anthropic-ai/claude-code"

    def command(self, request: AdapterCallRequest) -> Command:
        options = self.options
        argv = [options.command or "claude", "-p", "--output-format", "stream-json", "--verbose", "--tools", ""]
        if options.model:
            argv += ["--model", options.model]
        argv += ["--no-session-persistence", "--setting-sources", "", "--strict-mcp-config"]
        files = {}
        if request.system:
            argv += ["--system-prompt-file", "{system-prompt.txt}"]
            files["system-prompt.txt"] = request.system
        else:
            argv += ["--system-prompt", ""]
        env = {
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "API_TIMEOUT_MS": str(int(1000 * self.timeout_s(request))),
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(request.max_tokens or options.max_tokens),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        if options.base_url:
            env["ANTHROPIC_BASE_URL"] = options.base_url
        if self._secrets.value is not None:
            bearer = options.credential.scheme == "bearer"
            env["ANTHROPIC_AUTH_TOKEN" if bearer else "ANTHROPIC_API_KEY"] = self._secrets.value
        return Command((*argv, *options.args), flatten(request), env, options.env, files)

    def parse(self, payload: Mapping[str, Any], round: int = 1) -> AdapterCallResult:
        result: dict[str, Any] = {}
        texts: list[str] = []
        model, fault, refusal, broken = self.model, None, {}, None
        banner = ""
        for event in events(str(payload.get("stdout", ""))):
            if isinstance(event, str):
                broken = broken or event
            elif event.get("type") == "result":
                result = event
            elif event.get("subtype") in ("model_refusal_no_fallback", "model_refusal_fallback"):
                refusal = event
            elif event.get("type") == "assistant" and not event.get("parent_tool_use_id"):
                message = event.get("message")
                own = message if isinstance(message, dict) else {}
                if own.get("model") == _SYNTHETIC or event.get("error"):
                    fault, banner = str(event.get("error") or "unknown"), _joined(own)
                else:
                    fault, banner = None, ""
                    model = str(own.get("model") or model)
                    texts.append(_joined(own))
        status = payload.get("exit_status", 0)
        if not result:
            raise self._no_result(payload, broken, fault, banner)
        usage, cost = _usage(result.get("usage")), result.get("total_cost_usd")
        answer = AdapterCallResult(
            content=(),
            stop_reason=StopReason.END_TURN,
            usage=usage,
            model=model,
            raw_stop=result.get("stop_reason"),
            cost_usd=float(cost) if isinstance(cost, int | float) else None,
        )
        text = "".join(texts)
        if result.get("stop_reason") == "refusal" or refusal:
            details = {
                "type": "refusal",
                "category": refusal.get("api_refusal_category"),
                "explanation": refusal.get("api_refusal_explanation") or str(result.get("result") or ""),
            }
            return _with(answer, text, StopReason.REFUSAL, details)
        if fault == "max_output_tokens":
            # the CLI has asked for the rest several times by itself; what came is the text so far
            return _with(answer, text, StopReason.MAX_TOKENS, None)
        said = result.get("result")
        said = said if isinstance(said, str) and said else banner or text
        if result.get("is_error") or fault is not None:
            raise self._fault(said, result.get("api_error_status"), fault)
        if status != 0:
            partial = _with(answer, said, StopReason.ERROR, None)
            raise self.error(ErrorKind.PROCESS, failure_text(self.name, payload), partial)
        if broken is not None:
            raise self.bad_line(broken)
        stop = StopReason.STOP_SEQUENCE if result.get("stop_reason") == "stop_sequence" else StopReason.END_TURN
        return _with(answer, said, stop, None)

    def said(self, event: Mapping[str, Any]) -> str:
        message = event.get("message")
        if event.get("type") != "assistant" or not isinstance(message, dict) or message.get("model") == _SYNTHETIC:
            return ""
        return _joined(message)

    def _no_result(
        self, payload: Mapping[str, Any], broken: str | None, fault: str | None, banner: str
    ) -> AdapterError:
        if fault is not None:
            return self._fault(banner, None, fault)
        if broken is not None and payload.get("exit_status", 0) == 0:
            return self.bad_line(broken)
        text = failure_text(self.name, payload)
        if payload.get("exit_status", 0) == 0:
            return self.error(ErrorKind.BAD_RESPONSE, text)
        return self._fault(text, None, None)

    def _fault(self, text: str, status: Any, fault: str | None) -> AdapterError:
        """An error by HTTP status where the CLI names one, else by its own word for it, else by its text."""
        number = status if isinstance(status, int) else None
        error = from_body(number, {}, {"error": {"message": text or "no message"}}, self.name, mask=self._mask)
        if number is None and error.kind is ErrorKind.SERVER:
            low = text.lower()
            if fault in _KINDS:
                error.kind = _KINDS[fault]
            elif "/login" in low or "api key" in low or "not logged in" in low:
                error.kind = ErrorKind.AUTH
            elif "timed out" in low or "timeout" in low:
                error.kind = ErrorKind.TIMEOUT
            elif "connection error" in low or "unable to connect" in low or "econn" in low:
                error.kind = ErrorKind.CONNECTION
            else:
                error.kind = ErrorKind.PROCESS
        if error.code is None and fault not in (None, "unknown"):
            error.code = fault
        return error


def _with(
    answer: AdapterCallResult, text: str, stop: StopReason, details: Mapping[str, Any] | None
) -> AdapterCallResult:
    content = (TextBlock(text),) if text else ()
    return replace(answer, content=content, stop_reason=stop, stop_details=details)


def _joined(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return "".join(str(p.get("text", "")) for p in parts if isinstance(p, dict) and p.get("type") == "text")


def _usage(raw: Any) -> Usage:
    if not isinstance(raw, dict):
        return Usage(known=False)

    def count(source: Any, key: str) -> int:
        value = source.get(key) if isinstance(source, dict) else None
        return value if isinstance(value, int) else 0

    return Usage(
        input_tokens=count(raw, "input_tokens"),
        output_tokens=count(raw, "output_tokens"),
        cache_read_tokens=count(raw, "cache_read_input_tokens"),
        cache_write_tokens=count(raw, "cache_creation_input_tokens"),
        cache_write_1h_tokens=count(raw.get("cache_creation"), "ephemeral_1h_input_tokens"),
    )
