"""Faults of a config: one line each, with what was given, what is allowed and the nearest right name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

__all__ = ["ConfigFault", "OutputError", "nearest", "secret_in", "shown"]


class ConfigFault(Exception):
    """The config cannot be run. `lines` holds one fault each; the exit code is 2."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))

    def __reduce__(self) -> tuple[type[ConfigFault], tuple[tuple[str, ...]]]:
        return ConfigFault, (self.lines,)


class OutputError(Exception):
    """The answer of a run that ended could not be printed: one line that says where it is. The exit code is 1."""


def nearest(word: str, allowed: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the allowed name nearest to `word`, or nothing."""
    names = [str(name) for name in allowed]
    folded = {name.casefold().replace("-", "_"): name for name in names}
    found = difflib.get_close_matches(str(word).casefold().replace("-", "_"), folded, n=1, cutoff=0.5)
    return f"; did you mean {folded[found[0]]!r}?" if found else ""


def shown(value: object, limit: int = 60) -> str:
    """A value as it is shown in a fault: short, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


_SECRET_VALUE = re.compile(
    r"\b(sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}"
    r"|xox[abprs]-[\w-]{10,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*|[0-9a-f]{32}\.[A-Za-z0-9]{16})"
    r"|\b[Bb]earer\s+(?!\$)[\w.~+/-]{8,}"
)
_SECRET_KEY = re.compile(
    r"(?i)(^|[._-])(api[_-]?key|authorization|password|passwd|secret|(auth|access|oauth)[_-]?token)$"
)


def secret_in(path: str, value: str) -> list[str]:
    """A fault if the value at `path` looks like a secret; the value itself is not shown."""
    if "${" in value:
        return []
    named = _SECRET_KEY.search(path) and ".header_env." not in path and value not in ("", "???", "null")
    if named or _SECRET_VALUE.search(value):
        where = "adapter.credential.env, mcp.servers.X.header_env"
        return [f"{path}: given what looks like a secret, allowed: the NAME of an environment variable ({where})"]
    return []
