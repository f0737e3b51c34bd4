"""`geode wire`: what it prints, for every adapter and override, and how two configs are compared."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cli_kit import RunGeode

from geode.cli import main
from geode.compose import compose_settings
from geode.config_errors import ConfigFault
from geode.provider.checks import semantic
from geode.provider.params import problems
from geode.wire import collect, requests_of
from geode.wire.diff import differences

HTTP = {
    "anthropic-payg": ("messages", "https://api.anthropic.com/v1/messages"),
    "anthropic-oauth": ("messages", "https://api.anthropic.com/v1/messages"),
    "openai-payg": ("responses", "https://api.openai.com/v1/responses"),
    "codex-oauth": ("responses", "https://chatgpt.com/backend-api/codex/responses"),
    "glm-payg": ("chat", "https://api.z.ai/api/paas/v4/chat/completions"),
    "glm-coding-plan": ("chat", "https://api.z.ai/api/coding/paas/v4/chat/completions"),
}
CHOICES: dict[str, tuple[Any, Any, Any]] = {
    "auto": ({"type": "auto"}, "auto", "auto"),
    "none": ({"type": "none"}, "none", "none"),
    "required": ({"type": "any"}, "required", "required"),
    "any": ({"type": "any"}, "required", "required"),
    "named tool_choice.name=grep_files": (
        {"type": "tool", "name": "grep_files"},
        {"type": "function", "name": "grep_files"},
        {"type": "function", "function": {"name": "grep_files"}},
    ),
}


def only(*words: str) -> dict[str, Any]:
    (request,) = requests_of(words).requests
    return request


@pytest.mark.parametrize(
    ("adapter", "choice"),
    [(a, c) for a in HTTP for c in CHOICES if c[:4] in ("requ", "name") or a == "glm-payg"],
)
def test_every_adapter_sends_every_choice(adapter: str, choice: str) -> None:
    wire, url = HTTP[adapter]
    request = only(f"+adapter={adapter}", *f"tool_choice={choice}".split())
    assert list(request) == ["method", "url", "headers", "body"]
    assert (request["method"], request["url"]) == ("POST", url)
    body = request["body"]
    assert body["tool_choice"] == CHOICES[choice][["messages", "responses", "chat"].index(wire)]
    assert body.get("parallel_tool_calls") == (True if wire == "responses" else None)
    assert len(body["tools"]) == 11
    assert problems(wire, body) == []  # type: ignore[arg-type]
    assert semantic(wire, body, url) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("adapter", ["anthropic-payg", "codex-oauth", "glm-payg"])
def test_without_tools_nothing_of_tools_is_sent(adapter: str) -> None:
    body = only(f"adapter={adapter}", "toolset=none")["body"]
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)


def test_the_headers_of_each_credential() -> None:
    masked = {name: only(f"adapter={name}")["headers"] for name in HTTP}
    common = {"accept": "application/json", "content-type": "application/json"}
    openai = {**common, "authorization": "Bearer ***", "user-agent": "AsyncOpenAI/Python"}
    anthropic = {**common, "user-agent": "AsyncAnthropic/Python"}
    for name in ("openai-payg", "glm-payg", "glm-coding-plan"):
        assert masked[name] == openai
    assert masked["codex-oauth"] == {**openai, "chatgpt-account-id": "***"}
    for name in ("anthropic-payg", "anthropic-oauth"):
        assert masked[name].pop("anthropic-version")
    assert masked["anthropic-payg"] == {**anthropic, "x-api-key": "***"}
    assert masked["anthropic-oauth"] == {
        **anthropic,
        "authorization": "Bearer ***",
        "anthropic-beta": "oauth-2025-04-20",
    }


@pytest.mark.parametrize("adapter", ["claude-cli", "codex-cli"])
def test_a_cli_is_described_by_names_only(adapter: str) -> None:
    found = requests_of([f"adapter={adapter}", "tool_choice=required", "task=question", "task.prompt=Why?"])
    (request,) = found.requests
    assert [key for key in request if key != "files"] == ["argv", "stdin", "env"]
    assert request["argv"][0] == adapter.removesuffix("-cli")
    assert request["stdin"] == "Why?"
    assert "PATH" in request["env"]
    assert all(isinstance(name, str) and "=" not in name for name in request["env"])
    assert [notice.key for notice in found.notices] == ["adapter.on_tools"]
    with pytest.raises(ConfigFault, match="text only: 11 tools and tool_choice required cannot be passed on"):
        requests_of([f"adapter={adapter}", "tool_choice=required", "adapter.on_tools=error"])


def test_the_scripted_adapter_shows_its_neutral_rendering() -> None:
    request = only("tool_choice=named", "tool_choice.name=grep_files")
    assert list(request) == ["adapter", "body"]
    assert request["body"]["tool_choice"] == {"type": "tool", "name": "grep_files"}
    assert [m["role"] for m in request["body"]["messages"]] == ["user"]


@pytest.mark.parametrize("adapter", ["anthropic-payg", "codex-oauth", "glm-payg", "scripted"])
async def test_several_rounds_grow_by_a_suffix(adapter: str) -> None:
    words = (f"adapter={adapter}", "wire.rounds=4")
    found = await collect(compose_settings(words))
    assert len(found.requests) == 4
    assert found.ended == ""
    key = "input" if "input" in found.requests[0]["body"] else "messages"
    arrays = [request["body"][key] for request in found.requests]
    for before, after in pairwise(arrays):
        assert after[: len(before)] == before
        assert len(after) > len(before)
    text = json.dumps(arrays[-1])
    assert "24 * 50" in text
    assert (await collect(compose_settings(words))).requests == found.requests
    if adapter in HTTP:
        wire, url = HTTP[adapter]
        for request in found.requests:
            assert problems(wire, request["body"]) == []  # type: ignore[arg-type]
            assert semantic(wire, request["body"], url) == []  # type: ignore[arg-type]


def test_a_forced_choice_holds_for_the_first_round_only() -> None:
    bodies = [r["body"] for r in requests_of(["adapter=glm-payg", "tool_choice=required", "wire.rounds=3"]).requests]
    assert [b["tool_choice"] for b in bodies] == ["required", "auto", "auto"]
    every = ["adapter=glm-payg", "tool_choice=required", "tool_choice.rounds=all", "wire.rounds=3"]
    assert [r["body"]["tool_choice"] for r in requests_of(every).requests] == ["required"] * 3


def test_the_wrap_up_round_is_shown() -> None:
    found = requests_of(["adapter=openai-payg", "budget.max_rounds=2", "wire.rounds=2"])
    assert [r["body"]["tool_choice"] for r in found.requests] == ["auto", "none"]
    assert [r["body"]["max_output_tokens"] for r in found.requests] == [8192, 4096]


def test_a_script_that_is_over_is_said(tmp_path: Path) -> None:
    script = tmp_path / "short.yaml"
    script.write_text("turns:\n  - tool_calls: [{name: grep_files, input: {pattern: x}}]\n  - text: done\n")
    found = requests_of(["adapter=glm-payg", f"provider.script={script}", "wire.rounds=5"])
    assert (len(found.requests), found.ended) == (2, "the conversation ended natural")
    assert found.requests[1]["body"]["messages"][-1]["content"] == '{"result": "geode wire runs no tools"}'


def test_results_come_from_the_script(tmp_path: Path) -> None:
    script = tmp_path / "results.yaml"
    script.write_text(
        "turns:\n"
        "  - tool_calls:\n"
        "      - {name: grep_files, input: {pattern: a}, result: plain}\n"
        "      - {name: grep_files, input: {pattern: b}, result: no such folder, failed: true}\n"
        "  - text: done\n"
    )
    words = ["adapter=anthropic-payg", f"provider.script={script}", "wire.rounds=2"]
    content = requests_of(words).requests[1]["body"]["messages"][-1]["content"]
    assert [(b["content"], b.get("is_error")) for b in content] == [("plain", None), ("no such folder", True)]


def test_day_folder_and_clock_are_frozen() -> None:
    status = "task.status='{{ date }} {{ seconds_left }} {{ round }}'"
    request = only("adapter=glm-payg", status, "task.system='In {{ workspace }}.'")
    system, user = request["body"]["messages"]
    assert system["content"] == "In /workspace."
    assert json.dumps(user["content"]).rstrip('"}]').endswith("2000-01-01 7200 1")


def test_no_handlers_are_needed(tmp_path: Path) -> None:
    definitions = tmp_path / "more.json"
    tool = {"name": "look.up", "description": "Looks up", "category": "x", "cost_tier": "free", "safety": "safe"}
    definitions.write_text(json.dumps([{**tool, "input_schema": {"type": "object", "properties": {}}}]))
    body = only("adapter=glm-payg", f"tools.definitions=[{definitions}]", "toolset.include=[look.up]")["body"]
    assert [t["function"]["name"] for t in body["tools"]] == ["recall_tool_result", "look_up"]
    assert list(body["tools"][1]["function"]) == ["name", "description", "parameters"]


def test_a_switch_of_adapters_is_followed_whole() -> None:
    rules = "switch.rules=[{adapter: glm-payg, after_rounds: 1}, {adapter: claude-cli, after_rounds: 2}]"
    found = requests_of(["adapter=openai-payg", rules, "wire.rounds=3"]).requests
    assert [next(iter(request)) for request in found] == ["method", "method", "argv"]
    assert [request["url"] for request in found[:2]] == [HTTP["openai-payg"][1], HTTP["glm-payg"][1]]
    roles = [message["role"] for message in found[1]["body"]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool"]
    assert "[tool call] read_document" in found[2]["stdin"]


def test_an_own_server_stands_without_its_port() -> None:
    assert only("adapter=local")["url"] == "http://127.0.0.1/v1/chat/completions"


def test_recipes_and_their_overrides() -> None:
    request = only("+recipe=budget-sweep", "adapter=glm-payg", "budget.max_rounds=1")
    assert request["url"] == HTTP["glm-payg"][1]


# -------------------------------------------------------------------------------------------------------- the command


def test_the_command_prints_json_and_leaves_nothing(geode: RunGeode) -> None:
    ran = geode(
        "wire", "+adapter=openai-payg", "tool_choice=required", env={"OPENAI_API_KEY": "sk-real-0123456789abcdef"}
    )
    assert (ran.code, ran.err) == (0, "")
    (request,) = json.loads(ran.out)
    assert request["body"]["tool_choice"] == "required"
    assert "sk-real" not in ran.out
    assert list(ran.folder.iterdir()) == []


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, list[str]]:
    """The command in this process: (exit code, output, faults and notes)."""
    code = main(["wire", *words])
    out, err = capsys.readouterr()
    return code, out, [line.removeprefix("geode: ") for line in err.splitlines()]


def test_faults_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, faults = run(capsys, "adapter=glm-pay", "tool_choice=forced")
    assert (code, out) == (2, "")
    assert [line.split(",")[0] for line in faults] == ["adapter: given 'glm-pay'", "tool_choice: given 'forced'"]
    code, out, faults = run(capsys, "adapter=glm-payg", "tool_choice=named", "tool_choice.name=grep_file")
    assert (code, out) == (2, "")
    assert faults[0].endswith("nearest: grep_files")
    code, out, faults = run(capsys, "adapter=glm-payg", "tool_choice=required", "tool_choice.on_unsupported=error")
    assert (code, out, len(faults)) == (2, "", 1)


def test_notes_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, notes = run(capsys, "adapter=glm-payg", "tool_choice=required")
    assert (code, json.loads(out)[0]["body"]["tool_choice"]) == (0, "required")
    assert notes == [
        "note: tool_choice required is sent although the backend of glm-payg declares that it does not take it "
        "(tool_choice.on_unsupported=degrade)"
    ]


def test_two_configs_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    same = run(capsys, "--diff", "adapter=glm-payg", "+adapter=glm-payg", "task=question", "task.prompt=Hi")
    assert same == (0, "", [])
    code, out, _ = run(capsys, "--diff", "adapter=glm-payg", "adapter=glm-payg tool_choice=none adapter.seed=7")
    assert code == 1
    assert out.splitlines() == ['~ [0].body.tool_choice: "auto" -> "none"', "+ [0].body.seed: 7"]
    assert run(capsys, "--diff", "adapter=glm-payg", "adapter=nope")[:2] == (2, "")
    assert run(capsys, "--diff", "adapter=glm-payg")[:2] == (2, "")


def test_a_config_is_compared_with_a_saved_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    saved.write_text(run(capsys, "adapter=anthropic-payg")[1])
    assert run(capsys, "--diff", str(saved), "adapter=anthropic-payg") == (0, "", [])
    code, out, _ = run(capsys, "--diff", str(saved), "adapter=anthropic-payg adapter.model=other")
    assert (code, out) == (1, '~ [0].body.model: "claude-sonnet-5-5" -> "other"\n')
    missing = run(capsys, "--diff", "nope.json", "adapter=anthropic-payg")
    assert missing == (2, "", ["--diff: cannot read 'nope.json': No such file or directory"])


def test_differences_by_path() -> None:
    tool = {"name": "a", "input_schema": {"type": "object"}}
    left = [{"body": {"a": 1, "b": [1, 2], "tools": [tool, {**tool, "name": "b"}]}}]
    right = [{"body": {"b": [1], "a": 1.0, "tools": [{**tool, "name": "b"}, {**tool, "input_schema": {}}], "c": None}}]
    assert differences(left, right) == [
        "~ [0].body.a: 1 -> 1.0",
        "- [0].body.b[1]: 2",
        '- [0].body.tools[a].input_schema.type: "object"',
        "* [0].body.tools: another order: a, b -> b, a",
        "+ [0].body.c: null",
        "* [0].body: keys in another order: a, b, tools -> b, a, tools",
    ]
    long = "x" * 300
    (line,) = differences({"t": long + "1"}, {"t": long + "2"})
    assert line == f'~ t: ..."{"x" * 40}1" -> ..."{"x" * 40}2"'
