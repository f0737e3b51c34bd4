"""The Messages wire over HTTP: the real SDK against the loopback provider, which checks every request."""

from __future__ import annotations

from typing import Any

import pytest
from messages_kit import GREP, MODEL, READ

from geode.adapters.credentials import Secrets
from geode.adapters.messages import MessagesAdapter
from geode.adapters.options import AdapterOptions, CacheOptions, ThinkingOptions
from geode.contract import (
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    Capabilities,
    ErrorKind,
    History,
    InputFault,
    Message,
    StopReason,
    ToolChoice,
    ToolResultBlock,
    ToolSpec,
    Usage,
)
from geode.provider import LoopbackProvider

DOTTED = ToolSpec(
    "git.log", "Shows the log.", {"anyOf": [{"type": "object", "properties": {"n": {"type": "integer"}}}]}
)
TOOLS = (GREP, READ, DOTTED)
USAGE = {"input": 10, "output": 20, "cache_read": 5, "cache_write": 7, "cache_write_1h": 3, "reasoning": 8}
SCRIPT: dict[str, Any] = {
    "turns": [
        {
            "reasoning": ["I should look.", {"text": "secret", "redacted": True}],
            "text": "Let me look.\n",
            "tool_calls": [{"name": "grep_files", "input": {"q": "é"}}, {"name": "git_log", "input": {"n": 3}}],
            "usage": {
                "input": 10,
                "output": 20,
                "cache_read": 5,
                "cache_write": 7,
                "cache_write_1h": 3,
                "reasoning": 8,
            },
        },
        {"tool_calls": [{"name": "read_document", "arguments": '{"path":  "a", "n": 1e2}', "id": "same"}]},
        {"reasoning": "Enough.", "text": "Done. ", "stop": "end_turn"},
    ]
}


def adapter(provider: LoopbackProvider, **options: Any) -> MessagesAdapter:
    given: dict[str, Any] = {
        "name": "anthropic-payg",
        "wire": "messages",
        "model": MODEL,
        "base_url": provider.base_url("messages"),
        "cache": CacheOptions(),
        "thinking": ThinkingOptions("enabled", budget_tokens=2048),
    }
    return MessagesAdapter(
        AdapterOptions(**{**given, **options}), secrets=Secrets("sk-test-0123456789"), notify=lambda notice: None
    )


async def converse(stream: bool) -> list[AdapterCallResult]:
    async with LoopbackProvider(SCRIPT) as provider:
        wire = adapter(provider, stream=stream)
        history = History([Message.user("find it")])
        results = []
        before = b""
        for number in (1, 2, 3):
            choice = ToolChoice("none" if number == 3 else "auto")
            result = await wire.call(
                AdapterCallRequest(history, system="be brief", tools=TOOLS, tool_choice=choice, round=number)
            )
            body = provider.requests[-1].body
            array = body[body.index(b'"messages":[') : body.index(b'],"tool_choice"')]
            assert array.startswith(before)
            before = array
            results.append(result)
            history.append(Message.assistant(*result.content))
            if result.tool_uses:
                closed = (ToolResultBlock(c.id, f"result of {c.name}", c.name == "git.log") for c in result.tool_uses)
                history.append(Message.user(*closed, f"round {number}"))
        await wire.aclose()
        provider.assert_clean()
    return results


async def test_a_conversation_passes_every_check_of_the_provider() -> None:
    first, second, last = await converse(stream=False)
    assert [c.name for c in first.tool_uses] == ["grep_files", "git.log"]
    assert first.usage == Usage(10, 20, 5, 7, 3, 8)
    assert second.tool_uses[0].input["path"] == "a"
    assert last.text == "Done. "
    assert last.stop_reason is StopReason.END_TURN


