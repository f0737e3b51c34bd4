"""History on the Responses wire: what becomes of each kind of block."""

from __future__ import annotations

import json
from typing import Any

import pytest
from responses_kit import GREP, SEALED, SOURCE, TOOLS, adapter, body, call_item, reasoning_item, request, response

from geode.adapters.history import CLOSED_TEXT
from geode.contract import (
    Block,
    Capabilities,
    History,
    ImageBlock,
    InputFault,
    Message,
    ReasoningBlock,
    Source,
    TextBlock,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
)

HI = Message.user("hi")
CALL = ToolUseBlock("call_1", "grep_files", {"pattern": "x"}, '{ "pattern": "x" }')
RESULT = ToolResultBlock("call_1", "3 hits")
REASONING = ReasoningBlock("", SOURCE, reasoning_item(status="completed", content=[]))
CALL_ITEM = {"type": "function_call", "call_id": "call_1", "name": "grep_files", "arguments": '{ "pattern": "x" }'}
OUTPUT_ITEM = {"type": "function_call_output", "call_id": "call_1", "output": "3 hits"}
HI_ITEM = {"type": "message", "role": "user", "content": "hi"}


def items(*messages: Message, tools: tuple[ToolSpec, ...] = TOOLS, **given: Any) -> list[dict[str, Any]]:
    """The `input` of a request, which the API's own rules have found nothing wrong with."""
    found: list[dict[str, Any]] = body(adapter(**given), request(*messages, tools=tools))["input"]
    return found


def output_of(result: ToolResultBlock, **given: Any) -> Any:
    return items(HI, Message.assistant(CALL), Message.user(result), **given)[-1]["output"]


def test_a_call_and_its_result_join_by_call_id() -> None:
    assert items(HI, Message.assistant(CALL), Message.user(RESULT)) == [HI_ITEM, CALL_ITEM, OUTPUT_ITEM]


def test_a_turn_of_calls_alone_sends_no_message_item() -> None:
    kinds = [i["type"] for i in items(HI, Message.assistant(TextBlock(""), CALL), Message.user(RESULT))]
    assert kinds == ["message", "function_call", "function_call_output"]


def test_text_beside_a_call_keeps_its_place() -> None:
    found = items(HI, Message.assistant("I look.", CALL), Message.user(RESULT))
    assert found[1:3] == [{"type": "message", "role": "assistant", "content": "I look."}, CALL_ITEM]


def test_the_phase_of_a_message_is_kept() -> None:
    said = Message.assistant(TextBlock("Looking", phase="commentary"), CALL)
    assert items(HI, said, Message.user(RESULT))[1] == {
        "type": "message",
        "role": "assistant",
        "content": "Looking",
        "phase": "commentary",
    }


def test_the_models_own_argument_text_is_replayed_verbatim() -> None:
    call = ToolUseBlock("call_1", "grep_files", {"pattern": "ü"}, '{\n "pattern":"\\u00fc"}')
    assert items(HI, Message.assistant(call), Message.user(RESULT))[1]["arguments"] == '{\n "pattern":"\\u00fc"}'


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (ToolUseBlock("call_1", "grep_files", {}), "{}"),
        (ToolUseBlock("call_1", "grep_files", {"pattern": "x"}), '{"pattern":"x"}'),
        (ToolUseBlock("call_1", "grep_files", {}, '{"a":', InputFault.INVALID_JSON), '{"INVALID_JSON":"{\\"a\\":"}'),
        (ToolUseBlock("call_1", "grep_files", {}, "[1]", InputFault.NOT_AN_OBJECT), '{"INVALID_JSON":"[1]"}'),
        (ToolUseBlock("call_1", "grep_files", {}, "x" * 2000, InputFault.TOO_LONG), None),
    ],
)
def test_arguments_go_back_as_an_object(call: ToolUseBlock, arguments: str | None) -> None:
    sent = items(HI, Message.assistant(call), Message.user(RESULT))[1]["arguments"]
    assert sent == (arguments or json.dumps({"INVALID_JSON": "x" * 2000}, separators=(",", ":")))


