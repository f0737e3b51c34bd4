"""The shipped safety policies, each in a whole run: decisions in the journal, denials with their override in the
result."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_kit import clean_environ
from tools_kit import run_config

TIERS = {"look": "safe", "fetch": "expensive", "save": "write", "wipe": "dangerous"}
RUN = ("task=question", "task.prompt=Go", "adapter.script=four.yaml", "tools.folders=[mine]", "display=quiet")
SCRIPT = """
name: four
turns:
  - tool_calls:
      - {name: look, input: {path: a}}
      - {name: fetch, input: {path: b}}
      - {name: save, input: {path: c}}
      - {name: wipe, input: {path: d}}
      - {name: fetch, input: {path: e}}
  - text: "{% for r in results %}{{ r.text }}{% if not loop.last %}|{% endif %}{% endfor %}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    mine = tmp_path / "mine"
    mine.mkdir()
    functions = "".join(f"def {name}(path): return '{name} ' + path\n" for name in TIERS)
    (mine / "four.py").write_text(functions)
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    (mine / "definitions.json").write_text(
        json.dumps([{"name": n, "description": n, "safety": tier, "input_schema": schema} for n, tier in TIERS.items()])
    )
    (tmp_path / "four.yaml").write_text(SCRIPT)
    return tmp_path


def outcome(run_dir: Path) -> tuple[list[str], list[tuple[str, str, str]], dict[str, str]]:
    """(first words of the results, decisions (tool, verdict, by), overrides of the denials by tool)."""
    result = json.loads((run_dir / "result.json").read_text())
    lines = [json.loads(line) for line in (run_dir / "journal.jsonl").read_text().splitlines()]
    decisions = [
        (line["tool"], line["event"].removeprefix("TOOL_APPROVAL_").lower(), line["by"])
        for line in lines
        if line.get("event") in ("TOOL_APPROVAL_GRANTED", "TOOL_APPROVAL_DENIED")
    ]
    denied = {
        notice["key"].split(":")[1]: notice["override"]
        for notice in result["notices"]
        if notice["key"].startswith("denied:")
    }
    return [text.partition(":")[0] for text in result["text"].split("|")], sorted(decisions), denied


def verdicts(**by: str) -> list[tuple[str, str, str]]:
    """Decisions on the five calls: `policy` and `user` grant, `-policy` and the like deny."""
    tools = [*TIERS, "fetch"]
    return sorted((t, "denied" if by[t].startswith("-") else "granted", by[t].lstrip("-")) for t in tools)


@pytest.mark.parametrize(
    ("safety", "results", "by", "overrides"),
    [
        (
            ["safety=interactive"],
            ["look a", "Denied", "Denied", "Denied", "Denied"],
            {"look": "policy", "fetch": "-no_terminal", "save": "-no_terminal", "wipe": "-no_terminal"},
            {f: f"safety.tiers.{TIERS[f]}=allow" for f in ("fetch", "save", "wipe")},
        ),
        (
            ["safety=headless"],
            ["look a", "fetch b", "save c", "Denied", "fetch e"],
            {"look": "policy", "fetch": "policy", "save": "policy", "wipe": "-policy"},
            {"wipe": "safety.tiers.dangerous=allow"},
        ),
        (
            ["safety=read_only"],
            ["look a", "fetch b", "Denied", "Denied", "fetch e"],
            {"look": "policy", "fetch": "policy", "save": "-policy", "wipe": "-policy"},
            {"save": "safety.tiers.write=allow", "wipe": "safety.tiers.dangerous=allow"},
        ),
        (
            ["safety=permissive"],
            ["look a", "fetch b", "save c", "wipe d", "fetch e"],
            {"look": "policy", "fetch": "policy", "save": "policy", "wipe": "policy"},
            {},
        ),
        (
            [
                "safety=headless",
                "safety.tiers.dangerous=allow",
                "safety.rules=[{tool: 's*', approval: deny}, {tool: '*', arguments: {path: '^d'}, approval: deny}]",
            ],
            ["look a", "fetch b", "Denied", "Denied", "fetch e"],
            {"look": "policy", "fetch": "policy", "save": "-policy", "wipe": "-policy"},
            {"save": "safety.rules=[]", "wipe": "safety.rules=[]"},
        ),
        (
            ["safety=read_only", "tools.retier={save: safe}"],
            ["look a", "fetch b", "save c", "Denied", "fetch e"],
            {"look": "policy", "fetch": "policy", "save": "policy", "wipe": "-policy"},
            {"wipe": "safety.tiers.dangerous=allow"},
        ),
    ],
    ids=["interactive", "headless", "read_only", "permissive", "rules", "retier"],
)
async def test_a_policy_in_a_run(
    folder: Path, safety: list[str], results: list[str], by: dict[str, str], overrides: dict[str, str]
) -> None:
    run_dir = await run_config(folder, *RUN, *safety)
    assert outcome(run_dir) == (results, verdicts(**by), overrides)


