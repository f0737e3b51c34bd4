"""Runs in this process, cut off where a test wants it, and resumed by the command."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from geode import cli
from geode.compose import compose_settings
from geode.journal import JOURNAL_FILE, read_run
from geode.loop.result import AgenticResult
from geode.runner import run_settings


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A turn's tool call."""
    return {"name": name, "input": arguments}


WRITING: list[dict[str, Any]] = [
    {"text": "First.", "tool_calls": [call("write_file", path="a.txt", content="A")]},
    {
        "text": "Then.",
        "tool_calls": [
            call("read_document", path="a.txt"),
            call("write_file", path="b.txt", content="B"),
            call("read_document", path="nowhere.txt"),
        ],
    },
    {"text": "Both files are written."},
]


def run(folder: Path, turns: Sequence[Mapping[str, Any]], *overrides: str) -> AgenticResult:
    """Runs a script's turns (or its conversations) in `folder`/run."""
    key = "conversations" if "match" in turns[0] else "turns"
    script = folder / "script.yaml"
    script.write_text(yaml.safe_dump({"name": "resumed", key: list(turns)}))
    words = [
        "adapter=scripted",
        f"adapter.script={script}",
        f"provider.script={script}",
        "task=chat",
        "task.prompt=Write the files.",
        "safety.tiers.write=allow",
        "toolset.include=[write_file,read_document,run_bash,ask_user]",
        "display=quiet",
    ]
    return asyncio.run(run_settings(compose_settings([*words, *overrides]), folder / "run", environ={}))


def lines(folder: Path) -> list[str]:
    return (folder / JOURNAL_FILE).read_text().splitlines(keepends=True)


def cut(folder: Path, kept: Sequence[str]) -> None:
    """Leaves only these lines of a run, as a crash would."""
    (folder / JOURNAL_FILE).write_text("".join(kept))
    (folder / "result.json").unlink(missing_ok=True)


def events(folder: Path, *names: str) -> list[dict[str, Any]]:
    return [r for r in read_run(folder / JOURNAL_FILE) if r["event"] in names]


def resume(folder: Path, *overrides: str) -> int:
    """The exit code of `geode resume`."""
    return cli.main(["resume", str(folder), *overrides])


def result(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return loaded
