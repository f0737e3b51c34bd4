"""The conversations of the snapshot matrix, and how each is captured with an adapter as conf/ configures it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from geode.adapters import make_adapter
from geode.adapters.capture import CaptureTransport
from geode.adapters.credentials import Secrets
from geode.adapters.options import AdapterOptions
from geode.compose import compose_settings
from geode.contract import (
    AdapterCallRequest,
    ImageBlock,
    InputFault,
    Message,
    ReasoningBlock,
    Source,
    TextBlock,
    ToolChoice,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
)
from geode.provider.issued import opaque, signature
from geode.runner.backends import adapter_options

HTTP = ("anthropic-payg", "anthropic-oauth", "openai-payg", "codex-oauth", "glm-payg", "glm-coding-plan")
CLIS = ("claude-cli", "codex-cli")
SYSTEM = "You are careful."
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
GREP = ToolSpec(
    "grep_files",
    "Searches files.",
    {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]},
)
READ = ToolSpec("read_document", "Reads a document.", {"type": "object", "properties": {"path": {"type": "string"}}})
TOOLS = (GREP, READ)
ANSWER = {
    "type": "object",
    "properties": {"count": {"type": "integer", "minimum": 0}, "note": {"type": "string"}},
    "required": ["count"],
}
HELLO = Message.user("How many files are there?")

Case = Callable[[AdapterOptions], AdapterCallRequest]


def call(id: str, name: str = "grep_files", arguments: str = '{"pattern": "a"}', **more: Any) -> ToolUseBlock:
    value = {} if "fault" in more else json.loads(arguments)
    return ToolUseBlock(id, name, value, arguments, **more)


def result(id: str, content: Any = "a.txt", is_error: bool = False) -> ToolResultBlock:
    return ToolResultBlock(id, content, is_error)


def asked(*messages: Message, tools: tuple[ToolSpec, ...] = TOOLS, **more: Any) -> AdapterCallRequest:
    return AdapterCallRequest((HELLO, *messages), SYSTEM, tools, round=1 + len(messages) // 2, **more)


def choice(value: ToolChoice) -> Case:
    return lambda _options: asked(tool_choice=value)


def after_one_call(outcome: ToolResultBlock) -> Case:
    return lambda _options: asked(Message.assistant(call("call_1")), Message("user", (outcome,)))


def reasoning(options: AdapterOptions) -> tuple[ReasoningBlock, ...]:
    """Reasoning as the adapter's own provider gave it, in both of its forms where it has two."""
    source = Source(options.wire, options.name, options.model)
    if options.wire == "messages":
        thought = {"type": "thinking", "thinking": "Look first.", "signature": signature("Look first.")}
        hidden = {"type": "redacted_thinking", "data": opaque("hidden")}
        return (ReasoningBlock("Look first.", source, thought), ReasoningBlock("", source, hidden))
    if options.wire == "responses":
        item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": opaque("Look first.")}
        return (ReasoningBlock("", source, item),)
    return (ReasoningBlock("Look first.", source, {options.reasoning_field: "Look first."}),)


def thinking_replay(options: AdapterOptions) -> AdapterCallRequest:
    blocks = (*reasoning(options), TextBlock("I will look."), call("call_1"))
    return asked(Message("assistant", blocks), Message("user", (result("call_1"),)))


def parallel_results(_options: AdapterOptions) -> AdapterCallRequest:
    calls = (
        call("call_1"),
        call("call_2", "read_document", '{"path":"b"}'),
        call("call_3", arguments='{"pattern":"é"}'),
    )
    results = (result("call_1"), result("call_2", "B"), result("call_3", "none"))
    return asked(
        Message("assistant", (TextBlock("Three at once."), *calls)), Message("user", (*results, TextBlock("Go on.")))
    )


