"""Glob patterns as regular expressions over relative paths with `/`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geode.tools.types import ToolError

if TYPE_CHECKING:
    import regex

__all__ = ["glob_pattern"]

_MAX_CHARS = 500


def glob_pattern(pattern: str) -> regex.Pattern[str]:
    """`*` and `?` stay within one component, `**` crosses folders, `[a-z]`, `[!a]` and `{a,b}` as in shells.

    Match with `fullmatch(..., timeout=...)`. Raises ToolError for a pattern that leads out or cannot be read.
    """
    import regex

    if len(pattern) > _MAX_CHARS:
        raise ToolError(f"the glob pattern is longer than {_MAX_CHARS} characters")
    pattern = pattern.removeprefix("./")
    if not pattern:
        raise ToolError("the glob pattern is empty")
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ToolError("a glob pattern is relative to `path` and may not hold `..`")
    try:
        return regex.compile(_translate(pattern), regex.DOTALL)
    except regex.error as error:
        raise ToolError(f"the glob pattern cannot be read: {error}") from None


def _translate(pattern: str) -> str:
    import regex

    out: list[str] = []
    at, depth = 0, 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] in "/{,"):
            out.append("(?:[^/]+/)*")
            at += 3
            continue
        if pattern.startswith("**", at):
            out.append(".*")
            at += 2
            continue
        if char == "[" and (end := pattern.find("]", at + 2)) > 0:
            body = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            negated = body[0] in "!^"
            # a class never matches a separator, nor does its negation
            out.append(f"(?!/)[{'^' if negated else ''}{body[1:] if negated else body}]")
            at = end
        elif char == "{" and "}" in pattern[at:]:
            out.append("(?:")
            depth += 1
        elif char == "}" and depth:
            out.append(")")
            depth -= 1
        elif char == "," and depth:
            out.append("|")
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(char) or regex.escape(char))
        at += 1
    if depth:
        raise ToolError("the glob pattern has an open brace")
    return "".join(out)
