"""The pytest plugin, and the example repository that uses it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_kit import ROOT, Ran, clean_environ

from geode.config_errors import ConfigFault
from geode.testing import GeodeWire
from geode.wire.diff import differences

EXAMPLE = ROOT / "recipes" / "ci-snapshots"
SAVED = "tests/__snapshots__/test_payloads"


def run_pytest(folder: Path, *words: str) -> Ran:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *words]
    environ = {k: v for k, v in clean_environ().items() if not k.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=100, check=False)
    return Ran(done.returncode, done.stdout, done.stderr, folder)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "repo", ignore=shutil.ignore_patterns("__pycache__")))


def saved(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((EXAMPLE / SAVED / f"{name}.json").read_text())
    return found


def test_the_example_repository_passes(example: Path) -> None:
    ran = run_pytest(example)
    assert ran.code == 0, ran.out
    assert "4 snapshots passed" in ran.out


def test_the_example_notices_a_change(example: Path, geode_wire: GeodeWire) -> None:
    adapter = example / "conf" / "adapter" / "my-gateway.yaml"
    adapter.write_text(adapter.read_text().replace("max_tokens: 2048", "max_tokens: 2049"))
    definitions = f"tools.definitions=[{example}/tools/definitions.json]"
    words = ["adapter=my-gateway", "toolset=mine", definitions, "task=question", "task.prompt='Where is order 17?'"]
    found = geode_wire(*words, config_dir=example / "conf")
    assert differences(saved("test_first_request[auto]"), found) == ["~ [0].body.max_tokens: 2048 -> 2049"]


def test_what_the_example_has_saved() -> None:
    (request,) = saved("test_first_request[required]")
    assert request["url"] == "https://gateway.example.com/v1/chat/completions"
    assert request["headers"]["authorization"] == "Bearer ***"
    assert request["body"]["tool_choice"] == "required"
    assert [tool["function"]["name"] for tool in request["body"]["tools"]] == ["look_up_order"]


async def test_the_fixture_works_inside_an_event_loop(geode_wire: GeodeWire) -> None:
    (request,) = geode_wire("adapter=glm-payg", "tool_choice=required")
    assert request["body"]["tool_choice"] == "required"


def test_faults_come_as_config_faults(geode_wire: GeodeWire) -> None:
    with pytest.raises(ConfigFault, match=r"^adapter: given 'glm-pay', allowed: "):
        geode_wire("adapter=glm-pay")