def repaired_history(_options: AdapterOptions) -> AdapterCallRequest:
    """A result too many, one too few, an id used twice, one that no API takes, and arguments that are no JSON."""
    broken = call("call 3/x", arguments='{"pattern": ', fault=InputFault.INVALID_JSON)
    return asked(
        Message.assistant("", call("call_1"), call("call_1", "read_document", '{"path":"b"}'), broken),
        Message("user", (result("gone"), result("call_1"))),
        Message.assistant("Next. \n", call("")),
        Message.user("Never mind."),
    )


def odd_tool_names(_options: AdapterOptions) -> AdapterCallRequest:
    names = ("look.up", "look_up", "look/up", "n" * 70)
    tools = tuple(replace(GREP, name=name) for name in names)
    calls = tuple(call(f"call_{i}", name) for i, name in enumerate((*names, "made up!")))
    results = tuple(result(c.id) for c in calls)
    named = ToolChoice("tool", "look.up")
    return asked(Message("assistant", calls), Message("user", results), tools=tools, tool_choice=named)


def schema_dialects(_options: AdapterOptions) -> AdapterCallRequest:
    path = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    url = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
    node = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}}
    schemas: Mapping[str, Any] = {
        "empty": {},
        "root_union": {"oneOf": [path, url]},
        "root_array": {"type": "array", "items": {"type": "string"}},
        "no_type": {"properties": {"q": {"type": "string"}}},
        "references": {"type": "object", "properties": {"p": {"$ref": "#/$defs/p"}}, "$defs": {"p": path}},
        "recursive": {"type": "object", "properties": {"n": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}},
        "odd_property": {"type": "object", "properties": {"größe in cm": {"type": "number"}}},
    }
    tools = tuple(ToolSpec(name, f"Has a schema: {name}.", schema) for name, schema in schemas.items())
    return asked(tools=tools)


CASES: Mapping[str, Case] = {
    "auto": choice(ToolChoice()),
    "none": choice(ToolChoice("none")),
    "required": choice(ToolChoice("required")),
    "named": choice(ToolChoice("tool", "grep_files")),
    "no_tools": lambda _options: asked(tools=()),
    "parallel_results": parallel_results,
    "error_result": after_one_call(result("call_1", "no such folder", is_error=True)),
    "empty_result": after_one_call(result("call_1", "")),
    "image_result": after_one_call(result("call_1", (TextBlock("a picture"), ImageBlock("image/png", PNG)))),
    "thinking_replay": thinking_replay,
    "structured_output": lambda _options: asked(response_schema=ANSWER),
    "wrap_up": lambda _options: asked(
        Message.assistant(call("call_1")),
        Message("user", (result("call_1"),)),
        tool_choice=ToolChoice("none"),
        max_tokens=1000,
        thinking=False,
    ),
    "repaired_history": repaired_history,
    "odd_tool_names": odd_tool_names,
    "schema_dialects": schema_dialects,
}
CLI_CASES = ("auto", "required", "parallel_results", "error_result", "thinking_replay", "structured_output", "wrap_up")
MATRIX = [(a, c) for a in HTTP for c in CASES] + [(a, c) for a in CLIS for c in CLI_CASES]


@cache
def options_of(name: str) -> AdapterOptions:
    """The options that conf/adapter/NAME.yaml gives."""
    return adapter_options(compose_settings([f"adapter={name}"]).adapter)


async def captured(options: AdapterOptions, case: str) -> dict[str, Any]:
    """What the adapter sends: the request, the SHA-256 of its body's bytes, and what it says was dropped."""
    request = CASES[case](options)
    notices: list[str] = []
    transport = CaptureTransport()
    adapter: Any = make_adapter(
        options,
        secrets=Secrets("placeholder", "placeholder" if options.credential.kind == "codex_file" else None),
        notify=lambda notice: notices.append(notice.key),
        transport=transport,
        environ={},
    )
    if hasattr(adapter, "describe"):
        return {"process": adapter.describe(request)}
    await adapter.call(request)
    await adapter.aclose()
    (sent,), (body,) = transport.requests, transport.bodies
    assert body == adapter.build(request), "what is built is what is sent"
    return {"request": sent, "sha256": hashlib.sha256(body).hexdigest(), "notices": notices}
