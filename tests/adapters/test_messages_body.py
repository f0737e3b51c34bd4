"""The Messages wire: the keys of a request around its history."""

from __future__ import annotations

import json
from typing import Any

import pytest
from messages_kit import GREP, HELLO, MODEL, READ, Bench

from geode.adapters.options import CacheOptions, ThinkingOptions
from geode.contract import (
    AdapterCallRequest,
    AdapterError,
    Capabilities,
    ErrorKind,
    Message,
    Notice,
    ToolChoice,
    ToolResultBlock,
    ToolSpec,
)

EPHEMERAL = {"type": "ephemeral"}
BUDGET = ThinkingOptions("enabled", budget_tokens=2048)
ADAPTIVE = ThinkingOptions("adaptive", effort="high")
NAMED = ToolChoice("tool", "grep_files")


def test_the_smallest_request() -> None:
    assert Bench().adapter.build(AdapterCallRequest(HELLO)) == (
        b'{"model":"claude-sonnet-4-5","max_tokens":4096,'
        b'"messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}]}'
    )


def test_the_keys_stand_in_one_order() -> None:
    bench = Bench(
        thinking=ADAPTIVE, stop=("END",), stream=True, cache=CacheOptions(), extra_body={"service_tier": "auto"}
    )
    body = bench.body(system="be brief", tools=(GREP,), response_schema={"type": "object", "properties": {}})
    assert list(body) == [
        "model",
        "max_tokens",
        "system",
        "tools",
        "messages",
        "tool_choice",
        "thinking",
        "output_config",
        "stop_sequences",
        "cache_control",
        "stream",
        "service_tier",
    ]


def test_only_name_description_and_schema_of_a_tool_travel() -> None:
    assert Bench().body(tools=(GREP,))["tools"] == [
        {
            "name": "grep_files",
            "description": "Searches files.",
            "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
        }
    ]


def test_an_empty_schema_is_completed() -> None:
    assert Bench().body(tools=(ToolSpec("t", "", {}),))["tools"][0]["input_schema"] == {
        "type": "object",
        "properties": {},
    }


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice(), {"type": "auto"}),
        (ToolChoice("none"), {"type": "none"}),
        (ToolChoice("required"), {"type": "any"}),
        (NAMED, {"type": "tool", "name": "grep_files"}),
    ],
)
def test_the_tool_choice_and_no_toggle_for_parallel_calls(choice: ToolChoice, sent: dict[str, Any]) -> None:
    body = Bench().body(tools=(GREP, READ), tool_choice=choice)
    assert body["tool_choice"] == sent
    assert [t["name"] for t in body["tools"]] == ["grep_files", "read_document"]
    assert "disable_parallel_tool_use" not in json.dumps(body)


def test_without_tools_there_is_no_tool_choice() -> None:
    body = Bench().body(tool_choice=ToolChoice("none"))
    assert "tools" not in body
    assert "tool_choice" not in body


def test_a_named_choice_of_a_tool_that_is_not_sent_is_an_error() -> None:
    with pytest.raises(AdapterError) as caught:
        Bench().body(tools=(READ,), tool_choice=NAMED)
    assert caught.value.kind is ErrorKind.INVALID_REQUEST


# ------------------------------------------------------------------------------------------------------------ caching


def test_breakpoints_on_the_last_tool_and_the_system_prompt_and_a_moving_end() -> None:
    body = Bench(cache=CacheOptions()).body(system="be brief", tools=(GREP, READ))
    assert "cache_control" not in body["tools"][0]
    assert body["tools"][1]["cache_control"] == EPHEMERAL
    assert body["system"] == [{"type": "text", "text": "be brief", "cache_control": EPHEMERAL}]
    assert body["cache_control"] == EPHEMERAL
    assert json.dumps(body).count('"cache_control"') == 3


