"""The signed webhook through all services, against a tenant's own system: presses, quotes, repeats, and its word that it wants no more."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from leeway.businesses import new_secret
from leeway.twins.receiver import CALLBACK, ReceiverTwin
from leeway.twins.twin import Delivered, Fault, serving
from tests.support.eventually import eventually
from tests.support.town import PACE, Shop, Town, a_town, held_open

pytestmark = [pytest.mark.postgres, pytest.mark.stack, pytest.mark.xdist_group("signed-webhook")]

MARIA = "customer-12"
MONDAY_10 = "2026-12-07T10:00"
ASKS = "Book a cleaning on Monday at 10, please"


@dataclass
class Place:
    town: Town
    url: str


@dataclass
class Tenant:
    """A clinic whose own system is between it and its customers."""

    shop: Shop
    system: ReceiverTwin

    async def says(self, text: str | None = None, **data: Any) -> list[Delivered]:
        """A message, a little later than the one before, and what came of it."""
        self.shop.town.go_to(self.shop.town.now + PACE)
        before = len(self.system.delivered)
        assert await self.system.write(MARIA, text, **data) == 200
        await self.shop.settled()
        return self.system.delivered[before:]


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[Place]:
    async with (
        a_town("signed-webhook", allow_internal_callbacks=True) as town,
        held_open(lambda: serving(town.installation.app)) as url,
    ):
        yield Place(town, url)


@pytest.fixture
async def tenant(place: Place) -> AsyncIterator[Tenant]:
    shop = await place.town.business("tenant")
    inbound, outbound = new_secret(), new_secret()
    system = ReceiverTwin(
        clock=place.town.installation.parts.clock,
        webhook=f"{place.url}/hooks/generic/{shop.slug}",
        inbound=inbound,
        outbound=outbound,
    )
    async with serving(system.app) as callback:
        await place.town.installation.businesses.add_account(
            shop.business,
            channel="generic",
            address=shop.slug,
            inbound=[inbound],
            outbound=outbound,
            callback_url=callback + CALLBACK,
        )
        yield Tenant(shop, system)
        await system.close()


async def test_a_booking_is_confirmed_by_its_button(tenant: Tenant) -> None:
    (prompt,) = await tenant.says(ASKS)
    assert [title for _, title in prompt.buttons] == ["Confirm", "Cancel"]
    data, title = prompt.buttons[0]
    (receipt,) = await tenant.says(button={"id": data, "title": title})
    assert receipt.text.startswith("Booked: cleaning")
    assert await tenant.shop.appointments() == [MONDAY_10]


async def test_a_yes_that_quotes_the_prompt_by_our_name_for_it_is_one_and_any_other_quote_is_none(
    tenant: Tenant,
) -> None:
    (prompt,) = await tenant.says(ASKS)
    (again,) = await tenant.says("yes", quoted_id="of-another-message")
    assert (await tenant.shop.appointments(), again.buttons) == ([], prompt.buttons)
    (receipt,) = await tenant.says("yes", quoted_id=prompt.id)
    assert receipt.text.startswith("Booked: cleaning")


async def test_a_silence_after_it_was_taken_is_repeated_under_its_id_and_shown_once(tenant: Tenant) -> None:
    tenant.system.faults.append(Fault(cuts=True, takes=True))
    (reply,) = await tenant.says("How much is a filling?")
    assert "filling" in reply.text
    assert tenant.system.repeats == [reply.id]


async def test_an_attachment_is_shown_to_people_and_never_fetched(tenant: Tenant) -> None:
    await tenant.says(attachments=[{"kind": "image", "url": "http://169.254.169.254/x.jpg", "name": "x.jpg"}])
    (part,) = await tenant.shop.fetch(
        "select kind, name, reference, state from media_part where business = $1"
    )
    assert (part["kind"], part["name"], part["reference"], part["state"]) == (
        "image",
        "x.jpg",
        "http://169.254.169.254/x.jpg",
        "kept",
    )


async def test_that_people_take_over_is_told_with_the_words_that_say_so(tenant: Tenant) -> None:
    (said,) = await tenant.says("I want to talk to a person")
    assert tenant.system.requests[-1]["data"]["handoff"] is True
    assert said.text


async def test_410_switches_the_account_off_and_the_reply_waits(tenant: Tenant) -> None:
    tenant.system.faults.append(Fault(status=410))
    assert await tenant.system.write(MARIA, "How much is a filling?") == 200

    async def is_off() -> bool:
        query = "select id from channel_account where business = $1 and channel = 'generic' and state = 'disabled'"
        return len(await tenant.shop.fetch(query)) == 1

    await eventually(is_off, within_s=15)
    (reply,) = await tenant.shop.fetch("select state from outbound where business = $1")
    assert reply["state"] == "queued"
    assert tenant.system.delivered == []