def test_reasoning_goes_before_its_call_without_id_status_and_content() -> None:
    found = items(HI, Message.assistant(REASONING, CALL), Message.user(RESULT))
    assert found[1:3] == [{"type": "reasoning", "summary": [], "encrypted_content": SEALED}, CALL_ITEM]


def test_the_summary_of_reasoning_is_kept() -> None:
    summary = [{"type": "summary_text", "text": "I think."}]
    block = ReasoningBlock("I think.", SOURCE, reasoning_item(summary=summary))
    assert items(HI, Message.assistant(block, CALL), Message.user(RESULT))[1]["summary"] == summary


def test_ids_go_back_where_items_are_stored() -> None:
    call = ToolUseBlock("call_1", "grep_files", {}, "{}", wire_id="fc_9", source=SOURCE)
    found = items(HI, Message.assistant(REASONING, call), Message.user(RESULT), store=True)
    assert [i.get("id") for i in found] == [None, "rs_1", "fc_9", None]
    assert [i.get("id") for i in items(HI, Message.assistant(call), Message.user(RESULT))] == [None, None, None]


@pytest.mark.parametrize(
    "source", [Source("responses", "other", "gpt-6.1-sol"), Source("responses", "openai-payg", "x")]
)
def test_another_providers_item_ids_and_namespaces_are_not_sent(source: Source) -> None:
    call = ToolUseBlock("call_1", "grep_files", {}, "{}", wire_id="fc_9", namespace="files", source=source)
    found = items(HI, Message.assistant(call), Message.user(RESULT), store=True)[1]
    assert found == {"type": "function_call", "call_id": "call_1", "name": "grep_files", "arguments": "{}"}


@pytest.mark.parametrize(
    "source",
    [
        Source("messages", "anthropic-payg", "claude-opus-5"),
        Source("responses", "openai-payg", "gpt-6.1-luna"),
        Source("responses", "codex-oauth", "gpt-6.1-sol"),
    ],
)
def test_foreign_reasoning_is_plain_text(source: Source) -> None:
    block = ReasoningBlock("I think.", source, {"type": "thinking", "thinking": "I think.", "signature": "s"})
    found = items(HI, Message.assistant(block, CALL), Message.user(RESULT))
    assert found[1] == {"type": "message", "role": "assistant", "content": "I think."}


def test_foreign_reasoning_without_text_is_not_sent() -> None:
    block = ReasoningBlock("", Source("messages", "a", "m"), {"type": "redacted_thinking", "data": "x"})
    assert items(HI, Message.assistant(block, CALL), Message.user(RESULT)) == [HI_ITEM, CALL_ITEM, OUTPUT_ITEM]


def test_reasoning_goes_with_the_call_that_it_led_to() -> None:
    other = ReasoningBlock("", SOURCE, reasoning_item(id="rs_2"))
    found = items(HI, Message.assistant(REASONING, CALL, other), Message.user(RESULT))
    assert [i["type"] for i in found] == ["message", "reasoning", "function_call", "function_call_output"]


def test_a_placeholder_follows_reasoning_alone() -> None:
    found = items(HI, Message.assistant(REASONING), Message.user("go on"), reasoning_placeholder="(thinking)")
    assert found[1:3] == [
        {"type": "reasoning", "summary": [], "encrypted_content": SEALED},
        {"type": "message", "role": "assistant", "content": "(thinking)"},
    ]


def test_reasoning_alone_goes_alone_where_no_placeholder_is_configured() -> None:
    built = json.loads(adapter().build(request(HI, Message.assistant(REASONING), Message.user("go on"))))
    assert [i["type"] for i in built["input"]] == ["message", "reasoning", "message"]