def test_one_hour_breakpoints() -> None:
    body = Bench(cache=CacheOptions(ttl="1h")).body(tools=(GREP,))
    assert body["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert body["tools"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_no_caching_leaves_no_breakpoint() -> None:
    body = Bench().body(system="be brief", tools=(GREP,))
    assert body["system"] == "be brief"
    assert "cache_control" not in json.dumps(body)


# ----------------------------------------------------------------------------------------------------------- thinking


@pytest.mark.parametrize("choice", [ToolChoice("required"), NAMED])
def test_budgeted_thinking_is_off_under_a_forced_choice_and_only_there(choice: ToolChoice) -> None:
    bench = Bench(thinking=BUDGET)
    assert "thinking" not in bench.body(tools=(GREP,), tool_choice=choice)
    assert "thinking" not in bench.body(tools=(GREP,), tool_choice=choice)
    assert bench.body(tools=(GREP,))["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert bench.notices == [
        Notice(
            "thinking.forced_choice",
            "thinking is off in calls with a forced tool choice: the API refuses both together",
            "adapter.thinking.type=adaptive",
        )
    ]


def test_adaptive_thinking_goes_with_a_forced_choice() -> None:
    body = Bench(thinking=ADAPTIVE).body(tools=(GREP,), tool_choice=NAMED)
    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"] == {"effort": "high"}
    assert body["tool_choice"] == {"type": "tool", "name": "grep_files"}


def test_the_budget_stays_below_the_output_limit() -> None:
    bench = Bench(thinking=ThinkingOptions("enabled", budget_tokens=10_000))
    assert bench.body()["thinking"] == {"type": "enabled", "budget_tokens": 4095}
    assert "thinking" not in bench.body(max_tokens=1024)
    assert [n.key for n in bench.notices] == ["thinking.max_tokens"]


def test_thinking_is_off_in_a_wrap_up_call() -> None:
    assert "thinking" not in Bench(thinking=BUDGET).body(thinking=False)
    body = Bench(thinking=ADAPTIVE).body(thinking=False)
    assert "thinking" not in body
    assert body["output_config"] == {"effort": "low"}


def test_disabled_thinking_is_said() -> None:
    assert Bench(thinking=ThinkingOptions("disabled")).body()["thinking"] == {"type": "disabled"}


def test_how_thinking_is_shown() -> None:
    body = Bench(thinking=ThinkingOptions("adaptive", summary="summarized")).body()
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}


# ----------------------------------------------------------------------------------------------------------- sampling


def test_no_sampling_keys_unless_they_are_configured() -> None:
    assert not {"temperature", "top_p", "top_k", "stop_sequences"} & set(Bench().body())
    body = Bench(temperature=0.0, top_p=0.5, stop=("END",)).body()
    assert (body["temperature"], body["top_p"], body["stop_sequences"]) == (0.0, 0.5, ["END"])


def test_adaptive_models_take_no_sampling_keys() -> None:
    bench = Bench(thinking=ADAPTIVE, temperature=0.0, top_p=0.5)
    body = bench.body()
    assert not {"temperature", "top_p", "budget_tokens"} & set(body)
    assert [n.key for n in bench.notices] == ["sampling.temperature", "sampling.top_p"]


def test_a_call_that_thinks_takes_no_temperature() -> None:
    bench = Bench(thinking=BUDGET, temperature=0.0, top_p=0.95)
    body = bench.body()
    assert "temperature" not in body
    assert body["top_p"] == 0.95


def test_a_seed_is_dropped_with_a_notice() -> None:
    bench = Bench(seed=7)
    assert "seed" not in bench.body()
    assert [n.key for n in bench.notices] == ["sampling.seed"]


def test_max_tokens_is_always_there_and_within_the_cap() -> None:
    bench = Bench(max_tokens=64_000, capabilities=Capabilities(max_output_tokens=8192))
    assert bench.body()["max_tokens"] == 8192
    assert bench.body(max_tokens=100)["max_tokens"] == 100


@pytest.mark.parametrize(("max_tokens", "streamed"), [(21_333, False), (21_334, True)])
def test_long_calls_are_streamed(max_tokens: int, streamed: bool) -> None:
    assert ("stream" in Bench().body(max_tokens=max_tokens)) is streamed


