"""The body of a Responses request, apart from its input."""

from __future__ import annotations

import json
from typing import Any

import pytest
from responses_kit import GREP, READ, TOOLS, adapter, body, request

from geode.adapters.options import ThinkingOptions
from geode.contract import AdapterError, Capabilities, ErrorKind, Message, Notice, ToolChoice, ToolSpec

CLOSED = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}


def test_the_whole_body() -> None:
    asked = request(system="Be short.", tools=(GREP,))
    assert adapter(thinking=ThinkingOptions(effort="low", summary="auto")).build(asked) == (
        b'{"model":"gpt-6.1-sol","instructions":"Be short.","input":[{"type":"message","role":"user","content":"hi"}],'
        b'"tools":[{"type":"function","name":"grep_files","description":"Search files","parameters":'
        b'{"type":"object","properties":{"pattern":{"type":"string"}},"required":["pattern"],'
        b'"additionalProperties":false},"strict":false}],"tool_choice":"auto","parallel_tool_calls":true,'
        b'"max_output_tokens":4096,"reasoning":{"effort":"low","summary":"auto"},"store":false,'
        b'"include":["reasoning.encrypted_content"]}'
    )


def test_without_tools_no_tool_key_is_sent() -> None:
    assert list(body(adapter(), request())) == ["model", "input", "max_output_tokens", "store", "include"]
    forced = body(adapter(), request(tool_choice=ToolChoice("required")))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & forced.keys()


def test_include_is_for_reasoning_models_that_are_not_stored() -> None:
    assert "include" not in body(adapter(reasoning_model=False), request())
    stored = body(adapter(store=True), request())
    assert stored["store"] is True
    assert "include" not in stored


# ------------------------------------------------------------------------------------------------------------- options


def test_sampling_and_limits() -> None:
    made = adapter(temperature=0.2, top_p=0.9, capabilities=Capabilities(max_output_tokens=1000))
    sent = body(made, request(max_tokens=2000))
    assert (sent["temperature"], sent["top_p"], sent["max_output_tokens"]) == (0.2, 0.9, 1000)
    assert body(made, request(max_tokens=64))["max_output_tokens"] == 64


def test_stop_and_seed_are_dropped_with_one_notice_each() -> None:
    notices: list[Notice] = []
    made = adapter(notices, stop=("END",), seed=7)
    sent = [body(made, request()) for _ in range(2)]
    assert not {"stop", "seed"} & sent[0].keys()
    assert notices == [
        Notice("adapter.stop", "openai-payg: the Responses API has no stop: it is left out", "adapter.stop=[]"),
        Notice("adapter.seed", "openai-payg: the Responses API has no seed: it is left out", "adapter.seed=null"),
    ]


@pytest.mark.parametrize(
    ("effort", "sent"), [("high", None), ("medium", None), ("low", {"effort": "low"}), ("none", {"effort": "none"})]
)
def test_a_call_without_thinking_leaves_a_high_effort_out(effort: str, sent: Any) -> None:
    made = adapter(thinking=ThinkingOptions(effort=effort, summary="auto"))
    assert body(made, request())["reasoning"] == {"effort": effort, "summary": "auto"}
    assert body(made, request(thinking=False)).get("reasoning") == sent


def test_extra_body_adds_and_replaces_keys_once_each() -> None:
    built = adapter(extra_body={"service_tier": "flex", "max_output_tokens": 5, "input": "no"}).build(request())
    pairs = json.loads(built, object_pairs_hook=list)
    assert [key for key, _ in pairs] == [
        "model",
        "input",
        "max_output_tokens",
        "store",
        "include",
        "service_tier",
    ]
    assert dict(pairs)["max_output_tokens"] == 5
    assert dict(pairs)["input"] != "no"


def test_codex_streams_stores_nothing_always_instructs_and_sends_no_limit() -> None:
    made = adapter(name="codex-oauth", stream=True, instructions_always=True, max_tokens_field=None)
    sent = body(made, request(tools=TOOLS), path="/backend-api/codex/responses")
    assert (sent["stream"], sent["store"], sent["instructions"]) == (True, False, "")
    assert "max_output_tokens" not in sent
    assert isinstance(sent["input"], list)


