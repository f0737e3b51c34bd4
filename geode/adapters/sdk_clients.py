"""Opens the official SDK clients: no retries, explicit base URL and timeouts, nothing from the environment.

How a key goes: OpenAI's and Z.ai's APIs take `Authorization: Bearer`. Anthropic's API reference documents `x-api-key`
for API keys and `Authorization: Bearer` for OAuth tokens; anthropic 2.14 sends an `api_key` as Bearer, so the
documented header is set here instead.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from geode.adapters.credentials import PLACEHOLDER, Secrets
from geode.adapters.options import AdapterOptions, Wire

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

__all__ = ["import_sdk", "open_anthropic", "open_openai", "request_headers"]


def request_headers(options: AdapterOptions, secrets: Secrets) -> dict[str, str]:
    """The headers that geode adds to the SDK's own: the config's, the betas (merged into one header), the account."""
    headers = dict(options.headers)
    if options.betas:
        given = next((name for name in headers if name.lower() == "anthropic-beta"), None)
        value = headers.pop(given) if given is not None else ""
        betas = [*(b.strip() for b in value.split(",")), *options.betas]
        headers["anthropic-beta"] = ",".join(dict.fromkeys(filter(None, betas)))
    if secrets.account_id and not _has(headers, "chatgpt-account-id"):
        headers["ChatGPT-Account-ID"] = secrets.account_id
    return headers


def import_sdk(wire: Wire) -> None:
    """Imports the wire's SDK (a second or so) ahead of its first call, whose time limit would be used up by it."""
    import_module("anthropic" if wire == "messages" else "openai")


def open_openai(
    options: AdapterOptions, secrets: Secrets, transport: httpx2.AsyncBaseTransport | None = None
) -> AsyncOpenAI:
    """An AsyncOpenAI client: no retries, explicit base URL, no header from the environment."""
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Omit

    headers: dict[str, Any] = {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
    _merge(headers, request_headers(options, secrets))
    client = AsyncOpenAI(
        api_key=secrets.value or PLACEHOLDER,
        base_url=options.base_url,
        timeout=options.timeout_s,
        max_retries=0,
        default_headers=headers,
        http_client=DefaultAsyncHttpxClient(**_http_options(options, transport)),
    )
    client._custom_headers = headers  # without what OPENAI_CUSTOM_HEADERS added
    return client


def open_anthropic(
    options: AdapterOptions, secrets: Secrets, transport: httpx2.AsyncBaseTransport | None = None
) -> AsyncAnthropic:
    """An AsyncAnthropic client: no retries, explicit base URL, no header, profile or tracing from the environment."""
    from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient, Omit

    value = secrets.value or PLACEHOLDER
    headers: dict[str, Any] = {}
    if options.credential.scheme == "api_key":
        headers = {"X-Api-Key": value, "Authorization": Omit()}
    _merge(headers, request_headers(options, secrets))
    client = AsyncAnthropic(
        auth_token=value,
        base_url=options.base_url,
        timeout=options.timeout_s,
        max_retries=0,
        default_headers=headers,
        http_client=DefaultAsyncHttpxClient(**_http_options(options, transport)),
        open_telemetry=False,
    )
    client._custom_headers = headers  # without what ANTHROPIC_CUSTOM_HEADERS added
    return client


def _http_options(options: AdapterOptions, transport: httpx2.AsyncBaseTransport | None) -> dict[str, Any]:
    """A loopback server is never reached through a proxy, whatever the environment says.

    Nor is it asked for a certificate where its URL is http: the system's certificates, which take longer to load than
    a loopback call, are left out, so that a redirect from there to https fails.
    """
    given: dict[str, Any] = {"timeout": options.timeout_s, "follow_redirects": False}  # a key goes nowhere else
    if transport is not None:
        given["transport"] = transport
    url = urlsplit(options.base_url)
    if url.hostname in ("127.0.0.1", "localhost", "::1"):
        given["trust_env"] = False
        if url.scheme == "http":
            given["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return given


def _has(headers: Mapping[str, Any], name: str) -> bool:
    return any(given.lower() == name for given in headers)


def _merge(headers: dict[str, Any], more: Mapping[str, str]) -> None:
    """Adds headers. An equal name in other case keeps the spelling that is there, which is the one the SDK knows."""
    for name, value in more.items():
        known = next((given for given in headers if given.lower() == name.lower()), name)
        headers[known] = value
