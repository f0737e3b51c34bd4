"""The Messages wire: what a history becomes in `messages`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from messages_kit import GREP, HELLO, MODEL, Bench, thinking

from geode.adapters.history import CLOSED_TEXT
from geode.contract import (
    AdapterCallRequest,
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

PNG = ImageBlock("image/png", "iVBORw0KGgo=")


def call(identifier: str = "toolu_1", name: str = "grep_files", **more: Any) -> ToolUseBlock:
    return ToolUseBlock(identifier, name, more.pop("input", {"q": "x"}), **more)


def result_of(content: Any, is_error: bool = False, bench: Bench | None = None) -> Any:
    """The one tool_result block that a result becomes."""
    messages = (bench or Bench()).messages(
        *HELLO, Message.assistant(call()), Message.user(ToolResultBlock("toolu_1", content, is_error))
    )
    (block,) = messages[-1]["content"]
    return block


def test_all_results_of_a_round_in_one_user_message_in_call_order_before_text() -> None:
    messages = Bench().messages(
        *HELLO,
        Message.assistant(call("a"), call("b")),
        Message.user("a hint", ToolResultBlock("b", "2"), ToolResultBlock("a", "1")),
    )
    assert messages[2] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "1"},
            {"type": "tool_result", "tool_use_id": "b", "content": "2"},
            {"type": "text", "text": "a hint"},
        ],
    }


@pytest.mark.parametrize("content", ["", "  \n", (), (TextBlock(""), TextBlock(" "))])
def test_an_empty_result_says_no_content(content: Any) -> None:
    assert result_of(content) == {"type": "tool_result", "tool_use_id": "toolu_1", "content": "(no content)"}


def test_an_error_has_the_flag_and_content() -> None:
    assert result_of("", True) == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": "(no content)",
        "is_error": True,
    }


@pytest.mark.parametrize("media_type", ["image/jpeg", "image/png", "image/gif", "image/webp"])
def test_an_image_goes_inside_the_result_in_its_place(media_type: str) -> None:
    block = result_of((TextBlock("before"), ImageBlock(media_type, "AAAA"), TextBlock("after")))
    assert block["content"] == [
        {"type": "text", "text": "before"},
        {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": "AAAA"}},
        {"type": "text", "text": "after"},
    ]


def test_an_image_of_another_type_becomes_text_that_says_so() -> None:
    assert result_of((ImageBlock("image/tiff", "AAAA"),))["content"] == [
        {"type": "text", "text": "[image of type image/tiff left out: only JPEG, PNG, GIF and WebP can be sent]"}
    ]


def test_an_image_for_a_model_that_takes_none_becomes_text() -> None:
    bench = Bench(capabilities=Capabilities(images=False))
    text = "[image of type image/png left out: the model takes no images]"
    assert result_of((PNG,), bench=bench)["content"] == [{"type": "text", "text": text}]
    assert bench.messages(Message.user("look", PNG))[0]["content"][1] == {"type": "text", "text": text}


def test_a_failed_result_takes_text_only() -> None:
    assert result_of((TextBlock("broke"), PNG), True)["content"] == [
        {"type": "text", "text": "broke"},
        {"type": "text", "text": "[image of type image/png left out: a failed result takes text only]"},
    ]


def test_an_image_of_the_user() -> None:
    assert Bench().messages(Message.user("look", PNG)) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
            ],
        }
    ]


def test_empty_assistant_text_beside_a_call_is_dropped() -> None:
    messages = Bench().messages(
        *HELLO, Message.assistant("", " \n", call()), Message.user(ToolResultBlock("toolu_1", "1"))
    )
    assert messages[1]["content"] == [{"type": "tool_use", "id": "toolu_1", "name": "grep_files", "input": {"q": "x"}}]


def test_an_assistant_message_with_nothing_left_is_dropped_and_its_neighbours_merged() -> None:
    assert Bench().messages(Message.user("one"), Message.assistant(""), Message.user("two")) == [
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}
    ]


def test_assistant_messages_in_a_row_stay_apart() -> None:
    """A continued pause_turn: the API combines them itself, and the bytes that were sent stay as they are."""
    messages = Bench().messages(*HELLO, Message.assistant("one"), Message.assistant("two"), Message.user("go on"))
    assert messages[1:3] == [
        {"role": "assistant", "content": [{"type": "text", "text": "one"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "two"}]},
    ]


def test_a_turn_of_thinking_alone_gets_a_text() -> None:
    messages = Bench().messages(*HELLO, Message.assistant(thinking()), Message.user("go on"))
    assert messages[1]["content"] == [
        {"type": "thinking", "thinking": "let me see", "signature": "sig"},
        {"type": "text", "text": "(no content)"},
    ]


def test_thinking_goes_back_verbatim_in_its_place_also_empty_and_redacted() -> None:
    empty = thinking("", "sig2")
    redacted = ReasoningBlock("", empty.source, {"type": "redacted_thinking", "data": "opaque"})
    messages = Bench().messages(
        *HELLO,
        Message.assistant(thinking(), "so", redacted, empty, call()),
        Message.user(ToolResultBlock("toolu_1", "1")),
    )
    assert messages[1]["content"] == [
        {"type": "thinking", "thinking": "let me see", "signature": "sig"},
        {"type": "text", "text": "so"},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "thinking", "thinking": "", "signature": "sig2"},
        {"type": "tool_use", "id": "toolu_1", "name": "grep_files", "input": {"q": "x"}},
    ]


@pytest.mark.parametrize(
    "block",
    [
        ReasoningBlock("aha", thinking().source, {"type": "thinking", "thinking": "aha"}),
        ReasoningBlock("aha", thinking().source, {"type": "thinking", "thinking": "aha", "signature": ""}),
        thinking("aha", source=Source("messages", "other", MODEL)),
        thinking("aha", source=Source("messages", "anthropic-payg", "claude-other")),
        ReasoningBlock("aha", Source("chat", "glm-payg", "glm-5"), {"reasoning_content": "aha"}),
        ReasoningBlock("aha", Source("responses", "openai-payg", "gpt"), {"type": "reasoning", "id": "rs_1"}),
    ],
)
def test_thinking_unsigned_or_from_elsewhere_goes_as_plain_text(block: ReasoningBlock) -> None:
    messages = Bench().messages(*HELLO, Message.assistant(block, "so"), Message.user("go on"))
    assert messages[1]["content"] == [{"type": "text", "text": "aha"}, {"type": "text", "text": "so"}]


def test_foreign_reasoning_without_text_is_left_out() -> None:
    block = ReasoningBlock("", Source("responses", "openai-payg", "gpt"), {"type": "reasoning", "id": "rs_1"})
    assert Bench().messages(*HELLO, Message.assistant(block, "so"), Message.user("go on"))[1]["content"] == [
        {"type": "text", "text": "so"}
    ]


def test_blocks_of_server_tools_go_back_verbatim() -> None:
    used = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "x"}}
    found = {
        "type": "tool_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": {"type": "tool_search_tool_search_result", "tool_references": []},
    }
    source = thinking().source
    messages = Bench().messages(
        *HELLO, Message.assistant(ReasoningBlock("", source, used), ReasoningBlock("", source, found))
    )
    assert messages[1]["content"] == [used, found]


def test_trailing_white_space_of_assistant_text_is_stripped() -> None:
    messages = Bench().messages(*HELLO, Message.assistant("one ", "two \n", call()))
    assert [b.get("text") for b in messages[1]["content"]] == ["one ", "two", None]


def test_text_before_thinking_stays_to_the_letter() -> None:
    messages = Bench().messages(*HELLO, Message.assistant("one \n", thinking(), "two \n\n"))
    assert messages[1]["content"] == [
        {"type": "text", "text": "one \n"},
        {"type": "thinking", "thinking": "let me see", "signature": "sig"},
        {"type": "text", "text": "two"},
    ]


def test_ids_of_another_provider_are_made_legal_on_both_sides_and_stay_unique() -> None:
    messages = Bench().messages(
        *HELLO,
        Message.assistant(call("call:1|fc"), call("call_1_fc")),
        Message.user(ToolResultBlock("call_1_fc", "2"), ToolResultBlock("call:1|fc", "1")),
    )
    calls = [b["id"] for b in messages[1]["content"]]
    assert calls == ["call_1_fc", "call_1_fc_2"]
    assert [(b["tool_use_id"], b["content"]) for b in messages[2]["content"]] == [
        ("call_1_fc", "1"),
        ("call_1_fc_2", "2"),
    ]


def test_a_call_without_result_is_closed_and_a_result_without_call_removed() -> None:
    history = (
        Message.user("hi", ToolResultBlock("ghost", "boo")),
        Message.assistant(call()),
        Message.user("never mind"),
    )
    assert Bench().messages(*history)[0]["content"] == [{"type": "text", "text": "hi"}]
    assert Bench().messages(*history)[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": CLOSED_TEXT, "is_error": True},
        {"type": "text", "text": "never mind"},
    ]


@pytest.mark.parametrize(
    ("block", "sent"),
    [
        (call(arguments='{"q":  1e3}', input={"q": 1000.0}), '{"q":  1e3}'),
        (call(input={"q": "é"}), '{"q":"é"}'),
        (call(input={}), "{}"),
        (call(input={}, arguments="{oops", fault=InputFault.INVALID_JSON), '{"INVALID_JSON":"{oops"}'),
        (call(input={}, arguments="[1]", fault=InputFault.NOT_AN_OBJECT), '{"INVALID_JSON":"[1]"}'),
        (call(input={}, arguments='{"q": "', fault=InputFault.CUT), '{"INVALID_JSON":"{\\"q\\": \\""}'),
        (call(input={}, arguments="no object"), "{}"),
    ],
)
def test_the_input_that_is_replayed(block: ToolUseBlock, sent: str) -> None:
    bench = Bench()
    history = (*HELLO, Message.assistant(block), Message.user(ToolResultBlock("toolu_1", "1")))
    body = bench.adapter.build(AdapterCallRequest(history)).decode()
    assert f'"name":"grep_files","input":{sent}}}' in body
    json.loads(body)


def test_a_name_that_the_wire_refuses_has_one_alias_everywhere() -> None:
    tools = tuple(ToolSpec(n, "", {}) for n in ("a.b", "a_b", "a/b"))
    bench = Bench()
    history = (
        *HELLO,
        Message.assistant(call("1", "a.b"), call("2", "a_b"), call("3", "no.such tool")),
        Message.user(*(ToolResultBlock(i, "x") for i in "123")),
    )
    body = bench.body(history, tools=tools)
    wire = [t["name"] for t in body["tools"]]
    assert wire[1] == "a_b"
    assert len(set(wire)) == 3
    assert [b["name"] for b in body["messages"][1]["content"]] == [wire[0], "a_b", "no_such_tool"]


def test_a_history_that_starts_with_the_assistant_gets_a_user_message_before_it() -> None:
    assert Bench().messages(Message.assistant("summary"), Message.user("go on"))[0] == {
        "role": "user",
        "content": [{"type": "text", "text": "(no content)"}],
    }


def test_each_request_is_the_last_one_and_more_and_equals_one_made_from_scratch() -> None:
    bench = Bench()
    history = History([Message.user("hello")])
    before = b""
    for n in range(6):
        request = AdapterCallRequest(history, tools=(GREP,))
        body = bench.adapter.build(request)
        assert body == Bench().adapter.build(AdapterCallRequest(tuple(history), tools=(GREP,)))
        array = body[body.index(b'"messages":[') : body.index(b'],"tool_choice"')]
        assert array.startswith(before)
        before = array
        history.append(Message.assistant(thinking(f"t{n}"), f"step {n} ", call(f"id{n}")))
        history.append(Message.user(ToolResultBlock(f"id{n}", f"found {n}"), f"round {n}"))


def test_histories_that_take_turns_on_one_adapter_do_not_disturb_each_other() -> None:
    bench = Bench()
    one, two = History([Message.user("one")]), History([Message.user("two")])
    for _ in range(2):
        for history, text in ((one, "one"), (two, "two")):
            first = json.loads(bench.adapter.build(AdapterCallRequest(history)))["messages"][0]
            assert first["content"] == [{"type": "text", "text": text}]
            history.append(Message.assistant("ok"))
            history.append(Message.user("more"))


def test_a_lone_surrogate_and_nan_never_break_the_body() -> None:
    body = Bench().body((Message.user("a\ud800b"), Message.assistant(call(input={"q": float("nan")}))))
    assert body["messages"][0]["content"] == [{"type": "text", "text": "a?b"}]
    assert body["messages"][1]["content"][0]["input"] == {"q": None}
