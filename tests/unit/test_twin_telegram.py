"""Telegram's twin does what the Bot API does where we count on it: limits, errors, presses, and updates one way at a time."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leeway.twins.telegram import Person, TelegramTwin, too_many
from leeway.twins.twin import Fault
from shared.outgoing import http_client
from tests.support.factories import SetClock
from tests.support.served import Served

TOKEN = "710000900:AAtest"
MARIA = Person(id=710_000_012)


@dataclass
class Caller:
    twin: TelegramTwin
    url: str
    http: httpx2.AsyncClient

    async def ask(self, method: str, /, token: str = TOKEN, **body: Any) -> tuple[int, Any]:
        """Status, and the result or the error's description."""
        answer = await self.http.post(f"{self.url}/bot{token}/{method}", json=body)
        content = answer.json()
        assert content["ok"] is answer.is_success
        return answer.status_code, content["result"] if content["ok"] else content["description"]

    async def send(self, text: str = "Hello", **body: Any) -> tuple[int, Any]:
        return await self.ask("sendMessage", chat_id=MARIA.id, text=text, **body)

    async def fetched(self, **body: Any) -> list[int]:
        status, updates = await self.ask("getUpdates", **body)
        assert status == 200, updates
        return [one["update_id"] for one in updates]


@pytest.fixture
async def caller(served: Served) -> AsyncIterator[Caller]:
    twin = TelegramTwin(clock=SetClock(), token=TOKEN)
    async with served.serving(twin.app) as url, http_client(read_s=10) as http:
        yield Caller(twin, url, http)
        await twin.close()


def keyboard(data: str) -> dict[str, Any]:
    return {"inline_keyboard": [[{"text": "Yes", "callback_data": data}]]}


async def test_only_its_own_token_and_methods_are_known(caller: Caller) -> None:
    assert await caller.ask("getMe", token="710000900:other") == (401, "Unauthorized")
    assert (await caller.ask("getMe"))[1]["username"] == "twin_bot"
    assert await caller.ask("sendDice") == (404, "Not Found")


async def test_nobody_can_be_written_to_before_they_wrote_or_after_they_blocked(caller: Caller) -> None:
    assert await caller.send() == (400, "Bad Request: chat not found")
    await caller.twin.write(MARIA, "/start")
    assert (await caller.send())[0] == 200
    await caller.twin.block(MARIA)
    assert await caller.send() == (403, "Forbidden: bot was blocked by the user")
    await caller.twin.unblock(MARIA)
    assert (await caller.send())[0] == 200
    assert [one["my_chat_member"]["new_chat_member"]["status"] for one in caller.twin.waiting[1:]] == [
        "kicked",
        "member",
    ]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("a" * 4096, 200),
        ("a" * 4097, 400),
        ("😀" * 2048, 200),
        ("😀" * 2048 + "a", 400),
        ("", 400),
        (" \n", 400),
    ],
    ids=["4096", "4097", "2048 emoji", "an emoji's unit more", "empty", "blank"],
)
async def test_a_text_has_so_many_units_of_utf_16(caller: Caller, text: str, status: int) -> None:
    await caller.twin.write(MARIA, "Hi")
    assert (await caller.send(text))[0] == status


@pytest.mark.parametrize(("data", "status"), [("x" * 64, 200), ("x" * 65, 400), ("ă" * 33, 400), ("", 400)])
async def test_a_button_carries_so_many_bytes(caller: Caller, data: str, status: int) -> None:
    await caller.twin.write(MARIA, "Hi")
    assert (await caller.send(reply_markup=keyboard(data)))[0] == status


async def test_numbers_of_messages_are_counted_by_chat(caller: Caller) -> None:
    other = Person(id=710_000_013)
    assert [(await caller.twin.write(person, "Hi"))["message_id"] for person in (MARIA, other, MARIA)] == [
        11,
        11,
        12,
    ]


async def test_a_press_is_answered_once_and_its_keyboard_taken_away_once(caller: Caller) -> None:
    await caller.twin.write(MARIA, "Hi")
    _, sent = await caller.send(reply_markup=keyboard("yes"))
    (shown,) = caller.twin.shown(MARIA)
    press = await caller.twin.press(MARIA, shown, "Yes")
    query = caller.twin.waiting[-1]["callback_query"]
    assert (query["data"], query["message"]["message_id"], query["id"]) == ("yes", sent["message_id"], press)
    assert (await caller.ask("answerCallbackQuery", callback_query_id=press)) == (200, True)
    assert (await caller.ask("answerCallbackQuery", callback_query_id=press))[0] == 400
    about = {"chat_id": MARIA.id, "message_id": sent["message_id"]}
    assert (await caller.ask("editMessageReplyMarkup", **about))[0] == 200
    assert await caller.ask("editMessageReplyMarkup", **about) == (
        400,
        "Bad Request: message is not modified",
    )
    assert (await caller.ask("editMessageReplyMarkup", **about | {"message_id": 11}))[0] == 400


