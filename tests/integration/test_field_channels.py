"""Field cases about what channels send: twice, late, in odd shapes, badly signed. Each is posted as its provider would, to the real
app on a real Postgres; where the point is what comes of it, tests/end_to_end/test_field_channels.py plays it through all services."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from services.ingest.wiring import wire
from shared.channels.traits import ChannelName
from shared.telemetry.metrics import Metrics
from tests.oracles.signatures import FORM, meta_signed, twilio_signed
from tests.support.hooks import Hooks, hooks_on
from tests.support.payloads import (
    APP_SECRET,
    AUTH_TOKEN,
    NINE,
    OUR_NUMBER,
    PUBLIC_URL,
    TWILIO_SID,
    Payload,
    whatsapp_of,
)

pytestmark = pytest.mark.postgres

ANA, BOGDAN = "40700000001", "40700000002"


@pytest.fixture
async def hooks(database_url: str) -> AsyncIterator[Hooks]:
    async with hooks_on(database_url) as made:
        yield made


def item(
    id_: str, *, sender: str = ANA, at: int = NINE, text: str | None = None, **more: Any
) -> dict[str, Any]:
    """A message of WhatsApp's in the older form, without a user id."""
    said = {"type": "text", "text": {"body": text}} if text is not None else {}
    return {"from": sender, "id": id_, "timestamp": str(at), **said, **more}


def of(*items: Mapping[str, Any], **more: Any) -> Payload:
    """A request of WhatsApp's with these messages."""
    return whatsapp_of({"messages": list(items), **more})


def sms(id_: str, text: str | None, **more: str) -> Payload:
    form = {"MessageSid": id_, "AccountSid": TWILIO_SID, "From": f"+{ANA}", "To": OUR_NUMBER, "NumMedia": "0"}
    said = {} if text is None else {"Body": text}
    return Payload(channel=ChannelName.TWILIO, name="an SMS", content=form | said | more)


async def taken(hooks: Hooks, *payloads: Payload) -> None:
    for payload in payloads:
        assert (await hooks.send(payload)).status_code == 200


async def ids(hooks: Hooks) -> list[str]:
    return [row["id"] for row in await hooks.stored()]


# Twice, and out of order


async def test_the_same_webhook_twice_at_once_is_one_message(hooks: Hooks) -> None:
    """DUP-01."""
    payload = of(item("wamid.1", text="Hello"))
    async with asyncio.TaskGroup() as group:
        posts = [group.create_task(hooks.send(payload)) for _ in range(2)]
    assert [post.result().status_code for post in posts] == [200, 200]
    assert await ids(hooks) == ["wamid.1"]


async def test_messages_keep_their_own_times_whatever_order_they_come_in(hooks: Hooks) -> None:
    """DUP-03."""
    await taken(hooks, of(item("wamid.2", text="second", at=NINE + 60)), of(item("wamid.1", text="first")))
    assert {row["text"]: row["channel_at"] for row in await hooks.stored()} == {
        "first": datetime.fromtimestamp(NINE, UTC),
        "second": datetime.fromtimestamp(NINE + 60, UTC),
    }


async def test_a_contact_without_a_profile_is_somebody_without_a_name(hooks: Hooks) -> None:
    """DUP-04."""
    payload = of(item("wamid.1", text="12345 is your code"))
    payload.content["entry"][0]["changes"][0]["value"]["contacts"] = [{"wa_id": ANA}]
    await taken(hooks, payload)
    (row,) = await hooks.stored()
    assert (row["text"], row["phone"]) == ("12345 is your code", f"+{ANA}")
    assert (await hooks.place.row("customer"))["name"] is None


