"""Exact results of the schema dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from schema_zoo import REAL, doubling, nested

from geode.adapters.schemas import (
    Sendable,
    Unsendable,
    for_chat,
    for_messages,
    for_output_chat,
    for_output_messages,
    for_output_responses,
    for_responses,
    qualifies_strict,
    redo,
    undo,
    undo_text,
)

EMPTY = {"type": "object", "properties": {}}
ALL = (for_messages, for_responses, for_chat)


def sent(result: Sendable | Unsendable) -> Sendable:
    assert isinstance(result, Sendable), result
    return result


@pytest.mark.parametrize("convert", ALL)
@pytest.mark.parametrize("schema", [{}, None, True, {"type": "object"}, {"properties": {}}, {"type": "dict"}])
def test_nothing_said_is_an_empty_object(convert: Any, schema: Any) -> None:
    assert sent(convert(schema)).schema == EMPTY


def test_branches_that_differ_in_one_constant_become_one_enum() -> None:
    branch = {"type": "object", "properties": {"op": {"const": "get"}, "key": {"type": "string"}}, "required": ["op"]}
    other = {**branch, "properties": {**branch["properties"], "op": {"const": "del"}}}
    folded = {
        "type": "object",
        "properties": {"op": {"type": "string", "enum": ["get", "del"]}, "key": {"type": "string"}},
        "required": ["op"],
    }
    for key in ("anyOf", "oneOf"):
        for convert in ALL:
            assert convert({key: [branch, other]}) == Sendable(folded)


def test_one_of_stays_exclusive_where_options_overlap() -> None:
    branch = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    other = {"type": "object", "properties": {"n": {"minimum": 3}}, "required": ["n"]}
    assert sent(for_messages({"oneOf": [branch, other]})).schema["properties"]["n"] == {
        "oneOf": [{"type": "integer"}, {"minimum": 3}]
    }


def test_all_of_folds_into_one_object() -> None:
    result = sent(for_responses(REAL["intersection (zod)"]))
    assert result.schema == {
        "type": "object",
        "properties": {
            "owner": {"type": "string"},
            "repo": {"type": "string"},
            "page": {"type": "number"},
            "perPage": {"type": "number", "maximum": 100},
        },
        "required": ["owner", "repo"],
    }
    assert result.notes == ()


def test_what_does_not_fold_keeps_the_object_form_and_says_so() -> None:
    result = sent(for_messages(REAL["one of three (zod union)"]))
    assert result.schema["properties"] == {"id": {"type": "string"}, "name": {"type": "string"}, "all": {"const": True}}
    assert result.schema["additionalProperties"] is False
    assert "required" not in result.schema
    assert result.schema["description"].startswith('Must also satisfy (JSON Schema): {"anyOf":[')
    assert result.notes == ("the root's anyOf cannot be sent and is checked locally, against the tool's own schema",)


def test_discriminated_union() -> None:
    result = sent(for_chat(REAL["discriminated union (pydantic)"]))
    assert result.schema["properties"] == {
        "kind": {"type": "string", "enum": ["cat", "dog"]},
        "lives": {"type": "integer"},
        "tricks": {"type": "array", "items": {}},
    }
    assert result.schema["required"] == ["kind"]


def test_a_branch_that_is_no_object_is_reported() -> None:
    result = sent(for_messages(REAL["string or object"]))
    assert result.schema == {"type": "object", "properties": {"hours": {"type": "integer"}}, "required": ["hours"]}
    assert result.notes == ("the root's anyOf also admits string: arguments are always an object",)


@pytest.mark.parametrize("convert", ALL)
def test_a_root_that_is_no_object_is_wrapped(convert: Any) -> None:
    result = sent(convert({"type": "string", "minLength": 1}))
    assert result.schema == {
        "type": "object",
        "properties": {"value": {"type": "string", "minLength": 1}},
        "required": ["value"],
        "additionalProperties": False,
    }
    assert result.wrapped == "value"
    assert undo(result.renames, {"value": "x"}, result.wrapped) == "x"
    assert redo(result.renames, "x", result.wrapped) == {"value": "x"}
    assert undo_text(result, '{"value": "é"}') == '"é"'
    assert undo_text(result, "no JSON") == "no JSON"


def test_definitions_are_written_out() -> None:
    result = sent(for_messages(REAL["nested models (pydantic)"]))
    assert "$defs" not in result.schema
    assert result.schema["properties"]["main"] == {
        "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        "required": ["street"],
        "title": "Address",
        "type": "object",
        "description": "Where to send it",
    }


def test_recursion_is_kept_or_loosened_and_reported() -> None:
    schema = REAL["recursive property"]
    for convert in (for_messages, for_responses):
        result = sent(convert(schema))
        assert result.schema["properties"] == {"tree": {"$ref": "#/$defs/Node"}}
        assert result.schema["$defs"]["Node"]["properties"]["kids"]["items"] == {"$ref": "#/$defs/Node"}
        assert result.notes == ("Node is recursive: kept as $ref",)
    result = sent(for_chat(schema))
    assert result.schema["properties"]["tree"]["properties"]["kids"] == {"type": "array", "items": {"type": "object"}}
    assert result.notes == ("Node is recursive: its inner use accepts anything of its type, checked locally",)


@pytest.mark.parametrize("convert", ALL)
def test_doubling_references_stay_small(convert: Any) -> None:
    result = sent(convert(doubling(30)))
    assert len(json.dumps(result.schema)) < 5000
    assert result.notes == ("definitions stay shared by $ref: written out they would be over 10000 schemas",)


def test_property_names_go_by_aliases_and_come_back() -> None:
    result = sent(for_messages(REAL["openapi names"]))
    assert list(result.schema["properties"]) == ["filter_name", "top", "Account_Number", "a_b", "x" * 64]
    assert result.schema["required"] == ["Account_Number", "top"]
    assert list(result.schema["properties"]["a_b"]["properties"].values()) == [{"type": "string"}]
    (inner,) = result.schema["properties"]["a_b"]["required"]
    own = {"Account Number": "1", "$top": 2, "a/b": {"日本": "x"}, "free": {"k": [{"$top": 1}]}}
    wire = {"Account_Number": "1", "top": 2, "a_b": {inner: "x"}, "free": {"k": [{"top": 1}]}}
    assert undo(result.renames, wire) == own
    assert redo(result.renames, own) == wire
    assert sent(for_responses(REAL["openapi names"])).renames == {}


def test_aliases_never_clash() -> None:
    result = sent(for_messages(REAL["names that clash"]))
    assert list(result.schema["properties"]) == ["a_b_2", "a_b", "a_b_3", "a.b", "_"]
    assert dict(result.renames) == {"a_b_2": "a b", "a_b_3": "a/b", "_": ""}


def test_type_words_of_other_languages() -> None:
    schema = {
        "type": "dict",
        "properties": {"a": {"type": "str"}, "b": {"type": "List[int]"}, "c": {"type": "any"}, "d": {"type": "blob"}},
    }
    result = sent(for_messages(schema))
    assert result.schema == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "array"}, "c": {}, "d": {}},
    }
    assert result.notes == (
        "the root: the type 'dict' became 'object'",
        "properties.a: the type 'str' became 'string'",
        "properties.b: the type 'List[int]' became 'array'",
        "properties.c: the type 'any' became no type (anything)",
        'properties.d: "blob" is no type and was left out',
    )


def test_root_rules_that_only_openai_refuses() -> None:
    schema = REAL["forbidden together"]
    assert sent(for_messages(schema)).schema["not"] == {"required": ["a", "b"]}
    for convert in (for_responses, for_chat):
        result = sent(convert(schema))
        assert "not" not in result.schema
        assert result.schema["description"] == 'Must also satisfy (JSON Schema): {"not":{"required":["a","b"]}}'


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (False, "it accepts nothing"),
        ({"type": "object", "allOf": [{"type": "string"}]}, "it accepts nothing"),
        (nested(500), "it is nested more than 160 levels deep"),
    ],
)
def test_unsendable(schema: Any, reason: str) -> None:
    for convert in ALL:
        assert convert(schema) == Unsendable(reason)


def test_what_contains_itself_is_unsendable() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["me"] = schema
    for convert in ALL:
        assert convert(schema) == Unsendable("it contains itself")


def test_anthropic_outputs_are_closed_and_limits_become_words() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "description": "a count"},
            "who": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}},
            "either": {"oneOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["n"],
    }
    assert sent(for_output_messages(schema)).schema == {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "description": 'a count\n\n{"minimum": 1}'},
            "who": {
                "type": "object",
                "properties": {"name": {"type": "string", "description": '{"maxLength": 9}'}},
                "additionalProperties": False,
            },
            "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["n"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {"type": "string"}}}},
        {"type": "object", "properties": {"x": {}}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]},
        REAL["recursive property"],
        {},
    ],
)
def test_what_anthropic_outputs_cannot_say(schema: Any) -> None:
    assert isinstance(for_output_messages(schema), Unsendable)
    assert isinstance(for_output_responses(schema), Sendable)
    assert isinstance(for_output_chat(schema), Sendable)


STRICT = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}},
    "required": ["a", "b"],
}


def test_strict_qualification() -> None:
    closed = sent(for_output_responses(STRICT)).schema
    assert closed == {**STRICT, "additionalProperties": False}
    assert qualifies_strict(closed)
    assert not qualifies_strict(STRICT)
    assert qualifies_strict(sent(for_output_responses({**STRICT, "$schema": "x"})).schema)
    for change in (
        {"required": ["a"]},
        {"properties": {**STRICT["properties"], "b": {}}},
        {"properties": {**STRICT["properties"], "b": {"type": "string", "default": "x"}}},
        {"properties": {**STRICT["properties"], "b": {"type": "string", "minLength": 1}}},
        {"properties": {**STRICT["properties"], "b": {"type": "string", "format": "uri"}}},
        {"properties": {**STRICT["properties"], "b": {"type": "object"}}},
        {"properties": {**STRICT["properties"], "b": {"oneOf": [{"type": "string"}]}}},
        {"properties": {**STRICT["properties"], "b": {"type": "array"}}},
        {"properties": {**STRICT["properties"], "b": {"enum": list(range(1001))}}},
        {"additionalProperties": True},
        {"type": ["object", "null"]},
    ):
        assert not qualifies_strict({**closed, **change}), change
    assert not qualifies_strict(nested(3))
    assert not qualifies_strict(None)


def test_strict_takes_recursion_and_ten_levels() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
        "required": ["next"],
    }
    assert qualifies_strict(sent(for_output_responses({"$defs": {"Node": node}, "$ref": "#/$defs/Node"})).schema)
    level: dict[str, Any] = {"type": "string"}
    depths = []
    for _ in range(12):
        level = {"type": "object", "properties": {"a": level}, "required": ["a"], "additionalProperties": False}
        depths.append(qualifies_strict(level))
    assert depths == [True] * 10 + [False] * 2
