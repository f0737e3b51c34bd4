"""`geode tools` and `geode tools check`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cli_kit import RunGeode

from geode.cli import main
from geode.commands import tools
from geode.config_errors import ConfigFault

OBJECT: Mapping[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def define(*entries: Mapping[str, Any], handlers: str = "def serve(**given): ...\n") -> str:
    """A folder with these tools, as an override; each one's handler takes anything."""
    folder = Path("mine")
    folder.mkdir()
    (folder / "definitions.json").write_text(json.dumps([{"description": "", "safety": "safe", **e} for e in entries]))
    names = ", ".join(f"{json.dumps(entry['name'])}: serve" for entry in entries)
    (folder / "handlers.py").write_text(handlers + f"HANDLERS = {{{names}}}\n")
    return "tools.folders=[mine]"


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert tools.main(["--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def faults(*words: str) -> tuple[str, ...]:
    with pytest.raises(ConfigFault) as caught:
        tools.main(["check", *words])
    return caught.value.lines


def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    folder = define({"name": "look", "input_schema": OBJECT}, {"name": "save", "input_schema": OBJECT})
    words = [folder, "toolset.include=[look,save]", "tools.result_tokens=0", "tools.retier={save: write}"]
    assert tools.main(words) == 0
    table, _, foot = capsys.readouterr().out.partition("\n\n")
    assert table.splitlines() == [
        "NAME  TIER   SOURCE  TOKENS  APPROVAL  DEFERRED",
        "look  safe   user    28      allow     no",
        "save  write  user    28      ask       no",
    ]
    assert foot.startswith("2 tools, about 56 tokens\nnot given to the model (toolset): glob_files, grep_files, ")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = listed(capsys, "toolset=read_only")
    assert [tool["name"] for tool in found["tools"]] == [
        "glob_files",
        "grep_files",
        "read_document",
        "calculate",
        "recall_tool_result",
    ]
    assert set(found["tools"][0]) == {"name", "tier", "source", "tokens", "approval", "rules", "deferred"}
    assert found["tokens"] == sum(tool["tokens"] for tool in found["tools"])
    assert "run_bash" in found["left_out"]


def test_what_is_denied_is_shown_so(capsys: pytest.CaptureFixture[str]) -> None:
    rules = (
        "safety.rules=[{tool: write_file, approval: allow}, {tool: 'web_*', approval: ask}, "
        "{tool: run_bash, arguments: {command: '\\brm\\b'}, approval: deny}, {tool: '*', arguments: {path: '^/'}, "
        "approval: deny}]"
    )
    found = {t["name"]: (t["approval"], t["rules"]) for t in listed(capsys, "safety=read_only", rules)["tools"]}
    assert found["write_file"] == ("allow", ["deny if path ~ '^/'"])
    assert found["edit_file"] == ("deny", ["deny if path ~ '^/'"])
    assert found["web_fetch"][0] == "ask"
    assert found["run_bash"] == ("deny", ["deny if command ~ '\\\\brm\\\\b'", "deny if path ~ '^/'"])


@pytest.mark.parametrize(
    ("adapter", "search"), [("anthropic-payg", False), ("scripted", True)], ids=["hosted", "geode's own"]
)
def test_what_is_loaded_on_demand(capsys: pytest.CaptureFixture[str], adapter: str, search: bool) -> None:
    found = listed(capsys, f"adapter={adapter}", "tools.defer_threshold=3", "tools.core=[calculate]")
    at_once = [tool["name"] for tool in found["tools"] if not tool["deferred"]]
    assert at_once == ["calculate", "recall_tool_result", *(["tool_search"] if search else [])]
    assert tools.main([f"adapter={adapter}", "tools.defer_threshold=3"]) == 0
    assert "on demand, the others about" in capsys.readouterr().out


def test_an_adapter_that_takes_no_tools(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys, "adapter=claude-cli")["note"] == "claude-cli takes text only: none of them is sent"


def test_no_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert tools.main(["check"]) == 0
    assert capsys.readouterr().out == "11 tools, no faults\n"


def test_faults_are_lines_and_the_code_is_2(geode: RunGeode, tmp_path: Path) -> None:
    define({"name": "look", "input_schema": {"type": "objekt"}}, handlers="def serve(): ...\nserve()\nimport nothing\n")
    ran = geode("tools", "check", "tools.folders=[mine]")
    assert (ran.code, ran.out, ran.faults) == (
        2,
        "",
        [
            "mine/definitions.json: tool 'look': input_schema is not a valid JSON Schema: at $.type: 'objekt' is not "
            "valid under any of the given schemas",
            "mine/handlers.py: cannot be imported: ModuleNotFoundError: No module named 'nothing'",
            "mine/definitions.json: tool 'look': there is no handler",
        ],
    )


def test_what_each_wire_drops_or_loosens(capsys: pytest.CaptureFixture[str]) -> None:
    folder = define(
        {"name": "none", "input_schema": {"not": {}}},
        {"name": "list", "input_schema": {"type": "array", "items": {"type": "integer"}}},
        {"name": "a.b", "input_schema": OBJECT},
        {"name": "odd", "input_schema": {"type": "object", "properties": {"not ok": {"type": "string"}}}},
    )
    assert faults(folder) == ("tool 'none': every wire: its schema cannot be sent: it accepts nothing",)
    assert capsys.readouterr().out.splitlines() == [
        "note: tool 'list': every wire: the root is no object: it goes as the property 'value' of one",
        "note: tool 'a.b': goes as 'a_b' on the wire",
        "note: tool 'odd': messages: the property 'not ok' goes by 'not_ok' on the wire",
    ]
    assert len(faults("--strict", folder)) == 4


def test_toolset_rules_and_alternatives_that_name_nothing() -> None:
    assert faults("toolset.include=[grep_flies]") == (
        "toolset.include: 'grep_flies' matches no tool; did you mean 'grep_files'?",
    )
    assert faults("tools.core=[calculat, 'read_*', 'x*']") == (
        "tools.core: 'calculat' matches no tool; did you mean 'calculate'?",
        "tools.core: 'x*' matches no tool",
    )
    rules = "safety.rules=[{tool: run_bsh, approval: deny}, {tool: run_bash, arguments: {comand: rm}, approval: deny}]"
    assert faults(rules) == (
        "safety.rules.0.tool: 'run_bsh' matches no tool; did you mean 'run_bash'?",
        "safety.rules.1.arguments.comand: 'run_bash' has no such argument; did you mean 'command'?",
    )
    assert faults("recovery.alternatives={grep_files: glob_flies}") == (
        "recovery.alternatives.grep_files: no tool is named 'glob_flies'; did you mean 'glob_files'?",
    )


def test_a_server_that_does_not_start() -> None:
    server = "mcp.servers={gone: {transport: stdio, command: geode-no-such-command}}"
    (line,) = faults(server)
    assert line.startswith("MCP server gone could not be started: ")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--strict"], "--strict: unknown flag here, allowed: --json, KEY=VALUE"),
        (["check", "--json"], "--json: unknown flag here, allowed: --strict, KEY=VALUE"),
    ],
)
def test_flags(words: list[str], line: str) -> None:
    with pytest.raises(ConfigFault) as caught:
        tools.main(words)
    assert caught.value.lines == (line,)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: geode tools [--json] [OVERRIDES]\n")
