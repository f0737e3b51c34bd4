"""Answers of the Responses API, whole and broken."""

from __future__ import annotations

from typing import Any

import pytest
from responses_kit import SOURCE, TOOLS, adapter, call_item, message_item, reasoning_item, request, response

from geode.adapters.responses import ResponsesAdapter
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


def parse(*output: Any, made: ResponsesAdapter | None = None, **given: Any) -> AdapterCallResult:
    return (made or adapter()).parse(response(*output, **given), round=3)


def fails(payload: Any) -> AdapterError:
    with pytest.raises(AdapterError) as caught:
        adapter().parse(payload)
    return caught.value


def test_items_come_in_their_order() -> None:
    thought = reasoning_item(summary=[{"type": "summary_text", "text": "Hm."}])
    result = parse(thought, message_item("I look.", phase="commentary"), call_item())
    assert result == AdapterCallResult(
        (
            ReasoningBlock("Hm.", SOURCE, thought),
            TextBlock("I look.", "commentary"),
            ToolUseBlock("call_1", "grep_files", {"pattern": "x"}, '{"pattern":"x"}'),
        ),
        StopReason.TOOL_USE,
        Usage(30, 20, 60, 10, 0, 5),
        "gpt-6.1-sol-2026-10-01",
        "completed",
    )


def test_text_alone_is_the_end() -> None:
    result = parse(message_item("a"), message_item("b"))
    assert (result.stop_reason, result.text) == (StopReason.END_TURN, "ab")


def test_an_item_that_only_the_provider_knows_is_kept_and_shows_no_text() -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}
    assert parse(item).content == (ReasoningBlock("", SOURCE, item),)


def test_item_ids_are_kept_only_where_they_are_stored() -> None:
    assert parse(call_item()).tool_uses[0].wire_id is None
    stored = parse(call_item(), made=adapter(store=True)).tool_uses[0]
    assert (stored.wire_id, stored.source) == ("fc_1", SOURCE)


def test_the_namespace_of_a_call_is_kept() -> None:
    call = parse(call_item(namespace="files")).tool_uses[0]
    assert (call.namespace, call.source) == ("files", SOURCE)


# -------------------------------------------------------------------------------------------------------------- endings


def test_an_answer_cut_by_its_limit_keeps_its_text() -> None:
    cut = {"reason": "max_output_tokens"}
    result = parse(message_item("half"), status="incomplete", incomplete_details=cut)
    assert (result.text, result.stop_reason) == ("half", StopReason.MAX_TOKENS)
    assert (result.raw_stop, result.stop_details) == ("max_output_tokens", cut)


def test_an_answer_cut_by_a_filter_keeps_its_text() -> None:
    result = parse(message_item("half"), status="incomplete", incomplete_details={"reason": "content_filter"})
    assert (result.text, result.stop_reason) == ("half", StopReason.CONTENT_FILTER)


def test_a_refusal_part_keeps_its_text() -> None:
    refusal = message_item(content=[{"type": "refusal", "refusal": "I cannot."}])
    result = parse(refusal)
    assert (result.text, result.stop_reason) == ("I cannot.", StopReason.REFUSAL)


def test_nothing_at_all_is_an_empty_answer() -> None:
    assert parse().content == ()
    assert parse(output=None).content == ()
    assert parse(message_item("")).content == ()