@pytest.mark.parametrize("override", ["safety.tiers.dangerous=allow", "safety.rules=[]"])
async def test_the_override_that_a_denial_names_changes_it(folder: Path, override: str) -> None:
    denying = ["safety=permissive", "safety.rules=[{tool: wipe, approval: deny}]"]
    words = ["safety=headless"] if override.startswith("safety.tiers") else denying
    kept = [word for word in words if word.partition("=")[0] != override.partition("=")[0]]
    run_dir = await run_config(folder, *RUN, *kept, override)
    assert outcome(run_dir)[0][3] == "wipe d"


def test_a_person_at_the_terminal_of_a_run(folder: Path) -> None:
    """`geode` in a terminal: one question for both expensive calls, then one each for write and dangerous."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "geode.cli", *RUN],
        cwd=folder,
        env=clean_environ(None),
        stdin=slave,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(slave)
    seen, answers = "", ["y\n", "n too risky\n", "a\n"]
    try:
        while answers:
            seen += os.read(master, 4096).decode()
            if seen.count("Allow?") > 3 - len(answers) and seen.endswith("): "):
                os.write(master, answers.pop(0).encode())
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert "The model wants to run 2 expensive calls:" in seen
    (run_dir,) = folder.glob("outputs/*/*")
    results, decisions, denied = outcome(run_dir)
    assert results == ["look a", "fetch b", "Denied", "wipe d", "fetch e"]
    assert decisions == verdicts(look="policy", fetch="user", save="-user", wipe="user")
    assert denied == {"save": "safety.tiers.write=allow"}
    told: dict[str, Any] = json.loads((run_dir / "result.json").read_text())
    assert "save (write) was denied: too risky" in [notice["message"] for notice in told["notices"]]


def test_ctrl_c_at_a_question_ends_the_run_in_order(folder: Path) -> None:
    """The terminal is the process's own here, so that the key reaches it as a signal."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        argv = [sys.executable, "-m", "geode.cli", *RUN]
        os.execve(sys.executable, argv, clean_environ(None))
    seen = ""
    try:
        while not seen.endswith("): "):
            seen += os.read(master, 4096).decode()
        os.write(master, b"\x03")
        while True:  # a terminal that nobody reads blocks its writer
            try:
                if not os.read(master, 4096):
                    break
            except OSError:
                break
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(master)
    assert os.waitstatus_to_exitcode(status) == 130
    (run_dir,) = folder.glob("outputs/*/*")
    assert json.loads((run_dir / "result.json").read_text())["termination_reason"] == "user_cancelled"
    lines = [json.loads(line) for line in (run_dir / "journal.jsonl").read_text().splitlines()]
    failed = [line["error_type"] for line in lines if line.get("event") == "TOOL_EXEC_FAILED"]
    assert failed == ["CancelledError"] * 5
