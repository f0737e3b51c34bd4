"""Which JSON types a schema lets through: all that tools and adapters both have to know of a schema's root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["TYPES", "WRAPPER", "admits", "admits_object", "target"]

TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")

WRAPPER = "value"
"""The property under which arguments stand whose own root is no object: providers take objects only."""

_UNIONS = ("anyOf", "oneOf")


def admits(schema: Any, root: Mapping[str, Any] | None = None, _seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """The JSON types that `schema` may accept: never too few. root: where its local references lead, if anywhere."""
    if not isinstance(schema, Mapping):
        return frozenset(TYPES) if schema is not False else frozenset()
    if schema.get("not") == {}:
        return frozenset()
    kinds = frozenset(TYPES)
    if "type" in schema:
        given = schema["type"]
        kinds &= frozenset(given if isinstance(given, list) else [given])
    if "const" in schema:
        kinds &= _kinds([schema["const"]])
    if "enum" in schema:
        kinds &= _kinds(schema["enum"])
    for key in _UNIONS:
        if key in schema:
            kinds &= frozenset().union(*(admits(s, root, _seen) for s in schema[key]))
    for sub in schema.get("allOf", ()):
        kinds &= admits(sub, root, _seen)
    reference = schema.get("$ref")
    if root is not None and isinstance(reference, str) and reference not in _seen:
        kinds &= admits(target(reference, root), root, _seen | {reference})
    return kinds


def admits_object(schema: Mapping[str, Any]) -> bool:
    """Whether arguments, which are always an object, can be meant by a tool's schema as it stands.

    Where not, they come as `{"value": ...}`. A schema that accepts nothing at all is taken as it stands.
    """
    try:
        kinds = admits(schema, schema)
    except (RecursionError, TypeError):
        return True
    return "object" in kinds or not kinds


def target(reference: str, root: Mapping[str, Any]) -> Any:
    """What a reference into the same document leads to, True (anything) where it leads nowhere."""
    if not reference.startswith("#"):
        return True
    found: Any = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or key not in found:
            return True
        found = found[key]
    return found


def _kinds(values: list[Any]) -> frozenset[str]:
    def kind(value: Any) -> tuple[str, ...]:
        if value is None:
            return ("null",)
        if isinstance(value, bool):
            return ("boolean",)
        if isinstance(value, int | float):
            return ("integer", "number")
        return ("string",) if isinstance(value, str) else ("array",) if isinstance(value, list) else ("object",)

    return frozenset(k for v in values for k in kind(v))
