"""Credentials: found by name, never printed.

A config holds the NAME of an environment variable or a file's path; the value is read here, once, and travels in a
`Secrets` that hides it. What goes to files, logs and error messages passes a `Masker` first.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from geode.adapters.options import CredentialOptions

__all__ = ["MASK", "PLACEHOLDER", "CredentialError", "Masker", "Secrets", "mask", "resolve"]

MASK = "***"
PLACEHOLDER = "geode-placeholder-key"
"""Sent where a backend needs no key: the SDKs refuse to be opened without one."""

_CODEX_LOGIN = "run `codex login` and sign in with ChatGPT"


class CredentialError(Exception):
    """A credential is missing or cannot be used. The message is one line and never shows a value."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """A key or token (None: the backend needs none) and, for a ChatGPT login, the account's id."""

    value: str | None = None
    account_id: str | None = None

    def __repr__(self) -> str:
        value = "None" if self.value is None else f"'{MASK}'"
        account = "None" if self.account_id is None else f"'{MASK}'"
        return f"Secrets(value={value}, account_id={account})"

    __str__ = __repr__

    @property
    def values(self) -> tuple[str, ...]:
        """What must not be shown."""
        return tuple(v for v in (self.value, self.account_id) if v)


def resolve(
    credential: CredentialOptions, environ: Mapping[str, str], name: str, *, now: float | None = None
) -> Secrets:
    """Reads the credential of adapter `name`. Raises CredentialError: one line that names the variable or file.

    now: the time in seconds since the epoch to judge a token's expiry by; None takes the clock.
    """
    if credential.kind == "env":
        return _from_environment(credential, environ, name)
    if credential.kind == "codex_file":
        return _from_codex_file(credential, environ, name, time.time() if now is None else now)
    return Secrets()


def _from_environment(credential: CredentialOptions, environ: Mapping[str, str], name: str) -> Secrets:
    for variable in credential.env:
        value = environ.get(variable, "").strip()
        if not value:
            continue
        _check(value, f"adapter {name}: the environment variable {variable}")
        return Secrets(value)
    if not credential.env:
        raise CredentialError(f"adapter {name}: credential.kind is env, but credential.env names no variable")
    names = " or ".join(credential.env)
    raise CredentialError(_line(f"adapter {name}: set the environment variable {names}", credential.how))


