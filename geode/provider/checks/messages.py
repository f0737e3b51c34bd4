"""The Messages API's rules beyond its types."""

from __future__ import annotations

import re
from typing import Any

from geode.provider.checks.common import (
    closed_objects,
    dicts,
    duplicates,
    name_problem,
    named_choice,
    property_names,
    root_problems,
)
from geode.provider.issued import is_opaque, is_signature

__all__ = ["check"]

_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
_MAX_CACHE_CONTROL = 4
_MIN_THINKING_BUDGET = 1024


def check(body: dict[str, Any]) -> list[str]:
    found = _messages(body.get("messages"))
    found += _system(body.get("system"))
    found += _tools(body)
    found += _thinking(body)
    found += _cache_control(body)
    output = body.get("output_config")
    if isinstance(output, dict) and isinstance(output.get("format"), dict):
        found += closed_objects("output_config.format.schema", output["format"].get("schema"))
    limit = body.get("max_tokens")
    if isinstance(limit, int) and limit < 1:
        found.append("max_tokens: must be at least 1")
    return found


def _messages(value: Any) -> list[str]:
    if not isinstance(value, list):
        return []
    if not value:
        return ["messages: at least one message is required"]
    found: list[str] = []
    before: dict[str, Any] = {}
    last = len(value) - 1
    for index, message in dicts(value):
        path = f"messages[{index}]"
        role, content = message.get("role"), message.get("content")
        if index == 0 and role != "user":
            found.append(f"{path}.role: the first message must be user, not {role}")
        if index and role == before.get("role") == "user":  # the API combines assistant messages that follow each other
            found.append(f"{path}.role: two {role} messages in a row")
        if content in ("", []) and not (index == last and role == "assistant"):
            found.append(f"{path}.content: must not be empty")
        found += _blocks(path, role, content)
        found += _pairs(path, before, message)
        if index == last and role == "assistant":
            found += _ending(path, content)
        before = message
    return found + _open_calls(f"messages[{last + 1}]", before)


def _blocks(path: str, role: Any, content: Any) -> list[str]:
    found: list[str] = []
    other = False
    calls = []
    if isinstance(content, str) and content and not content.strip():
        found.append(f"{path}.content: text must hold something other than white space")
    for index, block in dicts(content):
        where = f"{path}.content[{index}]"
        kind = block.get("type")
        if kind == "text":
            found += _text(where, block)
        if kind == "tool_use":
            if role != "assistant":
                found.append(f"{where}: tool_use stands in assistant messages only")
            calls.append((f"{where}.id", block.get("id")))
            found += name_problem(f"{where}.name", block.get("name"))
            if not isinstance(block.get("input"), dict):
                found.append(f"{where}.input: must be an object")
        if kind == "tool_result":
            if role != "user":
                found.append(f"{where}: tool_result stands in user messages only")
            if other:
                found.append(f"{where}: tool_result after other content; results come first")
            found += _result(where, block)
        elif role == "user":
            other = True
        if kind in ("thinking", "redacted_thinking"):
            found += _reasoning(where, role, block)
        found += _id(where, block)
    return found + duplicates(calls, "tool_use id")


def _text(where: str, block: dict[str, Any]) -> list[str]:
    text = block.get("text")
    if text == "":
        return [f"{where}.text: text content blocks must be non-empty"]
    if isinstance(text, str) and not text.strip():
        return [f"{where}.text: text must hold something other than white space"]
    return []


def _result(where: str, block: dict[str, Any]) -> list[str]:
    content = block.get("content")
    found = [
        problem
        for i, part in dicts(content)
        if part.get("type") == "text"
        for problem in _text(f"{where}.content[{i}]", part)
    ]
    if block.get("is_error") and content in (None, "", []):
        found.append(f"{where}.content: must not be empty where is_error is true")
    return found


def _reasoning(where: str, role: Any, block: dict[str, Any]) -> list[str]:
    found = []
    if role != "assistant":
        found.append(f"{where}: {block['type']} stands in assistant messages only")
    if block["type"] == "thinking":
        if "signature" not in block:
            found.append(f"{where}.signature: required key is missing")
        elif not is_signature(block.get("thinking"), block["signature"]):
            found.append(f"{where}.signature: not issued by this server for this thinking")
    elif not is_opaque(block.get("data")):
        found.append(f"{where}.data: not issued by this server")
    if "cache_control" in block:
        found.append(f"{where}.cache_control: not allowed on {block['type']}")
    return found


def _id(where: str, block: dict[str, Any]) -> list[str]:
    key = {"tool_use": "id", "tool_result": "tool_use_id"}.get(str(block.get("type")))
    value = block.get(key) if key else None
    if isinstance(value, str) and not _ID.match(value):
        return [f"{where}.{key}: {value!r} does not match ^[a-zA-Z0-9_-]+$"]
    return []