async def test_faults_come_once_in_order_with_or_without_the_message(caller: Caller) -> None:
    await caller.twin.write(MARIA, "Hi")
    caller.twin.faults += [too_many(3), Fault(status=500, body={"ok": False, "description": "x"}, takes=True)]
    assert await caller.send("one") == (429, "Too Many Requests: retry after 3")
    assert (await caller.send("two"))[0] == 500
    assert (await caller.send("three"))[0] == 200
    assert [one.text for one in caller.twin.shown(MARIA)] == ["two", "three"]


async def test_updates_stay_until_a_fetch_asks_for_later_ones(caller: Caller) -> None:
    for text in ("one", "two", "three"):
        await caller.twin.write(MARIA, text)
    first, second, third = await caller.fetched()
    assert await caller.fetched(limit=2) == [first, second]
    assert await caller.fetched(offset=third) == [third]
    assert await caller.fetched() == [third]
    assert await caller.fetched(offset=third + 1) == []


async def test_a_fetch_waits_for_the_next_update(caller: Caller) -> None:
    waiting = asyncio.create_task(caller.fetched(timeout=20))
    while caller.twin._fetching is None:
        await asyncio.sleep(0.01)
    await caller.twin.write(MARIA, "Hi")
    assert len(await waiting) == 1


async def test_a_second_fetch_ends_the_first(caller: Caller) -> None:
    first = asyncio.create_task(caller.ask("getUpdates", timeout=20))
    while caller.twin._fetching is None:
        await asyncio.sleep(0.01)
    assert await caller.fetched(timeout=0) == []
    status, said = await first
    assert (status, said.startswith("Conflict: terminated by other")) == (409, True)


async def test_a_webhook_and_fetching_exclude_each_other_and_unanswered_updates_wait(
    served: Served, caller: Caller
) -> None:
    heard: list[tuple[str | None, bytes]] = []
    status = 503

    async def hear(request: Request) -> Response:
        heard.append((request.headers.get("x-telegram-bot-api-secret-token"), await request.body()))
        return Response(status_code=status)

    async with served.serving(Starlette(routes=[Route("/hook", hear, methods=["POST"])])) as ours:
        hook: dict[str, Any] = {
            "url": ours + "/hook",
            "secret_token": "a_secret-1",
            "allowed_updates": ["message"],
        }
        assert await caller.ask("setWebhook", **hook) == (200, True)
        code, said = await caller.ask("getUpdates")
        assert (code, "while webhook is active" in said) == (409, True)
        await caller.twin.write(MARIA, "Hi")
        await caller.twin.block(MARIA)  # of a kind that was not asked for
        ((secret, _),) = heard
        assert secret == "a_secret-1"
        _, info = await caller.ask("getWebhookInfo")
        assert (info["pending_update_count"], info["last_error_message"]) == (
            1,
            "Wrong response from the webhook: 503",
        )
        status = 200
        assert await caller.twin.deliver(caller.twin.waiting[0]) == 200
        assert heard[0][1] == heard[1][1]
        assert caller.twin.waiting == []
        assert await caller.ask("deleteWebhook") == (200, True)
        assert await caller.fetched() == []


@pytest.mark.parametrize("hook", [{"url": "http://x.test"}, {"url": "https://x.test", "secret_token": "a b"}])
async def test_a_webhook_is_refused_for_what_telegram_would_refuse(
    caller: Caller, hook: dict[str, str]
) -> None:
    assert (await caller.ask("setWebhook", **hook))[0] == 400


async def test_a_file_is_fetched_in_two_steps(caller: Caller) -> None:
    caller.twin.files["voice-1"] = b"OggS"
    _, file = await caller.ask("getFile", file_id="voice-1")
    answer = await caller.http.get(f"{caller.url}/file/bot{TOKEN}/{file['file_path']}")
    assert (answer.content, file["file_size"]) == (b"OggS", 4)
    assert (await caller.http.get(f"{caller.url}/file/bot1:x/{file['file_path']}")).status_code == 404
    assert (await caller.ask("getFile", file_id="other"))[0] == 400


async def test_an_edit_keeps_the_number_and_a_card_has_no_plus(caller: Caller) -> None:
    message = await caller.twin.write(MARIA, "Thursday")
    await caller.twin.edit(MARIA, message["message_id"], "Friday")
    await caller.twin.share_contact(MARIA, "+40700000012", owner=MARIA.id)
    edited, shared = caller.twin.waiting[1]["edited_message"], caller.twin.waiting[2]["message"]
    assert (edited["message_id"], edited["text"]) == (message["message_id"], "Friday")
    assert shared["contact"] == {"phone_number": "40700000012", "first_name": "Ana", "user_id": MARIA.id}
