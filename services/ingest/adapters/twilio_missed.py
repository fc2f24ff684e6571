"""Twilio's messages that no webhook brought, fetched (twilio.com/docs/messaging/api/message-resource).

Twilio tries a webhook once more at best, so an outage of ours loses messages. They are listed and committed like those of a
webhook, under the same id: what was stored before changes nothing, and the guard sees what is stale by its date. What only a
webhook carries is missing: the profile's name, a pressed button, Twilio's own word on an opt-out.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx2
import structlog

from services.ingest.core import twilio
from services.ingest.core.addressing import at_home
from services.ingest.core.entrance import Account
from services.ingest.core.events import Inbound, Malformed, Parsed
from services.ingest.core.reading import believable, parse_json
from services.ingest.core.twilio_parts import MEDIA_MOST
from services.ingest.ports import Inbox, Look, Looks, Request
from shared.channels.accounts import Twilio
from shared.channels.traits import WHATSAPP_OVER_TWILIO, ChannelName
from shared.clock import Clock
from shared.errors import LeewayError
from shared.outgoing import http_client

FIRST: Final = timedelta(hours=24)  # how far back an account's first look goes
OVERLAP: Final = timedelta(minutes=10)  # a message is listed a little after it is dated
READ_S: Final = 15.0
LOOK_MOST_S: Final = 180.0
PAGE: Final = 200
PAGES_MOST: Final = 50
COMMITTED_AT_ONCE: Final = 100

Item = Mapping[str, Any]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often, in seconds: an account is due after `look_every`, seen to be within `see_every`; at start sooner."""

    look_every: float = 300.0
    see_every: float = 5.0
    at_start: float = 10.0  # several processes that start together look once


class NotListed(Exception):
    """Twilio did not list the messages; the text says why, and names nobody."""


class TwilioMissed:
    """`run` must run beside ingest; `receive` returns once a request is committed."""

    def __init__(
        self,
        *,
        looks: Looks,
        inbox: Inbox,
        receive: Callable[[Request], Awaitable[None]],
        clock: Clock,
        url: str,
        pace: Pace | None = None,
    ) -> None:
        self._looks = looks
        self._inbox = inbox
        self._receive = receive
        self._clock = clock
        self._url = url
        self._pace = pace or Pace()

    async def run(self) -> None:
        """Look at every account that is due and that no other process looks at, until cancelled. Nothing that fails ends it."""
        older_than = self._pace.at_start
        async with http_client(read_s=READ_S) as client:
            while True:
                try:
                    for look in await self._looks.claim(older_than=timedelta(seconds=older_than)):
                        await self._look(client, look)
                    older_than = self._pace.look_every
                except LeewayError as error:
                    log.warning("looking for missed messages waits", error=str(error))
                except Exception:
                    log.exception("looking for missed messages failed; it goes on")
                await asyncio.sleep(self._pace.see_every)

    async def _look(self, client: httpx2.AsyncClient, look: Look) -> None:
        """One account. `looked_at` moves on only over what is committed."""
        done = False
        try:
            async with asyncio.timeout(LOOK_MOST_S):
                await self._fetch(client, look)
            await self._looks.done(look)
            done = True
        except NotListed as error:
            log.error("Twilio's messages can't be listed", account=look.address, why=str(error))
        except TimeoutError:
            log.error("Twilio's messages can't be listed", account=look.address, why="it takes too long")
        except LeewayError as error:
            log.warning("missed messages not stored; they are fetched again", account=look.address, error=str(error))  # fmt: skip
        finally:
            if not done:
                with contextlib.suppress(LeewayError):
                    await self._looks.give_back(look)

    async def _fetch(self, client: httpx2.AsyncClient, look: Look) -> None:
        account = await self._inbox.account(ChannelName.TWILIO, look.address)
        if account is None or not isinstance(account.settings, Twilio):
            raise NotListed("the account is gone")
        listing = Listing(
            client=client, url=self._url, settings=account.settings, key=look.key.get_secret_value()
        )
        since = (look.since - OVERLAP) if look.since else look.at - FIRST
        items = await listing.messages(since)
        found = [one for item in items if (one := await self._read(listing, item, account)) is not None]
        found.sort(key=lambda one: one.channel_at)  # of one second in the order listed, oldest first
        for at in range(0, len(found), COMMITTED_AT_ONCE):
            homes, strays = at_home(Parsed(messages=tuple(found[at : at + COMMITTED_AT_ONCE])), account)
            for home, messages, _ in homes:
                await self._receive(Request(account=home, messages=messages, statuses=()))
            if strays:
                log.warning("for an address that is not this business's", channel=ChannelName.TWILIO, parts=strays)  # fmt: skip

    async def _read(self, listing: "Listing", item: Item, account: Account) -> Inbound | None:
        """A message of the list by the parser of webhooks."""
        form = {name: str(item[field]) for name, field in _FIELDS.items() if item.get(field)}
        if item.get("num_media") not in (None, "0", 0):
            form |= await listing.media(str(item.get("sid")))
        at = believable(
            _date(item.get("date_sent")) or _date(item.get("date_created")), now=self._clock.now()
        )
        try:
            return twilio.message(form, account, at=at, raw=json.dumps(item).encode())
        except Malformed as error:
            log.warning("a listed message can't be read", channel=ChannelName.TWILIO, error=str(error))
            return None


