"""Running a command line: what it sees, how it ends, and that nothing is left. Small fake programs play it."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from geode.adapters.cli_process import BASE_ENV, CliRunner, Command, events, failure_text
from geode.contract import AdapterError, ErrorKind

PATH = {"PATH": os.environ["PATH"]}
FILES = {"note.txt": "né"}


def program(folder: Path, body: str) -> str:
    """A program from Python text."""
    path = folder / "fake"
    path.write_text(f"#!{sys.executable}\nimport json, os, signal, subprocess, sys, time\n{body}\n")
    path.chmod(0o755)
    return str(path)


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


async def gone(pid: int) -> bool:
    for _ in range(400):
        if not alive(pid):
            return True
        await asyncio.sleep(0.01)
    return False


async def pid_in(path: Path) -> int:
    for _ in range(2000):
        if path.exists() and path.read_text().strip():
            return int(path.read_text())
        await asyncio.sleep(0.01)
    raise AssertionError("the program never started")


def runner(environ: dict[str, str] | None = None) -> CliRunner:
    return CliRunner("fake-cli", PATH if environ is None else environ, "get it somewhere")


async def test_input_output_environment_and_files(tmp_path: Path) -> None:
    fake = program(
        tmp_path,
        "sys.stderr.write('careful')\n"
        "path = sys.argv[2]\n"
        "print(json.dumps({'argv': sys.argv[1:2], 'stdin': sys.stdin.read(), 'env': dict(os.environ),"
        " 'cwd': os.listdir('.'), 'file': open(path).read(), 'mode': os.stat(path).st_mode & 0o777,"
        " 'folder': os.path.dirname(path), 'group': os.getpgid(0) == os.getpid()}))\n"
        "sys.exit(3)",
    )
    environ = {**PATH, "HOME": "/h", "KEPT": "k", "OTHER_SECRET": "o", "OPENAI_API_KEY": "sk"}
    command = Command((fake, "-x", "{note.txt}"), "héllo\n" * 20000, {"SET": "1"}, ("KEPT", "MISSING"), FILES)
    done = await runner(environ).run(command, 20)
    (seen,) = [e for e in events(done.stdout) if isinstance(e, dict)]
    assert done.status == 3
    assert done.stderr == "careful"
    assert seen["argv"] == ["-x"]
    assert seen["stdin"] == "héllo\n" * 20000
    seen["env"].pop("LC_CTYPE", None)  # Python's own
    assert seen["env"] == {**PATH, "HOME": "/h", "KEPT": "k", "SET": "1"}
    assert seen["cwd"] == []
    assert (seen["file"], seen["mode"], seen["group"]) == ("né", 0o600, True)
    assert not Path(seen["folder"]).exists()
    assert command.described() == {
        "argv": [fake, "-x", "{note.txt}"],
        "stdin": "héllo\n" * 20000,
        "env": sorted({*BASE_ENV, "SET", "KEPT", "MISSING"}),
        "files": {"note.txt": "né"},
    }


async def test_a_program_that_does_not_read_its_input(tmp_path: Path) -> None:
    done = await runner().run(Command((program(tmp_path, "print('{}')"),), "x" * 5_000_000), 20)
    assert (done.status, done.stdout) == (0, "{}\n")


async def test_missing_program() -> None:
    with pytest.raises(AdapterError) as caught:
        await runner().run(Command(("no-such-program-at-all",), ""), 5)
    assert caught.value.kind is ErrorKind.PROCESS
    assert str(caught.value) == (
        "fake-cli: no program 'no-such-program-at-all' on PATH: get it somewhere, or set adapter.command to its path"
    )
    assert not caught.value.retryable


async def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    path = tmp_path / "fake"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(AdapterError) as caught:
        await runner().run(Command((str(path),), ""), 5)
    assert caught.value.kind is ErrorKind.PROCESS
    assert "cannot be started" in caught.value.message


@pytest.mark.parametrize("deaf", [False, True])
async def test_timeout_ends_the_whole_group(tmp_path: Path, deaf: bool) -> None:
    """Also a program that ignores the request to end, with a child of its own."""
    child = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    fake = program(
        tmp_path,
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if deaf else "")
        + f"child = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        f"sys.stderr.write('waiting for the network'); sys.stderr.flush()\n"
        f"open({str(tmp_path / 'pids')!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)",
    )
    with pytest.raises(AdapterError) as caught:
        await runner().run(Command((fake,), "hi"), 2)
    assert caught.value.kind is ErrorKind.TIMEOUT
    assert caught.value.message == "no answer within 2 s, so it was ended: waiting for the network"
    leader, follower = map(int, (tmp_path / "pids").read_text().split())
    assert await gone(leader)
    assert await gone(follower)


async def test_cancel_ends_the_whole_group(tmp_path: Path) -> None:
    fake = program(
        tmp_path,
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\n"
        f"open({str(tmp_path / 'leader')!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(600)",
    )
    task = asyncio.create_task(runner().run(Command((fake,), "hi"), 60))
    leader, child = await pid_in(tmp_path / "leader"), await pid_in(tmp_path / "child")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(leader)
    assert await gone(child)


async def test_a_child_left_behind_ends_with_its_parent(tmp_path: Path) -> None:
    """The child holds the output open, which must not hold up the answer."""
    fake = program(
        tmp_path,
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\n"
        "print('{\"done\": true}')",
    )
    async with asyncio.timeout(20):
        done = await runner().run(Command((fake,), ""), 0)
    assert (done.status, list(events(done.stdout))) == (0, [{"done": True}])
    assert await gone(int((tmp_path / "child").read_text()))


async def test_aclose_ends_what_runs(tmp_path: Path) -> None:
    fake = program(tmp_path, f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)")
    own = runner()
    task = asyncio.create_task(own.run(Command((fake,), ""), 60))
    pid = await pid_in(tmp_path / "pid")
    await own.aclose()
    await own.aclose()
    assert (await task).status == -9
    assert await gone(pid)


async def test_stderr_is_bounded(tmp_path: Path) -> None:
    fake = program(tmp_path, "sys.stderr.write('x' * 3_000_000 + 'the end')\nprint('{}')")
    done = await runner().run(Command((fake,), ""), 20)
    assert len(done.stderr) == 16 * 1024
    assert done.stderr.endswith("xthe end")


async def test_lines_come_as_they_are_written(tmp_path: Path) -> None:
    fake = program(tmp_path, "sys.stdout.write('{\"a\": 1}\\nnoise\\n{\"b\"'); sys.stdout.flush()\nprint(': 2}')")
    lines: list[str] = []
    await runner().run(Command((fake,), ""), 20, lines.append)
    assert lines == ['{"a": 1}', "noise", '{"b": 2}']


async def test_many_at_once(tmp_path: Path) -> None:
    fake = program(tmp_path, "print(sys.stdin.read())")
    own = runner()
    done = await asyncio.gather(*(own.run(Command((fake,), str(n)), 60) for n in range(5)))
    assert [d.stdout for d in done] == ["0\n", "1\n", "2\n", "3\n", "4\n"]


def test_events() -> None:
    assert list(events('{"a": 1}\r\nwarning: old runtime\n\n{"cut": \n[1]\n')) == [{"a": 1}, '{"cut":']


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"exit_status": 0}, "x ended with exit status 0 and no answer"),
        ({"exit_status": 2, "stderr": "bad\n flag"}, "x ended with exit status 2: bad flag"),
        ({"exit_status": 1, "stdout": 'Error: no login\n{"a": 1}'}, "x ended with exit status 1: Error: no login"),
        ({"exit_status": -9}, "x was ended by SIGKILL"),
        ({"exit_status": -200}, "x was ended by signal 200"),
    ],
)
def test_failure_text(payload: dict[str, Any], text: str) -> None:
    assert failure_text("x", payload) == text
