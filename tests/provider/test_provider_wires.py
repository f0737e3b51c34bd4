"""The three wires through the real SDKs: answers whole and streamed, and what a script sees of a request."""

from __future__ import annotations

import pytest
from provider_kit import (
    BODIES,
    CHAT_TOOL,
    MESSAGES,
    MESSAGES_TOOL,
    PATHS,
    RESPONSES,
    RESPONSES_TOOL,
    anthropic_client,
    http_client,
    openai_client,
    post,
    provider,
)

FULL = {
    "reasoning": "Let me think about it.",
    "text": "Hello there, a text that is long enough for some pieces.",
    "tool_calls": [
        {"name": "grep", "input": {"pattern": "a b c", "n": 3}},
        {"name": "grep", "input": {}, "id": "mine"},
    ],
    "usage": {"input": 10, "output": 5, "cache_read": 3, "cache_write": 4, "cache_write_1h": 1, "reasoning": 2},
    "repeat": 2,
}
HI = [{"role": "user", "content": "hi"}]


# -------------------------------------------------------------------------------------------------------- Messages


async def test_messages_whole_and_streamed():
    async with provider(FULL) as p, anthropic_client(p) as client:
        whole = await client.messages.create(model="m", max_tokens=10, messages=HI, tools=[MESSAGES_TOOL])
        async with client.messages.stream(model="m", max_tokens=10, messages=HI, tools=[MESSAGES_TOOL]) as stream:
            names = [event.type async for event in stream]
            streamed = await stream.get_final_message()
        p.assert_clean()
    thinking, text, first, second = whole.content
    assert (thinking.type, thinking.thinking) == ("thinking", "Let me think about it.")
    assert text.text == FULL["text"]
    assert (first.id, first.name, first.input) == ("toolu_0001_0", "grep", {"pattern": "a b c", "n": 3})
    assert (second.id, second.input) == ("mine", {})
    assert whole.stop_reason == "tool_use"
    usage = whole.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (10, 3, 4)
    assert usage.cache_creation.to_dict() == {"ephemeral_1h_input_tokens": 1, "ephemeral_5m_input_tokens": 3}
    assert (usage.output_tokens, usage.output_tokens_details.thinking_tokens) == (5, 2)
    assert streamed.to_dict() == whole.to_dict() | {"id": "msg_loopback_000002"}
    assert {"thinking", "signature", "text", "input_json"} <= set(names)
    assert whole._request_id == "req_loopback_000001"


async def test_messages_takes_its_own_reasoning_back():
    turns = [
        {"reasoning": ["why", {"text": "secret", "redacted": True}], "tool_calls": ["grep"]},
        {"text": "{{ result('grep').text }}", "expect": {"thinking": True}},
    ]
    async with provider(*turns) as p, anthropic_client(p) as client:
        common = {"model": "m", "max_tokens": 10, "tools": [MESSAGES_TOOL], "thinking": {"type": "adaptive"}}
        first = await client.messages.create(messages=HI, **common)
        assert [b.type for b in first.content] == ["thinking", "redacted_thinking", "tool_use"]
        result = {"type": "tool_result", "tool_use_id": first.content[-1].id, "content": "found"}
        history = [*HI, first.to_param(), {"role": "user", "content": [result]}]
        second = await client.messages.create(messages=history, **common)
        p.assert_clean()
    assert second.content[0].text == "found"


@pytest.mark.parametrize(
    ("turn", "stop"),
    [
        ({"text": "a", "stop": "pause_turn"}, "pause_turn"),
        ({"text": "a", "stop": "max_tokens"}, "max_tokens"),
        ({"text": "a", "stop": "context_window_exceeded"}, "model_context_window_exceeded"),
        ({"text": "a", "stop_sequence": "END"}, "stop_sequence"),
        ({"stop": "content_filter"}, "refusal"),
    ],
)
async def test_messages_stop_reasons(turn, stop):
    async with provider(turn) as p, anthropic_client(p) as client:
        answer = await client.messages.create(model="m", max_tokens=10, messages=HI)
    assert (answer.stop_reason, answer.stop_sequence) == (stop, turn.get("stop_sequence"))


@pytest.mark.parametrize("stream", [False, True])
async def test_messages_refusal(stream):
    async with provider({"refusal": "cyber"}) as p, anthropic_client(p) as client:
        if stream:
            async with client.messages.stream(model="m", max_tokens=10, messages=HI) as events:
                answer = await events.get_final_message()
        else:
            answer = await client.messages.create(model="m", max_tokens=10, messages=HI)
    assert (answer.stop_reason, answer.content) == ("refusal", [])
    assert answer.stop_details.category == "cyber"


async def test_malformed_arguments_reach_a_messages_stream():
    turn = {"tool_calls": [{"name": "grep", "arguments": '{"a": '}], "repeat": 2}
    async with provider(turn) as p, anthropic_client(p) as client:
        stream = await client.messages.create(model="m", max_tokens=10, messages=HI, tools=[MESSAGES_TOOL], stream=True)
        deltas = [e.delta.partial_json async for e in stream if e.type == "content_block_delta"]
        whole = await client.messages.create(model="m", max_tokens=10, messages=HI, tools=[MESSAGES_TOOL])
    assert "".join(deltas) == '{"a": ' == whole.content[0].input


