"""The signed webhook's way out, against a tenant's own system: what it gets, how it is signed, what its answers mean."""

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leeway.twins.receiver import CALLBACK, ReceiverTwin
from leeway.twins.twin import Fault
from services.dispatch.adapters.channels.generic import GenericChannel
from services.dispatch.core.outcome import Accepted, AccountRefused, NoAnswer, Outcome, Refused, Throttled
from services.ingest.core.generic import parse
from shared.clock import SystemClock
from shared.messages import MessageKind
from tests.support.sends import Known, address, claimed
from tests.support.served import Served

INBOUND, OUTBOUND = ("whsec_" + base64.b64encode(letter * 32).decode() for letter in (b"i", b"o"))
BUTTONS = [{"id": "pa:1:1:confirm", "title": "Confirm"}, {"id": "pa:1:1:cancel", "title": "Cancel"}]


@dataclass
class Tenant:
    system: ReceiverTwin
    channel: GenericChannel
    known: Known

    async def send(self, *parts: str, key: str = "out_1", **fields: Any) -> Outcome:
        return await self.channel.send(claimed(*parts, **fields), key=key)

    @property
    def data(self) -> dict[str, Any]:
        """What it got last."""
        got: dict[str, Any] = self.system.requests[-1]["data"]
        return got


@pytest.fixture
async def tenant(served: Served) -> AsyncIterator[Tenant]:
    clock = SystemClock()
    system = ReceiverTwin(clock=clock, webhook="http://127.0.0.1:9", inbound=INBOUND, outbound=OUTBOUND)
    async with served.serving(system.app) as url:
        known = Known(address("generic", outbound=OUTBOUND, callback_url=url + CALLBACK))
        channel = GenericChannel(known, clock=clock, allow_internal=True, connections=4)
        yield Tenant(system, channel, known)
        await channel.close()
        await system.close()


# What it gets


async def test_a_reply_is_told_with_all_that_names_it(tenant: Tenant) -> None:
    outcome = await tenant.send("Bună!", thread="thread-5", user_id="customer-12", in_reply_to="booking-77")
    assert outcome == Accepted(provider_id=None)
    (got,) = tenant.system.requests
    assert (got["type"], got["webhook_id"]) == ("message.reply", "out_1")
    assert got["data"] == {
        "conversation_id": "thread-5",
        "to": "customer-12",
        "in_reply_to": "booking-77",
        "message_id": "out_1",
        "text": "Bună!",
    }


async def test_without_a_conversation_of_theirs_the_customer_is_the_conversation(tenant: Tenant) -> None:
    await tenant.send(user_id="customer-12")
    assert tenant.data["conversation_id"] == "customer-12"


async def test_buttons_come_with_the_last_part(tenant: Tenant) -> None:
    whole = claimed("First.", "Second?", buttons=BUTTONS)
    for part in (1, 2):
        await tenant.channel.send(replace(whole, part=part), key=f"out_{part}")
    first, second = (one["data"] for one in tenant.system.requests)
    assert "buttons" not in first
    assert second["buttons"] == BUTTONS


@pytest.mark.parametrize(("in_handoff", "told"), [(True, True), (False, None)])
async def test_that_people_have_taken_over_is_told(
    tenant: Tenant, in_handoff: bool, told: bool | None
) -> None:
    await tenant.send(in_handoff=in_handoff)
    assert tenant.data.get("handoff") is told


async def test_the_signature_is_one_that_the_standard_s_own_library_takes(served: Served) -> None:
    heard: list[tuple[bytes, dict[str, str]]] = []

    async def hear(request: Request) -> Response:
        heard.append((await request.body(), dict(request.headers)))
        return Response()

    async with served.serving(Starlette(routes=[Route("/", hear, methods=["POST"])])) as url:
        known = Known(address("generic", outbound=OUTBOUND, callback_url=url + "/"))
        channel = GenericChannel(known, clock=SystemClock(), allow_internal=True, connections=1)
        await channel.send(claimed("Ține minte: «joi»"), key="out_1")
        await channel.close()
    ((body, headers),) = heard
    event = Webhook(OUTBOUND).verify(body, headers)
    assert event["data"]["text"] == "Ține minte: «joi»"


async def test_a_repeat_under_its_id_is_dropped_by_the_other_side(tenant: Tenant) -> None:
    tenant.system.faults.append(Fault(cuts=True, takes=True))
    assert isinstance(await tenant.send(), NoAnswer)
    assert isinstance(await tenant.send(), Accepted)
    assert [one.id for one in tenant.system.delivered] == tenant.system.repeats == ["out_1"]


# What its answers mean

