"""WhatsApp through all services, against its twin: numbers and hidden numbers, presses, echoes, edits, sends of unknown outcome."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count, permutations
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from leeway.twins.twin import Delivered, Fault, serving
from leeway.twins.whatsapp import Person, WhatsAppTwin, api_fault
from shared.llm.port import Model
from tests.support.eventually import eventually
from tests.support.town import PACE, Shop, Town, a_town, held_open, script

pytestmark = [pytest.mark.postgres, pytest.mark.stack, pytest.mark.xdist_group("whatsapp")]

SECRET = "meta-secret-of-the-twin"
MONDAY_10 = "2026-12-07T10:00"
ASKS = "Book a cleaning on Monday at 10, please"
QUESTION = "How much is a filling?"
ANA = Person(id="RO.90000000000000000001", number="40700000001")
ELA = Person(id="RO.90000000000000000003", name="Ela")  # hides her number
OWNER_SAYS = "Hi, this is the front desk."


class Provider:
    """One address with many numbers, as the real one is."""

    def __init__(self) -> None:
        self.numbers: dict[str, WhatsAppTwin] = {}
        self._ids = count(900_000_000_000_001)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.numbers[scope["path"].split("/")[2]].app(scope, receive, send)

    def next_id(self) -> str:
        return str(next(self._ids))


@dataclass
class Place:
    town: Town
    provider: Provider
    url: str


@dataclass
class Clinic:
    """A clinic with a number."""

    shop: Shop
    twin: WhatsAppTwin
    account: int

    async def says(self, person: Person, text: str, *, quotes: Delivered | None = None) -> list[Delivered]:
        """A text, a little later than the one before, and what came of it."""
        return await self.hears(person, self.twin.write(person, text, quotes=quotes))

    async def hears(self, person: Person, happening: Any) -> list[Delivered]:
        self.pace()
        before = len(self.twin.shown(person))
        await happening
        await self.shop.settled()
        return self.twin.shown(person)[before:]

    def pace(self) -> None:
        self.shop.town.go_to(self.shop.town.now + PACE)

    async def asked(self, person: Person = ANA, text: str = ASKS) -> Delivered:
        """The prompt that a request gets."""
        (prompt,) = await self.says(person, text)
        assert [title for _, title in prompt.buttons] == ["Confirm", "Cancel"], prompt.text
        return prompt

    async def replies(self) -> list[tuple[str, str | None]]:
        rows = await self.shop.fetch(
            "select state, reason from outbound where business = $1 order by created_at, id"
        )
        return [(row["state"], row["reason"]) for row in rows]


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[Place]:
    provider = Provider()
    async with (
        held_open(lambda: serving(provider)) as whatsapp,
        a_town("whatsapp", whatsapp_url=whatsapp) as town,
    ):
        async with held_open(lambda: serving(town.installation.app)) as url:
            yield Place(town, provider, url)
        for twin in provider.numbers.values():
            await twin.close()


async def clinic(place: Place, name: str, *, model: Model | None = None, **settings: Any) -> Clinic:
    shop = await place.town.business(name, model=model)
    number = place.provider.next_id()
    twin = WhatsAppTwin(
        clock=place.town.installation.parts.clock,
        webhook=f"{place.url}/hooks/whatsapp/{shop.slug}",
        app_secret=SECRET,
        access_token=f"token-{number}",
        phone_number_id=number,
    )
    place.provider.numbers[number] = twin
    account = await place.town.installation.businesses.add_account(
        shop.business, channel="whatsapp", address=shop.slug, inbound=[SECRET], outbound=twin.access_token
    )
    await shop.fetch(
        "update channel_account set provider_address = $3, settings = $4, own_number = '+40700000100' where business = $1 and id = $2",
        account,
        number,
        json.dumps({"phone_number_id": number, **settings}),
    )
    return Clinic(shop, twin, account)


# A conversation


async def test_a_booking_is_pressed_and_its_reading_shown(place: Place) -> None:
    desk = await clinic(place, "wa-book")
    prompt = await desk.asked()
    (receipt,) = await desk.hears(ANA, desk.twin.press(ANA, prompt, "Confirm"))
    assert receipt.text.startswith("Booked: cleaning")
    assert await desk.shop.appointments() == [MONDAY_10]
    sends = desk.twin.requests
    assert {one["to"] for one in sends} == {"+40700000001"}
    assert all("recipient" not in one for one in sends)
    await eventually(lambda: len(desk.twin.side_calls) >= 1, within_s=5)
    seen = desk.twin.side_calls[0]
    assert (seen["status"], seen["typing_indicator"]) == ("read", {"type": "text"})


async def test_who_hides_the_number_is_answered_by_the_id_and_guessed_to_be_nobody(place: Place) -> None:
    """IDN-01, IDN-02."""
    desk = await clinic(place, "wa-hidden")
    await desk.shop.has_appointment("+40700000003", MONDAY_10)
    (said,) = await desk.says(ELA, "When is my appointment?")
    assert "10:00" not in said.text
    (sent,) = desk.twin.requests
    assert (sent["recipient"], sent["recipient_type"]) == (ELA.id, "individual")
    assert "to" not in sent


async def test_a_card_of_ones_own_proves_the_number_and_another_s_does_not(place: Place) -> None:
    desk = await clinic(place, "wa-card")
    await desk.shop.has_appointment("+40700000003", MONDAY_10)
    await desk.says(ELA, "Hello")
    for origin, phone in (("other", "40700000003"), ("contact_request", "40700000003")):
        card = {"name": {"formatted_name": "Ela"}, "phones": [{"phone": f"+{phone}", "wa_id": phone}]}
        await desk.hears(ELA, desk.twin.does(ELA, {"type": "contacts", "contacts": [card], "origin": origin}))
        (said,) = await desk.says(ELA, "When is my appointment?")
        assert ("10:00" in said.text) is (origin == "contact_request")


async def test_a_number_that_became_hidden_is_the_same_conversation(place: Place) -> None:
    desk = await clinic(place, "wa-same")
    await desk.says(ANA, QUESTION)
    hidden = Person(id=ANA.id)
    prompt = await desk.asked(hidden)
    rows = await desk.shop.fetch("select distinct conversation from inbound_message where business = $1")
    assert len(rows) == 1
    assert desk.twin.requests[-1]["to"] == "+40700000001", "the number is still the way"
    assert prompt.to == ANA.id


async def test_a_yes_that_quotes_another_message_confirms_nothing(place: Place) -> None:
    desk = await clinic(place, "wa-quote")
    (older,) = await desk.says(ANA, QUESTION)
    prompt = await desk.asked()
    (again,) = await desk.says(ANA, "yes", quotes=older)
    assert (await desk.shop.appointments(), again.text.startswith("Booked")) == ([], False)
    (receipt,) = await desk.says(ANA, "yes", quotes=prompt)
    assert receipt.text.startswith("Booked")


async def test_a_template_s_quick_reply_that_says_yes_is_no_yes(place: Place) -> None:
    desk = await clinic(place, "wa-quick")
    await desk.asked()
    press = {"type": "button", "button": {"payload": "campaign:7", "text": "Yes"}}
    (again,) = await desk.hears(ANA, desk.twin.does(ANA, press))
    assert (await desk.shop.appointments(), again.text.startswith("Booked")) == ([], False)
    assert len(await desk.shop.waiting()) == 1


async def test_two_announced_changes_are_written_down_and_change_nothing(place: Place) -> None:
    desk = await clinic(place, "wa-changed")
    await desk.says(ANA, QUESTION)
    new = {"wa_id": "40700000011", "user_id": "RO.90000000000000000011", "previous_user_id": ANA.id}
    about = {"type": "user_changed_number", "body": "changed", **new}
    message = {"from": ANA.number, "id": "wamid.SYS1", "timestamp": "1796115730", "type": "system"}
    desk.pace()
    await desk.twin.notify("messages", {"messages": [message | {"system": about}]})
    await desk.shop.settled()
    (change,) = await desk.shop.fetch("select * from identity_change where business = $1")
    assert (change["old_user_id"], change["new_user_id"], change["decided"]) == (ANA.id, new["user_id"], None)
    await desk.says(Person(id=new["user_id"], number="40700000011"), "Hello")
    rows = await desk.shop.fetch("select id from customer where business = $1")
    assert len(rows) == 2, "the new id is a stranger until somebody links it"


# Our side speaking


async def test_the_owner_on_the_telephone_takes_over_and_nobody_answers(place: Place) -> None:
    """ECH-01."""
    desk = await clinic(place, "wa-echo")
    await desk.asked()
    assert await desk.hears(ANA, desk.twin.owner_writes(ANA, OWNER_SAYS)) == []
    assert await desk.says(ANA, "yes") == []
    assert (await desk.shop.appointments(), await desk.shop.waiting()) == ([], [])
    assert await desk.shop.reasons() == [None, "owner_takeover", "handoff_active"]


async def test_a_message_from_our_own_number_is_not_answered(place: Place) -> None:
    """ECH-04."""
    desk = await clinic(place, "wa-self")
    me = Person(id="RO.90000000000000000100", number="40700000100")
    assert await desk.says(me, "Hello, how can I help?") == []
    assert await desk.shop.reasons() == ["self_echo"]


async def test_a_group_confirms_nothing(place: Place) -> None:
    """ECH-08."""
    desk = await clinic(place, "wa-group")
    await desk.asked()
    said = {"type": "text", "text": {"body": "yes"}, "group_id": "GROUP1"}
    assert await desk.hears(ANA, desk.twin.does(ANA, said)) == []
    assert (await desk.shop.appointments(), len(await desk.shop.waiting())) == ([], 1)


# Edits and deletions


@pytest.mark.parametrize("how", ["edit", "revoke"])
async def test_who_changes_a_request_that_waits_for_a_yes_is_told_and_books_nothing(
    place: Place, how: str
) -> None:
    """SHP-14."""
    desk = await clinic(place, f"wa-{how}")
    desk.pace()
    request = await desk.twin.write(ANA, ASKS)
    await desk.shop.settled()
    change = (
        desk.twin.edit(ANA, request, "Book a cleaning on Monday at 11")
        if how == "edit"
        else desk.twin.revoke(ANA, request)
    )
    assert await desk.hears(ANA, change) == []
    (told,) = await desk.says(ANA, "yes")
    assert told.text.startswith("You edited or deleted the message this was about")
    assert (await desk.shop.appointments(), await desk.shop.waiting()) == ([], [])


async def test_an_edit_that_comes_before_the_turn_is_what_is_answered(place: Place) -> None:
    desk = await clinic(place, "wa-early")
    asked = desk.twin.message_of(ANA, {"type": "text", "text": {"body": ASKS}})
    changed = {"original_message_id": asked["id"], "message": {"type": "text", "text": {"body": QUESTION}}}
    edit = desk.twin.message_of(ANA, {"type": "edit", "edit": changed})
    (said,) = await desk.hears(ANA, desk.twin.deliver([(ANA, edit), (ANA, asked)]))
    assert "filling" in said.text
    assert await desk.shop.waiting() == []


# The way out


@pytest.mark.parametrize("cuts", [True, False], ids=["the connection is cut", "it never answers"])
async def test_a_time_out_after_it_was_taken_is_one_message_settled_by_its_status(
    place: Place, *, cuts: bool
) -> None:
    """SND-01."""
    desk = await clinic(place, "wa-cut" if cuts else "wa-silent")
    desk.twin.faults.append(Fault(takes=True, cuts=cuts, silent_s=20))
    await desk.says(ANA, QUESTION)
    assert [state for state, _ in await desk.replies()] == ["unknown"]
    (reply,) = desk.twin.shown(ANA)
    await desk.twin.status(reply, "delivered")
    assert [state for state, _ in await desk.replies()] == ["delivered"]
    assert len(desk.twin.requests) == 1


async def test_statuses_in_any_order_end_in_the_highest(place: Place) -> None:
    """DUP-09."""
    desk = await clinic(place, "wa-order")
    for n, order in enumerate(permutations(["sent", "delivered", "read"])):
        (reply,) = await desk.says(Person(id=f"RO.7{n}", number=f"4070000012{n}"), QUESTION)
        for status in order:
            await desk.twin.status(reply, status)
    assert {state for state, _ in await desk.replies()} == {"read"}


async def test_a_failure_that_comes_later_is_a_draft_with_the_reason(place: Place) -> None:
    """SND-04."""
    desk = await clinic(place, "wa-failed")
    (reply,) = await desk.says(ANA, QUESTION)
    await desk.twin.status(reply, "sent")
    await desk.twin.status(reply, "failed", error=131047)
    assert await desk.replies() == [("draft", "window_closed")]


async def test_too_fast_to_one_person_waits_for_that_person_and_arrives_once(place: Place) -> None:
    """SND-06, SND-07."""
    desk = await clinic(place, "wa-pair")
    desk.twin.faults.append(api_fault(131056))
    (reply,) = await desk.says(ANA, QUESTION)
    assert (len(desk.twin.requests), "filling" in reply.text) == (2, True)


async def test_a_refused_token_switches_the_account_off_and_the_reply_waits(place: Place) -> None:
    desk = await clinic(place, "wa-token")
    desk.twin.faults.append(api_fault(190, status=401))
    desk.pace()
    await desk.twin.write(ANA, QUESTION)

    async def is_off() -> bool:
        query = "select disabled_why from channel_account where business = $1 and channel = 'whatsapp' and state = 'disabled'"
        rows = await desk.shop.fetch(query)
        return len(rows) == 1 and "190" in rows[0]["disabled_why"]

    await eventually(is_off, within_s=15)
    assert [state for state, _ in await desk.replies()] == ["queued"]


async def test_outside_the_window_the_template_carries_the_reply_or_people_decide(place: Place) -> None:
    template = {"template": {"name": "an_answer", "language": "en"}}
    for name, settings, ends in (("wa-tpl", template, "sent"), ("wa-no-tpl", {}, "draft")):
        desk = await clinic(place, name, **settings)
        desk.pace()
        await desk.says(ANA, "Hello")
        await desk.shop.fetch(
            "update conversation_state set last_customer_at = last_customer_at - interval '25 hours' where business = $1"
        )
        desk.twin._wrote[ANA.id] -= timedelta(hours=25)
        conversation = (await desk.shop.fetch("select id from conversation where business = $1"))[0]["id"]
        await desk.shop.town.desk.take(conversation, by="ana")
        await desk.shop.town.desk.reply(conversation, "Your X-ray is here.\nPlease call.", by="ana")
        await desk.shop.settled()
        state, reason = (await desk.replies())[-1]
        assert state == ends, reason
        if ends == "sent":
            last = desk.twin.shown(ANA)[-1]
            assert (last.template, last.text) == ("an_answer", "Your X-ray is here. Please call.")
        else:
            assert reason == "window_closed"


async def test_a_long_answer_is_parts_in_order_and_no_emoji_is_cut(place: Place) -> None:
    """SND-13."""
    text = "a" * 4094 + " 👩‍👩‍👧‍👦 " + "b" * 900
    desk = await clinic(place, "wa-long", model=script({"text": text}))
    parts = await desk.says(ANA, "Tell me everything")
    assert len(parts) == 2
    assert "".join(part.text for part in parts).replace(" ", "") == text.replace(" ", "")
    assert any("👩‍👩‍👧‍👦" in part.text for part in parts)


async def test_fifty_people_in_one_post_are_each_answered_once(place: Place) -> None:
    desk = await clinic(place, "wa-batch")
    people = [Person(id=f"RO.8{n}", number=f"407000009{n:02}") for n in range(50)]
    batch = [(who, desk.twin.message_of(who, {"type": "text", "text": {"body": QUESTION}})) for who in people]
    desk.pace()
    async with asyncio.TaskGroup() as posts:
        for _ in range(2):  # delivered twice, as it happens
            posts.create_task(desk.twin.deliver(batch))
    await desk.shop.settled()
    assert {len(desk.twin.shown(who)) for who in people} == {1}
