"""The Chat Completions API's rules beyond its types."""

from __future__ import annotations

from typing import Any

from geode.provider.checks.common import (
    argument_problem,
    dicts,
    duplicates,
    name_problem,
    named_choice,
    root_problems,
    strict_objects,
)

__all__ = ["check"]

_MAX_TOOLS = 128


def check(body: dict[str, Any]) -> list[str]:
    found = _messages(body.get("messages"))
    found += _tools(body)
    if "max_tokens" in body and "max_completion_tokens" in body:
        found.append("max_tokens: not together with max_completion_tokens")
    if "stream_options" in body and not body.get("stream"):
        found.append("stream_options: only allowed where stream is true")
    form = body.get("response_format")
    if isinstance(form, dict) and isinstance(form.get("json_schema"), dict):
        inner = form["json_schema"]
        found += name_problem("response_format.json_schema.name", inner.get("name"))
        if inner.get("strict"):
            found += strict_objects("response_format.json_schema.schema", inner.get("schema"))
    return found


def _messages(value: Any) -> list[str]:
    if not isinstance(value, list):
        return []
    if not value:
        return ["messages: [] is too short"]
    found: list[str] = []
    waiting: dict[str, str] = {}
    answered: set[str] = set()
    for index, message in dicts(value):
        path, role = f"messages[{index}]", message.get("role")
        if role == "tool":
            call_id = message.get("tool_call_id")
            if isinstance(call_id, str):
                if call_id in waiting:
                    del waiting[call_id]
                    answered.add(call_id)
                elif call_id in answered:
                    found.append(f"{path}.tool_call_id: tool call {call_id!r} is answered already")
                else:
                    found.append(f"{path}.tool_call_id: no tool call {call_id!r} in the assistant message before")
            continue
        found += [
            f"{path}: tool call {i!r} ({where}) must be answered before any other message"
            for i, where in waiting.items()
        ]
        waiting, answered = {}, set()
        if role == "assistant":
            found += _assistant(path, message)
            waiting = {
                call["id"]: f"{path}.tool_calls[{i}]"
                for i, call in dicts(message.get("tool_calls"))
                if isinstance(call.get("id"), str)
            }
        elif message.get("content") == []:
            found.append(f"{path}.content: [] is too short")
    return found + [f"{where}: no tool message for tool call {i!r}" for i, where in waiting.items()]


def _assistant(path: str, message: dict[str, Any]) -> list[str]:
    found: list[str] = []
    calls = message.get("tool_calls")
    if calls == []:
        found.append(f"{path}.tool_calls: [] is too short")
    if not calls and message.get("content") in (None, [], "") and not message.get("refusal"):
        found.append(f"{path}.content: an assistant message needs content or tool_calls")
    for index, call in dicts(calls):
        where, function = f"{path}.tool_calls[{index}]", call.get("function")
        if call.get("id") == "":
            found.append(f"{where}.id: must not be empty")
        if isinstance(function, dict):
            found += name_problem(f"{where}.function.name", function.get("name"))
            found += argument_problem(f"{where}.function.arguments", function.get("arguments"))
    return found + duplicates(((f"{path}.tool_calls[{i}].id", c.get("id")) for i, c in dicts(calls)), "tool call id")


def _tools(body: dict[str, Any]) -> list[str]:
    tools = dicts(body.get("tools"))
    found: list[str] = []
    names: set[str] = set()
    named: list[tuple[str, Any]] = []
    if body.get("tools") == []:
        found.append("tools: [] is too short")
    for index, tool in tools:
        function, path = tool.get("function"), f"tools[{index}].function"
        if isinstance(function, dict):
            names.add(str(function.get("name")))
            named.append((f"{path}.name", function.get("name")))
            found += name_problem(f"{path}.name", function.get("name"))
            schema = function.get("parameters")
            if schema and isinstance(schema, dict):
                found += [p for p in root_problems(f"{path}.parameters", schema) if ".type: " in p]
                found += strict_objects(f"{path}.parameters", schema) if function.get("strict") is True else []
    found += duplicates(named, "tool name")
    if len(tools) > _MAX_TOOLS:
        found.append(f"tools: {len(tools)} tools are over the limit of {_MAX_TOOLS}")
    choice = body.get("tool_choice")
    if not tools:
        found += [f"{key}: not allowed without tools" for key in ("tool_choice", "parallel_tool_calls") if key in body]
    elif isinstance(choice, dict) and isinstance(choice.get("function"), dict):
        found += named_choice("tool_choice.function.name", choice["function"].get("name"), names)
    return found