def test_open_reasoning_goes_back_to_a_server_that_does_not_encrypt() -> None:
    content = [{"type": "reasoning_text", "text": "I think."}]
    raw = {"type": "reasoning", "id": "rs_1", "summary": [], "content": content, "encrypted_content": ""}
    block = ReasoningBlock("I think.", SOURCE, raw)
    asked = request(HI, Message.assistant(block, CALL), Message.user(RESULT))
    assert json.loads(adapter(reasoning_model=False).build(asked))["input"][1] == {
        "type": "reasoning",
        "summary": [],
        "content": content,
    }
    assert [i["type"] for i in body(adapter(), asked)["input"]] == ["message", "function_call", "function_call_output"]


def test_a_hosted_search_and_its_namespace_are_replayed() -> None:
    search = {"type": "tool_search_call", "id": "ts_1", "call_id": None, "execution": "server", "arguments": {}}
    loaded = {"type": "tool_search_output", "id": "to_1", "call_id": None, "execution": "server", "tools": []}
    called = call_item(namespace="files")
    made = adapter()
    made.build(request(HI, tools=TOOLS))
    answer = made.parse(
        response({**search, "status": "completed", "created_by": "x"}, {**loaded, "status": "completed"}, called)
    )
    found = body(made, request(HI, Message("assistant", answer.content), Message.user(RESULT), tools=TOOLS))["input"]
    assert found[1:4] == [
        {k: v for k, v in search.items() if k != "id"},
        {k: v for k, v in loaded.items() if k != "id"},
        {
            "type": "function_call",
            "call_id": "call_1",
            "namespace": "files",
            "name": "grep_files",
            "arguments": '{"pattern":"x"}',
        },
    ]


# ------------------------------------------------------------------------------------------------------------- results


def test_an_empty_output_is_an_empty_string() -> None:
    assert output_of(ToolResultBlock("call_1", "")) == ""
    assert output_of(ToolResultBlock("call_1", (TextBlock(""),))) == ""


def test_a_failing_tool_says_so_in_its_text() -> None:
    assert output_of(ToolResultBlock("call_1", 'no "x"', is_error=True)) == '{"error": "no \\"x\\""}'


def test_an_image_in_a_result_is_a_part_in_its_place() -> None:
    content: tuple[TextBlock | ImageBlock, ...] = (
        TextBlock("before"),
        ImageBlock("image/png", "aGk="),
        TextBlock("after"),
    )
    image = {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"}
    before, after = {"type": "input_text", "text": "before"}, {"type": "input_text", "text": "after"}
    assert output_of(ToolResultBlock("call_1", content)) == [before, image, after]
    assert output_of(ToolResultBlock("call_1", content, is_error=True)) == [
        {"type": "input_text", "text": '{"error": "before\\nafter"}'},
        image,
    ]


def test_an_image_that_cannot_be_sent_is_named_in_text() -> None:
    picture = ToolResultBlock("call_1", (ImageBlock("image/tiff", "aGk="),))
    assert output_of(picture) == [
        {"type": "input_text", "text": "[image/tiff image left out: this type cannot be sent]"}
    ]
    blind = ToolResultBlock("call_1", (ImageBlock("image/png", "aGk="),))
    assert output_of(blind, capabilities=Capabilities(images=False)) == [
        {"type": "input_text", "text": "[image/png image left out: this model takes no images]"}
    ]


def test_an_image_of_the_user_is_a_part_of_the_message() -> None:
    assert items(Message.user("look", ImageBlock("image/gif", "aGk="))) == [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "look"},
                {"type": "input_image", "image_url": "data:image/gif;base64,aGk=", "detail": "auto"},
            ],
        }
    ]


def test_results_come_before_the_text_of_their_message_and_in_call_order() -> None:
    two = ToolUseBlock("call_2", "grep_files", {}, "{}")
    said = Message.user(TextBlock("hint"), ToolResultBlock("call_2", "b"), ToolResultBlock("call_1", "a"))
    found = items(HI, Message.assistant(CALL, two), said)
    assert [(i["type"], i.get("call_id"), i.get("output", i.get("content"))) for i in found[3:]] == [
        ("function_call_output", "call_1", "a"),
        ("function_call_output", "call_2", "b"),
        ("message", None, "hint"),
    ]


