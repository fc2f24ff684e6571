"""The vendors' own parsers read our payloads, and what the twins post, as we do; their signature checks pass what the twins sign.

pywa reads one item of a request: each is given to it alone. What it can't read is listed with the reason.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import pytest

from leeway.twins.receiver import ReceiverTwin
from leeway.twins.telegram import Person as Bot
from leeway.twins.telegram import TelegramTwin
from leeway.twins.twilio import TwilioTwin
from leeway.twins.twilio_messages import TwilioAccount
from leeway.twins.twin import Delivered
from leeway.twins.whatsapp import Person, WhatsAppTwin
from services.ingest.core.entrance import Account, Post
from services.ingest.core.entrances import ENTRANCES
from services.ingest.core.events import Inbound, Parsed, Status
from shared.channels.accounts import Telegram, Twilio, WhatsApp
from shared.channels.traits import ChannelName
from shared.clock import SystemClock
from shared.ids import AccountId, BusinessId
from shared.signing import Signature, decode_secret
from tests.oracles.asking import Judge
from tests.support.payloads import (
    APP_SECRET,
    AUTH_TOKEN,
    BOT_SECRET,
    CURRENT,
    NINE,
    OUR_NUMBER,
    PHONE_NUMBER_ID,
    PREVIOUS,
    PUBLIC_URL,
    TWILIO_SID,
    Payload,
    telegram,
    whatsapp,
)

HOOK = f"{PUBLIC_URL}/hooks/twilio/acme"
CARD = {"phone_number": "40700000001", "first_name": "Ana", "user_id": 700000001}

# By the id of the item: without `contacts` pywa raises, and Meta leaves them out of these.
UNREADABLE = {
    "wamid.TEST000000000023": "user_changed_user_id states no number",
    "wamid.TESTOUT000000012": "a failed status comes without contacts",
    "wamid.TESTECHO00000001": "an echo comes without contacts",
}


SETTINGS = {
    ChannelName.WHATSAPP: WhatsApp(phone_number_id=PHONE_NUMBER_ID),
    ChannelName.TWILIO: Twilio(account_sid=TWILIO_SID, number=OUR_NUMBER),
    ChannelName.TELEGRAM: Telegram(bot_id="700000100"),
}
KEYS = {
    ChannelName.WHATSAPP: APP_SECRET.encode(),
    ChannelName.TWILIO: AUTH_TOKEN.encode(),
    ChannelName.TELEGRAM: BOT_SECRET.encode(),
    ChannelName.GENERIC: decode_secret(CURRENT),
}


def account(channel: ChannelName) -> Account:
    plain = {
        "id": AccountId(1),
        "business": BusinessId(1),
        "business_slug": "acme",
        "channel": channel,
        "address": "acme",
    }
    settings = {"settings": SETTINGS[channel]} if channel in SETTINGS else {}
    return Account(keys=(KEYS[channel],), **plain, **settings)  # type: ignore[arg-type]


def ours(channel: ChannelName, body: bytes) -> Parsed:
    """All times of the payloads have passed."""
    now = datetime.fromtimestamp(NINE + 10**8, UTC)
    return ENTRANCES[channel].parse(Post(url="", headers={}, body=body), account(channel), now)


# WhatsApp


def agree_on_whatsapp(judge: Judge, body: bytes) -> set[str]:
    """Every item that pywa can read is read alike. The ids of those it can't."""
    parsed = ours(ChannelName.WHATSAPP, body)
    messages = {one.external_id: one for one in parsed.messages}
    statuses = {(one.provider_id, one.status): one for one in parsed.statuses}
    theirs = judge.ask("whatsapp_items", body=body)
    assert theirs
    unread = {one["id"] for one in theirs if "raised" in one}
    for one in theirs:
        if one["id"] in unread:
            assert one["raised"] == "KeyError"
        elif one["class"] == "MessageStatus":
            assert_same_status(one, statuses[one["id"], one["status"]])
        elif one["class"] == "PhoneNumberChange":
            assert messages[one["id"]].renamed_to == one["user_id"]
        else:
            assert_same_message(one, messages[one["id"]])
    return unread