def test_a_listener_asks_for_streaming_where_the_backend_has_it() -> None:
    listening = request(on_delta=lambda _delta: None)
    assert body(adapter(), listening)["stream"] is True
    assert "stream" not in body(adapter(capabilities=Capabilities(streaming=False)), listening)


# --------------------------------------------------------------------------------------------------------------- tools


def test_a_tool_is_flat_with_strict_written_and_nothing_internal() -> None:
    assert body(adapter(), request(tools=TOOLS))["tools"] == [
        {
            "type": "function",
            "name": "grep_files",
            "description": "Search files",
            "parameters": dict(GREP.input_schema),
            "strict": False,
        },
        {
            "type": "function",
            "name": "read_document",
            "description": "Read a document",
            "parameters": dict(READ.input_schema),
            "strict": False,
        },
    ]


def test_strict_is_true_only_where_configured_and_the_schema_qualifies() -> None:
    assert [t["strict"] for t in body(adapter(strict=True), request(tools=TOOLS))["tools"]] == [True, False]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice("auto"), "auto"),
        (ToolChoice("none"), "none"),
        (ToolChoice("required"), "required"),
        (ToolChoice("tool", "grep_files"), {"type": "function", "name": "grep_files"}),
    ],
)
def test_tool_choice(choice: ToolChoice, sent: Any) -> None:
    found = body(adapter(), request(tools=TOOLS, tool_choice=choice))
    assert found["tool_choice"] == sent
    assert [t["name"] for t in found["tools"]] == ["grep_files", "read_document"]
    assert found["parallel_tool_calls"] is True


def test_a_subset_goes_as_allowed_tools_and_the_list_stays_whole() -> None:
    made = adapter()
    whole = body(made, request(tools=TOOLS))
    asked = request(tools=TOOLS, allowed=frozenset({"read_document"}), tool_choice=ToolChoice("required"))
    subset = body(made, asked)
    assert subset["tools"] == whole["tools"]
    assert subset["tool_choice"] == {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "read_document"}],
    }
    everything = request(tools=TOOLS, allowed=frozenset({"read_document", "grep_files"}))
    assert body(made, everything)["tool_choice"] == "auto"
    assert body(made, request(tools=TOOLS, allowed=frozenset()))["tool_choice"] == "none"


def test_a_choice_that_the_backend_does_not_declare() -> None:
    few = Capabilities(tool_choices=frozenset({"auto"}))
    asked = request(tools=TOOLS, tool_choice=ToolChoice("tool", "grep_files"))
    notices: list[Notice] = []
    assert body(adapter(notices, capabilities=few), asked)["tool_choice"]["name"] == "grep_files"
    assert [n.key for n in notices] == ["tool_choice.unsupported.tool"]
    narrowed = body(adapter(capabilities=few, on_unsupported="degrade"), asked)
    assert narrowed["tool_choice"] == "auto"
    assert [t["name"] for t in narrowed["tools"]] == ["grep_files"]
    with pytest.raises(AdapterError) as caught:
        adapter(capabilities=few, on_unsupported="error").build(asked)
    assert caught.value.kind is ErrorKind.TOOL_CHOICE


def test_deferred_tools_go_with_the_hosted_search() -> None:
    made = adapter(capabilities=Capabilities(tool_search=True))
    asked = request(tools=TOOLS, deferred=frozenset({"read_document"}))
    tools = body(made, asked)["tools"]
    assert [t.get("defer_loading") for t in tools] == [None, True, None]
    assert tools[-1] == {"type": "tool_search"}
    named = request(tools=TOOLS, deferred=frozenset({"read_document"}), tool_choice=ToolChoice("tool", "read_document"))
    assert [(t["name"], t.get("defer_loading")) for t in body(made, named)["tools"]] == [
        ("grep_files", None),
        ("read_document", None),
    ]
    assert body(adapter(), asked)["tools"] == body(adapter(), request(tools=TOOLS))["tools"]


