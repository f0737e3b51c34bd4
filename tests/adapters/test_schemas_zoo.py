"""Every schema of the zoo, on every wire: sent valid by the wire's rules, or refused with a reason."""

from __future__ import annotations

import copy
import functools
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from schema_zoo import BROKEN, REAL, fitting, hostile_schemas, instances, valid_schemas

from geode.adapters import schemas
from geode.adapters.schemas import Sendable, Unsendable

Converter = Callable[[Any], Sendable | Unsendable]
TOOLS: dict[str, Converter] = {
    "messages": schemas.for_messages,
    "responses": schemas.for_responses,
    "chat": schemas.for_chat,
}
OUTPUTS: dict[str, Converter] = {
    "messages": schemas.for_output_messages,
    "responses": schemas.for_output_responses,
    "chat": schemas.for_output_chat,
}
META = Draft202012Validator(Draft202012Validator.META_SCHEMA)
KEY = re.compile(r"^[a-zA-Z0-9_.-]{1,64}$")
NAMED = ("properties", "patternProperties", "$defs", "dependentSchemas")
LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
SINGLE = (
    "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "contentSchema",
)  # fmt: skip
SHARED = "definitions stay shared"


def subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    todo = [schema]
    while todo:
        sub = todo.pop()
        if not isinstance(sub, dict):
            continue
        yield sub
        todo += [s for key in NAMED for s in sub.get(key, {}).values()]
        todo += [s for key in LISTED for s in sub.get(key, ())]
        todo += [sub[key] for key in SINGLE if key in sub]


@functools.cache
def faults(text: str) -> list[str]:
    return [e.message for e in META.iter_errors(json.loads(text))]


def check(sent: Sendable, wire: str) -> None:
    """The rules of a wire, as its provider states them, checked from outside."""
    schema = sent.schema
    text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
    text.encode()
    assert json.loads(text) == schema
    assert faults(text) == []
    assert schema["type"] == "object"
    assert isinstance(schema["properties"], dict)
    assert not {"oneOf", "anyOf", "allOf", "$ref", "$schema", "$id", "definitions"} & schema.keys()
    if wire != "messages":
        assert not {"enum", "const", "not"} & schema.keys()
    for sub in subschemas(schema):
        assert "\x00" not in str(sub.get("description", ""))
        if "$ref" in sub:
            assert sub["$ref"].removeprefix("#/$defs/") in schema["$defs"]
            assert wire != "chat" or any(SHARED in n for n in sent.notes)
        if wire == "messages":
            assert all(KEY.match(name) for name in sub.get("properties", ()))
            assert all(KEY.match(name) for name in sub.get("required", ()))
        else:
            assert sub.get("type") != "array" or "items" in sub
            assert not isinstance(sub.get("type"), list) or "array" not in sub["type"] or "items" in sub
    assert all(isinstance(n, str) and n for n in sent.notes)


def check_output(sent: Sendable, wire: str) -> None:
    check(sent, wire)
    for sub in subschemas(sent.schema):
        if wire == "messages":
            kinds = sub.get("type")
            if kinds == "object" or "properties" in sub or (isinstance(kinds, list) and "object" in kinds):
                assert sub["additionalProperties"] is False
                assert set(sub.get("required", ())) <= set(sub["properties"])
            assert not {"oneOf", "$ref", "minimum", "maximum", "maxLength", "maxItems", "not", "if"} & sub.keys()
    if schemas.qualifies_strict(sent.schema):
        for sub in subschemas(sent.schema):
            if sub.get("type") == "object":
                assert sub["additionalProperties"] is False
                assert sorted(sub["required"]) == sorted(sub["properties"])


def accepts(schema: Any, value: Any) -> bool:
    try:
        Draft202012Validator(schema).validate(value)
    except ValidationError:
        return False
    return True


def exact(sent: Sendable) -> bool:
    """Nothing was left to the local check and no spelling was repaired."""
    words = ("local", "left out", "see the aliases", "accepts anything", "anything is accepted", "any object")
    return not any(word in note for note in sent.notes for word in words)


