"""Twilio from the customer's telephone to the record and back: all services in one process, its twin at the other end."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from leeway.twins.twilio import TwilioTwin
from leeway.twins.twilio_messages import TwilioAccount
from leeway.twins.twin import Fault, serving
from shared.secrets import vault_of
from tests.support.eventually import eventually
from tests.support.town import PACE, Shop, Town, a_town, call, script

pytestmark = [pytest.mark.postgres, pytest.mark.stack, pytest.mark.xdist_group("twilio")]

PUBLIC = "https://agent.example.test"
ANA = "+40700000001"
MONDAY_10 = "2026-12-07T10:00"


@dataclass
class Twilio:
    """Twilio with several accounts, each a twin's."""

    twins: dict[str, TwilioTwin] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sid = scope["path"].split("/")[3].removesuffix(".json")
        app: ASGIApp = self.twins[sid].app
        await app(scope, receive, send)


@dataclass
class Place:
    """A town whose businesses have numbers at Twilio."""

    town: Town
    twilio: Twilio
    url: str  # of the town's own app
    made: int = 0

    async def clinic(self, name: str, **more: Any) -> "Clinic":
        """A business with a number of its own."""
        self.made += 1
        shop = await self.town.business(name, **more)
        sid, number = f"AC{self.made:032}", f"+4020000{self.made:04}"
        path = f"/hooks/twilio/{shop.slug}"
        twin = TwilioTwin(
            clock=self.town.installation.parts.clock,
            account=TwilioAccount(sid=sid, token=f"token-{self.made}", number=number),
            webhook=self.url + path,
            public=PUBLIC + path,
        )
        self.twilio.twins[sid] = twin
        sealed = vault_of(self.town.installation.parts.settings).seal(
            {"inbound": [twin.account.token], "outbound": twin.account.token}
        )
        await self.town.owner.fetch(
            "insert into channel_account (business, channel, address, secrets, settings, provider_address, own_number, carrier_takes_cancel)"
            " values ($1, 'twilio', $2, $3, $4, $5, $5, true)",
            shop.business,
            shop.slug,
            sealed,
            f'{{"account_sid": "{sid}", "number": "{number}"}}',
            number,
        )
        return Clinic(self.town, shop, twin)


@dataclass
class Clinic:
    """One of them."""

    town: Town
    shop: Shop
    twin: TwilioTwin

    async def hears(self, telephone: str, text: str) -> list[str]:
        """A message of a customer's, a little later than the one before, and what their telephone shows of its answers."""
        self.town.go_to(self.town.now + PACE)
        before = len(self.twin.shown(telephone))
        await self.twin.write(telephone, text)
        await self.shop.settled()
        return [one.text for one in self.twin.shown(telephone)[before:]]

    async def states(self) -> list[str]:
        return [one["state"] for one in (await self.shop.read()).outbounds]

    async def opted_out(self) -> Sequence[str]:
        rows = await self.shop.fetch(
            "select i.user_id from conversation_state s join channel_identity i using (conversation)"
            " where s.business = $1 and s.opted_out_at is not null"
        )
        return [row["user_id"] for row in rows]


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[Place]:
    twilio = Twilio()
    async with (
        serving(twilio) as url,
        a_town("twilio", twilio_url=url, public_base_url=PUBLIC) as town,
        serving(town.installation.app) as own,
    ):
        yield Place(town, twilio, own)
        for twin in twilio.twins.values():
            await twin.close()


def booking() -> dict[str, Any]:
    return call("book_appointment", {"service": "cleaning", "start": MONDAY_10, "dentist": "Dr. Ionescu"})


async def test_an_sms_books_by_a_yes(place: Place) -> None:
    clinic = await place.clinic("books", model=script(booking()))
    [asked] = await clinic.hears(ANA, "Cleaning on Monday at 10, please")
    assert asked.startswith("Book: cleaning")
    assert "YES" in asked
    assert not await clinic.shop.appointments(), "asked about, not done"
    [done] = await clinic.hears(ANA, "YES")
    assert done.startswith("Booked: cleaning")
    assert await clinic.shop.appointments() == [MONDAY_10]
    rows = await clinic.shop.fetch("select segments from send_attempt where business = $1")
    assert all(row["segments"] for row in rows), "each is counted"
    assert clinic.twin.requests[0]["From"] == clinic.twin.account.number


async def test_an_sms_that_twilio_took_without_an_answer_is_one_sms_settled_by_its_status(
    place: Place,
) -> None:
    clinic = await place.clinic("silent", model=script({"text": "We open at nine."}))
    clinic.twin.faults.append(Fault(takes=True, cuts=True))
    assert await clinic.hears(ANA, "When do you open?") == ["We open at nine."]
    assert await clinic.states() == ["unknown"]
    (sent,) = clinic.twin.shown(ANA)
    assert await clinic.twin.status(sent.id, "delivered") == 200
    assert await clinic.twin.status(sent.id, "sent") == 200, "late, and nothing goes back by it"
    assert await clinic.states() == ["delivered"]
    assert [one.text for one in clinic.twin.shown(ANA)] == ["We open at nine."]


