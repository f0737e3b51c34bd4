"""Fixtures that all tests share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cli_kit import Ran, RunGeode, clean_environ


@pytest.fixture
def geode(tmp_path: Path) -> RunGeode:
    """`geode("adapter=scripted", ...)` runs the command and returns a `Ran`."""

    def run(*args: str, env: Mapping[str, str] | None = None, stdin: str = "", timeout: float = 60) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "geode.cli", *args],
            cwd=tmp_path,
            env=clean_environ(env),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr, tmp_path)

    return run
