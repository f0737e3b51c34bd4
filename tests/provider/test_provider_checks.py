"""Each strict check: a wrong body, the provider's own error form, and the exact text."""

from __future__ import annotations

import pytest
from provider_kit import (
    BODIES,
    CHAT_TOOL,
    HEADERS,
    MESSAGES_TOOL,
    PATHS,
    RESPONSES_TOOL,
    SCHEMA,
    changed,
    post,
    provider,
)

from geode.provider.issued import opaque, signature

USER = {"role": "user", "content": "hi"}


def said(role: str, *blocks: object) -> dict[str, object]:
    return {"role": role, "content": list(blocks)}


def text(value: str) -> dict[str, object]:
    return {"type": "text", "text": value}


def ending(*messages: object):
    """Puts messages after a first user message, in place of the rest."""
    return lambda b: b.update(messages=[USER, *messages])


def call(key: str, **more: object) -> dict[str, object]:
    return {"type": "tool_use", "id": key, "name": "grep", "input": {}, **more}


def result(key: str, **more: object) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": key, "content": "x", **more}


def thought(**more: object) -> dict[str, object]:
    return {"type": "thinking", "thinking": "t", "signature": signature("t"), **more}


OPEN_OBJECT = {"type": "object", "properties": {"a": {"type": "object"}}, "additionalProperties": False}
FORMAT = {"type": "json_schema", "schema": OPEN_OBJECT}

