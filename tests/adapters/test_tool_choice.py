"""Tool choice: every spelling, every fault, every wire."""

from __future__ import annotations

from typing import Any

import pytest

from geode.adapters.tool_choice import ToolChoiceError, parse, resolve, to_wire
from geode.contract import Capabilities, Notice, ToolChoice

TOOLS = ("grep_files", "read_document")
AUTO_ONLY = Capabilities(tool_choices=frozenset({"auto"}))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ("any", ToolChoice("required")),
        ({"type": "auto"}, ToolChoice("auto")),
        ({"type": "none", "name": None}, ToolChoice("none")),
        ({"type": "required"}, ToolChoice("required")),
        ({"type": "any"}, ToolChoice("required")),
        ({"type": "tool", "name": "grep_files"}, ToolChoice("tool", "grep_files")),
        ({"type": "function", "name": "grep_files"}, ToolChoice("tool", "grep_files")),
        ({"name": "grep_files"}, ToolChoice("tool", "grep_files")),
        ({"function": {"name": "grep_files"}}, ToolChoice("tool", "grep_files")),
        ({"type": "function", "function": {"name": "grep_files"}}, ToolChoice("tool", "grep_files")),
        (ToolChoice("tool", "grep_files"), ToolChoice("tool", "grep_files")),
    ],
)
def test_every_accepted_spelling(value: Any, expected: ToolChoice) -> None:
    assert parse(value, TOOLS) == expected


WORDS = "auto, none, required, any, or a tool as {type: tool, name: NAME}"


@pytest.mark.parametrize(
    ("value", "tools", "line"),
    [
        (
            "requird",
            TOOLS,
            f"tool_choice: 'requird' is no tool choice; allowed: {WORDS}; nearest: required",
        ),
        ("AUTO", TOOLS, f"tool_choice: 'AUTO' is no tool choice; allowed: {WORDS}; nearest: auto"),
        (
            "grep_files",
            TOOLS,
            f"tool_choice: 'grep_files' is a tool's name, not a word; allowed: {WORDS}; "
            "nearest: {type: tool, name: grep_files}",
        ),
        ("tool", TOOLS, "tool_choice: 'tool' needs a name; allowed: a tool as {type: tool, name: NAME}"),
        (None, TOOLS, f"tool_choice: null is no tool choice; allowed: {WORDS}"),
        (3, TOOLS, f"tool_choice: 3 is no tool choice; allowed: {WORDS}"),
        ({}, TOOLS, f"tool_choice: {{}} is no tool choice; allowed: {WORDS}"),
        (
            {"type": "tool", "name": None},
            TOOLS,
            "tool_choice.name: null is missing: type tool needs a name; allowed: grep_files, read_document",
        ),
        (
            {"type": "function", "name": ""},
            TOOLS,
            "tool_choice.name: '' is missing: type function needs a name; allowed: grep_files, read_document",
        ),
        (
            {"function": {}},
            TOOLS,
            "tool_choice.name: null is missing: type function needs a name; allowed: grep_files, read_document",
        ),
        (
            {"type": "tool", "name": "grep_file"},
            TOOLS,
            "tool_choice.name: 'grep_file' is not in the configured toolset; allowed: grep_files, read_document; "
            "nearest: grep_files",
        ),
        (
            {"type": "auto", "name": "grep_files"},
            TOOLS,
            "tool_choice.name: 'grep_files' does not go with type auto; allowed: no name, or type tool; "
            "nearest: tool_choice=named",
        ),
        (
            {"type": "atuo"},
            TOOLS,
            f"tool_choice.type: 'atuo' is no tool choice; allowed: {WORDS}; nearest: auto",
        ),
        (
            {"type": "named", "name": "grep_files"},
            TOOLS,
            f"tool_choice.type: 'named' is no tool choice; allowed: {WORDS}; nearest: tool",
        ),
        (
            {"type": "tool", "nam": "grep_files"},
            TOOLS,
            "tool_choice: 'nam' is no key of a tool choice; allowed: type, name, function; nearest: name",
        ),
        (
            {"name": "grep_files", "function": {"name": "read_document"}},
            TOOLS,
            "tool_choice.function: {'name': 'read_document'} is no named choice; allowed: {function: {name: NAME}}",
        ),
        (
            {"type": "tool", "function": {"name": "grep_files"}},
            TOOLS,
            "tool_choice.type: 'tool' does not go with function; allowed: function, or no type",
        ),
        (
            {"name": 3},
            TOOLS,
            "tool_choice.name: 3 is no tool's name; allowed: grep_files, read_document",
        ),
        (
            "required",
            (),
            "tool_choice: 'required' forces a call, but the toolset is empty; allowed: auto, none",
        ),
        (
            {"name": "grep_files"},
            (),
            "tool_choice.name: 'grep_files' is not in the configured toolset; "
            "allowed: none, since the toolset is empty",
        ),
    ],
)
def test_every_fault_is_one_line_with_value_allowed_and_nearest(value: Any, tools: tuple[str, ...], line: str) -> None:
    with pytest.raises(ToolChoiceError) as caught:
        parse(value, tools)
    assert str(caught.value) == line


