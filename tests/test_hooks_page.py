"""The page on hooks, as it stands: its code runs, and it names every event."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from cli_kit import ROOT, clean_environ

from geode.hooks import Event

_PAGE = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
_FILE = re.compile(r"^```\w+ (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^```sh\nPYTHONPATH=\. geode (.*?)\n```", re.MULTILINE)


def test_the_hooks_of_the_page_work(tmp_path: Path) -> None:
    for name, text in _FILE.findall(_PAGE):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    prompt = "Survey the YAML files under conf/."  # the script knows its task by this
    (words,) = _COMMAND.findall(_PAGE)
    environ = clean_environ()
    environ["PYTHONPATH"] = f"{tmp_path}:{environ['PYTHONPATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "geode.cli", *words.split(), f"task.prompt={prompt}", "hydra.run.dir=run"],
        cwd=tmp_path,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = [line.rsplit(maxsplit=2)[0] for line in (tmp_path / "events.txt").read_text().splitlines()]
    assert sorted(seen) == sorted(
        f"TOOL_EXEC_ENDED {tool}" for tool in ("grep_files", "glob_files", "read_document", "grep_files", "calculate")
    )
    events = [json.loads(line) for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines()]
    assert [e["text"] for e in events if e["event"] == "USER_INPUT_RECEIVED"] == [f"{prompt} Please."]


def test_the_page_names_every_event() -> None:
    assert {event for event in Event if f"`{event}`" not in _PAGE} == set()
