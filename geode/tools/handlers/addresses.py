"""Which addresses a fetch may go to: names are resolved here, every address is checked, and a connection
goes to a checked address, never to a name that could meanwhile mean another one.
"""

from __future__ import annotations

import asyncio
import fnmatch
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from geode.tools.types import ToolError

__all__ = ["Target", "WebPolicy", "resolve"]

_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_NOT_GLOBAL = tuple(
    ipaddress.ip_network(net)
    for net in ("100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "192.88.99.0/24", "fec0::/10", "2001::/32", "::/96")
)
_MAX_ADDRESSES = 4
_METADATA = ("169.254.169.254", "100.100.100.200", "fd00:ec2::254")
_LOCAL_NAMES = ("localhost", "*.localhost", "*.local", "*.internal", "*.localdomain", "*.home.arpa")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class WebPolicy:
    """The config's `safety.web`. Hosts are globs over names; `allow_hosts`, where not empty, is all that is allowed."""

    allow_private: bool = False
    allow_hosts: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()
    max_bytes: int = 5_000_000
    timeout_s: float = 30.0
    proxy: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes: the URL's parts and the addresses, all checked, to try in this order."""

    scheme: str
    host: str
    port: int
    addresses: tuple[str, ...]


async def resolve(url: str, policy: WebPolicy) -> Target:
    """Raises ToolError for anything that is not a public http(s) address by this policy."""
    scheme, host, port = _parts(url)
    name = host.lower().rstrip(".")
    if _matches(name, policy.deny_hosts):
        raise ToolError(f"{host} is on the list of denied hosts (safety.web.deny_hosts)")
    if policy.allow_hosts and not _matches(name, policy.allow_hosts):
        raise ToolError(f"{host} is not on the list of allowed hosts (safety.web.allow_hosts)")
    if not policy.allow_private and _matches(name, _LOCAL_NAMES):
        raise ToolError(f"{host} is a local name: web_fetch reaches public addresses only")
    try:
        # also reads 2130706433, 0x7f.1 and 017700000001, as every resolver does: what counts is the address
        found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolError(f"{host} cannot be resolved: {getattr(error, 'strerror', None) or error}") from None
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    if not addresses:
        raise ToolError(f"{host} has no address")
    for address in addresses:
        if is_metadata(address):
            raise ToolError(f"{host} is at {address}, where machines hand out credentials: refused")
        if not policy.allow_private and not is_public(address):
            raise ToolError(f"{host} is at {address}, which is not a public address: refused")
    return Target(scheme, host, port, tuple(addresses[:_MAX_ADDRESSES]))


def is_metadata(text: str) -> bool:
    """Link-local and the clouds' metadata addresses: refused even where private addresses are allowed."""
    address = _inner(text)
    return address is None or address.is_link_local or str(address) in _METADATA


def is_public(text: str) -> bool:
    """False for loopback, private, link-local, shared, multicast, reserved and metadata addresses, however written."""
    address = _inner(text)
    if address is None:
        return False
    if any(address.version == net.version and address in net for net in _NOT_GLOBAL):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _inner(text: str) -> Address | None:
    """The address, or the IPv4 address that an IPv6 one carries (mapped, 6to4, NAT64)."""
    try:
        address: Address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and any(address in net for net in _NAT64):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return inner or address
    return address


def _parts(url: str) -> tuple[str, str, int]:
    if any(ord(char) <= 32 or char == "\\" or ord(char) == 127 for char in url):
        raise ToolError("the URL holds white space, a backslash or a control character")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ToolError(f"the URL cannot be read: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise ToolError(f"only http and https are fetched, not {parts.scheme or 'an address without a scheme'}")
    if "@" in parts.netloc:
        raise ToolError("a URL with a user name or password is refused")
    if not parts.hostname:
        raise ToolError("the URL has no host")
    if port == 0:
        raise ToolError("port 0 is refused")
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern.lower().rstrip(".")) for pattern in patterns)
