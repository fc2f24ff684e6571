"""Twilio's way out, against its twin: what is sent, and what its answers mean."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from leeway.twins.twilio import TwilioTwin
from leeway.twins.twilio_messages import TwilioAccount
from leeway.twins.twin import Fault
from services.dispatch.adapters.channels.twilio import TwilioChannel
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
from shared.channels.accounts import Settings, Twilio
from shared.channels.traits import ChannelName
from shared.channels.troubles import Trouble
from tests.support.factories import SetClock
from tests.support.sends import ACCOUNT, Known, address, claimed
from tests.support.served import Served

SID, TOKEN, OURS = "AC" + "1" * 32, "auth-token-1", "+40200000001"
PUBLIC = "https://agent.example.test"
ANA = "+40700000001"


@dataclass
class Line:
    twin: TwilioTwin
    channel: TwilioChannel
    known: Known

    async def send(self, *parts: str, to: str = ANA, **fields: Any) -> Outcome:
        return await self.channel.send(
            claimed(*parts, channel=ChannelName.TWILIO, user_id=to, **fields), key="out_1"
        )

    def set(self, *, outbound: str | None = TOKEN, **settings: Any) -> None:
        self.known.found = address("twilio", outbound=outbound, settings=settings_of(**settings))


def settings_of(**more: Any) -> Twilio:
    return Twilio(account_sid=SID, number=OURS, **more)


@asynccontextmanager
async def channel_to(url: str, addresses: Known, public_url: str = PUBLIC) -> AsyncIterator[TwilioChannel]:
    channel = TwilioChannel(addresses, url=url, public_url=public_url, connections=4)
    try:
        yield channel
    finally:
        await channel.close()


@pytest.fixture
async def line(served: Served) -> AsyncIterator[Line]:
    account = TwilioAccount(sid=SID, token=TOKEN, number=OURS, key=("SK1", "key-secret"), service="MG1")
    twin = TwilioTwin(clock=SetClock(), account=account)
    known = Known(address("twilio", outbound=TOKEN, settings=settings_of()))
    async with served.serving(twin.app) as url, channel_to(url, known) as channel:
        yield Line(twin, channel, known)
        await twin.close()


# What is sent


async def test_an_sms_says_to_whom_from_what_for_how_long_and_where_its_statuses_go(line: Line) -> None:
    send = claimed("Salut, ne vedem marți", channel=ChannelName.TWILIO, user_id=ANA)
    outcome = await line.channel.send(send, key="out_1")
    (form,) = line.twin.requests
    assert form == {
        "To": ANA,
        "From": OURS,
        "Body": "Salut, ne vedem marți",
        "ValidityPeriod": "600",
        "StatusCallback": f"{PUBLIC}/hooks/twilio/clinic/status?o={send.attempt}",
    }
    assert outcome == Accepted(provider_id=line.twin.delivered[0].id, segments=1)


@pytest.mark.parametrize("person", ["+40700000001", "RO.90000000000000000003"])
async def test_the_prefix_of_whatsapp_stands_once_on_both_sides(line: Line, person: str) -> None:
    line.set(messaging_service_sid="MG1")
    await line.send(to=f"whatsapp:{person}")
    (form,) = line.twin.requests
    assert (form["To"], form["From"]) == (f"whatsapp:{person}", f"whatsapp:{OURS}")
    assert "MessagingServiceSid" not in form, "its pool need not have the sender that they wrote to"


async def test_a_messaging_service_chooses_the_number_of_an_sms(line: Line) -> None:
    line.set(messaging_service_sid="MG1", valid_for_s=60)
    assert isinstance(await line.send(), Accepted)
    (form,) = line.twin.requests
    assert form["MessagingServiceSid"] == "MG1"
    assert "From" not in form
    assert form["ValidityPeriod"] == "60"


async def test_plain_letters_are_for_sms_alone(line: Line) -> None:
    line.set(plain_letters=True)
    await line.send("Programare mâine, la „Ștefan”")
    await line.send("Programare mâine", to=f"whatsapp:{ANA}")
    assert [form["Body"] for form in line.twin.requests] == [
        'Programare maine, la "Stefan"',
        "Programare mâine",
    ]


async def test_outside_the_window_the_text_is_the_templates_variable(line: Line) -> None:
    line.set(content_sid="HX1")
    await line.send('Say "hi", ș', to=f"whatsapp:{ANA}", by_template=True)
    await line.send("Within it", to=f"whatsapp:{ANA}")
    by_template, free = line.twin.requests
    assert (by_template["ContentSid"], by_template["ContentVariables"]) == ("HX1", '{"1":"Say \\"hi\\", ș"}')
    assert "Body" not in by_template
    assert (free["Body"], "ContentSid" in free) == ("Within it", False)


async def test_each_part_is_an_sms_of_its_own(line: Line) -> None:
    await line.send("First", "Second", part=2)
    assert [one.text for one in line.twin.delivered] == ["Second"]


async def test_without_a_public_url_no_statuses_are_asked_for(served: Served, line: Line) -> None:
    async with served.serving(line.twin.app) as url, channel_to(url, line.known, public_url="") as channel:
        assert isinstance(await channel.send(claimed(channel="twilio", user_id=ANA), key="k"), Accepted)
    assert "StatusCallback" not in line.twin.requests[0]


async def test_an_api_key_logs_in_instead_of_the_token(line: Line) -> None:
    line.set(outbound="key-secret", api_key_sid="SK1")
    assert isinstance(await line.send(), Accepted)
    line.set(outbound=TOKEN, api_key_sid="SK1")
    assert isinstance(await line.send(), AccountRefused)


async def test_long_texts_are_counted_where_twilio_does_not_say(served: Served) -> None:
    async with answering(served, 201, {"sid": "SM1", "num_segments": "0"}) as line:
        assert await line.send("a" * 161) == Accepted(provider_id="SM1", segments=2)
        assert await line.send("a" * 161, to=f"whatsapp:{ANA}") == Accepted(provider_id="SM1")
    async with answering(served, 201, {"sid": "SM1", "num_segments": "3"}) as line:
        assert await line.send("a") == Accepted(provider_id="SM1", segments=3)


# What its answers mean


@asynccontextmanager
async def answering(served: Served, status: int, body: Any) -> AsyncIterator[Line]:
    """A Twilio that has one answer."""

    async def answer(_: Request) -> Response:
        return PlainTextResponse(body, status) if isinstance(body, str) else JSONResponse(body, status)

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    twin = TwilioTwin(clock=SetClock(), account=TwilioAccount(sid=SID, token=TOKEN, number=OURS))
    known = Known(address("twilio", outbound=TOKEN, settings=settings_of()))
    async with served.serving(app) as url, channel_to(url, known) as channel:
        yield Line(twin, channel, known)
    await twin.close()


@pytest.mark.parametrize(
    ("status", "code", "kind", "trouble"),
    [
        (401, 20003, AccountRefused, None),
        (403, None, AccountRefused, None),
        (400, 30002, AccountRefused, None),
        (429, 20429, Throttled, None),
        (429, None, Throttled, None),
        (503, 20503, Throttled, None),
        (400, 30001, Throttled, None),
        (400, 63018, Throttled, None),
        (400, 21610, OptedOut, None),
        (400, 63016, WindowClosed, None),
        (400, 21211, Refused, Trouble.RECIPIENT),
        (400, 21614, Refused, Trouble.RECIPIENT),
        (400, 30006, Refused, Trouble.RECIPIENT),
        (400, 30007, Refused, Trouble.CONTENT),
        (400, 21608, Refused, Trouble.CONFIGURATION),
        (400, 21617, Refused, Trouble.OUR_BUG),
        (400, 99999, Refused, Trouble.UNKNOWN),
        (404, None, Refused, Trouble.UNKNOWN),
        (500, None, NoAnswer, None),
        (500, 21610, NoAnswer, None),
        (502, 20500, NoAnswer, None),
        (408, None, NoAnswer, None),
        (302, None, NoAnswer, None),
    ],
)
async def test_an_error_is_what_follows_from_it(
    served: Served, status: int, code: int | None, kind: type, trouble: Trouble | None
) -> None:
    body = {"code": code, "message": f"about {ANA}", "status": status}
    async with answering(served, status, body) as line:
        outcome = await line.send()
    assert isinstance(outcome, kind)
    assert ANA not in str(outcome)
    if isinstance(outcome, Refused):
        assert outcome.trouble is trouble


@pytest.mark.parametrize(
    "body", ["<html>", "", "[]", "null", {}, {"sid": None}, {"sid": ""}, {"sid": 7}, {"code": 21610}]
)
async def test_a_success_without_a_message_is_nobodys_guess(served: Served, body: Any) -> None:
    async with answering(served, 200, body) as line:
        assert isinstance(await line.send(), NoAnswer)


@pytest.mark.parametrize("code", ["21610", True, -1, None, [21610]])
async def test_a_code_that_is_none_is_unknown(served: Served, code: Any) -> None:
    async with answering(served, 400, {"code": code}) as line:
        outcome = await line.send()
        assert isinstance(outcome, Refused)
        assert outcome.trouble is Trouble.UNKNOWN


async def test_who_is_opted_out_at_the_carrier_is_sent_nothing(line: Line) -> None:
    line.twin.opted_out.add(ANA)
    assert isinstance(await line.send(), OptedOut)
    assert not line.twin.delivered


async def test_taken_and_not_answered_is_unknown_and_not_connected_is_later(line: Line) -> None:
    line.twin.faults.append(Fault(takes=True, cuts=True))
    assert isinstance(await line.send(), NoAnswer)
    assert len(line.twin.delivered) == 1
    async with channel_to("http://127.0.0.1:9", line.known) as channel:
        assert isinstance(await channel.send(claimed(channel="twilio"), key="k"), Throttled)


async def test_without_an_account_nothing_leaves(line: Line) -> None:
    line.set(outbound=None)
    assert isinstance(await line.send(), AccountRefused)
    line.known.found = address("twilio", outbound=TOKEN, settings=Settings())
    assert isinstance(await line.send(), AccountRefused)
    line.known.found = None
    assert isinstance(await line.send(), AccountRefused)
    line.known.away = True
    assert isinstance(await line.send(), Throttled)
    assert not line.twin.requests


async def test_there_are_no_side_calls(line: Line) -> None:
    await line.channel.courtesy(
        Courtesy(kind=CourtesyKind.TYPING, account=ACCOUNT, channel="twilio", user_id=ANA, message_id="SM1", quoted=None)
    )  # fmt: skip
    assert not line.twin.requests


async def test_a_probe_says_whether_the_account_is_there_and_active(served: Served, line: Line) -> None:
    of = line.known.found
    assert of is not None
    good = await line.channel.probe(of)
    assert (good.works, good.said) == (True, "Twilio knows the account; it is active")
    wrong = await line.channel.probe(address("twilio", outbound="other", settings=settings_of()))
    assert not wrong.works
    assert "refuses the credentials" in wrong.said
    assert not (await line.channel.probe(address("twilio", settings=settings_of()))).works
    async with answering(served, 200, {"status": "suspended"}) as other:
        assert (await other.channel.probe(of)).works is False
    async with answering(served, 404, {"code": 20404}) as other:
        assert "error 20404" in (await other.channel.probe(of)).said
    async with channel_to("http://127.0.0.1:9", line.known) as channel:
        assert "can't be reached" in (await channel.probe(of)).said
