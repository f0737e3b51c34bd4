"""web_fetch against a server on 127.0.0.1 (private addresses allowed for it by config)."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path
from typing import Any

import pytest
from web_server import Answer, serving

from geode.contract import ImageBlock, TextBlock
from geode.tools.handlers import BUILTIN_HANDLERS
from geode.tools.types import ToolContext, ToolError, ToolReturn

GIF = b"GIF89a\x02\x00\x03\x00" + b"\0" * 10
HTML = b"""<!doctype html><html><head><title> My
 page </title><style>p{}</style><script>alert(1)</script></head><body><nav>menu</nav>
<h1>Head</h1><p>Some <b>bold</b> and <a href="/x?y=1">a link</a>.</p>
<ul><li>one</li><li>two<ol><li>deep</li></ol></li></ul>
<pre>code  here
  kept</pre><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<p>end &amp; more</p></body></html>"""
MARKDOWN = """# Head

Some **bold** and [a link]({base}/x?y=1).

- one
- two
  1. deep

```
code  here
  kept
```

a | b
1 | 2

end & more"""


async def fetch(url: str, web: dict[str, Any] | None = None, **arguments: Any) -> Any:
    context = ToolContext(Path("/"), limits={"web": {"allow_private": True, **(web or {})}})
    return await BUILTIN_HANDLERS["web_fetch"](url=url, context=context, **arguments)


async def test_text_and_paging() -> None:
    with serving({"/a": Answer("grüße".encode("latin-1"), "text/plain; charset=latin-1")}) as server:
        assert await fetch(server.url("/a")) == {
            "url": server.url("/a"),
            "status": 200,
            "content_type": "text/plain",
            "title": "",
            "content": "grüße",
            "size_bytes": 5,
            "truncated": False,
        }
        page = await fetch(server.url("/a"), offset=1, limit=2)
        assert (page["content"], page["truncated"], page["next_offset"]) == ("rü", True, 3)
        headers = server.seen[0][1]
        assert (headers["host"], headers["user-agent"]) == (f"127.0.0.1:{server.port}", "geode")


async def test_html_becomes_markdown() -> None:
    with serving({"/": Answer(HTML, "text/html")}) as server:
        page = await fetch(server.url("/"))
        assert page["title"] == "My page"
        assert page["content"] == MARKDOWN.format(base=server.url(""))


async def test_json_image_and_status() -> None:
    answers = {
        "/j": Answer(b'{"a":[1]}', "application/json"),
        "/bad": Answer(b"{", "application/json", status=500),
        "/i": Answer(GIF, "application/octet-stream"),
    }
    with serving(answers) as server:
        assert (await fetch(server.url("/j")))["content"] == '{\n "a": [\n  1\n ]\n}'
        bad = await fetch(server.url("/bad"))
        assert (bad["status"], bad["content"]) == (500, "{")
        assert (await fetch(server.url("/none")))["status"] == 404
        image = await fetch(server.url("/i"))
        assert image == ToolReturn(
            [
                TextBlock(f"{server.url('/i')} (image/gif, 2x3 pixels, 20 bytes)"),
                ImageBlock("image/gif", base64.b64encode(GIF).decode()),
            ]
        )


async def test_other_types_are_refused() -> None:
    answers = {"/z": Answer(b"PK", "application/zip"), "/b": Answer(b"a\0b", "text/plain")}
    with serving(answers) as server:
        with pytest.raises(ToolError, match=r"is application/zip \(2 bytes\): web_fetch reads text and images"):
            await fetch(server.url("/z"))
        with pytest.raises(ToolError, match="is binary data"):
            await fetch(server.url("/b"))


async def test_redirects_are_followed_and_bounded() -> None:
    answers = {
        "/1": Answer(status=302, headers={"location": "/2"}),
        "/2": Answer(b"there"),
        "/loop": Answer(status=301, headers={"location": "/loop"}),
    }
    with serving(answers) as server:
        page = await fetch(server.url("/1"))
        assert (page["url"], page["content"]) == (server.url("/2"), "there")
        with pytest.raises(ToolError, match="more than 5 redirects"):
            await fetch(server.url("/loop"))
        assert [path for path, _ in server.seen].count("/loop") == 6


async def test_size_and_time_limits() -> None:
    bomb = gzip.compress(b"a" * 50_000_000)
    answers = {
        "/big": Answer(b"x" * 100_000),
        "/bomb": Answer(bomb, headers={"content-encoding": "gzip"}),
        "/hang": Answer(hang=True),
    }
    with serving(answers) as server:
        big = await fetch(server.url("/big"), {"max_bytes": 1000})
        assert (big["size_bytes"], big["truncated"]) == (1000, True)
        bombed = await fetch(server.url("/bomb"), {"max_bytes": 100_000}, limit=10)
        assert (bombed["content"], bombed["size_bytes"], bombed["truncated"]) == ("a" * 10, 100_000, True)
        with pytest.raises(ToolError, match=r"^no complete answer within 0.2 s$"):
            await fetch(server.url("/hang"), {"timeout_s": 0.2})


async def test_host_lists() -> None:
    with serving({"/": Answer(b"ok")}) as server:
        assert (await fetch(server.url("/"), {"allow_hosts": ["127.0.0.*"]}))["content"] == "ok"
        with pytest.raises(ToolError, match=r"127.0.0.1 is not on the list of allowed hosts"):
            await fetch(server.url("/"), {"allow_hosts": ["*.example.org"]})
        with pytest.raises(ToolError, match=r"127.0.0.1 is on the list of denied hosts"):
            await fetch(server.url("/"), {"deny_hosts": ["127.*"]})


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({"/": Answer(b"direct")}) as server, serving({}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url(""))
        monkeypatch.setenv("ALL_PROXY", proxy.url(""))
        assert (await fetch(server.url("/")))["content"] == "direct"
        assert proxy.seen == []


async def test_nobody_there() -> None:
    with serving({}) as server:
        url = server.url("/")
    with pytest.raises(ToolError, match=r"^http://127\.0\.0\.1"):
        await fetch(url)
