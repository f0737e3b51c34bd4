"""Repairs: what authors write for JSON Schema made valid draft 2020-12, each repair noted.

Older drafts' spellings are translated (`definitions`, `items` as a list, a boolean `exclusiveMinimum`,
`dependencies`), Python's and other languages' type words become JSON Schema's, and keywords that no draft knows, or
whose value makes no sense, are left out: they accept and refuse nothing.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from geode.adapters.schema_plain import Notes, map_subschemas

__all__ = ["TYPES", "repair"]

TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")

_WORDS = {
    "str": "string", "text": "string", "char": "string", "varchar": "string", "bytes": "string", "uuid": "string",
    "date": "string", "datetime": "string", "date-time": "string", "time": "string", "email": "string",
    "uri": "string", "url": "string", "path": "string", "file": "string", "enum": "string", "literal": "string",
    "int": "integer", "long": "integer", "int32": "integer", "int64": "integer",
    "float": "number", "double": "number", "decimal": "number", "numeric": "number", "num": "number",
    "bool": "boolean",
    "dict": "object", "map": "object", "mapping": "object", "record": "object", "json": "object", "struct": "object",
    "list": "array", "tuple": "array", "set": "array", "frozenset": "array", "sequence": "array", "iterable": "array",
    "none": "null", "nonetype": "null", "nil": "null", "undefined": "null", "void": "null",
}  # fmt: skip
_ANY = {"any", "unknown", "mixed", "object | null"}

_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = (
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
)  # fmt: skip
_STRINGS = ("title", "description", "format", "pattern", "contentEncoding", "contentMediaType", "$ref")
_FLAGS = ("uniqueItems", "deprecated", "readOnly", "writeOnly")
_SCHEMAS = (
    "additionalProperties", "items", "contains", "not", "if", "then", "else", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "contentSchema",
)  # fmt: skip
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs")
_QUIET = frozenset({"$schema", "$id", "id", "$anchor", "$comment", "$vocabulary", "definitions"})


def repair(schema: Any, notes: Notes) -> Any:
    """`schema` (plain JSON) as valid draft 2020-12; a value that is no schema becomes the nearest one."""
    return _schema(schema, "", notes)


def _schema(value: Any, path: str, notes: Notes) -> dict[str, Any]:
    where = path or "the root"
    if isinstance(value, dict):
        return _keywords(value, path, notes)
    if value is True:
        return {}
    if value is False:
        return {"not": {}}
    if isinstance(value, str):
        word = _type_word(value)
        notes.add(f"{where}: the text {value[:40]!r} stood for a schema")
        return {} if word == "" else {"type": word} if word else {"description": value}
    if value is not None:
        notes.add(f"{where}: {json.dumps(value)[:40]} is no schema: anything is accepted there")
    return {}


def _type_word(word: str) -> str | None:
    """A JSON Schema type; "" for any; None where the word means nothing."""
    word = word.strip()
    if word in TYPES:
        return word
    low = word.lower()
    if low in TYPES:
        return low
    if low in _ANY:
        return ""
    base = re.split(r"[\[<(]", low, maxsplit=1)[0].rsplit(".", 1)[-1]
    if low.endswith("[]"):
        return "array"
    return base if base in TYPES else _WORDS.get(base)


def _type(value: Any, path: str, notes: Notes) -> Any:
    """The repaired `type`, or None where there is none left."""
    words = value if isinstance(value, list) else [value]
    out: list[str] = []
    for word in words:
        if word is None:
            word = "null"
        known = _type_word(word) if isinstance(word, str) else None
        if known == "":
            notes.add(f"{path}: the type {word!r} became no type (anything)")
            return None
        if known is None:
            notes.add(f"{path}: {json.dumps(word)[:40]} is no type and was left out")
            continue
        if known != word:
            notes.add(f"{path}: the type {word!r} became {known!r}")
        if known not in out:
            out.append(known)
    if not out:
        return None
    return out if isinstance(value, list) and len(out) > 1 else out[0]


def _keywords(raw: dict[str, Any], path: str, notes: Notes) -> dict[str, Any]:
    where = path or "the root"
    schema = _modern(raw, where, notes)
    out: dict[str, Any] = {}
    unknown: list[str] = []
    for key, value in schema.items():
        below = f"{path}.{key}" if path else key
        if key in _QUIET or (key == "$defs" and (path or not isinstance(value, dict))):
            continue
        if key == "type":
            value = _type(value, where, notes)
            ok = value is not None
        elif key in _NUMBERS:
            ok = _number(value) and (key != "multipleOf" or value > 0)
        elif key in _COUNTS:
            ok = _number(value) and value >= 0 and value == int(value)
            value = int(value) if ok else value
        elif key in _STRINGS:
            ok = isinstance(value, str) and (key != "pattern" or _pattern(value))
        elif key in _FLAGS:
            ok = isinstance(value, bool)
        elif key in _SCHEMAS:
            if not (isinstance(value, bool) and key in ("additionalProperties", "unevaluatedProperties")):
                value = _schema(value, below, notes)
            ok = True
        elif key in _LISTS:
            items = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
            value = [_schema(item, f"{below}.{i}", notes) for i, item in enumerate(items)]
            ok = bool(value)
        elif key in _MAPS:
            value = _named(value, below, notes)
            ok = value is not None
        elif key == "required":
            value = _names(value)
            ok = value is not None
        elif key == "dependentRequired":
            ok = isinstance(value, dict)
            value = {k: _names(v) or [] for k, v in value.items()} if ok else value
        elif key == "enum":
            value = _distinct(value) if isinstance(value, list) else None
            ok = bool(value)
        elif key == "examples":
            value = value if isinstance(value, list) else [value]
            ok = True
        elif key in ("const", "default"):
            ok = True
        else:
            unknown.append(key)
            continue
        if ok:
            out[key] = value
        elif key != "type":
            notes.add(f"{where}: {key} makes no sense as it stands and was left out")
    if unknown:
        notes.add(f"{where}: left out, no JSON Schema keyword: {', '.join(k[:40] for k in unknown[:8])}")
    _lift_required(schema, out)
    return out


def _lift_required(raw: dict[str, Any], out: dict[str, Any]) -> None:
    """`required: true` on a property itself is draft 3's spelling."""
    properties = raw.get("properties")
    if isinstance(properties, dict):
        own = [n for n, p in properties.items() if isinstance(p, dict) and p.get("required") is True]
        if own:
            out["required"] = list(dict.fromkeys([*out.get("required", []), *own]))


