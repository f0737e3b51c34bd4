"""MCP servers over stdio: their tools, what calls come to, and what happens when a server misbehaves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from mcp_kit import gone, raw, started

from geode.contract import ImageBlock, TextBlock, Tier
from geode.tools.mcp import McpOptions, Offered
from geode.tools.types import ToolError, ToolReturn

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def test_all_pages_are_listed_with_names_tiers_and_schemas() -> None:
    async with started(raw=raw()) as servers:
        assert list(servers.tools) == [
            *("raw__echo", "raw__env", "raw__files.read", "raw__place", "raw__wipe", "raw__picture", "raw__media"),
            *("raw__structured", "raw__refuse", "raw__grow", "raw__shout", "raw__hang", "raw__crash", "raw__pid"),
        ]
        tiers = {name: tool.tier for name, tool in servers.tools.items() if tool.tier is not Tier.WRITE}
        assert tiers == {"raw__wipe": Tier.DANGEROUS}  # a hint that a tool only reads is not taken at its word
        echo = servers.tools["raw__echo"]
        assert (echo.source, echo.spec.description, echo.timeout_s) == ("mcp:raw", "Says it again.", 60.0)
        assert (echo.auto_approved, echo.parallel) == (False, False)
        assert "$defs" in servers.tools["raw__place"].spec.input_schema
        assert [n.message for n in servers.notices] == [
            "MCP server raw: tool 'broken' is left out: at $.properties.x.type: 'nothing' is not valid under any of "
            "the given schemas"
        ]


async def test_what_calls_come_to() -> None:
    async with started(raw=raw()) as servers:
        assert await servers.call("raw__echo", text="Grüße") == ToolReturn("Grüße")
        assert await servers.call("raw__files.read") == ToolReturn("files.read")
        assert await servers.call("raw__place", point={"x": 3}) == ToolReturn("3")
        assert await servers.call("raw__refuse") == ToolReturn("not today", is_error=True)
        assert await servers.call("raw__structured") == ToolReturn('a summary\n{"count": 2, "items": ["a", "b"]}')
        look = await servers.call("raw__picture")
        assert look == ToolReturn([TextBlock("look"), ImageBlock("image/png", PIXEL)])
        assert (await servers.call("raw__media")).content == [
            TextBlock("[audio: 3 bytes of audio/wav, which cannot be shown here]"),
            TextBlock("[resource memo://2] two the second"),
            TextBlock("[resource memo://1]\ninside"),
            TextBlock("[resource memo://3]"),
            ImageBlock("image/png", PIXEL),
        ]


async def test_globs_prefix_and_approval_are_taken_from_the_config() -> None:
    offered = Offered(raw(), False, True, 5.0, ("e*", "files.*"), ("env",))
    async with started(raw=offered) as servers:
        assert list(servers.tools) == ["echo", "files.read"]
        assert (servers.tools["echo"].auto_approved, servers.tools["echo"].parallel) == (True, True)
        assert servers.tools["echo"].timeout_s == 5.0


async def test_a_server_gets_only_the_environment_it_is_given() -> None:
    async with started(raw=raw(env={"GIVEN": "yes"})) as servers:
        assert (await servers.call("raw__env", name="GIVEN")).content == "yes"
        assert (await servers.call("raw__env", name="PATH")).content == "(not set)"


async def test_a_changed_list_is_there_when_the_call_that_changed_it_is_over() -> None:
    async with started(raw=raw()) as servers:
        await servers.call("raw__grow")
        await servers.call("raw__grow")
        assert [name for name in servers.tools if "grown" in name] == ["raw__grown_15", "raw__grown_16"]
        assert await servers.call("raw__grown_15") == ToolReturn("grown_15")


async def test_servers_start_side_by_side_and_one_failure_is_its_own() -> None:
    offered = {
        **{f"slow{n}": raw("slow", start_timeout_s=30) for n in range(3)},
        "silent": raw("silent", start_timeout_s=0.6),
        "dies": raw("dies"),
        "circle": raw("circle"),
        "wrong": raw("wrong"),
        "none": McpOptions(command="/no/such/program"),
    }
    async with started(**offered) as servers:
        assert sorted({name.partition("__")[0] for name in servers.tools}) == ["slow0", "slow1", "slow2"]
        assert servers.failures == {
            "silent": "no answer within 0.6 s",
            "dies": "it ended before it answered (exit status 1): no licence found",
            "circle": "its tool list does not end (nextCursor '4' came again)",
            "wrong": "its answer is not of the protocol: tools.0.inputSchema: Field required",
            "none": "there is no command '/no/such/program'",
        }


async def test_a_server_that_crashes_in_a_call_is_started_again_by_the_next() -> None:
    async with started(raw=raw()) as servers:
        first = (await servers.call("raw__pid")).content
        hanging = asyncio.create_task(servers.call("raw__hang"))
        await asyncio.sleep(0.05)
        with pytest.raises(ToolError) as crash:
            await servers.call("raw__crash")
        assert str(crash.value) == (
            "The MCP server 'raw' ended during this call; whether the call took effect is not known. "
            "The next call starts the server again."
        )
        with pytest.raises(ToolError):
            await hanging
        both = await asyncio.gather(servers.call("raw__pid"), servers.call("raw__pid"))
        assert both[0] == both[1] != first
        assert [n.message for n in servers.notices if "restart" in n.key] == [
            "MCP server raw ended during the run and was started again"
        ]
        assert await gone(int(first))


async def test_an_error_of_the_servers_own_is_not_its_end() -> None:
    async with started(raw=raw()) as servers:
        first = (await servers.call("raw__pid")).content
        with pytest.raises(ToolError) as refused:
            await servers.call("raw__refuse", why="rate limited")
        assert str(refused.value) == "MCP error -32000: rate limited"
        assert (await servers.call("raw__pid")).content == first
        assert not [n for n in servers.notices if "restart" in n.key]


async def test_a_server_that_cannot_be_started_again_says_why(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(Path(__file__).with_name("mcp_raw_server.py").read_text())
    options = raw()
    async with started(raw=type(options)(command=options.command, args=(str(program),))) as servers:
        program.write_text("raise SystemExit('moved away')")
        with pytest.raises(ToolError, match="ended during this call"):
            await servers.call("raw__crash")
        for _ in range(2):
            with pytest.raises(ToolError) as gone_for_good:
                await servers.call("raw__pid")
            assert str(gone_for_good.value) == (
                "The MCP server 'raw' ended and could not be started again: it ended before it answered "
                "(exit status 1): moved away"
            )


async def test_a_cancelled_call_leaves_the_server_usable() -> None:
    async with started(raw=raw()) as servers:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await servers.call("raw__hang")
        assert await servers.call("raw__echo", text="still here") == ToolReturn("still here")


@pytest.mark.parametrize("words", [("child",), ("deaf", "child")])
async def test_no_process_is_left(words: tuple[str, ...]) -> None:
    async with started(raw=raw(*words, exit_grace_s=0.3)) as servers:
        pids = [int((await servers.call("raw__pid")).content), int(servers.tools["raw__child"].spec.description)]
    assert [await gone(pid) for pid in pids] == [True, True]


async def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    options = raw()
    more = {"exit_grace_s": 0.2}
    program = f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"

    async def start() -> None:
        async with started(raw=type(options)(command=options.command, args=("-c", program), **more)):
            pass

    starting = asyncio.create_task(start())
    while not file.exists() or not file.read_text():
        await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert await gone(int(file.read_text()))


async def test_standard_error_goes_to_a_bounded_file_with_secrets_masked(tmp_path: Path) -> None:
    log = tmp_path / "mcp" / "raw.log"
    env = {"SHOUTED": "hidden-value"}
    options = raw(env=env, log=log, mask=lambda text: text.replace("hidden-value", "***"))
    async with started(raw=options) as servers:
        assert not log.exists()
        for _ in range(3):
            assert await servers.call("raw__shout") == ToolReturn("done")
    lines = log.read_text().splitlines()
    assert lines[0] == "first *** line"
    assert "(on standard output) this is no JSON" in lines
    assert lines[-1] == "(the rest is left out)"
    assert 200_000 < log.stat().st_size < 300_000
