"""Field cases about channels, through all services: each posted as its provider would, answered at a stand-in for the provider."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from leeway.twins.twin import serving
from shared.channels.traits import ChannelName
from tests.support.eventually import eventually
from tests.support.lines import CHAT, PERSON, Line, fresh, line_to
from tests.support.payloads import PUBLIC_URL
from tests.support.providers import Providers
from tests.support.town import Town, a_town, texts_told

pytestmark = [pytest.mark.postgres, pytest.mark.stack, pytest.mark.xdist_group("field-channels")]

ANA = "+40700000001"
MONDAY_10, MONDAY_11 = "2026-12-07T10:00", "2026-12-07T11:00"
EVERY = [ChannelName.WHATSAPP, ChannelName.TWILIO, ChannelName.TELEGRAM]
BOOK = "Book a cleaning on Monday at 10, please"


@pytest.fixture(scope="module")
def providers() -> Providers:
    return Providers()


@pytest.fixture(scope="module")
async def town(providers: Providers) -> AsyncIterator[Town]:
    async with (
        serving(providers.app) as url,
        a_town(
            "field-channels", whatsapp_url=url, twilio_url=url, telegram_url=url, public_base_url=PUBLIC_URL
        ) as town,
    ):
        yield town


@pytest.fixture
def line(town: Town, providers: Providers) -> Any:
    """Makes a business with an account on a channel."""

    async def make(channel: ChannelName, name: str, **business: Any) -> Line:
        return await line_to(town, providers, channel, name, **business)

    return make


async def asked_about_a_booking(line: Line) -> Any:
    """A line whose customer is asked about Monday at ten; the question as it was sent."""
    line.town.go_to(line.town.now + timedelta(seconds=20))
    await line.post(line.message(BOOK))
    [asked] = await line.hears()
    assert "Reply YES" in asked.text
    return asked


# Twice, and out of order


@pytest.mark.parametrize("channel", EVERY)
async def test_a_webhook_that_comes_three_times_is_one_turn_and_one_reply(
    line: Any, channel: ChannelName
) -> None:
    """DUP-01, DUP-07, DUP-12: two at once, one later."""
    one = await line(channel, "dup")
    payload = one.message("Hello")
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(one.post(payload))
    assert len(await one.hears()) == 1
    await one.post(payload)
    assert await one.hears() == []
    assert len(await one.shop.fetch("select from turn where business = $1")) == 1


async def test_the_model_reads_messages_in_the_order_they_were_written(line: Any) -> None:
    """DUP-03: the later one came first."""
    one = await line(ChannelName.WHATSAPP, "dup-03", window_ms=1_000)
    first = one.meta(one.item("the first of two things", timestamp=str(one.now - 30)))
    await one.post(one.meta(one.item("and the second of them")))
    await one.post(first)
    await one.hears()
    told = texts_told(one.shop.requests[-1])
    assert 0 < told.index("the first of two things") < told.index("and the second of them")


async def test_a_status_of_our_reply_moves_forward_only(line: Any) -> None:
    """DUP-09: read, delivered, sent, delivered."""
    one = await line(ChannelName.WHATSAPP, "dup-09")
    await one.post(one.message("Hello"))
    [reply] = await one.hears()
    for status in ("read", "delivered", "sent", "delivered"):
        item = {"id": reply.id, "status": status, "timestamp": str(one.now), "recipient_id": "40700000001"}
        await one.post(one.meta(item, name="statuses"))
    assert [
        row["state"] for row in await one.shop.fetch("select state from outbound where business = $1")
    ] == ["read"]


# Shapes


SPEECHLESS = {
    "SHP-05 unsupported": (ChannelName.WHATSAPP, {"type": "unsupported", "errors": [{"code": 131051, "title": "Message type unknown"}]}),
    "SHP-12 the first opening": (ChannelName.WHATSAPP, {"type": "request_welcome"}),
    "SHP-18 a picture": (
        ChannelName.TWILIO, {"NumMedia": "1", "MediaUrl0": "https://media.example.test/1", "MediaContentType0": "image/jpeg"}),
}  # fmt: skip


@pytest.mark.parametrize(("channel", "fields"), SPEECHLESS.values(), ids=SPEECHLESS)
async def test_what_says_nothing_asks_no_model_and_is_answered_once(
    line: Any, channel: ChannelName, fields: dict[str, Any]
) -> None:
    one = await line(channel, "speechless")
    first = await one.says(**fields)
    again = await one.says(**fields)
    assert (len(first), again, one.shop.model_calls) == (1, [], 0)


async def test_a_location_is_told_to_the_model_in_words_and_shown_to_people(line: Any) -> None:
    """SHP-08: never an empty turn."""
    one = await line(ChannelName.WHATSAPP, "shp-08")
    assert len(await one.says(type="location", location={"latitude": 44.43, "longitude": 26.1})) == 1
    assert "44.43, 26.1" in texts_told(one.shop.requests[-1])
    assert await one.shop.fetch("select from flag where business = $1")


async def test_a_reaction_confirms_nothing_and_loses_nothing(line: Any) -> None:
    """SHP-06."""
    one = await line(ChannelName.WHATSAPP, "shp-06")
    asked = await asked_about_a_booking(one)
    calls = one.shop.model_calls
    assert await one.says(type="reaction", reaction={"message_id": asked.id, "emoji": "👍"}) == []
    assert (await one.shop.appointments(ANA), one.shop.model_calls) == ([], calls)
    await one.says("YES")
    assert await one.shop.appointments(ANA) == [MONDAY_10]


@pytest.mark.parametrize("kind", ["a reply button", "a template's button"])
async def test_a_press_is_taken_by_its_id_whatever_its_label_says(line: Any, kind: str) -> None:
    """SHP-10, SHP-11."""
    one = await line(ChannelName.WHATSAPP, "press")
    asked = await asked_about_a_booking(one)
    (confirm, title), _ = asked.buttons
    one.town.go_to(one.town.now + timedelta(seconds=20))
    if kind == "a reply button":
        await one.post(one.press(asked, title))
    else:
        await one.post(one.message(type="button", button={"text": "no thanks", "payload": confirm}))
    assert len(await one.hears()) == 1
    assert await one.shop.appointments(ANA) == [MONDAY_10]


FOREIGN = {
    "a template's": {"type": "button", "button": {"text": "YES", "payload": "APPT_17_CONFIRM"}},
    "a list's": {
        "type": "interactive",
        "interactive": {"type": "list_reply", "list_reply": {"id": "SLOT_3", "title": "YES"}},
    },
}


@pytest.mark.parametrize("press", FOREIGN.values(), ids=FOREIGN)
async def test_a_label_that_says_yes_confirms_nothing_on_whatsapp(line: Any, press: dict[str, Any]) -> None:
    """SHP-10, SHP-11: of a button that is none of ours."""
    one = await line(ChannelName.WHATSAPP, "foreign-press")
    await asked_about_a_booking(one)
    await one.says(**press)
    assert await one.shop.appointments(ANA) == []


@pytest.mark.parametrize(
    "press", [{"ButtonText": "YES", "ButtonPayload": "APPT_17"}, {"ListTitle": "YES", "ListId": "SLOT_3"}]
)
async def test_a_label_that_says_yes_confirms_nothing_by_twilio(line: Any, press: dict[str, str]) -> None:
    """SHP-10, SHP-11: of a button that is none of ours, by WhatsApp over Twilio."""
    one = await line(ChannelName.TWILIO, "foreign-press")
    ways = {"From": f"whatsapp:{ANA}", "To": f"whatsapp:{one.own}"}
    await one.says(BOOK, **ways)
    assert len(await one.shop.waiting()) == 1
    await one.says("YES", **ways, **press)
    assert await one.shop.appointments(ANA) == []


async def test_what_was_asked_about_a_message_that_was_edited_is_not_executed(line: Any) -> None:
    """SHP-14."""
    one = await line(ChannelName.WHATSAPP, "shp-14")
    request = one.item(BOOK)
    await one.post(one.meta(request))
    assert len(await one.hears()) == 1
    new = {
        "original_message_id": request["id"],
        "message": {"type": "text", "text": {"body": "Book a cleaning on Monday at 11, please"}},
    }
    await one.says(type="edit", edit=new)
    await one.says("YES")
    assert MONDAY_10 not in await one.shop.appointments(ANA)
    [row] = await one.shop.fetch(
        "select body, edited_to from inbound_message where business = $1 and channel_message_id = $2",
        request["id"],
    )
    assert "Monday at 11" in (row["edited_to"] or row["body"])


async def test_an_edit_that_says_yes_confirms_nothing(line: Any) -> None:
    """SHP-16."""
    one = await line(ChannelName.TELEGRAM, "shp-16")
    hello = one.message("Hello")
    await one.post(hello)
    await one.hears()
    await asked_about_a_booking(one)
    edited = {**hello.content["message"], "edit_date": one.now, "text": "yes"}
    await one.post(one.update(edited_message=edited))
    await one.hears()
    assert await one.shop.appointments() == []


async def test_who_blocked_the_bot_and_comes_back_is_answered(line: Any) -> None:
    """SHP-17."""
    one = await line(ChannelName.TELEGRAM, "shp-17")
    change = {"old_chat_member": {"status": "kicked"}, "new_chat_member": {"status": "member"}}
    await one.post(one.update(my_chat_member={"chat": CHAT, "from": PERSON, "date": one.now, **change}))
    assert await one.hears() == []
    assert len(await one.says("Hello")) == 1


async def test_a_caption_is_the_customers_text_beside_a_picture(line: Any) -> None:
    """SHP-19."""
    one = await line(ChannelName.WHATSAPP, "shp-19")
    picture = {"id": "MEDIA1", "mime_type": "image/jpeg", "caption": "Is this tooth ok? Can I come Monday?"}
    await one.says(type="image", image=picture)
    told = texts_told(one.shop.requests[-1])
    assert "Is this tooth ok? Can I come Monday?" in told
    assert (
        "image"
        in told.partition("Is this tooth ok?")[0][-200:] + told.partition("Can I come Monday?")[2][:200]
    )


async def test_a_press_on_telegram_is_acknowledged_and_counts_once(line: Any, providers: Providers) -> None:
    """CNF-21."""
    one = await line(ChannelName.TELEGRAM, "cnf-21")
    asked = await asked_about_a_booking(one)
    one.town.go_to(one.town.now + timedelta(seconds=20))
    press = one.press(asked, asked.buttons[0][1])
    await one.post(press)
    await one.post(press)
    assert len(await one.hears()) == 1
    query = press.content["callback_query"]["id"]

    async def acknowledged() -> bool:
        return ("answerCallbackQuery", {"callback_query_id": query}) in providers.side_calls

    await eventually(acknowledged)
    assert await one.shop.appointments() == [MONDAY_10]


# Who it is


async def test_who_has_only_a_user_id_is_answered_at_it_and_guessed_to_be_nobody(line: Any) -> None:
    """IDN-01, IDN-02: a user id goes where user ids go; as a number it would be dropped in silence."""
    one = await line(ChannelName.WHATSAPP, "idn-01")
    await one.shop.knows("+1000000000000001")
    user = "RO.1000000000000001"
    payload = one.meta(
        {
            "id": fresh("wamid."),
            "timestamp": str(one.now),
            "type": "text",
            "text": {"body": "Hello"},
            "from_user_id": user,
        }
    )
    payload.content["entry"][0]["changes"][0]["value"]["contacts"] = [
        {"user_id": user, "profile": {"name": "Ana Test", "username": "ana.test"}}
    ]
    await one.post(payload)
    [reply] = await one.hears()
    assert reply.asked["recipient"] == user
    assert "to" not in reply.asked
    rows = await one.shop.fetch(
        "select i.user_id, c.phone from channel_identity i join customer c on c.id = i.customer where i.business = $1"
    )
    assert [(row["user_id"], row["phone"]) for row in rows] == [(user, None)]


async def test_a_number_that_a_country_spells_in_two_ways_is_answered_as_it_wrote(line: Any) -> None:
    """IDN-05."""
    one = await line(ChannelName.WHATSAPP, "idn-05")
    await one.shop.has_appointment("+5511900000001", MONDAY_10)
    await one.post(one.message("my appointments?", sender="551100000001"))
    [reply] = await one.hears()
    assert "Monday 7 December, 10:00" in reply.text
    assert reply.to == "+551100000001"


async def test_one_person_on_two_lines_of_twilios_is_answered_on_each_with_its_prefix_once(line: Any) -> None:
    """IDN-07."""
    one = await line(ChannelName.TWILIO, "idn-07")
    await one.shop.has_appointment(ANA, MONDAY_10)
    replies = []
    for prefix in ("whatsapp:", ""):
        one.town.go_to(one.town.now + timedelta(seconds=20))
        await one.post(one.message("my appointments?", From=f"{prefix}{ANA}", To=f"{prefix}{one.own}"))
        replies += await one.hears()
    assert [(reply.account, reply.to) for reply in replies] == [
        (f"whatsapp:{one.own}", f"whatsapp:{ANA}"),
        (one.own, ANA),
    ]
    assert all("Monday 7 December, 10:00" in reply.text for reply in replies)


# Whose words they are


async def test_what_the_owner_typed_on_the_phone_is_a_persons_and_confirms_nothing(line: Any) -> None:
    """ECH-01."""
    one = await line(ChannelName.WHATSAPP, "ech-01")
    await asked_about_a_booking(one)
    calls = one.shop.model_calls
    for text in ("Yes, come at 5", "YES"):
        one.town.go_to(one.town.now + timedelta(seconds=20))
        echo = {
            "from": one.own.removeprefix("+"),
            "to": "40700000001",
            "id": fresh("wamid.ECHO"),
            "timestamp": str(one.now),
        }
        await one.post(
            one.meta(
                {**echo, "type": "text", "text": {"body": text}},
                name="message_echoes",
                field="smb_message_echoes",
            )
        )
        assert await one.hears() == []
    assert (await one.shop.appointments(), one.shop.model_calls) == ([], calls)
    assert await one.shop.handoffs() == ["owner_takeover"]


async def test_a_message_from_our_own_number_is_nobodys(line: Any) -> None:
    """ECH-04."""
    one = await line(ChannelName.WHATSAPP, "ech-04")
    assert await one.says("Hello, how can I help?", sender=one.own.removeprefix("+")) == []
    assert one.shop.model_calls == 0
    assert set(await one.shop.reasons()) <= {"self_echo", "from_me"}


@pytest.mark.parametrize("channel", [ChannelName.WHATSAPP, ChannelName.TELEGRAM])
async def test_a_yes_in_a_group_is_no_yes_and_no_answer(line: Any, channel: ChannelName) -> None:
    """ECH-08."""
    one = await line(channel, "ech-08")
    await asked_about_a_booking(one)
    group = {"id": -1001234567890, "type": "supergroup", "title": "Family"}
    said = {"chat": group} if channel is ChannelName.TELEGRAM else {"group_id": "GROUP1"}
    assert await one.says("yes", **said) == []
    assert await one.shop.appointments() == []


# Who wants no messages


async def test_a_carriers_cancel_ends_messages_and_touches_no_appointment(line: Any) -> None:
    """OPT-01, OPT-08: people look, the appointment stays; START brings messages back and does nothing else."""
    one = await line(ChannelName.TWILIO, "opt-01")
    await one.shop.has_appointment(ANA, MONDAY_11)
    asked = await asked_about_a_booking(one)
    words = {word.strip(".,!") for word in asked.text.split()}
    assert not words & {"CANCEL", "STOP", "END", "QUIT"}
    assert await one.says("CANCEL", OptOutType="STOP") == []
    assert await one.says("my appointments?") == []
    assert await one.shop.appointments(ANA) == [MONDAY_11]
    assert await one.shop.waiting() == []
    assert await one.shop.fetch("select from flag where business = $1")
    calls = one.shop.model_calls
    await one.says("START", OptOutType="START")
    assert one.shop.model_calls == calls
    assert len(await one.says("my appointments?")) == 1
