"""The Responses wire over HTTP: the real SDK against the loopback provider, which checks every request."""

from __future__ import annotations

from typing import Any

import pytest
from responses_kit import GREP, READ, options

from geode.adapters.credentials import Secrets
from geode.adapters.responses import ResponsesAdapter
from geode.contract import (
    AdapterCallRequest,
    AdapterCallResult,
    AdapterError,
    ErrorKind,
    History,
    InputFault,
    Message,
    ReasoningBlock,
    StopReason,
    ToolChoice,
    ToolResultBlock,
    ToolSpec,
    Usage,
)
from geode.provider import LoopbackProvider

DOTTED = ToolSpec("git.log", "Show the log", {"anyOf": [{"type": "object", "properties": {"n": {"type": "integer"}}}]})
TOOLS = (GREP, READ, DOTTED)
SCRIPT: dict[str, Any] = {
    "turns": [
        {
            "reasoning": "I should look.",
            "text": "Let me look.",
            "tool_calls": [
                {"name": "grep_files", "input": {"pattern": "é"}},
                {"name": "git_log", "input": {"n": 3}},
            ],
            "usage": {"input": 10, "output": 20, "cache_read": 5, "reasoning": 8},
        },
        {
            "reasoning": "Now read.",
            "tool_calls": [{"name": "read_document", "arguments": '{"path":  "a", "n": 1e2}', "id": "same"}],
        },
        {"tool_calls": [{"name": "grep_files", "arguments": "{oops"}]},
        {"reasoning": "Enough.", "text": "Done."},
    ]
}


def adapter(provider: LoopbackProvider, **given: Any) -> ResponsesAdapter:
    return ResponsesAdapter(
        options(base_url=provider.base_url("responses"), **given),
        secrets=Secrets("sk-test-0123456789"),
        notify=lambda _notice: None,
    )


async def converse(script: dict[str, Any] = SCRIPT, **given: Any) -> list[AdapterCallResult]:
    """A whole conversation; each request's items are the one's before and a suffix."""
    async with LoopbackProvider(script) as provider:
        wire = adapter(provider, **given)
        history = History([Message.user("find it")])
        results: list[AdapterCallResult] = []
        before = b""
        rounds = len(script["turns"])
        for number in range(1, rounds + 1):
            choice = ToolChoice("none" if number == rounds else "auto")
            asked = AdapterCallRequest(history, system="Be brief.", tools=TOOLS, tool_choice=choice, round=number)
            result = await wire.call(asked)
            body = provider.requests[-1].body
            array = body[body.index(b'"input":[') : body.index(b'],"tools"')]
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
    first, second, third, last = await converse()
    assert [c.name for c in first.tool_uses] == ["grep_files", "git.log"]
    assert first.usage == Usage(10, 20, 5, 0, 0, 8)
    assert [c.arguments for c in second.tool_uses] == ['{"path":  "a", "n": 1e2}']
    assert [c.fault for c in third.tool_uses] == [InputFault.INVALID_JSON]
    assert (last.text, last.stop_reason) == ("Done.", StopReason.END_TURN)


async def test_streamed_the_conversation_is_the_same() -> None:
    whole, streamed = await converse(), await converse(stream=True)
    for one, other in zip(whole, streamed, strict=True):
        assert (one.content, one.stop_reason) == (other.content, other.stop_reason)


@pytest.mark.parametrize("kind", ["loose_stream", "empty_output", "stale_reasoning"])
async def test_streams_that_are_not_quite_right_are_assembled_to_the_same(kind: str) -> None:
    twisted = {"turns": [{**turn, "fault": {"kind": kind}} for turn in SCRIPT["turns"]]}
    whole, streamed = await converse(), await converse(twisted, stream=True)
    for one, other in zip(whole, streamed, strict=True):
        assert (one.content, one.stop_reason) == (other.content, other.stop_reason)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"kind": "http", "status": 529}, ErrorKind.OVERLOADED),
        ({"kind": "http", "status": 429, "retry_after": 7}, ErrorKind.RATE_LIMIT),
        ({"kind": "http", "status": 402}, ErrorKind.BILLING),
        ({"kind": "overflow"}, ErrorKind.CONTEXT_OVERFLOW),
        ({"kind": "close"}, ErrorKind.CONNECTION),
        ({"kind": "failed", "code": "server_error"}, ErrorKind.SERVER),
        ({"kind": "failed", "code": "invalid_prompt"}, ErrorKind.REFUSAL),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
async def test_faults(fault: dict[str, Any], kind: ErrorKind, stream: bool) -> None:
    async with LoopbackProvider({"turns": [{"text": "hi", "fault": fault}]}) as provider:
        wire = adapter(provider, stream=stream)
        with pytest.raises(AdapterError) as caught:
            await wire.call(AdapterCallRequest((Message.user("hello"),)))
        await wire.aclose()
    assert caught.value.kind is kind
    if "retry_after" in fault:
        assert caught.value.retry_after_s == 7


@pytest.mark.parametrize(
    ("fault", "kind"),
    [({"kind": "stream_error", "after": 5}, ErrorKind.SERVER), ({"kind": "cut", "after": 5}, ErrorKind.CONNECTION)],
    ids=["stream_error", "cut"],
)
async def test_faults_inside_a_stream_keep_what_came(fault: dict[str, Any], kind: ErrorKind) -> None:
    turn = {"text": "a long answer that comes in several pieces", "fault": fault}
    async with LoopbackProvider({"turns": [turn]}) as provider:
        wire = adapter(provider, stream=True)
        with pytest.raises(AdapterError) as caught:
            await wire.call(AdapterCallRequest((Message.user("hello"),)))
        await wire.aclose()
    assert (caught.value.kind, caught.value.retryable) == (kind, True)
    assert caught.value.partial is not None
    assert caught.value.partial.text
    assert turn["text"].startswith(caught.value.partial.text)


@pytest.mark.parametrize("stream", [False, True])
async def test_endings(stream: bool) -> None:
    turns: list[dict[str, Any]] = [
        {"text": "half", "stop": "max_tokens"},
        {"text": "half", "stop": "content_filter"},
        {"refusal": "cyber", "text": "I cannot."},
        {"tool_calls": [{"name": "grep_files", "arguments": '{"pattern": "lo'}], "stop": "max_tokens"},
    ]
    async with LoopbackProvider({"turns": turns}) as provider:
        wire = adapter(provider, stream=stream)
        asked = AdapterCallRequest((Message.user("hello"),), tools=TOOLS)
        results = [await wire.call(asked) for _ in turns]
        await wire.aclose()
        provider.assert_clean()
    assert [r.stop_reason for r in results] == [
        StopReason.MAX_TOKENS,
        StopReason.CONTENT_FILTER,
        StopReason.REFUSAL,
        StopReason.MAX_TOKENS,
    ]
    assert [r.text for r in results[:2]] == ["half", "half"]
    assert results[3].tool_uses[0].fault is InputFault.CUT


async def test_reasoning_comes_back_sealed_and_shown() -> None:
    first = (await converse())[0].content[0]
    assert isinstance(first, ReasoningBlock)
    assert first.text == "I should look."
    assert first.raw["encrypted_content"]