# ------------------------------------------------------------------------------------------------------- Responses


async def test_responses_whole_and_streamed():
    common = {"model": "m", "input": "hi", "store": False, "include": ["reasoning.encrypted_content"]}
    async with provider(FULL) as p, openai_client(p) as client:
        whole = await client.responses.create(tools=[RESPONSES_TOOL], **common)
        async with client.responses.stream(tools=[RESPONSES_TOOL], **common) as stream:
            events = [event async for event in stream]
            streamed = await stream.get_final_response()
        p.assert_clean()
    assert [item.type for item in whole.output] == ["reasoning", "message", "function_call", "function_call"]
    assert whole.output[0].summary[0].text == "Let me think about it."
    assert whole.output[0].encrypted_content.startswith("gAAA")
    assert whole.output_text == FULL["text"]
    assert (whole.output[2].call_id, whole.output[2].arguments) == ("call_0001_0", '{"pattern":"a b c","n":3}')
    assert whole.output[3].call_id == "mine"
    assert (whole.usage.input_tokens, whole.usage.input_tokens_details.cached_tokens) == (17, 3)
    assert (whole.usage.output_tokens, whole.usage.output_tokens_details.reasoning_tokens) == (5, 2)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [(events[i].type) for i in (0, 1, -1)] == [
        "response.created",
        "response.in_progress",
        "response.completed",
    ]
    assert "response.reasoning_summary_text.delta" in {event.type for event in events}
    assert streamed.output_text == whole.output_text
    assert streamed.output[0].encrypted_content == whole.output[0].encrypted_content
    assert streamed.output[0].summary == whole.output[0].summary
    assert [c.arguments for c in streamed.output[2:]] == [c.arguments for c in whole.output[2:]]