# ------------------------------------------------------------------------------------------------------ pairing, names


def test_a_result_whose_call_is_gone_is_removed() -> None:
    assert items(HI, Message.assistant("a"), Message.user(RESULT, TextBlock("b")))[2:] == [
        {"type": "message", "role": "user", "content": "b"}
    ]


def test_a_call_without_result_is_closed() -> None:
    found = items(HI, Message.assistant(CALL), Message.user("go on"))
    assert found[2]["output"] == json.dumps({"error": CLOSED_TEXT})


def test_duplicate_ids_are_made_unique_on_both_sides() -> None:
    found = items(
        HI, Message.assistant(CALL, CALL), Message.user(ToolResultBlock("call_1", "a"), ToolResultBlock("call_1", "b"))
    )
    assert [(i["call_id"], i.get("output")) for i in found[1:]] == [
        ("call_1", None),
        ("call_1_2", None),
        ("call_1", "a"),
        ("call_1_2", "b"),
    ]


def test_an_id_that_is_too_long_is_cut_on_both_sides() -> None:
    long = "toolu_" + "x" * 80
    call = ToolUseBlock(long, "grep_files", {}, "{}")
    found = items(HI, Message.assistant(call), Message.user(ToolResultBlock(long, "a")))
    assert found[1]["call_id"] == found[2]["call_id"]
    assert len(found[1]["call_id"]) == 64


def test_names_that_are_not_legal_go_under_one_alias_and_come_back() -> None:
    dotted = ToolSpec("files.grep", "", GREP.input_schema)
    made = adapter()
    call = ToolUseBlock("call_1", "files.grep", {}, "{}")
    asked = request(HI, Message.assistant(call), Message.user(RESULT), tools=(dotted,))
    sent = body(made, asked)
    assert sent["tools"][0]["name"] == sent["input"][1]["name"] == "files_grep"
    assert made.parse(response(call_item("files_grep"))).tool_uses[0].name == "files.grep"


def test_a_name_that_the_model_made_up_is_replayed_sanitised() -> None:
    call = ToolUseBlock("call_1", "no.such tool", {}, "{}")
    assert items(HI, Message.assistant(call), Message.user(RESULT))[1]["name"] == "no_such_tool"


# ------------------------------------------------------------------------------------------------------ the whole input


@pytest.mark.parametrize("messages", [(), (Message.user(""),), (Message.assistant(""),)])
def test_no_input_is_one_empty_user_message(messages: tuple[Message, ...]) -> None:
    built = json.loads(adapter().build(request_of(messages)))
    assert built["input"] == [{"type": "message", "role": "user", "content": ""}]


def request_of(messages: tuple[Message, ...]) -> Any:
    from geode.contract import AdapterCallRequest

    return AdapterCallRequest(messages=messages)


def test_a_lone_surrogate_is_escaped() -> None:
    built = adapter().build(request(Message.user("a\ud800b")))
    assert b'"content":"a\\ud800b"' in built


def test_a_growing_history_adds_a_suffix_to_the_same_bytes_as_from_scratch() -> None:
    made = adapter()
    history = History([HI])
    before = b""
    for n in range(1, 6):
        call = ToolUseBlock(f"call_{n}", "grep_files", {}, '{"pattern": "é"}')
        turn: tuple[Block, ...] = (ReasoningBlock("", SOURCE, reasoning_item(id=f"rs_{n}")), TextBlock("hm"), call)
        built = made.build(request_of_history(history, n))
        assert built == adapter().build(request_of_history(list(history), n))
        array = built[built.index(b'"input":[') : built.index(b'],"tools"')]
        assert array.startswith(before)
        before = array
        history.append(Message("assistant", turn))
        history.append(Message.user(ToolResultBlock(f"call_{n}", "a"), TextBlock("hint")))


def request_of_history(history: Any, round: int) -> Any:
    from geode.contract import AdapterCallRequest

    return AdapterCallRequest(messages=history, tools=TOOLS, round=round)