MESSAGES_CASES = [
    # types
    (lambda b: b.pop("max_tokens"), ["max_tokens: required key is missing"]),
    (lambda b: b.update(max_tokens="9"), ["max_tokens: must be an integer, not a string"]),
    (lambda b: b.update(seed=1), ["seed: unknown key"]),
    (lambda b: b["tools"][0].update(category="x"), ["tools[0].category: unknown key"]),
    (lambda b: b.update(tool_choice="auto"), ["tool_choice: must be an object, not a string"]),
    (
        lambda b: b.update(tool_choice={"type": "required"}),
        ["tool_choice.type: 'required' is not one of any, auto, none, tool"],
    ),
    (
        lambda b: b["messages"][1]["content"][1].update(input="{}"),
        ["messages[1].content[1].input: must be an object, not a string"],
    ),
    (
        lambda b: b["messages"].append({"role": "tool", "content": "x"}),
        ["messages[3].role: 'tool' is not one of assistant, system, user"],
    ),
    (
        lambda b: b["messages"][2]["content"][0].update(content=3),
        ["messages[2].content[0].content: must be a string or an array, not an integer"],
    ),
    # order
    (lambda b: b.update(messages=[]), ["messages: at least one message is required"]),
    (
        lambda b: b.update(messages=[{"role": "assistant", "content": "a"}]),
        ["messages[0].role: the first message must be user, not assistant"],
    ),
    (ending(USER), ["messages[1].role: two user messages in a row"]),
    # pairing
    (
        lambda b: b["messages"][2]["content"].pop(1),
        ["messages[2]: no tool_result for tool_use 'a2' of the message before"],
    ),
    (
        lambda b: b["messages"].pop(2),
        [f"messages[2]: no tool_result for tool_use '{i}' of the message before" for i in ("a1", "a2")],
    ),
    (
        lambda b: b["messages"][2]["content"][0].update(tool_use_id="zz"),
        [
            "messages[2].content[0].tool_use_id: no tool_use 'zz' in the message before",
            "messages[2]: no tool_result for tool_use 'a1' of the message before",
        ],
    ),
    (
        lambda b: b["messages"][2]["content"].insert(2, result("a1")),
        [
            "messages[2].content[2].tool_use_id: tool_result for 'a1' is used twice "
            "(first at messages[2].content[0].tool_use_id)"
        ],
    ),
    (
        ending(said("assistant", call("d"), call("d")), said("user", result("d"))),
        ["messages[1].content[1].id: tool_use id 'd' is used twice (first at messages[1].content[0].id)"],
    ),
    (
        lambda b: b["messages"][2]["content"].insert(0, b["messages"][2]["content"].pop()),
        [f"messages[2].content[{i}]: tool_result after other content; results come first" for i in (1, 2)],
    ),
    (
        ending(said("assistant", call("a.b")), said("user", result("a.b"))),
        [
            "messages[1].content[0].id: 'a.b' does not match ^[a-zA-Z0-9_-]+$",
            "messages[2].content[0].tool_use_id: 'a.b' does not match ^[a-zA-Z0-9_-]+$",
        ],
    ),
    (
        lambda b: b["messages"][1]["content"][1].update(name="a.b"),
        ["messages[1].content[1].name: 'a.b' does not match ^[a-zA-Z0-9_-]{1,64}$"],
    ),
    (
        ending(said("assistant", text("a")), said("user", call("x"))),
        ["messages[2].content[0]: tool_use stands in assistant messages only"],
    ),
    # text
    (
        ending({"role": "assistant", "content": "a"}, said("user", text(""))),
        ["messages[2].content[0].text: text content blocks must be non-empty"],
    ),
    (
        ending({"role": "assistant", "content": "a"}, said("user", text(" "))),
        ["messages[2].content[0].text: text must hold something other than white space"],
    ),
    (lambda b: b.update(messages=[{"role": "user", "content": ""}]), ["messages[0].content: must not be empty"]),
    (lambda b: b.update(system=[text("")]), ["system[0].text: text content blocks must be non-empty"]),
    (
        lambda b: b["messages"][2]["content"][0].update(content=[text("")]),
        ["messages[2].content[0].content[0].text: text content blocks must be non-empty"],
    ),
    (
        lambda b: b["messages"][2]["content"][1].update(content=""),
        ["messages[2].content[1].content: must not be empty where is_error is true"],
    ),
    (
        ending(said("assistant", text("so: "))),
        ["messages[1].content[0].text: a final assistant text must not end in white space"],
    ),
    # tools and choices
    (
        lambda b: b["tools"][0].update(name="grep files"),
        ["tools[0].name: 'grep files' does not match ^[a-zA-Z0-9_-]{1,64}$"],
    ),
    (
        lambda b: b["tools"].append(MESSAGES_TOOL),
        ["tools[1].name: tool name 'grep' is used twice (first at tools[0].name)"],
    ),
    (lambda b: (b.pop("tools"), b.update(messages=[USER])), ["tool_choice: not allowed without tools"]),
    (
        lambda b: (b.pop("tools"), b.pop("tool_choice")),
        ["tools: required where messages hold tool blocks (messages[1])"],
    ),
    (
        lambda b: b.update(tool_choice={"type": "tool", "name": "nope"}),
        ["tool_choice.name: no tool 'nope' in tools (there are: grep)"],
    ),
    (
        lambda b: b.update(
            thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000, tool_choice={"type": "any"}
        ),
        ["tool_choice.type: thinking may not be enabled where tool_choice forces a tool (any)"],
    ),
    (
        lambda b: b.update(thinking={"type": "enabled", "budget_tokens": 2000}),
        ["thinking.budget_tokens: must be less than max_tokens (100)"],
    ),
    (
        lambda b: b["tools"][0].update(input_schema={"oneOf": [SCHEMA], "anyOf": [SCHEMA], "type": "object"}),
        [f"tools[0].input_schema.{k}: not allowed at the root of a schema" for k in ("oneOf", "anyOf")],
    ),
    (
        lambda b: b["tools"][0].update(input_schema={}),
        ["tools[0].input_schema.type: must be object at the root, not None"],
    ),
    (
        lambda b: b["tools"][0].update(input_schema={"type": "object", "properties": {"a b": {}}}),
        ["tools[0].input_schema.properties.a b: the name does not match ^[a-zA-Z0-9_.-]{1,64}$"],
    ),
    (lambda b: b["tools"][0].update(defer_loading=True), ["tools: at least one tool must not be deferred"]),
    (
        lambda b: b.update(output_config={"format": FORMAT}),
        ["output_config.format.schema.properties.a.additionalProperties: must be false on every object"],
    ),
    # thinking
    (
        ending(said("assistant", thought(signature="x"), text("a")), USER),
        ["messages[1].content[0].signature: not issued by this server for this thinking"],
    ),
    (
        ending(said("assistant", {"type": "thinking", "thinking": "t"}, text("a")), USER),
        ["messages[1].content[0].signature: required key is missing"],
    ),
    (
        ending(said("assistant", thought(thinking="other"), text("a")), USER),
        ["messages[1].content[0].signature: not issued by this server for this thinking"],
    ),
    (
        ending(said("assistant", {"type": "redacted_thinking", "data": "x"}, text("a")), USER),
        ["messages[1].content[0].data: not issued by this server"],
    ),
    # cache
    (
        lambda b: b.update(
            cache_control={"type": "ephemeral"},
            system=[text("s") | {"cache_control": {"type": "ephemeral"}} for _ in range(4)],
        ),
        ["cache_control: at most 4 in a request, found 5"],
    ),
]