async def test_streamed_the_conversation_is_the_same_but_for_the_models_own_spelling() -> None:
    unstreamed, streamed = await converse(stream=False), await converse(stream=True)
    assert streamed[1].tool_uses[0].arguments == '{"path":  "a", "n": 1e2}'
    for one, other in ((unstreamed[0], streamed[0]), (unstreamed[2], streamed[2])):
        assert one.content == other.content
        assert one.stop_reason == other.stop_reason
    assert unstreamed[1].tool_uses[0].input == streamed[1].tool_uses[0].input


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"kind": "http", "status": 529}, ErrorKind.OVERLOADED),
        ({"kind": "http", "status": 429, "retry_after": 7}, ErrorKind.RATE_LIMIT),
        ({"kind": "http", "status": 402}, ErrorKind.BILLING),
        ({"kind": "overflow"}, ErrorKind.CONTEXT_OVERFLOW),
        ({"kind": "close"}, ErrorKind.CONNECTION),
        ({"kind": "broken_json"}, ErrorKind.BAD_RESPONSE),
        ({"kind": "not_object"}, ErrorKind.BAD_RESPONSE),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
async def test_faults(fault: dict[str, Any], kind: ErrorKind) -> None:
    async with LoopbackProvider({"turns": [{"text": "hi", "fault": fault}]}) as provider:
        wire = adapter(provider)
        with pytest.raises(AdapterError) as caught:
            await wire.call(AdapterCallRequest((Message.user("hello"),)))
        await wire.aclose()
    assert caught.value.kind is kind
    if "retry_after" in fault:
        assert caught.value.retry_after_s == 7


@pytest.mark.parametrize(
    ("fault", "kind"),
    [({"kind": "stream_error", "after": 5}, ErrorKind.OVERLOADED), ({"kind": "cut", "after": 5}, ErrorKind.CONNECTION)],
    ids=["stream_error", "cut"],
)
async def test_faults_inside_a_stream_keep_what_came(fault: dict[str, Any], kind: ErrorKind) -> None:
    turn = {"text": "a long answer that comes in several pieces", "fault": fault}
    async with LoopbackProvider({"turns": [turn]}) as provider:
        wire = adapter(provider, stream=True)
        with pytest.raises(AdapterError) as caught:
            await wire.call(AdapterCallRequest((Message.user("hello"),)))
        await wire.aclose()
    assert caught.value.kind is kind
    assert caught.value.retryable
    assert caught.value.partial is not None
    assert caught.value.partial.text
    assert turn["text"].startswith(caught.value.partial.text)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_keeps_its_category(stream: bool) -> None:
    async with LoopbackProvider({"turns": [{"refusal": "cyber"}]}) as provider:
        wire = adapter(provider, stream=stream)
        result = await wire.call(AdapterCallRequest((Message.user("hello"),)))
        await wire.aclose()
        provider.assert_clean()
    assert result.stop_reason is StopReason.REFUSAL
    assert result.stop_details is not None
    assert result.stop_details["category"] == "cyber"


async def test_a_call_cut_by_the_output_limit_is_replayed_as_an_object() -> None:
    turns = [
        {"tool_calls": [{"name": "grep_files", "arguments": '{"q": "lo'}], "stop": "max_tokens"},
        {"text": "ok"},
    ]
    async with LoopbackProvider({"turns": turns}) as provider:
        wire = adapter(provider, stream=True, thinking=ThinkingOptions())
        history = History([Message.user("find it")])
        result = await wire.call(AdapterCallRequest(history, tools=TOOLS))
        assert result.tool_uses[0].fault is InputFault.CUT
        history.append(Message.assistant(*result.content))
        await wire.call(AdapterCallRequest(history, tools=TOOLS))
        await wire.aclose()
        provider.assert_clean()


async def test_deferred_tools_and_a_response_schema_pass_the_checks() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    async with LoopbackProvider({"turns": [{"text": '{"a": "b"}'}]}) as provider:
        wire = adapter(provider, capabilities=Capabilities(tool_search=True), thinking=ThinkingOptions("adaptive"))
        result = await wire.call(
            AdapterCallRequest(
                (Message.user("hello"),), tools=TOOLS, deferred=frozenset({"git.log"}), response_schema=schema
            )
        )
        await wire.aclose()
        provider.assert_clean()
    assert result.text == '{"a": "b"}'
