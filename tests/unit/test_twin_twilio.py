"""Twilio's twin does what Twilio does where we count on it: refusals, lists and pages, signatures, a carrier that takes STOP."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leeway.twins.twilio import OPT_OUT, STARTED, STOPPED, TwilioTwin
from leeway.twins.twilio_messages import TwilioAccount
from shared.outgoing import http_client
from tests.oracles.signatures import twilio_signed
from tests.support.factories import SetClock
from tests.support.served import Served

SID, TOKEN, OURS, ANA = "AC" + "1" * 32, "auth-token-1", "+40200000001", "+40700000001"
PUBLIC = "https://agent.example.test/hooks/twilio/clinic"


@dataclass
class Receiver:
    """Our webhook, as far as the twin is concerned."""

    posted: list[tuple[str, list[tuple[str, str]], str]] = field(default_factory=list)

    async def take(self, request: Request) -> Response:
        form = parse_qsl((await request.body()).decode(), keep_blank_values=True)
        below = request.path_params["below"] + (f"?{request.url.query}" if request.url.query else "")
        self.posted.append((below, form, request.headers["x-twilio-signature"]))
        return Response(status_code=200)


@dataclass
class Caller:
    twin: TwilioTwin
    clock: SetClock
    url: str
    http: httpx2.AsyncClient
    receiver: Receiver

    async def ask(self, method: str, below: str, form: dict[str, str] | None = None, *, auth: tuple[str, str] = (SID, TOKEN), asked: dict[str, Any] | None = None) -> Any:  # fmt: skip
        answer = await self.http.request(method, f"{self.url}/2010-04-01/Accounts/{SID}{below}", data=form, params=asked, auth=auth)  # fmt: skip
        return answer.status_code, answer.json()

    async def send(self, **form: str) -> tuple[int, int | None]:
        """Status, and the error's code."""
        named = {"To": ANA, "From": OURS, "Body": "Hello", **form}
        status, said = await self.ask("POST", "/Messages.json", {k: v for k, v in named.items() if v})
        return status, said.get("code")


@pytest.fixture
async def caller(served: Served) -> AsyncIterator[Caller]:
    receiver, clock = Receiver(), SetClock()
    app = Starlette(routes=[Route("/hook{below:path}", receiver.take, methods=["POST"])])
    account = TwilioAccount(sid=SID, token=TOKEN, number=OURS, key=("SK1", "secret"), service="MG1")
    async with served.serving(app) as ours:
        twin = TwilioTwin(clock=clock, account=account, webhook=f"{ours}/hook", public=PUBLIC)
        async with served.serving(twin.app) as url, http_client(read_s=10) as http:
            yield Caller(twin, clock, url, http, receiver)
        await twin.close()


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        ({}, (201, None)),
        ({"From": "", "MessagingServiceSid": "MG1"}, (201, None)),
        ({"To": f"whatsapp:{ANA}", "From": f"whatsapp:{OURS}"}, (201, None)),
        ({"Body": "", "ContentSid": "HX1", "ContentVariables": '{"1": "a"}'}, (201, None)),
        ({"Body": "a" * 1600}, (201, None)),
        ({"Body": "a" * 1601}, (400, 21617)),
        ({"Body": "👍" * 801}, (400, 21617)),
        ({"Body": ""}, (400, 21602)),
        ({"To": ""}, (400, 21604)),
        ({"To": "07000"}, (400, 21211)),
        ({"From": ""}, (400, 21603)),
        ({"From": "", "MessagingServiceSid": "MG2"}, (400, 21603)),
        ({"From": "+40999"}, (400, 21606)),
        ({"To": f"whatsapp:{ANA}"}, (400, 21606)),  # the prefix on one side alone
    ],
)
async def test_a_send_is_taken_or_refused_by_its_code(
    caller: Caller, form: dict[str, str], answer: tuple[int, int | None]
) -> None:
    assert await caller.send(**form) == answer
    assert len(caller.twin.delivered) == (answer[0] == 201)