@pytest.mark.parametrize("wire", TOOLS)
@pytest.mark.parametrize("name", [*REAL, *BROKEN])
def test_written_by_hand(name: str, wire: str) -> None:
    schema = {**REAL, **BROKEN}[name]
    for convert, test in ((TOOLS[wire], check), (OUTPUTS[wire], check_output)):
        before = copy.deepcopy(schema) if name in REAL else None
        sent = convert(schema)
        assert before is None or schema == before
        assert convert(schema) == sent
        if isinstance(sent, Unsendable):
            assert sent.reason
            assert convert is OUTPUTS["messages"] or name in BROKEN
        else:
            test(sent, wire)


@pytest.mark.parametrize("count", [250, pytest.param(1000, marks=pytest.mark.slow)])
def test_valid_ones_accept_what_they_accepted(count: int) -> None:
    sample = instances(3, seed=5)
    folded = compared = 0
    rng = random.Random(11)
    for number, schema in enumerate(valid_schemas(count)):
        before = copy.deepcopy(schema)
        tried: list[Any] = [*sample, *(fitting(schema, schema, rng) for _ in range(4))]
        verdicts = [(v, accepts(schema, v)) for v in tried if isinstance(v, dict)]
        last: Sendable | None = None
        for wire, convert in TOOLS.items():
            sent = convert(schema)
            if isinstance(sent, Unsendable):
                assert sent.reason == "it accepts nothing", (number, sent)
                assert not any(ok for _, ok in verdicts)
                continue
            same, last = sent == last, sent
            if same:
                continue
            check(sent, wire)
            assert schemas.undo(sent.renames, schemas.redo(sent.renames, tried)) == tried
            if exact(sent):
                folded += bool({"anyOf", "oneOf", "allOf"} & schema.keys())
                for value, accepted in verdicts:
                    compared += 1
                    wired = schemas.redo(sent.renames, value)
                    assert accepts(sent.schema, wired) == accepted, (number, wire, schema, sent.schema, value)
        assert schema == before
    assert folded > count / 4, "the zoo must hold schemas that fold"
    assert compared > 5 * count


def test_valid_ones_as_response_schemas() -> None:
    strict = 0
    rng = random.Random(3)
    for schema in valid_schemas(400, seed=9):
        for wire, convert in OUTPUTS.items():
            sent = convert(schema)
            if isinstance(sent, Unsendable):
                assert wire == "messages" or sent.reason == "it accepts nothing"
                continue
            check_output(sent, wire)
            if wire == "responses" and schemas.qualifies_strict(sent.schema) and exact(sent):
                strict += 1
                for _ in range(3):
                    value = fitting(sent.schema, sent.schema, rng)
                    if accepts(sent.schema, value):
                        assert accepts(schema, value), (schema, sent.schema, value)
    assert strict > 10


def test_hostile_ones_never_crash() -> None:
    sendable = 0
    for schema in hostile_schemas(600):
        for wire in TOOLS:
            for convert, test in ((TOOLS[wire], check), (OUTPUTS[wire], check_output)):
                sent = convert(schema)
                if isinstance(sent, Unsendable):
                    assert sent.reason
                    continue
                sendable += 1
                test(sent, wire)
    assert sendable > 1200


@pytest.mark.parametrize(
    ("wire", "faulty"),
    [
        ("messages", {"type": "object", "properties": {}, "anyOf": [{}]}),
        ("messages", {"type": "object", "properties": {"a b": {}}}),
        ("messages", {"type": "object", "properties": {"a": {"type": "dict"}}}),
        ("messages", {"type": "object", "properties": {"a": {"$ref": "#/$defs/X"}}, "$defs": {}}),
        ("responses", {"type": "object", "properties": {"a": {"type": "array"}}}),
        ("responses", {"type": "object", "properties": {}, "not": {}}),
        ("chat", {"properties": {}}),
    ],
)
def test_the_checker_sees_faults(wire: str, faulty: dict[str, Any]) -> None:
    with pytest.raises((AssertionError, KeyError)):
        check(Sendable(faulty), wire)
