"""run_bash and the sandbox under it, without isolation and with bubblewrap."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from geode.contract import Notice
from geode.tools.bubblewrap import bwrap_fault
from geode.tools.handlers import BUILTIN_HANDLERS
from geode.tools.sandbox import SandboxOptions, sandbox_fault, scrubbed_environ
from geode.tools.types import ToolContext, ToolError

needs_bwrap = pytest.mark.skipif(bwrap_fault() is not None, reason=str(bwrap_fault()))
MODES = ["none", pytest.param("bwrap", marks=needs_bwrap)]


async def run(
    command: str,
    workspace: Path,
    *,
    environ: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    **sandbox: Any,
) -> dict[str, Any]:
    environ = {"PATH": os.environ["PATH"], **(environ or {})}
    context = ToolContext(workspace, environ=environ, limits={"sandbox": {"mode": "none", **sandbox}})
    result: dict[str, Any] = await BUILTIN_HANDLERS["run_bash"](command=command, context=context, timeout_s=timeout_s)
    return result


def alive(mark: str) -> list[str]:
    """Command lines of processes that hold `mark` and are no zombies."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            if mark in line.split("\0"):
                found.append(line)
    return found


@pytest.mark.parametrize("mode", MODES)
async def test_result(tmp_path: Path, mode: str) -> None:
    (tmp_path / "f").touch()
    assert await run("pwd; ls; echo oops >&2; exit 3", tmp_path, mode=mode) == {
        "exit_code": 3,
        "stdout": f"{tmp_path}\nf\n",
        "stderr": "oops\n",
        "stdout_bytes": len(str(tmp_path)) + 3,
        "stderr_bytes": 5,
        "truncated": False,
        "timed_out": False,
    }


@pytest.mark.parametrize("mode", MODES)
async def test_no_input_and_signals(tmp_path: Path, mode: str) -> None:
    assert (await run("cat; echo $?", tmp_path, mode=mode))["stdout"] == "0\n"
    assert (await run("kill -9 $BASHPID", tmp_path, mode=mode))["exit_code"] == 137


@pytest.mark.parametrize("mode", MODES)
async def test_output_keeps_head_and_tail(tmp_path: Path, mode: str) -> None:
    result = await run(
        "printf START; head -c 100000 /dev/zero | tr '\\0' x; printf END", tmp_path, mode=mode, output_bytes=40
    )
    assert result["stdout"] == "STARTxxxxx\n[... 99988 bytes left out ...]\nxxxxxxxEND"
    assert (result["stdout_bytes"], result["truncated"]) == (100008, True)


@pytest.mark.parametrize("mode", MODES)
async def test_timeout_ends_everything(tmp_path: Path, mode: str) -> None:
    nap = f"98{os.getpid()}.5"
    result = await run(f"echo begun; (setsid setsid sleep {nap} &); sleep {nap}", tmp_path, mode=mode, timeout_s=0.4)
    assert (result["exit_code"], result["timed_out"], result["stdout"]) == (None, True, "begun\n")
    assert result["note"] == "ended after 0.4 s, with everything it had started"
    assert alive(nap) == []


async def test_background_processes_end_with_the_command(tmp_path: Path) -> None:
    nap = f"97{os.getpid()}.5"
    result = await run(f"sleep {nap} & setsid sleep {nap} & disown -a; echo done", tmp_path)
    assert (result["exit_code"], result["stdout"]) == (0, "done\n")
    assert result["note"] == "2 processes that it had left in the background were ended with it"
    assert alive(nap) == []


@pytest.mark.parametrize("mode", MODES)
async def test_cancel_ends_everything(tmp_path: Path, mode: str) -> None:
    nap = f"96{os.getpid()}.5"
    task = asyncio.create_task(run(f"touch here; (setsid sleep {nap} &); sleep {nap}", tmp_path, mode=mode))
    while not (tmp_path / "here").exists():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(nap) == []


async def test_deadline_of_the_call_counts(tmp_path: Path) -> None:
    deadline = asyncio.get_running_loop().time() + 0.5
    context = ToolContext(tmp_path, deadline=deadline, limits={"sandbox": {"mode": "none"}})
    result = await BUILTIN_HANDLERS["run_bash"](command="sleep 60", context=context)
    assert result["timed_out"] is True
    assert asyncio.get_running_loop().time() < deadline + 5


async def test_limits_of_the_process(tmp_path: Path) -> None:
    result = await run(
        "head -c 5000 /dev/zero > big; wc -c < big; ulimit -v", tmp_path, file_bytes=1024, memory_bytes=2**30
    )
    assert result["stdout"] == "1024\n1048576\n"