def _modern(raw: dict[str, Any], where: str, notes: Notes) -> dict[str, Any]:
    """Older drafts' keywords in today's spelling."""
    schema = dict(raw)
    if isinstance(schema.get("required"), bool):
        del schema["required"]
    if isinstance(schema.get("items"), list):
        notes.add(f"{where}: items as a list became prefixItems")
        schema["prefixItems"] = schema.pop("items")
        if "additionalItems" in schema:
            schema["items"] = schema["additionalItems"]
    schema.pop("additionalItems", None)
    for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and _number(schema.get(limit)):
            schema[exclusive] = schema.pop(limit)
    if isinstance(schema.get("dependencies"), dict):
        for name, value in schema.pop("dependencies").items():
            key = "dependentRequired" if isinstance(value, list | str) else "dependentSchemas"
            table = schema.get(key)
            schema[key] = {**(table if isinstance(table, dict) else {}), name: value}
    if "divisibleBy" in schema:
        schema.setdefault("multipleOf", schema.pop("divisibleBy"))
    return schema


def _named(value: Any, path: str, notes: Notes) -> dict[str, Any] | None:
    if isinstance(value, list):
        # [{"name": "a", "type": "string"}, ...] as other tool formats write it
        named = {v["name"]: {k: x for k, x in v.items() if k != "name"} for v in value if _has_name(v)}
        if not named and value:
            return None
        if value:
            notes.add(f"{path}: a list of named entries became a mapping")
        value = named
    if not isinstance(value, dict):
        return None
    return {name: _schema(sub, f"{path}.{name}", notes) for name, sub in value.items()}


def _has_name(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str)


def _names(value: Any) -> list[str] | None:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        return None
    return list(dict.fromkeys(v for v in value if isinstance(v, str)))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _pattern(value: str) -> bool:
    """Python's regular expressions stand in for ECMA's, apart from what only ECMA has."""
    if "(?P" in value:
        return False
    if "\\p{" in value or "\\P{" in value or "(?<" in value or "\\u{" in value or "\\/" in value:
        return True
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _distinct(values: list[Any]) -> list[Any]:
    """`values` without repeats, by JSON's equality (1 and 1.0 are one, 1 and true are two)."""
    seen: set[str] = set()
    out = []
    for value in values:
        plain = int(value) if isinstance(value, float) and value == int(value) else value
        key = json.dumps(plain, sort_keys=True)
        if key not in seen:
            seen.add(key)
            out.append(value)
    return out


def arrays_have_items(schema: dict[str, Any]) -> dict[str, Any]:
    """OpenAI refuses an array schema without `items` ("array schema missing items"): `{}` says the same."""

    def visit(sub: Any, _: str) -> Any:
        if not isinstance(sub, dict):
            return sub
        sub = map_subschemas(sub, visit)
        kinds = sub.get("type")
        if "items" not in sub and (kinds == "array" or (isinstance(kinds, list) and "array" in kinds)):
            sub["items"] = {}
        return sub

    return dict(visit(schema, ""))
