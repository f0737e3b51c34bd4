"""MCP servers in runs: through the public entry and the `geode` command."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_kit import RunGeode, clean_environ
from loop_kit import play, turn
from mcp_kit import RAW, gone

from geode.config_errors import ConfigFault
from geode.hooks import Event


def server(*words: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(RAW), *words], "auto_approve": True, **more}


def given(*words: str, **more: Any) -> str:
    """The same as an override of the command line."""
    values = server(*words, **more).items()
    return "{" + ",".join(f"{key}:{json.dumps(value)}" for key, value in values) + "}"


async def test_tools_of_a_server_are_called_and_a_changed_list_reaches_the_next_request(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [
            turn(None, ("raw__echo", {"text": "hi"}), ("raw__files.read", {}), ("raw__place", {"point": {"y": 1}})),
            turn(None, "raw__grow"),
            turn(None, "raw__grown_15"),
            turn("done"),
        ],
        "chat",
        mcp__servers={"raw": server()},
        toolset={"include": ["raw__*"], "exclude": []},
    )
    first, *_, third = [[tool["function"]["name"] for tool in body["tools"]] for body in run.bodies[:3]]
    assert first[:4] == ["recall_tool_result", "raw__echo", "raw__env", "raw__files_read"]
    assert third == [*first, "raw__grown_15"]
    results = [r for message in run.history for r in message.tool_results]
    assert [(r.text, r.is_error) for r in results if not r.text.startswith("Invalid")] == [
        *(("hi", False), ("files.read", False)),
        (results[2].text, True),
        *(("grown", False), ("grown_15", False)),
    ]
    assert "'x' is a required property" in results[2].text
    assert run.of(Event.SESSION_STARTED)[0].tools[1] == "raw__echo"


async def test_without_auto_approval_a_tool_is_write_or_dangerous_and_asked_about(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [turn(None, ("raw__echo", {"text": "hi"}), "raw__wipe"), turn("done")],
        mcp__servers={"raw": server(auto_approve=False)},
        safety__tiers={"safe": "allow", "expensive": "ask", "write": "ask", "dangerous": "ask"},
    )
    denied = [(d.tool, d.tier, d.by) for d in run.of(Event.TOOL_APPROVAL_DENIED)]
    assert denied == [("raw__echo", "write", "no_terminal"), ("raw__wipe", "dangerous", "no_terminal")]
    assert run.reason == "natural"


async def test_a_call_that_is_not_answered_in_time_is_an_error_result(tmp_path: Path) -> None:
    run = await play(
        tmp_path,
        [turn(None, "raw__hang"), turn(None, ("raw__echo", {"text": "on"})), turn("done")],
        mcp__servers={"raw": server(timeout_s=0.2)},
    )
    results = [r for message in run.history for r in message.tool_results]
    assert [r.is_error for r in results] == [True, False]
    assert "0.2 s" in results[0].text
    assert results[1].text == "on"


async def test_a_server_that_does_not_start_is_a_notice_or_a_fault(tmp_path: Path) -> None:
    servers = {"bad": server("dies"), "unset": server(env_names=["GEODE_TEST_UNSET"])}
    run = await play(
        tmp_path,
        [turn("done")],
        mcp__servers=servers,
        toolset={"include": ["long", "bad__*"], "exclude": ["unset__one"]},
        tools__retier={"bad__wipe": "dangerous"},
    )
    assert [(n.message, n.override) for n in run.result.notices if n.key.startswith("mcp:")] == [
        (
            "MCP server unset could not be started: environment variable GEODE_TEST_UNSET is not set; "
            "the run goes on without its tools",
            "mcp.servers.unset.required=true",
        ),
        (
            "MCP server bad could not be started: it ended before it answered (exit status 1): no licence found; "
            "the run goes on without its tools",
            "mcp.servers.bad.required=true",
        ),
    ]
    with pytest.raises(ConfigFault) as fault:
        await play(tmp_path, [turn("done")], mcp__servers={"bad": server("dies", required=True), "good": server()})
    assert fault.value.lines == (
        "mcp.servers.bad: could not be started: it ended before it answered (exit status 1): no licence found "
        "(required: true)",
    )


async def test_names_that_clash_without_prefix_are_a_fault_that_names_both(tmp_path: Path) -> None:
    servers = {name: server(prefix=False, include=["env"]) for name in ("one", "two")}
    with pytest.raises(ConfigFault) as fault:
        await play(tmp_path, [turn("done")], mcp__servers=servers)
    assert fault.value.lines == ("mcp.servers.two: tool 'env': mcp:one has a tool of this name too",)


def test_a_required_server_that_fails_is_exit_code_2(geode: RunGeode) -> None:
    ran = geode(f"+mcp.servers.bad={given('dies', required=True)}", f"+mcp.servers.good={given()}")
    assert ran.code == 2
    assert ran.faults == [
        "mcp.servers.bad: could not be started: it ended before it answered (exit status 1): no licence found "
        "(required: true)"
    ]
    assert (ran.run_dir() / "mcp" / "bad.log").read_text() == "no licence found\n"


def test_values_of_variables_that_a_server_gets_are_masked_in_the_run_folder(geode: RunGeode, tmp_path: Path) -> None:
    calls = [{"name": "raw__env", "input": {"name": "SHOUTED"}}, {"name": "raw__shout"}]
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump({"turns": [{"tool_calls": calls}, {"text": "It is {{ results[0].text }}."}]}))
    ran = geode(
        f"adapter.script={script}",
        f"+mcp.servers.raw={given(env_names=['SHOUTED'])}",
        *("task=question", "task.prompt=any"),
        env={"SHOUTED": "very-hidden-value"},
    )
    assert ran.code == 0
    files = {path.name: path.read_text() for path in ran.run_dir().rglob("*") if path.is_file()}
    assert "It is ***." in files["result.json"]
    assert files["raw.log"].startswith("first *** line\n")
    assert [name for name, text in files.items() if "very-hidden-value" in text] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_no_process_is_left_when_a_run_is_interrupted(tmp_path: Path, number: int) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump({"turns": [{"tool_calls": [{"name": "raw__hang"}]}, {"text": "never"}]}))
    command = [sys.executable, "-m", "geode.cli", f"adapter.script={script}", f"+mcp.servers.raw={given('child')}"]
    process = subprocess.Popen(
        [*command, "task=question", "task.prompt=any", "hydra.run.dir=run"],
        cwd=tmp_path,
        env=clean_environ(),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    journal = tmp_path / "run" / "journal.jsonl"
    while not journal.exists() or "TOOL_EXEC_STARTED" not in journal.read_text():
        assert process.poll() is None
        await asyncio.sleep(0.02)
    children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    grandchildren = [
        int(pid) for child in children for pid in Path(f"/proc/{child}/task/{child}/children").read_text().split()
    ]
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert len(grandchildren) == 1
    assert [await gone(pid) for pid in (*children, *grandchildren)] == [True, True]
