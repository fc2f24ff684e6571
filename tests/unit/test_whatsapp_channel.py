"""WhatsApp's way out, against its twin: what is sent and to whom, and what its answers mean."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from leeway.twins.twin import Fault
from leeway.twins.whatsapp import Person, WhatsAppTwin, api_fault
from services.dispatch.adapters.channels.whatsapp import WhatsAppChannel
from services.dispatch.core.outcome import (
    Accepted,
    AccountRefused,
    NoAnswer,
    OptedOut,
    Outcome,
    Refused,
    Throttled,
    WindowClosed,
)
from services.dispatch.ports import Courtesy, CourtesyKind
from shared.channels.accounts import Template, WhatsApp
from shared.channels.traits import ChannelName
from shared.channels.troubles import WHATSAPP, Trouble
from tests.support.factories import SetClock
from tests.support.sends import ACCOUNT, Known, address, claimed
from tests.support.served import Served

TOKEN, NUMBER_ID = "the-access-token", "900000000000001"
ANA = Person(id="RO.90000000000000000001", number="40700000001")
ELA = Person(id="RO.90000000000000000003")
BUTTONS = [{"id": "pa:1:1:confirm", "title": "Confirm"}, {"id": "pa:1:1:cancel", "title": "Cancel"}]
TEMPLATE = Template(name="an_answer", language="en")


@dataclass
class Desk:
    twin: WhatsAppTwin
    channel: WhatsAppChannel
    known: Known

    async def send(self, *parts: str, user_id: str = ANA.id, reply_to: str | None = "+40700000001", **fields: Any) -> Outcome:  # fmt: skip
        one = claimed(*parts, channel=ChannelName.WHATSAPP, user_id=user_id, reply_to=reply_to, **fields)
        return await self.channel.send(one, key="out_1")

    @property
    def last(self) -> Any:
        return self.twin.requests[-1]


def known(outbound: str | None = TOKEN, **settings: Any) -> Known:
    made = WhatsApp(phone_number_id=NUMBER_ID, **settings)
    return Known(address("whatsapp", inbound=("secret",), outbound=outbound, settings=made))


@asynccontextmanager
async def channel_to(url: str, addresses: Known) -> AsyncIterator[WhatsAppChannel]:
    channel = WhatsAppChannel(addresses, url=url, connections=4)
    try:
        yield channel
    finally:
        await channel.close()


@pytest.fixture
async def desk(served: Served) -> AsyncIterator[Desk]:
    """A number that Ana and Ela have written to."""
    twin = WhatsAppTwin(clock=SetClock(), webhook="", app_secret="secret", access_token=TOKEN)
    for person in (ANA, ELA):
        twin.message_of(person, {})
    addresses = known(template=TEMPLATE)
    async with served.serving(twin.app) as url, channel_to(url, addresses) as channel:
        yield Desk(twin, channel, addresses)
        await twin.close()


# To whom, and what


async def test_a_number_is_written_to_with_its_plus(desk: Desk) -> None:
    outcome = await desk.send("Hello")
    (shown,) = desk.twin.shown(ANA)
    assert (outcome, shown.text) == (Accepted(provider_id=shown.id), "Hello")
    assert (desk.last["to"], "recipient" in desk.last) == ("+40700000001", False)
    assert desk.last["text"] == {"preview_url": False, "body": "Hello"}
    assert len(desk.last["biz_opaque_callback_data"]) == 32


async def test_an_id_never_stands_where_a_number_belongs(desk: Desk) -> None:
    """There it would be answered with 200, and nobody would get it."""
    assert isinstance(await desk.send("Hello", user_id=ELA.id, reply_to=None), Accepted)
    assert (desk.last["recipient"], desk.last["recipient_type"]) == (ELA.id, "individual")
    assert "to" not in desk.last
    assert len(desk.twin.shown(ELA)) == 1


@pytest.mark.parametrize("user_id", ["", "40700000001", "RO", "ana", "+", "+0123456789", "RO.a b"])
async def test_what_is_neither_number_nor_id_is_refused_and_nothing_leaves(desk: Desk, user_id: str) -> None:
    outcome = await desk.send("Hello", user_id=user_id, reply_to=None)
    assert isinstance(outcome, Refused)
    assert outcome.trouble is Trouble.RECIPIENT
    assert desk.twin.requests == []


async def test_buttons_stand_below_the_last_part(desk: Desk) -> None:
    await desk.send("One", "Two", part=1, buttons=BUTTONS)
    assert desk.last["type"] == "text"
    await desk.send("One", "Two", part=2, buttons=BUTTONS)
    (_, shown) = desk.twin.shown(ANA)
    assert [title for _, title in shown.buttons] == ["Confirm", "Cancel"]


@pytest.mark.parametrize(
    ("text", "buttons"),
    [
        ("Hello", [{"id": "1", "title": "t" * 21}]),
        ("Hello", [{"id": str(n), "title": str(n)} for n in range(4)]),
        ("Hello", [{"id": "1", "title": "Same"}, {"id": "2", "title": "Same"}]),
        ("t" * 1025, BUTTONS),
    ],
    ids=["a title too long", "too many", "the same title twice", "a text too long beside them"],
)
async def test_buttons_that_do_not_fit_are_left_out_and_the_words_arrive(
    desk: Desk, text: str, buttons: list[dict[str, str]]
) -> None:
    assert isinstance(await desk.send(text, buttons=buttons), Accepted)
    (shown,) = desk.twin.shown(ANA)
    assert (shown.text, shown.buttons) == (text, ())


async def test_a_template_carries_the_text_as_its_parameter(desk: Desk) -> None:
    await desk.send("Two\n\nlines   of  it", by_template=True, buttons=BUTTONS)
    (shown,) = desk.twin.shown(ANA)
    assert (shown.template, shown.text, shown.buttons) == ("an_answer", "Two lines of it", ())


@pytest.mark.parametrize("text", ["", "   ", "t" * 1001], ids=["nothing", "blanks", "too long"])
async def test_what_a_template_does_not_take_is_refused_and_nothing_leaves(desk: Desk, text: str) -> None:
    assert isinstance(await desk.send(text, by_template=True), Refused)
    desk.known.found = known().found  # no template is set
    assert isinstance(await desk.send("Hello", by_template=True), Refused)
    assert desk.twin.requests == []


# What its answers mean


FOLLOWS: dict[Trouble, type[Any]] = {
    Trouble.CREDENTIALS: AccountRefused,
    Trouble.ACCOUNT: AccountRefused,
    Trouble.BRIEFLY_DOWN: Throttled,
    Trouble.RATE: Throttled,
    Trouble.PAIR_RATE: Throttled,
    Trouble.SPAM_LIMIT: Throttled,
    Trouble.WINDOW_CLOSED: WindowClosed,
    Trouble.RECIPIENT: Refused,
    Trouble.OPTED_OUT: OptedOut,
    Trouble.CONTENT: Refused,
    Trouble.CONFIGURATION: Refused,
    Trouble.OUR_BUG: Refused,
}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
async def test_a_code_decides_whatever_the_http_status(desk: Desk, status: int) -> None:
    for code, trouble in WHATSAPP.items():
        desk.twin.faults.append(api_fault(code, status=status))
        outcome = await desk.send("Hello")
        assert isinstance(outcome, FOLLOWS[trouble]), code
        assert str(code) in outcome.reason
    assert desk.twin.delivered == []


@pytest.mark.parametrize(("code", "status", "kind"), [
    (200, 403, AccountRefused), (299, 400, AccountRefused), (424242, 400, Refused), (424242, 500, Throttled), (424242, 429, Throttled),
])  # fmt: skip
async def test_an_unknown_code_is_for_good_unless_they_are_down(
    desk: Desk, code: int, status: int, kind: type[Any]
) -> None:
    desk.twin.faults.append(api_fault(code, status=status))
    assert isinstance(await desk.send("Hello"), kind)


async def test_too_fast_to_one_person_waits_longer_each_time_and_for_them_alone(desk: Desk) -> None:
    waits = []
    for tries in (0, 1, 2):
        desk.twin.faults.append(api_fault(131056))
        outcome = await desk.send("Hello", tries=tries)
        assert isinstance(outcome, Throttled)
        assert (outcome.whole_person, outcome.whole_account) == (True, False)
        waits.append(outcome.retry_after)
    assert waits == [timedelta(seconds=1), timedelta(seconds=4), timedelta(seconds=16)]


async def test_a_connection_cut_after_it_was_taken_is_known_to_nobody(desk: Desk) -> None:
    desk.twin.faults.append(Fault(takes=True, cuts=True))
    assert isinstance(await desk.send("Hello"), NoAnswer)
    assert len(desk.twin.shown(ANA)) == 1


async def test_nobody_there_is_surely_not_sent() -> None:
    async with channel_to("http://127.0.0.1:9", known()) as channel:
        outcome = await channel.send(claimed("Hello", user_id=ANA.id, reply_to="+40700000001"), key="k")
    assert isinstance(outcome, Throttled)
    assert TOKEN not in outcome.reason


ODD: dict[str, tuple[Response, type[Any]]] = {
    "a gateway is down": (PlainTextResponse("<html>", status_code=502), NoAnswer),
    "a gateway refuses": (PlainTextResponse("<html>", status_code=403), Refused),
    "200 and no JSON": (PlainTextResponse("<html>"), NoAnswer),
    "200 and no id": (JSONResponse({"messages": []}), NoAnswer),
    "200 and a strange id": (JSONResponse({"messages": [{"id": 7}]}), NoAnswer),
    "an error without a code": (JSONResponse({"error": {"message": "?"}}, status_code=400), Refused),
    "a list": (JSONResponse([], status_code=500), NoAnswer),
}


@pytest.mark.parametrize(("answer", "kind"), ODD.values(), ids=ODD)
async def test_what_is_not_of_whatsapps_form_is_no_yes_and_stops_no_account(
    served: Served, answer: Response, kind: type[Any]
) -> None:
    async def always(_: Request) -> Response:
        return answer

    app = Starlette(routes=[Route("/{path:path}", always, methods=["POST"])])
    async with served.serving(app) as url, channel_to(url, known()) as channel:
        outcome = await channel.send(claimed("Hello", user_id=ANA.id, reply_to="+40700000001"), key="k")
    assert isinstance(outcome, kind)


async def test_an_account_without_a_token_is_off_and_a_database_that_is_away_waits(desk: Desk) -> None:
    desk.known.away = True
    assert isinstance(await desk.send("Hello"), Throttled)
    desk.known.away = False
    for found in (known(outbound=None).found, None):
        desk.known.found = found
        assert isinstance(await desk.send("Hello"), AccountRefused)
    assert desk.twin.requests == []


# Beside sending


async def test_a_message_is_marked_as_read_and_typing_is_shown(desk: Desk) -> None:
    about = Courtesy(
        kind=CourtesyKind.TYPING, account=ACCOUNT, channel="whatsapp", user_id=ANA.id, message_id="wamid.1", quoted=None
    )  # fmt: skip
    await desk.channel.courtesy(about)
    await desk.channel.courtesy(replace(about, kind=CourtesyKind.PRESSED))
    (seen,) = desk.twin.side_calls
    assert json.dumps(seen, sort_keys=True) == json.dumps(
        {"messaging_product": "whatsapp", "message_id": "wamid.1", "status": "read", "typing_indicator": {"type": "text"}},
        sort_keys=True,
    )  # fmt: skip


async def test_a_probe_says_whose_number_it_is_or_what_whatsapp_says(desk: Desk) -> None:
    found = desk.known.found
    assert found is not None
    works = await desk.channel.probe(found)
    assert (works.works, "+40700000100" in works.said) == (True, True)
    other = known(outbound="another").found
    assert other is not None
    refused = await desk.channel.probe(other)
    assert (refused.works, "401" in refused.said, "another" in refused.said) == (False, True, False)
    async with channel_to("http://127.0.0.1:9", known()) as channel:
        assert not (await channel.probe(found)).works
