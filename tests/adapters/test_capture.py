"""The capture: requests as the SDKs would send them, with no key and no network."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from geode.adapters import make_adapter
from geode.adapters.capture import CaptureTransport
from geode.adapters.credentials import Secrets
from geode.adapters.options import AdapterOptions, CredentialOptions
from geode.contract import Adapter, AdapterCallRequest, Message, ToolSpec, ToolUseBlock

KEY = "zai-0123456789abcdef"
GREP = ToolSpec("grep_files", "Search", {"type": "object", "properties": {}})
CALL = {"id": "c1", "type": "function", "function": {"name": "grep_files", "arguments": '{"a": 1}'}}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "x", "tool_calls": [CALL]}, "finish_reason": "stop"}
ANSWERS: dict[str, dict[str, Any]] = {
    "chat": {"id": "x", "model": "m", "choices": [CHOICE]},
    "messages": {
        "id": "x",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "x"},
            {"type": "tool_use", "id": "c1", "name": "grep_files", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 4},
    },
    "responses": {
        "id": "x",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
            {"type": "function_call", "call_id": "c1", "name": "grep_files", "arguments": '{"a": 1}'},
        ],
        "usage": {"input_tokens": 3, "output_tokens": 4},
    },
}


def adapter(wire: Any, transport: CaptureTransport, **options: Any) -> Adapter:
    given: dict[str, Any] = {"name": "x", "wire": wire, "model": "m", "base_url": "https://api.example.com/v1"}
    return make_adapter(
        AdapterOptions(**{**given, **options}), secrets=Secrets(KEY, "account-7"), notify=print, transport=transport
    )


async def test_what_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-leak")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-leak: 1")
    transport = CaptureTransport(secrets=Secrets(KEY, "account-7"))
    made = adapter("chat", transport, headers={"X-Title": f"geode {KEY}"})
    request = AdapterCallRequest((Message.user(f"my key is {KEY}"),))
    assert (await made.call(request)).text == "captured"
    assert transport.requests == [
        {
            "method": "POST",
            "url": "https://api.example.com/v1/chat/completions",
            "headers": {
                "accept": "application/json",
                "authorization": "Bearer ***",
                "chatgpt-account-id": "***",
                "content-type": "application/json",
                "user-agent": "AsyncOpenAI/Python",
                "x-title": "geode ***",
            },
            "body": {
                "model": "m",
                "messages": [{"role": "user", "content": "my key is ***"}],
                "max_tokens": 8192,
            },
        }
    ]
    assert transport.bodies == [made.build(request)]


async def test_the_headers_of_messages() -> None:
    transport = CaptureTransport()
    await adapter("messages", transport, betas=("a", "b"), headers={"anthropic-beta": "oauth"}).call(
        AdapterCallRequest((Message.user("hi"),))
    )
    headers = transport.requests[0]["headers"]
    assert headers.pop("anthropic-version")
    assert headers == {
        "accept": "application/json",
        "anthropic-beta": "oauth,a,b",
        "chatgpt-account-id": "***",
        "content-type": "application/json",
        "user-agent": "AsyncAnthropic/Python",
        "x-api-key": "***",
    }
    bearer = adapter("messages", transport, credential=CredentialOptions(scheme="bearer"))
    await bearer.call(AdapterCallRequest((Message.user("hi"),)))
    headers = transport.requests[1]["headers"]
    assert headers["authorization"] == "Bearer ***"
    assert "x-api-key" not in headers


@pytest.mark.parametrize("wire", ["chat", "messages", "responses"])
async def test_scripted_answers_streamed_and_not(wire: str) -> None:
    results = []
    for stream in (False, True):
        transport = CaptureTransport([ANSWERS[wire]])
        made = adapter(wire, transport, stream=stream)
        request = AdapterCallRequest((Message.user("hi"),), tools=(GREP,))
        first, second = await made.call(request), await made.call(request)
        assert [(c.id, c.name, dict(c.input)) for c in first.tool_uses] == [("c1", "grep_files", {"a": 1})]
        assert isinstance(first.tool_uses[0], ToolUseBlock)
        assert (first.text, second.text) == ("x", "captured")
        results.append(first.text)
    assert results == ["x", "x"]


async def test_an_answer_made_from_the_request() -> None:
    def answer(request: Any) -> httpx2.Response:
        return httpx2.Response(200, json={**ANSWERS["chat"], "model": request["body"]["model"] + "!"})

    result = await adapter("chat", CaptureTransport(answer)).call(AdapterCallRequest((Message.user("hi"),)))
    assert result.model == "m!"
