"""The customers that the page of each twin offers, and the accounts of ours that the twins belong to."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from leeway.accounts import NewAccount
from leeway.twins.page import Telephones
from leeway.twins.telegram import Person as TelegramPerson
from leeway.twins.telegram import TelegramTwin
from leeway.twins.twilio import TwilioTwin
from leeway.twins.twilio_messages import TwilioAccount
from leeway.twins.twin import Delivered, Twin
from leeway.twins.whatsapp import Person, WhatsAppTwin
from shared.channels.accounts import Telegram, Twilio, WhatsApp
from shared.clock import Clock


class TwinName(StrEnum):
    """The providers that have a twin."""

    WHATSAPP = "whatsapp"
    TWILIO = "twilio"
    TELEGRAM = "telegram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Playing:
    """A twin, its customers, and the account that speaks with it; `twin.webhook` is set once that is known."""

    twin: Twin
    telephones: Telephones
    account: NewAccount


class _WhatsApp:
    title = "WhatsApp, a twin: you are the customer"

    def __init__(self, twin: WhatsAppTwin) -> None:
        self._twin = twin
        self._persons = {
            "ana": Person(id="RO.900000000000101", number="40700000001", name="Ana"),
            "dan": Person(id="RO.900000000000102", name="Dan"),
        }
        self.people: Mapping[str, str] = {"ana": "Ana, +40 700 000 001", "dan": "Dan, number hidden"}

    def shown(self, key: str) -> Sequence[Delivered]:
        return self._twin.shown(self._persons[key])

    async def write(self, key: str, text: str) -> None:
        await self._twin.write(self._persons[key], text)

    async def press(self, key: str, delivered: Delivered, title: str) -> None:
        await self._twin.press(self._persons[key], delivered, title)

    async def read(self, key: str, delivered: Delivered) -> None:
        for status in ("sent", "delivered", "read"):
            await self._twin.status(delivered, status)


class _Twilio:
    title = "SMS and WhatsApp by Twilio, a twin: you are the customer"

    def __init__(self, twin: TwilioTwin) -> None:
        self._twin = twin
        self.people: Mapping[str, str] = {
            "+40700000001": "Ana, SMS",
            "whatsapp:+40700000002": "Dan, WhatsApp",
        }

    def shown(self, key: str) -> Sequence[Delivered]:
        return self._twin.shown(key)

    async def write(self, key: str, text: str) -> None:
        await self._twin.write(key, text)

    async def press(self, key: str, delivered: Delivered, title: str) -> None:
        button = next(id_ for id_, label in delivered.buttons if label == title)
        await self._twin.press(key, delivered.id, button, title)

    async def read(self, key: str, delivered: Delivered) -> None:
        for state in ("sent", "delivered"):
            await self._twin.status(delivered.id, state)


class _Telegram:
    title = "Telegram, a twin: you are the customer"

    def __init__(self, twin: TelegramTwin) -> None:
        self._twin = twin
        self._persons = {
            "ana": TelegramPerson(id=700000001),
            "dan": TelegramPerson(id=700000002, first_name="Dan", language_code="ro"),
        }
        self.people: Mapping[str, str] = {"ana": "Ana, English", "dan": "Dan, Romanian"}

    def shown(self, key: str) -> Sequence[Delivered]:
        return self._twin.shown(self._persons[key])

    async def write(self, key: str, text: str) -> None:
        await self._twin.write(self._persons[key], text)

    async def press(self, key: str, delivered: Delivered, title: str) -> None:
        await self._twin.press(self._persons[key], delivered, title)

    async def read(self, key: str, delivered: Delivered) -> None:
        """Telegram tells bots nothing of it."""


def _whatsapp(clock: Clock) -> Playing:
    inbound, outbound = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    twin = WhatsAppTwin(clock=clock, webhook="", app_secret=inbound, access_token=outbound)
    account = NewAccount(
        channel=TwinName.WHATSAPP,
        address="twin",
        inbound=[inbound],
        outbound=outbound,
        verify_token=secrets.token_urlsafe(32),
        provider_address=twin.phone_number_id,
        own_number=f"+{twin.display_number}",
        settings=WhatsApp(phone_number_id=twin.phone_number_id).model_dump_json(),
    )
    return Playing(twin=twin, telephones=_WhatsApp(twin), account=account)


def _twilio(clock: Clock) -> Playing:
    told = TwilioAccount(sid="AC" + "0" * 31 + "1", token=secrets.token_urlsafe(32), number="+40700000200")
    twin = TwilioTwin(clock=clock, account=told)
    account = NewAccount(
        channel=TwinName.TWILIO,
        address="twin",
        inbound=[told.token],
        outbound=told.token,
        provider_address=told.number,
        own_number=told.number,
        settings=Twilio(account_sid=told.sid, number=told.number).model_dump_json(),
    )
    return Playing(twin=twin, telephones=_Twilio(twin), account=account)


def _telegram(clock: Clock) -> Playing:
    bot, inbound = "4000000001", secrets.token_urlsafe(32)
    token = f"{bot}:{secrets.token_urlsafe(26)}"
    twin = TelegramTwin(clock=clock, token=token, secret=inbound)
    account = NewAccount(
        channel=TwinName.TELEGRAM,
        address="twin",
        inbound=[inbound],
        outbound=token,
        provider_address=bot,
        settings=Telegram(bot_id=bot).model_dump_json(),
    )
    return Playing(twin=twin, telephones=_Telegram(twin), account=account)


PLAYED: Final[Mapping[TwinName, Callable[[Clock], Playing]]] = {
    TwinName.WHATSAPP: _whatsapp,
    TwinName.TWILIO: _twilio,
    TwinName.TELEGRAM: _telegram,
}
