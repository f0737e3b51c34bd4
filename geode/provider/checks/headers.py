"""Headers that a request must have. Any key is good but `bad`."""

from __future__ import annotations

from collections.abc import Mapping

from geode.provider.params import Wire

__all__ = ["auth_problem", "check"]


def auth_problem(wire: Wire, headers: Mapping[str, str]) -> str | None:
    """Why the request is not let in (401); None where it is."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    key = headers.get("x-api-key", "") if wire == "messages" else ""
    if scheme and scheme.lower() != "bearer":
        return f"headers.authorization: the scheme must be Bearer, not {scheme}"
    given = key or token.strip()
    if not given:
        allowed = "x-api-key or authorization: Bearer" if wire == "messages" else "authorization: Bearer"
        return f"headers: no key ({allowed})"
    return "headers: invalid key" if given == "bad" else None


def check(wire: Wire, headers: Mapping[str, str], path: str = "") -> list[str]:
    """`headers` with lower-case names."""
    found = []
    content_type = headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        found.append(f"headers.content-type: must be application/json, not {content_type!r}")
    if wire == "messages":
        if "anthropic-version" not in headers:
            found.append("headers.anthropic-version: required header is missing")
        token = headers.get("authorization", "").partition(" ")[2]
        betas = [b.strip() for b in headers.get("anthropic-beta", "").split(",")]
        if token.startswith("sk-ant-oat") and not any(b.startswith("oauth-") for b in betas):
            found.append("headers.anthropic-beta: an OAuth token needs oauth-2025-04-20")
    if "/backend-api/codex" in path and not headers.get("chatgpt-account-id"):
        found.append("headers.chatgpt-account-id: required header is missing")
    return found
