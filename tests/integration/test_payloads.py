"""Requests as WhatsApp, Twilio, Telegram and tenants send them (tests/data/payloads), posted to the real app on a real Postgres."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from services.guard.wiring import wire as wire_guard
from shared.channels.traits import ChannelName
from shared.ids import AccountId
from tests.support.eventually import eventually
from tests.support.hooks import AFTER_ALL, Hooks, hooks_on
from tests.support.payloads import (
    NINE,
    Payload,
    every_payload,
    signed,
    whatsapp_of,
)

pytestmark = pytest.mark.postgres

PAYLOADS = {payload.id: payload for payload in every_payload()}
OF = {channel: [one for one in PAYLOADS.values() if one.channel is channel] for channel in ChannelName}
ANSWERS = {
    ChannelName.WHATSAPP: (b"", "text/plain; charset=utf-8"),
    ChannelName.TWILIO: (b"<Response/>", "text/xml"),
    ChannelName.TELEGRAM: (b"", "text/plain; charset=utf-8"),
    ChannelName.GENERIC: (b"", "text/plain; charset=utf-8"),
}
each_payload = pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
PLAIN = {"text": "", "phone": None, "button": None, "quoted": None, "forwarded": False, "opt_word": None, "parts": None}  # fmt: skip


@pytest.fixture
async def hooks(database_url: str) -> AsyncIterator[Hooks]:
    async with hooks_on(database_url) as made:
        yield made


async def told(hooks: Hooks) -> list[dict[str, Any]]:
    """What is stored, without what no payload says."""
    return [{name: row[name] for name in ("id", "kind", "user_id", *PLAIN)} for row in await hooks.stored()]


def wanted(payload: Payload) -> list[dict[str, Any]]:
    return [PLAIN | dict(row) for row in payload.stored]


# As they are


@each_payload
async def test_a_payload_is_taken_answered_as_its_channel_wants_it_and_stored(
    hooks: Hooks, payload: Payload
) -> None:
    response = await hooks.send(payload)
    body, content_type = ANSWERS[payload.channel]
    assert (response.status_code, response.content) == (200, body)
    assert response.headers["content-type"].split(";")[0] == content_type.split(";")[0]
    assert await told(hooks) == wanted(payload)


@each_payload
async def test_a_payload_posted_twice_leaves_the_rows_of_once(hooks: Hooks, payload: Payload) -> None:
    for _ in range(2):
        assert (await hooks.send(payload)).status_code == 200
    assert await told(hooks) == wanted(payload)


async def test_messages_keep_the_channels_time(hooks: Hooks) -> None:
    await hooks.send(named("whatsapp: text"))
    (row,) = await hooks.stored()
    assert row["channel_at"] == datetime.fromtimestamp(NINE, UTC)


def named(id_: str) -> Payload:
    return PAYLOADS[id_]


async def test_a_change_of_number_or_id_is_kept_for_people_to_judge(hooks: Hooks) -> None:
    await hooks.send(named("whatsapp: a change of number, and one of id"))
    changes = await hooks.place.rows("identity_change", order="old_user_id")
    assert [(row["old_user_id"], row["new_user_id"], row["decided"]) for row in changes] == [
        ("RO.90000000000000000002", "RO.90000000000000000012", None),
        ("RO.90000000000000000003", "RO.90000000000000000013", None),
    ]


# What is refused


def _other_body(payload: Payload) -> bytes:
    return payload.body().replace(b"Test", b"Best").replace(b"40700000001", b"40700000009")


TAMPERED: dict[str, Callable[[Payload], Payload]] = {
    "no signature": lambda one: one.with_headers(
        x_hub_signature_256="", x_twilio_signature="", x_telegram_bot_api_secret_token="", webhook_signature=""
    ),
    "garbage": lambda one: one.with_headers(
        x_hub_signature_256="sha256=garbage", x_twilio_signature="garbage",
        x_telegram_bot_api_secret_token="garbage", webhook_signature="garbage",
    ),
    "no ASCII": lambda one: one.with_headers(
        x_hub_signature_256="sha256=\xe9", x_twilio_signature="\xe9", x_telegram_bot_api_secret_token="\xe9",
        webhook_signature="v1,\xe9",
    ),
}  # fmt: skip


@pytest.mark.parametrize("tamper", TAMPERED.values(), ids=TAMPERED)
@pytest.mark.parametrize("channel", [one for one in OF if OF[one]])
async def test_a_wrong_signature_is_401_on_every_channel_and_stores_nothing(
    hooks: Hooks, channel: ChannelName, tamper: Callable[[Payload], Payload]
) -> None:
    payload = OF[channel][0]
    body = payload.body()
    headers = signed(tamper(payload), body, at=AFTER_ALL)
    answer = await hooks.client.post(
        payload.path(), content=body, headers={name: value.encode("latin-1") for name, value in headers.items()}
    )  # fmt: skip
    assert answer.status_code == 401
    assert not await hooks.stored()
    if channel is ChannelName.TWILIO:
        assert (answer.content, answer.headers["content-type"].split(";")[0]) == (b"<Response/>", "text/xml")


@pytest.mark.parametrize("channel", [ChannelName.WHATSAPP, ChannelName.TWILIO, ChannelName.GENERIC])
async def test_a_body_changed_after_it_was_signed_is_401(hooks: Hooks, channel: ChannelName) -> None:
    payload = OF[channel][0]
    headers = signed(payload, payload.body(), at=AFTER_ALL)
    answer = await hooks.client.post(payload.path(), content=payload.body() + b" ", headers=headers)
    assert answer.status_code == 401
    assert not await hooks.stored()


HANDSHAKES = {
    "as Meta asks": ("hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=verify-me-0001", 200, b"1158201444"),
    "another token": ("hub.mode=subscribe&hub.challenge=1&hub.verify_token=wrong", 403, b""),
    "no token": ("hub.mode=subscribe&hub.challenge=1", 403, b""),
    "an empty token": ("hub.mode=subscribe&hub.challenge=1&hub.verify_token=", 403, b""),
    "another mode": ("hub.mode=unsubscribe&hub.challenge=1&hub.verify_token=verify-me-0001", 403, b""),
    "no challenge": ("hub.mode=subscribe&hub.verify_token=verify-me-0001", 403, b""),
    "nothing": ("", 403, b""),
}  # fmt: skip


@pytest.mark.parametrize(("query", "status", "body"), HANDSHAKES.values(), ids=HANDSHAKES)
async def test_the_handshake_is_answered_with_its_challenge_or_403(
    hooks: Hooks, query: str, status: int, body: bytes
) -> None:
    answer = await hooks.client.get(f"/hooks/whatsapp/acme-dental?{query}")
    assert (answer.status_code, answer.content) == (status, body)
    assert answer.headers["content-type"].split(";")[0] == "text/plain"


@pytest.mark.parametrize(
    ("at", "without", "status"),
    [(NINE - 301, None, 400), (NINE + 301, None, 400), (NINE, "webhook-id", 400), (NINE - 299, None, 200)],
    ids=["301 s late", "301 s early", "no id", "299 s late"],
)
async def test_a_webhook_outside_the_tolerance_or_without_an_id_is_400(
    database_url: str, at: int, without: str | None, status: int
) -> None:
    async with hooks_on(database_url, now_s=NINE) as hooks:
        payload = named("generic: a text with a proven number")
        headers = signed(payload, payload.body(), at=at)
        headers.pop(without or "", None)
        answer = await hooks.client.post(payload.path(), content=payload.body(), headers=headers)
        assert answer.status_code == status
        assert len(await hooks.stored()) == (status == 200)


async def test_an_unknown_version_alone_signs_nothing(hooks: Hooks) -> None:
    payload = replace(named("generic: a press while the secret is changed"), signers=("unknown version",))
    assert (await hooks.send(payload)).status_code == 401


@each_payload
async def test_a_payload_cut_anywhere_is_refused_or_read_and_never_a_5xx(
    hooks: Hooks, payload: Payload
) -> None:
    """Signed as it was cut, so that the parser meets it."""
    body, chance = payload.body(), Random(payload.id)
    for at in sorted(chance.sample(range(len(body)), k=min(len(body), 12))):
        if payload.channel is ChannelName.TWILIO:
            kept = dict(list(payload.content.items())[: at * len(payload.content) // len(body)])
            answer = await hooks.send(payload.with_content(kept))
            assert answer.status_code in (200, 400)
        else:
            answer = await hooks.send(payload, body=body[:at])
            assert answer.status_code == 400
            assert not await hooks.stored()
    known = {row["user_id"] for row in payload.stored}
    assert {row["user_id"] for row in await hooks.stored()} <= known, "a cut made nobody up"


# As they might be


@each_payload
async def test_an_unknown_key_at_every_level_changes_nothing(hooks: Hooks, payload: Payload) -> None:
    strange = payload.with_content(_with_strangers(payload.content))
    assert (await hooks.send(strange)).status_code == 200
    assert await told(hooks) == wanted(payload)


def _with_strangers(content: Any) -> Any:
    if isinstance(content, dict):
        known = {name: _with_strangers(value) for name, value in content.items()}
        plain = all(isinstance(value, str) for value in known.values())
        return known | {"a_key_of_next_year": "x" if plain else {"deep": [None, 1.5, "x"]}}
    return [_with_strangers(one) for one in content] if isinstance(content, list) else content


# What a channel may leave out, by its documentation or because no row depends on it.
OPTIONAL = {
    ChannelName.WHATSAPP: {
        "contacts", "profile", "username", "wa_id", "sha256", "voice", "url", "animated", "filename", "mime_type", "description",
        "name", "address", "vcard", "first_name", "formatted_name", "referral", "unsupported", "errors", "display_phone_number",
        "messaging_product", "catalog_id", "product_items", "source_url", "source_id", "headline", "title",
    },
    ChannelName.TWILIO: {
        "ToCountry", "ToState", "ToCity", "ToZip", "FromCountry", "FromState", "FromCity", "FromZip", "SmsMessageSid", "SmsSid",
        "SmsStatus", "NumSegments", "ApiVersion", "ProfileName", "MessageType", "ChannelMetadata", "ReferralNumMedia", "MessagingServiceSid",
        "ExternalUserId", "OriginalRepliedMessageSender",
    },
    ChannelName.TELEGRAM: {"first_name", "last_name", "username", "language_code", "is_bot", "chat_instance", "reply_markup"},
    ChannelName.GENERIC: {"timestamp", "conversation_id", "name", "locale"},
}  # fmt: skip


@each_payload
async def test_without_any_one_key_nothing_breaks_and_what_is_optional_costs_nobody(
    hooks: Hooks, payload: Payload
) -> None:
    said = _said_in(payload.content)
    for key, content in _with_one_key_less(payload.content):
        answer = await hooks.send(payload.with_content(content))
        assert answer.status_code in (200, 400), key
        rows = await hooks.stored()
        assert {row["user_id"] for row in rows} <= said, f"without {key}: nobody is made up"
        if key in OPTIONAL[payload.channel]:
            stored = sorted((row["id"], row["user_id"]) for row in rows)
            assert stored == sorted((row["id"], row["user_id"]) for row in payload.stored), key
        await hooks.forget()


def _with_one_key_less(content: Any) -> Iterator[tuple[str, Any]]:
    """The content without each of its keys, at every level."""
    for path in list(_paths(content)):
        spoiled = deepcopy(content)
        inner = spoiled
        for step in path[:-1]:
            inner = inner[step]
        del inner[path[-1]]
        yield str(path[-1]), spoiled


def _paths(content: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(content, dict):
        for name, value in content.items():
            yield (*before, name)
            yield from _paths(value, (*before, name))
    elif isinstance(content, list):
        for at, value in enumerate(content):
            yield from _paths(value, (*before, at))


def _said_in(content: Any) -> set[str]:
    """Every word and number in it, also as a telephone number with its plus."""
    if isinstance(content, dict | list):
        inner = content.values() if isinstance(content, dict) else content
        return {word for one in inner for word in _said_in(one)}
    return {str(content), f"+{content}"}


@pytest.mark.parametrize("payload", OF[ChannelName.WHATSAPP], ids=lambda one: one.name)
async def test_items_in_another_order_are_the_same_rows(hooks: Hooks, payload: Payload) -> None:
    chance = Random(payload.name)
    content = deepcopy(payload.content)
    chance.shuffle(content["entry"])
    for entry in content["entry"]:
        chance.shuffle(entry["changes"])
        for change in entry["changes"]:
            for name in ("messages", "statuses", "contacts"):
                if name in change["value"]:
                    chance.shuffle(change["value"][name])
    assert (await hooks.send(payload.with_content(content))).status_code == 200

    def by_id(row: Mapping[str, Any]) -> Any:
        return row["id"]

    assert sorted(await told(hooks), key=by_id) == sorted(wanted(payload), key=by_id)


# Whose it is

OTHER_ID = "900000000000002"


def texts(*ids: str, at: int = NINE, by: str = "ana") -> dict[str, Any]:
    """A change with texts."""
    return {
        "contacts": [by],
        "messages": [
            {"by": by, "id": id_, "timestamp": str(at), "type": "text", "text": {"body": f"This is {id_}"}} for id_ in ids
        ],
    }  # fmt: skip


async def test_one_telephone_writes_to_two_businesses_and_is_two_customers(hooks: Hooks) -> None:
    another = await hooks.place.business()
    await hooks.account(ChannelName.WHATSAPP, business=another, address="other", provider_address=OTHER_ID, own_number="+40700000200",
                        settings=f'{{"phone_number_id": "{OTHER_ID}"}}')  # fmt: skip
    assert (await hooks.send(whatsapp_of(texts("wamid.A")))).status_code == 200
    theirs = whatsapp_of(
        texts("wamid.A"), our={"phone_number_id": OTHER_ID, "display_phone_number": "40700000200"}
    )
    assert (await hooks.send(theirs, address="other")).status_code == 200
    ours, other = await hooks.stored()
    assert (ours["business"], other["business"]) == (hooks.business, another)
    assert ours["phone"] == other["phone"] == "+40700000001"
    assert ours["conversation"] != other["conversation"]
    assert len(await hooks.place.rows("customer")) == 2


async def test_a_valid_signature_with_another_businesss_number_stores_nothing_and_is_counted(
    hooks: Hooks,
) -> None:
    another = await hooks.place.business()
    await hooks.account(ChannelName.WHATSAPP, business=another, address="other", provider_address=OTHER_ID,
                        settings=f'{{"phone_number_id": "{OTHER_ID}"}}')  # fmt: skip
    stray = whatsapp_of(texts("wamid.A"), our={"phone_number_id": OTHER_ID})
    assert (await hooks.send(stray)).status_code == 200
    assert not await hooks.stored()
    assert not await hooks.place.rows("customer")
    assert hooks.counted("parts_misaddressed") == 1


async def test_a_stray_does_not_stop_what_is_ours(hooks: Hooks) -> None:
    stray = whatsapp_of(texts("wamid.A"), our={"phone_number_id": "1"})
    both = whatsapp_of(texts("wamid.B"))
    both.content["entry"] += stray.content["entry"]
    assert (await hooks.send(both)).status_code == 200
    assert [row["id"] for row in await hooks.stored()] == ["wamid.B"]
    assert hooks.counted("parts_misaddressed") == 1


async def test_two_numbers_of_one_business_behind_one_url_are_kept_apart(hooks: Hooks) -> None:
    second: AccountId = await hooks.account(
        ChannelName.WHATSAPP, address="second", provider_address=OTHER_ID, settings=f'{{"phone_number_id": "{OTHER_ID}"}}'
    )  # fmt: skip
    both = whatsapp_of(texts("wamid.A"))
    both.content["entry"] += whatsapp_of(texts("wamid.B"), our={"phone_number_id": OTHER_ID}).content["entry"]
    assert (await hooks.send(both)).status_code == 200
    by_id = {row["id"]: row for row in await hooks.stored()}
    assert by_id["wamid.B"]["account"] == second != by_id["wamid.A"]["account"]
    assert by_id["wamid.A"]["conversation"] != by_id["wamid.B"]["conversation"]
    assert len(await hooks.place.rows("customer")) == 1, "one telephone, one customer"


@pytest.mark.parametrize(
    "change", [{"To": "+40700000999"}, {"AccountSid": "AC" + "9" * 32}], ids=["number", "account"]
)
async def test_an_sms_for_another_number_or_account_stores_nothing(
    hooks: Hooks, change: dict[str, str]
) -> None:
    payload = OF[ChannelName.TWILIO][0]
    assert (await hooks.send(payload.with_content(payload.content | change))).status_code == 200
    assert not await hooks.stored()


# How much, and how late


async def test_a_thousand_messages_of_three_megabytes_are_stored_by_one_request(hooks: Hooks) -> None:
    batch = whatsapp_of(texts(*(f"wamid.{n}" for n in range(1000))))
    for message in batch.content["entry"][0]["changes"][0]["value"]["messages"]:
        message["text"]["body"] += " " + "x" * 2_800
    assert 2_900_000 < len(batch.body()) < 3 * 1024 * 1024
    assert (await hooks.send(batch)).status_code == 200
    assert [row["id"] for row in await hooks.stored()] == [f"wamid.{n}" for n in range(1000)]


async def test_a_message_of_three_days_ago_is_kept_flagged_and_answered_by_nobody(hooks: Hooks) -> None:
    """WhatsApp delivers for seven days what it could not deliver."""
    real = int((await hooks.place.now()).timestamp())
    hooks.clock.pass_(real - hooks.clock.now().timestamp())
    late = texts("wamid.LATE", at=real - int(timedelta(days=3).total_seconds()))
    assert (await hooks.send(whatsapp_of(late))).status_code == 200
    async with asyncio.TaskGroup() as group:
        service = await wire_guard(hooks.wired.parts)
        job = group.create_task(service.run())

        async def judged() -> bool:
            return (await hooks.place.row("inbound_message"))["verdict"] is not None

        await eventually(judged)
        job.cancel()
    message = await hooks.place.row("inbound_message")
    assert (message["verdict"], message["reason"]) == ("stored", "stale")
    assert [row["reason"] for row in await hooks.place.rows("flag")] == ["stale"]
    assert (await hooks.place.row("conversation_state"))["due_at"] is None


# Statuses

STATES = {
    "wamid.TESTOUT000000010": "read",
    "wamid.TESTOUT000000011": "delivered",
    "wamid.TESTOUT000000012": "draft",
}


async def sent(hooks: Hooks, channel: ChannelName, *provider_ids: str) -> None:
    """Replies that the channel took, each to somebody of its own."""
    account = (await hooks.place.row("channel_account", business=hooks.business, channel=channel))["id"]
    for provider_id in provider_ids:
        conversation = await hooks.place.conversation(account)
        outbound = await hooks.place.outbound(conversation, state="sent", parts_sent=1, ring_at=None)
        await hooks.place.attempt(outbound, state="sent", provider_id=provider_id, rank=10)


async def states(hooks: Hooks) -> dict[str, str]:
    rows = await hooks.place.owner.fetch(
        "select a.provider_id, o.state from send_attempt a join outbound o on o.id = a.outbound"
    )
    return {row["provider_id"]: row["state"] for row in rows}


@pytest.mark.parametrize("order", range(6))
async def test_whatsapps_statuses_in_any_order_end_in_the_highest(hooks: Hooks, order: int) -> None:
    await sent(hooks, ChannelName.WHATSAPP, *STATES)
    payload = named("whatsapp: statuses")
    content = deepcopy(payload.content)
    Random(order).shuffle(content["entry"][0]["changes"])
    for _ in range(2):
        assert (await hooks.send(payload.with_content(content))).status_code == 200
    assert await states(hooks) == STATES
    (failed,) = await hooks.place.rows("outbound", state="draft")
    assert failed["reason"] == "window_closed"


async def test_a_carriers_refusal_makes_a_draft_of_the_sms(hooks: Hooks) -> None:
    payload = named("twilio: a status of failure")
    (status,) = payload.statuses
    await sent(hooks, ChannelName.TWILIO, status["message_id"])
    assert (await hooks.send(payload)).status_code == 200
    assert await states(hooks) == {status["message_id"]: "draft"}


async def test_statuses_of_sends_nobody_knows_are_kept(hooks: Hooks) -> None:
    assert (await hooks.send(named("whatsapp: statuses"))).status_code == 200
    assert len(await hooks.place.rows("held_status")) == 4