_FIELDS: Final = {
    "MessageSid": "sid",
    "AccountSid": "account_sid",
    "MessagingServiceSid": "messaging_service_sid",
    "From": "from",
    "To": "to",
    "Body": "body",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What Twilio lists of an account. Every method raises NotListed."""

    client: httpx2.AsyncClient
    url: str
    settings: Twilio
    key: str

    @property
    def _account(self) -> str:
        return f"/2010-04-01/Accounts/{self.settings.account_sid}"

    async def messages(self, since: datetime) -> Sequence[Item]:
        """What customers sent to our number by SMS and WhatsApp, oldest first."""
        found: list[Item] = []
        for to in (self.settings.number, WHATSAPP_OVER_TWILIO + self.settings.number):
            asked: dict[str, str | int] = {
                "To": to,
                "DateSent>": f"{since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
                "PageSize": PAGE,
            }
            page = await self._get(f"{self._account}/Messages.json", asked)
            for _ in range(PAGES_MOST):
                found += _inbound(page)
                following = page.get("next_page_uri")
                if not isinstance(following, str) or not following.startswith(f"{self._account}/"):
                    break
                page = await self._get(following, None)
            else:
                log.error(
                    "more missed messages than one look takes, the oldest are left out", pages=PAGES_MOST
                )
        found.reverse()  # Twilio lists the newest first
        return found

    async def media(self, message: str) -> dict[str, str]:
        """A message's media as the parameters of a webhook."""
        if not message.isalnum():
            return {}
        below = f"{self._account}/Messages/{message}/Media"
        listed = (await self._get(f"{below}.json", None)).get("media_list")
        form: dict[str, str] = {}
        for n, item in enumerate(listed[:MEDIA_MOST] if isinstance(listed, list) else ()):
            if isinstance(item, dict) and str(item.get("sid")).isalnum():
                form[f"MediaUrl{n}"] = f"{self.url}{below}/{item['sid']}"
                form[f"MediaContentType{n}"] = str(item.get("content_type") or "")
        return form

    async def _get(self, path: str, asked: Mapping[str, str | int] | None) -> Item:
        user = self.settings.api_key_sid or self.settings.account_sid
        try:
            answer = await self.client.get(self.url + path, params=asked, auth=(user, self.key))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise NotListed(type(error).__name__) from None
        if answer.status_code in (401, 403):
            raise NotListed(
                "Twilio refuses the account's credentials; give it the auth token or API key of its console"
            )
        try:
            content = parse_json(answer.content) if answer.is_success else None
        except Malformed:
            content = None
        if not isinstance(content, dict):
            raise NotListed(f"it answers {answer.status_code}")
        return content


def _inbound(page: Item) -> Iterator[Item]:
    listed = page.get("messages")
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, dict) and item.get("direction") == "inbound":
            yield item


def _date(value: object) -> datetime | None:
    """RFC 2822, as this API writes times."""
    try:
        return parsedate_to_datetime(value) if isinstance(value, str) else None
    except (ValueError, TypeError):
        return None
