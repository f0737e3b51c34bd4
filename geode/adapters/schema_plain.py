"""First step of making a tool schema sendable: a plain JSON copy of whatever a tool's author handed over.

Schemas come from users' Python and from other people's servers: they hold classes where a type's name belongs, NaN,
keys that are no strings, null bytes, or themselves. The copy holds none of those; the original is never changed.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["ANNOTATIONS", "CannotSend", "Notes", "map_subschemas", "plain"]

MAX_LEVELS = 160
"""Deepest nesting of a JSON document that is sent; validators recurse, and no tool needs more."""

MAX_NODES = 200_000
"""Most values in one schema."""

ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"}
)
"""Keywords that say something about a value and accept or refuse none."""

ONE = (
    "additionalProperties",
    "items",
    "additionalItems",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
)
MANY = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
COMBINED = ("anyOf", "oneOf", "allOf")
NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")

_SURROGATE = re.compile("[\ud800-\udfff]")
_CLASSES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    tuple: "array",
    set: "array",
    type(None): "null",
}


class CannotSend(Exception):
    """A schema that no repair makes sendable; its text is the reason."""


class Notes:
    """What was changed on the way, each said once, in order."""

    def __init__(self) -> None:
        self._notes: dict[str, None] = {}

    def add(self, text: str) -> None:
        self._notes.setdefault(text)

    def __iter__(self) -> Any:
        return iter(self._notes)


def map_subschemas(schema: Mapping[str, Any], visit: Callable[[Any, str], Any]) -> dict[str, Any]:
    """A copy of `schema` with `visit(subschema, keyword path)` in place of each subschema directly below it.

    Values, as in `enum`, `const`, `default` and `examples`, are no schemas and stay as they are. Where a subschema
    belongs and something else stands (a list of properties, a string), it is left for the repair step.
    """
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in NAMED and isinstance(value, dict):
            out[key] = {
                name: sub if isinstance(sub, list) else visit(sub, f"{key}.{name}") for name, sub in value.items()
            }
        elif key in COMBINED and isinstance(value, dict):
            out[key] = [visit(value, f"{key}.0")]  # a list was meant
        elif key in MANY and isinstance(value, list):
            out[key] = [visit(sub, f"{key}.{index}") for index, sub in enumerate(value)]
        elif key in ONE and isinstance(value, (dict, bool)):
            out[key] = visit(value, key)
        else:
            out[key] = value
    return out


class _Drop(Exception):
    """This value has no place in JSON: what holds it goes on without it."""


def plain(schema: Any, notes: Notes) -> Any:
    """A JSON copy of `schema`: only dict with string keys, list, str, int, finite float, bool and None.

    Raises CannotSend for what contains itself, or is too deep or too large.
    """
    count = 0
    above: set[int] = set()

    def text(value: str) -> str:
        if "\x00" in value:
            notes.add("null bytes were removed")
            value = value.replace("\x00", "")
        if _SURROGATE.search(value):
            notes.add("characters outside Unicode text were replaced")
            value = _SURROGATE.sub("\ufffd", value)
        return str(value)

    def key_text(key: Any) -> str:
        if isinstance(key, enum.Enum):
            key = key.value
        if isinstance(key, str):
            return text(key)
        if key is None or isinstance(key, (bool, int, float)):
            notes.add(f"the key {key!r} is no string and was written as one")
            return "null" if key is None else repr(key).lower() if isinstance(key, bool) else repr(key)
        notes.add(f"a key of type {type(key).__name__} was left out")
        raise _Drop

    def copy(value: Any, level: int) -> Any:
        nonlocal count
        count += 1
        if count > MAX_NODES:
            raise CannotSend(f"it has more than {MAX_NODES} values")
        if level > MAX_LEVELS:
            raise CannotSend(f"it is nested more than {MAX_LEVELS} levels deep")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, enum.Enum):
            return copy(value.value, level + 1)
        if isinstance(value, str):
            return text(value)
        if isinstance(value, int):
            if value.bit_length() > 1024:
                notes.add("a whole number beyond all JSON readers was left out")
                raise _Drop
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                notes.add(f"{value!r} is no JSON number and was left out")
                raise _Drop
            return float(value)
        if isinstance(value, type) and value in _CLASSES:
            notes.add(f"the Python class {value.__name__} became the type '{_CLASSES[value]}'")
            return _CLASSES[value]
        if isinstance(value, (Mapping, list, tuple, set, frozenset)):
            if id(value) in above:
                raise CannotSend("it contains itself")
            above.add(id(value))
            try:
                return mapping(value, level) if isinstance(value, Mapping) else sequence(value, level)
            finally:
                above.discard(id(value))
        notes.add(f"a value of type {type(value).__name__} is no JSON and was left out")
        raise _Drop

    def mapping(value: Mapping[Any, Any], level: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, item in value.items():
            try:
                name = key_text(key)
                if name in out:
                    notes.add(f"the key {name!r} stands twice: the first is kept")
                    continue
                out[name] = copy(item, level + 1)
            except _Drop:
                continue
        return out

    def sequence(value: Any, level: int) -> list[Any]:
        if isinstance(value, (set, frozenset)):
            value = sorted(value, key=repr)
        out: list[Any] = []
        for item in value:
            try:
                out.append(copy(item, level + 1))
            except _Drop:
                continue
        return out

    try:
        return copy(schema, 0)
    except _Drop:
        return {}
