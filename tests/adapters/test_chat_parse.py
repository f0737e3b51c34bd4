"""What a Chat Completions answer becomes."""

from __future__ import annotations

from typing import Any

import pytest
from chat_kit import MODEL, SOURCE, adapter, answer, wire_call

from geode.contract import (
    AdapterCallResult,
    AdapterError,
    ErrorKind,
    InputFault,
    ReasoningBlock,
    StopReason,
    TextBlock,
    ToolUseBlock,
    Usage,
)


def parse(payload: Any, round: int = 3, **opts: Any) -> AdapterCallResult:
    return adapter(**opts).parse(payload, round)


def test_text() -> None:
    read = parse(answer(content="hello"))
    assert read == AdapterCallResult(
        (TextBlock("hello"),), StopReason.END_TURN, Usage(known=False), MODEL, raw_stop="stop"
    )


def test_calls_keep_their_own_argument_text() -> None:
    read = parse(answer("tool_calls", content=None, tool_calls=[wire_call("grep_files", '{ "pattern": "x"}')]))
    assert read.content == (ToolUseBlock("c1", "grep_files", {"pattern": "x"}, '{ "pattern": "x"}'),)
    assert read.stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize("finish", ["stop", None, "tool_calls", "something_new"])
def test_content_decides_whether_tools_are_asked_for(finish: str | None) -> None:
    assert parse(answer(finish, tool_calls=[wire_call("a", "{}")])).stop_reason is StopReason.TOOL_USE
    assert parse(answer(finish, content="x", tool_calls=[])).stop_reason is StopReason.END_TURN


@pytest.mark.parametrize(
    ("arguments", "input", "text", "fault"),
    [
        ("", {}, None, None),
        (None, {}, None, None),
        ('{"a": 1}', {"a": 1}, '{"a": 1}', None),
        ({"a": 1}, {"a": 1}, None, None),
        ('"{\\"a\\": 1}"', {"a": 1}, None, None),
        ('{"a": ', {}, '{"a": ', InputFault.INVALID_JSON),
        ('{"a": NaN}', {}, '{"a": NaN}', InputFault.INVALID_JSON),
        ('"x"', {}, '"x"', InputFault.NOT_AN_OBJECT),
        ("[1]", {}, "[1]", InputFault.NOT_AN_OBJECT),
        ("null", {}, "null", InputFault.NOT_AN_OBJECT),
        ("3", {}, "3", InputFault.NOT_AN_OBJECT),
        ([1], {}, "[1]", InputFault.NOT_AN_OBJECT),
    ],
)
def test_arguments(arguments: Any, input: Any, text: str | None, fault: InputFault | None) -> None:
    (read,) = parse(answer("tool_calls", tool_calls=[wire_call("f", arguments)])).tool_uses
    assert (read.input, read.arguments, read.fault) == (input, text, fault)


def test_the_output_limit_cuts_only_the_unfinished_call() -> None:
    calls = [wire_call("f", '{"a": 1}', "c1"), wire_call("f", '{"a": ', "c2")]
    read = parse(answer("length", tool_calls=calls))
    assert [(c.id, c.fault) for c in read.tool_uses] == [("c1", None), ("c2", InputFault.CUT)]
    assert read.stop_reason is StopReason.MAX_TOKENS
    (bare,) = parse(answer("length", tool_calls=[wire_call("f", "")])).tool_uses
    assert bare.fault is InputFault.CUT


def test_ids_are_unique_and_never_empty() -> None:
    calls = [wire_call("f", "{}", i) for i in ("c", "", "c", None, "c_2")]
    read = parse(answer("tool_calls", tool_calls=calls), round=4)
    assert [c.id for c in read.tool_uses] == ["c", "call_4_1", "c_3", "call_4_3", "c_2"]


def test_a_call_of_the_older_kind() -> None:
    read = parse(answer("function_call", function_call={"name": "f", "arguments": "{}"}))
    assert read.tool_uses == (ToolUseBlock("call_3_0", "f", {}, "{}"),)


@pytest.mark.parametrize(
    ("message", "raw"),
    [
        ({"reasoning_content": " hm\n"}, {"reasoning_content": " hm\n"}),
        ({"reasoning": " hm\n"}, {"reasoning": " hm\n"}),
        ({"reasoning": " hm\n", "reasoning_content": " hm\n"}, {"reasoning_content": " hm\n"}),
    ],
)
def test_reasoning_is_kept_as_it_came(message: dict[str, Any], raw: dict[str, Any]) -> None:
    assert parse(answer(content="a", **message)).content == (ReasoningBlock(" hm\n", SOURCE, raw), TextBlock("a"))


def test_reasoning_details() -> None:
    details = [{"type": "reasoning.text", "text": "h"}, {"type": "reasoning.summary", "summary": "m"}]
    assert parse(answer(content="a", reasoning_details=details)).content[0] == ReasoningBlock(
        "hm", SOURCE, {"reasoning_details": details}
    )


