"""HTTP out of the installation: clients that follow no redirect and no proxy of the environment, and share what is costly;
and which addresses of others' choosing may be called."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

import httpx2

CONNECT_S = 4.0

Resolve = Callable[[str, int], Awaitable[list[str]]]


class NotPublic(Exception):
    """Not an address on the internet, over https; the text says in what, and names nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a request goes, so that the name can't come to mean something else in between: the URL with the address that was
    looked at in the name's place, and what a request needs for the name to be known all the same."""

    url: str
    headers: Mapping[str, str]
    extensions: Mapping[str, str]


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def public_target(url: str, *, resolve: Resolve = resolve) -> Target:
    """The target of a URL that somebody else chose. Raises NotPublic, and OSError where its name can't be resolved."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise NotPublic("not an address") from None
    if parts.scheme != "https" or not host:
        raise NotPublic("not https")
    addresses = [ipaddress.ip_address(one) for one in await resolve(host, port or 443)]
    if not addresses or not all(one.is_global for one in addresses):
        raise NotPublic("not on a public address")
    literal = f"[{addresses[0]}]" if addresses[0].version == 6 else str(addresses[0])
    netloc = f"{literal}:{port}" if port else literal
    return Target(
        url=parts._replace(netloc=netloc).geturl(),
        headers={"host": parts.netloc.rpartition("@")[2]},
        extensions={"sni_hostname": host},
    )


def http_client(*, read_s: float, connections: int = 100) -> httpx2.AsyncClient:
    """A client, to be closed by who asked for it. `read_s`: the time-out of one read, in seconds; connecting has its own."""
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(read_s, connect=CONNECT_S),
        follow_redirects=False,
        trust_env=False,
        verify=_trusted(),
        limits=httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
    )


@cache
def _trusted() -> ssl.SSLContext:
    """The system's certificates, read once a process: that takes some forty milliseconds."""
    return httpx2.create_ssl_context(trust_env=False)
