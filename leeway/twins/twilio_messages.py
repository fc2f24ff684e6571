"""Twilio's Messages as its twin has them (twilio.com/docs/messaging/api/message-resource): taken, listed, paged, their media."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leeway.twins.twin import Delivered, Twin
from shared.clock import Clock

BODY_UNITS_MAX: Final = 1600  # of UTF-16
PAGE_MOST: Final = 1000
WHATSAPP: Final = "whatsapp:"
SAID_OF: Final = {
    20003: (401, "Authenticate"),
    20404: (404, "The requested resource was not found"),
    21211: (400, "Invalid 'To' Phone Number"),
    21602: (400, "Message body is required."),
    21603: (400, "A 'From' phone number is required."),
    21604: (400, "A 'To' phone number is required."),
    21606: (400, "The 'From' phone number provided is not a valid message-capable Twilio phone number."),
    21610: (400, "Attempt to send to unsubscribed recipient"),
    21617: (400, "The concatenated message body exceeds the 1600 character limit."),
}


def error(code: int) -> dict[str, Any]:
    """The body of an error."""
    status, words = SAID_OF[code]
    return {
        "code": code,
        "message": words,
        "more_info": f"https://www.twilio.com/docs/errors/{code}",
        "status": status,
    }


class Refusal(Exception):
    """What a request is answered with instead."""

    def __init__(self, code: int) -> None:
        super().__init__(SAID_OF[code][1])
        self.code = code

    def answer(self) -> Response:
        return JSONResponse(error(self.code), status_code=SAID_OF[self.code][0])


@dataclass(kw_only=True)
class Message:
    """A row of the account's log. Media are bytes by their type."""

    sid: str
    sender: str
    to: str
    body: str
    at: datetime
    inbound: bool
    status: str
    media: tuple[tuple[str, bytes], ...] = ()
    callback: str | None = None
    more: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwilioAccount:
    """An account with one number. `key`: an API key's SID and secret, beside the auth token. `advanced`: Advanced Opt-Out is
    on, so that the webhook states OptOutType."""

    sid: str
    token: str
    number: str
    key: tuple[str, str] | None = None
    service: str | None = None
    advanced: bool = False