def _call_ids(message: dict[str, Any]) -> list[str]:
    return [
        block["id"]
        for _, block in dicts(message.get("content"))
        if block.get("type") == "tool_use" and isinstance(block.get("id"), str)
    ]


def _pairs(path: str, before: dict[str, Any], message: dict[str, Any]) -> list[str]:
    """Each call of the message before has its one result here, and each result here its call there."""
    wanted = _call_ids(before) if before.get("role") == "assistant" else []
    given = [
        (f"{path}.content[{i}].tool_use_id", block.get("tool_use_id"))
        for i, block in dicts(message.get("content"))
        if block.get("type") == "tool_result"
    ]
    found = [f"{where}: no tool_use {i!r} in the message before" for where, i in given if i not in wanted]
    found += duplicates(given, "tool_result for")
    answered = {i for _, i in given}
    found += [f"{path}: no tool_result for tool_use {i!r} of the message before" for i in wanted if i not in answered]
    return found


def _open_calls(path: str, last: dict[str, Any]) -> list[str]:
    if last.get("role") != "assistant":
        return []
    return [f"{path}: no tool_result for tool_use {i!r} of the message before" for i in _call_ids(last)]


def _ending(path: str, content: Any) -> list[str]:
    text, where = content, f"{path}.content"
    if isinstance(content, list) and content and isinstance(content[-1], dict) and content[-1].get("type") == "text":
        text, where = content[-1].get("text"), f"{where}[{len(content) - 1}].text"
    if isinstance(text, str) and text != text.rstrip():
        return [f"{where}: a final assistant text must not end in white space"]
    return []


def _system(system: Any) -> list[str]:
    return [p for i, block in dicts(system) if block.get("type") == "text" for p in _text(f"system[{i}]", block)]


def _tools(body: dict[str, Any]) -> list[str]:
    tools = dicts(body.get("tools"))
    found: list[str] = []
    for index, tool in tools:
        path = f"tools[{index}]"
        found += name_problem(f"{path}.name", tool.get("name"))
        if "input_schema" in tool:
            found += root_problems(f"{path}.input_schema", tool["input_schema"])
            found += property_names(f"{path}.input_schema", tool["input_schema"], _PROPERTY)
        if tool.get("defer_loading") and "cache_control" in tool:
            found.append(f"{path}.cache_control: not allowed on a deferred tool")
    found += duplicates(((f"tools[{i}].name", t.get("name")) for i, t in tools), "tool name")
    if tools and all(tool.get("defer_loading") for _, tool in tools):
        found.append("tools: at least one tool must not be deferred")
    choice = body.get("tool_choice")
    if choice is not None and not tools:
        found.append("tool_choice: not allowed without tools")
    elif isinstance(choice, dict) and choice.get("type") == "tool":
        found += named_choice("tool_choice.name", choice.get("name"), {str(t.get("name")) for _, t in tools})
    if isinstance(choice, dict) and choice.get("type") == "none" and "disable_parallel_tool_use" in choice:
        found.append("tool_choice.disable_parallel_tool_use: not allowed with none")
    if not tools:
        for index, message in dicts(body.get("messages")):
            if any(b.get("type") in ("tool_use", "tool_result") for _, b in dicts(message.get("content"))):
                found.append(f"tools: required where messages hold tool blocks (messages[{index}])")
                break
    return found


def _thinking(body: dict[str, Any]) -> list[str]:
    thinking, choice = body.get("thinking"), body.get("tool_choice")
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return []
    found = []
    budget, limit = thinking.get("budget_tokens"), body.get("max_tokens")
    if isinstance(budget, int) and budget < _MIN_THINKING_BUDGET:
        found.append(f"thinking.budget_tokens: must be at least {_MIN_THINKING_BUDGET}")
    if isinstance(budget, int) and isinstance(limit, int) and budget >= limit:
        found.append(f"thinking.budget_tokens: must be less than max_tokens ({limit})")
    if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
        found.append(
            f"tool_choice.type: thinking may not be enabled where tool_choice forces a tool ({choice['type']})"
        )
    if body.get("temperature") not in (None, 1, 1.0):
        found.append("temperature: must be 1 where thinking is enabled")
    return found


def _cache_control(body: dict[str, Any]) -> list[str]:
    count = int(bool(body.get("cache_control")))
    holders = [block for key in ("tools", "system") for _, block in dicts(body.get(key))]
    for _, message in dicts(body.get("messages")):
        for _, block in dicts(message.get("content")):
            holders.append(block)
            holders += [part for _, part in dicts(block.get("content"))]
    count += sum(1 for block in holders if block.get("cache_control"))
    if count > _MAX_CACHE_CONTROL:
        return [f"cache_control: at most {_MAX_CACHE_CONTROL} in a request, found {count}"]
    return []