def test_auto_and_none_go_with_an_empty_toolset() -> None:
    assert parse("auto", ()) == ToolChoice("auto")
    assert parse("none", ()) == ToolChoice("none")


@pytest.mark.parametrize(
    ("choice", "messages", "responses", "chat"),
    [
        (ToolChoice("auto"), {"type": "auto"}, "auto", "auto"),
        (ToolChoice("none"), {"type": "none"}, "none", "none"),
        (ToolChoice("required"), {"type": "any"}, "required", "required"),
        (
            ToolChoice("tool", "X"),
            {"type": "tool", "name": "X"},
            {"type": "function", "name": "X"},
            {"type": "function", "function": {"name": "X"}},
        ),
    ],
)
def test_the_table_of_the_three_wires(choice: ToolChoice, messages: Any, responses: Any, chat: Any) -> None:
    assert to_wire(choice, "messages") == messages
    assert to_wire(choice, "responses") == responses
    assert to_wire(choice, "chat") == chat


def test_a_named_choice_uses_the_alias_of_the_wire() -> None:
    assert to_wire(ToolChoice("tool", "a.b"), "chat", lambda n: n.replace(".", "_")) == {
        "type": "function",
        "function": {"name": "a_b"},
    }


def test_a_choice_that_the_backend_takes_is_left_alone() -> None:
    seen: list[Notice] = []
    capabilities = Capabilities(tool_choices=frozenset({"auto", "any"}))
    assert resolve(ToolChoice("required"), capabilities, "error", seen.append) == (ToolChoice("required"), None)
    assert resolve(ToolChoice("auto"), Capabilities(tool_choices=frozenset()), "error", seen.append) == (
        ToolChoice("auto"),
        None,
    )
    assert seen == []


def test_send_goes_out_as_it_stands_with_one_warning() -> None:
    seen: list[Notice] = []
    assert resolve(ToolChoice("required"), AUTO_ONLY, "send", seen.append, "glm-payg") == (ToolChoice("required"), None)
    assert seen == [
        Notice(
            "tool_choice.unsupported.required",
            "tool_choice required is sent although the backend of glm-payg declares that it does not take it",
            "tool_choice.on_unsupported=degrade",
        )
    ]


@pytest.mark.parametrize(
    ("choice", "allowed", "how"),
    [
        (ToolChoice("required"), None, "required is not taken by the backend: sent as auto"),
        (
            ToolChoice("tool", "X"),
            frozenset({"X"}),
            "tool X is not taken by the backend: sent as auto with X as the only tool",
        ),
        (ToolChoice("none"), frozenset(), "none is not taken by the backend: sent as auto without tools"),
    ],
)
def test_degrade_is_auto_with_the_tools_narrowed(choice: ToolChoice, allowed: frozenset[str] | None, how: str) -> None:
    seen: list[Notice] = []
    assert resolve(choice, AUTO_ONLY, "degrade", seen.append) == (ToolChoice("auto"), allowed)
    assert seen == [
        Notice(f"tool_choice.unsupported.{choice.type}", f"tool_choice {how}", "tool_choice.on_unsupported=send")
    ]


def test_error_names_what_the_backend_takes() -> None:
    with pytest.raises(ToolChoiceError) as caught:
        resolve(ToolChoice("tool", "X"), AUTO_ONLY, "error", lambda n: None, "glm-payg")
    assert str(caught.value) == (
        "tool_choice: 'tool X' is not taken by the backend of glm-payg; allowed: auto; "
        "nearest: tool_choice.on_unsupported=degrade"
    )