def items(*given: object):
    return lambda b: b.update(input=[USER, *given])


def function_call(key: str = "c", **more: object) -> dict[str, object]:
    return {"type": "function_call", "call_id": key, "name": "grep", "arguments": "{}", **more}


def output(key: str = "c", **more: object) -> dict[str, object]:
    return {"type": "function_call_output", "call_id": key, "output": "", **more}


def reasoning(**more: object) -> dict[str, object]:
    return {"type": "reasoning", "summary": [], "encrypted_content": opaque("why"), **more}


RESPONSES_CASES = [
    (
        lambda b: b["input"][1].pop("call_id"),
        ["input[1].call_id: required key is missing", "input[3].call_id: no function_call 'a1' before this output"],
    ),
    (lambda b: b["input"][1].update(arguments={}), ["input[1].arguments: must be a string, not an object"]),
    (lambda b: b["input"][3].update(output=3), ["input[3].output: must be a string or an array, not an integer"]),
    (lambda b: b["input"][3].update(is_error=True), ["input[3].is_error: unknown key"]),
    (lambda b: b["tools"][0].pop("strict"), ["tools[0].strict: required key is missing"]),
    (
        lambda b: b.update(tool_choice={"type": "function", "function": {"name": "grep"}}),
        ["tool_choice.name: required key is missing", "tool_choice.function: unknown key"],
    ),
    (lambda b: b.update(tool_choice="any"), ["tool_choice: 'any' is not one of none, auto, required"]),
    (lambda b: b.update(stop=["x"]), ["stop: unknown key"]),
    (lambda b: b.update(input=[]), ["input: must not be empty"]),
    # pairing
    (items(function_call()), ["input[1].call_id: no function_call_output for call 'c'"]),
    (items(output()), ["input[1].call_id: no function_call 'c' before this output"]),
    (items(function_call(), output(), output()), ["input[3].call_id: call 'c' has a function_call_output already"]),
    (
        items(function_call(), function_call(), output()),
        ["input[2].call_id: call id 'c' is used twice (first at input[1].call_id)"],
    ),
    (
        items(function_call(""), output("")),
        ["input[1].call_id: must not be empty", "input[2].call_id: must not be empty"],
    ),
    (
        items(function_call("c" * 65), output("c" * 65)),
        [f"input[{i}].call_id: 65 characters are over the limit of 64" for i in (1, 2)],
    ),
    # arguments and names
    (items(function_call(arguments="[1]"), output()), ["input[1].arguments: is JSON but no object: '[1]'"]),
    (items(function_call(arguments='{"a'), output()), ["input[1].arguments: is no JSON: '{\"a'"]),
    (
        items(function_call(arguments='{"a":"' + "x" * 1_048_576 + '"}'), output()),
        ["input[1].arguments: 1048584 characters are over the limit of 1048576"],
    ),
    (items(function_call(name="a.b"), output()), ["input[1].name: 'a.b' does not match ^[a-zA-Z0-9_-]{1,64}$"]),
    # items
    (items(function_call(id="x1"), output()), ["input[1].id: 'x1' does not begin with 'fc_'"]),
    (items(function_call(id="fc_1"), output()), ["input[1].id: item 'fc_1' is not stored (store: false)"]),
    (
        items({"type": "message", "role": "assistant", "content": ""}),
        ["input[1].content: an assistant message must not be empty"],
    ),
    (items(reasoning()), ["input[1]: reasoning without its required following item"]),
    (items(reasoning(), USER), ["input[1]: reasoning without its required following item"]),
    (
        items(reasoning(encrypted_content="x"), function_call(), output()),
        ["input[1].encrypted_content: not issued by this server"],
    ),
    (
        items({"type": "reasoning", "summary": []}, function_call(), output()),
        ["input[1].encrypted_content: required where store is false"],
    ),
    (
        items({k: v for k, v in reasoning().items() if k != "summary"}, function_call(), output()),
        ["input[1].summary: required key is missing"],
    ),
    (
        items(reasoning(content=[{"type": "reasoning_text", "text": "x"}]), function_call(), output()),
        ["input[1].content: must be empty"],
    ),
    # tools
    (
        lambda b: b.update(tools=[]),
        ["tool_choice: not allowed without tools", "parallel_tool_calls: not allowed without tools"],
    ),
    (
        lambda b: b.update(tool_choice={"type": "function", "name": "nope"}),
        ["tool_choice.name: no tool 'nope' in tools (there are: grep)"],
    ),
    (
        lambda b: b.update(
            tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "x"}]}
        ),
        ["tool_choice.tools[0].name: no tool 'x' in tools (there are: grep)"],
    ),
    (
        lambda b: b["tools"][0].update(parameters={"type": "object", "anyOf": []}),
        ["tools[0].parameters.anyOf: not allowed at the root of a schema"],
    ),
    (
        lambda b: b["tools"][0].update(strict=True),
        [
            "tools[0].parameters.additionalProperties: must be false on every object",
            "tools[0].parameters.required: must name every property, 'pattern' is missing",
        ],
    ),
    (
        lambda b: b.update(tools=[RESPONSES_TOOL | {"name": f"t{i}"} for i in range(129)]),
        ["tools: 129 tools are over the limit of 128"],
    ),
    (
        lambda b: b.update(text={"format": FORMAT | {"name": "answer", "strict": True}}),
        [
            "text.format.schema.properties.a.additionalProperties: must be false on every object",
            "text.format.schema.required: must name every property, 'a' is missing",
        ],
    ),
]


