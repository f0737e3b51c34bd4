"""What the two OpenAI wires share: error bodies and the words of a tool choice."""

from __future__ import annotations

from typing import Any

from geode.contract import ToolChoice
from geode.script import Fault

__all__ = ["choice_word", "openai_error", "openai_overflow"]

_TYPES = {401: "invalid_request_error", 429: "requests", 402: "billing_error"}
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded", 404: "model_not_found"}


def choice_word(word: Any) -> ToolChoice | None:
    """`auto`, `none`, `required`; anything else is None."""
    if word == "auto":
        return ToolChoice("auto")
    if word == "none":
        return ToolChoice("none")
    return ToolChoice("required") if word == "required" else None


def openai_error(status: int, message: str, kind: str | None, code: str | None, path: str) -> dict[str, Any]:
    """OpenAI's error body, or Z.ai's under its own base path."""
    if "/paas/" in path:
        return {"error": {"code": code or str(status), "message": message}}
    if kind is None:
        kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    if code == "insufficient_quota":
        kind = code
    return {"error": {"message": message, "type": kind, "param": None, "code": code or _CODES.get(status)}}


def openai_overflow(fault: Fault, message: str, path: str) -> tuple[int, dict[str, Any]]:
    """(status, body) of a prompt that is too long; Z.ai's code for it is 1261."""
    code = fault.code or ("1261" if "/paas/" in path else "context_length_exceeded")
    return 400, openai_error(400, fault.message or message, fault.type, code, path)
