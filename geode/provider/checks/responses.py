"""The Responses API's rules beyond its types, and those of the Codex backend."""

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
from geode.provider.issued import is_opaque

__all__ = ["check"]

_MAX_ARGUMENTS = 1_048_576
_MAX_CALL_ID = 64
_MAX_TOOLS = 128
_PREFIXES = {"function_call": "fc_", "reasoning": "rs_", "message": "msg_"}
_BEFORE = ("function_call", "message", "reasoning", "custom_tool_call", "tool_search_call", "web_search_call")


def check(body: dict[str, Any], *, codex: bool = False) -> list[str]:
    items = dicts(body.get("input"))
    found: list[str] = []
    if body.get("input") in (None, [], ""):
        found.append("input: must not be empty")
    stored = body.get("store") is not False
    for place, (index, item) in enumerate(items):
        following = items[place + 1][1] if place + 1 < len(items) else None
        found += _item(f"input[{index}]", item, following, stored)
    found += _pairs(items)
    found += _tools(body)
    found += _format(body.get("text"))
    return found + (_codex(body) if codex else [])


def _item(path: str, item: dict[str, Any], following: dict[str, Any] | None, stored: bool) -> list[str]:
    found: list[str] = []
    kind = item.get("type", "message")
    if kind == "function_call":
        found += name_problem(f"{path}.name", item.get("name"))
        found += argument_problem(f"{path}.arguments", item.get("arguments"), _MAX_ARGUMENTS)
    if kind in ("function_call", "function_call_output"):
        call_id = item.get("call_id")
        if call_id in (None, ""):
            found.append(f"{path}.call_id: must not be empty")
        elif isinstance(call_id, str) and len(call_id) > _MAX_CALL_ID:
            found.append(f"{path}.call_id: {len(call_id)} characters are over the limit of {_MAX_CALL_ID}")
    if kind == "message" and item.get("role") == "assistant" and item.get("content") in (None, "", []):
        found.append(f"{path}.content: an assistant message must not be empty")
    if kind == "reasoning":
        found += _reasoning(path, item, following, stored)
    prefix, given = _PREFIXES.get(kind), item.get("id")
    if prefix and isinstance(given, str):
        if not given.startswith(prefix):
            found.append(f"{path}.id: {given!r} does not begin with {prefix!r}")
        elif not stored:
            found.append(f"{path}.id: item {given!r} is not stored (store: false)")
    return found


def _reasoning(path: str, item: dict[str, Any], following: dict[str, Any] | None, stored: bool) -> list[str]:
    found = []
    encrypted = item.get("encrypted_content")
    if encrypted is None:
        if not stored:
            found.append(f"{path}.encrypted_content: required where store is false")
    elif not is_opaque(encrypted):
        found.append(f"{path}.encrypted_content: not issued by this server")
    if item.get("content"):
        found.append(f"{path}.content: must be empty")
    follower = following.get("type", "message") if following else None
    ours = follower in _BEFORE and not (follower == "message" and following and following.get("role") != "assistant")
    if not ours:
        found.append(f"{path}: reasoning without its required following item")
    return found


def _pairs(items: list[tuple[int, dict[str, Any]]]) -> list[str]:
    """Each call has one output after it, each output its call before it; a call id may come again once answered."""
    found: list[str] = []
    open_calls: dict[str, str] = {}
    answered: set[str] = set()
    for index, item in items:
        path, call_id = f"input[{index}].call_id", item.get("call_id")
        if not isinstance(call_id, str):
            continue
        if item.get("type") == "function_call":
            if call_id in open_calls:
                first = open_calls[call_id]
                found.append(f"{path}: call id {call_id!r} is used twice (first at {first})")
            open_calls[call_id] = path
        elif item.get("type") == "function_call_output":
            if call_id in open_calls:
                del open_calls[call_id]
                answered.add(call_id)
            elif call_id in answered:
                found.append(f"{path}: call {call_id!r} has a function_call_output already")
            else:
                found.append(f"{path}: no function_call {call_id!r} before this output")
    return found + [f"{path}: no function_call_output for call {i!r}" for i, path in open_calls.items()]


def _tools(body: dict[str, Any]) -> list[str]:
    tools = dicts(body.get("tools"))
    found: list[str] = []
    for index, tool in tools:
        if tool.get("type") == "function":
            path = f"tools[{index}]"
            found += name_problem(f"{path}.name", tool.get("name"))
            found += root_problems(f"{path}.parameters", tool.get("parameters"), more=("enum", "not"))
            if tool.get("strict") is True:
                found += strict_objects(f"{path}.parameters", tool.get("parameters"))
    found += duplicates(((f"tools[{i}].name", t.get("name")) for i, t in tools), "tool name")
    if len(tools) > _MAX_TOOLS:
        found.append(f"tools: {len(tools)} tools are over the limit of {_MAX_TOOLS}")
    names = {str(t.get("name")) for _, t in tools if t.get("name")}
    choice = body.get("tool_choice")
    if not tools:
        found += [f"{key}: not allowed without tools" for key in ("tool_choice", "parallel_tool_calls") if key in body]
    elif isinstance(choice, dict) and choice.get("type") == "function":
        found += named_choice("tool_choice.name", choice.get("name"), names)
    elif isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        for index, tool in dicts(choice.get("tools")):
            if tool.get("type") == "function":
                found += named_choice(f"tool_choice.tools[{index}].name", tool.get("name"), names)
    return found


def _format(text: Any) -> list[str]:
    form = text.get("format") if isinstance(text, dict) else None
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        return []
    found = name_problem("text.format.name", form.get("name"))
    return found + (strict_objects("text.format.schema", form.get("schema")) if form.get("strict") else [])


def _codex(body: dict[str, Any]) -> list[str]:
    """The Codex backend of ChatGPT: what it asks for beyond the API."""
    found = []
    if body.get("store") is not False:
        found.append("store: must be false")
    if body.get("stream") is not True:
        found.append("stream: must be true")
    if not isinstance(body.get("instructions"), str):
        found.append("instructions: required")
    if not isinstance(body.get("input"), list):
        found.append("input: must be an array")
    if "max_output_tokens" in body:
        found.append("max_output_tokens: unsupported parameter")
    return found
