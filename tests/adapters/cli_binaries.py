"""Where the real command lines are, for the tests that need them (marked `clis`)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def binary(name: str) -> str:
    """The program's path; skips the test where it is not installed."""
    folders = [os.environ.get("GEODE_TEST_CLIS", ""), str(ROOT / ".ci" / "node")]
    for folder in folders:
        path = Path(folder, "node_modules", ".bin", name)
        if folder and path.exists():
            return str(path)
    pytest.skip(
        f"no {name} in GEODE_TEST_CLIS, .ci/node: npm install --prefix .ci/node @anthropic-ai/claude-code @openai/codex"
    )


def running_at(home: Path) -> list[str]:
    """The command lines of running processes with this HOME: those that a test with a HOME of its own has started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environ = (entry / "environ").read_bytes().split(b"\0")
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if f"HOME={home}".encode() in environ:
            found.append(line)
    return found
