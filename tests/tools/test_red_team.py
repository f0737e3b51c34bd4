"""A hostile model against the tools: nothing outside the workspace, no secrets, no hanging, nothing left behind.

Only servers on 127.0.0.1 are contacted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from web_server import Answer, serving

from geode.tools.bubblewrap import bwrap_fault
from geode.tools.handlers import BUILTIN_HANDLERS
from geode.tools.offload import OffloadStore
from geode.tools.types import ToolContext, ToolError

SECRET = "secret-outside"
MODES = ["none", pytest.param("bwrap", marks=pytest.mark.skipif(bwrap_fault() is not None, reason=str(bwrap_fault())))]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with a secret beside it."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a").write_text(SECRET)
    inside = tmp_path / "work"
    inside.mkdir()
    return inside


def call(tool: str, workspace: Path, **arguments: Any) -> Any:
    return BUILTIN_HANDLERS[tool](**arguments, context=ToolContext(workspace))


async def bash(command: str, workspace: Path, timeout_s: float = 20, **sandbox: Any) -> Any:
    context = ToolContext(workspace, environ=os.environ, limits={"sandbox": {"mode": "none", **sandbox}})
    return await BUILTIN_HANDLERS["run_bash"](command=command, timeout_s=timeout_s, context=context)


async def fetch(url: str, **web: Any) -> Any:
    return await BUILTIN_HANDLERS["web_fetch"](url=url, context=ToolContext(Path("/"), limits={"web": web}))


# ------------------------------------------------------------------------------------------------------------- paths


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "x/../../secret",
        "./.././secret",
        "/etc/passwd",
        "//etc/passwd",
        "link",
        "folder/a",
        "chain",
        "folder/../secret",
        "up/secret",
        "/proc/self/environ",
    ],
)
def test_paths_that_lead_out(workspace: Path, path: str) -> None:
    (workspace / "x").mkdir()
    (workspace / "link").symlink_to(workspace.parent / "secret")
    (workspace / "folder").symlink_to("../out")
    (workspace / "chain").symlink_to("link")
    (workspace / "up").symlink_to("..")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_document", {"path": path}),
        ("write_file", {"path": path, "content": "x"}),
        ("edit_file", {"path": path, "old_string": SECRET, "new_string": "x"}),
        ("grep_files", {"path": path, "pattern": "."}),
        ("glob_files", {"path": path, "pattern": "**"}),
    ]
    for tool, arguments in calls:
        with pytest.raises(ToolError) as error:
            call(tool, workspace, **arguments)
        assert str(error.value) == f"{path} is outside of the workspace; paths are relative to the workspace root"
    assert (workspace.parent / "secret").read_text() == SECRET
    assert (workspace.parent / "out/a").read_text() == SECRET


def test_absolute_path_through_the_root_and_out(workspace: Path) -> None:
    with pytest.raises(ToolError, match="is outside of the workspace"):
        call("read_document", workspace, path=f"{workspace}/../secret")


def test_searches_do_not_follow_links_out(workspace: Path) -> None:
    (workspace / "folder").symlink_to("../out")
    (workspace / "link").symlink_to("../secret")
    assert call("glob_files", workspace, pattern="**")["files"] == []
    assert call("grep_files", workspace, pattern="secret")["count"] == 0


@pytest.mark.parametrize("tool", ["read_document", "write_file"])
def test_null_bytes_in_paths(workspace: Path, tool: str) -> None:
    arguments = {"content": "x"} if tool == "write_file" else {}
    with pytest.raises(ToolError, match=r"^the path holds a null byte$"):
        call(tool, workspace, path="a\0b", **arguments)


def test_endless_paths_and_links(workspace: Path) -> None:
    (workspace / "loop").symlink_to("loop")
    (workspace / "d").mkdir()
    with pytest.raises(ToolError, match=r"^loop: too many symbolic links$"):
        call("read_document", workspace, path="loop")
    with pytest.raises(ToolError, match=r"^the path has too many components$"):
        call("read_document", workspace, path="d/../" * 500 + "a")
    with pytest.raises(ToolError, match="File name too long"):
        call("read_document", workspace, path="a" * 300)


@contextlib.contextmanager
def flipping(workspace: Path) -> Iterator[None]:
    """A thread that swaps the folder `d` for a link to the outside and back, as fast as it can."""
    (workspace / "d").mkdir()
    (workspace / "d/a").write_text("inside")
    stop = threading.Event()

    def flip() -> None:
        real, hidden = workspace / "d", workspace / "hidden"
        while not stop.is_set():
            real.rename(hidden)
            try:
                real.symlink_to("../out")
                real.unlink()
            except FileExistsError:  # write_file has made the missing folder meanwhile
                shutil.rmtree(real, ignore_errors=True)
            with contextlib.suppress(OSError):
                hidden.rename(real)
            shutil.rmtree(hidden, ignore_errors=True)
            real.mkdir(exist_ok=True)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_symlink_race(workspace: Path) -> None:
    answers = set()
    with flipping(workspace):
        for _ in range(300):
            try:
                answers.add(call("read_document", workspace, path="d/a")["content"])
            except ToolError:
                answers.add("refused")
            with contextlib.suppress(ToolError):
                call("write_file", workspace, path="d/a", content="inside")
            for match in call("grep_files", workspace, pattern="secret", path=".")["matches"]:
                answers.add(match["text"])
    assert answers <= {"     1\tinside", "refused"}
    assert os.listdir(workspace.parent / "out") == ["a"]
    assert (workspace.parent / "out/a").read_text() == SECRET


def test_special_files_neither_block_nor_open(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        where = os.getcwd()
        os.chdir(workspace)  # a socket's path is short by nature
        try:
            listener.bind("sock")
        finally:
            os.chdir(where)
        for name, kind in (("pipe", "named pipe"), ("sock", "socket")):
            message = f"^{name} is a {kind}, not a regular file$"
            with pytest.raises(ToolError, match=message):
                call("read_document", workspace, path=name)
            with pytest.raises(ToolError, match=message):
                call("write_file", workspace, path=name, content="x")
        assert call("grep_files", workspace, pattern=".")["files_searched"] == 0


def test_kernel_files_are_closed_even_inside_a_workspace() -> None:
    with pytest.raises(ToolError, match="system files are outside of what the file tools open"):
        call("read_document", Path("/"), path="proc/self/environ")
    with pytest.raises(ToolError, match="system files are outside of what the file tools open"):
        call("read_document", Path("/"), path="/proc/self/environ")


# ------------------------------------------------------------------------------------------------------------- sizes


def test_huge_sparse_file(workspace: Path) -> None:
    with open(workspace / "huge", "wb") as file:
        file.write(b"start\n")
        file.truncate(50 * 2**30)
    with pytest.raises(ToolError, match="huge is a binary file of 53687091200 bytes"):
        call("read_document", workspace, path="huge")
    with pytest.raises(ToolError, match="huge is over 8388608 bytes: too big for edit_file"):
        call("edit_file", workspace, path="huge", old_string="start", new_string="x")


def test_text_over_the_bounds(workspace: Path) -> None:
    (workspace / "big").write_text("line of text\n" * 100_000)
    page = call("read_document", workspace, path="big", limit=20000)
    assert (page["total_lines"], page["truncated"], page["end_line"]) == (100_000, True, 10_000)
    assert page["next_offset"] == 10_001
    found = call("grep_files", workspace, pattern="text", limit=2000)
    assert (found["count"], found["truncated"]) == (2000, True)


def test_catastrophic_pattern_ends_with_the_deadline(workspace: Path) -> None:
    (workspace / "a").write_text("a" * 60 + "b\n")
    context = ToolContext(workspace, deadline=time.monotonic() + 0.8)
    found = BUILTIN_HANDLERS["grep_files"](pattern="(a|aa)+$", context=context)
    assert (found["timed_out"], found["truncated"], found["matches"]) == (True, True, [])


def test_search_stops_when_its_call_was_given_up(workspace: Path) -> None:
    (workspace / "a").write_text("x\n")
    stopped = threading.Event()
    stopped.set()
    found = BUILTIN_HANDLERS["grep_files"](pattern="x", context=ToolContext(workspace, stopped=stopped))
    assert (found["timed_out"], found["count"]) == (True, 0)


async def test_json_bomb_is_not_blown_up() -> None:
    nested = (b"[" * 900 + b"]" * 900 + b",") * 50
    with serving({"/": Answer(b"[" + nested + b"1]", "application/json")}) as server:
        page = await fetch(server.url("/"), allow_private=True)
    assert len(page["content"]) == 50_000
    assert page["content"][:5] == "[[[[["


async def test_deep_and_open_markup() -> None:
    with serving({"/": Answer(b"<div>" * 200_000 + b"<a href='x'><!--" + b"<" * 100_000, "text/html")}) as server:
        page = await fetch(server.url("/"), allow_private=True)
    assert page["status"] == 200
    assert len(page["content"]) <= 50_000


# ---------------------------------------------------------------------------------------------------------- commands


@pytest.mark.parametrize("mode", MODES)
async def test_giant_output_is_bounded(workspace: Path, mode: str) -> None:
    result = await bash("yes | head -c 200000000", workspace, mode=mode, output_bytes=10_000)
    assert (result["stdout_bytes"], result["truncated"]) == (200_000_000, True)
    assert len(result["stdout"]) < 6_000


@pytest.mark.parametrize("mode", MODES)
async def test_binary_output_is_safe_text(workspace: Path, mode: str) -> None:
    result = await bash(r"printf 'a\0b\377\033[2Jc\n'", workspace, mode=mode)
    assert result["stdout"] == "a\ufffdb\ufffd\ufffd[2Jc\n"


@pytest.mark.parametrize("mode", MODES)
async def test_a_command_that_never_returns(workspace: Path, mode: str) -> None:
    result = await bash("trap '' TERM INT HUP; while :; do sleep 1; done", workspace, 0.4, mode=mode)
    assert (result["timed_out"], result["exit_code"]) == (True, None)


@pytest.mark.parametrize("mode", MODES)
async def test_many_processes(workspace: Path, mode: str) -> None:
    """A fork bomb that goes out by itself after 511 processes, so that a failing limit harms nobody."""
    bomb = "b() { [ $1 -gt 7 ] && { sleep 5; return; }; b $(($1+1)) & b $(($1+1)) & wait; }; b 0; echo survived"
    result = await bash(bomb, workspace, mode=mode, processes=40)
    assert "survived" not in result["stdout"]
    assert result["note"] == "ended: it had started more than 40 processes"


@pytest.mark.parametrize("mode", MODES)
async def test_secrets_of_the_environment(workspace: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ZAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, SECRET)
    result = await bash("env; set; export -p; cat /proc/self/environ /proc/$PPID/environ", workspace, mode=mode)
    assert SECRET not in result["stdout"]
    assert "PATH=" in result["stdout"]


# --------------------------------------------------------------------------------------------------------------- web


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "017700000001",
        "0177.0.0.1",
        "0.0.0.0",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "192.0.0.8",
        "198.18.0.1",
        "[fd00::1]",
        "[fec0::1]",
        "224.0.0.1",
        "[ff02::1]",
        "240.0.0.1",
        "255.255.255.255",
    ],
)
async def test_private_addresses_are_refused(host: str) -> None:
    with serving({"/": Answer(b"never")}) as server:
        with pytest.raises(ToolError, match=r"which is not a public address: refused$"):
            await fetch(server.url("/", host))
        assert server.seen == []


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[::ffff:169.254.169.254]", "0xa9fea9fe", "2852039166", "[fe80::1]", "[fd00:ec2::254]"]
)
@pytest.mark.parametrize("allow_private", [False, True])
async def test_metadata_addresses_are_refused_always(host: str, allow_private: bool) -> None:
    with pytest.raises(ToolError, match=r"where machines hand out credentials: refused$"):
        await fetch(f"http://{host}/latest/meta-data/", allow_private=allow_private)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "x.localhost", "metadata.google.internal", "a.local"])
async def test_local_names_are_refused(host: str) -> None:
    with pytest.raises(ToolError, match=r"is a local name: web_fetch reaches public addresses only$"):
        await fetch(f"http://{host}/")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file:///etc/passwd", "only http and https are fetched, not file"),
        ("gopher://127.0.0.1/", "only http and https are fetched, not gopher"),
        ("//127.0.0.1/", "only http and https are fetched, not an address without a scheme"),
        ("http://example.org@127.0.0.1/", "a URL with a user name or password is refused"),
        ("http://127.0.0.1\\@example.org/", "the URL holds white space, a backslash or a control character"),
        ("http://127.0.0.1\r\nX: y/", "the URL holds white space, a backslash or a control character"),
        ("http:///path", "the URL has no host"),
        ("http://127.0.0.1:99999/", "the URL cannot be read: Port out of range 0-65535"),
        ("http://[::1/", "the URL cannot be read: Invalid IPv6 URL"),
    ],
)
async def test_tricks_with_the_url(url: str, message: str) -> None:
    with pytest.raises(ToolError) as error:
        await fetch(url)
    assert str(error.value) == message


@pytest.mark.parametrize("location", ["http://169.254.169.254/latest/", "http://[fe80::1]/", "//0xa9fea9fe/"])
async def test_redirect_to_metadata(location: str) -> None:
    with serving({"/": Answer(status=302, headers={"location": location})}) as server:
        with pytest.raises(ToolError, match="where machines hand out credentials"):
            await fetch(server.url("/"), allow_private=True)
        assert len(server.seen) == 1


async def test_redirect_to_another_scheme_or_host() -> None:
    answers = {
        "/f": Answer(status=302, headers={"location": "file:///etc/passwd"}),
        "/h": Answer(status=302, headers={"location": "http://127.0.0.2/"}),
    }
    with serving(answers) as server:
        with pytest.raises(ToolError, match="only http and https are fetched, not file"):
            await fetch(server.url("/f"), allow_private=True)
        with pytest.raises(ToolError, match="127.0.0.2 is not on the list of allowed hosts".replace(".", r"\.")):
            await fetch(server.url("/h"), allow_private=True, allow_hosts=["127.0.0.1"])


async def test_a_name_is_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: the second answer of the (faked) resolver would lead elsewhere; it is never asked for."""
    real = socket.getaddrinfo
    asked: list[str] = []

    def resolver(host: Any, *rest: Any, **more: Any) -> Any:
        if host != "rebind.test":
            return real(host, *rest, **more)
        asked.append(host)
        return real("127.0.0.1" if len(asked) == 1 else "127.0.0.3", *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    with serving({"/": Answer(b"pinned")}) as server:
        page = await fetch(server.url("/", "rebind.test"), allow_private=True)
        assert page["content"] == "pinned"
        assert page["url"] == server.url("/", "rebind.test")
        assert server.seen[0][1]["host"] == f"rebind.test:{server.port}"
    assert asked == ["rebind.test"]


# ----------------------------------------------------------------------------------------------------------- offload


@pytest.mark.parametrize(
    "ref",
    ["../secret", "/etc/passwd", "r0001/../../secret", "r0001\0", "r\u0660\u0660\u0660\u0661", "", "r0001\n"],
)
def test_hostile_refs(tmp_path: Path, ref: str) -> None:
    (tmp_path / "secret").write_text(SECRET)
    store = OffloadStore(tmp_path / "offload")
    assert store.put("kept") == "r0001"
    with pytest.raises(ToolError):
        store.read(ref)
    assert [path.name.split(".")[0] for path in (tmp_path / "offload").iterdir()] == ["r0001"]


async def test_cancelled_fetch_leaves_nothing_open() -> None:
    with serving({"/": Answer(hang=True)}) as server:
        task = asyncio.create_task(fetch(server.url("/"), allow_private=True))
        while not server.seen:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
