"""Calling a provider over HTTP: what left and what did not, told apart in one place."""

from collections.abc import Mapping
from typing import Any

import httpx2
import msgspec

from services.dispatch.core.outcome import NoAnswer, Throttled
from services.dispatch.ports import Address, Addresses
from shared.errors import Unavailable
from shared.ids import AccountId
from shared.outgoing import http_client

READ_S = 12.0


def client(*, connections: int) -> httpx2.AsyncClient:
    """A client for one channel's provider, its time-outs below those of a send."""
    return http_client(read_s=READ_S, connections=connections)


async def with_secret(addresses: Addresses, account: AccountId) -> Address | Throttled | None:
    """The account's address; None where it has none, or no secret for requests of ours; Throttled while it can't be looked up."""
    try:
        address = await addresses.address(account)
    except Unavailable as error:
        return Throttled(reason=str(error))
    return address if address is not None and address.secret else None


async def call(client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response | Throttled | NoAnswer:
    """The provider's answer; or Throttled where the request surely did not leave, NoAnswer where nobody knows. Reasons name no
    address, which may carry a token."""
    try:
        return await client.send(request)
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
        return Throttled(reason=f"not connected: {type(error).__name__}")
    except httpx2.HTTPError as error:
        return NoAnswer(reason=type(error).__name__)


def object_in(response: httpx2.Response) -> Mapping[str, Any]:
    """The JSON object in an answer; empty for one of any other form, as of something between us and the provider."""
    try:
        content = msgspec.json.decode(response.content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return content if isinstance(content, dict) else {}