def chat_ending(*messages: object):
    return lambda b: b.update(messages=[USER, *messages])


def calling(*keys: str, arguments: str = "{}", name: str = "grep", **more: object) -> dict[str, object]:
    calls = [{"id": k, "type": "function", "function": {"name": name, "arguments": arguments}} for k in keys]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def answering(key: str, **more: object) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": key, "content": "x", **more}


CHAT_CASES = [
    (lambda b: b["messages"][3].update(is_error=True), ["messages[3].is_error: unknown key"]),
    (lambda b: b["messages"][3].pop("content"), ["messages[3].content: required key is missing"]),
    (
        lambda b: b["messages"][2]["tool_calls"][0]["function"].update(arguments={}),
        ["messages[2].tool_calls[0].function.arguments: must be a string, not an object"],
    ),
    (lambda b: b.update(tool_choice="any"), ["tool_choice: 'any' is not one of none, auto, required"]),
    (
        lambda b: b["tools"].append({"name": "x"}),
        [
            "tools[1].function: required key is missing",
            "tools[1].type: required key is missing",
            "tools[1].name: unknown key",
        ],
    ),
    (
        lambda b: b.update(thinking={"type": "adaptive"}),
        ["thinking.type: 'adaptive' is not one of enabled, disabled"],
    ),
    (
        lambda b: b["messages"][3].update(content=[{"type": "image_url", "image_url": {"url": "data:,"}}]),
        [
            "messages[3].content[0].text: required key is missing",
            "messages[3].content[0].type: 'image_url' is not one of text",
            "messages[3].content[0].image_url: unknown key",
        ],
    ),
    # pairing
    (lambda b: b.update(messages=[]), ["messages: [] is too short"]),
    (lambda b: b["messages"].pop(4), ["messages[2].tool_calls[1]: no tool message for tool call 'a2'"]),
    (
        lambda b: b["messages"].insert(4, USER),
        [
            "messages[4]: tool call 'a2' (messages[2].tool_calls[1]) must be answered before any other message",
            "messages[5].tool_call_id: no tool call 'a2' in the assistant message before",
        ],
    ),
    (chat_ending(answering("z")), ["messages[1].tool_call_id: no tool call 'z' in the assistant message before"]),
    (
        chat_ending(calling("z"), answering("z"), answering("z")),
        ["messages[3].tool_call_id: tool call 'z' is answered already"],
    ),
    (
        chat_ending(calling("z", "z"), answering("z")),
        ["messages[1].tool_calls[1].id: tool call id 'z' is used twice (first at messages[1].tool_calls[0].id)"],
    ),
    (chat_ending(calling(content="a")), ["messages[1].tool_calls: [] is too short"]),
    (
        chat_ending({"role": "assistant", "content": None}),
        ["messages[1].content: an assistant message needs content or tool_calls"],
    ),
    (
        chat_ending(calling("z", arguments="3"), answering("z")),
        ["messages[1].tool_calls[0].function.arguments: is JSON but no object: '3'"],
    ),
    (
        chat_ending(calling("z", arguments=""), answering("z")),
        ["messages[1].tool_calls[0].function.arguments: is no JSON: ''"],
    ),
    (
        chat_ending(calling("z", name="a/b"), answering("z")),
        ["messages[1].tool_calls[0].function.name: 'a/b' does not match ^[a-zA-Z0-9_-]{1,64}$"],
    ),
    # tools and the rest
    (lambda b: (b.update(tools=[]), b.pop("tool_choice")), ["tools: [] is too short"]),
    (lambda b: b.pop("tools"), ["tool_choice: not allowed without tools"]),
    (
        lambda b: b["tools"].append(CHAT_TOOL),
        ["tools[1].function.name: tool name 'grep' is used twice (first at tools[0].function.name)"],
    ),
    (
        lambda b: b.update(tool_choice={"type": "function", "function": {"name": "nope"}}),
        ["tool_choice.function.name: no tool 'nope' in tools (there are: grep)"],
    ),
    (
        lambda b: b.update(max_tokens=1, max_completion_tokens=1),
        ["max_tokens: not together with max_completion_tokens"],
    ),
    (lambda b: b.update(stream_options={"include_usage": True}), ["stream_options: only allowed where stream is true"]),
]

