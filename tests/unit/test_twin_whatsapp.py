"""WhatsApp's twin does what the Cloud API does where we count on it: its checks and codes, an id in place of a number, the window,
signatures, batches, media behind the token."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leeway.twins.twin import Fault
from leeway.twins.whatsapp import Person, WhatsAppTwin, api_fault
from shared.outgoing import http_client
from tests.oracles.signatures import meta_signed
from tests.support.factories import SetClock
from tests.support.served import Served

TOKEN, SECRET, NUMBER_ID = "access-token-1", "app-secret-1", "900000000000001"
ANA = Person(id="RO.90000000000000000001", number="40700000001")
ELA = Person(id="RO.90000000000000000003", name="Ela")
TEXT = {"type": "text", "text": {"body": "Hello"}}
DAY_S = 24 * 60 * 60


@dataclass
class Receiver:
    """Our webhook, as far as the twin is concerned."""

    posted: list[tuple[bytes, str]] = field(default_factory=list)

    async def take(self, request: Request) -> Response:
        self.posted.append((await request.body(), request.headers["x-hub-signature-256"]))
        return Response(status_code=200)

    @property
    def value(self) -> dict[str, Any]:
        """What the last change said."""
        content = json.loads(self.posted[-1][0])
        value: dict[str, Any] = content["entry"][0]["changes"][0]["value"]
        return value


@dataclass
class Caller:
    twin: WhatsAppTwin
    clock: SetClock
    url: str
    http: httpx2.AsyncClient
    receiver: Receiver

    async def ask(self, method: str, below: str, *, token: str = TOKEN, **more: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {token}"}
        return await self.http.request(method, f"{self.url}/{below}", headers=headers, **more)

    async def send(self, content: dict[str, Any], *, token: str = TOKEN, **to: str) -> tuple[int, int | None]:
        """Status, and the error's code."""
        asked = {"messaging_product": "whatsapp", **(to or {"to": "+40700000001"}), **content}
        answer = await self.ask("POST", f"v26.0/{NUMBER_ID}/messages", token=token, json=asked)
        said = answer.json()
        assert "error" in said or said["messages"][0]["id"].startswith("wamid.")
        return answer.status_code, said.get("error", {}).get("code")


@pytest.fixture
async def caller(served: Served) -> AsyncIterator[Caller]:
    receiver, clock = Receiver(), SetClock()
    app = Starlette(routes=[Route("/hook", receiver.take, methods=["POST"])])
    async with served.serving(app) as ours:
        twin = WhatsAppTwin(clock=clock, webhook=f"{ours}/hook", app_secret=SECRET, access_token=TOKEN)
        async with served.serving(twin.app) as url, http_client(read_s=10) as http:
            for person in (ANA, ELA):
                await twin.write(person, "Good day")
            yield Caller(twin, clock, url, http, receiver)
        await twin.close()


def _text(body: str) -> dict[str, Any]:
    return {"type": "text", "text": {"body": body}}


def _buttons(*titles: str, body: str = "Shall I?", id_: str = "pa:1:") -> dict[str, Any]:
    replies = [{"type": "reply", "reply": {"id": id_ + title, "title": title}} for title in titles]
    shown = {"type": "button", "body": {"text": body}, "action": {"buttons": replies}}
    return {"type": "interactive", "interactive": shown}


def _template(text: str, name: str = "reply") -> dict[str, Any]:
    body = {"type": "body", "parameters": [{"type": "text", "text": text}]}
    return {
        "type": "template",
        "template": {"name": name, "language": {"code": "ro"}, "components": [body]},
    }


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (_text("a" * 4096), (200, None)),
        (_text("👍" * 4096), (200, None)),
        (_text("a" * 4097), (400, 131009)),
        (_text(" "), (400, 131008)),
        (_buttons("Yes", "No", "Later"), (200, None)),
        (_buttons("Yes", "No", "Later", "Never"), (400, 131009)),
        (_buttons(), (400, 131009)),
        (_buttons("Yes", "Yes"), (400, 131009)),
        (_buttons("a" * 20), (200, None)),
        (_buttons("a" * 21), (400, 131009)),
        (_buttons("Yes", body="a" * 1024), (200, None)),
        (_buttons("Yes", body="a" * 1025), (400, 131009)),
        (_buttons("Yes", id_="a" * 254), (400, 131009)),
        (_template("One line"), (200, None)),
        (_template("Two\nlines"), (400, 132012)),
        (_template("A    gap"), (400, 132012)),
        (_template("One line", name=""), (404, 132001)),
        ({"type": "poem"}, (400, 131009)),
        ({**TEXT, "messaging_product": "sms"}, (400, 100)),
        ({**TEXT, "recipient_type": "crowd"}, (400, 100)),
        ({**TEXT, "biz_opaque_callback_data": "a" * 513}, (400, 100)),
    ],
)
async def test_a_send_is_checked_as_the_api_checks_it(
    caller: Caller, content: dict[str, Any], answer: tuple[int, int | None]
) -> None:
    assert await caller.send(content) == answer
    assert len(caller.twin.shown(ANA)) == (answer[0] == 200)


