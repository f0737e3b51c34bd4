"""What a scripted fault is to the caller: the kind, message and HTTP status that a real backend's would have."""

from __future__ import annotations

from geode.contract import ErrorKind
from geode.script import Fault

__all__ = ["error_of"]

_BILLING_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "1113"})


def error_of(fault: Fault) -> tuple[ErrorKind | None, str, int | None]:
    """(kind, message, HTTP status) of a fault; no kind where the answer comes all the same."""
    if fault.error is not None:
        return fault.error, fault.message or fault.kind, fault.status if fault.kind == "http" else None
    match fault.kind:
        case "http":
            return _http_kind(fault), fault.message or fault.body or f"scripted HTTP {fault.status}", fault.status
        case "stream_error":
            overloaded = (fault.type or "overloaded_error") == "overloaded_error"
            return ErrorKind.OVERLOADED if overloaded else ErrorKind.SERVER, fault.message or "Overloaded", None
        case "cut":
            return ErrorKind.CONNECTION, fault.message or "the stream was cut", None
        case "close":
            return ErrorKind.CONNECTION, fault.message or "server disconnected without sending a response", None
        case "broken_json":
            return ErrorKind.BAD_RESPONSE, fault.message or "the answer is no JSON", 200
        case "not_object":
            return ErrorKind.BAD_RESPONSE, fault.message or "the answer is no JSON object", 200
        case "empty_choices":
            return ErrorKind.BAD_RESPONSE, fault.message or "the answer holds no choices", 200
        case "overflow":
            return ErrorKind.CONTEXT_OVERFLOW, fault.message or "prompt is too long", 400
        case "failed":
            kinds = {"rate_limit_exceeded": ErrorKind.RATE_LIMIT, "invalid_prompt": ErrorKind.REFUSAL}
            return kinds.get(fault.code or "", ErrorKind.SERVER), fault.message or "the response failed", 200
        case _:
            return None, "", None


def _http_kind(fault: Fault) -> ErrorKind:
    status, text = fault.status, f"{fault.message or ''} {fault.body or ''}".lower()
    if status == 402 or (fault.code in _BILLING_CODES and status in (400, 403, 429)):
        return ErrorKind.BILLING
    if status == 400 and "unexpected end of data" in text:
        return ErrorKind.TRUNCATED_UPLOAD
    if status == 400 and ("prompt is too long" in text or fault.code == "context_length_exceeded"):
        return ErrorKind.CONTEXT_OVERFLOW
    if status == 400 and ("tool_choice" in text or "tool choice" in text):
        return ErrorKind.TOOL_CHOICE
    kinds = {
        401: ErrorKind.AUTH,
        403: ErrorKind.PERMISSION,
        404: ErrorKind.NOT_FOUND,
        408: ErrorKind.TIMEOUT,
        409: ErrorKind.SERVER,
        413: ErrorKind.CONTEXT_OVERFLOW,
        429: ErrorKind.RATE_LIMIT,
        529: ErrorKind.OVERLOADED,
    }
    return kinds.get(status, ErrorKind.SERVER if status >= 500 else ErrorKind.INVALID_REQUEST)