CASES = [
    pytest.param(wire, change, problems, id=f"{wire}-{problems[0].replace(' ', '_')[:60]}")
    for wire, cases in (("messages", MESSAGES_CASES), ("responses", RESPONSES_CASES), ("chat", CHAT_CASES))
    for change, problems in cases
]


@pytest.mark.parametrize(("wire", "change", "problems"), CASES)
async def test_a_wrong_body_is_refused_with_the_exact_text(wire, change, problems):
    async with provider() as p:
        answer = await post(p, PATHS[wire], changed(wire, change))
        assert p.problems == [f"POST {PATHS[wire]}: {problem}" for problem in problems]
        assert p.requests[0].problems == problems
    message = "; ".join(problems)
    expected = {
        "messages": {"type": "error", "error": {"type": "invalid_request_error", "message": message}},
        "responses": {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}},
    }
    assert (answer.status_code, answer.json()) == (400, expected.get(wire, expected["responses"]))


@pytest.mark.parametrize("wire", list(BODIES))
async def test_a_right_body_passes(wire):
    async with provider() as p:
        assert (await post(p, PATHS[wire], BODIES[wire])).status_code == 200
        assert p.problems == []


async def test_an_id_may_come_again_in_a_later_round():
    turns = [said("assistant", call("d")), said("user", result("d"))]
    async with provider() as p:
        assert (await post(p, PATHS["messages"], changed("messages", ending(*turns, *turns)))).status_code == 200
        again = [calling("d"), answering("d")]
        assert (await post(p, PATHS["chat"], changed("chat", chat_ending(*again, *again)))).status_code == 200
        more = [function_call(), output()]
        assert (await post(p, PATHS["responses"], changed("responses", items(*more, *more)))).status_code == 200


