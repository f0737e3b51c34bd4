"""Runs a shell command with as little power as the machine allows, and gives back its bounded output.

Whatever the mode: scrubbed environment, no input, a session of its own, limits on time, output, processes and (where
configured) memory, file size and processor time; and at the end, in time or not, every process it started is gone
(`geode.tools.supervisor`). With bubblewrap also: the system read-only, only the workspace writable, no network, no
view of other processes, places of secrets hidden. Without it, a command can do what the user who runs geode can do.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import secrets
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from geode.contract import Notice, NoticeSink
from geode.tools.bubblewrap import bwrap_argv, bwrap_fault
from geode.tools.output import HeadTail

__all__ = ["CommandResult", "SandboxOptions", "run_command", "sandbox_fault", "scrubbed_environ"]

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_MARK = "GEODE_SANDBOX"
_PASSED = frozenset("PATH HOME LANG LANGUAGE TZ USER LOGNAME SHELL TMPDIR".split())  # noqa: SIM905
_FIXED = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
}
_DRAIN_S = 1.0
_END_S = 8.0


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """What a command may use.

    mode: `bwrap` (demanded), `auto` (where it works), `none`. timeout_s: seconds a command may take, 0 is no limit.
    output_bytes: bytes kept of stdout and stderr together. processes: most processes and threads at a time.
    env: names of environment variables let through. memory_bytes (address space), file_bytes (a file written) and
    cpu_s are limits per process. 0 is no limit for each of them.
    """

    mode: Literal["auto", "bwrap", "none"] = "auto"
    network: bool = False
    timeout_s: float = 120.0
    output_bytes: int = 1_000_000
    processes: int = 256
    env: tuple[str, ...] = ()
    memory_bytes: int = 0
    file_bytes: int = 0
    cpu_s: int = 0

    @classmethod
    def from_limits(cls, limits: Mapping[str, Any]) -> SandboxOptions:
        """From the config's `safety.sandbox`; keys that are not of this class are left aside."""
        known = {field.name for field in fields(cls)}
        values = {name: value for name, value in limits.items() if name in known and value is not None}
        if "env" in values:
            values["env"] = tuple(values["env"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command came to.

    exit_code: as a shell reports it (128 + n for signal n), None where it was ended from outside. ended: `exit`,
    `timeout`, `processes` (too many) or `lost` (the supervisor was killed). background: processes that it left
    running, ended with it. failure: why it could not be started, else "". sandboxed: bubblewrap was used.
    """

    exit_code: int | None
    stdout: HeadTail
    stderr: HeadTail
    ended: Literal["exit", "timeout", "processes", "lost"]
    background: int = 0
    failure: str = ""
    sandboxed: bool = False


def sandbox_fault(options: SandboxOptions) -> str | None:
    """The config error of a sandbox that is demanded and cannot be had, None where there is none."""
    if options.mode != "bwrap":
        return None
    reason = bwrap_fault()
    if reason is None:
        return None
    return f"safety.sandbox.mode: bwrap is demanded, but {reason} (allowed: bwrap where it works, auto, none)"


def scrubbed_environ(environ: Mapping[str, str], let_through: tuple[str, ...] = ()) -> dict[str, str]:
    """The variables a command gets: a short allow-list, locale settings, the names let through, and fixed ones."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in _PASSED or name in let_through or (name.startswith("LC_") and len(value) < 100)
    }
    # a relative entry would run programs from the workspace under the names of others
    path = [entry for entry in kept.get("PATH", os.defpath).split(os.pathsep) if entry.startswith("/")]
    kept["PATH"] = os.pathsep.join(path) or "/usr/bin:/bin"
    return {**kept, **{name: value for name, value in _FIXED.items() if name not in let_through}}


async def run_command(
    command: str,
    *,
    workspace: Path,
    environ: Mapping[str, str],
    options: SandboxOptions,
    timeout_s: float | None = None,
    notify: NoticeSink | None = None,
) -> CommandResult:
    """Runs `command` with bash in `workspace`. On cancel everything it started is ended before this returns.

    Raises RuntimeError where a demanded sandbox cannot be had. timeout_s: seconds, at most the options' own.
    """
    workspace = Path(os.path.realpath(workspace))
    prefix = _prefix(workspace, environ, options, notify)
    mark = secrets.token_hex(16)
    env = {**scrubbed_environ(environ, options.env), _MARK: mark}
    shell = shutil.which("bash", path=env["PATH"]) or shutil.which("sh", path=env["PATH"]) or "/bin/sh"
    argv = [*prefix, shell, *(["--noprofile", "--norc"] if shell.endswith("bash") else []), "-c", command]
    status_r, status_w = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-B", str(_SUPERVISOR)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            pass_fds=(status_w,),
            start_new_session=True,
        )
    except BaseException:
        os.close(status_r)
        raise
    finally:
        os.close(status_w)
    request = {
        "argv": argv,
        "cwd": "/" if prefix else str(workspace),
        "status": status_w,
        "processes": options.processes,
        "limits": _limits(options),
    }
    stdout, stderr = HeadTail(options.output_bytes // 2), HeadTail(options.output_bytes // 2)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    pumps = [asyncio.create_task(stdout.fill(process.stdout)), asyncio.create_task(stderr.fill(process.stderr))]
    over = _readable(status_r)
    timed_out = False
    try:
        with contextlib.suppress(ConnectionError):
            process.stdin.write(json.dumps(request).encode() + b"\n")
            await process.stdin.drain()
        try:
            async with asyncio.timeout(_least(timeout_s, options.timeout_s)):
                await asyncio.shield(over)
        except TimeoutError:
            timed_out = True
    finally:
        try:
            status = await _end(process, over, status_r, mark)
        finally:
            await _drained(pumps)
    if status is None:
        ended: Literal["exit", "timeout", "processes", "lost"] = "timeout" if timed_out else "lost"
        return CommandResult(None, stdout, stderr, ended, sandboxed=bool(prefix))
    code: int | None = status["code"]
    return CommandResult(
        exit_code=128 - code if code is not None and code < 0 else code,
        stdout=stdout,
        stderr=stderr,
        ended="timeout" if timed_out else "processes" if status["cause"] == "processes" else "exit",
        # bubblewrap's own processes may outlive the command by a moment; what it isolates ends with it anyway
        background=0 if prefix else status["background"],
        failure=status["failure"],
        sandboxed=bool(prefix),
    )


def _prefix(
    workspace: Path, environ: Mapping[str, str], options: SandboxOptions, notify: NoticeSink | None
) -> list[str]:
    if options.mode == "none":
        return []
    reason = bwrap_fault()
    if reason is None:
        return bwrap_argv(workspace, environ, network=options.network)
    if options.mode == "bwrap":
        raise RuntimeError(sandbox_fault(options))
    if notify is not None:
        notify(
            Notice(
                "sandbox",
                f"shell commands run without a sandbox ({reason}): they see the network and all files of this user",
                "safety.sandbox.mode=none" if "not installed" not in reason else "safety.sandbox.mode=bwrap",
            )
        )
    return []


def _limits(options: SandboxOptions) -> dict[str, int]:
    limits = {"RLIMIT_CORE": 0}
    if options.memory_bytes:
        limits["RLIMIT_AS"] = options.memory_bytes
    if options.file_bytes:
        limits["RLIMIT_FSIZE"] = options.file_bytes
    if options.cpu_s:
        limits["RLIMIT_CPU"] = options.cpu_s
    if options.processes and os.getuid() != 0 and hasattr(resource, "RLIMIT_NPROC"):
        # counts all tasks of the user (and does not bind root), so what runs already comes on top
        limits["RLIMIT_NPROC"] = _own_tasks() + options.processes
    return limits


def _own_tasks() -> int:
    total, uid = 0, os.getuid()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == uid:
                    total += len(os.listdir(f"/proc/{name}/task"))
    return total


def _least(*limits: float | None) -> float | None:
    given = [limit for limit in limits if limit]
    return min(given) if given else None


def _readable(descriptor: int) -> asyncio.Future[None]:
    """Done when the descriptor has data or was closed at its other end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        loop.remove_reader(descriptor)
        if not future.done():
            future.set_result(None)

    loop.add_reader(descriptor, ready)
    return future


async def _end(
    process: asyncio.subprocess.Process, over: asyncio.Future[None], status_fd: int, mark: str
) -> dict[str, Any] | None:
    """Tells the supervisor to end everything and reads what it has to say; one that does not answer is killed."""
    assert process.stdin is not None
    process.stdin.close()
    status = None
    try:
        async with asyncio.timeout(_END_S):
            await asyncio.shield(over)
        status = _status(status_fd)
    except TimeoutError:
        pass
    finally:
        asyncio.get_running_loop().remove_reader(status_fd)
        os.close(status_fd)
        if status is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            _kill_marked(mark)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            await process.wait()
    return status


def _kill_marked(mark: str) -> None:
    """The last resort where the supervisor is gone: processes that carry the command's mark in their environment."""
    wanted = f"{_MARK}={mark}".encode()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/environ", "rb") as file:
                    marked = wanted in file.read().split(b"\0")
                if marked:
                    os.kill(int(name), signal.SIGKILL)


async def _drained(pumps: list[asyncio.Task[None]]) -> None:
    try:
        await asyncio.wait(pumps, timeout=_DRAIN_S)
    finally:
        for pump in pumps:
            pump.cancel()


def _status(descriptor: int) -> dict[str, Any] | None:
    data = os.read(descriptor, 1 << 16)
    status: dict[str, Any] | None = json.loads(data) if data else None
    return status
