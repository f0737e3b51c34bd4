"""What is imported when: a start-up pays for what it uses and no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_kit import clean_environ

SDKS = {"anthropic", "openai", "mcp", "httpx2", "xllamacpp", "opentelemetry"}
SERVERS = {"h11", "starlette", "uvicorn"}
PARTS = {"hydra", "omegaconf", "pydantic", "jsonschema", "jinja2", "yaml", "regex", "rich", "genai_prices", "asyncio"}


def imported(code: str, folder: Path) -> set[str]:
    """The top-level modules that a fresh process holds after `code`."""
    tail = "\nimport sys\nprint('\\n' + ' '.join({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", code + tail], cwd=folder, env=clean_environ(), capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import geode", SDKS | SERVERS | PARTS),
        ("import geode.contract, geode.hooks", SDKS | SERVERS | PARTS - {"asyncio"}),
        ("from geode.cli import main; main(['--help'])", SDKS | SERVERS | PARTS),
        ("from geode.cli import main; main(['display=quiet'])", SDKS | SERVERS | {"rich", "genai_prices"}),
    ],
    ids=["package", "contract", "help", "scripted run"],
)
def test_nothing_is_imported_before_it_is_used(code: str, absent: set[str], tmp_path: Path) -> None:
    assert imported(code, tmp_path) & absent == set()


def test_one_wire_imports_one_sdk(tmp_path: Path) -> None:
    code = "from geode.cli import main; main(['+adapter=glm-payg', 'provider=scripted', 'display=quiet'])"
    loaded = imported(code, tmp_path)
    assert loaded & {"openai", "anthropic", "mcp", "rich"} == {"openai"}
