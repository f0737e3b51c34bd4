"""What ships: the same files from a checkout, a source distribution and a wheel; a reference page up to date."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from cli_kit import ROOT, clean_environ

import geode
from geode.config_reference import reference
from geode.data import conf_dir, data_dir, script_path, shipped


def test_the_reference_page_is_up_to_date() -> None:
    """`python -m geode.config_reference > docs/config.md` makes it so."""
    assert (ROOT / "docs" / "config.md").read_text(encoding="utf-8") == reference()


def test_every_key_of_the_reference_page_has_a_meaning() -> None:
    rows = [line.split(" | ") for line in reference().splitlines() if line.startswith("| `")]
    assert len(rows) > 150
    assert [row[0] for row in rows if not row[-1].strip(" |")] == []


def test_data_of_a_checkout_or_of_an_installed_package() -> None:
    package = Path(geode.__file__).parent
    assert data_dir() == (package / "_data" if (package / "_data").is_dir() else ROOT)
    for folder in ("conf", "recipes", "tools"):
        held = {path.name for path in (data_dir() / folder).iterdir()}
        assert held == {path.name for path in (ROOT / folder).iterdir()}
    assert script_path("config-survey") == conf_dir() / "scripts" / "config-survey.yaml"
    assert script_path("./mine.yaml") == Path("mine.yaml")
    assert shipped("geode://conf") == conf_dir()
    assert shipped("conf") is None


@pytest.mark.parametrize("reference", ["geode://", "geode://tests", "geode://conf/../geode", "geode:///etc"])
def test_only_what_ships_can_be_named(reference: str) -> None:
    with pytest.raises(ValueError, match="names nothing that ships with geode"):
        shipped(reference)


def test_the_wheel_holds_all_data_and_runs_from_anywhere(tmp_path: Path) -> None:
    """Builds a wheel by way of a source distribution and runs it where no checkout is in sight."""
    pytest.importorskip("hatchling")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(tmp_path)], check=True)
    (source,) = (path for path in tmp_path.iterdir() if path.is_dir())
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=source, capture_output=True, check=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name.removeprefix("geode/_data/") for name in zipfile.ZipFile(wheel).namelist() if "/_data/" in name}
    here = {
        str(path.relative_to(ROOT))
        for folder in ("conf", "recipes", "tools")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == here

    home = tmp_path / "venv"
    venv.EnvBuilder(system_site_packages=False, with_pip=False).create(home)
    (site,) = home.glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    import hydra

    (site / "dependencies.pth").write_text(str(Path(hydra.__file__).parent.parent) + "\n")
    environ = clean_environ()
    environ.pop("PYTHONPATH")
    ran = subprocess.run(
        [home / "bin" / "python", "-c", "from geode.cli import entry; entry()", "display=quiet"],
        cwd=tmp_path, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "The folder conf/ holds" in ran.stdout
    assert os.path.commonpath([ran.args[0], tmp_path]) == str(tmp_path)


def test_dependencies_have_lower_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert all(">=" in requirement for requirement in project["dependencies"])
    assert project["scripts"] == {"geode": "geode.cli:entry"}
