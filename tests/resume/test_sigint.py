"""Ctrl-C and SIGTERM at the real command: the run ends in order, and nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from cli_kit import clean_environ
from resume_kit import call, result, resume

from geode.journal import JOURNAL_FILE, JournalError, read_journal
from geode.runner.resume import read_resume_point

LIMIT_S = 40.0


class Command:
    """`geode` in a process group of its own, on a terminal where one is wanted."""

    def __init__(self, folder: Path, turns: list[dict[str, Any]], *overrides: str, terminal: bool = False) -> None:
        script = folder / "script.yaml"
        script.write_text(yaml.safe_dump({"name": "stopped", "turns": turns}))
        self.run_dir = folder / "run"
        words = [
            "adapter=scripted",
            f"adapter.script={script}",
            f"provider.script={script}",
            "task=chat",
            "task.prompt=Go.",
            "display=plain",
            f"hydra.run.dir={self.run_dir}",
            *overrides,
        ]
        argv = [sys.executable, "-m", "geode.cli", *words]
        self.terminal: int | None = None
        if terminal:
            self.pid, self.terminal = pty.fork()
            if self.pid == 0:
                os.chdir(folder)
                os.execve(sys.executable, argv, clean_environ({"TERM": "dumb"}))
        else:
            process = subprocess.Popen(
                argv,
                cwd=folder,
                env=clean_environ(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self.pid, self._process = process.pid, process
        self.shown = b""

    def until(self, there: Callable[[], bool]) -> None:
        end = time.monotonic() + LIMIT_S
        while not there():
            assert time.monotonic() < end, f"it never came to that; shown: {self.shown[-2000:]!r}"
            self._read()
            time.sleep(0.02)

    def until_event(self, name: str) -> None:
        def there() -> bool:
            with contextlib.suppress(JournalError):
                return any(r["event"] == name for r in read_journal(self.run_dir / JOURNAL_FILE))
            return False

        self.until(there)

    def _read(self) -> None:
        if self.terminal is not None and select.select([self.terminal], [], [], 0)[0]:
            with contextlib.suppress(OSError):
                self.shown += os.read(self.terminal, 65536)

    def ended(self) -> int:
        """The exit code."""
        codes: list[int] = []

        def gone() -> bool:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                codes.append(os.waitstatus_to_exitcode(status))
            return bool(codes)

        self.until(gone)
        if self.terminal is None:
            self._process.returncode = codes[0]
        return codes[0]

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self.terminal is not None:
            os.close(self.terminal)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    started: list[Command] = []

    def begin(*args: Any, **options: Any) -> Command:
        started.append(Command(tmp_path, *args, **options))
        return started[-1]

    yield begin
    for command in started:
        command.kill()


def sleepers(seconds: str) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline", "name"]):
        if process.info["name"] == "sleep" and seconds in (process.info["cmdline"] or []):
            found.append(process.pid)
    return found


def cancelled(run_dir: Path) -> dict[str, Any]:
    """The result of a run that was cancelled, with its history paired."""
    ended = result(run_dir)
    assert ended["termination_reason"] == "user_cancelled"
    messages = read_resume_point(run_dir).messages
    for index, message in enumerate(messages):
        if message.tool_uses:
            answers = messages[index + 1].tool_results
            assert [r.tool_use_id for r in answers] == [u.id for u in message.tool_uses]
    return ended


@pytest.mark.parametrize(
    ("number", "sandbox"), [(signal.SIGINT, "auto"), (signal.SIGTERM, "none"), (signal.SIGHUP, "none")]
)
def test_a_running_command_ends_with_its_processes(
    tmp_path: Path, start: Callable[..., Command], number: signal.Signals, sandbox: str
) -> None:
    seconds = f"9{os.getpid()}{int(number)}"
    turns = [
        {
            "text": "Now.",
            "tool_calls": [
                call("calculate", expression="1 + 1"),
                call("run_bash", command=f"sleep {seconds} & sleep {seconds}"),
            ],
        },
        {"text": "Finished."},
    ]
    command = start(turns, "safety=permissive", f"safety.sandbox.mode={sandbox}")
    command.until(lambda: len(sleepers(seconds)) == 2)
    os.kill(command.pid, number)
    assert command.ended() == 130
    command.until(lambda: not sleepers(seconds))
    ended = cancelled(command.run_dir)
    assert (ended["rounds"], ended["tool_calls"], ended["text"]) == (1, 2, "Now.")
    results = read_resume_point(command.run_dir).messages[-1].tool_results
    assert [r.is_error for r in results] == [False, True]
    assert results[1].text == "This call was interrupted: user_cancelled."
    assert resume(command.run_dir, "display=quiet") == 0
    assert result(command.run_dir)["text"] == "Finished."


@pytest.mark.parametrize("adapter", ["scripted", "glm-payg"])
def test_a_call_that_hangs(start: Callable[..., Command], adapter: str) -> None:
    over = () if adapter == "scripted" else (f"adapter={adapter}", "provider=scripted")
    command = start([{"fault": {"kind": "hang"}}], *over)
    command.until_event("LLM_CALL_STARTED")
    os.kill(command.pid, signal.SIGINT)
    assert command.ended() == 130
    assert cancelled(command.run_dir)["rounds"] == 1


def test_ctrl_c_at_a_question(start: Callable[..., Command]) -> None:
    turns = [{"tool_calls": [call("write_file", path="a.txt", content="A")]}, {"text": "Finished."}]
    command = start(turns, terminal=True)
    command.until_event("TOOL_APPROVAL_REQUESTED")
    command.until(lambda: b"a.txt" in command.shown)
    assert command.terminal is not None
    os.write(command.terminal, b"\x03")
    assert command.ended() == 130
    cancelled(command.run_dir)
    assert not (command.run_dir / "workspace" / "a.txt").exists()
    assert b"Traceback" not in command.shown


def test_ctrl_c_on_a_terminal_while_a_command_runs(start: Callable[..., Command]) -> None:
    """The terminal sends the signal to the whole foreground group, geode's children among them."""
    seconds = f"8{os.getpid()}"
    turns = [{"tool_calls": [call("run_bash", command=f"sleep {seconds}")]}, {"text": "Finished."}]
    command = start(turns, "safety=permissive", terminal=True)
    command.until(lambda: bool(sleepers(seconds)))
    assert command.terminal is not None
    os.write(command.terminal, b"\x03")
    assert command.ended() == 130
    command.until(lambda: not sleepers(seconds))
    assert cancelled(command.run_dir)["tool_calls"] == 1
    assert b"Traceback" not in command.shown