def test_environment_is_an_allow_list() -> None:
    given = {
        "PATH": ".:/usr/bin::bin:/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "ANTHROPIC_API_KEY": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "HTTPS_PROXY": "http://u:p@h",
        "BASH_ENV": "/evil",
        "BASH_FUNC_ls%%": "() { rm; }",
        "LD_PRELOAD": "x",
        "MINE": "1",
    }
    assert scrubbed_environ(given, ("MINE",)) == {
        "PATH": "/usr/bin:/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "MINE": "1",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "DEBIAN_FRONTEND": "noninteractive",
    }


async def test_commands_that_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^the command holds a null byte$"):
        await run("echo \0", tmp_path)
    with pytest.raises(ToolError, match=r"^the command could not be started: .*Argument list too long"):
        await run("# " + "ü" * 100_000, tmp_path)


async def test_many_commands_side_by_side(tmp_path: Path) -> None:
    results = await asyncio.gather(*(run(f"echo {n}", tmp_path) for n in range(8)))
    assert [result["stdout"] for result in results] == [f"{n}\n" for n in range(8)]


async def test_auto_without_bubblewrap_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    bwrap_fault.cache_clear()
    try:
        notices: list[Notice] = []
        context = ToolContext(
            tmp_path, notify=notices.append, environ={"PATH": "/usr/bin:/bin"}, limits={"sandbox": {}}
        )
        assert (await BUILTIN_HANDLERS["run_bash"](command="echo x", context=context))["stdout"] == "x\n"
        assert notices == [
            Notice(
                "sandbox",
                "shell commands run without a sandbox (bubblewrap (bwrap) is not installed): "
                "they see the network and all files of this user",
                "safety.sandbox.mode=bwrap",
            )
        ]
        assert sandbox_fault(SandboxOptions(mode="bwrap")) == (
            "safety.sandbox.mode: bwrap is demanded, but bubblewrap (bwrap) is not installed "
            "(allowed: bwrap where it works, auto, none)"
        )
        context = ToolContext(tmp_path, environ={"PATH": "/usr/bin:/bin"}, limits={"sandbox": {"mode": "bwrap"}})
        with pytest.raises(ToolError, match="bwrap is demanded, but bubblewrap"):
            await BUILTIN_HANDLERS["run_bash"](command="echo x", context=context)
    finally:
        bwrap_fault.cache_clear()


@needs_bwrap
async def test_bubblewrap_isolates(tmp_path: Path) -> None:
    home = tmp_path / "home"
    workspace = home / "work"
    workspace.mkdir(parents=True)
    for name in (".ssh/id", ".aws/credentials", ".claude/x", ".codex/auth.json"):
        (home / name).parent.mkdir()
        (home / name).write_text("secret")
    (home / ".netrc").write_text("secret")
    (home / "plain").write_text("open")
    command = (
        "cat ~/.ssh/id ~/.aws/credentials ~/.claude/x ~/.codex/auth.json; cat ~/.netrc; "
        "touch /usr/x ~/x; echo in > made; ls /tmp | wc -l; "
        "tail -n +3 /proc/net/dev | cut -d: -f1; ls -d /proc/[0-9]* | wc -l"
    )
    result = await run(command, workspace, environ={"HOME": str(home)}, mode="bwrap")
    assert "secret" not in result["stdout"]
    assert result["stdout"].split()[1:2] == ["lo"]
    assert int(result["stdout"].split()[2]) < 10
    assert result["stderr"].count("No such file or directory") == 4
    assert (workspace / "made").read_text() == "in\n"
    assert not (home / "x").exists()
    assert not Path("/usr/x").exists()


@needs_bwrap
async def test_bubblewrap_hides_what_lies_inside_a_workspace_too(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id").write_text("secret")
    result = await run("cat .ssh/id; echo $?", tmp_path, environ={"HOME": str(tmp_path)}, mode="bwrap")
    assert result["stdout"] == "1\n"


async def test_nothing_is_left_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    nap = f"95{os.getpid()}.5"
    result = await run(f"(setsid sleep {nap} &); sleep 0.05; kill -9 $PPID; sleep {nap}", tmp_path, timeout_s=20)
    assert result["note"] == "ended: it killed the process that watched over it"
    end = time.monotonic() + 5
    while alive(nap) and time.monotonic() < end:
        await asyncio.sleep(0.01)
    assert alive(nap) == []
