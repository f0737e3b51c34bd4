"""web_fetch: one public page as text, with every hop's address checked and pinned, and everything bounded."""

from __future__ import annotations

import asyncio
import functools
import json
import ssl
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from geode.tools.handlers.addresses import WebPolicy, resolve
from geode.tools.handlers.html import read_html
from geode.tools.handlers.images import image_return, image_type
from geode.tools.types import ToolContext, ToolError, ToolReturn

if TYPE_CHECKING:
    import httpx2

__all__ = ["web_fetch"]

MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_TEXT_TYPES = (
    "application/json",
    "application/xml",
    "application/javascript",
    "application/x-yaml",
    "application/yaml",
)


@dataclass(frozen=True, slots=True)
class _Response:
    url: str
    status: int
    content_type: str
    charset: str | None
    body: bytes
    cut: bool


async def web_fetch(
    url: str, context: ToolContext, offset: int = 0, limit: int = 50_000
) -> dict[str, Any] | ToolReturn:
    """The page's text from character `offset` on. Any HTTP status that has a body is a result, with its number."""
    policy = _policy(context)
    try:
        async with asyncio.timeout(policy.timeout_s or None):
            response = await _fetch(url, policy)
            return await _read(response, offset, limit)
    except TimeoutError:
        raise ToolError(f"no complete answer within {policy.timeout_s:g} s") from None


def _policy(context: ToolContext) -> WebPolicy:
    known = {field.name for field in fields(WebPolicy)}
    values = {k: v for k, v in (context.limits.get("web") or {}).items() if k in known and v is not None}
    for name in ("allow_hosts", "deny_hosts"):
        if name in values:
            values[name] = tuple(values[name])
    return WebPolicy(**values)


@functools.cache
def _tls() -> ssl.SSLContext:
    """The certificates that are trusted: read once, since reading them holds up every other call for 30 ms."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)


async def _fetch(url: str, policy: WebPolicy) -> _Response:
    import httpx2

    options: dict[str, Any] = {"trust_env": False, "follow_redirects": False, "timeout": policy.timeout_s or None}
    async with httpx2.AsyncClient(**options, proxy=policy.proxy, verify=_tls()) as client:
        for _ in range(MAX_REDIRECTS + 1):
            try:
                answer = await _answer(client, url, policy)
                try:
                    location = answer.headers.get("location")
                    if answer.status_code not in _REDIRECTS or not location:
                        return await _body(url, answer, policy.max_bytes)
                    url = urljoin(url, location)
                finally:
                    await answer.aclose()
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise ToolError(f"{url}: {str(error) or type(error).__name__}") from None
    raise ToolError(f"more than {MAX_REDIRECTS} redirects")


async def _answer(client: httpx2.AsyncClient, url: str, policy: WebPolicy) -> httpx2.Response:
    """Sends to an address that was checked, under the name that was asked for (Host header and TLS name)."""
    import httpx2

    target = await resolve(url, policy)
    try:
        asked = httpx2.URL(url)
        host = asked.netloc.decode("ascii")
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolError(f"the URL cannot be read: {error}") from None
    headers = {
        "host": host,
        "user-agent": "geode",
        "accept": "text/html,application/xhtml+xml,application/json,text/*;q=0.9,image/*;q=0.8,*/*;q=0.5",
        "accept-encoding": "gzip, deflate",
    }
    extensions = {"sni_hostname": asked.raw_host.decode("ascii")} if target.scheme == "https" else {}
    for address in () if policy.proxy else target.addresses[:-1]:
        try:
            request = client.build_request("GET", asked.copy_with(host=address), headers=headers, extensions=extensions)
            return await client.send(request, stream=True)
        except httpx2.ConnectError:
            continue  # the next address may be of a family that is reachable
    pinned = asked if policy.proxy else asked.copy_with(host=target.addresses[-1])
    return await client.send(client.build_request("GET", pinned, headers=headers, extensions=extensions), stream=True)


async def _body(url: str, answer: httpx2.Response, most: int) -> _Response:
    content_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    parts: list[bytes] = []
    size = 0
    # decoded in pieces of at most 1 MiB, so that a small compressed body cannot become a large one in memory
    async for part in answer.aiter_bytes(1 << 16):
        parts.append(part)
        size += len(part)
        if size > most:
            break
    body = b"".join(parts)[:most]
    return _Response(url, answer.status_code, content_type, answer.charset_encoding, body, size > most)


async def _read(response: _Response, offset: int, limit: int) -> dict[str, Any] | ToolReturn:
    kind = response.content_type
    if image := image_type(response.body[:12]):
        if response.cut:
            raise ToolError(f"{response.url}: the image is too large")
        return image_return(response.url, image, response.body)
    if kind and not (kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml"))):
        raise ToolError(f"{response.url} is {kind} ({len(response.body)} bytes): web_fetch reads text and images")
    if b"\0" in response.body[:8192]:
        raise ToolError(f"{response.url} is binary data: web_fetch reads text and images")
    text, title = _decoded(response), ""
    if kind in ("text/html", "application/xhtml+xml") or (not kind and text.lstrip()[:9].lower() == "<!doctype"):
        page = await asyncio.to_thread(read_html, text, response.url)
        text, title = page.text(), " ".join(page.title.split())
    elif (kind == "application/json" or kind.endswith("+json")) and not response.cut:
        text = _pretty(text)
    out: dict[str, Any] = {
        "url": response.url,
        "status": response.status,
        "content_type": kind,
        "title": title,
        "content": text[offset : offset + limit],
        "size_bytes": len(response.body),
        "truncated": response.cut or len(text) > offset + limit,
    }
    if len(text) > offset + limit:
        out["next_offset"] = offset + limit
    return out


def _decoded(response: _Response) -> str:
    try:
        return response.body.decode(response.charset or "utf-8", "replace")
    except LookupError:
        return response.body.decode("utf-8", "replace")


def _pretty(text: str) -> str:
    """JSON with line breaks, so that it can be paged; left as it is where that would make it much larger."""
    parts: list[str] = []
    room = 4 * len(text) + 1000
    try:
        for part in json.JSONEncoder(indent=1, ensure_ascii=False).iterencode(json.loads(text)):
            parts.append(part)
            room -= len(part)
            if room < 0:
                return text
    except (ValueError, RecursionError):
        return text
    return "".join(parts)