@pytest.mark.parametrize(
    ("item", "value", "fault"),
    [
        (call_item(arguments='{"pattern":"x'), {}, InputFault.CUT),
        (call_item(arguments=""), {}, InputFault.CUT),
        (call_item(arguments='{"pattern":"x"}', status="incomplete"), {}, InputFault.CUT),
        (call_item(arguments='{"pattern":"x"}'), {"pattern": "x"}, None),
    ],
)
def test_a_call_that_the_limit_cut_is_not_run(item: Any, value: Any, fault: InputFault | None) -> None:
    result = parse(item, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    call = result.tool_uses[0]
    assert (call.input, call.fault, result.stop_reason) == (value, fault, StopReason.MAX_TOKENS)


def test_a_call_before_the_cut_one_is_whole() -> None:
    items = (call_item(), call_item(call_id="call_2", arguments='{"pat', status="incomplete"))
    result = parse(*items, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert [c.fault for c in result.tool_uses] == [None, InputFault.CUT]


@pytest.mark.parametrize(
    ("item", "stop", "fault"),
    [
        (message_item("half"), StopReason.MAX_TOKENS, None),
        (call_item(arguments='{"pat'), StopReason.MAX_TOKENS, InputFault.CUT),
        (call_item(), StopReason.TOOL_USE, None),
    ],
)
def test_completed_is_not_believed_of_an_answer_as_long_as_its_limit(
    item: Any, stop: StopReason, fault: InputFault | None
) -> None:
    made = adapter()
    made.build(request(tools=TOOLS, max_tokens=20))
    result = parse(item, made=made)
    assert (result.stop_reason, [c.fault for c in result.tool_uses]) == (stop, [fault] if result.tool_uses else [])


# ------------------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("arguments", "value", "text", "fault"),
    [
        ("", {}, None, None),
        (None, {}, None, None),
        ({"pattern": "x"}, {"pattern": "x"}, None, None),
        ('"{\\"pattern\\": 1}"', {"pattern": 1}, None, None),
        ("{pattern", {}, "{pattern", InputFault.INVALID_JSON),
        ("[1]", {}, "[1]", InputFault.NOT_AN_OBJECT),
        ("null", {}, "null", InputFault.NOT_AN_OBJECT),
        ([1], {}, "[1]", InputFault.NOT_AN_OBJECT),
        ("x" * 1_048_577, {}, "x" * 2000, InputFault.TOO_LONG),
        ('{"a":"' + "x" * 1_048_568 + '"}', {"a": "x" * 1_048_568}, '{"a":"' + "x" * 1_048_568 + '"}', None),
    ],
)
def test_arguments(arguments: Any, value: Any, text: str | None, fault: InputFault | None) -> None:
    call = parse(call_item(arguments=arguments)).tool_uses[0]
    assert (call.input, call.arguments, call.fault) == (value, text, fault)


def test_ids_are_made_unique_and_made_up_where_missing() -> None:
    items = [call_item(call_id=i) for i in ("a", "a", "", None, 7)]
    assert [c.id for c in parse(*items).tool_uses] == ["a", "a_2", "call_3_2", "call_3_3", "call_3_4"]


def test_a_call_without_a_name_is_still_a_call() -> None:
    assert parse({"type": "function_call", "call_id": "a"}).tool_uses[0].name == ""


# ---------------------------------------------------------------------------------------------------------------- usage


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"input_tokens": 9, "output_tokens": 4}, Usage(9, 4)),
        ({"input_tokens": 9, "output_tokens": 4, "input_tokens_details": None}, Usage(9, 4)),
        ({"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": None}}, Usage(9, 4)),
        (
            {"input_tokens": 9, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 3}},
            Usage(9, 4, 0, 0, 0, 3),
        ),
        ({"input_tokens": 9}, Usage(9, known=False)),
        ({}, Usage(known=False)),
        (None, Usage(known=False)),
    ],
)
def test_usage(usage: Any, counted: Usage) -> None:
    assert parse(message_item(), usage=usage).usage == counted


# --------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("invalid_prompt", ErrorKind.REFUSAL, False),
        ("bio_policy", ErrorKind.REFUSAL, False),
        ("misalignment_policy_violation", ErrorKind.REFUSAL, False),
        ("rate_limit_exceeded", ErrorKind.RATE_LIMIT, True),
        ("server_error", ErrorKind.SERVER, True),
        ("vector_store_timeout", ErrorKind.SERVER, True),
        ("context_length_exceeded", ErrorKind.CONTEXT_OVERFLOW, False),
        ("insufficient_quota", ErrorKind.BILLING, False),
        ("invalid_image", ErrorKind.INVALID_REQUEST, False),
        ("something_new", ErrorKind.INVALID_REQUEST, False),
    ],
)
def test_a_failed_response_is_an_error_by_its_code(code: str, kind: ErrorKind, retryable: bool) -> None:
    error = fails(response(status="failed", error={"code": code, "message": "because"}))
    assert (error.kind, error.retryable, error.code) == (kind, retryable, code)
    assert (error.message, error.provider, error.partial) == ("because", "openai-payg", None)


def test_a_failed_response_keeps_what_it_had_said() -> None:
    error = fails(response(message_item("half"), status="failed", error={"code": "server_error", "message": "m"}))
    assert error.partial is not None
    assert (error.partial.text, error.partial.stop_reason) == ("half", StopReason.ERROR)


def test_a_failed_response_without_an_error_is_retried() -> None:
    assert fails(response(status="failed")).kind is ErrorKind.SERVER


@pytest.mark.parametrize(
    "payload", ["text", [], None, {}, {"choices": []}, {"status": "in_progress", "output": []}, {"output": "text"}]
)
def test_what_is_no_response_is_a_bad_response(payload: Any) -> None:
    error = fails(payload)
    assert error.kind is ErrorKind.BAD_RESPONSE
    assert error.retryable


def test_an_answer_whose_status_is_missing_is_read_by_its_content() -> None:
    result = adapter().parse({"output": [message_item("hello"), "noise", {"type": "message", "content": None}]})
    assert (result.text, result.stop_reason, result.model) == ("hello", StopReason.END_TURN, "")


def test_a_wrapped_answer_is_unwrapped() -> None:
    made = adapter()
    made.build(request(response_schema={"type": "array", "items": {"type": "integer"}}))
    assert parse(message_item('{"value": [1, 2]}'), made=made).text == "[1, 2]"