@pytest.mark.parametrize("channel", ["telegram", "twilio"])
async def test_a_repeat_of_an_update_or_an_sms_is_the_same_message(hooks: Hooks, channel: str) -> None:
    """DUP-07, DUP-12."""
    person = {"id": 700000001, "is_bot": False, "first_name": "Ana"}
    message = {
        "message_id": 11,
        "date": NINE,
        "chat": {"id": 700000001, "type": "private"},
        "from": person,
        "text": "Hello",
    }
    update = Payload(
        channel=ChannelName.TELEGRAM, name="Hello", content={"update_id": 9001, "message": message}
    )
    payload = {"telegram": update, "twilio": sms("SM0003", "Hello")}[channel]
    await taken(hooks, payload, payload, payload)
    assert len(await hooks.stored()) == 1
    assert (await hooks.place.row("conversation_state"))["unguarded"] == 1


async def test_two_messages_of_one_second_keep_the_order_of_their_list(hooks: Hooks) -> None:
    """DUP-13."""
    await taken(hooks, of(item("wamid.9", text="I want to book"), item("wamid.1", text="tomorrow at 10")))
    assert [row["text"] for row in await hooks.stored()] == ["I want to book", "tomorrow at 10"]


async def test_a_repeat_after_a_restart_is_still_one(hooks: Hooks) -> None:
    """DUP-14: what is known of messages lies in Postgres alone."""
    payload = of(item("wamid.1", text="Hello"))
    await taken(hooks, payload)
    again = await wire(replace(hooks.wired.parts, metrics=Metrics(process=False)))
    restarted = replace(hooks, wired=again)
    job = asyncio.create_task(again.service.run())
    async with restarted.client:
        assert (await restarted.send(payload)).status_code == 200
    job.cancel()
    await asyncio.wait([job])
    assert await ids(hooks) == ["wamid.1"]


# Shapes


async def test_five_messages_in_two_changes_and_two_entries_are_five(hooks: Hooks) -> None:
    """SHP-01."""
    payload = of(*(item(f"wamid.{n}", text=n) for n in ("one", "two", "three")))
    other, last = of(item("wamid.four", sender=BOGDAN, text="four")), of(item("wamid.five", text="five"))
    payload.content["entry"][0]["changes"] += other.content["entry"][0]["changes"]
    payload.content["entry"] += last.content["entry"]
    await taken(hooks, payload)
    assert [row["text"] for row in await hooks.stored()] == ["one", "two", "three", "four", "five"]
    assert len(await hooks.place.rows("conversation")) == 2


async def test_a_status_of_nothing_we_know_does_not_hold_up_the_message_beside_it(hooks: Hooks) -> None:
    """SHP-03."""
    status = {"id": "wamid.OUT404", "status": "delivered", "timestamp": str(NINE), "recipient_id": ANA}
    await taken(hooks, of(item("wamid.1", text="Are you open today?"), statuses=[status]))
    assert await ids(hooks) == ["wamid.1"]
    assert hooks.counted("statuses_held") == 1


async def test_a_location_is_stored_with_words_for_it(hooks: Hooks) -> None:
    """SHP-08: what people see, and what a model is told, is never empty."""
    await taken(hooks, of(item("wamid.1", type="location", location={"latitude": 44.43, "longitude": 26.1})))
    (row,) = await hooks.stored()
    assert row["kind"] == "media"
    (part,) = await hooks.place.rows("media_part")
    assert part["kind"] == "location"
    assert "44.43" in part["words"]
    assert "26.1" in part["words"]


async def test_a_templates_button_is_stored_with_its_payload_and_what_it_answers(hooks: Hooks) -> None:
    """SHP-10."""
    button = {"text": "Confirm", "payload": "APPT_17_CONFIRM"}
    answers = {"from": "40200000001", "id": "wamid.OUT5"}
    await taken(hooks, of(item("wamid.1", type="button", button=button, context=answers)))
    (row,) = await hooks.stored()
    assert (row["text"], row["button"], row["quoted"]) == ("Confirm", "APPT_17_CONFIRM", "wamid.OUT5")


