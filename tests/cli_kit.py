"""The `geode` command in a process of its own, in an empty folder, without any key.

Importing costs a command more than its work, and the tests run a good hundred. So `run_geode` forks each from one
process that has imported everything (multiprocessing's forkserver); what depends on the interpreter's own start (its
options, imports, signals, the terminal) starts `python -m geode.cli` in its test.
"""

from __future__ import annotations

import functools
import multiprocessing.context
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_SECRETS = ("_KEY", "_TOKEN", "_SECRET", "ANTHROPIC", "OPENAI", "ZAI_", "CODEX", "CLAUDE", "HYDRA_", "GEODE_")
_PERSONAL = ("_PROXY", "XDG_")


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished command: exit code, and what it wrote."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def faults(self) -> list[str]:
        """The lines on standard error that name faults, without the program's name."""
        return [line.removeprefix("geode: ") for line in self.err.splitlines() if line.startswith("geode: ")]

    def run_dir(self) -> Path:
        """The folder of the only run."""
        (found,) = self.folder.glob("outputs/*/*")
        return found


RunGeode = Callable[..., Ran]


def clean_environ(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without credentials and personal settings, with geode importable."""
    environ = {k: v for k, v in os.environ.items() if not any(word in k.upper() for word in _SECRETS + _PERSONAL)}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), environ.get("PYTHONPATH", ""))))
    return environ | dict(extra or {})


_INTERPRETER = ("PYTHON", "LC_", "LANG")
"""Variables that an interpreter reads as it starts: with one of them a command is not forked."""


def run_geode(
    args: Sequence[str],
    folder: Path,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    timeout_s: float = 60,
    *,
    fresh: bool = False,
) -> Ran:
    """Runs `geode ARGS` in `folder` to its end. env: variables on top of `clean_environ`. fresh: in an interpreter of
    its own, for what starts processes through multiprocessing itself. Raises TimeoutError."""
    with tempfile.TemporaryDirectory() as name:
        streams = [Path(name, stream) for stream in ("in", "out", "err")]
        for stream, text in zip(streams, (stdin, "", ""), strict=True):
            stream.write_text(text, encoding="utf-8")
        if fresh or any(key.startswith(_INTERPRETER) for key in env or ()):
            code = _start(args, folder, clean_environ(env), streams, timeout_s)
        else:
            code = _fork(args, folder, clean_environ(env), streams, timeout_s)
        return Ran(code, *(stream.read_text(encoding="utf-8") for stream in streams[1:]), folder)


def _start(args: Sequence[str], folder: Path, env: dict[str, str], streams: Sequence[Path], timeout_s: float) -> int:
    stdin, stdout, stderr = streams
    with stdin.open() as given, stdout.open("w") as out, stderr.open("w") as err:
        command = [sys.executable, "-m", "geode.cli", *args]
        done = subprocess.run(command, cwd=folder, env=env, stdin=given, stdout=out, stderr=err, timeout=timeout_s)
        return done.returncode


@functools.cache
def _forks() -> multiprocessing.context.ForkServerContext:
    """The process to fork from, started at the first use. It finds `warm_geode` by PYTHONPATH alone."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["warm_geode"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        forkserver.ensure_running()
    return context


def _fork(args: Sequence[str], folder: Path, env: dict[str, str], streams: Sequence[Path], timeout_s: float) -> int:
    process = _forks().Process(target=_forked, args=([*args], folder, env, streams))
    process.start()
    process.join(timeout_s)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise TimeoutError(f"geode {' '.join(args)}: no end within {timeout_s:g} s")
    return process.exitcode


def _forked(args: list[str], folder: Path, env: dict[str, str], streams: Sequence[Path]) -> None:
    """The child's part: takes on the folder, the environment and the streams, then is the command."""
    from geode.cli import entry

    for number, (stream, flags) in enumerate(zip(streams, (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)):
        os.dup2(os.open(stream, flags | os.O_APPEND), number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["geode", *args]
    entry()
