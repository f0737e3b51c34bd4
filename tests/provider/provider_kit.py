"""Clients and bodies for the provider's tests."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import openai

from geode.provider import LoopbackProvider

Json = dict[str, Any]

SCHEMA: Json = {"type": "object", "properties": {"pattern": {"type": "string"}}}
MESSAGES_TOOL: Json = {"name": "grep", "description": "Search.", "input_schema": SCHEMA}
RESPONSES_TOOL: Json = {
    "type": "function",
    "name": "grep",
    "description": "Search.",
    "parameters": SCHEMA,
    "strict": False,
}
CHAT_TOOL: Json = {"type": "function", "function": {"name": "grep", "description": "Search.", "parameters": SCHEMA}}

PATHS = {"messages": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}
HEADERS = {"authorization": "Bearer k", "anthropic-version": "2023-06-01"}

MESSAGES: Json = {
    "model": "m",
    "max_tokens": 100,
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "a1", "name": "grep", "input": {}},
                {"type": "tool_use", "id": "a2", "name": "grep", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a1", "content": "one"},
                {"type": "tool_result", "tool_use_id": "a2", "content": "two", "is_error": True},
                {"type": "text", "text": "go on"},
            ],
        },
    ],
    "tools": [MESSAGES_TOOL],
    "tool_choice": {"type": "auto"},
}
RESPONSES: Json = {
    "model": "m",
    "instructions": "Be brief.",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "a1", "name": "grep", "arguments": "{}"},
        {"type": "function_call", "call_id": "a2", "name": "grep", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a1", "output": "one"},
        {"type": "function_call_output", "call_id": "a2", "output": '{"error": "two"}'},
    ],
    "tools": [RESPONSES_TOOL],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "store": False,
}
CHAT: Json = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a1", "type": "function", "function": {"name": "grep", "arguments": "{}"}},
                {"id": "a2", "type": "function", "function": {"name": "grep", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a1", "content": "one"},
        {"role": "tool", "tool_call_id": "a2", "content": '{"error": "two"}'},
    ],
    "tools": [CHAT_TOOL],
    "tool_choice": "auto",
}
BODIES = {"messages": MESSAGES, "responses": RESPONSES, "chat": CHAT}


def provider(*turns: Any, **options: Any) -> LoopbackProvider:
    return LoopbackProvider({"turns": list(turns) or [{"text": "ok", "repeat": "forever"}]}, **options)


def changed(wire: str, change: Callable[[Json], Any]) -> Json:
    body = copy.deepcopy(BODIES[wire])
    change(body)
    return body


def http_client() -> httpx2.AsyncClient:
    """A client that loads no certificates: making one takes a hundredth of the time."""
    return httpx2.AsyncClient(verify=False, timeout=10)


async def post(p: LoopbackProvider, path: str, body: Any, headers: dict[str, str] | None = None) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"content-type": "application/json", **HEADERS} if headers is None else headers
    async with http_client() as client:
        return await client.post(p.origin + path, content=content, headers=sent)


def anthropic_client(p: LoopbackProvider, **options: Any) -> anthropic.AsyncAnthropic:
    url = p.base_url("messages")
    return anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0, http_client=http_client(), **options)


def openai_client(p: LoopbackProvider, path: str | None = None, **options: Any) -> openai.AsyncOpenAI:
    url = p.base_url("chat", path)
    return openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0, http_client=http_client(), **options)