ANSWERS = [
    (200, Accepted),
    (204, Accepted),
    (301, Refused),
    (400, Refused),
    (401, AccountRefused),
    (403, AccountRefused),
    (404, Refused),
    (408, NoAnswer),
    (410, AccountRefused),
    (413, Refused),
    (429, Throttled),
    (500, NoAnswer),
    (503, NoAnswer),
]


@pytest.mark.parametrize(("status", "kind"), ANSWERS, ids=[str(row[0]) for row in ANSWERS])
async def test_an_answer_is_what_the_table_says(tenant: Tenant, status: int, kind: type[Outcome]) -> None:
    tenant.system.faults.append(Fault(status=status))
    assert type(await tenant.send()) is kind


async def test_a_wrong_secret_is_refused_by_the_other_side_and_switches_the_account_off(
    tenant: Tenant,
) -> None:
    assert tenant.known.found is not None
    tenant.known.found = address("generic", outbound=INBOUND, callback_url=tenant.known.found.callback_url)
    assert isinstance(await tenant.send(), AccountRefused)
    assert tenant.system.delivered == []


@pytest.mark.parametrize(("stated", "wait"), [("7", 7), ("100000", 120), ("soon", None)])
async def test_a_wait_that_it_asks_for_is_honoured_within_reason(
    served: Served, stated: str, wait: int | None
) -> None:
    async def busy(_: Request) -> Response:
        return Response(status_code=503, headers={"retry-after": stated})

    async with served.serving(Starlette(routes=[Route("/", busy, methods=["POST"])])) as url:
        known = Known(address("generic", outbound=OUTBOUND, callback_url=url + "/"))
        channel = GenericChannel(known, clock=SystemClock(), allow_internal=True, connections=1)
        outcome = await channel.send(claimed(), key="out_1")
        await channel.close()
    assert isinstance(outcome, Throttled)
    assert outcome.retry_after == (timedelta(seconds=wait) if wait else None)


async def test_what_the_account_lacks_is_a_person_s_business(tenant: Tenant) -> None:
    tenant.known.away = True
    assert isinstance(await tenant.send(), Throttled)
    tenant.known.away = False
    for lacks in (
        address("generic", outbound=OUTBOUND),
        address("generic", callback_url="http://x.test"),
        address("generic", outbound="whsec_short", callback_url="http://x.test"),
        None,
    ):
        tenant.known.found = lacks
        assert isinstance(await tenant.send(), Refused)


# Where it may go


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/x",
        "https://127.0.0.1/x",
        "https://169.254.169.254/latest",
        "https://[::1]/x",
        "https://10.0.0.1/x",
        "https://localhost/x",
        "https:///x",
    ],
)
async def test_no_internal_address_is_called(url: str) -> None:
    known = Known(address("generic", outbound=OUTBOUND, callback_url=url))
    channel = GenericChannel(known, clock=SystemClock(), allow_internal=False, connections=1)
    assert isinstance(await channel.send(claimed(), key="out_1"), Refused)
    assert known.found is not None
    assert not (await channel.probe(known.found)).works
    await channel.close()


async def test_a_probe_posts_nothing(tenant: Tenant) -> None:
    assert tenant.known.found is not None
    assert (await tenant.channel.probe(tenant.known.found)).works
    assert tenant.system.requests == []


# What it posts


async def test_what_it_posts_is_read_by_our_own_parser_and_the_standard_s_library(served: Served) -> None:
    heard: list[tuple[bytes, dict[str, str]]] = []

    async def hear(request: Request) -> Response:
        heard.append((await request.body(), dict(request.headers)))
        return Response()

    async with served.serving(Starlette(routes=[Route("/", hear, methods=["POST"])])) as url:
        clock = SystemClock()
        system = ReceiverTwin(clock=clock, webhook=url + "/", inbound=INBOUND, outbound=OUTBOUND)
        attachment = {"kind": "image", "url": "https://x.test/a.jpg", "mime": "image/jpeg", "name": "a.jpg"}
        assert await system.write("customer-12", "Bună", attachments=[attachment]) == 200
        await system.close()
    ((body, headers),) = heard
    assert Webhook(INBOUND).verify(body, headers) == json.loads(body)
    (one,) = parse(body, webhook_id=headers["webhook-id"], verifies_phones=False, now=clock.now()).messages
    assert (one.kind, one.sender, one.text) == (MessageKind.MEDIA, "customer-12", "Bună")
    (part,) = one.parts
    assert (part.kind, part.reference, part.mime, part.name) == (
        "image",
        "https://x.test/a.jpg",
        "image/jpeg",
        "a.jpg",
    )
    assert not part.fetched
