"""MCP servers over streamable HTTP."""

from __future__ import annotations

import asyncio

import pytest
from mcp_http import http_server
from mcp_kit import started

from geode.tools.mcp import McpOptions
from geode.tools.types import ToolError, ToolReturn


async def test_tools_are_listed_called_and_kept_up_to_date() -> None:
    async with http_server(token="Bearer abc") as web:
        options = McpOptions(url=web.url, headers={"Authorization": "Bearer abc", "X-Team": "one"})
        async with started(web=options) as servers:
            assert list(servers.tools) == ["web__first", "web__grow", "web__hang"]
            assert await servers.call("web__first", a=1) == ToolReturn("first {'a': 1}")
            await servers.call("web__grow")
            async with asyncio.timeout(10):
                while "web__grown" not in servers.tools:
                    await asyncio.sleep(0.01)
            assert await servers.call("web__grown") == ToolReturn("grown {}")
        assert {(h["authorization"], h["x-team"]) for h in web.seen} == {("Bearer abc", "one")}


async def test_a_cancelled_call_is_cancelled_at_the_server() -> None:
    async with http_server() as web, started(web=McpOptions(url=web.url)) as servers:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await servers.call("web__hang")
        async with asyncio.timeout(10):
            while web.cancelled == 0:
                await asyncio.sleep(0.01)
        assert await servers.call("web__first") == ToolReturn("first {}")


async def test_a_server_that_cannot_be_reached_or_refuses_says_so() -> None:
    async with http_server(token="Bearer abc") as web:
        offered = {"refused": McpOptions(url=web.url), "nobody": McpOptions(url="http://127.0.0.1:9/mcp")}
        async with started(**offered) as servers:
            assert servers.tools == {}
            assert servers.failures == {
                "refused": "Server returned an error response (HTTP 401)",
                "nobody": "All connection attempts failed",
            }


async def test_a_server_that_was_started_anew_meanwhile_is_greeted_again() -> None:
    async with http_server() as web, started(web=McpOptions(url=web.url)) as servers:
        await servers.call("web__first")
        web.forget = 400
        assert await servers.call("web__first") == ToolReturn("first {}")
        assert [n.key for n in servers.notices] == ["mcp:web:restart"]


async def test_a_server_that_went_away_is_tried_again_at_the_next_call() -> None:
    async with http_server() as web:
        servers_of = started(web=McpOptions(url=web.url))
        servers = await servers_of.__aenter__()
    with pytest.raises(ToolError, match="the call took effect is not known"):
        await servers.call("web__first")
    with pytest.raises(ToolError) as gone:
        await servers.call("web__first")
    assert str(gone.value) == (
        "The MCP server 'web' ended and could not be started again: All connection attempts failed"
    )
    await servers_of.__aexit__(None, None, None)