def test_streaming_is_asked_for_by_a_listener_or_the_options_where_the_backend_can() -> None:
    assert Bench().body(on_delta=lambda d: None)["stream"] is True
    assert Bench(stream=True).body()["stream"] is True
    assert "stream" not in Bench(stream=True, capabilities=Capabilities(streaming=False)).body()


# ---------------------------------------------------------------------------------------------------- response schema

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}},
    "required": ["a"],
}


def test_a_response_schema_has_every_object_closed() -> None:
    output = Bench(thinking=ADAPTIVE).body(response_schema=SCHEMA)["output_config"]
    assert output == {
        "effort": "high",
        "format": {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "properties": {
                    "a": {
                        "type": "object",
                        "properties": {"b": {"type": "string"}},
                        "additionalProperties": False,
                    }
                },
                "required": ["a"],
                "additionalProperties": False,
            },
        },
    }


@pytest.mark.parametrize(
    "options", [{"structured": "prompt"}, {"capabilities": Capabilities(json_schema=False)}], ids=["config", "backend"]
)
def test_a_response_schema_in_words_where_the_backend_cannot_enforce_it(options: dict[str, Any]) -> None:
    body = Bench(**options).body(system="be brief", response_schema=SCHEMA)
    assert "output_config" not in body
    assert body["system"] == (
        "be brief\n\nGive your final answer as one JSON value that matches this JSON Schema, and nothing else:\n"
        + json.dumps(SCHEMA)
    )


def test_a_response_schema_that_cannot_be_sent_goes_in_words_with_a_notice() -> None:
    schema = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}}}
    bench = Bench()
    body = bench.body(response_schema=schema)
    assert "output_config" not in body
    assert json.dumps(schema) in body["system"]
    assert [(n.key, n.override) for n in bench.notices] == [("response.schema", "adapter.structured=prompt")]


# ----------------------------------------------------------------------------------- deferred loading, subsets, limits


def test_deferred_tools_follow_the_search_tool_and_take_no_breakpoint() -> None:
    bench = Bench(cache=CacheOptions(), capabilities=Capabilities(tool_search=True))
    tools = bench.body(tools=(GREP, READ), deferred=frozenset({"grep_files"}))["tools"]
    assert [t["name"] for t in tools] == ["read_document", "tool_search_tool_bm25", "grep_files"]
    assert tools[1] == {
        "type": "tool_search_tool_bm25_20251119",
        "name": "tool_search_tool_bm25",
        "cache_control": EPHEMERAL,
    }
    assert tools[2]["defer_loading"] is True
    assert "cache_control" not in tools[2]
    assert "defer_loading" not in tools[0]


def test_no_deferred_loading_under_a_named_choice_or_without_tool_search() -> None:
    deferred = frozenset({"grep_files"})
    able = Bench(capabilities=Capabilities(tool_search=True))
    for body in (
        able.body(tools=(GREP, READ), deferred=deferred, tool_choice=NAMED),
        Bench().body(tools=(GREP, READ), deferred=deferred),
    ):
        assert [t["name"] for t in body["tools"]] == ["grep_files", "read_document"]
        assert "defer_loading" not in json.dumps(body)


def test_a_subset_narrows_the_tools() -> None:
    body = Bench().body(tools=(GREP, READ), allowed=frozenset({"read_document"}))
    assert [t["name"] for t in body["tools"]] == ["read_document"]


def test_the_limit_on_tools_counts_the_search_tool() -> None:
    bench = Bench(capabilities=Capabilities(tool_search=True, max_tools=2))
    tools = bench.body(tools=(GREP, READ), deferred=frozenset({"read_document"}))["tools"]
    assert [t["name"] for t in tools] == ["grep_files"]
    assert [n.key for n in bench.notices] == ["tools.unsendable.read_document"]


