"""HTTP: the hot webhook route as plain ASGI, mounted in a FastAPI app that has the rest."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, assert_never

import structlog

from services.ingest.core.addressing import at_home
from services.ingest.core.entrance import Account, Entrance, Post
from services.ingest.core.entrances import ENTRANCES
from services.ingest.core.events import Malformed
from services.ingest.core.refusals import Refusals
from services.ingest.handler import Ingest
from services.ingest.ports import Inbox, Request
from shared.clock import Clock
from shared.errors import LeewayError, Unavailable
from shared.signing import Signature
from shared.telemetry.metrics import UNKNOWN, Metrics
from shared.telemetry.traces import UNTOLD, Traces

LENGTH_DIGITS_MAX = 18
KINDS_TOLD_MAX = 20  # of what one request held and nobody knows

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in ASGI's two messages."""

    start: MutableMapping[str, Any]
    body: MutableMapping[str, Any]

    @property
    def status(self) -> int:
        status: int = self.start["status"]
        return status


def _answer(status: int, body: bytes, content_type: bytes, *also: tuple[bytes, bytes]) -> Answer:
    headers = [(b"content-type", content_type), (b"content-length", str(len(body)).encode()), *also]
    return Answer(
        {"type": "http.response.start", "status": status, "headers": headers},
        {"type": "http.response.body", "body": body},
    )


_TEXT = b"text/plain; charset=utf-8"
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_TAKEN = {name: _answer(200, one.answer, one.content_type) for name, one in ENTRANCES.items()}