async def test_only_its_own_logins_are_known(caller: Caller) -> None:
    for auth, status in (
        ((SID, TOKEN), 200),
        (("SK1", "secret"), 200),
        ((SID, "secret"), 401),
        (("SK1", ""), 401),
    ):
        assert (await caller.ask("GET", ".json", auth=auth))[0] == status
        assert (await caller.ask("GET", "/Messages.json", auth=auth))[0] == status


@pytest.mark.parametrize("word", OPT_OUT)
async def test_the_carrier_takes_its_words_answers_and_still_delivers_them(caller: Caller, word: str) -> None:
    await caller.twin.write(ANA, f" {word.lower()} ")
    assert caller.twin.said_by_carrier == [(ANA, STOPPED)]
    assert dict(caller.receiver.posted[-1][1])["Body"] == f" {word.lower()} "
    assert await caller.send() == (400, 21610)
    assert (await caller.send(To=f"whatsapp:{ANA}", From=f"whatsapp:{OURS}"))[0] == 201
    await caller.twin.write(ANA, "Start")
    assert caller.twin.said_by_carrier[-1] == (ANA, STARTED)
    assert (await caller.send())[0] == 201


async def test_a_carrier_hears_whole_messages_by_sms_alone(caller: Caller) -> None:
    await caller.twin.write(ANA, "please stop")
    await caller.twin.write(f"whatsapp:{ANA}", "STOP")
    assert not caller.twin.said_by_carrier
    assert (await caller.send())[0] == 201


async def test_webhooks_are_signed_for_the_url_as_it_is_configured(caller: Caller) -> None:
    await caller.twin.write(ANA, "Bună ziua, aș vrea", media=(("image/png", b"x"),))
    await caller.send(StatusCallback=f"{PUBLIC}/status?o=1")
    assert await caller.twin.status(caller.twin.delivered[0].id, "failed", code=30007) == 200
    assert [below for below, _, _ in caller.receiver.posted] == ["", "/status?o=1"]
    for below, form, signature in caller.receiver.posted:
        assert signature == twilio_signed(PUBLIC + below, form, TOKEN, "sha1")
    assert dict(caller.receiver.posted[1][1])["ErrorCode"] == "30007"


async def test_what_is_sent_in_an_outage_is_listed_newest_first_and_in_pages(caller: Caller) -> None:
    caller.twin.away = True
    sent = []
    for n in range(5):
        caller.clock.pass_(60)
        sent.append(await caller.twin.write(ANA, f"Message {n}"))
    assert not caller.receiver.posted
    since = caller.twin.messages[sent[1]].at.strftime("%Y-%m-%dT%H:%M:%SZ")
    asked = {"To": OURS, "DateSent>": since, "PageSize": 3}
    status, page = await caller.ask("GET", "/Messages.json", asked=asked)
    assert [one["sid"] for one in page["messages"]] == sent[:1:-1]
    following = await caller.http.get(caller.url + page["next_page_uri"], auth=(SID, TOKEN))
    assert [one["sid"] for one in following.json()["messages"]] == sent[1:2]
    assert (status, following.json()["next_page_uri"]) == (200, None)
    _, none = await caller.ask("GET", "/Messages.json", asked={"To": f"whatsapp:{OURS}"})
    assert none["messages"] == []


async def test_media_are_to_be_had_behind_the_login(caller: Caller) -> None:
    caller.twin.media_url = caller.url
    sid = await caller.twin.write(ANA, media=(("image/png", b"one"), ("audio/ogg", b"two")))
    url = dict(caller.receiver.posted[-1][1])["MediaUrl1"]
    assert (await caller.http.get(url)).status_code == 401
    got = await caller.http.get(url, auth=(SID, TOKEN))
    assert (got.content, got.headers["content-type"]) == (b"two", "audio/ogg")
    assert (await caller.http.get(url.replace("ME1", "ME2"), auth=(SID, TOKEN))).status_code == 404
    _, listed = await caller.ask("GET", f"/Messages/{sid}/Media.json")
    assert [one["content_type"] for one in listed["media_list"]] == ["image/png", "audio/ogg"]
