"""Published MCP servers: from PyPI, and (marked `node`) from npm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp_kit import started

from geode.contract import ImageBlock, Tier
from geode.tools.mcp import McpOptions

ROOT = Path(__file__).resolve().parents[2]


def node(name: str, *args: str) -> McpOptions:
    """A server from npm; skips the test where it is not installed."""
    for folder in (os.environ.get("GEODE_TEST_NODE", ""), str(ROOT / ".ci" / "node")):
        program = Path(folder, "node_modules", ".bin", name)
        if folder and program.exists():
            return McpOptions(command=str(program), args=args, env={"PATH": os.environ["PATH"]}, start_timeout_s=60)
    package = f"@modelcontextprotocol/{name.removeprefix('mcp-')}"
    pytest.skip(f"no {name} in GEODE_TEST_NODE, .ci/node: npm install --prefix .ci/node {package}")


def python(module: str, *args: str) -> McpOptions:
    return McpOptions(command=sys.executable, args=("-m", module, *args), env={"PATH": os.environ["PATH"]})


async def test_time() -> None:
    async with started(time=python("mcp_server_time")) as servers:
        assert list(servers.tools) == ["time__get_current_time", "time__convert_time"]
        noon = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        result = await servers.call("time__convert_time", **noon)
        assert (result.is_error, '"time_difference": "+9.0h"' in result.content) == (False, True)
        wrong = await servers.call("time__get_current_time", timezone="Nowhere")
        assert (wrong.is_error, "No time zone found with key Nowhere" in wrong.content) == (True, True)


async def test_git(tmp_path: Path) -> None:
    pytest.importorskip("mcp_server_git")
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "the first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    async with started(git=python("mcp_server_git", "--repository", str(tmp_path))) as servers:
        log = await servers.call("git__git_log", repo_path=str(tmp_path))
        assert (log.is_error, "the first" in log.content) == (False, True)
        assert servers.tools["git__git_reset"].tier is Tier.DANGEROUS


@pytest.mark.node
async def test_everything() -> None:
    async with started(every=node("mcp-server-everything", "stdio")) as servers:
        assert (await servers.call("every__echo", message="hi")).content == "Echo: hi"
        wrong = await servers.call("every__get-sum", a=1, b="x")
        assert (wrong.is_error, "expected number" in wrong.content) == (True, True)
        structured = await servers.call("every__get-structured-content", location="Chicago")
        assert structured.content == '{"temperature":36,"conditions":"Light rain / drizzle","humidity":82}'
        picture = await servers.call("every__get-tiny-image")
        assert [block.media_type for block in picture.content if isinstance(block, ImageBlock)] == ["image/png"]
        links = await servers.call("every__get-resource-links", count=1)
        assert "[resource demo://resource/" in links.content


@pytest.mark.node
async def test_filesystem(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("written")
    async with started(fs=node("mcp-server-filesystem", str(tmp_path))) as servers:
        assert servers.tools["fs__write_file"].tier is Tier.DANGEROUS
        assert servers.tools["fs__read_text_file"].tier is Tier.WRITE
        assert (await servers.call("fs__read_text_file", path=str(tmp_path / "note.txt"))).content == "written"
        outside = await servers.call("fs__read_text_file", path="/etc/hostname")
        assert (outside.is_error, "Access denied" in outside.content) == (True, True)
