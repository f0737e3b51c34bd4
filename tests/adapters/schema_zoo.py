"""Schemas as real servers and libraries emit them, generated ones, and hostile ones; and instances to try them on."""

from __future__ import annotations

import datetime
import enum
import math
import random
from collections.abc import Iterator
from typing import Any

NODE = {
    "type": "object",
    "properties": {"v": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
}


def doubling(depth: int) -> dict[str, Any]:
    """Each definition names the next one twice: 2**depth copies when written out."""
    defs: dict[str, Any] = {
        f"D{i}": {"type": "object", "properties": {side: {"$ref": f"#/$defs/D{i + 1}"} for side in "ab"}}
        for i in range(depth)
    }
    defs[f"D{depth}"] = {"type": "string"}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/D0"}}, "$defs": defs}


def root_doubling(depth: int) -> dict[str, Any]:
    defs: dict[str, Any] = {f"D{i}": {"anyOf": [{"$ref": f"#/$defs/D{i + 1}"}] * 2} for i in range(depth)}
    defs[f"D{depth}"] = {"type": "object"}
    return {"$ref": "#/$defs/D0", "$defs": defs}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"in": schema}}
    return schema


def cyclic() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["self"] = schema
    return schema


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


REAL: dict[str, Any] = {
    "filesystem edit_file (zod)": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "oldText": {"type": "string", "description": "Text to search for - must match exactly"},
                        "newText": {"type": "string", "description": "Text to replace with"},
                    },
                    "required": ["oldText", "newText"],
                    "additionalProperties": False,
                },
            },
            "dryRun": {
                "type": "boolean",
                "default": False,
                "description": "Preview changes using git-style diff format",
            },
        },
        "required": ["path", "edits"],
        "additionalProperties": False,
        "$schema": "http://json-schema.org/draft-07/schema#",
    },
    "no arguments (zod 4)": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {},
    },
    "no arguments (python sdk)": {"properties": {}, "title": "pingArguments", "type": "object"},
    "bare object": {"type": "object"},
    "empty": {},
    "optional fields (pydantic)": {
        "properties": {
            "url": {"description": "URL to fetch", "format": "uri", "minLength": 1, "title": "Url", "type": "string"},
            "max_length": {"default": 5000, "exclusiveMaximum": 1000000, "exclusiveMinimum": 0, "type": "integer"},
            "since": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
        },
        "required": ["url"],
        "title": "Fetch",
        "type": "object",
    },
    "nested models (pydantic)": {
        "$defs": {
            "Address": {
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                "required": ["street"],
                "title": "Address",
                "type": "object",
            },
            "Kind": {"enum": ["home", "work"], "title": "Kind", "type": "string"},
        },
        "properties": {
            "main": {"$ref": "#/$defs/Address", "description": "Where to send it"},
            "others": {"type": "array", "items": {"$ref": "#/$defs/Address"}},
            "kind": {"allOf": [{"$ref": "#/$defs/Kind"}], "default": "home"},
        },
        "required": ["main"],
        "type": "object",
    },
    "discriminated union (pydantic)": {
        "$defs": {
            "Cat": {
                "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
                "required": ["kind"],
                "type": "object",
            },
            "Dog": {
                "properties": {"kind": {"const": "dog"}, "tricks": {"type": "array"}},
                "required": ["kind"],
                "type": "object",
            },
        },
        "discriminator": {"mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}, "propertyName": "kind"},
        "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
    },
    "recursive model (pydantic)": {"$defs": {"Node": NODE}, "$ref": "#/$defs/Node"},
    "recursive property": {"$defs": {"Node": NODE}, "type": "object", "properties": {"tree": {"$ref": "#/$defs/Node"}}},
    "recursive root": {"type": "object", "properties": {"and": {"type": "array", "items": {"$ref": "#"}}, "eq": {}}},
    "mutual recursion": {
        "$defs": {
            "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}},
            "B": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}},
        },
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
    },
    "one of three (zod union)": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "anyOf": [
            {
                "type": "object",
                "properties": {"id": {"type": "string"}},
                "required": ["id"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": ["name"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"all": {"const": True}},
                "required": ["all"],
                "additionalProperties": False,
            },
        ],
    },
    "at least one of": {
        "type": "object",
        "properties": {"version": {"type": "string"}, "from": {"type": "string"}, "to": {"type": "string"}},
        "anyOf": [{"required": ["version"]}, {"required": ["from"]}, {"required": ["to"]}],
    },
    "exactly one of": {
        "type": "object",
        "properties": {"yaml": {"type": "string"}, "files": {"type": "array", "items": {"type": "string"}}},
        "oneOf": [{"required": ["yaml"]}, {"required": ["files"]}],
    },
    "forbidden together": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "not": {"required": ["a", "b"]},
    },
    "intersection (zod)": {
        "allOf": [
            {
                "type": "object",
                "properties": {"owner": {"type": "string"}, "repo": {"type": "string"}},
                "required": ["owner", "repo"],
            },
            {
                "type": "object",
                "properties": {"page": {"type": "number"}, "perPage": {"type": "number", "maximum": 100}},
            },
        ],
        "$schema": "http://json-schema.org/draft-07/schema#",
    },
    "string or object": {
        "anyOf": [
            {"type": "string"},
            {"type": "object", "properties": {"hours": {"type": "integer"}}, "required": ["hours"]},
        ]
    },
    "string root": {"type": "string", "minLength": 1},
    "array root": {"type": "array", "items": {"type": "integer"}},
    "type list root": {"type": ["object", "null"], "properties": {"q": {"type": "string"}}},
    "conditional": {
        "type": "object",
        "properties": {"mode": {"enum": ["a", "b"]}, "x": {"type": "string"}},
        "if": {"properties": {"mode": {"const": "a"}}},
        "then": {"required": ["x"]},
    },
    "openapi names": {
        "type": "object",
        "properties": {
            "filter[name]": {"type": "string"},
            "$top": {"type": "integer"},
            "Account Number": {"type": "string"},
            "a/b": {"type": "object", "properties": {"日本": {"type": "string"}}, "required": ["日本"]},
            "x" * 80: {"type": "boolean"},
        },
        "required": ["Account Number", "$top"],
    },
    "names that clash": {"type": "object", "properties": {"a b": {}, "a_b": {}, "a/b": {}, "a.b": {}, "": {}}},
    "array without items": {
        "type": "object",
        "properties": {"ids": {"type": "array"}, "m": {"type": ["array", "string"]}},
    },
    "tuple (pydantic)": {
        "type": "object",
        "properties": {
            "size": {
                "anyOf": [
                    {
                        "maxItems": 2,
                        "minItems": 2,
                        "prefixItems": [{"type": "number"}, {"type": "number"}],
                        "type": "array",
                    },
                    {"type": "null"},
                ]
            }
        },
    },
    "free-form map": {
        "type": "object",
        "properties": {"env": {"type": "object", "additionalProperties": {"type": "string"}}},
    },
    "pattern map": {"type": "object", "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False},
    "property named type": {
        "type": "object",
        "properties": {"type": {"type": "string"}, "required": {"type": "boolean"}, "$ref": {"type": "string"}},
    },
    "deep but fine": nested(40),
    "open in a closed frame": {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "additionalProperties": False,
        "allOf": [{"properties": {"a": {"minLength": 2}}}],
    },
    "dependent": {"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}},
    "anchor": {
        "type": "object",
        "properties": {"p": {"$ref": "#pos"}},
        "$defs": {"P": {"$anchor": "pos", "type": "integer", "minimum": 1}},
    },
    "pointer into a property": {
        "type": "object",
        "properties": {"first": {"type": "string", "maxLength": 3}, "second": {"$ref": "#/properties/first"}},
    },
    "escaped pointer": {
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/a~1b%20c"}},
        "$defs": {"a/b c": {"type": "boolean"}},
    },
    "reference with siblings": {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/N", "maximum": 5}},
        "$defs": {"N": {"type": "integer", "minimum": 1, "maximum": 9}},
    },
    "huge enum": {"type": "object", "properties": {"code": {"enum": [f"C{i}" for i in range(5000)]}}},
    "doubling": doubling(30),
    "boolean subschemas": {"type": "object", "properties": {"any": True, "never": False}},
    "unevaluated": {
        "allOf": [{"properties": {"a": {"type": "string"}}}],
        "type": "object",
        "properties": {"b": {"type": "string"}},
        "unevaluatedProperties": False,
    },
}
"""Valid JSON Schema (some in draft 7's spelling), as seen in the wild."""

BROKEN: dict[str, Any] = {
    "none": None,
    "number": 3,
    "text": "string",
    "list": [{"type": "object"}],
    "nothing": False,
    "python types": {
        "type": "dict",
        "properties": {"a": {"type": "str"}, "b": {"type": "List[int]"}, "c": {"type": "Any"}},
    },
    "python classes": {"type": dict, "properties": {"a": {"type": str}, "b": {"type": float}, "c": {"type": object}}},
    "python enum": {"type": "object", "properties": {"c": {"enum": list(Colour), "default": Colour.RED}}},
    "typescript types": {
        "type": "Record<string, unknown>",
        "properties": {"a": {"type": "string[]"}, "b": {"type": "undefined"}},
    },
    "nan": {"type": "object", "properties": {"n": {"minimum": math.nan, "maximum": math.inf, "enum": [1, math.nan]}}},
    "dates": {"type": "object", "properties": {"d": {"type": "string", "default": datetime.date(2026, 1, 1)}}},
    "keys": {1: "x", None: "y", False: "z", "type": "object", "properties": {1: {"type": "integer"}, None: {}}},
    "null bytes": {
        "type": "object",
        "description": "a\x00b",
        "properties": {"a\x00": {"type": "string", "enum": ["\x00"]}},
    },
    "surrogates": {"type": "object", "properties": {"s": {"description": "\ud800", "type": "string"}}},
    "itself": cyclic(),
    "too deep": nested(500),
    "endless root": root_doubling(40),
    "self reference": {"$ref": "#"},
    "reference loop": {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
    "loop below": {"type": "object", "properties": {"x": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}},
    "reference to nothing": {"type": "object", "properties": {"x": {"$ref": "#/$defs/Gone"}, "y": {"$ref": 3}}},
    "reference outside": {"type": "object", "properties": {"x": {"$ref": "https://example.com/s.json#/A"}}},
    "broken pointer": {
        "type": "object",
        "properties": {"x": {"$ref": "Model"}},
        "definitions": {"Model": {"type": "integer"}},
    },
    "required flags": {
        "type": "object",
        "properties": {"a": {"type": "string", "required": True}, "b": {"required": False}},
    },
    "required text": {"type": "object", "properties": {"a": {}}, "required": "a"},
    "list of properties": {"type": "object", "properties": [{"name": "a", "type": "string"}]},
    "words for schemas": {"type": "object", "properties": {"a": "string", "b": "the path to read", "c": None, "d": 4}},
    "old tuple": {
        "type": "object",
        "properties": {"t": {"type": "array", "items": [{"type": "string"}], "additionalItems": False}},
    },
    "old limits": {"type": "object", "properties": {"n": {"minimum": 0, "exclusiveMinimum": True, "divisibleBy": 2}}},
    "old dependencies": {"type": "object", "dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
    "empty enum": {"type": "object", "properties": {"e": {"enum": []}}},
    "repeated enum": {"type": "object", "properties": {"e": {"enum": [1, 1.0, True, "a", "a"]}}},
    "bad pattern": {"type": "object", "properties": {"p": {"pattern": "(["}, "q": {"pattern": "(?P<n>a)"}}},
    "negative counts": {"type": "object", "properties": {"s": {"minLength": -1, "maxItems": 1.5, "maxLength": "3"}}},
    "unknown keywords": {"type": "object", "x-order": 1, "properties": {"a": {"widget": "area", "nullable": True}}},
    "contradiction": {"type": "object", "allOf": [{"type": "string"}]},
    "huge number": {"type": "object", "properties": {"n": {"maximum": 10**5000}}},
    "combinators of nothing": {"type": "object", "anyOf": [], "allOf": {}, "oneOf": None},
}
"""What nobody should write and somebody does."""

NAMES = ("a", "b", "c", "kind", "id", "path", "a b", "x[0]", "名前")
LEAVES: tuple[dict[str, Any], ...] = (
    {"type": "string"},
    {"type": "integer", "minimum": 0},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "string", "enum": ["x", "y"]},
    {"const": "x"},
    {"type": ["string", "null"]},
    {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    {"type": "array", "items": {"type": "string"}},
    {},
)


def some_object(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    names = rng.sample(NAMES, rng.randint(0, 3))
    out: dict[str, Any] = {"type": "object", "properties": {n: some_schema(rng, depth + 1) for n in names}}
    if names and rng.random() < 0.6:
        out["required"] = rng.sample(names, rng.randint(1, len(names)))
    if rng.random() < 0.4:
        out["additionalProperties"] = rng.choice([False, True, {"type": "string"}])
    if rng.random() < 0.1:
        out["maxProperties"] = rng.randint(1, 3)
    if rng.random() < 0.1:
        out["description"] = "an object"
    return out


def some_schema(rng: random.Random, depth: int) -> Any:
    roll = rng.random()
    if depth > 2 or roll < 0.6:
        return dict(rng.choice(LEAVES))
    if roll < 0.75:
        return some_object(rng, depth)
    if roll < 0.85:
        return {"$ref": f"#/$defs/{rng.choice('PQRS')}"}
    return {rng.choice(["anyOf", "oneOf", "allOf"]): [some_schema(rng, depth + 1) for _ in range(rng.randint(1, 3))]}


def some_root(rng: random.Random) -> dict[str, Any]:
    base = some_object(rng)
    roll = rng.random()
    if roll < 0.2:
        out = base
    elif roll < 0.45:  # alike but for one property
        branches = []
        for value in rng.sample(["x", "y", "z"], rng.randint(2, 3)):
            branch = {**base, "properties": {**base["properties"], "kind": {"const": value}}}
            branch["required"] = sorted({*base.get("required", ()), "kind"})
            branches.append(branch)
        out = {rng.choice(["anyOf", "oneOf"]): branches}
    elif roll < 0.55:
        out = {"anyOf": [base, dict(base)]}
    elif roll < 0.75:
        out = {"allOf": [base, some_object(rng)]}
        if rng.random() < 0.5:
            out.update(some_object(rng))
    elif roll < 0.9:
        out = {rng.choice(["anyOf", "oneOf"]): [some_object(rng) for _ in range(rng.randint(1, 3))]}
    else:
        out = {"type": "object", "anyOf": [{"required": [n]} for n in rng.sample(NAMES, 2)]}
    defs: dict[str, Any] = {"P": dict(rng.choice(LEAVES)), "Q": some_object(rng, 3), "R": {"$ref": "#/$defs/Q"}}
    defs["S"] = {"type": "array", "items": {"$ref": "#/$defs/S"}} if rng.random() < 0.1 else {"$ref": "#/$defs/P"}
    return {**out, "$defs": defs}


def valid_schemas(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Valid 2020-12 schemas of objects."""
    rng = random.Random(seed)
    for _ in range(count):
        yield some_root(rng)


JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, math.nan, math.inf, "", "dict", "x\x00", "\udc00", [], {}, [1], ["a", "a"], {"a": 1},
    {"type": "object"}, {"$ref": "#"}, {"$ref": "#/$defs/x"}, object(), int, b"x", (1, 2), {3, 4}, [None], {1: 2},
    10**400,
    Colour.RED, [{"name": "n", "type": "int"}], {"type": ["string", "dict", None]}, {"anyOf": [True, "str"]},
)  # fmt: skip
KEYWORDS = (
    "type", "properties", "required", "items", "prefixItems", "additionalProperties", "patternProperties", "anyOf",
    "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "default", "examples", "format", "pattern",
    "minimum", "exclusiveMaximum", "multipleOf", "minLength", "maxItems", "uniqueItems", "contains", "dependencies",
    "dependentRequired", "dependentSchemas", "propertyNames", "unevaluatedProperties", "$ref", "$defs", "definitions",
    "$id", "$anchor", "id", "title", "description", "deprecated", "nullable", "x-y", "$dynamicRef",
)  # fmt: skip


def hostile_schemas(count: int, seed: int = 2) -> Iterator[Any]:
    """Anything at all under keywords that mean something."""
    rng = random.Random(seed)

    def make(depth: int) -> Any:
        out: dict[Any, Any] = {}
        for _ in range(rng.randint(1, 5)):
            key = rng.choice(KEYWORDS)
            roll = rng.random()
            if roll < 0.55 or depth > 3:
                out[key] = rng.choice(JUNK)
            elif roll < 0.75:
                out[key] = make(depth + 1)
            elif roll < 0.9:
                out[key] = {rng.choice([*NAMES, 7, "\x00", "type"]): make(depth + 1) for _ in range(rng.randint(1, 3))}
            else:
                out[key] = [make(depth + 1) for _ in range(rng.randint(1, 3))]
        return out

    for _ in range(count):
        yield make(0)


VALUES: tuple[Any, ...] = (
    "x",
    "y",
    "z",
    "",
    0,
    3,
    -2,
    1.5,
    True,
    None,
    [],
    ["x"],
    [1],
    {},
    {"a": "x"},
    {"kind": "x", "b": 1},
)


def instances(count: int, seed: int) -> list[dict[str, Any]]:
    """Objects over the zoo's names."""
    rng = random.Random(seed)
    return [{n: rng.choice(VALUES) for n in rng.sample(NAMES, rng.randint(0, 4))} for _ in range(count)]


def fitting(schema: Any, root: Any, rng: random.Random, depth: int = 0) -> Any:
    """An instance that likely matches `schema`; sometimes spoilt on purpose."""
    if not isinstance(schema, dict) or depth > 6 or rng.random() < 0.05:
        return rng.choice(VALUES)
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].split("/")[1:]:
            target = target[part]
        return fitting(target, root, rng, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    out: dict[str, Any] = {}
    for key in ("anyOf", "oneOf"):
        if key in schema:
            chosen = fitting(rng.choice(schema[key]), root, rng, depth + 1)
            if not isinstance(chosen, dict):
                return chosen
            out.update(chosen)
    for part in schema.get("allOf", ()):
        chosen = fitting(part, root, rng, depth + 1)
        if not isinstance(chosen, dict):
            return chosen
        out.update(chosen)
    kind = schema.get("type", "object" if "properties" in schema or out else None)
    kind = rng.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        for name, sub in schema.get("properties", {}).items():
            if name in schema.get("required", ()) or rng.random() < 0.6:
                out[name] = fitting(sub, root, rng, depth + 1)
        if rng.random() < 0.15:
            out[rng.choice(NAMES)] = rng.choice(VALUES)
        return out
    simple = {"string": "x", "integer": 3, "number": 1.5, "boolean": True, "null": None}
    if kind == "array":
        return [fitting(schema.get("items", {}), root, rng, depth + 1) for _ in range(rng.randint(0, 2))]
    return simple[kind] if kind in simple else out if out else rng.choice(VALUES)
