"""The generic signed webhook on its way out: Standard Webhooks, POSTed to the tenant's callback URL.

Signed with a secret of its own (never the inbound one); the webhook-id is the idempotency key and stays the same over
retries. The callback must be https and public, unless the installation allows internal ones: the address is resolved,
checked and connected to as checked, and redirects are not followed.
"""

from datetime import timedelta

import httpx2
import msgspec

from services.dispatch.adapters.channels.calling import call, client, with_secret
from services.dispatch.core.outcome import Accepted, AccountRefused, NoAnswer, Outcome, Refused, Throttled
from services.dispatch.ports import Address, Addresses, Claimed, Courtesy, Probed
from shared.clock import Clock
from shared.outgoing import NotPublic, Target, public_target
from shared.signing import decode_secret, sign

RETRY_AFTER_MAX_S = 120


class Unreachable(Exception):
    """The callback address is not one we may call; nothing left."""


class GenericChannel:
    def __init__(self, addresses: Addresses, *, clock: Clock, allow_internal: bool, connections: int) -> None:
        self._addresses = addresses
        self._clock = clock
        self._allow_internal = allow_internal
        self._client = client(connections=connections)

    async def close(self) -> None:
        await self._client.aclose()

    async def send(self, claimed: Claimed, *, key: str) -> Outcome:
        address = await with_secret(self._addresses, claimed.account)
        if isinstance(address, Throttled):
            return address
        if address is None or not address.callback_url:
            return Refused(reason="the channel account has no callback URL and secret")
        try:
            signing_key = decode_secret(address.secret)
            request = await self._request(address.callback_url, signing_key, claimed, key)
        except (Unreachable, ValueError) as error:
            return Refused(reason=str(error))
        answer = await call(self._client, request)
        return _read(answer) if isinstance(answer, httpx2.Response) else answer

    async def courtesy(self, courtesy: Courtesy) -> None:
        """The contract has none."""

    async def probe(self, address: Address) -> Probed:
        """Whether the callback URL is one that may be called. Nothing is posted: its owner may act on whatever comes."""
        try:
            await self._target(address.callback_url or "")
        except Unreachable as error:
            return Probed(works=False, said=str(error))
        return Probed(works=True, said="the callback URL may be called; nothing was posted to it")

    async def _request(self, url: str, key: bytes, claimed: Claimed, webhook_id: str) -> httpx2.Request:
        now = self._clock.now()
        body = msgspec.json.encode(
            {"type": "message.reply", "timestamp": now.isoformat(), "data": _data(claimed, webhook_id)}
        )
        timestamp = int(now.timestamp())
        headers = {
            "content-type": "application/json",
            "webhook-id": webhook_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(key, webhook_id, timestamp, body),
        }
        target = await self._target(url)
        return self._client.build_request(
            "POST",
            target.url,
            content=body,
            headers={**headers, **target.headers},
            extensions=dict(target.extensions),
        )

    async def _target(self, url: str) -> Target:
        if self._allow_internal:
            return Target(url=url, headers={}, extensions={})
        try:
            return await public_target(url)
        except NotPublic as error:
            raise Unreachable(f"the callback URL is {error}") from error
        except OSError as error:
            raise Unreachable(f"the callback's host can't be resolved: {error}") from error


def _data(claimed: Claimed, webhook_id: str) -> dict[str, object]:
    data: dict[str, object] = {
        "conversation_id": claimed.thread or claimed.user_id,
        "to": claimed.user_id,
        "in_reply_to": claimed.in_reply_to,
        "message_id": webhook_id,
        "text": claimed.parts[claimed.part - 1],
    }
    if claimed.in_handoff:
        data["handoff"] = True
    if claimed.buttons and claimed.last_part:
        data["buttons"] = msgspec.json.decode(claimed.buttons)
    return data


def _read(response: httpx2.Response) -> Outcome:
    """The receiver's status by what follows from it: the table of docs/channels/generic.md."""
    status = response.status_code
    if 200 <= status < 300:
        return Accepted(provider_id=None)
    if status in (401, 403, 410):  # by Standard Webhooks, 410 asks for no more
        return AccountRefused(reason=f"the callback answered {status}")
    if status == 429 or (status == 503 and "retry-after" in response.headers):
        return Throttled(reason=f"the callback answered {status}", retry_after=_retry_after(response))
    if status >= 500 or status == 408:
        return NoAnswer(reason=f"the callback answered {status}")
    return Refused(reason=f"the callback answered {status}")


def _retry_after(response: httpx2.Response) -> timedelta | None:
    stated = response.headers.get("retry-after", "")
    return timedelta(seconds=min(int(stated), RETRY_AFTER_MAX_S)) if stated.isdigit() else None
