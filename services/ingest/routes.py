"""HTTP: the hot webhook route as plain ASGI, mounted in a FastAPI app that has the rest."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from datetime import datetime
from typing import Any, assert_never

import structlog

from services.ingest.core import generic, sim
from services.ingest.core.events import Malformed, Parsed
from services.ingest.handler import Ingest
from services.ingest.ports import Account, Inbox, Request
from shared.clock import Clock
from shared.errors import LeewayError, Unavailable
from shared.signing import Signature, check
from shared.telemetry.metrics import Metrics

BODY_BYTES_MAX = 256 * 1024
LENGTH_DIGITS_MAX = 18

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

Parse = Callable[[bytes, Mapping[bytes, bytes], Account, datetime], Parsed]

# One parser a channel. A new channel is a module in core/ and a line here.
PARSERS: dict[str, Parse] = {
    "sim": lambda body, _headers, _account, now: sim.parse(body, now=now),
    "generic": lambda body, headers, account, now: generic.parse(
        body,
        webhook_id=headers[b"webhook-id"].decode("ascii"),
        verifies_phones=account.verifies_phones,
        now=now,
    ),
}

log = structlog.get_logger(__name__)


class Refused(Exception):
    """The answer to a request that is not taken."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


class Hooks:
    """`POST /{channel}/{account}` below its mount point: authenticate on the raw bytes, parse, commit, answer."""

    def __init__(self, *, ingest: Ingest, inbox: Inbox, clock: Clock, metrics: Metrics) -> None:
        self._ingest = ingest
        self._inbox = inbox
        self._clock = clock
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "only HTTP is mounted here"
        channel, address = _address(scope)
        label = channel if channel in PARSERS else "unknown"
        try:
            await self._take(scope, receive, channel, address)
            status, sentence = 200, ""
        except Refused as refused:
            status, sentence = refused.status, refused.sentence
        except Unavailable as error:
            log.warning(
                "webhook not stored, the channel will deliver it again", channel=label, error=str(error)
            )
            status, sentence = 503, "not stored; deliver it again"
        except LeewayError as error:  # two transactions that met too often, a wrong key: never a 500
            log.error("webhook not stored", channel=label, error=str(error))
            status, sentence = 503, "not stored; deliver it again"
        self._metrics.webhooks.labels(label, str(status)).inc()
        await _answer(send, status, sentence)

    async def _take(self, scope: Scope, receive: Receive, channel: str, address: str) -> None:
        parse = PARSERS.get(channel)
        account = await self._inbox.account(channel, address) if parse and len(address) <= 256 else None
        if parse is None or account is None:
            raise Refused(404, "no such channel account")
        if scope["method"] != "POST":
            raise Refused(405, "webhooks are posted")
        headers: dict[bytes, bytes] = dict(scope["headers"])
        body = await _body(headers, receive)
        now = self._clock.now()
        _authenticate(headers, body, account, now_s=now.timestamp())
        try:
            parsed = parse(body, headers, account, now)
        except Malformed as error:
            raise Refused(400, str(error)) from error
        for what in parsed.passed_over:
            self._metrics.parts_passed_over.labels(channel).inc()
            log.info("part of a webhook passed over", channel=channel, what=what)
        if parsed.messages or parsed.statuses:
            await self._ingest.receive(
                Request(account=account, messages=parsed.messages, statuses=parsed.statuses)
            )


def _address(scope: Scope) -> tuple[str, str]:
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    parts = path.removeprefix(root).strip("/").split("/")
    return (parts[0], parts[1]) if len(parts) == 2 else ("", "")


async def _body(headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
    stated = headers.get(b"content-length", b"0")
    if not stated.isdigit():
        raise Refused(400, "content-length is not a number")
    if len(stated) > LENGTH_DIGITS_MAX or int(stated) > BODY_BYTES_MAX:
        raise Refused(413, f"a body has at most {BODY_BYTES_MAX} bytes")
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the request ended early")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > BODY_BYTES_MAX:
            raise Refused(413, f"a body has at most {BODY_BYTES_MAX} bytes")
        chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks)


def _authenticate(headers: Mapping[bytes, bytes], body: bytes, account: Account, *, now_s: float) -> None:
    match signature := check(headers, body, account.keys, now_s=now_s):
        case Signature.GOOD:
            return
        case Signature.MISSING:
            raise Refused(400, "webhook-id and webhook-timestamp are needed")
        case Signature.OUTSIDE_TOLERANCE:
            raise Refused(400, "webhook-timestamp is more than five minutes off")
        case Signature.WRONG:
            raise Refused(401, "the signature is wrong")
        case _:
            assert_never(signature)


_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_STORED = {"type": "http.response.start", "status": 200, "headers": [_TEXT, (b"content-length", b"0")]}
_NOTHING = {"type": "http.response.body", "body": b""}


async def _answer(send: Send, status: int, sentence: str) -> None:
    if status == 200:
        await send(_STORED)
        await send(_NOTHING)
        return
    body = sentence.encode()
    headers = [_TEXT, (b"content-length", str(len(body)).encode())]
    if status == 503:
        headers.append((b"retry-after", b"5"))
    if status == 405:
        headers.append((b"allow", b"POST"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
