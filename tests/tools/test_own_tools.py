"""The page on tools, as it stands: its code and its commands bring a user's own tools into a run in three ways."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_kit import ROOT, clean_environ
from tools_kit import run_config

_PAGE = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
_FILE = re.compile(r"^```\w+ (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMANDS = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SECTIONS = {head.strip(): text for head, _, text in (s.partition("\n") for s in re.split(r"^### ", _PAGE, flags=re.M))}


def prepare(section: str, folder: Path) -> str:
    """Writes the files of a section, and the script; returns its commands."""
    files = dict(_FILE.findall(_PAGE.partition("### ")[0]) + _FILE.findall(_SECTIONS[section].partition("\n## ")[0]))
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert sum(len(text.splitlines()) for name, text in files.items() if name not in ("count.yaml", "notes.txt")) <= 15
    (commands,) = _COMMANDS.findall(_SECTIONS[section])
    return str(commands)


@pytest.mark.parametrize("section", ["A folder", "A package", "A config"])
def test_each_way_works_as_the_page_says(section: str, tmp_path: Path) -> None:
    commands = prepare(section, tmp_path)
    environ = clean_environ()
    commands = commands.replace("export PYTHONPATH=.", "export PYTHONPATH=.:$PYTHONPATH")
    if "pip install" in commands:
        pytest.importorskip("hatchling")
        environ["PYTHONPATH"] = f"{tmp_path / 'site'}:{environ['PYTHONPATH']}"
        offline = "--quiet --no-deps --no-index --no-build-isolation --disable-pip-version-check --target site"
        commands = commands.replace("pip install", f'"{sys.executable}" -m pip install {offline}')
    commands = re.sub(r"^geode ", f'"{sys.executable}" -m geode.cli ', commands, flags=re.MULTILINE)
    done = subprocess.run(
        ["sh", "-ec", commands],
        cwd=tmp_path,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (result,) = tmp_path.glob("outputs/*/*/result.json")
    assert json.loads(result.read_text())["text"] == "5 words"
    assert json.loads(result.read_text())["tool_calls"] == 1


async def test_a_handler_sees_no_secret_that_the_config_does_not_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_API_KEY", "other")
    monkeypatch.setenv("MY_API_KEY", "mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "keys.py").write_text("def keys(context): return [k for k in context.environ if 'KEY' in k]\n")
    entry = {"name": "keys", "description": "", "safety": "safe", "input_schema": {"type": "object"}}
    (tmp_path / "mine" / "definitions.json").write_text(json.dumps([entry]))
    (tmp_path / "keys.yaml").write_text("turns: [{tool_calls: [keys]}, {text: \"{{ result('keys').text }}\"}]")
    words = ["task=question", "task.prompt=Go", "adapter.script=keys.yaml", "tools.folders=[mine]"]
    run_dir = await run_config(tmp_path, *words, "safety.sandbox.env=[MY_API_KEY]")
    assert json.loads((run_dir / "result.json").read_text())["text"] == '["MY_API_KEY"]'
