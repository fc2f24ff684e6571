"""HTTP out of the installation: clients that follow no redirect and no proxy of the environment, and share what is costly."""

import ssl
from functools import cache

import httpx2

CONNECT_S = 4.0


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