def test_a_reasoning_field_by_config() -> None:
    read = parse(answer(content="a", thoughts="hm"), reasoning_field="thoughts")
    assert read.content[0] == ReasoningBlock("hm", SOURCE, {"thoughts": "hm"})


@pytest.mark.parametrize(
    ("content", "think", "text"),
    [
        ("<think>\nhm\n</think>\n\nanswer", "hm", "answer"),
        ("\n<think>hm</think>answer", "hm", "answer"),
        ("<think>cut in the middle", "cut in the middle", ""),
        ("the tag <think> in prose", "", "the tag <think> in prose"),
        ("<think></think>answer", "", "answer"),
    ],
)
def test_think_is_split_off(content: str, think: str, text: str) -> None:
    expected = ((ReasoningBlock(think, SOURCE),) if think else ()) + ((TextBlock(text),) if text else ())
    assert parse(answer(content=content)).content == expected


def test_content_as_a_list_of_parts() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]
    assert parse(answer(content=parts)).content == (ReasoningBlock("hm", SOURCE), TextBlock("a"))


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", StopReason.END_TURN),
        (None, StopReason.END_TURN),
        ("length", StopReason.MAX_TOKENS),
        ("content_filter", StopReason.CONTENT_FILTER),
        ("sensitive", StopReason.CONTENT_FILTER),
        ("model_context_window_exceeded", StopReason.CONTEXT_WINDOW_EXCEEDED),
        ("tool_calls", StopReason.END_TURN),
    ],
)
def test_finish_reasons(finish: str | None, stop: StopReason) -> None:
    read = parse(answer(finish, content="text"))
    assert (read.stop_reason, read.raw_stop, read.text) == (stop, finish, "text")


def test_an_empty_filtered_message_is_a_refusal() -> None:
    read = parse(answer("content_filter", content=None))
    assert (read.stop_reason, read.content) == (StopReason.REFUSAL, ())
    assert read.stop_details == {"type": "refusal", "category": "content_filter", "explanation": None}


def test_an_empty_message_at_the_limit_is_max_tokens() -> None:
    read = parse(answer("length", content=""))
    assert (read.stop_reason, read.content) == (StopReason.MAX_TOKENS, ())


@pytest.mark.parametrize(
    "message", [{"content": None, "refusal": "I can't."}, {"content": [{"type": "refusal", "refusal": "I can't."}]}]
)
def test_a_refusal_field(message: dict[str, Any]) -> None:
    read = parse(answer("stop", **message))
    assert (read.stop_reason, read.text) == (StopReason.REFUSAL, "I can't.")
    assert read.stop_details == {"type": "refusal", "category": None, "explanation": "I can't."}


@pytest.mark.parametrize("finish", ["network_error", "error", "insufficient_system_resource", "abort"])
def test_a_backend_that_broke_off_is_a_server_error(finish: str) -> None:
    with pytest.raises(AdapterError) as caught:
        parse(answer(finish, content="so far"))
    assert (caught.value.kind, caught.value.code, caught.value.retryable) == (ErrorKind.SERVER, finish, True)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "so far"


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ({"choices": [], "id": "x"}, "the answer has no choices"),
        ({"id": "x"}, "the answer has no choices"),
        ({"choices": None, "id": "x"}, "the answer has no choices"),
        ({"choices": [{"finish_reason": "stop"}], "id": "x"}, "the first choice has no message"),
        ([1], "the answer is no JSON object"),
        ("text", "the answer is no JSON object"),
    ],
)
def test_no_answer_is_a_provider_error_with_its_payload(payload: Any, problem: str) -> None:
    with pytest.raises(AdapterError, match=problem) as caught:
        parse(payload)
    assert (caught.value.kind, caught.value.retryable) == (ErrorKind.BAD_RESPONSE, True)
    assert caught.value.details == (payload if isinstance(payload, dict) else None)


def test_an_error_in_place_of_choices_keeps_its_kind() -> None:
    with pytest.raises(AdapterError) as caught:
        parse({"error": {"code": "1113", "message": "Insufficient balance"}})
    assert (caught.value.kind, caught.value.code) == (ErrorKind.BILLING, "1113")


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "prompt_tokens_details": {"cached_tokens": 60},
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            Usage(40, 20, cache_read_tokens=60, reasoning_tokens=5),
        ),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
            },
            Usage(10, 20, cache_read_tokens=60, cache_write_tokens=30),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4}, Usage(5, 1, cache_read_tokens=4)),
        ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": None}, Usage(9, 1)),
        ({"prompt_tokens": None, "completion_tokens": 1}, Usage(0, 1)),
        ({}, Usage(known=False)),
        (None, Usage(known=False)),
    ],
)
def test_usage_counts_each_token_once(usage: Any, read: Usage) -> None:
    assert parse({**answer(content="a"), "usage": usage}).usage == read


def test_a_price_that_the_backend_reports() -> None:
    assert parse({**answer(content="a"), "usage": {"prompt_tokens": 1, "cost": 0.25}}).cost_usd == 0.25
    assert parse(answer(content="a")).cost_usd is None
