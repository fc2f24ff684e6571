"""Telegram's updates fetched instead of posted, for who has no public URL (core.telegram.org/bots/api#getupdates).

They are read as those of a webhook are, and committed before Telegram is told to forget them: a crash in between brings repeats,
which change nothing. The token is in every URL: no address and no text of an HTTP error is logged.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import structlog

from services.ingest.core import telegram
from services.ingest.core.events import Inbound, Malformed
from services.ingest.core.fields import positive
from services.ingest.core.reading import parse_json
from services.ingest.ports import Inbox, Polled, Polls, Request
from shared.channels.telegram import ALLOWED_UPDATES
from shared.channels.traits import ChannelName
from shared.clock import Clock
from shared.errors import LeewayError, Unavailable
from shared.outgoing import http_client
from shared.telemetry.metrics import Metrics

READ_S: Final = 30.0
WAITED_S: Final = (
    1.0  # an answer without updates that comes sooner did not wait for any: it is not asked for again at once
)

_REFUSED: Final = "Telegram refuses the bot's token; give the account the one that @BotFather shows"
_CONFLICT: Final = (
    "the bot has a webhook, or somebody else fetches its updates; delete the webhook, or turn polling off"
)
_TO_MEND: Final = {401: _REFUSED, 404: _REFUSED, 409: _CONFLICT}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often and how long, in seconds. The longest pause and a request stay below a lease together."""

    look_every: float = 5.0  # for bots that nobody polls
    wait: int = 20  # Telegram keeps a request without updates open for so long
    pause: float = 3.0  # after a failure
    long_pause: float = 20.0  # after one that a person must mend


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What came of one fetch: where the next begins, and how long until then."""

    offset: int | None
    pause_s: float = 0.0
    trouble: str | None = None


class TelegramPolling:
    """`run` must run beside ingest; `receive` returns once a request is committed."""

    def __init__(
        self,
        *,
        polls: Polls,
        inbox: Inbox,
        receive: Callable[[Request], Awaitable[None]],
        clock: Clock,
        metrics: Metrics,
        url: str,
        pace: Pace | None = None,
    ) -> None:
        self._polls = polls
        self._inbox = inbox
        self._receive = receive
        self._clock = clock
        self._metrics = metrics
        self._url = url
        self._pace = pace or Pace()

    async def run(self) -> None:
        """Poll every bot that wants it and that no other process polls, until cancelled."""
        async with http_client(read_s=READ_S) as client, asyncio.TaskGroup() as bots:
            while True:
                try:
                    for bot in await self._polls.claim():
                        bots.create_task(self._poll(client, bot))
                except LeewayError as error:
                    log.warning("looking for bots to poll waits", error=str(error))
                await asyncio.sleep(self._pace.look_every)

    async def _poll(self, client: httpx2.AsyncClient, bot: Polled) -> None:
        """One bot, as long as it is ours. A trouble is said once, not at every try."""
        held: Polled | None = bot
        told: str | None = None
        try:
            while held is not None:
                came = await self._round(client, held)
                if came.trouble is not None and came.trouble != told:
                    log.error("Telegram's updates can't be fetched", account=held.address, why=came.trouble)
                told = came.trouble
                held = await self._renewed(held, came.offset)
                if held is not None:
                    await asyncio.sleep(came.pause_s)
        except Exception:
            log.exception("polling a bot failed; it is taken up again", account=bot.address)
        finally:
            if held is not None:
                with contextlib.suppress(LeewayError):
                    await self._polls.release(held)

    async def _renewed(self, held: Polled, offset: int | None) -> Polled | None:
        while True:
            try:
                return await self._polls.renew(held, offset=offset)
            except Unavailable as error:
                log.warning("polling waits for the database", account=held.address, error=str(error))
                await asyncio.sleep(self._pace.pause)

    async def _round(self, client: httpx2.AsyncClient, bot: Polled) -> Round:
        """Fetch and commit. The offset moves only over what is committed; once Telegram has heard it, it is asked for no more:
        after an idle week its ids may begin anew, lower."""
        began = self._clock.monotonic()
        updates = await self._fetch(client, bot)
        if isinstance(updates, Round):
            return updates
        if not updates:
            waited = self._clock.monotonic() - began >= WAITED_S
            return Round(offset=None, pause_s=0.0 if waited else self._pace.pause)
        try:
            account = await self._inbox.account(ChannelName.TELEGRAM, bot.address)
            if account is None:
                return Round(offset=bot.offset, pause_s=self._pace.long_pause)
            await self._receive(Request(account=account, messages=self._read(updates), statuses=()))
        except LeewayError as error:
            log.warning("updates not stored, they are fetched again", account=bot.address, error=str(error))
            return Round(offset=bot.offset, pause_s=self._pace.pause)
        ids = [positive(one.get("update_id")) or 0 for one in updates if isinstance(one, dict)]
        newest = max(ids, default=0)
        if not newest:  # none can be named, so none can be left behind
            return Round(offset=bot.offset, pause_s=self._pace.long_pause, trouble="its updates have no ids")
        return Round(offset=newest + 1)

    def _read(self, updates: Sequence[Any]) -> tuple[Inbound, ...]:
        messages: list[Inbound] = []
        for update in updates:
            try:
                parsed = telegram.parse(json.dumps(update).encode(), now=self._clock.now())
            except Malformed as error:
                log.warning("update can't be read", error=str(error))
                continue
            messages += parsed.messages
            for what in parsed.passed_over:
                self._metrics.parts_passed_over.labels(ChannelName.TELEGRAM).inc()
                log.info("part of an update passed over", channel=ChannelName.TELEGRAM, what=what)
        return tuple(messages)

    async def _fetch(self, client: httpx2.AsyncClient, bot: Polled) -> list[Any] | Round:
        asked: dict[str, Any] = {"timeout": self._pace.wait, "allowed_updates": ALLOWED_UPDATES}
        if bot.offset is not None:
            asked["offset"] = bot.offset
        url = f"{self._url}/bot{bot.token.get_secret_value()}/getUpdates"
        try:
            answer = await client.post(url, json=asked)
            content = parse_json(answer.content)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return Round(offset=bot.offset, pause_s=self._pace.pause, trouble=type(error).__name__)
        except Malformed:
            content = None
        if (
            isinstance(content, dict)
            and content.get("ok") is True
            and isinstance(content.get("result"), list)
        ):
            result: list[Any] = content["result"]
            return result
        return self._failed(bot, answer.status_code, content)

    def _failed(self, bot: Polled, status: int, content: object) -> Round:
        if (why := _TO_MEND.get(status)) is not None:
            return Round(offset=bot.offset, pause_s=self._pace.long_pause, trouble=why)
        parameters = content.get("parameters") if isinstance(content, dict) else None
        seconds = parameters.get("retry_after") if isinstance(parameters, dict) else None
        wait_s = min(seconds, self._pace.long_pause) if type(seconds) is int else self._pace.pause
        return Round(offset=bot.offset, pause_s=wait_s, trouble=f"it answers {status}")