@pytest.mark.parametrize(
    ("kind", "reply", "stored"),
    [
        ("button_reply", {"id": "P1_YES", "title": "Da"}, ("P1_YES", "Da")),
        ("list_reply", {"id": "SLOT_3", "title": "10:00", "description": "Mon"}, ("SLOT_3", "10:00")),
    ],
)
async def test_a_choice_is_stored_with_its_id_and_its_title(
    hooks: Hooks, kind: str, reply: dict[str, str], stored: tuple[str, str]
) -> None:
    """SHP-11."""
    await taken(hooks, of(item("wamid.1", type="interactive", interactive={"type": kind, kind: reply})))
    (row,) = await hooks.stored()
    assert (row["button"], row["text"]) == stored


async def test_an_advertisement_is_not_the_customers_words_and_a_first_opening_has_none(hooks: Hooks) -> None:
    """SHP-12."""
    referral = {
        "source_type": "ad",
        "source_id": "AD1",
        "headline": "Whitening offer",
        "body": "See https://example.test",
    }
    await taken(
        hooks,
        of(item("wamid.1", text="Hello!", referral=referral)),
        of(item("wamid.2", type="request_welcome")),
    )
    said, opened = await hooks.stored()
    assert (said["kind"], said["text"]) == ("text", "Hello!")
    assert (opened["kind"], opened["text"]) == ("unsupported", "")
    raws = [json.loads(row["raw"]) for row in await hooks.place.rows("inbound_payload")]
    assert [raw["referral"] for raw in raws if "referral" in raw] == [referral], "kept as it came"


async def test_a_picture_by_sms_without_a_body_is_media(hooks: Hooks) -> None:
    """SHP-18."""
    media = {"NumMedia": "1", "MediaUrl0": "https://media.example.test/1", "MediaContentType0": "image/jpeg"}
    await taken(hooks, sms("MM0001", None, **media))
    (row,) = await hooks.stored()
    assert (row["kind"], row["text"]) == ("media", "")
    assert row["parts"] == [["image", "image/jpeg", None, "https://media.example.test/1"]]


# Signatures


async def test_a_signature_is_over_the_bytes_and_not_over_what_they_mean(hooks: Hooks) -> None:
    """SIG-01: Meta escapes letters and slashes; the same JSON written otherwise is another body."""
    payload = of(item("wamid.1", text="Bună ziua, https://example.test/ș"))
    body = payload.body()
    assert b"\\u0103" in body
    assert b"\\/" in body
    headers = {"x-hub-signature-256": meta_signed(body, APP_SECRET)}
    otherwise = json.dumps(payload.content, ensure_ascii=False).encode()
    assert (await hooks.client.post(payload.path(), content=otherwise, headers=headers)).status_code == 401
    assert (await hooks.client.post(payload.path(), content=body, headers=headers)).status_code == 200
    assert [row["text"] for row in await hooks.stored()] == ["Bună ziua, https://example.test/ș"]


@pytest.mark.parametrize("host", ["agent.example.test", "agent.example.test:443"])
@pytest.mark.parametrize(
    "arrives", ["ingest:8000", "agent.example.test", "agent.example.test:443", "evil.example.test"]
)
async def test_twilios_signature_is_over_the_public_url_with_or_without_its_port(
    hooks: Hooks, host: str, arrives: str
) -> None:
    """SIG-02, SIG-04: what the proxy calls us by, or a Host header says, is nobody's proof."""
    payload = sms("SM0401", "Hello")
    url = f"https://{host}{payload.path()}"
    signature = twilio_signed(url, list(payload.content.items()), AUTH_TOKEN, "sha1")
    headers = {
        "content-type": FORM,
        "x-twilio-signature": signature,
        "host": arrives,
        "x-forwarded-proto": "http",
    }
    assert (
        await hooks.client.post(payload.path(), content=payload.body(), headers=headers)
    ).status_code == 200


