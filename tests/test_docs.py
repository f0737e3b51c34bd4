"""Every command in the docs works: each `$ geode ...` line of a console block is run, in order, without a key.

The lines below a command are in its output. The named blocks of a page are files in the folder in which they run.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import shutil
from pathlib import Path

import pytest
from cli_kit import run_geode

from geode.loop.result import AgenticResult
from geode.report.tables import COLUMNS

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted([*ROOT.glob("README*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("recipes/*/README.md")])
_BLOCK = re.compile(r"^```console(?: exit=(\d+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^```(?!console)\w+ (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)")


def commands(path: Path) -> list[tuple[str, int, str]]:
    """(command, exit code, output that is shown) in the order of the file; a line that ends in `\\` goes on."""
    found = []
    for code, block in _BLOCK.findall(path.read_text(encoding="utf-8")):
        found += [(line, int(code or 0), shown) for line, shown in _COMMAND.findall(block.replace("\\\n", " "))]
    return found


def prepare(path: Path, folder: Path) -> None:
    """Makes what a page says is there: its files, or the repository that it is the README of."""
    (folder / "outputs").mkdir()
    if path.parent.parent == ROOT / "recipes":
        shutil.copytree(path.parent, folder, dirs_exist_ok=True)
    for name, text in _FILE.findall(path.read_text(encoding="utf-8")):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


PAGES = [
    pytest.param(page, id=str(page.relative_to(ROOT)), marks=() if page.name == "README.md" else pytest.mark.slow)
    for page in DOCS
    if commands(page)
]


@pytest.mark.parametrize("path", PAGES)
def test_the_commands_of_a_page_work(path: Path, tmp_path: Path) -> None:
    prepare(path, tmp_path)
    readme = commands(ROOT / "README.md") if path.name != "README.md" else []  # run there, in the same way
    for command, code, shown in commands(path):
        if (command, code, shown) in readme:
            continue
        words = shlex.split(command)
        assert words[0] == "geode", f"only geode's commands stand in console blocks: {command}"
        ran = run_geode(words[1:], tmp_path)
        assert ran.code == code, f"{command}\n{ran.out[-500:]}\n{ran.err[-1500:]}"
        assert shown in ran.out, command


@pytest.mark.parametrize("path", DOCS, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(path: Path) -> None:
    for target in _LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_the_example_output_counts_the_config_files() -> None:
    held = len(list((ROOT / "conf").rglob("*.yaml")))
    assert f"The folder conf/ holds {held} YAML files." in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_pages_name_every_column_and_field(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "journal.md").read_text(encoding="utf-8")
    names = {*COLUMNS, *(field.name for field in dataclasses.fields(AgenticResult))}
    assert {name for name in names if f"`{name}`" not in page} == set()
    assert run_geode(["-m", "budget.max_rounds=5", "hydra.sweep.dir=sweep"], tmp_path).code == 0
    header = (tmp_path / "sweep" / "summary.csv").read_text(encoding="utf-8").splitlines()[0].split(",")
    page = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    assert {name for name in header if f"`{name}`" not in page} == set()
