"""What all three wires share: calls and results in pairs, ids, argument texts, names."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geode.adapters.arguments import call_id, parse_arguments, replay_arguments, replay_input, unique_ids
from geode.adapters.history import CLOSED_TEXT, Turn, pair
from geode.adapters.names import NameAliases, sanitise
from geode.contract import InputFault, Message, TextBlock, ToolResultBlock, ToolUseBlock


def use(id: str, name: str = "t") -> ToolUseBlock:
    return ToolUseBlock(id, name, {})


def result(id: str, text: str = "ok") -> ToolResultBlock:
    return ToolResultBlock(id, text)


def shown(turns: list[Turn]) -> list[tuple[str, list[Any]]]:
    def block(b: Any) -> Any:
        if isinstance(b, ToolUseBlock):
            return f"call {b.id}"
        if isinstance(b, ToolResultBlock):
            return f"{'error' if b.is_error else 'result'} {b.tool_use_id}: {b.content}"
        return b.text

    return [(turn.role, [block(b) for b in turn.blocks]) for turn in turns]


def test_a_sound_history_comes_out_as_it_is() -> None:
    messages = [
        Message.user("go"),
        Message.assistant("look", use("a"), use("b")),
        Message("user", (result("a"), result("b"), TextBlock("on"))),
        Message.assistant("done"),
    ]
    turns = pair(messages)
    assert [turn.role for turn in turns] == [message.role for message in messages]
    for turn, message in zip(turns, messages, strict=True):
        assert all(a is b for a, b in zip(turn.blocks, message.content, strict=True)), "the very blocks"


def test_orphans_go_and_open_calls_are_closed_with_one_fixed_text() -> None:
    messages = [
        Message.user("go"),
        Message.assistant(use("a"), use("b")),
        Message("user", (result("gone"), TextBlock("and"), result("b"))),
    ]
    assert shown(pair(messages)) == [
        ("user", ["go"]),
        ("assistant", ["call a", "call b"]),
        ("user", [f"error a: {CLOSED_TEXT}", "result b: ok", "and"]),
    ]
    assert CLOSED_TEXT == "No result: this call was interrupted before it finished."


def test_an_id_used_again_is_matched_by_its_place() -> None:
    messages = [
        Message.user("go"),
        Message.assistant(use("a")),
        Message("user", (result("a", "first"),)),
        Message.assistant(use("a")),
        Message("user", (result("a", "second"),)),
    ]
    assert shown(pair(messages))[2::2] == [("user", ["result a: first"]), ("user", ["result a: second"])]


def test_duplicate_and_empty_ids_get_fresh_ones_on_both_sides() -> None:
    messages = [
        Message.user("go"),
        Message.assistant(use("a"), use("a"), use("")),
        Message("user", (result("a", "1"), result("a", "2"), result("", "3"))),
    ]
    assert shown(pair(messages))[1:] == [
        ("assistant", ["call a", "call a_2", "call call_1_2"]),
        ("user", ["result a: 1", "result a_2: 2", "result call_1_2: 3"]),
    ]


BLOCKS = st.one_of(
    st.sampled_from(["a", "b", "", "a_2"]).map(use),
    st.sampled_from(["a", "b", "", "a_2", "z"]).map(result),
    st.sampled_from(["x", "y"]).map(TextBlock),
)
MESSAGES = st.lists(
    st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(BLOCKS, max_size=4).map(tuple)), max_size=8
)


@pytest.mark.parametrize("merge", [True, False])
@settings(max_examples=300, deadline=None)
@given(MESSAGES)
def test_repairs_are_repeatable_and_leave_nothing_unpaired(merge: bool, messages: list[Message]) -> None:
    turns = pair(messages, merge=merge)
    for before, after in pairwise([*turns, Turn("user", (), 0)]):
        assert [r.tool_use_id for r in after.results] == [c.id for c in before.calls]
        assert len({c.id for c in before.calls}) == len(before.calls)
        assert "" not in {c.id for c in before.calls}
    again = pair([Message(turn.role, turn.blocks) for turn in turns], merge=merge)  # type: ignore[arg-type]
    assert shown(again) == shown(turns)
    if merge:
        assert all(a.role != b.role for a, b in pairwise(turns))


# ------------------------------------------------------------------------------------------------------------- ids


@pytest.mark.parametrize(
    ("given", "unique"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
        (["", None], ["call_7_0", "call_7_1"]),
        (["call_7_1", ""], ["call_7_1", "call_7_1_2"]),
    ],
)
def test_unique_ids(given: list[str | None], unique: list[str]) -> None:
    assert list(unique_ids(given, 7)) == unique
    assert call_id(7, 0) == "call_7_0"


# ------------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("raw", "value", "fault", "replayed"),
    [
        ("", {}, None, "{}"),
        (None, {}, None, "{}"),
        ("{}", {}, None, "{}"),
        ('{"a": 1.0}', {"a": 1.0}, None, '{"a": 1.0}'),
        ({"a": 1}, {"a": 1}, None, '{"a":1}'),
        ('"{\\"a\\": 1}"', {"a": 1}, None, '{"a":1}'),
        ('{"a": ', {}, InputFault.INVALID_JSON, '{"INVALID_JSON":"{\\"a\\": "}'),
        ('"x"', {}, InputFault.NOT_AN_OBJECT, '{"INVALID_JSON":"\\"x\\""}'),
        ("[1]", {}, InputFault.NOT_AN_OBJECT, '{"INVALID_JSON":"[1]"}'),
        ("null", {}, InputFault.NOT_AN_OBJECT, '{"INVALID_JSON":"null"}'),
        ("3", {}, InputFault.NOT_AN_OBJECT, '{"INVALID_JSON":"3"}'),
        ('{"a": NaN}', {}, InputFault.INVALID_JSON, '{"INVALID_JSON":"{\\"a\\": NaN}"}'),
    ],
)
def test_arguments_and_what_is_replayed(raw: Any, value: Any, fault: InputFault | None, replayed: str) -> None:
    found, text, why = parse_arguments(raw)
    assert (dict(found), why) == (value, fault)
    call = ToolUseBlock("a", "t", found, text, why)
    assert replay_arguments(call) == replayed
    assert dict(replay_input(call)) == json.loads(replayed)


def test_arguments_that_were_cut_or_are_too_long_are_not_run_and_replayed_short() -> None:
    value, text, fault = parse_arguments('{"a": 1}', cut=True)
    assert (dict(value), text, fault) == ({}, '{"a": 1}', InputFault.CUT)
    value, text, fault = parse_arguments("[" * 5000, limit=4000)
    assert (dict(value), len(text or ""), fault) == ({}, 2000, InputFault.TOO_LONG)


# ----------------------------------------------------------------------------------------------------------- names


def test_names_that_would_clash_are_kept_apart_whatever_their_order() -> None:
    names = ["a.b", "a_b", "a/b", "n" * 65, "n" * 66]
    aliases, others = NameAliases(names), NameAliases(reversed(names))
    wire = [aliases.to_wire(name) for name in names]
    assert wire == [others.to_wire(name) for name in names]
    assert wire[1] == "a_b"
    assert len(set(wire)) == len(names)
    assert [aliases.to_own(name) for name in wire] == names
    assert aliases.to_wire("no.such tool") == "no_such_tool"


@settings(max_examples=200, deadline=None)
@given(st.sets(st.text(max_size=70), max_size=8))
def test_aliases_are_legal_and_reversible(names: set[str]) -> None:
    aliases = NameAliases(names)
    wire = {name: aliases.to_wire(name) for name in names}
    assert len(set(wire.values())) == len(names)
    for name, alias in wire.items():
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", alias)
        assert aliases.to_own(alias) == name
        assert alias == name or sanitise(name) != name
