"""From a provider's failure to an AdapterError of the right kind.

Sources: the error pages of Anthropic, OpenAI and Z.ai, the Codex CLI's handling of its backend, and public reports
about llama.cpp's server, vLLM and Ollama. What a body says goes before its status: providers send quota and overflow
errors under 400, 413, 429 and 500 alike.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from geode.adapters.credentials import mask as mask_text
from geode.adapters.retry_after import retry_after
from geode.contract import AdapterError, ErrorKind

__all__ = ["from_anthropic", "from_body", "from_openai", "request_id", "shorten"]

Mask = Callable[[str], str]

_MAX_MESSAGE = 600

_BY_CODE: dict[str, ErrorKind] = {
    # billing and quota: never retried
    "insufficient_quota": ErrorKind.BILLING,
    "billing_hard_limit_reached": ErrorKind.BILLING,
    "billing_not_active": ErrorKind.BILLING,
    "billing_error": ErrorKind.BILLING,
    "usage_limit_reached": ErrorKind.BILLING,  # Codex backend: the plan's window is used up
    "usage_not_included": ErrorKind.BILLING,
    # context overflow
    "context_length_exceeded": ErrorKind.CONTEXT_OVERFLOW,
    "exceed_context_size_error": ErrorKind.CONTEXT_OVERFLOW,  # llama.cpp
    "model_context_window_exceeded": ErrorKind.CONTEXT_OVERFLOW,
    "request_too_large": ErrorKind.CONTEXT_OVERFLOW,
    # refusals by error
    "invalid_prompt": ErrorKind.REFUSAL,
    "content_policy_violation": ErrorKind.REFUSAL,
    "content_filter": ErrorKind.REFUSAL,
    "bio_policy": ErrorKind.REFUSAL,
    "cyber_policy": ErrorKind.REFUSAL,
    "misalignment_policy_violation": ErrorKind.REFUSAL,
    "image_content_policy_violation": ErrorKind.REFUSAL,
    # what a status says otherwise, for errors that come inside a stream
    "overloaded_error": ErrorKind.OVERLOADED,
    "server_is_overloaded": ErrorKind.OVERLOADED,
    "slow_down": ErrorKind.OVERLOADED,
    "rate_limit_error": ErrorKind.RATE_LIMIT,
    "rate_limit_exceeded": ErrorKind.RATE_LIMIT,
    "timeout_error": ErrorKind.TIMEOUT,
    "api_error": ErrorKind.SERVER,
    "server_error": ErrorKind.SERVER,
    "internal_server_error": ErrorKind.SERVER,
    "internal_error": ErrorKind.SERVER,
    "authentication_error": ErrorKind.AUTH,
    "invalid_api_key": ErrorKind.AUTH,
    "permission_error": ErrorKind.PERMISSION,
    "not_found_error": ErrorKind.NOT_FOUND,
    "model_not_found": ErrorKind.NOT_FOUND,
    "invalid_request_error": ErrorKind.INVALID_REQUEST,
    # Z.ai
    "1113": ErrorKind.BILLING,  # insufficient balance or no resource package; a plan key on the payg URL
    **dict.fromkeys(("1000", "1001", "1002", "1003", "1004", "1110", "1111", "1112", "1121"), ErrorKind.AUTH),
    "1220": ErrorKind.PERMISSION,
    "1234": ErrorKind.SERVER,  # network error on their side
    "1211": ErrorKind.NOT_FOUND,
    "1261": ErrorKind.CONTEXT_OVERFLOW,
    "1301": ErrorKind.REFUSAL,  # unsafe or sensitive content
    "1302": ErrorKind.RATE_LIMIT,
    "1303": ErrorKind.RATE_LIMIT,
    "1304": ErrorKind.BILLING,  # the day's quota
    "1305": ErrorKind.OVERLOADED,
    "1308": ErrorKind.BILLING,  # the plan's window is used up
    "1309": ErrorKind.BILLING,  # the plan has expired
    "1310": ErrorKind.BILLING,  # the week's or month's limit
    "1311": ErrorKind.PERMISSION,  # the plan does not hold this model
    "1312": ErrorKind.OVERLOADED,
    "1313": ErrorKind.RATE_LIMIT,
}

_BEFORE_STATUS = frozenset({ErrorKind.BILLING, ErrorKind.CONTEXT_OVERFLOW, ErrorKind.REFUSAL})
"""Kinds that a code decides whatever the status is. The others only where the status says nothing, or for Z.ai."""

_OVERFLOW = re.compile(
    r"prompt is too long|exceed context limit|context[_ ]length|context[_ -]window|context[_ ]size"
    r"|maximum model length|prompt exceeds max length|prompt too long|input is too long for (?:the )?requested model",
    re.IGNORECASE,
)
_NOT_OVERFLOW = re.compile(r"maximum allowed number of output tokens", re.IGNORECASE)
_BILLING = re.compile(
    r"credit balance is too low|insufficient[_ ](?:quota|balance|credits?|funds)|billing hard limit",
    re.IGNORECASE,
)
_TRUNCATED = re.compile(r"unexpected end of (?:data|json input|input)|unexpected eof|eof while parsing", re.IGNORECASE)
_TOOL_CHOICE = re.compile(r"tool[_ ]?choice", re.IGNORECASE)
_OVERLOADED = re.compile(r"overloaded", re.IGNORECASE)
_TAGS = re.compile(r"<(?:script|style).*?</(?:script|style)>|<[^>]*>", re.IGNORECASE | re.DOTALL)


def from_openai(error: BaseException, provider: str, *, mask: Mask = mask_text) -> AdapterError:
    """An exception of the openai SDK (or of its HTTP client) as an AdapterError. `mask` is put over every text."""
    import openai

    return _from_sdk(openai, error, provider, mask)


def from_anthropic(error: BaseException, provider: str, *, mask: Mask = mask_text) -> AdapterError:
    """An exception of the anthropic SDK (or of its HTTP client) as an AdapterError. `mask` is put over every text."""
    import anthropic

    return _from_sdk(anthropic, error, provider, mask)


def _from_sdk(sdk: Any, error: BaseException, provider: str, mask: Mask) -> AdapterError:
    import httpx2

    if isinstance(error, AdapterError):
        return error
    if isinstance(error, sdk.APIStatusError):
        response = error.response
        if 300 <= response.status_code < 400:  # not followed: the key would go along
            text = f"redirected to {shorten(response.headers.get('location', 'nowhere'))}: set adapter.base_url to it"
            return AdapterError(ErrorKind.INVALID_REQUEST, mask(text), provider=provider, status=response.status_code)
        return from_body(response.status_code, response.headers, _body(error, response), provider, mask=mask)
    cause = error.__cause__ if error.__cause__ is not None else error
    if isinstance(cause, (httpx2.UnsupportedProtocol, httpx2.InvalidURL, httpx2.LocalProtocolError)):
        return AdapterError(ErrorKind.INVALID_REQUEST, mask(f"cannot be sent ({_named(cause)})"), provider=provider)
    if isinstance(error, (sdk.APITimeoutError, httpx2.TimeoutException)):
        return AdapterError(ErrorKind.TIMEOUT, mask(f"timed out ({_named(cause)})"), provider=provider)
    if isinstance(error, (sdk.APIConnectionError, httpx2.TransportError, httpx2.StreamError, OSError)):
        return AdapterError(ErrorKind.CONNECTION, mask(f"connection failed ({_named(cause)})"), provider=provider)
    if isinstance(error, sdk.APIError) and error.body is not None:
        return from_body(None, {}, error.body, provider, mask=mask)
    if isinstance(error, (httpx2.HTTPError, ValueError)):
        return AdapterError(ErrorKind.BAD_RESPONSE, mask(f"cannot be read ({_named(error)})"), provider=provider)
    return AdapterError(ErrorKind.INVALID_REQUEST, mask(f"failed ({_named(error)})"), provider=provider)


def _body(error: Any, response: Any) -> Any:
    try:
        text = response.text
    except Exception:  # the body was never read
        return error.body
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _named(error: BaseException) -> str:
    text = shorten(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def from_body(
    status: int | None,
    headers: Mapping[str, str],
    body: Any,
    provider: str,
    *,
    mask: Mask = mask_text,
    now: float | None = None,
) -> AdapterError:
    """A failure as it came over HTTP, or as an event of a stream, as an AdapterError.

    status: None for an error inside a stream, whose HTTP status was 200. headers: of the response, in any case.
    body: its JSON, or its text. now: seconds since the epoch, to read dates in headers; None takes the clock.
    """
    given = {name.lower(): value for name, value in headers.items()}
    message, codes, param = _read(body)
    if status is None or status < 400:
        status = next((int(c) for c in codes if c.isdigit() and 400 <= int(c) <= 599), None)
    kind = _kind(status, codes, message, param)
    code = next((c for c in codes if not (c.isdigit() and status is not None and int(c) == status)), None)
    error = AdapterError(
        kind,
        mask(message or f"no message ({status if status is not None else 'error event'})"),
        provider=provider,
        status=status,
        code=mask(code) if code else None,
        request_id=request_id(given) or (_text(body.get("request_id")) or None if isinstance(body, Mapping) else None),
    )
    wait = retry_after(given, body, limited=status == 429, now=time.time() if now is None else now)
    if error.retryable or kind is ErrorKind.BILLING:
        error.retry_after_s = wait
    return error


def _read(body: Any) -> tuple[str, list[str], str]:
    """(message, codes most telling first, param) of an error body in any of its forms.

    Seen: {"error": {message, type, code, param}}, {"type": "error", "error": {type, message}}, {"error": "text"},
    {"object": "error", message, type, code}, {"type": "error", code, message}, {"detail": ...}, text, HTML.
    """
    if not isinstance(body, Mapping):
        return shorten(_TAGS.sub(" ", body)) if isinstance(body, str) else "", [], ""
    inner = body.get("error")
    if isinstance(inner, str) and inner:
        codes = [c for c in (_text(body.get("code")), _text(body.get("type"))) if c and c != "error"]
        described = _text(body.get("message")) or _text(body.get("error_description"))
        return shorten(f"{inner}: {described}" if described else inner), codes, ""
    source = inner if isinstance(inner, Mapping) else body
    codes = [c for c in (_text(source.get("code")), _text(source.get("type"))) if c and c != "error"]
    message = source.get("message") or source.get("detail") or source.get("msg") or ""
    if not isinstance(message, str):
        message = json.dumps(message, ensure_ascii=False)
    return (
        shorten(message) or ("" if codes else shorten(json.dumps(body, ensure_ascii=False))),
        codes,
        _text(source.get("param")),
    )


def _kind(status: int | None, codes: list[str], message: str, param: str) -> ErrorKind:
    by_code = next((_BY_CODE[c] for c in codes if c in _BY_CODE), None)
    words = " ".join((message, *codes))
    if status == 402 or by_code is ErrorKind.BILLING or _BILLING.search(words):
        return ErrorKind.BILLING
    if status in (401, 403, 404):
        return {401: ErrorKind.AUTH, 403: ErrorKind.PERMISSION, 404: ErrorKind.NOT_FOUND}[status]
    if by_code in _BEFORE_STATUS:
        return by_code
    if status == 413:
        return ErrorKind.CONTEXT_OVERFLOW
    if status not in (408, 409, 429) and _OVERFLOW.search(words) and not _NOT_OVERFLOW.search(words):
        return ErrorKind.CONTEXT_OVERFLOW
    if status == 529 or (_OVERLOADED.search(words) and (status is None or status == 429 or status >= 500)):
        return ErrorKind.OVERLOADED
    if status == 400:
        if _TRUNCATED.search(message):
            return ErrorKind.TRUNCATED_UPLOAD
        if param == "tool_choice" or _TOOL_CHOICE.search(message):
            return ErrorKind.TOOL_CHOICE
    zai = next((c for c in codes if len(c) == 4 and c in _BY_CODE), None)
    if zai is not None:
        return _BY_CODE[zai]
    if status is None:
        return by_code or ErrorKind.SERVER
    return _by_status(status)


def _by_status(status: int) -> ErrorKind:
    if status == 408:
        return ErrorKind.TIMEOUT
    if status == 429:
        return ErrorKind.RATE_LIMIT
    return ErrorKind.SERVER if status == 409 or status >= 500 else ErrorKind.INVALID_REQUEST


def request_id(headers: Mapping[str, str]) -> str | None:
    """The provider's id of a request, from its response's headers (httpx2's, or a dict with lower-case names)."""
    for name in ("x-request-id", "request-id", "x-log-id", "cf-ray"):
        if value := headers.get(name):
            return value
    return None


def shorten(text: str, limit: int = _MAX_MESSAGE) -> str:
    """`text` on one line, cut to `limit` characters."""
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else ""
