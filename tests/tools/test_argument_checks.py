"""Checks of arguments: dialects of JSON Schema, references, and that the quick yes is never a wrong one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from geode.tools.quick_check import quick_check
from geode.tools.validation import compile_schema, schema_fault

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from([0.0, 1.0, 1.5]),
    st.sampled_from(["", "a", "ab", "b"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
PLAIN = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(0, 2),
            "enum": st.just(["a", "b"]),
            "pattern": st.sampled_from(["^a", "b$"]),
            "description": st.just("x"),
            "format": st.just("date"),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={"minimum": st.integers(-1, 1), "maximum": st.integers(0, 2), "multipleOf": st.just(2)},
    ),
    st.fixed_dictionaries({"type": st.sampled_from(["boolean", "null"])}),
    st.sampled_from([{}, True, False, {"type": ["string", "null"]}, {"enum": [1, "a"]}, {"const": 1}]),
)
SCHEMAS = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)},
            optional={
                "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
                "additionalProperties": st.booleans() | inner,
                "minProperties": st.integers(0, 2),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={
                "items": inner,
                "minItems": st.integers(0, 2),
                "maxItems": st.integers(0, 2),
                "uniqueItems": st.booleans(),
            },
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}),
    ),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None)
@given(SCHEMAS, VALUES)
def test_a_quick_yes_is_a_yes(schema: Any, value: Any) -> None:
    quick = quick_check(schema)
    if quick is not None and quick(value):
        assert Draft202012Validator(schema).is_valid(value)


def test_plain_schemas_have_a_quick_check() -> None:
    quick = quick_check(
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["path"],
            "additionalProperties": False,
        }
    )  # fmt: skip
    assert quick is not None
    assert all(quick(value) for value in ({"path": "a"}, {"path": "a", "tags": ["x"]}))
    assert not any(quick(value) for value in ({"path": ""}, {"tags": []}, {"path": "a", "b": 1}, [], None))


@pytest.mark.parametrize(
    ("schema", "arguments", "lines"),
    [
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"n": {"minimum": 1,
             "exclusiveMinimum": True}}},
            {"n": 1},
            ["$.n: 1 is less than or equal to the minimum of 1"],
        ),
        (
            {"properties": {"n": {"exclusiveMinimum": 1}}},
            {"n": 1},
            ["$.n: 1 is less than or equal to the minimum of 1"],
        ),
        (
            {"$defs": {"n": {"type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/n"}}},
            {"n": "x"},
            ["$.n: 'x' is not of type 'integer'"],
        ),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1}, []),
        (
            {"properties": {"a b": {"items": {"type": "string"}}}},
            {"a b": [1]},
            ['$["a b"][0]: 1 is not of type \'string\''],
        ),
        ({}, {"anything": 1}, []),
    ],
)  # fmt: skip
def test_violations(schema: Any, arguments: Any, lines: list[str]) -> None:
    assert compile_schema(schema)(arguments) == lines


@pytest.mark.parametrize("reference", ["https://example.com/schema", "#/$defs/none"])
def test_a_reference_that_leads_nowhere_is_a_fault_of_the_tool_and_fetches_nothing(reference: str) -> None:
    (line,) = compile_schema({"properties": {"a": {"$ref": reference}}})({"a": 1})
    assert line.startswith("the tool's schema cannot be applied: ")


def test_a_schema_that_refers_to_itself() -> None:
    schema = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}
    check = compile_schema(schema)
    assert check({"next": {"next": {}}}) == []
    (line,) = check({"next": {"x": 1}})
    assert line == "$.next: Additional properties are not allowed ('x' was unexpected)"


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "object"}, None),
        (True, "it is bool, not an object"),
        ({"properties": {"a": {"type": 5}}}, "at $.properties.a.type: 5 is not valid under any of the given schemas"),
        ({"required": "a"}, "at $.required: 'a' is not of type 'array'"),
    ],
)
def test_schemas_that_are_none(schema: Any, fault: str | None) -> None:
    assert schema_fault(schema) == fault