def many(count: int) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(f"t{n}", "", {}) for n in range(count))


def test_the_limit_on_tools_counts_the_search_tool() -> None:
    notices: list[Notice] = []
    made = adapter(notices, capabilities=Capabilities(tool_search=True, max_tools=128))
    assert len(body(made, request(tools=many(128)))["tools"]) == 128
    assert notices == []
    tools = body(made, request(tools=many(128), deferred=frozenset({"t9"})))["tools"]
    assert len(tools) == 128
    assert tools[-1] == {"type": "tool_search"}
    assert notices == [
        Notice(
            "tools.unsendable.t127",
            "tool t127 is not sent: openai-payg takes 128 tools in one request",
            "tools.unsendable=error",
        )
    ]


def test_a_named_tool_is_never_the_one_left_out() -> None:
    made = adapter(capabilities=Capabilities(max_tools=2))
    sent = body(made, request(tools=many(4), tool_choice=ToolChoice("tool", "t3")))
    assert [t["name"] for t in sent["tools"]] == ["t0", "t3"]


def test_an_unsendable_tool_never_takes_the_others_with_it() -> None:
    bad = ToolSpec("bad", "", {"not": {}})
    notices: list[Notice] = []
    sent = body(adapter(notices), request(tools=(bad, GREP), tool_choice=ToolChoice("tool", "bad")))
    assert [t["name"] for t in sent["tools"]] == ["grep_files"]
    assert sent["tool_choice"] == "auto"
    assert [n.key for n in notices] == ["tools.unsendable.bad", "tool_choice.dropped"]
    assert not {"tools", "tool_choice"} & body(adapter(), request(tools=(bad,))).keys()
    with pytest.raises(AdapterError, match="tool bad is not sent") as caught:
        adapter(unsendable="error").build(request(tools=(bad, GREP)))
    assert caught.value.kind is ErrorKind.INVALID_REQUEST


def test_a_root_that_admits_several_forms_is_folded_and_reported() -> None:
    either = ToolSpec(
        "either",
        "",
        {
            "oneOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
            ]
        },
    )
    sent = body(adapter(), request(tools=(either,)))["tools"][0]["parameters"]
    assert sent["type"] == "object"
    assert set(sent["properties"]) == {"a", "b"}


# ----------------------------------------------------------------------------------------------------- response schemas


def test_a_response_schema_is_strict_only_where_it_qualifies() -> None:
    assert body(adapter(), request(response_schema=CLOSED))["text"] == {
        "format": {"type": "json_schema", "name": "response", "schema": CLOSED, "strict": True}
    }
    loose = {"type": "object", "properties": {"answer": {"type": "string"}}}
    assert body(adapter(), request(response_schema=loose))["text"]["format"]["strict"] is False


@pytest.mark.parametrize(("how", "text"), [("json_object", {"format": {"type": "json_object"}}), ("prompt", None)])
def test_without_json_schema_the_model_is_told_in_the_input(how: str, text: Any) -> None:
    sent = body(adapter(structured=how), request(response_schema=CLOSED))
    assert sent.get("text") == text
    first, second = sent["input"]
    assert first["role"] == "developer"
    assert json.dumps(CLOSED, separators=(",", ":")) in first["content"]
    assert second["content"] == "hi"


def test_a_backend_without_json_schema_gets_json_object() -> None:
    made = adapter(capabilities=Capabilities(json_schema=False))
    assert body(made, request(response_schema=CLOSED))["text"] == {"format": {"type": "json_object"}}


def test_what_does_not_change_is_the_same_bytes_in_every_round() -> None:
    made = adapter()
    first = made.build(request(Message.user("a"), system="s", tools=TOOLS))
    second = made.build(request(Message.user("a"), Message.assistant("b"), Message.user("c"), system="s", tools=TOOLS))
    head, tail = first.split(b'{"type":"message","role":"user","content":"a"}')
    assert second.startswith(head)
    assert second.endswith(tail)