async def test_a_number_and_an_id_each_reach_their_person(caller: Caller) -> None:
    assert await caller.send(TEXT, to="+40700000001") == (200, None)
    assert await caller.send(TEXT, recipient=ELA.id) == (200, None)
    assert await caller.send(TEXT, recipient="+40700000001") == (400, 131008)
    assert await caller.send(TEXT, to="+40700000009") == (400, 131026)
    assert [one.to for one in caller.twin.delivered] == [ANA.id, ELA.id]


async def test_an_id_in_place_of_a_number_is_taken_and_nobody_gets_it(caller: Caller) -> None:
    assert await caller.send(TEXT, to=ELA.id) == (200, None)
    assert caller.twin.delivered == []


async def test_another_token_and_another_number_are_refused(caller: Caller) -> None:
    assert await caller.send(TEXT, token="other") == (401, 190)
    other = await caller.ask("POST", "v26.0/1/messages", json={})
    assert (other.status_code, other.json()["error"]["code"]) == (400, 100)
    assert caller.twin.requests == []


async def test_a_day_after_they_last_wrote_only_a_template_goes_through(caller: Caller) -> None:
    caller.clock.pass_(DAY_S)
    assert await caller.send(TEXT) == (200, None)
    caller.clock.pass_(1)
    assert await caller.send(TEXT) == (400, 131047)
    assert await caller.send(_template("Hello")) == (200, None)
    await caller.twin.write(ANA, "Still here")
    assert await caller.send(TEXT) == (200, None)


async def test_a_fault_is_met_by_one_send_which_arrives_only_where_it_says_so(caller: Caller) -> None:
    caller.twin.faults += [api_fault(131056), Fault(takes=True, cuts=True)]
    assert await caller.send(TEXT) == (400, 131056)
    assert caller.twin.delivered == []
    with pytest.raises(httpx2.HTTPError):
        await caller.send(TEXT)
    assert len(caller.twin.delivered) == 1
    assert await caller.send(TEXT) == (200, None)


async def test_every_webhook_is_signed_over_its_bytes(caller: Caller) -> None:
    await caller.twin.write(ANA, "Bună!")
    await caller.twin.owner_writes(ELA, "I answer")
    for body, signature in caller.receiver.posted:
        assert signature == meta_signed(body, SECRET)
    assert caller.receiver.value["message_echoes"][0]["to_user_id"] == ELA.id


async def test_who_hides_the_number_states_it_nowhere(caller: Caller) -> None:
    await caller.twin.write(ELA, "Hello")
    (message,), (contact,) = caller.receiver.value["messages"], caller.receiver.value["contacts"]
    assert message["from_user_id"] == contact["user_id"] == ELA.id
    assert "from" not in message
    assert "wa_id" not in contact


async def test_a_press_names_the_button_and_what_it_stands_on(caller: Caller) -> None:
    await caller.send(_buttons("Yes", "No"))
    (shown,) = caller.twin.shown(ANA)
    await caller.twin.press(ANA, shown, "No")
    (message,) = caller.receiver.value["messages"]
    assert message["interactive"]["button_reply"] == {"id": "pa:1:No", "title": "No"}
    assert message["context"]["id"] == shown.id


async def test_statuses_come_in_the_order_that_is_asked_for_with_our_correlation(caller: Caller) -> None:
    await caller.send({**TEXT, "biz_opaque_callback_data": "attempt-1"})
    (shown,) = caller.twin.shown(ANA)
    said = []
    for status in ("read", "sent", "failed"):
        await caller.twin.status(shown, status, error=131026)
        said.append(caller.receiver.value["statuses"][0])
    assert [one["status"] for one in said] == ["read", "sent", "failed"]
    assert {(one["id"], one["biz_opaque_callback_data"]) for one in said} == {(shown.id, "attempt-1")}
    assert said[-1]["errors"][0]["code"] == 131026
    assert "contacts" not in caller.receiver.value


async def test_many_messages_come_in_one_post(caller: Caller) -> None:
    before = len(caller.receiver.posted)
    both = [(person, caller.twin.message_of(person, TEXT)) for person in (ANA, ELA, ANA)]
    await caller.twin.deliver(both)
    assert len(caller.receiver.posted) == before + 1
    ids = [one["id"] for one in caller.receiver.value["messages"]]
    assert ids == [message["id"] for _, message in both]
    assert len(set(ids)) == 3
    assert len(caller.receiver.value["contacts"]) == 2


async def test_media_are_had_in_two_steps_each_behind_the_token(caller: Caller) -> None:
    await caller.twin.send_media(ANA, "audio", "audio/ogg", b"voice", voice=True)
    media = caller.receiver.value["messages"][0]["audio"]["id"]
    found = (await caller.ask("GET", f"v26.0/{media}")).json()
    below = found["url"].removeprefix(f"{caller.url}/")
    assert (await caller.ask("GET", below)).content == b"voice"
    assert found["mime_type"] == "audio/ogg"
    for path in (f"v26.0/{media}", below):
        assert (await caller.ask("GET", path, token="other")).status_code == 401
    assert (await caller.ask("GET", "v26.0/1")).status_code == 400