def test_a_tool_that_cannot_be_sent_leaves_the_others_alone() -> None:
    bad = ToolSpec("bad", "", {"not": {}})
    bench = Bench()
    assert [t["name"] for t in bench.body(tools=(bad, GREP))["tools"]] == ["grep_files"]
    (notice,) = bench.notices
    assert notice.key == "tools.unsendable.bad"
    assert notice.message.startswith("tool bad: its schema cannot be sent: ")
    assert notice.override == "tools.unsendable=error"
    with pytest.raises(AdapterError, match="tool bad: its schema cannot be sent"):
        Bench(unsendable="error").body(tools=(bad, GREP))


def test_property_names_that_the_api_refuses_go_by_aliases_and_come_back() -> None:
    tool = ToolSpec("find", "", {"type": "object", "properties": {"filter[name]": {"type": "string"}}})
    bench = Bench()
    (alias,) = bench.body(tools=(tool,))["tools"][0]["input_schema"]["properties"]
    assert alias != "filter[name]"
    result = bench.adapter.parse(
        {"content": [{"type": "tool_use", "id": "1", "name": "find", "input": {alias: "x"}}], "stop_reason": "tool_use"}
    )
    assert result.tool_uses[0].input == {"filter[name]": "x"}
    history = (*HELLO, Message.assistant(*result.content), Message.user(ToolResultBlock("1", "ok")))
    assert bench.messages(*history, tools=(tool,))[1]["content"][0]["input"] == {alias: "x"}


def test_strict_tools_only_where_the_schema_qualifies() -> None:
    closed = ToolSpec("closed", "", {"type": "object", "properties": {}, "additionalProperties": False})
    tools = Bench(strict=True).body(tools=(closed, GREP))["tools"]
    assert tools[0]["strict"] is True
    assert "strict" not in tools[1]


# --------------------------------------------------------------------------------------- choices that are not supported

AUTO_ONLY = Capabilities(tool_choices=frozenset({"auto", "none"}))


def test_an_unsupported_choice_is_sent_with_one_warning() -> None:
    bench = Bench(capabilities=AUTO_ONLY)
    for _ in range(2):
        assert bench.body(tools=(GREP, READ), tool_choice=NAMED)["tool_choice"]["type"] == "tool"
    assert [(n.key, n.override) for n in bench.notices] == [
        ("tool_choice.unsupported.tool", "tool_choice.on_unsupported=degrade")
    ]


def test_an_unsupported_choice_degrades_to_auto_with_the_tools_narrowed() -> None:
    bench = Bench(capabilities=AUTO_ONLY, on_unsupported="degrade", thinking=BUDGET)
    body = bench.body(tools=(GREP, READ), tool_choice=NAMED)
    assert body["tool_choice"] == {"type": "auto"}
    assert [t["name"] for t in body["tools"]] == ["grep_files"]
    assert body["thinking"]["type"] == "enabled"


def test_an_unsupported_choice_is_an_error_where_the_config_says_so() -> None:
    with pytest.raises(AdapterError, match="'required' is not taken by the backend of anthropic-payg") as caught:
        Bench(capabilities=AUTO_ONLY, on_unsupported="error").body(tools=(GREP,), tool_choice=ToolChoice("required"))
    assert caught.value.kind is ErrorKind.TOOL_CHOICE


def test_extra_keys_of_the_config_win() -> None:
    body = Bench(extra_body={"metadata": {"user_id": "u"}, "max_tokens": 7}).body()
    assert body["metadata"] == {"user_id": "u"}
    assert body["max_tokens"] == 7
    assert body["model"] == MODEL


def test_a_call_without_thinking_sends_what_the_model_takes_for_it() -> None:
    """Claude Sonnet 5.5 thinks by default and refuses `disabled`: between_tools is its least."""
    thinking = ThinkingOptions(type="adaptive", effort="max", when_off="between_tools")
    bench = Bench(thinking=thinking)
    body = bench.body(thinking=False)
    assert body["thinking"] == {"type": "between_tools"}
    assert body["output_config"] == {"effort": "high"}
    assert bench.body()["thinking"] == {"type": "adaptive"}
