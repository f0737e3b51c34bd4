"""Response schemas: closed objects, and the subsets of JSON Schema that providers enforce while a model writes.

Anthropic's structured outputs need `additionalProperties: false` on every object and lack numeric limits, string
lengths, `oneOf` and recursion. OpenAI's strict mode needs every property required as well, and knows a fixed list of
keywords. A narrower schema than the own one is fine here: what it lets through is checked against the own one.
"""

from __future__ import annotations

import json
from typing import Any

from geode.adapters.schema_plain import CannotSend, Notes, map_subschemas

__all__ = ["anthropic_output", "close_objects", "qualifies_strict"]

_ANTHROPIC = frozenset({
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "allOf", "title",
    "description", "default", "format", "pattern", "minItems",
})  # fmt: skip
_ANTHROPIC_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)

_STRICT = frozenset({
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs",
    "title", "description", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "minItems", "maxItems",
})  # fmt: skip
_STRICT_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_STRICT_PROPERTIES = 5000
_STRICT_LEVELS = 10
_STRICT_ENUM = 1000
_STRICT_CHARS = 120_000


def _is_object(schema: dict[str, Any]) -> bool:
    kinds = schema.get("type")
    return kinds == "object" or (isinstance(kinds, list) and "object" in kinds) or "properties" in schema


def close_objects(schema: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """`additionalProperties: false` on each object that lists its properties and says nothing of others."""

    def visit(sub: Any, path: str, under_all: bool = False) -> Any:
        if not isinstance(sub, dict):
            return sub

        def below(s: Any, p: str) -> Any:
            return s if p.startswith(("not", "if", "allOf")) else visit(s, f"{path}.{p}")

        sub = map_subschemas(sub, below)
        tied = {"allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties", "unevaluatedProperties"}
        if sub.get("properties") and "additionalProperties" not in sub and not tied & sub.keys():
            sub["additionalProperties"] = False
        return sub

    return dict(visit(schema, ""))


def anthropic_output(schema: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """`schema` in the subset of Anthropic's structured outputs; limits it lacks go into descriptions.

    Raises CannotSend for recursion, for maps with free keys and for places that accept anything: closed objects
    cannot say those.
    """
    if "$defs" in schema:
        raise CannotSend("its definitions are recursive or too many, which structured outputs do not take")

    def visit(sub: Any, path: str) -> Any:
        where = path or "the root"
        if not isinstance(sub, dict):
            return sub
        if "oneOf" in sub:
            options = sub["oneOf"]
            sub = {k: v for k, v in sub.items() if k != "oneOf"}
            key = "anyOf" if "anyOf" not in sub else "allOf"
            sub[key] = options if key == "anyOf" else [*sub.get("allOf", ()), {"anyOf": options}]
            notes.add(f"{where}: oneOf goes as anyOf")
        dropped: dict[str, Any] = {}
        kept: dict[str, Any] = {}
        for key, value in sub.items():
            fits = key in _ANTHROPIC
            fits = fits and not (key == "format" and value not in _ANTHROPIC_FORMATS)
            fits = fits and not (key == "minItems" and value > 1)
            (kept if fits else dropped)[key] = value
        if dropped:
            notes.add(f"{where}: {', '.join(dropped)} cannot be enforced and is checked locally")
            words = json.dumps(dropped, ensure_ascii=False)
            if len(words) <= 400:
                kept["description"] = f"{kept['description']}\n\n{words}" if kept.get("description") else words
        if "patternProperties" in dropped:
            raise CannotSend(f"{where}: an object with free keys cannot be said with additionalProperties: false")
        if _is_object(kept):
            if not kept.get("properties") and kept.get("additionalProperties") is not False:
                raise CannotSend(f"{where}: an object with free keys cannot be said with additionalProperties: false")
            kept["properties"] = kept.get("properties", {})
            extra = [n for n in kept.get("required", ()) if n not in kept["properties"]]
            if extra:
                raise CannotSend(f"{where}: {extra[0]!r} is required and not described")
            if kept.get("additionalProperties", False) is not False:
                notes.add(f"{where}: further properties cannot be enforced: the object is closed")
            kept["additionalProperties"] = False
        elif not {"type", "enum", "const", "anyOf", "allOf"} & kept.keys():
            raise CannotSend(f"{where}: it accepts anything, which structured outputs cannot say")
        prefix = f"{path}." if path else ""
        return map_subschemas(kept, lambda s, p: visit(s, f"{prefix}{p}"))

    return dict(visit(schema, ""))


def qualifies_strict(schema: Any) -> bool:
    """Whether OpenAI takes `schema` with `strict: true`: all properties required, all objects closed, known keywords.

    The limits are those of OpenAI's structured outputs guide: 5000 properties, 10 levels of nesting, 1000 enum
    values, 120 000 characters of names and values. Where a keyword's support is unclear the answer is False: without
    `strict` the schema is still sent.
    """
    totals = {"properties": 0, "enum": 0, "chars": 0}

    def fits(sub: Any, level: int) -> bool:
        if not isinstance(sub, dict) or not sub.keys() <= _STRICT or level > _STRICT_LEVELS:
            return False
        if "$ref" in sub:
            return sub.keys() <= {"$ref", "description"} and str(sub["$ref"]).startswith("#")
        if not {"type", "anyOf", "enum", "const"} & sub.keys():
            return False
        if "format" in sub and sub["format"] not in _STRICT_FORMATS:
            return False
        values = [*sub.get("enum", ()), *([sub["const"]] if "const" in sub else [])]
        totals["enum"] += len(values)
        totals["chars"] += sum(len(v) for v in values if isinstance(v, str))
        if any(isinstance(v, dict | list) for v in values):
            return False
        children: list[tuple[Any, int]] = [(s, level) for s in sub.get("anyOf", ())]
        if _is_object(sub):
            properties = sub.get("properties")
            if not isinstance(properties, dict) or sub.get("additionalProperties") is not False:
                return False
            if "required" not in sub or set(sub["required"]) != set(properties):
                return False
            totals["properties"] += len(properties)
            totals["chars"] += sum(len(n) for n in properties)
            children += [(s, level + 1) for s in properties.values()]
        elif {"required", "additionalProperties"} & sub.keys():
            return False
        kinds = sub.get("type")
        if kinds == "array" or (isinstance(kinds, list) and "array" in kinds):
            if "items" not in sub:
                return False
            children.append((sub["items"], level + 1))
        elif "items" in sub:
            return False
        totals["chars"] += sum(len(n) for n in sub.get("$defs", ()))
        children += [(s, 1) for s in sub.get("$defs", {}).values()]
        return all(fits(s, lv) for s, lv in children)

    if not isinstance(schema, dict) or schema.get("type") != "object" or "anyOf" in schema:
        return False
    return (
        fits(schema, 0)
        and totals["properties"] <= _STRICT_PROPERTIES
        and totals["enum"] <= _STRICT_ENUM
        and totals["chars"] <= _STRICT_CHARS
    )