@pytest.mark.parametrize("path", [None, "/backend-api/codex"])
async def test_responses_takes_its_own_items_back(path):
    turns = [
        {"reasoning": "why", "tool_calls": ["grep"]},
        {"text": "{{ result('grep').json.n + 1 }}", "expect": {"results": 1, "tool_choice": "none"}},
    ]
    headers = {"ChatGPT-Account-ID": "acc"}
    async with provider(*turns) as p, openai_client(p, path, default_headers=headers) as client:
        common = {
            "model": "m",
            "instructions": "s",
            "tools": [RESPONSES_TOOL],
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        start = [{"role": "user", "content": "hi"}]
        async with client.responses.stream(input=start, **common) as stream:
            first = await stream.get_final_response()
        items = [item.to_dict() for item in first.output]
        for item in items:
            for key in ("id", "status", "parsed_arguments"):
                item.pop(key, None)
        output = {"type": "function_call_output", "call_id": first.output[1].call_id, "output": '{"n": 1}'}
        async with client.responses.stream(input=[*start, *items, output], tool_choice="none", **common) as stream:
            second = await stream.get_final_response()
        p.assert_clean()
    assert second.output_text == "2"


@pytest.mark.parametrize(
    ("turn", "status", "reason"),
    [
        ({"text": "a", "stop": "max_tokens"}, "incomplete", "max_output_tokens"),
        ({"text": "a", "stop": "content_filter"}, "incomplete", "content_filter"),
        ({"text": "a"}, "completed", None),
    ],
)
async def test_responses_incomplete(turn, status, reason):
    async with provider(turn | {"repeat": 2}) as p, openai_client(p) as client:
        whole = await client.responses.create(model="m", input="hi")
        stream = await client.responses.create(model="m", input="hi", stream=True)
        last = [event async for event in stream][-1]
    assert (whole.status, whole.incomplete_details and whole.incomplete_details.reason) == (status, reason)
    assert (last.type, last.response.status) == (f"response.{status}", status)


async def test_responses_refusal_and_phase():
    turns = [{"refusal": "cyber", "text": "Well."}, {"text": "a", "phase": "commentary"}]
    async with provider(*turns) as p, openai_client(p) as client:
        first = await client.responses.create(model="m", input="hi")
        second = await client.responses.create(model="m", input="hi")
    assert [part.to_dict() for part in first.output[0].content] == [
        {"type": "output_text", "text": "Well.", "annotations": [], "logprobs": []},
        {"type": "refusal", "refusal": "This request was refused."},
    ]
    assert second.output[0].phase == "commentary"


# ------------------------------------------------------------------------------------------------------------ Chat


@pytest.mark.parametrize("path", [None, "/api/paas/v4"])
async def test_chat_whole_and_streamed(path):
    async with provider(FULL) as p, openai_client(p, path) as client:
        whole = await client.chat.completions.create(model="m", messages=HI, tools=[CHAT_TOOL])
        async with client.chat.completions.stream(
            model="m", messages=HI, tools=[CHAT_TOOL], stream_options={"include_usage": True}
        ) as stream:
            streamed = await stream.get_final_completion()
        p.assert_clean()
        assert {r.path for r in p.requests} == {(path or "/v1") + "/chat/completions"}
    choice = whole.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", FULL["text"])
    assert choice.message.reasoning_content == "Let me think about it."
    calls = [(c.id, c.function.name, c.function.arguments) for c in choice.message.tool_calls]
    assert calls == [("call_0001_0", "grep", '{"pattern":"a b c","n":3}'), ("mine", "grep", "{}")]
    assert (whole.usage.prompt_tokens, whole.usage.prompt_tokens_details.cached_tokens) == (17, 3)
    message = streamed.choices[0].message
    assert message.content == FULL["text"]
    assert message.reasoning_content == "Let me think about it."
    assert [(c.id, c.function.arguments) for c in message.tool_calls] == [(i, a) for i, _, a in calls]
    assert streamed.usage == whole.usage


@pytest.mark.parametrize(
    ("turn", "finish", "content", "refusal"),
    [
        ({"text": "a", "stop": "max_tokens"}, "length", "a", None),
        ({"stop": "content_filter"}, "content_filter", "", None),
        ({"refusal": "cyber"}, "stop", None, "This request was refused."),
        ({"text": "a"}, "stop", "a", None),
    ],
)
async def test_chat_endings(turn, finish, content, refusal):
    async with provider(turn) as p, openai_client(p) as client:
        choice = (await client.chat.completions.create(model="m", messages=HI)).choices[0]
    assert (choice.finish_reason, choice.message.content, choice.message.refusal) == (finish, content, refusal)


async def test_a_chat_stream_ends_with_done_and_counts_only_when_asked():
    async with provider({"text": "a", "repeat": 2}) as p:
        plain = await post(p, PATHS["chat"], {"model": "m", "messages": HI, "stream": True})
        counted = await post(
            p,
            PATHS["chat"],
            {"model": "m", "messages": HI, "stream": True, "stream_options": {"include_usage": True}},
        )
    assert plain.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert plain.text.endswith("data: [DONE]\n\n")
    assert '"usage"' not in plain.text
    assert '"choices":[],"usage":{"prompt_tokens":' in counted.text


# ------------------------------------------------------------------------------------------- what a script can see


@pytest.mark.parametrize("wire", ["messages", "responses", "chat"])
async def test_a_request_is_seen_the_same_on_each_wire(wire):
    text = (
        "{{ system }}|{{ first_user }}|{{ tools|join }}|{{ tool_choice }}"
        "|{% for r in results %}{{ r.id }} {{ r.name }} {{ r.is_error }},{% endfor %}"
    )
    async with provider({"text": text}) as p:
        answer = (await post(p, PATHS[wire], BODIES[wire])).json()
        p.assert_clean()
    got = {
        "messages": lambda: answer["content"][0]["text"],
        "responses": lambda: answer["output"][0]["content"][0]["text"],
        "chat": lambda: answer["choices"][0]["message"]["content"],
    }[wire]()
    assert got == "Be brief.|hi|grep|auto|a1 grep False,a2 grep True,"


async def test_script_errors_are_plain_refusals():
    async with provider({"text": "a", "expect": {"tool_choice": "none"}}) as p:
        first = await post(p, PATHS["messages"], MESSAGES)
        second = await post(p, PATHS["responses"], RESPONSES)
        assert p.problems == [
            "POST /v1/messages: script script: turns[0] expects tool_choice none, got 'auto'",
            "POST /v1/responses: script script: turns is over: it holds 1 turns, and request 2 wants one more",
        ]
        with pytest.raises(AssertionError, match="the provider found problems:\nPOST /v1/messages: script"):
            p.assert_clean()
    assert (first.status_code, second.status_code) == (400, 400)
    assert first.json()["error"]["message"] == "script script: turns[0] expects tool_choice none, got 'auto'"


async def test_side_endpoints():
    async with provider() as p, anthropic_client(p) as client, openai_client(p) as other:
        assert (await client.messages.count_tokens(model="m", messages=HI)).input_tokens > 0
        assert [m.id async for m in client.models.list()] == ["scripted"]
        assert [m.id async for m in other.models.list()] == ["scripted"]
        assert (await other.models.retrieve("m")).id == "m"
        async with http_client() as http:
            assert (await http.head(p.origin)).status_code == 200
            assert (await http.get(p.origin + "/v1/messages")).status_code == 405
            missing = await http.post(p.origin + "/v1/embeddings", json={})
        assert (missing.status_code, missing.json()["error"]["message"]) == (
            404,
            "no such endpoint: POST /v1/embeddings",
        )


async def test_requests_are_recorded():
    async with provider(keep=2) as p:
        for _ in range(3):
            await post(p, PATHS["chat"], BODIES["chat"])
        assert len(p.requests) == 2
        request = p.requests[-1]
        assert (request.method, request.path, request.wire, request.status) == (
            "POST",
            "/v1/chat/completions",
            "chat",
            200,
        )
        assert request.json == BODIES["chat"]
        assert request.headers["authorization"] == "Bearer k"
        assert request.problems == []
