"""Two lists of requests side by side, by JSON path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["differences"]

_ABSENT: Any = object()
_MAX_SHOWN = 200
_CONTEXT = 40


def differences(left: Any, right: Any) -> list[str]:
    """One line for each difference, in the order of the left side:

    `~ PATH: OLD -> NEW` changed, `- PATH: OLD` only left, `+ PATH: NEW` only right, `* PATH: keys in another order`.
    """
    return list(_compare("", left, right))


def _compare(path: str, left: Any, right: Any) -> Iterator[str]:
    if right is _ABSENT:
        yield f"- {path}: {_shown(left)}"
    elif left is _ABSENT:
        yield f"+ {path}: {_shown(right)}"
    elif isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(k for k in right if k not in left)]:
            yield from _compare(_at(path, key), left.get(key, _ABSENT), right.get(key, _ABSENT))
        both = [k for k in left if k in right], [k for k in right if k in left]
        if both[0] != both[1]:
            yield f"* {path}: keys in another order: {', '.join(both[0])} -> {', '.join(both[1])}"
    elif isinstance(left, list) and isinstance(right, list):
        yield from _lists(path, left, right)
    elif left != right or type(left) is not type(right):
        yield f"~ {path}: {_shown(left, right)} -> {_shown(right, left)}"


def _lists(path: str, left: list[Any], right: list[Any]) -> Iterator[str]:
    """Members with a name (tools) are compared by it, others by their place."""
    names = [_name(member) for member in left], [_name(member) for member in right]
    if all(names[0]) and all(names[1]) and all(len(set(n)) == len(n) for n in names):
        index = {name: (names[0].index(name) if name in names[0] else None) for name in [*names[0], *names[1]]}
        for name, place in index.items():
            ours = left[place] if place is not None else _ABSENT
            theirs = right[names[1].index(name)] if name in names[1] else _ABSENT
            yield from _compare(f"{path}[{name}]", ours, theirs)
        common = [n for n in names[0] if n in names[1]], [n for n in names[1] if n in names[0]]
        if common[0] != common[1]:
            yield f"* {path}: another order: {', '.join(common[0])} -> {', '.join(common[1])}"
        return
    for place in range(max(len(left), len(right))):
        ours = left[place] if place < len(left) else _ABSENT
        theirs = right[place] if place < len(right) else _ABSENT
        yield from _compare(f"{path}[{place}]", ours, theirs)


def _name(member: Any) -> str:
    if not isinstance(member, dict):
        return ""
    inner = member.get("function")
    name = inner.get("name") if isinstance(inner, dict) else member.get("name")
    is_tool = "input_schema" in member or "parameters" in (inner if isinstance(inner, dict) else member)
    return name if isinstance(name, str) and is_tool else ""


def _at(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _shown(value: Any, other: Any = None) -> str:
    """A value on one line. Of a long text that differs from another, the part where it begins to differ."""
    if isinstance(value, str) and isinstance(other, str) and max(len(value), len(other)) > _MAX_SHOWN:
        pairs = enumerate(zip(value, other, strict=False))
        same = next((i for i, (a, b) in pairs if a != b), min(len(value), len(other)))
        start = max(0, same - _CONTEXT)
        part = json.dumps(value[start : start + _MAX_SHOWN], ensure_ascii=False)
        return f"{'...' if start else ''}{part}{'...' if len(value) > start + _MAX_SHOWN else ''}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}... ({len(text)} characters)"
