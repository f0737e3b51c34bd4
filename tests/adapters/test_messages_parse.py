"""The Messages wire: what an answer becomes."""

from __future__ import annotations

from typing import Any

import pytest
from messages_kit import MODEL, SOURCE, Bench, answer

from geode.contract import (
    AdapterError,
    ErrorKind,
    InputFault,
    ReasoningBlock,
    StopReason,
    TextBlock,
    ToolSpec,
    ToolUseBlock,
    Usage,
)

TEXT = {"type": "text", "text": "hi"}


def use(identifier: Any = "toolu_1", name: Any = "grep_files", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identifier, "name": name, "input": {"q": "x"}, **more}


def parse(*content: Any, stop: str | None = "end_turn", **more: Any) -> Any:
    return Bench().adapter.parse(answer(*content, stop=stop, **more), 3)


def test_blocks_keep_their_order() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    hidden = {"type": "redacted_thinking", "data": "opaque"}
    served = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    result = parse(thought, hidden, TEXT, served, use(caller={"type": "direct"}), stop="tool_use")
    assert result.content == (
        ReasoningBlock("hm", SOURCE, thought),
        ReasoningBlock("", SOURCE, hidden),
        TextBlock("hi"),
        ReasoningBlock("", SOURCE, served),
        ToolUseBlock("toolu_1", "grep_files", {"q": "x"}),
    )
    assert result.stop_reason is StopReason.TOOL_USE
    assert result.model == MODEL


@pytest.mark.parametrize(
    ("raw", "stop"),
    [
        ("end_turn", StopReason.END_TURN),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("pause_turn", StopReason.PAUSE_TURN),
        ("refusal", StopReason.REFUSAL),
        ("content_filter", StopReason.REFUSAL),
        ("model_context_window_exceeded", StopReason.CONTEXT_WINDOW_EXCEEDED),
        ("tool_use", StopReason.END_TURN),
        ("something new", StopReason.END_TURN),
        (None, StopReason.END_TURN),
    ],
)
def test_stop_reasons_of_a_text(raw: str | None, stop: StopReason) -> None:
    result = parse(TEXT, stop=raw)
    assert result.stop_reason is stop
    assert result.raw_stop == raw


@pytest.mark.parametrize("raw", ["tool_use", "end_turn", "stop_sequence", None])
def test_a_call_asks_for_tools_whatever_the_stop_string_says(raw: str | None) -> None:
    assert parse(TEXT, use(), stop=raw).stop_reason is StopReason.TOOL_USE


def test_a_refusal_keeps_its_details_and_may_be_empty() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "no"}
    result = parse(stop="refusal", stop_details=details)
    assert result.content == ()
    assert result.stop_reason is StopReason.REFUSAL
    assert result.stop_details == details


def test_an_empty_answer_is_an_answer() -> None:
    assert parse().content == ()
    assert parse({"type": "text", "text": ""}).content == ()


@pytest.mark.parametrize("stop", ["max_tokens", "model_context_window_exceeded", "refusal"])
def test_a_call_in_which_the_answer_was_cut_is_never_run(stop: str) -> None:
    first, last = parse(use("1"), use("2", input={}), stop=stop).tool_uses
    assert first.fault is None
    assert last.fault is InputFault.CUT


def test_a_call_before_the_cut_is_whole() -> None:
    (call,) = parse(use(), TEXT, stop="max_tokens").tool_uses
    assert call.fault is None


@pytest.mark.parametrize(
    ("given", "value", "text", "fault"),
    [
        ({"a": 1}, {"a": 1}, None, None),
        (None, {}, None, None),
        ("", {}, None, None),
        ('{"a":  1e3}', {"a": 1000.0}, '{"a":  1e3}', None),
        ('"{\\"a\\": 1}"', {"a": 1}, None, None),
        ("{oops", {}, "{oops", InputFault.INVALID_JSON),
        ([1], {}, "[1]", InputFault.NOT_AN_OBJECT),
        (3, {}, "3", InputFault.NOT_AN_OBJECT),
        ("null", {}, "null", InputFault.NOT_AN_OBJECT),
    ],
)
def test_arguments(given: Any, value: Any, text: str | None, fault: InputFault | None) -> None:
    (call,) = parse(use(input=given)).tool_uses
    assert (call.input, call.arguments, call.fault) == (value, text, fault)


def test_ids_are_unique_and_never_empty() -> None:
    result = parse(use("a"), use("a"), use(""), use(None), use("a"))
    assert [c.id for c in result.tool_uses] == ["a", "a_2", "call_3_2", "call_3_3", "a_3"]


def test_ids_without_the_usual_prefix_are_kept() -> None:
    assert parse(use("Zx81qQ")).tool_uses[0].id == "Zx81qQ"


def test_a_call_comes_back_under_the_tools_own_name() -> None:
    bench = Bench()
    (tool,) = bench.body(tools=(ToolSpec("git.log", "", {}),))["tools"]
    assert tool["name"] == "git_log"
    assert bench.adapter.parse(answer(use(name="git_log"))).tool_uses[0].name == "git.log"
    assert bench.adapter.parse(answer(use(name="no such"))).tool_uses[0].name == "no such"


def test_usage_counts_each_token_once() -> None:
    usage = {
        "input_tokens": 10,
        "output_tokens": 20,
        "cache_read_input_tokens": 300,
        "cache_creation_input_tokens": 70,
        "cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 30},
        "output_tokens_details": {"thinking_tokens": 15},
    }
    counted = parse(TEXT, usage=usage).usage
    assert counted == Usage(10, 20, 300, 70, 30, 15)
    assert counted.total_input_tokens == 380


@pytest.mark.parametrize("usage", [None, {}, {"output_tokens": 5}, {"input_tokens": None, "output_tokens": 5}, "many"])
def test_missing_usage_is_unknown_and_never_a_crash(usage: Any) -> None:
    assert parse(TEXT, usage=usage).usage.known is False


def test_missing_usage_details_count_as_nothing() -> None:
    assert parse(
        TEXT, usage={"input_tokens": 1, "output_tokens": 2, "cache_creation": None, "cache_read_input_tokens": None}
    ).usage == Usage(1, 2)


@pytest.mark.parametrize("payload", [[], "text", None, {}, {"content": 3}, {"content": ["text"]}])
def test_what_is_no_answer_is_a_bad_response(payload: Any) -> None:
    with pytest.raises(AdapterError) as caught:
        Bench().adapter.parse(payload)
    assert caught.value.kind is ErrorKind.BAD_RESPONSE
    assert caught.value.retryable


def test_an_error_in_a_200_is_told() -> None:
    with pytest.raises(AdapterError, match="the answer has no content blocks: model is loading"):
        Bench().adapter.parse({"error": {"message": "model is loading"}})


def test_content_as_plain_text_is_borne_with() -> None:
    assert Bench().adapter.parse({"content": "hi", "stop_reason": "end_turn"}).content == (TextBlock("hi"),)
    assert Bench().adapter.parse({"content": None, "stop_reason": "end_turn"}).content == ()


def test_a_structured_answer_comes_back_in_its_own_names() -> None:
    bench = Bench()
    body = bench.body(
        response_schema={"type": "object", "properties": {"the total": {"type": "integer"}}, "required": ["the total"]}
    )
    (alias,) = body["output_config"]["format"]["schema"]["properties"]
    result = bench.adapter.parse(answer({"type": "text", "text": f'{{"{alias}": 3}}'}))
    assert alias != "the total"
    assert result.text == '{"the total": 3}'
