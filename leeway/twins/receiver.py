"""A tenant's own system at the generic signed webhook: it posts messages and takes replies (docs/channels/generic.md).

It does what the contract asks of it: signs with one secret, checks with the other, and drops what it has had.
"""

import json
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leeway.twins.twin import Delivered, Twin
from shared.clock import Clock
from shared.ids import new_id
from shared.signing import Signature, check, decode_secret, sign

CALLBACK: Final = "/leeway"

_STATUS: Final = {
    Signature.MISSING: 400,
    Signature.OUTSIDE_TOLERANCE: 400,
    Signature.WRONG: 401,
}


class ReceiverTwin(Twin):
    """`inbound` signs what it posts to us, `outbound` what we post to it; both as `whsec_…`."""

    def __init__(self, *, clock: Clock, webhook: str, inbound: str, outbound: str) -> None:
        super().__init__(webhook=webhook)
        self._clock = clock
        self._signs_with = decode_secret(inbound)
        self._checks_with = decode_secret(outbound)
        self.repeats: list[str] = []  # ids of what came again, and was dropped

    @property
    def app(self) -> Starlette:
        return Starlette(routes=[Route(CALLBACK, self._receive, methods=["POST"])])

    async def write(self, sender: str, text: str | None = None, **data: Any) -> int:
        """A customer's message; `data` are further fields of the contract. The status of our answer."""
        message = {"message_id": new_id().hex, "conversation_id": f"with-{sender}", "from": {"id": sender}}
        said = {} if text is None else {"text": text}
        at = self._clock.now().isoformat()
        event = {"type": "message.received", "timestamp": at, "data": message | said | data}
        return await self.deliver(f"msg_{new_id().hex}", json.dumps(event, ensure_ascii=False).encode())

    async def press(self, sender: str, delivered: Delivered, title: str) -> int:
        button = next(button for button, label in delivered.buttons if label == title)
        return await self.write(sender, button={"id": button, "title": title})

    async def deliver(self, webhook_id: str, body: bytes) -> int:
        """A signed event, be it once more under its id; the status of our answer."""
        timestamp = int(self._clock.now().timestamp())
        headers = {
            "content-type": "application/json",
            "webhook-id": webhook_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(self._signs_with, webhook_id, timestamp, body),
        }
        return (await self.post(body, headers)).status_code

    async def _receive(self, request: Request) -> Response:
        body = await request.body()
        headers = dict(request.scope["headers"])
        signature = check(headers, body, [self._checks_with], now_s=self._clock.now().timestamp())
        if signature is not Signature.GOOD:
            return Response(status_code=_STATUS[signature])
        event = json.loads(body)
        webhook_id = request.headers["webhook-id"]
        self.requests.append(event | {"webhook_id": webhook_id})
        if not self.faults or self.faults[0].takes:
            self._take(webhook_id, event["data"])
        _, instead = await self.meet_fault()
        return instead or Response(status_code=200)

    def _take(self, webhook_id: str, data: dict[str, Any]) -> None:
        if any(one.id == webhook_id for one in self.delivered):
            self.repeats.append(webhook_id)
            return
        buttons = tuple((one["id"], one["title"]) for one in data.get("buttons", ()))
        self.delivered.append(Delivered(id=webhook_id, to=data["to"], text=data["text"], buttons=buttons))
