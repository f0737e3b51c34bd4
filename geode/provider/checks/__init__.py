"""What the parameter types cannot say of a request: pairing, ids, names, order, schemas, headers.

Each wire has `check(body) -> list[str]`: one line each, with a JSON path, in the order of the body. The rules are the
providers' own, from their API references and error messages.
"""

from __future__ import annotations

from typing import Any

from geode.provider.checks import chat, headers, messages, responses
from geode.provider.params import Wire

__all__ = ["check_headers", "semantic"]

check_headers = headers.check


def semantic(wire: Wire, body: dict[str, Any], path: str = "") -> list[str]:
    """The problems of a body on a wire; `path` is the URL's, since some backends have rules of their own."""
    if wire == "messages":
        return messages.check(body)
    if wire == "chat":
        return chat.check(body)
    return responses.check(body, codex="/backend-api/codex" in path)