def assert_same_message(theirs: Mapping[str, Any], mine: Inbound) -> None:
    assert mine.sender == theirs["user_id"]
    assert mine.reply_to == (f"+{theirs['phone']}" if theirs["phone"] else None)
    assert mine.name == theirs["name"]
    assert mine.text == (theirs["text"] or theirs["emoji"] or "")
    assert mine.button == theirs["button"]
    assert mine.quoted == theirs["quoted"]
    assert mine.forwarded is theirs["forwarded"]
    assert mine.to == theirs["our_number"]
    assert int(mine.channel_at.timestamp()) == theirs["at"]


def assert_same_status(theirs: Mapping[str, Any], mine: Status) -> None:
    assert (mine.provider_id, mine.status, mine.correlation) == (
        theirs["id"],
        theirs["status"],
        theirs["tracker"],
    )
    assert mine.to == theirs["our_number"]
    assert mine.at is not None
    assert int(mine.at.timestamp()) == theirs["at"]


@pytest.mark.parametrize("payload", whatsapp(), ids=lambda one: one.name)
def test_pywa_reads_our_payloads_of_whatsapps_as_we_do(judge: Judge, payload: Payload) -> None:
    mentioned = {id_ for id_ in UNREADABLE if id_.encode() in payload.body()}
    assert agree_on_whatsapp(judge, payload.body()) == mentioned


class Heard:
    """What a twin posts is kept instead."""

    def __init__(self) -> None:
        self.posts: list[tuple[bytes, dict[str, str], str]] = []

    async def post(self, body: bytes, headers: Mapping[str, str], *, path: str = "") -> httpx2.Response:
        self.posts.append((body, dict(headers), path))
        return httpx2.Response(200)


ANA, ELA = (
    Person(id="RO.90000000000000000001", number="40700000001"),
    Person(id="RO.90000000000000000003", name="Ela"),
)
SENT = Delivered(
    id="wamid.OUT1", to=ANA.id, text="Book?", buttons=(("pa:01:1:confirm", "Confirm"),), correlation="0190"
)

META_DEEDS: dict[str, Callable[[WhatsAppTwin], Awaitable[Any]]] = {
    "a text": lambda twin: twin.write(ANA, "Bună, la 10?"),
    "a text of somebody without a number": lambda twin: twin.write(ELA, "Hello"),
    "a quotation": lambda twin: twin.write(ANA, "YES", quotes=SENT),
    "a press": lambda twin: twin.press(ANA, SENT, "Confirm"),
    "a picture": lambda twin: twin.send_media(ANA, "image", "image/jpeg", b"...", caption="My tooth"),
    "a voice note": lambda twin: twin.send_media(ANA, "audio", "audio/ogg; codecs=opus", b"...", voice=True),
    "an edit": lambda twin: twin.edit(ANA, "wamid.1", "at 11, please"),
    "a deletion": lambda twin: twin.revoke(ANA, "wamid.1"),
    "delivered": lambda twin: twin.status(SENT, "delivered"),
    "read": lambda twin: twin.status(SENT, "read"),
}


@pytest.mark.parametrize("deed", META_DEEDS.values(), ids=META_DEEDS)
async def test_pywa_and_we_read_what_whatsapps_twin_posts(
    judge: Judge, deed: Callable[..., Awaitable[Any]]
) -> None:
    heard = Heard()
    twin = WhatsAppTwin(clock=SystemClock(), webhook="", app_secret=APP_SECRET, access_token="token")
    twin.post = heard.post  # type: ignore[method-assign]
    await twin.write(ANA, "Hello")
    await deed(twin)
    await twin.close()
    for body, headers, _ in heard.posts:
        assert agree_on_whatsapp(judge, body) == set()
        assert (
            judge.ask(
                "meta_signature", body=body, signature=_named(headers, "x-hub-signature-256"), key=APP_SECRET
            )
            is True
        )


def _named(headers: Mapping[str, str], name: str) -> str:
    return next(value for known, value in headers.items() if known.lower() == name)


# Telegram


def agree_on_telegram(judge: Judge, body: bytes) -> None:
    """aiogram reads the update, and we read the same person, message, words and proof from it."""
    theirs = judge.ask("telegram_update", body=body)
    (mine,) = ours(ChannelName.TELEGRAM, body).messages
    named = f"{theirs['chat']}:{theirs['message_id']}" if theirs["chat"] else None
    assert (mine.external_id, mine.sender) == (str(theirs["id"]), str(theirs["user_id"]))
    assert mine.name == theirs["name"]
    assert mine.button == theirs["button"]
    assert mine.phone == (f"+{theirs['proven']}" if theirs["proven"] else None)
    if theirs["class"] == "callback_query":
        assert (mine.channel_message_id, mine.quoted) == (theirs["press"], named)
    elif theirs["class"] == "edited_message":
        assert (mine.quoted, mine.text) == (named, theirs["text"])
    else:
        assert (mine.channel_message_id, mine.text) == (named, theirs["text"] or "")


