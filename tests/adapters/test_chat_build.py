"""The body of a Chat Completions request, apart from its messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_kit import GREP, MODEL, READ, TOOLS, adapter, answer, body, request, result, wire_call

from geode.adapters.options import ThinkingOptions
from geode.contract import (
    AdapterError,
    Capabilities,
    Delta,
    ErrorKind,
    Message,
    Notice,
    ToolChoice,
    ToolSpec,
    ToolUseBlock,
)

USER = {"role": "user", "content": "hi"}


def names(sent: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in sent["tools"]]


def test_the_whole_body() -> None:
    made = adapter(thinking=ThinkingOptions("enabled", clear=False))
    assert made.build(request(system="Be short.", tools=(GREP,))) == (
        b'{"model":"glm-5.3","messages":[{"role":"system","content":"Be short."},{"role":"user","content":"hi"}],'
        b'"tools":[{"type":"function","function":{"name":"grep_files","description":"Search files","parameters":'
        b'{"type":"object","properties":{"pattern":{"type":"string"}},"required":["pattern"]}}}],'
        b'"tool_choice":"auto","max_tokens":1000,"thinking":{"type":"enabled","clear_thinking":false}}'
    )


def test_without_tools_no_tool_key_is_sent() -> None:
    sent = body(adapter(), request(tool_choice=ToolChoice("required")))
    assert list(sent) == ["model", "messages", "max_tokens"]


@pytest.mark.parametrize(
    ("choice", "value"),
    [
        (ToolChoice("auto"), "auto"),
        (ToolChoice("none"), "none"),
        (ToolChoice("required"), "required"),
        (ToolChoice("tool", "grep_files"), {"type": "function", "function": {"name": "grep_files"}}),
    ],
)
def test_tool_choice_on_the_wire(choice: ToolChoice, value: Any) -> None:
    sent = body(adapter(), request(tools=TOOLS, tool_choice=choice))
    assert sent["tool_choice"] == value
    assert names(sent) == ["grep_files", "read_document"]
    assert "parallel_tool_calls" not in sent


def test_a_backend_that_takes_only_auto_is_sent_the_choice_with_one_notice() -> None:
    notices: list[Notice] = []
    made = adapter(notices, capabilities=Capabilities(tool_choices=frozenset({"auto"})))
    for _ in range(2):
        assert body(made, request(tools=TOOLS, tool_choice=ToolChoice("required")))["tool_choice"] == "required"
    assert [n.key for n in notices] == ["tool_choice.unsupported.required"]


def test_degrade_makes_it_auto_with_the_named_tool_alone() -> None:
    only_auto = Capabilities(tool_choices=frozenset({"auto"}))
    made = adapter(on_unsupported="degrade", capabilities=only_auto)
    sent = body(made, request(tools=TOOLS, tool_choice=ToolChoice("tool", "read_document")))
    assert (sent["tool_choice"], names(sent)) == ("auto", ["read_document"])
    without = body(made, request(tools=TOOLS, tool_choice=ToolChoice("none")))
    assert not {"tools", "tool_choice"} & without.keys()
    refusing = adapter(on_unsupported="error", capabilities=only_auto)
    with pytest.raises(AdapterError):
        refusing.build(request(tools=TOOLS, tool_choice=ToolChoice("none")))


def test_a_subset_of_tools_narrows_the_array() -> None:
    assert names(body(adapter(), request(tools=TOOLS, allowed=frozenset({"read_document"})))) == ["read_document"]
    assert not {"tools", "tool_choice"} & body(adapter(), request(tools=TOOLS, allowed=frozenset())).keys()


def test_a_tool_that_cannot_be_sent_is_dropped_and_named() -> None:
    bad = ToolSpec("bad", "d", {"type": "object", "allOf": [{"type": "string"}]})
    notices: list[Notice] = []
    assert names(body(adapter(notices), request(tools=(bad, READ)))) == ["read_document"]
    assert [(n.key, n.override) for n in notices] == [("tools.unsendable.bad", "tools.unsendable=error")]
    with pytest.raises(AdapterError) as caught:
        adapter(unsendable="error").build(request(tools=(bad, READ)))
    assert caught.value.kind is ErrorKind.INVALID_REQUEST
    assert caught.value.message.startswith("tool bad: its schema cannot be sent: ")
    with pytest.raises(AdapterError, match="tool_choice names bad, which is not among the tools that are sent"):
        adapter().build(request(tools=(bad, READ), tool_choice=ToolChoice("tool", "bad")))


def test_more_tools_than_the_backend_takes() -> None:
    notices: list[Notice] = []
    assert names(body(adapter(notices, capabilities=Capabilities(max_tools=1)), request(tools=TOOLS))) == ["grep_files"]
    assert notices[0].message == "tool read_document: the backend takes 1 tools at most; it is left out"


def test_illegal_names_go_under_one_alias_everywhere() -> None:
    tools = (ToolSpec("a.b", "d", {}), ToolSpec("a_b", "d", {}), ToolSpec("a/b", "d", {}))
    made = adapter()
    history = (
        Message.user("hi"),
        Message.assistant(ToolUseBlock("c1", "a.b", {}), ToolUseBlock("c2", "no.such tool", {})),
        Message.user(result(), result("no", "c2", is_error=True)),
    )
    sent = body(made, request(*history, tools=tools, tool_choice=ToolChoice("tool", "a.b")))
    wire = names(sent)
    assert wire[1] == "a_b"
    assert len(set(wire)) == 3
    assert sent["tool_choice"] == {"type": "function", "function": {"name": wire[0]}}
    assert [c["function"]["name"] for c in sent["messages"][1]["tool_calls"]] == [wire[0], "no_such_tool"]
    read = made.parse(answer("tool_calls", tool_calls=[wire_call(wire[2], "{}")]))
    assert read.tool_uses[0].name == "a/b"


def test_an_empty_schema_and_strict() -> None:
    closed = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    tools = (ToolSpec("open", "d", {}), ToolSpec("closed", "d", closed))
    sent = body(adapter(strict=True), request(tools=tools))
    assert [t["function"] for t in sent["tools"]] == [
        {"name": "open", "description": "d", "parameters": {"type": "object", "properties": {}}},
        {"name": "closed", "description": "d", "parameters": closed, "strict": True},
    ]


# ------------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_the_limit_goes_under_one_key(field: str) -> None:
    made = adapter(max_tokens_field=field, capabilities=Capabilities(max_output_tokens=600))
    sent = body(made, request(max_tokens=2000))
    assert {k: v for k, v in sent.items() if k.startswith("max_")} == {field: 600}
    assert body(made, request(max_tokens=64))[field] == 64


def test_no_limit_where_the_backend_refuses_one() -> None:
    assert list(body(adapter(max_tokens_field=None), request())) == ["model", "messages"]


def test_sampling_stop_and_seed() -> None:
    sent = body(adapter(temperature=0.0, top_p=0.5, seed=7, stop=("END",)), request())
    given = {k: sent[k] for k in ("temperature", "top_p", "seed", "stop")}
    assert given == {"temperature": 0.0, "top_p": 0.5, "seed": 7, "stop": ["END"]}


def test_extra_keys_of_the_body_replace_and_add() -> None:
    sent = body(adapter(extra_body={"max_tokens": 5, "tool_stream": True, "stream": True}), request())
    assert sent == {"model": MODEL, "messages": [USER], "max_tokens": 5, "tool_stream": True}


def test_thinking_off_for_one_call() -> None:
    made = adapter(thinking=ThinkingOptions("enabled", clear=False, effort="high"))
    on, off = body(made, request()), body(made, request(thinking=False))
    assert (on["thinking"], on["reasoning_effort"]) == ({"type": "enabled", "clear_thinking": False}, "high")
    assert off["thinking"] == {"type": "disabled", "clear_thinking": False}
    assert "reasoning_effort" not in off


def test_a_model_that_always_thinks_is_never_sent_disabled() -> None:
    made = adapter(thinking=ThinkingOptions("enabled", clear=False, always=True))
    assert body(made, request(thinking=False))["thinking"] == {"type": "enabled", "clear_thinking": False}


def test_a_streamed_request_asks_for_usage() -> None:
    def show(delta: Delta) -> None:
        pass

    for sent in (body(adapter(stream=True), request()), body(adapter(), request(on_delta=show))):
        assert (sent["stream"], sent["stream_options"]) == (True, {"include_usage": True})
    assert "stream" not in body(adapter(capabilities=Capabilities(streaming=False)), request(on_delta=show))


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def test_response_schema_as_json_schema() -> None:
    sent = body(adapter(), request(response_schema=SCHEMA))
    given = {"name": "response", "schema": SCHEMA, "strict": True}
    assert sent["response_format"] == {"type": "json_schema", "json_schema": given}
    assert sent["messages"] == [USER]


@pytest.mark.parametrize(
    ("opts", "format"),
    [
        ({"structured": "json_object"}, {"type": "json_object"}),
        ({"capabilities": Capabilities(json_schema=False)}, {"type": "json_object"}),
        ({"structured": "prompt"}, None),
    ],
)
def test_response_schema_in_the_system_message(opts: dict[str, Any], format: Any) -> None:
    sent = body(adapter(**opts), request(system="Be short.", response_schema=SCHEMA))
    assert sent.get("response_format") == format
    system = sent["messages"][0]
    assert system["role"] == "system"
    assert system["content"] == (
        "Be short.\n\nYour final answer must be one JSON value and nothing else: no prose, no code fence. It must "
        "match this JSON Schema:\n" + json.dumps(SCHEMA, separators=(",", ":"))
    )


def test_a_root_that_is_no_object_is_wrapped_and_unwrapped() -> None:
    made = adapter()
    sent = body(made, request(response_schema={"type": "array", "items": {"type": "integer"}}))
    assert sent["response_format"]["json_schema"]["schema"]["required"] == ["value"]
    assert made.parse(answer(content='{"value": [1, 2]}')).text == "[1, 2]"
