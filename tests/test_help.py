"""The help page: from a folder listing, without hydra, the user's own groups included."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cli_kit import RunGeode, clean_environ

from geode.groups import read_groups
from geode.help_page import help_page


def test_help_lists_every_group_with_its_choices_and_default(geode: RunGeode) -> None:
    ran = geode("--help")
    assert (ran.code, ran.err) == (0, "")
    lines = [line.strip() for line in ran.out.splitlines()]
    assert "adapter      who answers: wire, base URL, credential, model" in lines
    assert "any auto* named none required" in lines
    for group in read_groups().values():
        assert any(line.startswith(group.name) for line in lines), group.name
    for command in ("wire", "replay", "resume", "report", "tools", "doctor"):
        assert any(line.startswith(f"{command} ") or line == command for line in lines), command


def test_the_users_folder_is_listed_too(geode: RunGeode, tmp_path: Path) -> None:
    (tmp_path / "mine" / "adapter").mkdir(parents=True)
    (tmp_path / "mine" / "adapter" / "our-gateway.yaml").write_text("name: our-gateway\n")
    (tmp_path / "mine" / "recipe").mkdir()
    (tmp_path / "mine" / "recipe" / "nightly.yaml").write_text("# @package _global_\n")
    ran = geode("--config-dir", "mine", "-h")
    assert ran.code == 0
    assert "our-gateway" in ran.out
    assert "nightly" in ran.out


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from geode.cli import main; main(['--help']); "
        "heavy = {'hydra', 'omegaconf', 'pydantic', 'rich', 'anthropic', 'openai', 'mcp', 'yaml', 'jinja2'}; "
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=clean_environ(), capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"


def test_no_line_of_help_is_wider_than_a_wide_terminal() -> None:
    assert max(map(len, help_page().splitlines())) <= 120


def test_hydras_own_help_and_info_stay(geode: RunGeode) -> None:
    ran = geode("--hydra-help")
    assert ran.code == 0
    assert "--multirun" in ran.out
    ran = geode("--info", "searchpath", "+adapter=replay")
    assert ran.code == 0
    assert "geode-recipes" in ran.out
