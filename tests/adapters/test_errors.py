"""Which kind of error a provider's failure is, and how long it asks to wait."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from geode.adapters.errors import from_anthropic, from_body, from_openai
from geode.contract import ErrorKind

NOW = 1_800_000_000.0


def wrapped(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


@pytest.mark.parametrize(
    ("status", "kind", "retried"),
    [
        (400, ErrorKind.INVALID_REQUEST, False),
        (401, ErrorKind.AUTH, False),
        (402, ErrorKind.BILLING, False),
        (403, ErrorKind.PERMISSION, False),
        (404, ErrorKind.NOT_FOUND, False),
        (408, ErrorKind.TIMEOUT, True),
        (409, ErrorKind.SERVER, True),
        (413, ErrorKind.CONTEXT_OVERFLOW, False),
        (422, ErrorKind.INVALID_REQUEST, False),
        (429, ErrorKind.RATE_LIMIT, True),
        (500, ErrorKind.SERVER, True),
        (502, ErrorKind.SERVER, True),
        (503, ErrorKind.SERVER, True),
        (520, ErrorKind.SERVER, True),
        (529, ErrorKind.OVERLOADED, True),
    ],
)
def test_statuses(status: int, kind: ErrorKind, retried: bool) -> None:
    error = from_body(status, {"X-Request-Id": "r1"}, wrapped("no"), "p")
    assert (error.kind, error.retryable, error.status, error.request_id) == (kind, retried, status, "r1")
    assert str(error) == f"p HTTP {status}: no (request r1)"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, wrapped("You exceeded your current quota", type="insufficient_quota", code="insufficient_quota")),
        (429, wrapped("余额不足", code="1113")),
        (429, wrapped("Insufficient balance or no resource package. Please recharge.", code="1113")),
        (400, wrapped("Billing hard limit has been reached", code="billing_hard_limit_reached")),
        (400, wrapped("Your credit balance is too low to access the Anthropic API", type="invalid_request_error")),
        (429, wrapped("Usage limit reached for 5 hour", code="1308")),
        (429, wrapped("plan expired", code="1309")),
        (429, wrapped("The usage limit has been reached", type="usage_limit_reached", resets_in_seconds=90)),
        (402, "Payment Required"),
        (None, {"type": "error", "error": {"type": "billing_error", "message": "pay"}}),
    ],
)
def test_billing_is_never_retried(status: int | None, body: Any) -> None:
    error = from_body(status, {}, body, "p")
    assert (error.kind, error.retryable) == (ErrorKind.BILLING, False)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, wrapped("prompt is too long: 210000 tokens > 200000 maximum", type="invalid_request_error")),
        (400, wrapped("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000")),
        (None, {"type": "error", "error": {"type": "model_context_window_exceeded", "message": "x"}}),
        (400, wrapped("too much", code="context_length_exceeded")),
        (400, wrapped("This model's maximum context length is 4096 tokens. However, you requested 5000 tokens")),
        (400, {"object": "error", "message": "maximum context length is 4096", "type": "BadRequestError", "code": 400}),
        (400, wrapped("The decoder prompt (length 5000) is longer than the maximum model length of 4096.")),
        (400, wrapped("the request exceeds the available context size", type="exceed_context_size_error", code=400)),
        (500, wrapped("the request exceeds the available context size, try increasing it", code=500)),
        (400, wrapped("Your input exceeds the context window of this model")),
        (400, wrapped("Prompt exceeds max length", code="1261")),
        (400, {"error": "prompt too long; exceeded max context length by 4 tokens"}),
        (413, {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
    ],
)
def test_context_overflow_of_every_provider(status: int | None, body: Any) -> None:
    assert from_body(status, {}, body, "p").kind is ErrorKind.CONTEXT_OVERFLOW


def test_too_many_output_tokens_is_no_overflow() -> None:
    text = "max_tokens: 99999 > 8192, which is the maximum allowed number of output tokens for this context window"
    assert from_body(400, {}, wrapped(text), "p").kind is ErrorKind.INVALID_REQUEST


@pytest.mark.parametrize(
    "body",
    [
        wrapped("Tool choice must be auto", code="1210"),
        wrapped("Invalid value", param="tool_choice", type="invalid_request_error"),
        wrapped('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        wrapped("Thinking may not be enabled when tool_choice forces tool use."),
    ],
)
def test_a_400_that_names_tool_choice(body: Any) -> None:
    error = from_body(400, {}, body, "p")
    assert (error.kind, error.retryable) == (ErrorKind.TOOL_CHOICE, False)


@pytest.mark.parametrize(
    "text", ["unexpected end of data: line 1 column 12 (char 11)", "unexpected end of JSON input", "unexpected EOF"]
)
def test_a_truncated_upload_is_retried(text: str) -> None:
    error = from_body(400, {}, wrapped(text), "p")
    assert (error.kind, error.retryable) == (ErrorKind.TRUNCATED_UPLOAD, True)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (None, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        (200, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        (500, wrapped("The server is overloaded"), "overloaded"),
        (None, {"type": "error", "error": {"type": "api_error", "message": "x"}}, "server"),
        (None, {"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}, "rate_limit"),
        (None, {"type": "error", "error": {"type": "authentication_error", "message": "x"}}, "auth"),
        (None, {"type": "error", "error": {"type": "invalid_request_error", "message": "x"}}, "invalid_request"),
        (None, {"type": "error", "code": "server_error", "message": "x"}, "server"),
        (None, {"error": {"code": 429, "message": "x"}}, "rate_limit"),
        (None, {"error": {"code": 500, "message": "made-up tool", "type": "server_error"}}, "server"),
        (None, {"error": "broken"}, "server"),
        (400, wrapped("x", code="content_policy_violation"), "refusal"),
        (400, wrapped("x", code="invalid_prompt"), "refusal"),
        (400, wrapped("x", code="1301"), "refusal"),
        (429, wrapped("x", code="1302"), "rate_limit"),
        (429, wrapped("x", code="1305"), "overloaded"),
        (200, wrapped("x", code="1302"), "rate_limit"),
        (500, wrapped("made-up tool name"), "server"),
    ],
)
def test_what_the_body_says(status: int | None, body: Any, kind: str) -> None:
    assert from_body(status, {}, body, "p").kind == kind


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ({"type": "error", "error": {"type": "api_error", "message": "m"}, "request_id": "req_1"}, "m", "api_error"),
        ({"error": {"code": 500, "message": "m", "type": "server_error"}}, "m", "server_error"),
        ({"object": "error", "message": "m", "type": "X", "code": 500}, "m", "X"),
        ({"error": "m"}, "m", None),
        ({"detail": "m"}, "m", None),
        ({"detail": [{"loc": ["body"], "msg": "m"}]}, '[{"loc": ["body"], "msg": "m"}]', None),
        ({"what": 1}, '{"what": 1}', None),
        (
            "<html><head><style>p{}</style></head><body><h1>502</h1>\n Bad  Gateway</body></html>",
            "502 Bad Gateway",
            None,
        ),
        ("", "no message (500)", None),
        (None, "no message (500)", None),
        (wrapped("x" * 2000), "x" * 599 + "…", None),
    ],
)
def test_messages_and_codes_of_every_form(body: Any, message: str, code: str | None) -> None:
    error = from_body(500, {}, body, "p")
    assert (error.message, error.code) == (message, code)
    assert error.request_id == ("req_1" if isinstance(body, dict) and "request_id" in body else None)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"Retry-After": "Fri, 15 Jan 2027 08:01:00 GMT"}, 60.0),
        ({"Retry-After": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-requests": "20ms"}, 0.02),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"Retry-After": "2", "x-ratelimit-reset-tokens": "6m0s"}, 2.0),
        ({"x-ratelimit-reset": "1800000090"}, 90.0),
        ({"X-RateLimit-Reset": "1800000090000"}, 90.0),
        ({"x-ratelimit-reset-tokens": "12"}, 12.0),
        ({"anthropic-ratelimit-tokens-reset": "2027-01-15T08:00:30Z"}, 30.0),
        ({"anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:00:30Z", "x-ratelimit-reset-tokens": "9s"}, 30.0),
        ({"x-ratelimit-reset-tokens": "whenever"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], wait: float | None) -> None:
    assert from_body(429, headers, wrapped("slow"), "p", now=NOW).retry_after_s == wait


def test_reset_headers_mean_nothing_on_other_errors() -> None:
    headers = {"x-ratelimit-reset-tokens": "6m0s"}
    assert from_body(500, headers, wrapped("x"), "p", now=NOW).retry_after_s is None
    assert from_body(503, {"retry-after": "3"}, wrapped("x"), "p", now=NOW).retry_after_s == 3.0
    assert from_body(400, {"retry-after": "3"}, wrapped("x"), "p", now=NOW).retry_after_s is None


def test_a_plan_says_when_it_is_reset() -> None:
    body = wrapped("limit", type="usage_limit_reached", resets_in_seconds=90)
    assert from_body(429, {}, body, "p").retry_after_s == 90.0


def test_no_key_in_a_message() -> None:
    error = from_body(401, {}, wrapped("Incorrect API key provided: sk-proj-abcdefgh12345678."), "p")
    assert error.message == "Incorrect API key provided: ***."


@pytest.mark.parametrize("convert", [from_openai, from_anthropic])
def test_connection_faults(convert: Any) -> None:
    gone = httpx2.RemoteProtocolError("Server disconnected without sending a response.")
    error = convert(gone, "p")
    assert (error.kind, error.retryable) == (ErrorKind.CONNECTION, True)
    assert error.message == ("connection failed (RemoteProtocolError: Server disconnected without sending a response.)")
    assert convert(httpx2.ConnectError("refused"), "p").kind is ErrorKind.CONNECTION
    assert convert(httpx2.ReadTimeout("slow"), "p").kind is ErrorKind.TIMEOUT
    assert convert(httpx2.UnsupportedProtocol("no scheme"), "p").kind is ErrorKind.INVALID_REQUEST
    assert convert(RuntimeError("bug"), "p").kind is ErrorKind.INVALID_REQUEST
    assert convert(error, "p") is error
