"""How long a provider asks to wait: from Retry-After, its rate-limit reset headers, or the body.

Sources: RFC 9110 (Retry-After in seconds or as a date), OpenAI's rate-limit guide (`x-ratelimit-reset-requests: 6m0s`),
Anthropic's (`anthropic-ratelimit-tokens-reset` as RFC 3339), and gateways that send a Unix time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

__all__ = ["retry_after"]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s|d)")
_WHOLE_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|h|m|s|d))+")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_RESET = re.compile(r"(?:x-ratelimit-reset(?:-.+)?|anthropic-(?:\w+-)?ratelimit-.+-reset)")
_EPOCH_S, _EPOCH_MS = 1e9, 1e12


def retry_after(headers: Mapping[str, str], body: Any, *, limited: bool, now: float) -> float | None:
    """Seconds to wait, or None where nothing says so. Retry-After first, then the largest of the reset headers.

    headers: lower-case names. limited: the answer was a rate limit; only then do the reset headers, which come with
    every response, mean anything. now: seconds since the epoch.
    """
    if (ms := headers.get("retry-after-ms")) and _NUMBER.fullmatch(ms.strip()):
        return float(ms) / 1000
    if value := headers.get("retry-after"):
        wait = _date(value, now) if _NUMBER.fullmatch(value.strip()) is None else float(value)
        if wait is not None:
            return wait
    if limited:
        resets = [_reset(value, now) for name, value in headers.items() if _RESET.fullmatch(name)]
        if known := [wait for wait in resets if wait is not None]:
            return max(known)
    return _from_body(body)


def _date(text: str, now: float) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now)


def _reset(text: str, now: float) -> float | None:
    """A duration (6m0s, 20ms), a number of seconds, a Unix time in s or ms, or an RFC 3339 time: seconds from now."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        number = float(text)
        if number >= _EPOCH_MS:
            return max(0.0, number / 1000 - now)
        return max(0.0, number - now) if number >= _EPOCH_S else number
    if _WHOLE_DURATION.fullmatch(text):
        return round(sum(float(n) * _UNIT_S[unit] for n, unit in _DURATION.findall(text)), 6)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now)


def _from_body(body: Any) -> float | None:
    """The Codex backend says it in the body: `resets_in_seconds`."""
    error = body.get("error") if isinstance(body, Mapping) else None
    value = error.get("resets_in_seconds") if isinstance(error, Mapping) else None
    return float(value) if isinstance(value, int | float) and value >= 0 else None