def _from_codex_file(credential: CredentialOptions, environ: Mapping[str, str], name: str, now: float) -> Secrets:
    path = _codex_path(credential, environ)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CredentialError(
            _line(f"adapter {name}: no Codex login at {path}", credential.how or _CODEX_LOGIN)
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialError(f"adapter {name}: cannot read {path}: {type(error).__name__}") from None
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    tokens = data.get("tokens") if isinstance(data, dict) else None
    token = tokens.get("access_token") if isinstance(tokens, dict) else None
    if not isinstance(tokens, dict) or not isinstance(token, str) or not token.strip():
        reason = "holds an API key and no ChatGPT login" if _has_api_key(data) else "holds no tokens.access_token"
        raise CredentialError(_line(f"adapter {name}: {path} {reason}", credential.how or _CODEX_LOGIN))
    token = token.strip()
    _check(token, f"adapter {name}: tokens.access_token in {path}")
    claims = _claims(token)
    expiry = claims.get("exp")
    if isinstance(expiry, int | float) and expiry <= now:
        raise CredentialError(f"adapter {name}: the login in {path} has expired; run `codex` once and it renews it")
    account = tokens.get("account_id")
    if not isinstance(account, str) or not account:
        auth = claims.get("https://api.openai.com/auth")
        account = auth.get("chatgpt_account_id") if isinstance(auth, dict) else None
    return Secrets(token, account if isinstance(account, str) and account else None)


def _codex_path(credential: CredentialOptions, environ: Mapping[str, str]) -> Path:
    """The configured file, else `auth.json` under $CODEX_HOME, else under ~/.codex, as the Codex CLI has it."""
    if credential.file:
        given = credential.file
        home = environ.get("HOME")
        if home and given.startswith("~/"):
            return Path(home) / given[2:]
        return Path(given).expanduser()
    if folder := environ.get("CODEX_HOME"):
        return Path(folder) / "auth.json"
    return Path(environ.get("HOME") or Path.home()) / ".codex" / "auth.json"


def _has_api_key(data: Any) -> bool:
    return isinstance(data, dict) and bool(data.get("OPENAI_API_KEY"))


def _claims(token: str) -> dict[str, Any]:
    """The claims of a JWT, unverified (only the backend can verify them); {} where the token is none."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return {}
    return claims if isinstance(claims, dict) else {}


def _check(value: str, what: str) -> None:
    """A key is printable ASCII without spaces: else it would fail as an HTTP header, with the key in the error."""
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise CredentialError(f"{what} holds characters that no key has (white space, quotes cut off, a pasted line?)")


def _line(problem: str, how: str) -> str:
    how = " ".join(how.split())
    return f"{problem} ({how})" if how else problem


# ------------------------------------------------------------------------------------------------------------ masking

_SECRET_NAME = re.compile(
    r"(?i)^(?:proxy-)?authorization$|^cookie$|^set-cookie$|api[-_]?key$|^chatgpt-account-id$|(?:^|[-_])(?:secret|password)$"
    r"|^(?:access|refresh|id|auth|bearer|session)[-_]?token$"
)
"""Names of headers and JSON keys whose value is never shown. Plain `token` and `max_tokens` are not among them."""

_START = r"(?:\b|(?<=\\[nrtbf]))"
"""Where a word begins; in JSON that may be right after an escape (`\\tsk-...`)."""

_LOOKS_SECRET = re.compile(
    rf"(?i:{_START}(bearer|basic)[ \t]+)[A-Za-z0-9._~+/=*-]{{8,}}"
    rf"|{_START}sk-[A-Za-z0-9_*-]{{8,}}"
    rf"|{_START}eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]*"
    rf"|{_START}[0-9a-f]{{32}}\.[A-Za-z0-9]{{16}}\b"
)
"""Bearer values, `sk-` keys, JWTs and Z.ai keys, wherever they stand (providers echo keys in error texts)."""

_DOTTED_KEY = re.compile(r"\.(?<=[0-9a-f]{32}\.)[A-Za-z0-9]{16}")

_SHORTEST = 6
"""A shorter value is not looked for in free text: it would mask ordinary words."""


_LONG_LINE = 20
"""Characters from which a line of a secret with several lines is looked for by itself."""

_NESTED = 3
"""How deep JSON in JSON is looked into: a result in a message in the journal."""


class Masker:
    """Masks known secrets, and whatever looks like one, in text and JSON."""

    __slots__ = ("_known",)

    def __init__(self, *secrets: Secrets | str | None) -> None:
        values: set[str] = set()
        for secret in secrets:
            given = secret.values if isinstance(secret, Secrets) else (secret or "",)
            for value in given:
                if len(value) >= _SHORTEST and value != PLACEHOLDER:
                    values |= _spellings(value)
        longest_first = sorted(values, key=lambda v: (-len(v), v))
        self._known = re.compile("|".join(map(re.escape, longest_first))) if values else None

    def text(self, text: str) -> str:
        """`text` with each secret as `***`."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        return _LOOKS_SECRET.sub(_masked, text) if _may_look_secret(text) else text

    def json(self, value: Any) -> Any:
        """A copy of a JSON value: secrets masked in its strings, and whole where the key's name says so."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(k)): self._value(str(k), v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.json(v) for v in value]
        return value

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """HTTP headers as they may be shown: `Bearer ***` keeps its scheme."""
        return {name: self._value(name, value) for name, value in headers.items()}

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, str) and value and _SECRET_NAME.search(name):
            scheme, space, _ = value.partition(" ")
            return f"{scheme} {MASK}" if space and scheme.lower() in ("bearer", "basic") else MASK
        return self.json(value)


def _spellings(value: str) -> set[str]:
    """A secret as it may stand in a text: as it is, in a URL, in JSON, and in JSON within JSON. Long lines of a secret
    with several (a PEM, a service account) count by themselves, since logs are written line by line."""
    forms = {value, quote(value, safe="")}
    forms |= {line for line in value.splitlines() if len(line.strip()) >= _LONG_LINE} if "\n" in value else set()
    for _ in range(_NESTED):
        forms |= {json.dumps(form, ensure_ascii=ascii)[1:-1] for form in forms for ascii in (True, False)}
    return forms


def _may_look_secret(text: str) -> bool:
    """Whether `_LOOKS_SECRET` can match: every line of a journal is looked at, and few hold any of this."""
    if "sk-" in text or "eyJ" in text or _DOTTED_KEY.search(text) is not None:
        return True
    lower = text.lower()
    return "bearer" in lower or "basic" in lower


def _masked(match: re.Match[str]) -> str:
    return f"{match.group(1)} {MASK}" if match.group(1) else MASK


def mask(text: str, *secrets: Secrets | str | None) -> str:
    """`text` with the given secrets, and whatever looks like one, masked."""
    return Masker(*secrets).text(text)