@pytest.mark.parametrize("payload", telegram(), ids=lambda one: one.name)
def test_aiogram_reads_our_payloads_of_telegrams_as_we_do(judge: Judge, payload: Payload) -> None:
    agree_on_telegram(judge, payload.body())


BOT_ANA = Bot(id=700000001)
TELEGRAM_DEEDS: dict[str, Callable[[TelegramTwin], Awaitable[Any]]] = {
    "a text": lambda twin: twin.write(BOT_ANA, "Bună"),
    "a card of their own": lambda twin: twin.share_contact(BOT_ANA, "+40700000001", owner=BOT_ANA.id),
    "a card of another": lambda twin: twin.share_contact(BOT_ANA, "+40700000002", owner=7),
    "a card of nobody": lambda twin: twin.share_contact(BOT_ANA, "+40700000002", owner=None),
    "a forged press": lambda twin: twin.press_forged(BOT_ANA, "pa:01:1:confirm"),
}


@pytest.mark.parametrize("deed", TELEGRAM_DEEDS.values(), ids=TELEGRAM_DEEDS)
async def test_aiogram_and_we_read_what_telegrams_twin_posts(
    judge: Judge, deed: Callable[..., Awaitable[Any]]
) -> None:
    heard = Heard()
    twin = TelegramTwin(
        clock=SystemClock(), token="700000100:token", webhook="https://agent.example.test", secret=BOT_SECRET
    )
    twin.post = heard.post  # type: ignore[method-assign]
    message = await twin.write(BOT_ANA, "Hello")
    await twin.edit(BOT_ANA, message["message_id"], "Hello again")
    await deed(twin)
    await twin.close()
    assert len(heard.posts) == 3
    for body, headers, _ in heard.posts:
        agree_on_telegram(judge, body)
        assert _named(headers, "x-telegram-bot-api-secret-token") == BOT_SECRET


# Twilio and the signed webhook: their signatures


@pytest.mark.parametrize(
    "sender", ["+40700000001", "whatsapp:+40700000001", "whatsapp:RO.90000000000000000003"]
)
async def test_twilios_validator_passes_what_twilios_twin_signs(judge: Judge, sender: str) -> None:
    heard = Heard()
    twin = TwilioTwin(
        clock=SystemClock(),
        account=TwilioAccount(sid=TWILIO_SID, token=AUTH_TOKEN, number=OUR_NUMBER),
        webhook=HOOK,
    )
    twin.post = heard.post  # type: ignore[method-assign]
    await twin.write(sender, "Bună ziua, la 10 & ceva + altceva?")
    await twin.write(sender, "", media=(("image/jpeg", b"..."),))
    await twin.close()
    assert len(heard.posts) == 2
    for body, headers, path in heard.posts:
        signature, form = (
            _named(headers, "x-twilio-signature"),
            parse_qsl(body.decode(), keep_blank_values=True),
        )
        assert judge.ask("twilio_signature", url=HOOK + path, body="", form=[list(pair) for pair in form],
                         signature=signature, key=AUTH_TOKEN, algorithm="HMAC_SHA1") is True  # fmt: skip
        post = Post(
            url=HOOK + path,
            body=body,
            headers={name.lower().encode(): value.encode() for name, value in headers.items()},
        )
        assert ENTRANCES[ChannelName.TWILIO].check(post, account(ChannelName.TWILIO), 0.0) is Signature.GOOD


async def test_the_library_of_standard_webhooks_passes_what_the_receivers_twin_signs(judge: Judge) -> None:
    heard = Heard()
    twin = ReceiverTwin(
        clock=SystemClock(), webhook="https://agent.example.test", inbound=CURRENT, outbound=PREVIOUS
    )
    twin.post = heard.post  # type: ignore[method-assign]
    await twin.write("cust-1", "Bună, aveți loc joi?")
    await twin.close()
    ((body, headers, _),) = heard.posts
    assert judge.ask("standard_signature", body=body, secrets=[CURRENT], headers=headers) is True
