"""Rules that the three wires share: names, duplicates, argument texts and tool schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = [
    "argument_problem",
    "closed_objects",
    "dicts",
    "duplicates",
    "name_problem",
    "named_choice",
    "root_problems",
    "strict_objects",
]

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_ROOT_KEYWORDS = ("oneOf", "anyOf", "allOf")
_CHILD_MAPS = ("properties", "$defs", "definitions", "patternProperties")
_CHILD_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_CHILDREN = ("items", "additionalProperties", "not", "if", "then", "else")


def dicts(value: Any) -> list[tuple[int, dict[str, Any]]]:
    """(index, object) of the objects in an array; nothing where it is no array."""
    return [(i, v) for i, v in enumerate(value) if isinstance(v, dict)] if isinstance(value, list) else []


def name_problem(path: str, name: Any) -> list[str]:
    if isinstance(name, str) and not NAME.match(name):
        return [f"{path}: {name!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$"]
    return []


def duplicates(found: Iterable[tuple[str, Any]], what: str) -> list[str]:
    """`found`: (path, value); a value that came before is a problem."""
    first: dict[Any, str] = {}
    problems = []
    for path, value in found:
        if isinstance(value, str):
            if value in first:
                problems.append(f"{path}: {what} {value!r} is used twice (first at {first[value]})")
            else:
                first[value] = path
    return problems


def argument_problem(path: str, text: Any, limit: int | None = None) -> list[str]:
    """The text of a call's arguments must be a JSON object."""
    if not isinstance(text, str):
        return []
    if limit is not None and len(text) > limit:
        return [f"{path}: {len(text)} characters are over the limit of {limit}"]
    try:
        value = json.loads(text)
    except ValueError:
        return [f"{path}: is no JSON: {text[:60]!r}"]
    return [] if isinstance(value, dict) else [f"{path}: is JSON but no object: {text[:60]!r}"]


def named_choice(path: str, name: Any, names: set[str]) -> list[str]:
    if name in names:
        return []
    return [f"{path}: no tool {name!r} in tools (there are: {', '.join(sorted(names)) or 'none'})"]


def root_problems(path: str, schema: Any, *, more: tuple[str, ...] = ()) -> list[str]:
    """A tool schema's root is an object without oneOf, anyOf, allOf (and `more`)."""
    if not isinstance(schema, dict):
        return []
    found = [f"{path}.{key}: not allowed at the root of a schema" for key in (*_ROOT_KEYWORDS, *more) if key in schema]
    if schema.get("type") != "object":
        found.append(f"{path}.type: must be object at the root, not {schema.get('type')!r}")
    return found


def _schemas(path: str, schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path, schema) of a schema and all inside it."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key in _CHILD_MAPS:
        if isinstance(schema.get(key), dict):
            for name, child in schema[key].items():
                yield from _schemas(f"{path}.{key}.{name}", child)
    for key in _CHILD_LISTS:
        for i, child in dicts(schema.get(key)):
            yield from _schemas(f"{path}.{key}[{i}]", child)
    for key in _CHILDREN:
        yield from _schemas(f"{path}.{key}", schema.get(key))


def _is_object(schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    return (
        kind == "object" or (isinstance(kind, list) and "object" in kind) or (kind is None and "properties" in schema)
    )


def property_names(path: str, schema: Any, pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{where}.properties.{name}: the name does not match ^{pattern.pattern.removesuffix(chr(92) + 'Z')}$"
        for where, part in _schemas(path, schema)
        if isinstance(part.get("properties"), dict)
        for name in part["properties"]
        if not pattern.match(name)
    ]


def closed_objects(path: str, schema: Any) -> list[str]:
    """Structured output: every object says additionalProperties: false."""
    return [
        f"{where}.additionalProperties: must be false on every object"
        for where, part in _schemas(path, schema)
        if _is_object(part) and part.get("additionalProperties") is not False
    ]


def strict_objects(path: str, schema: Any) -> list[str]:
    """Strict mode: every object is closed and requires all its properties."""
    found = closed_objects(path, schema)
    for where, part in _schemas(path, schema):
        if _is_object(part):
            required = part.get("required") if isinstance(part.get("required"), list) else []
            properties = part.get("properties") if isinstance(part.get("properties"), dict) else {}
            found += [
                f"{where}.required: must name every property, {name!r} is missing"
                for name in properties or {}
                if name not in (required or [])
            ]
    return found
