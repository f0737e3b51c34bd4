"""How a history goes on the Chat Completions wire, and that what was sent once never changes."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from chat_kit import MODEL, SOURCE, TOOLS, adapter, body, call, grown, messages, result

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
    ToolUseBlock,
)

USER = {"role": "user", "content": "hi"}
HI = Message.user("hi")
WIRE_CALL = {"id": "c1", "type": "function", "function": {"name": "grep_files", "arguments": '{"pattern":"x"}'}}


def test_calls_alone_have_null_content_and_string_arguments() -> None:
    assert messages(HI, Message.assistant(call()), Message.user(result())) == [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [WIRE_CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]


def test_content_in_place_of_null_by_config() -> None:
    sent = messages(HI, Message.assistant(call()), Message.user(result()), empty_content="(no content)")
    assert sent[1] == {"role": "assistant", "content": "(no content)", "tool_calls": [WIRE_CALL]}


def test_text_alone_has_no_tool_calls_key() -> None:
    assert messages(HI, Message.assistant("yes", ""), Message.user("go"))[1] == {"role": "assistant", "content": "yes"}


def test_an_empty_assistant_message_is_not_sent() -> None:
    assert messages(HI, Message.assistant(""), Message.user("go")) == [{"role": "user", "content": "hi\ngo"}]


def test_each_call_is_answered_before_any_other_message() -> None:
    history = (HI, Message.assistant(call("c1"), call("c2")), Message.user("aside", result("b", "c2")))
    assert messages(*history)[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": json.dumps({"error": CLOSED_TEXT})},
        {"role": "tool", "tool_call_id": "c2", "content": "b"},
        {"role": "user", "content": "aside"},
    ]


def test_an_orphan_result_is_removed() -> None:
    sent = messages(HI, Message.assistant("a"), Message.user(result("x", "gone"), "b"))
    assert sent[2:] == [{"role": "user", "content": "b"}]


def test_duplicate_ids_get_fresh_ones_in_call_and_result() -> None:
    sent = messages(HI, Message.assistant(call("c"), call("c")), Message.user(result("1", "c"), result("2", "c")))
    assert [c["id"] for c in sent[1]["tool_calls"]] == ["c", "c_2"]
    assert [(m["tool_call_id"], m["content"]) for m in sent[2:]] == [("c", "1"), ("c_2", "2")]


def test_a_failing_tool() -> None:
    sent = messages(HI, Message.assistant(call()), Message.user(result("no é file", is_error=True)))
    assert sent[2] == {"role": "tool", "tool_call_id": "c1", "content": '{"error": "no é file"}'}


def test_malformed_arguments_are_replayed_as_an_object() -> None:
    bad = ToolUseBlock("c1", "grep_files", {}, '{"pattern": ', InputFault.INVALID_JSON)
    sent = messages(HI, Message.assistant(bad), Message.user(result("bad", is_error=True)))
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == '{"INVALID_JSON":"{\\"pattern\\": "}'


def test_empty_arguments_are_replayed_as_an_empty_object() -> None:
    sent = messages(HI, Message.assistant(ToolUseBlock("c1", "grep_files", {})), Message.user(result()))
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_the_model_s_own_argument_text_is_replayed_verbatim() -> None:
    own = '{ "pattern":\t"\\u00e9", "n": 1e2 }'
    sent = messages(HI, Message.assistant(call(arguments=own)), Message.user(result()))
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == own


def test_images_of_results_follow_in_one_user_message() -> None:
    png, odd = ImageBlock("image/png", "AAAA"), ImageBlock("image/tiff", "BBBB")
    first, second = ToolResultBlock("c1", (TextBlock("shot"), png)), ToolResultBlock("c2", (odd, png))
    history = (HI, Message.assistant(call("c1"), call("c2")), Message.user(first, second, "a hint"))
    shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert messages(*history)[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "shot\n[image 1: image/png, in the next user message]"},
        {
            "role": "tool",
            "tool_call_id": "c2",
            "content": "[image of type image/tiff left out: only JPEG, PNG, GIF and WebP can be sent]\n"
            "[image 2: image/png, in the next user message]",
        },
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Image 1, from the tool result c1:"},
                shown,
                {"type": "text", "text": "Image 2, from the tool result c2:"},
                shown,
                {"type": "text", "text": "a hint"},
            ],
        },
    ]


def test_a_model_without_images_is_told_so() -> None:
    sent = messages(Message.user("look", ImageBlock("image/png", "AAAA")), capabilities=Capabilities(images=False))
    left_out = "[image of type image/png left out: this model takes no images]"
    assert sent == [{"role": "user", "content": f"look\n{left_out}"}]


def test_an_image_of_the_user() -> None:
    sent = messages(Message.user("look", ImageBlock("image/webp", "AAAA")))
    assert sent[0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/webp;base64,AAAA"}},
    ]


@pytest.mark.parametrize(
    "raw",
    [
        {"reasoning_content": "hm "},
        {"reasoning": "hm"},
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s"}]},
    ],
)
def test_reasoning_goes_back_unmodified_under_its_own_field(raw: dict[str, Any]) -> None:
    thought = ReasoningBlock("hm", SOURCE, raw)
    sent = messages(HI, Message.assistant(thought, call()), Message.user(result()))
    assert sent[1] == {"role": "assistant", "content": None, **raw, "tool_calls": [WIRE_CALL]}


@pytest.mark.parametrize(
    "source", [Source("chat", "glm-payg", "glm-4.7"), Source("chat", "other", MODEL), Source("messages", "a", "m")]
)
def test_reasoning_of_another_model_goes_as_plain_text(source: Source) -> None:
    foreign = ReasoningBlock("hm", source, {"reasoning_content": "hm"})
    sent = messages(HI, Message.assistant(foreign, call()), Message.user(result()))
    assert sent[1] == {"role": "assistant", "content": "hm", "tool_calls": [WIRE_CALL]}
    silent = ReasoningBlock("", source, {"type": "redacted_thinking", "data": "x"})
    assert messages(HI, Message.assistant(silent, "a"), Message.user("b"))[1] == {"role": "assistant", "content": "a"}


def test_the_reasoning_field_on_every_tool_turn_where_the_backend_needs_it() -> None:
    sent = messages(HI, Message.assistant(call()), Message.user(result()), reasoning_always=True)
    assert sent[1] == {"role": "assistant", "content": None, "reasoning_content": "", "tool_calls": [WIRE_CALL]}
    plain = messages(HI, Message.assistant("a"), Message.user("b"), reasoning_always=True)[1]
    assert plain == {"role": "assistant", "content": "a"}


def test_an_answer_of_reasoning_alone_keeps_its_place() -> None:
    thought = Message.assistant(ReasoningBlock("hm", SOURCE, {"reasoning_content": "hm"}))
    kept = {"role": "assistant", "content": "(no content)", "reasoning_content": "hm"}
    assert messages(HI, thought, Message.user("go on"))[1] == kept


def test_no_message_at_all_sends_an_empty_one() -> None:
    assert json.loads(adapter().build(AdapterCallRequest(())))["messages"] == [{"role": "user", "content": ""}]


def test_lone_surrogates_are_escaped() -> None:
    assert b'"content":"\\ud800"' in adapter().build(AdapterCallRequest((Message.user("\ud800"),)))


# ------------------------------------------------------------------------------------------------- byte-stable prefixes

THOUGHT = ReasoningBlock("hm", SOURCE, {"reasoning_content": "hm"})
BATCHES = (
    [Message.user("hi")],
    [Message.assistant(THOUGHT, call("c1", arguments='{ "pattern": "\\u00e9" }')), Message.user(result())],
    [Message.assistant(call("c1"), call("")), Message.user(result(), result("2", ""), TextBlock("a hint"))],
    [Message.assistant(THOUGHT), Message.user("go on")],
    [Message.assistant("done"), Message.user("again")],
)


def test_each_request_starts_with_the_bytes_of_the_one_before() -> None:
    arrays, made = grown(*BATCHES)
    for before, after in pairwise(arrays):
        assert after.startswith(before + b",")
    whole = [message for batch in BATCHES for message in batch]
    from_scratch = adapter().build(AdapterCallRequest(tuple(whole), system="s", tools=TOOLS))
    assert made.build(AdapterCallRequest(History(whole), system="s", tools=TOOLS)) == from_scratch


def test_two_histories_side_by_side_do_not_mix() -> None:
    made = adapter()
    one, two = History([Message.user("one")]), History([Message.user("two")])
    for _ in range(2):
        assert body(made, AdapterCallRequest(one))["messages"] == [{"role": "user", "content": "one"}]
        assert body(made, AdapterCallRequest(two))["messages"] == [{"role": "user", "content": "two"}]