async def test_cancel_by_sms_opts_out_and_leaves_the_appointment(place: Place) -> None:
    clinic = await place.clinic("cancel")
    await clinic.shop.has_appointment(ANA, MONDAY_10)
    [asked] = await clinic.hears(ANA, "cancel my appointment")
    assert asked.startswith("Cancel: check-up"), asked
    assert await clinic.hears(ANA, "CANCEL") == []
    assert await clinic.opted_out() == [ANA]
    assert await clinic.shop.waiting() == [], "what waited for a yes is over"
    assert await clinic.shop.appointments() == [MONDAY_10]
    assert len((await clinic.shop.read()).flags) == 1, "people are told"
    assert len(clinic.twin.requests) == 1, "nothing is even tried"
    assert clinic.twin.said_by_carrier, "the carrier has answered for itself"
    assert await clinic.hears(ANA, "Hello?") == []
    assert len(clinic.twin.requests) == 1


async def test_start_opts_in_again_without_a_word_of_ours(place: Place) -> None:
    clinic = await place.clinic("start", model=script({"text": "We open at nine."}))
    assert await clinic.hears(ANA, "STOP") == []
    assert await clinic.opted_out() == [ANA]
    assert await clinic.hears(ANA, "START") == []
    assert await clinic.opted_out() == []
    assert clinic.shop.model_calls == 0
    assert await clinic.hears(ANA, "When do you open?") == ["We open at nine."]


async def test_a_number_is_one_customer_by_sms_and_by_whatsapp_and_each_is_answered_on_its_own(
    place: Place,
) -> None:
    """IDN-07."""
    clinic = await place.clinic("both", model=script({"text": "By WhatsApp."}, {"text": "By SMS."}))
    await clinic.shop.knows(ANA)
    by_whatsapp = f"whatsapp:{ANA}"
    assert await clinic.hears(by_whatsapp, "Hello") == ["By WhatsApp."]
    assert await clinic.hears(ANA, "Hello there") == ["By SMS."]
    assert [one["To"] for one in clinic.twin.requests] == [by_whatsapp, ANA]
    assert [one["From"] for one in clinic.twin.requests] == [
        f"whatsapp:{clinic.twin.account.number}",
        clinic.twin.account.number,
    ]
    people = await clinic.shop.fetch("select distinct customer from channel_identity where business = $1")
    assert len(people) == 1


async def test_cancel_by_whatsapp_is_no_opt_out_on_the_same_account(place: Place) -> None:
    clinic = await place.clinic("cancel-whatsapp", model=script({"text": "Which appointment?"}))
    assert await clinic.hears(f"whatsapp:{ANA}", "CANCEL") == ["Which appointment?"]
    assert await clinic.opted_out() == []


async def test_messages_of_an_outage_are_fetched_each_once(place: Place) -> None:
    clinic = await place.clinic("outage", model=script({"text": "Before."}, {"text": "We open at nine."}))
    assert await clinic.hears(ANA, "Hello") == ["Before."]
    clinic.twin.away = True
    place.town.go_to(place.town.now + PACE)
    lost = [
        await clinic.twin.write(ANA, "When do you open?"),
        await clinic.twin.write("+40700000002", media=(("image/jpeg", b"x"),)),
    ]
    clinic.twin.away = False
    await look_again(clinic)

    async def are_stored() -> bool:
        rows = await clinic.shop.fetch("select external_id from inbound_message where business = $1")
        return {row["external_id"] for row in rows} >= set(lost)

    await eventually(are_stored, within_s=20.0)
    await clinic.shop.settled()
    assert [one.text for one in clinic.twin.shown(ANA)] == ["Before.", "We open at nine."]
    parts = await clinic.shop.fetch("select kind, mime, reference from media_part where business = $1")
    assert [(one["kind"], one["mime"]) for one in parts] == [("image", "image/jpeg")]
    for sid in lost:  # late, by the webhook after all
        assert await clinic.twin.deliver(sid) == 200
    await look_again(clinic)
    await clinic.shop.settled()
    rows = await clinic.shop.fetch("select external_id from inbound_message where business = $1")
    assert len(rows) == 3
    assert len(clinic.twin.shown(ANA)) == 2, "answered once"


async def look_again(clinic: Clinic) -> None:
    """As after the five minutes between two looks, which nobody waits for here; over once the look is."""
    set_back = "update channel_account set looked_at = looked_at - interval '1 h' where business = $1 and channel = 'twilio'"
    await eventually(lambda: _looked(clinic), within_s=20.0)
    await clinic.shop.fetch(set_back)
    await eventually(lambda: _looked(clinic), within_s=20.0)


async def _looked(clinic: Clinic) -> bool:
    rows = await clinic.shop.fetch(
        "select 1 from channel_account where business = $1 and channel = 'twilio' and looked_at > now() - interval '5 min'"
    )
    return bool(rows)


async def test_what_is_refused_for_an_opt_out_elsewhere_is_learnt(place: Place) -> None:
    """SND-09: Twilio knew before us."""
    clinic = await place.clinic("elsewhere", model=script({"text": "We open at nine."}))
    clinic.twin.opted_out.add(ANA)
    assert await clinic.hears(ANA, "When do you open?") == []
    assert len(clinic.twin.requests) == 1
    assert await clinic.opted_out() == [ANA]
    assert await clinic.states() == ["discarded"]