async def test_a_signature_over_the_url_behind_the_proxy_is_refused(hooks: Hooks) -> None:
    """SIG-02, the other way about."""
    payload = sms("SM0401", "Hello")
    signature = twilio_signed(
        f"http://ingest:8000{payload.path()}", list(payload.content.items()), AUTH_TOKEN, "sha1"
    )
    headers = {"content-type": FORM, "x-twilio-signature": signature}
    assert (
        await hooks.client.post(payload.path(), content=payload.body(), headers=headers)
    ).status_code == 401
    assert PUBLIC_URL.startswith("https://")


async def test_blank_fields_are_part_of_what_is_signed(hooks: Hooks) -> None:
    """SIG-05."""
    media = {"NumMedia": "1", "MediaUrl0": "https://media.example.test/2", "MediaContentType0": "image/png"}
    payload = sms("SM0403", "", FromCity="", FromZip="", **media)
    assert b"FromCity=&" in payload.body()
    await taken(hooks, payload)
    without = {name: value for name, value in payload.content.items() if value}
    headers = {
        "content-type": FORM,
        "x-twilio-signature": twilio_signed(
            PUBLIC_URL + payload.path(), list(without.items()), AUTH_TOKEN, "sha1"
        ),
    }
    assert (
        await hooks.client.post(payload.path(), content=payload.body(), headers=headers)
    ).status_code == 401


FORGED: dict[str, dict[str, str]] = {
    "no signature": {},
    "an empty one": {"x-hub-signature-256": ""},
    "an empty digest": {"x-hub-signature-256": "sha256="},
    "the older header alone": {"x-hub-signature": "sha1=0000"},
}


@pytest.mark.parametrize("headers", FORGED.values(), ids=FORGED)
async def test_a_request_that_meta_did_not_sign_is_refused_and_leaves_nothing(
    hooks: Hooks, headers: dict[str, str]
) -> None:
    """SIG-08."""
    payload = of(item("wamid.1", text="forged"))
    assert (
        await hooks.client.post(payload.path(), content=payload.body(), headers=headers)
    ).status_code == 401
    assert not await hooks.stored()
    assert not await hooks.place.rows("customer")


async def test_the_older_signature_is_not_enough_though_it_is_right(hooks: Hooks) -> None:
    """SIG-08: SHA-1 by the right secret."""
    payload = of(item("wamid.1", text="forged"))
    digest = hmac.new(APP_SECRET.encode(), payload.body(), hashlib.sha1).hexdigest()
    for name in ("x-hub-signature", "x-hub-signature-256"):
        answer = await hooks.client.post(
            payload.path(), content=payload.body(), headers={name: f"sha1={digest}"}
        )
        assert answer.status_code == 401


@pytest.mark.parametrize("channel", [ChannelName.WHATSAPP, ChannelName.TWILIO, ChannelName.TELEGRAM])
@pytest.mark.parametrize("inbound", [[""], []], ids=["an empty secret", "no secret"])
async def test_an_account_without_a_secret_takes_nothing(
    hooks: Hooks, channel: ChannelName, inbound: list[str]
) -> None:
    """SIG-09: a request signed with the empty key is anybody's."""
    number = "+40700000999" if channel is ChannelName.TWILIO else "1"
    await hooks.account(channel, address="bare", secrets={"inbound": inbound}, provider_address=number)
    answer = await hooks.send(forged(channel), address="bare", secret="")
    assert answer.status_code == 401
    assert not await hooks.stored()


def forged(channel: ChannelName) -> Payload:
    person = {"id": 7, "is_bot": False, "first_name": "Ana"}
    message = {
        "message_id": 1,
        "date": NINE,
        "chat": {"id": 7, "type": "private"},
        "from": person,
        "text": "forged",
    }
    return {
        ChannelName.WHATSAPP: of(item("wamid.1", text="forged")),
        ChannelName.TWILIO: sms("SM1", "forged"),
        ChannelName.TELEGRAM: Payload(
            channel=channel, name="forged", content={"update_id": 1, "message": message}
        ),
    }[channel]
