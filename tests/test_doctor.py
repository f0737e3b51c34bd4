"""`geode doctor`: what a config needs and whether it is there, with names of credentials and never their values."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from geode import cli

SECRET = "sk-test-0123456789abcdef0123456789"


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("ANTHROPIC_API_KEY", "ZAI_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def doctor(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, list[str]], str]:
    """Exit code, `STATUS message` lines by check, and all that was printed."""
    capsys.readouterr()
    code = cli.main(["doctor", "--json", *words])
    out = capsys.readouterr().out
    found: dict[str, list[str]] = {}
    for finding in json.loads(out):
        assert set(finding) == {"check", "status", "message", "action"}
        assert (finding["action"] == "") == (finding["status"] == "OK")
        found.setdefault(finding["check"], []).append(f"{finding['status']} {finding['message']}")
    return code, found, out


def test_the_default_config_needs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = doctor(capsys)
    assert code == 0
    assert found["config"] == ["OK the config is valid"]
    assert "OK adapter scripted: needs no credential" in found["credential"]
    assert "WARN adapter glm-payg: ZAI_API_KEY not set" in found["credential"]
    assert "WARN claude is not on PATH" in found["binary"]
    assert any(line.startswith("OK ") and "tool definitions" in line for line in found["data"])
    assert any(line.startswith("OK pydantic ") for line in found["package"])


def test_a_credential_is_told_by_name_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found, _ = doctor(capsys, "adapter=glm-payg")
    assert code == 1
    assert found["credential"][0].startswith("FAIL adapter glm-payg: set the environment variable ZAI_API_KEY")
    monkeypatch.setenv("ZAI_API_KEY", SECRET)
    code, found, out = doctor(capsys, "adapter=glm-payg")
    assert code == 0
    assert found["credential"][0] == "OK adapter glm-payg: ZAI_API_KEY is set"
    assert SECRET not in out
    code, found, _ = doctor(capsys, "adapter=openai-payg", "provider=scripted")
    assert (code, found["credential"][0]) == (0, "OK adapter openai-payg: scripted: no credential is used")


def test_a_bad_config_is_a_failure_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = doctor(capsys, "budget.max_round=3")
    assert code == 1
    assert len(found["config"]) == 1
    assert found["config"][0].startswith("FAIL budget.max_round: unknown key")


def test_binaries_servers_and_folders(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("claude", "there"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    servers = (
        "mcp.servers={a: {command: there, env_names: [NOT_SET_HERE]}, b: {command: gone, required: true}, "
        "c: {command: gone}, d: {command: python, args: [-m, no_such_module]}, e: {command: python, args: [-m, json]}}"
    )
    code, found, _ = doctor(capsys, "adapter=claude-cli", servers, "task.workspace=nowhere")
    assert code == 1
    assert found["binary"] == [f"OK claude: {tmp_path / 'bin' / 'claude'}", "WARN codex is not on PATH"]
    assert found["mcp"] == [
        f"OK a: {tmp_path / 'bin' / 'there'}",
        "WARN a: NOT_SET_HERE not set",
        "FAIL b: gone is not on PATH",
        "WARN c: gone is not on PATH",
        "WARN d: no_such_module is not installed",
        f"OK e: {sys.executable}",
    ]
    assert found["folder"][-1] == "FAIL workspace: no folder nowhere"
    assert doctor(capsys, "adapter=codex-cli")[1]["binary"][1] == "FAIL codex is not on PATH"


def test_prices_and_windows(capsys: pytest.CaptureFixture[str]) -> None:
    local = ("adapter=openai-compatible", "adapter.base_url=http://localhost:1/v1", "adapter.model=my-own-model")
    _, found, _ = doctor(capsys, *local)
    assert found["price"] == ["WARN the price of my-own-model is unknown: its calls count as free"]
    assert doctor(capsys, *local, "budget.cost_budget=1")[1]["price"] == ["FAIL the price of my-own-model is unknown"]
    known = "pricing.overrides={my-own-model: {input_mtok: 1, output_mtok: 2}}"
    assert doctor(capsys, *local, known)[1]["price"] == ["OK the price of my-own-model is known"]
    _, found, _ = doctor(capsys, *local, "pricing.windows={my-own-model: 32000}")
    assert found["window"] == ["OK the context window of my-own-model is 32,000 tokens"]


def test_the_sandbox_and_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    _, found, _ = doctor(capsys, "safety.sandbox.mode=none")
    assert found["sandbox"] == ["WARN commands run without one (safety.sandbox.mode=none)"]
    code, found, _ = doctor(capsys, "safety.sandbox.mode=bwrap")
    assert found["sandbox"] == ["FAIL bubblewrap (bwrap) is not installed"]
    assert code == 1
    assert found["terminal"] == ["WARN standard input is none: calls that need approval are denied"]


def test_lines_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.split()[0] in ("OK", "WARN") for line in lines[:-1])
    assert lines[-1].endswith(" · 0 FAIL]")
    assert any(" -> only for adapter=codex-cli" in line for line in lines)