class Refused(Exception):
    """A request that is not taken, and why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence

    def answer(self, entrance: Entrance | None) -> Answer:
        """As the channel wants to hear it: a plain body can be texted to the customer."""
        body, content_type = self.sentence.encode(), _TEXT
        if entrance is not None and entrance.refusal is not None:
            body, content_type = entrance.refusal, entrance.content_type
        also = []
        if self.status == 503:
            also.append((b"retry-after", b"5"))
        if self.status == 405:
            also.append((b"allow", b"GET, POST" if entrance and entrance.handshake else b"POST"))
        return _answer(self.status, body, content_type, *also)


class Hooks:
    """`/{channel}/{account}` below its mount point: authenticate on the raw bytes, parse, commit, answer as the channel
    wants it. `public_url` is how channels call us, without the path: some sign it."""

    def __init__(
        self,
        *,
        ingest: Ingest,
        inbox: Inbox,
        clock: Clock,
        metrics: Metrics,
        public_url: str = "",
        traces: Traces = UNTOLD,
    ) -> None:
        self._ingest = ingest
        self._inbox = inbox
        self._clock = clock
        self._metrics = metrics
        self._public_url = public_url
        self._traces = traces
        self._refusals = Refusals()
        for channel in ENTRANCES:
            metrics.accounts_refused.labels(channel).set_function(partial(self._refused_accounts, channel))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "only HTTP is mounted here"
        channel, address = _address(scope)
        entrance = ENTRANCES.get(channel)
        label = channel if entrance else UNKNOWN
        began = self._clock.monotonic()
        try:
            answer = await self._taken(scope, receive, entrance, channel, address)
        except Refused as refused:
            answer = refused.answer(entrance)
        except Unavailable as error:
            log.warning(
                "webhook not stored, the channel will deliver it again", channel=label, error=str(error)
            )
            answer = Refused(503, "not stored; deliver it again").answer(entrance)
        except LeewayError as error:  # two transactions that met too often, a wrong key: never a 500
            log.error("webhook not stored", channel=label, error=str(error))
            answer = Refused(503, "not stored; deliver it again").answer(entrance)
        except Exception:  # a bug, which the server answers
            self._metrics.webhooks.labels(label, "500").inc()
            raise
        self._metrics.webhooks.labels(label, str(answer.status)).inc()
        self._metrics.webhook_seconds.labels(label).observe(self._clock.monotonic() - began)
        await send(answer.start)
        await send(answer.body)

    async def _taken(
        self, scope: Scope, receive: Receive, entrance: Entrance | None, channel: str, address: str
    ) -> Answer:
        asked = self._traces.now()
        account = await self._inbox.account(channel, address) if entrance and len(address) <= 256 else None
        if entrance is None or account is None:
            raise Refused(404, "no such channel account")
        if scope["method"] == "GET" and entrance.handshake is not None:
            return _shaken(entrance.handshake(scope["query_string"], account))
        if scope["method"] != "POST":
            raise Refused(405, "webhooks are posted")
        headers: dict[bytes, bytes] = dict(scope["headers"])
        body = await _body(headers, receive, most=entrance.body_bytes_max)
        query: bytes = scope["query_string"]
        post = Post(url=_url(self._public_url, scope), headers=headers, body=body, query=query)
        now = self._clock.now()
        self._authenticate(entrance.check(post, account, now.timestamp()), account)
        try:
            parsed = entrance.parse(post, account, now)
        except Malformed as error:
            raise Refused(400, str(error)) from error
        if parsed.passed_over:
            self._tell_passed_over(channel, parsed.passed_over)
        requests, strays = at_home(parsed, account)
        if strays:
            self._metrics.parts_misaddressed.labels(channel).inc(strays)
            log.warning(
                "for an address that is not this business's", channel=channel, account=address, parts=strays
            )
        for home, messages, statuses in requests:
            request = Request(account=home, messages=messages, statuses=statuses, asked=asked)
            await self._ingest.receive(request)
        return _TAKEN[channel]

    def _authenticate(self, signature: Signature, account: Account) -> None:
        if signature is Signature.GOOD:
            self._refusals.took(account.id)
            return
        refused = _refused(signature)
        now_s = self._clock.monotonic()
        if in_a_row := self._refusals.refused(account.id, account.channel, now_s=now_s):
            log.warning(
                "webhook refused",
                channel=account.channel,
                account=account.address,
                why=refused.sentence,
                in_a_row=in_a_row,
            )
        raise refused

    def _refused_accounts(self, channel: str) -> int:
        return self._refusals.accounts(channel, now_s=self._clock.monotonic())

    def _tell_passed_over(self, channel: str, passed_over: Sequence[str]) -> None:
        """Each kind once: a body may hold millions."""
        self._metrics.parts_passed_over.labels(channel).inc(len(passed_over))
        for what, parts in Counter(passed_over).most_common(KINDS_TOLD_MAX):
            log.info("part of a webhook passed over", channel=channel, what=what, parts=parts)


def _shaken(answer: str | None) -> Answer:
    """The answer to a handshake: its challenge as text, or 403."""
    if answer is None:
        return _answer(403, b"", _TEXT)
    return _answer(200, answer.encode(), _TEXT, _NO_SNIFFING)


def _address(scope: Scope) -> tuple[str, str]:
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    parts = path.removeprefix(root).strip("/").split("/")
    known = ENTRANCES.get(parts[0])
    if len(parts) == 3 and parts[2] == "status" and known is not None and known.status_path:
        return parts[0], parts[1]
    return (parts[0], parts[1]) if len(parts) == 2 else ("", "")


def _url(public_url: str, scope: Scope) -> str:
    """The URL as the channel called it: path and query raw, the rest as configured. A Host header is anybody's word."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return public_url + raw.decode("latin-1") + ("?" + query.decode("latin-1") if query else "")


async def _body(headers: Mapping[bytes, bytes], receive: Receive, *, most: int) -> bytes:
    stated = headers.get(b"content-length", b"0")
    if not stated.isdigit():
        raise Refused(400, "content-length is not a number")
    if len(stated) > LENGTH_DIGITS_MAX or int(stated) > most:
        raise Refused(413, f"a body has at most {most} bytes")
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the request ended early")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > most:
            raise Refused(413, f"a body has at most {most} bytes")
        chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks)


def _refused(
    signature: Literal[Signature.MISSING, Signature.OUTSIDE_TOLERANCE, Signature.WRONG],
) -> Refused:
    match signature:
        case Signature.MISSING:
            return Refused(400, "webhook-id and webhook-timestamp are needed")
        case Signature.OUTSIDE_TOLERANCE:
            return Refused(400, "webhook-timestamp is more than five minutes off")
        case Signature.WRONG:
            return Refused(401, "the signature is wrong")
        case _:
            assert_never(signature)
