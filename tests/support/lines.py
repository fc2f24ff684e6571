"""Businesses of a town (town.py) with accounts on real channels, and people who write to them as the providers would say it."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from shared.channels.traits import ChannelName
from tests.support.payloads import (
    APP_SECRET,
    AUTH_TOKEN,
    BOT_SECRET,
    TWILIO_SID,
    Payload,
    signed,
    whatsapp_of,
)
from tests.support.providers import Providers, Sent
from tests.support.town import PACE, Shop, Town

_numbers = itertools.count(1)
SECRETS = {ChannelName.WHATSAPP: APP_SECRET, ChannelName.TWILIO: AUTH_TOKEN, ChannelName.TELEGRAM: BOT_SECRET}


@dataclass
class Line:
    """One account of a business. `own` is the number it has, `named` what payloads and sends name it by."""

    shop: Shop
    providers: Providers
    channel: ChannelName
    own: str
    named: str
    _heard: int = field(default=0)

    @property
    def town(self) -> Town:
        return self.shop.town

    @property
    def now(self) -> int:
        return int(self.town.now.timestamp())

    async def post(self, payload: Payload) -> None:
        """A signed request, which is taken."""
        body = payload.body()
        headers = signed(payload, body, address=self.shop.slug)
        answer = await self.town.client.post(payload.path(self.shop.slug), content=body, headers=headers)
        assert answer.status_code == 200, answer.text

    async def hears(self) -> list[Sent]:
        """What was sent since, once nothing more is owed."""
        await self.shop.settled()
        sent = [
            one for name in {self.named, self.own, f"whatsapp:{self.own}"} for one in self.providers.of(name)
        ]
        new = sorted(sent, key=self.providers.sent.index)[self._heard :]
        self._heard += len(new)
        return new

    async def says(self, text: str | None = None, *, at: datetime | None = None, **more: Any) -> list[str]:
        """A message of Ana's in the channel's own form, a little later than the one before, and the texts that came of it."""
        self.town.go_to(at if at is not None else self.town.now + PACE)
        await self.post(self.message(text, **more))
        return [one.text for one in await self.hears()]

    def message(self, text: str | None = None, **more: Any) -> Payload:
        return {
            ChannelName.WHATSAPP: self.meta_message,
            ChannelName.TWILIO: self.sms,
            ChannelName.TELEGRAM: self.telegram_message,
        }[self.channel](text, **more)

    # WhatsApp

    def meta(self, *items: Mapping[str, Any], name: str = "messages", **change: Any) -> Payload:
        """A request with these items."""
        our = {"phone_number_id": self.named, "display_phone_number": self.own.removeprefix("+")}
        return whatsapp_of({name: list(items), **change}, our=our)

    def meta_message(self, text: str | None = None, *, sender: str = "40700000001", **more: Any) -> Payload:
        return self.meta(self.item(text, sender=sender, **more))

    def item(self, text: str | None = None, *, sender: str = "40700000001", **more: Any) -> dict[str, Any]:
        said = {} if text is None else {"type": "text", "text": {"body": text}}
        return {"from": sender, "id": fresh("wamid."), "timestamp": str(self.now), **said, **more}

    # Twilio

    def sms(self, text: str | None = None, **more: Any) -> Payload:
        form = {
            "MessageSid": fresh("SM"),
            "AccountSid": TWILIO_SID,
            "From": "+40700000001",
            "To": self.own,
            "NumMedia": "0",
        }
        said = {} if text is None else {"Body": text}
        return Payload(channel=ChannelName.TWILIO, name="an SMS", content=form | said | more)

    # Telegram

    def telegram_message(self, text: str | None = None, **more: Any) -> Payload:
        said = {} if text is None else {"text": text}
        message = {
            "message_id": next(_numbers),
            "date": self.now,
            "chat": CHAT,
            "from": PERSON,
            **said,
            **more,
        }
        return self.update(message=message)

    def update(self, **kinds: Any) -> Payload:
        content = {"update_id": 500_000_000 + next(_numbers), **kinds}
        return Payload(channel=ChannelName.TELEGRAM, name="an update", content=content)

    def press(self, sent: Sent, title: str) -> Payload:
        """Of a button under one of our messages, in the channel's own form."""
        id_ = next(button for button, label in sent.buttons if label == title)
        if self.channel is ChannelName.TELEGRAM:
            message = {"message_id": int(sent.id), "date": self.now, "chat": CHAT, "text": sent.text}
            query = {
                "id": fresh("4382"),
                "from": PERSON,
                "chat_instance": "-6",
                "data": id_,
                "message": message,
            }
            return self.update(callback_query=query)
        reply = {"type": "button_reply", "button_reply": {"id": id_, "title": title}}
        return self.meta_message(
            type="interactive", interactive=reply, context={"from": self.own, "id": sent.id}
        )


PERSON = {"id": 700000001, "is_bot": False, "first_name": "Ana", "language_code": "en"}
CHAT = {"id": 700000001, "type": "private", "first_name": "Ana"}


def fresh(prefix: str) -> str:
    return f"{prefix}{next(_numbers):08}"


async def line_to(town: Town, providers: Providers, channel: ChannelName, name: str, **business: Any) -> Line:
    """A fresh business with one account on the channel, at the business's own short name."""
    shop = await town.business(name, **business)
    number = next(_numbers)
    own = f"+40702{number:06}"
    named, settings = {
        ChannelName.WHATSAPP: (f"9{number:014}", f'{{"phone_number_id": "9{number:014}"}}'),
        ChannelName.TWILIO: (own, f'{{"account_sid": "{TWILIO_SID}", "number": "{own}"}}'),
        ChannelName.TELEGRAM: (f"71{number:08}", f'{{"bot_id": "71{number:08}"}}'),
    }[channel]
    token = f"{named}:token" if channel is ChannelName.TELEGRAM else "a token"
    await town.installation.businesses.add_account(
        shop.business, channel=channel, address=shop.slug, inbound=[SECRETS[channel]], outbound=token
    )
    await town.owner.fetch(
        "update channel_account set provider_address = $3, own_number = $4, settings = $5 where business = $1 and channel = $2",
        shop.business, channel, named, None if channel is ChannelName.TELEGRAM else own, settings,
    )  # fmt: skip
    return Line(shop=shop, providers=providers, channel=channel, own=own, named=token if channel is ChannelName.TELEGRAM else named)  # fmt: skip