async def test_vendor_keys_of_chat_completions_are_known():
    body = changed("chat", lambda b: b["messages"][2].update(reasoning_content="why"))
    async with provider() as p:
        answer = await post(p, PATHS["chat"], body | {"thinking": {"type": "enabled", "clear_thinking": False}})
    assert answer.status_code == 200


async def test_strictness_can_be_lowered():
    unknown = changed("chat", lambda b: b.update(mystery=1))
    unpaired = changed("chat", lambda b: b["messages"].pop())
    async with provider(strict="pairing") as p:
        codes = [(await post(p, PATHS["chat"], body)).status_code for body in (unknown, unpaired)]
    async with provider(strict=False) as p:
        codes += [(await post(p, PATHS["chat"], body)).status_code for body in (unknown, unpaired, {"messages": [3]})]
    assert codes == [200, 400, 200, 200, 400]


async def test_the_codex_backend_has_rules_of_its_own():
    async with provider() as p:
        path = "/backend-api/codex/responses"
        body = changed("responses", lambda b: (b.pop("instructions"), b.update(max_output_tokens=9, store=True)))
        answer = await post(p, path, body)
        assert [problem.removeprefix(f"POST {path}: ") for problem in p.problems] == [
            "headers.chatgpt-account-id: required header is missing",
            "store: must be false",
            "stream: must be true",
            "instructions: required",
            "max_output_tokens: unsupported parameter",
        ]
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("wire", "headers", "status", "problem"),
    [
        ("messages", {}, 401, "headers: no key (x-api-key or authorization: Bearer)"),
        ("chat", {}, 401, "headers: no key (authorization: Bearer)"),
        ("responses", {"authorization": "Basic x"}, 401, "headers.authorization: the scheme must be Bearer, not Basic"),
        ("responses", {"authorization": "Bearer bad"}, 401, "headers: invalid key"),
        ("messages", {"x-api-key": "bad"}, 401, "headers: invalid key"),
        ("messages", {"x-api-key": "k"}, 400, "headers.anthropic-version: required header is missing"),
        (
            "messages",
            {"authorization": "Bearer sk-ant-oat01-x", "anthropic-version": "2023-06-01"},
            400,
            "headers.anthropic-beta: an OAuth token needs oauth-2025-04-20",
        ),
        (
            "chat",
            {"authorization": "Bearer k", "content-type": "text/plain"},
            400,
            "headers.content-type: must be application/json, not 'text/plain'",
        ),
    ],
)
async def test_headers(wire, headers, status, problem):
    async with provider() as p:
        answer = await post(p, PATHS[wire], BODIES[wire], {"content-type": "application/json", **headers})
        assert p.problems == [f"POST {PATHS[wire]}: {problem}"]
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("body", "start"),
    [(b"{", "the body is no JSON: "), (b"[]", "the body must be a JSON object"), (b"", "the body is no JSON: ")],
)
async def test_bodies_that_are_no_request(body, start):
    async with provider() as p:
        answer = await post(p, PATHS["chat"], body, {"content-type": "application/json", **HEADERS})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(start)
