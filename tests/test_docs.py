"""Every command in the docs works: each `$ geode ...` line of a console block is run, in order, without a key."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from cli_kit import run_geode

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted([*ROOT.glob("README*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("recipes/*/README.md")])
_BLOCK = re.compile(r"^```console(?: exit=(\d+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)")


def commands(path: Path) -> list[tuple[str, int]]:
    """(command, expected exit code) in the order of the file; a line that ends in `\\` goes on."""
    found = []
    for code, block in _BLOCK.findall(path.read_text(encoding="utf-8")):
        joined = block.replace("\\\n", " ")
        found += [(line[2:], int(code or 0)) for line in joined.splitlines() if line.startswith("$ ")]
    return found


@pytest.mark.parametrize("path", [p for p in DOCS if commands(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_the_commands_of_a_page_work(path: Path, tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    elsewhere = commands(ROOT / "README.md") if path.name == "README.ko.md" else []  # a translation's are the same
    for command, code in commands(path):
        if (command, code) in elsewhere:
            continue
        words = shlex.split(command)
        assert words[0] == "geode", f"only geode's commands stand in console blocks: {command}"
        ran = run_geode(words[1:], tmp_path)
        assert ran.code == code, f"{command}\n{ran.out[-500:]}\n{ran.err[-1500:]}"


@pytest.mark.parametrize("path", DOCS, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(path: Path) -> None:
    for target in _LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_the_example_output_counts_the_config_files() -> None:
    held = len(list((ROOT / "conf").rglob("*.yaml")))
    assert f"The folder conf/ holds {held} YAML files." in (ROOT / "README.md").read_text(encoding="utf-8")