class TwilioMessages(Twin):
    """What we ask for. `media_url` is where the account's media are to be had."""

    def __init__(self, *, clock: Clock, account: TwilioAccount, webhook: str) -> None:
        super().__init__(webhook=webhook)
        self.clock = clock
        self.account = account
        self.media_url = "https://api.twilio.com"
        self.messages: dict[str, Message] = {}  # oldest first
        self.opted_out: set[str] = set()

    @property
    def app(self) -> Starlette:
        below = self._path
        return Starlette(
            routes=[
                Route(f"{below}.json", self._behind_login(self._account)),
                Route(f"{below}/Messages.json", self._create, methods=["POST"]),
                Route(f"{below}/Messages.json", self._behind_login(self._list)),
                Route(f"{below}/Messages/{{sid}}/Media.json", self._behind_login(self._media_list)),
                Route(f"{below}/Messages/{{sid}}/Media/{{media}}", self._behind_login(self._media)),
            ]
        )

    @property
    def _path(self) -> str:
        return f"/2010-04-01/Accounts/{self.account.sid}"

    def next_sid(self, kind: str) -> str:
        return f"{kind}{len(self.messages) + 1:032x}"

    def media_of(self, message: Message) -> list[tuple[str, str]]:
        """Addresses and types."""
        below = f"{self.media_url}{self._path}/Messages/{message.sid}/Media"
        return [(f"{below}/ME{n}", mime) for n, (mime, _) in enumerate(message.media)]

    def _behind_login(
        self, answer: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            try:
                self._authenticate(request)
                return await answer(request)
            except Refusal as refused:
                return refused.answer()

        return answered

    def _authenticate(self, request: Request) -> None:
        given = request.headers.get("authorization", "").removeprefix("Basic ")
        try:
            user, _, password = base64.b64decode(given, validate=True).decode().partition(":")
        except ValueError:
            raise Refusal(20003) from None
        if (user, password) not in ((self.account.sid, self.account.token), self.account.key):
            raise Refusal(20003)

    async def _account(self, _: Request) -> Response:
        return JSONResponse({"sid": self.account.sid, "status": "active", "friendly_name": "Twin"})

    async def _create(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
        self.requests.append(form)
        sent: Message | None = None
        if not self.faults or self.faults[0].takes:
            try:
                self._authenticate(request)
                sent = self._take(form)
            except Refusal as refused:
                return refused.answer()
        fault, instead = await self.meet_fault()
        if fault is not None and instead is not None:
            return instead
        assert sent is not None, "without a fault it was taken"
        return JSONResponse(self._row(sent), status_code=201)

    def _take(self, form: Mapping[str, str]) -> Message:
        to, body = form.get("To", ""), form.get("Body", form.get("ContentVariables", ""))
        own = (WHATSAPP if to.startswith(WHATSAPP) else "") + self.account.number
        if not to:
            raise Refusal(21604)
        if not to.removeprefix(WHATSAPP).startswith("+") and not to.startswith(WHATSAPP):
            raise Refusal(21211)
        by_service = (
            self.account.service is not None and form.get("MessagingServiceSid") == self.account.service
        )
        if not by_service and "From" not in form:
            raise Refusal(21603)
        if form.get("From", own) != own:
            raise Refusal(21606)
        if not body:
            raise Refusal(21602)
        if len(body.encode("utf-16-le")) // 2 > BODY_UNITS_MAX:
            raise Refusal(21617)
        if to in self.opted_out:
            raise Refusal(21610)
        sid = self.next_sid("SM")
        sent = Message(
            sid=sid,
            sender=own,
            to=to,
            body=body,
            at=self.clock.now(),
            inbound=False,
            status="queued",
            callback=form.get("StatusCallback"),
        )
        self.messages[sid] = sent
        shown = Delivered(
            id=sid, to=to, text=body, correlation=sent.callback, template=form.get("ContentSid")
        )
        self.delivered.append(shown)
        return sent

    async def _list(self, request: Request) -> Response:
        """The newest first."""
        asked = request.query_params
        size = min(int(asked.get("PageSize", "50")), PAGE_MOST)
        page = int(asked.get("Page", "0"))
        since = asked.get("DateSent>")
        after = datetime.fromisoformat(since) if since else datetime.min.replace(tzinfo=UTC)
        found = [
            one for one in reversed(self.messages.values())
            if one.to == asked.get("To", one.to) and one.sender == asked.get("From", one.sender) and one.at >= after
        ]  # fmt: skip
        rows = [self._row(one) for one in found[page * size : (page + 1) * size]]
        more = (page + 1) * size < len(found)
        following = (
            urlencode({**asked, "Page": page + 1, "PageToken": f"PA{rows[-1]['sid']}"}) if more else None
        )
        path = f"{self._path}/Messages.json"
        return JSONResponse(
            {
                "messages": rows,
                "page": page,
                "page_size": size,
                "next_page_uri": f"{path}?{following}" if following else None,
            }
        )

    def _row(self, message: Message) -> dict[str, Any]:
        date = format_datetime(message.at.astimezone(UTC))
        return {
            "sid": message.sid, "account_sid": self.account.sid, "from": message.sender, "to": message.to, "body": message.body,
            "direction": "inbound" if message.inbound else "outbound-api", "status": message.status,
            "date_created": date, "date_sent": date,
            "num_media": str(len(message.media)), "num_segments": "1", "error_code": None,
            "messaging_service_sid": self.account.service,
        }  # fmt: skip

    async def _media_list(self, request: Request) -> Response:
        message = self.messages.get(request.path_params["sid"])
        rows = [
            {"sid": f"ME{n}", "content_type": mime}
            for n, (mime, _) in enumerate(message.media if message else ())
        ]
        return JSONResponse({"media_list": rows})

    async def _media(self, request: Request) -> Response:
        message = self.messages.get(request.path_params["sid"])
        number = request.path_params["media"].removeprefix("ME")
        if message is None or not number.isdigit() or int(number) >= len(message.media):
            raise Refusal(20404)
        mime, content = message.media[int(number)]
        return Response(content, media_type=mime)
