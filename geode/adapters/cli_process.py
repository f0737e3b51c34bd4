"""Running another program's command line for one LLM call: input, output, time, and nothing left behind.

The child leads a process group of its own, and the group is ended on every way out: answer, error, cancel, timeout.
It sees only the environment variables that are listed, and works in an empty folder of its own that is removed
afterwards, so that no project file of the caller's folder gets into the prompt.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geode.adapters.cli_child import MAX_STDOUT, POLL_S, Child, Output, feed, until
from geode.contract import AdapterError, ErrorKind

__all__ = ["BASE_ENV", "CliRunner", "Command", "Finished", "events", "failure_text", "secret_values"]

BASE_ENV = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
"""Variables that every CLI may see: where it is, whose login it uses, how it reaches the network."""


@dataclass(frozen=True, slots=True)
class Command:
    """One run. `env`: variables with values, which may be secret; `files`: {name in argv: text}, written to a private
    folder, their paths put in the place of `{name}` in argv."""

    argv: tuple[str, ...]
    stdin: str
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    passed: tuple[str, ...] = ()
    """Names of variables that pass from the caller's environment, besides BASE_ENV."""
    files: Mapping[str, str] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        """What would run, without a secret and the same on every machine: `{argv, stdin, env, files}`."""
        names = sorted({*BASE_ENV, *self.passed, *self.env})
        return {"argv": list(self.argv), "stdin": self.stdin, "env": names, "files": dict(self.files)}


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run ended. `status`: the exit status, negative for a signal; `stderr`: its end."""

    stdout: str
    stderr: str
    status: int

    @property
    def payload(self) -> dict[str, Any]:
        return {"stdout": self.stdout, "stderr": self.stderr, "exit_status": self.status}


class CliRunner:
    """Runs commands for one adapter and knows what is still running.

    environ: the environment that listed variables are taken from. install: how to get the program, for the error.
    """

    def __init__(self, provider: str, environ: Mapping[str, str], install: str) -> None:
        self.provider = provider
        self._environ = environ
        self._install = install
        self._running: set[Child] = set()

    def env(self, command: Command) -> dict[str, str]:
        """The whole environment of the child."""
        names = (*BASE_ENV, *command.passed)
        return {**{n: self._environ[n] for n in names if n in self._environ}, **command.env}

    async def run(self, command: Command, timeout_s: float, on_line: Callable[[str], None] | None = None) -> Finished:
        """Raises AdapterError: PROCESS (no such program, too much output), TIMEOUT. The group always ends."""
        folder = tempfile.mkdtemp(prefix="geode-cli-")
        try:
            argv = list(command.argv)
            for name, text in command.files.items():
                path = Path(folder, name)
                path.touch(mode=0o600)
                path.write_text(text, encoding="utf-8")
                argv = [a.replace("{" + name + "}", str(path)) for a in argv]
            work = Path(folder, "work")
            work.mkdir()
            return await self._run(argv, command, work, timeout_s, on_line)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def _run(
        self,
        argv: list[str],
        command: Command,
        work: Path,
        timeout_s: float,
        on_line: Callable[[str], None] | None,
    ) -> Finished:
        env = self.env(command)
        program = shutil.which(argv[0], path=env.get("PATH", os.defpath))
        if program is None:
            raise self._error(f"no program '{argv[0]}' on PATH: {self._install}, or set adapter.command to its path")
        try:
            child = Child(
                subprocess.Popen(
                    [program, *argv[1:]],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=work,
                    env=env,
                    bufsize=0,
                    start_new_session=True,
                )
            )
        except (OSError, ValueError) as error:
            raise self._error(f"'{argv[0]}' cannot be started: {error}") from None
        self._running.add(child)
        output = Output(on_line)
        pumps = [
            asyncio.create_task(feed(child, command.stdin.encode("utf-8", "replace"))),
            asyncio.create_task(output.read_stdout(child)),
            asyncio.create_task(output.read_stderr(child)),
        ]
        try:
            async with asyncio.timeout(timeout_s if timeout_s > 0 else None):
                while not child.exited and not output.too_much:
                    await asyncio.wait(pumps, timeout=POLL_S)
                    if all(p.done() for p in pumps):
                        await asyncio.sleep(POLL_S)
        except TimeoutError:
            text = f"no answer within {timeout_s:g} s, so it was ended"
            raise self._error(f"{text}{_quoted(output.stderr)}", ErrorKind.TIMEOUT) from None
        finally:
            await self._end(child, pumps)
        if output.too_much:
            raise self._error(f"more than {MAX_STDOUT} bytes of output")
        return Finished(output.stdout, output.stderr, child.status)

    async def _end(self, child: Child, pumps: list[asyncio.Task[None]]) -> None:
        """Ends the group, whoever is left in it, and the pumps."""
        try:
            if not child.exited:
                child.signal(signal.SIGTERM)
                await until(lambda: child.exited)
        finally:
            # A leader that is gone may have left children: they hold its output open and would live on.
            child.signal(signal.SIGKILL)
            try:
                await until(lambda: child.exited and all(p.done() for p in pumps))
            finally:
                for pump in pumps:
                    pump.cancel()
                child.close()
                self._running.discard(child)

    async def aclose(self) -> None:
        """Ends what is still running."""
        for child in list(self._running):
            child.signal(signal.SIGKILL)

    def _error(self, message: str, kind: ErrorKind = ErrorKind.PROCESS) -> AdapterError:
        return AdapterError(kind, message, provider=self.provider)


def events(stdout: str) -> Iterator[dict[str, Any] | str]:
    """The JSON objects of a JSON-lines output; a line that begins like one and is none comes as its text.

    Other lines (a runtime's warnings) are no part of the output and are passed over.
    """
    for line in stdout.split("\n"):
        line = line.strip()
        if not line.startswith("{"):
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            yield line
            continue
        yield event


def secret_values(names: tuple[str, ...], environ: Mapping[str, str]) -> list[str]:
    """The values of those variables whose names say that they are secret."""
    return [environ[n] for n in names if n in environ and re.search(r"KEY|TOKEN|SECRET|PASSWORD", n)]


def failure_text(name: str, payload: Mapping[str, Any]) -> str:
    """What a run that gave no answer says of itself: how it ended, then the end of stderr or the start of stdout."""
    status = payload.get("exit_status", 0)
    if status < 0:
        try:
            ended = f"{name} was ended by {signal.Signals(-status).name}"
        except ValueError:
            ended = f"{name} was ended by signal {-status}"
    else:
        ended = f"{name} ended with exit status {status}" + ("" if status else " and no answer")
    stderr, stdout = str(payload.get("stderr", "")).strip(), str(payload.get("stdout", "")).strip()
    said = stderr[-500:] or "\n".join(line for line in stdout.split("\n") if not line.startswith("{"))[:500].strip()
    return ended + _quoted(said)


def _quoted(text: str) -> str:
    text = " ".join(text[-500:].split())
    return f": {text}" if text else ""
