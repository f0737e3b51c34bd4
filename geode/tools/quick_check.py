"""A quick yes for arguments that fit a plain schema: most tools' schemas use few keywords, and most calls are right.

It says yes or "look closer", never no: whatever it does not know is left to the full validator, which also words the
faults. Values must be exactly what `json.loads` makes (a bool is no number).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["quick_check"]

Yes = Callable[[Any], bool]

_SAID_ONLY = frozenset({"title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "format"})
_BASIC: Mapping[str, Yes] = {
    "string": lambda value: type(value) is str,
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
}
_RULES: Mapping[str, Mapping[str, Callable[[Any, Any], bool]]] = {
    "string": {
        "minLength": lambda value, limit: len(value) >= limit,
        "maxLength": lambda value, limit: len(value) <= limit,
        "enum": lambda value, allowed: value in allowed,
    },
    "integer": {
        "minimum": lambda value, limit: value >= limit,
        "maximum": lambda value, limit: value <= limit,
    },
    "number": {
        "minimum": lambda value, limit: value >= limit,
        "maximum": lambda value, limit: value <= limit,
    },
}


def quick_check(schema: Any) -> Yes | None:
    """A function that is True for values that certainly fit, None where the schema needs the full validator."""
    if not isinstance(schema, Mapping):
        return None
    rules = {key: value for key, value in schema.items() if key not in _SAID_ONLY}
    kind = rules.pop("type", None)
    if kind == "object":
        return _object(rules)
    if kind == "array":
        return _array(rules)
    if not isinstance(kind, str) or kind not in _BASIC:
        return None
    basic, known = _BASIC[kind], _RULES.get(kind, {})
    pattern = rules.pop("pattern", None) if kind == "string" else None
    if any(key not in known for key in rules):
        return None
    checks = [(known[key], limit) for key, limit in rules.items()]
    if pattern is not None:
        search = re.compile(pattern).search
        checks.append((lambda value, _limit: search(value) is not None, None))
    if not checks:
        return basic
    if len(checks) == 1:
        ((check, limit),) = checks
        return lambda value: basic(value) and check(value, limit)
    return lambda value: basic(value) and all(check(value, limit) for check, limit in checks)


def _object(rules: dict[str, Any]) -> Yes | None:
    required = frozenset(rules.pop("required", ()))
    parts: dict[str, Yes] = {}
    for name, part in rules.pop("properties", {}).items():
        check = quick_check(part)
        if check is None:
            return None
        parts[name] = check
    open_ended = rules.pop("additionalProperties", True)
    if rules or not isinstance(open_ended, bool):
        return None

    def fits(value: Any) -> bool:
        if not isinstance(value, dict) or not required <= value.keys():
            return False
        for name, item in value.items():
            check = parts.get(name)
            if not (open_ended if check is None else check(item)):
                return False
        return True

    return fits


def _array(rules: dict[str, Any]) -> Yes | None:
    items = quick_check(rules.pop("items")) if "items" in rules else _anything
    least, most = rules.pop("minItems", 0), rules.pop("maxItems", None)
    if rules or items is None:
        return None

    def fits(value: Any) -> bool:
        return (
            isinstance(value, list)
            and len(value) >= least
            and (most is None or len(value) <= most)
            and all(items(item) for item in value)
        )

    return fits


def _anything(_value: Any) -> bool:
    return True
