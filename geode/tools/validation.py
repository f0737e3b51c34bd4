"""JSON Schema checks of tools' arguments: each schema is compiled once, at its first use.

Draft 2020-12 unless the schema's own `$schema` names another. References outside the schema are never fetched.
Where a schema's root is no object, the arguments are `{"value": ...}`, and what stands there is checked.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

from geode.schema_kinds import WRAPPER, admits_object, target
from geode.tools.quick_check import quick_check

__all__ = ["compile_schema", "declared_properties", "null_byte_path", "schema_fault"]

Check = Callable[[Mapping[str, Any]], list[str]]

MAX_VIOLATIONS = 5
_MAX_SEEN = 1000
_MAX_TEXT = 300
_NESTED = (dict, list)
_TEXTUAL = (str, dict, list)


def schema_fault(schema: object) -> str | None:
    """What is wrong with a schema itself, None where it is a valid JSON Schema."""
    if not isinstance(schema, Mapping):
        return f"it is {type(schema).__name__}, not an object"
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError):
        return _fault(schema)
    return _fault_of_text(text)


@functools.lru_cache(maxsize=512)
def _fault_of_text(text: str) -> str | None:
    """A check takes milliseconds, and a process may make many runs (a sweep, sub-agents) with the same tools."""
    return _fault(json.loads(text))


def _fault(schema: Mapping[str, Any]) -> str | None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema, default=Draft202012Validator).check_schema(dict(schema))
    except SchemaError as error:
        return f"at {_path(error.absolute_path)}: {_short(error.message)}"
    except Exception as error:
        return _short(f"{type(error).__name__}: {error}")
    return None


def compile_schema(schema: Mapping[str, Any]) -> Check:
    """A function that lists what is wrong with some arguments: a few short lines, none where they fit."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    validator = validator_for(schema, default=Draft202012Validator)(schema, registry=Registry())
    wrapped = not admits_object(schema)
    quick = None
    with contextlib.suppress(Exception):  # a schema that is none (an MCP server's): said at the first call
        quick = None if wrapped or "$schema" in schema else quick_check(schema)

    def check(arguments: Mapping[str, Any]) -> list[str]:
        if quick is not None and quick(arguments):
            return []
        value: Any = arguments
        if wrapped:
            if set(arguments) != {WRAPPER}:
                return [f"$: must be an object with the one property {WRAPPER!r}, which holds the value"]
            value = arguments[WRAPPER]
        lines: list[str] = []
        try:
            for error in itertools.islice(validator.iter_errors(value), _MAX_SEEN):
                path = [WRAPPER, *error.absolute_path] if wrapped else error.absolute_path
                lines.append(f"{_path(path)}: {_short(error.message)}")
        except Exception as error:  # a reference that leads nowhere, or in a circle
            return [f"the tool's schema cannot be applied: {_short(f'{type(error).__name__}: {error}')}"]
        lines.sort()  # the validator goes through sets, whose order differs from one process to the next
        return lines if len(lines) <= MAX_VIOLATIONS else [*lines[:MAX_VIOLATIONS], "(there are more)"]

    return check


def declared_properties(schema: Mapping[str, Any]) -> set[str] | None:
    """The properties that a schema names at its root or in a branch of it, None where it names none."""
    names: set[str] = set()
    found, todo, seen = False, [schema], 0
    while todo and (seen := seen + 1) < 1000:
        part = todo.pop()
        if isinstance(own := part.get("properties"), Mapping):
            found = True
            names |= set(own)
        branches = [s for key in ("allOf", "anyOf", "oneOf") for s in part.get(key, ())]
        branches += [part.get(key) for key in ("if", "then", "else")]
        if isinstance(part.get("$ref"), str):
            branches.append(target(part["$ref"], schema))
        todo += [branch for branch in branches if isinstance(branch, Mapping)]
    return names if found else None


def null_byte_path(value: Any) -> str | None:
    """The path of the first string with a null byte in some arguments."""
    if not value:
        return None
    todo = [("$", value)]
    while todo:
        path, item = todo.pop()
        if isinstance(item, str):
            if "\0" in item:
                return path
        elif isinstance(item, Mapping):
            for key, inner in item.items():
                if isinstance(key, str) and "\0" in key:
                    return path
                if type(inner) is str:
                    if "\0" in inner:
                        return f"{path}.{key}"
                elif isinstance(inner, _NESTED):
                    todo.append((f"{path}.{key}", inner))
        elif isinstance(item, list):
            todo.extend((f"{path}[{n}]", inner) for n, inner in enumerate(item) if isinstance(inner, _TEXTUAL))
    return None


def _path(parts: Any) -> str:
    text = "$"
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if part.isidentifier() else f"[{json.dumps(part, ensure_ascii=False)}]"
    return text


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 60]} ... {text[-50:]}"
