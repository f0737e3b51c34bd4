"""Signatures and encrypted reasoning that this provider issues, and can recognise again without keeping any.

Real providers refuse reasoning that was changed or came from elsewhere. Here a signature is a digest of the text, and
encrypted content carries its own digest, so that a conversation may go on after the server was started anew.
"""

from __future__ import annotations

import base64
import hashlib

__all__ = ["is_opaque", "is_signature", "opaque", "signature"]

_SALT = "loopback provider:"


def signature(thinking: str) -> str:
    """The signature of a thinking block."""
    return "Es" + base64.b64encode(_digest(thinking)).decode()


def is_signature(thinking: object, given: object) -> bool:
    return isinstance(thinking, str) and given == signature(thinking)


def opaque(text: str) -> str:
    """Reasoning in a form that only the provider reads: redacted thinking, encrypted_content."""
    data = text.encode()
    return "gAAA" + base64.b64encode(_digest(text)[:12] + data).decode()


def is_opaque(given: object) -> bool:
    if not isinstance(given, str) or not given.startswith("gAAA"):
        return False
    try:
        raw = base64.b64decode(given[4:], validate=True)
        return raw[:12] == _digest(raw[12:].decode())[:12]
    except ValueError:
        return False


def _digest(text: str) -> bytes:
    return hashlib.sha256((_SALT + text).encode()).digest()
