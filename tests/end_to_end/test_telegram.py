"""Telegram through all services, against its twin: presses, forged ones, edits, cards, groups, and sends of unknown outcome."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from leeway.twins.telegram import Person, TelegramTwin, too_many
from leeway.twins.twin import Delivered, Fault, serving
from shared.llm.mock import MockModel
from shared.llm.port import Model
from shared.packs import load_packs
from tests.support.eventually import eventually
from tests.support.town import PACE, Held, Shop, Town, a_town, call, held_open, script

pytestmark = [pytest.mark.postgres, pytest.mark.stack, pytest.mark.xdist_group("telegram")]

SECRET = "telegram_secret-1"
MONDAY_10 = "2026-12-07T10:00"
ASKS = "Book a cleaning on Monday at 10, please"
NUMBER = "+40700000012"
MARIA = Person(id=710_000_012, first_name="Maria")
DAN = Person(id=710_000_013, first_name="Dan")


class Provider:
    """One address with many bots, as the real one is."""

    def __init__(self) -> None:
        self.bots: dict[str, TelegramTwin] = {}
        self.url = ""
        self._numbers = count(710_000_900)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            token = scope["path"].removeprefix("/file").split("/")[1].removeprefix("bot")
            await self.bots[token].app(scope, receive, send)

    def token(self) -> str:
        return f"{next(self._numbers)}:AAtest-token"


@dataclass
class Place:
    """The installation, at an address where Telegram reaches it."""

    town: Town
    provider: Provider
    url: str


@dataclass
class Bot:
    """A clinic on Telegram."""

    shop: Shop
    twin: TelegramTwin
    account: int

    def pace(self) -> None:
        self.shop.town.go_to(self.shop.town.now + PACE)

    async def says(self, person: Person, text: str | None = None, **more: Any) -> list[Delivered]:
        """A message, a little later than the one before, and what came of it."""
        return await self.hears(person, self.twin.write(person, text, **more))

    async def presses(self, person: Person, under: Delivered, title: str) -> list[Delivered]:
        return await self.hears(person, self.twin.press(person, under, title))

    async def hears(self, person: Person, happening: Any) -> list[Delivered]:
        self.pace()
        before = len(self.twin.shown(person))
        await happening
        await self.shop.settled()
        return self.twin.shown(person)[before:]

    async def customer_of(self, person: Person) -> Any:
        (row,) = await self.shop.fetch(
            "select c.id, c.phone, c.name from channel_identity i join customer c on c.id = i.customer"
            " where i.business = $1 and i.user_id = $2",
            str(person.id),
        )
        return row

    async def booked(self) -> list[str]:
        return await self.shop.appointments()


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[Place]:
    provider = Provider()
    async with (
        held_open(lambda: serving(provider)) as telegram,
        a_town("telegram", telegram_url=telegram) as town,
    ):
        async with held_open(lambda: serving(town.installation.app)) as url:
            yield Place(town, provider, url)
        for twin in provider.bots.values():
            await twin.close()


async def clinic(place: Place, name: str, *, polling: bool = False, model: Model | None = None) -> Bot:
    shop = await place.town.business(name, model=model)
    clock = place.town.installation.parts.clock
    twin = TelegramTwin(clock=clock, token=place.provider.token())
    place.provider.bots[twin.token] = twin
    account = await place.town.installation.businesses.add_account(
        shop.business, channel="telegram", address=shop.slug, inbound=[SECRET], outbound=twin.token
    )
    await shop.fetch(
        "update channel_account set provider_address = $3, settings = $4 where business = $1 and id = $2",
        account,
        str(twin.bot["id"]),
        f'{{"bot_id": "{twin.bot["id"]}", "polling": {str(polling).lower()}}}',
    )
    if not polling:
        twin.webhook, twin.secret = f"{place.url}/hooks/telegram/{shop.slug}", SECRET
    return Bot(shop, twin, account)


async def asked(bot: Bot, person: Person = MARIA, text: str = ASKS) -> Delivered:
    """The prompt that a request gets."""
    (prompt,) = await bot.says(person, text)
    assert [title for _, title in prompt.buttons] == ["Confirm", "Cancel"], prompt.text
    return prompt


# Presses


async def test_a_booking_is_pressed_acknowledged_at_once_and_its_buttons_go(place: Place) -> None:
    bot = await clinic(place, "tg-book")
    prompt = await asked(bot)
    (receipt,) = await bot.presses(MARIA, prompt, "Confirm")
    assert receipt.text.startswith("Booked: cleaning")
    assert await bot.booked() == [MONDAY_10]

    def acknowledged() -> bool:
        methods = [one["method"] for one in bot.twin.side_calls]
        return {"answerCallbackQuery", "editMessageReplyMarkup", "sendChatAction"} <= set(methods)

    await eventually(acknowledged, within_s=5)
    assert "reply_markup" not in bot.twin.messages[MARIA.id, int(prompt.id)]
    (row,) = await bot.shop.fetch(
        "select kind, body, quoted from inbound_message where business = $1 and kind = 'button'"
    )
    assert (row["body"], row["quoted"]) == ("Confirm", f"{MARIA.id}:{prompt.id}")


async def test_a_press_is_acknowledged_while_the_model_still_thinks(place: Place) -> None:
    """CNF-21: an answer that takes long keeps nobody's button waiting."""
    bot = await clinic(place, "tg-cnf-21")
    prompt = await asked(bot)
    held = Held(MockModel(load_packs()))
    place.town.models.own[bot.shop.slug] = held
    bot.pace()
    await bot.twin.write(MARIA, "And how much is a filling?")
    await asyncio.wait_for(held.asked.wait(), 10)
    press = await bot.twin.press(MARIA, prompt, "Cancel")
    await eventually(
        lambda: press in [one.get("callback_query_id") for one in bot.twin.side_calls], within_s=5
    )
    assert len(bot.twin.shown(MARIA)) == 1
    held.goes_on.set()
    await bot.shop.settled()
    assert (await bot.booked(), await bot.shop.waiting()) == ([], [])


async def test_a_button_pressed_twice_is_pressed_once(place: Place) -> None:
    bot = await clinic(place, "tg-twice")
    prompt = await asked(bot)
    bot.pace()
    async with asyncio.TaskGroup() as presses:
        for _ in range(2):
            presses.create_task(bot.twin.press(MARIA, prompt, "Confirm"))
    await bot.shop.settled()
    assert await bot.booked() == [MONDAY_10]
    assert await bot.shop.ran() == ["book_appointment"]


async def test_another_customer_s_button_does_nothing(place: Place) -> None:
    bot = await clinic(place, "tg-forged")
    await bot.says(DAN, "Hello")
    prompt = await asked(bot)
    data = prompt.buttons[0][0]
    (said,) = await bot.hears(DAN, bot.twin.press_forged(DAN, data))
    assert "no longer open" in said.text
    assert (await bot.booked(), len(await bot.shop.waiting())) == ([], 1)
    (receipt,) = await bot.presses(MARIA, prompt, "Confirm")
    assert receipt.text.startswith("Booked")


async def test_a_yes_that_quotes_the_prompt_is_one_and_one_that_quotes_another_is_none(place: Place) -> None:
    bot = await clinic(place, "tg-quote")
    prompt = await asked(bot)
    older = {"reply_to_message": bot.twin.messages[MARIA.id, 11]}
    (again,) = await bot.says(MARIA, "yes", **older)
    assert (await bot.booked(), again.text.startswith("Booked")) == ([], False)
    (receipt,) = await bot.says(MARIA, "yes", reply_to_message=bot.twin.messages[MARIA.id, int(prompt.id)])
    assert receipt.text.startswith("Booked")
    assert await bot.booked() == [MONDAY_10]


# What never confirms


async def test_an_edit_never_books_twice_nor_once(place: Place) -> None:
    """SHP-16: neither an edit of what was answered, nor one to a yes, is a word of the customer's now."""
    bot = await clinic(place, "tg-edit")
    await bot.presses(MARIA, await asked(bot), "Confirm")
    assert await bot.hears(MARIA, bot.twin.edit(MARIA, 11, "Book a cleaning on Tuesday at 10, please")) == []
    assert (await bot.booked(), await bot.shop.waiting()) == ([MONDAY_10], [])
    prompt = await asked(bot, text="Book a cleaning on Tuesday at 11, please")
    assert await bot.hears(MARIA, bot.twin.edit(MARIA, 11, "yes")) == []
    assert await bot.booked() == [MONDAY_10]
    assert prompt.buttons


async def test_a_group_confirms_nothing_and_hears_nothing(place: Place) -> None:
    """ECH-08."""
    bot = await clinic(place, "tg-group")
    await asked(bot)
    assert await bot.hears(MARIA, bot.twin.say_in_group(MARIA, "yes")) == []
    assert (await bot.booked(), len(await bot.shop.waiting())) == ([], 1)
    assert await bot.shop.reasons() == [None, "group"]
    assert {one.to for one in bot.twin.delivered} == {str(MARIA.id)}


# Who it is


async def test_a_card_of_one_s_own_makes_a_stranger_the_customer_with_that_number(place: Place) -> None:
    bot = await clinic(place, "tg-card")
    await bot.shop.has_appointment(NUMBER, MONDAY_10)
    (known,) = await bot.shop.fetch("select id from customer where business = $1 and phone = $2", NUMBER)
    await bot.says(MARIA, "Hello")
    assert (await bot.customer_of(MARIA))["phone"] is None
    for owner in (DAN.id, None):
        await bot.hears(MARIA, bot.twin.share_contact(MARIA, NUMBER, owner=owner))
        assert (await bot.customer_of(MARIA))["phone"] is None
    await bot.hears(MARIA, bot.twin.share_contact(MARIA, NUMBER, owner=MARIA.id))
    assert (await bot.customer_of(MARIA))["id"] == known["id"]
    (said, *_) = await bot.says(MARIA, "When is my appointment?")
    assert "10:00" in said.text


async def test_two_people_of_one_bot_are_two_customers(place: Place) -> None:
    bot = await clinic(place, "tg-two")
    await bot.says(MARIA, "Hello")
    await bot.says(DAN, "Hello")
    assert (await bot.customer_of(MARIA))["id"] != (await bot.customer_of(DAN))["id"]


async def test_one_person_at_two_clinics_is_two_customers_and_no_button_works_at_the_other(
    place: Place,
) -> None:
    one, other = await clinic(place, "tg-one"), await clinic(place, "tg-other")
    prompt = await asked(one)
    await other.says(MARIA, "Hello")
    (said,) = await other.hears(MARIA, other.twin.press_forged(MARIA, prompt.buttons[0][0]))
    assert "no longer open" in said.text
    assert (await one.booked(), await other.booked()) == ([], [])
    assert (await one.customer_of(MARIA))["id"] != (await other.customer_of(MARIA))["id"]


async def test_blocked_and_back_is_told_and_answered(place: Place) -> None:
    """SHP-17."""
    bot = await clinic(place, "tg-blocked")
    await bot.says(MARIA, "Hello")
    await bot.hears(MARIA, bot.twin.block(MARIA))
    await bot.hears(MARIA, bot.twin.unblock(MARIA))
    assert len(await bot.says(MARIA, "How much is a filling?")) == 1
    rows = await bot.shop.fetch(
        "select body, reason from inbound_message where business = $1 and kind = 'system' order by seq"
    )
    assert [(row["body"], row["reason"]) for row in rows] == [
        ("blocked the bot", "system_message"),
        ("started the bot again", "system_message"),
    ]


# The way in


async def test_an_update_that_comes_three_times_is_answered_once(place: Place) -> None:
    """DUP-07."""
    bot = await clinic(place, "tg-dup")
    await bot.says(MARIA, "How much is a filling?")
    raw = {"update_id": 500_000_001, "message": bot.twin.messages[MARIA.id, 11]}
    async with asyncio.TaskGroup() as at_once:
        repeats = [at_once.create_task(bot.twin.deliver(raw)) for _ in range(2)]
    assert [repeat.result() for repeat in repeats] == [200, 200]
    await bot.shop.settled()
    assert len(bot.twin.shown(MARIA)) == 1
    assert all(answer.content == b"" for answer in bot.twin.answers)


async def test_nobody_gets_in_without_the_secret(place: Place) -> None:
    bot = await clinic(place, "tg-secret")
    for secret in ("", "telegram_secret-2"):
        bot.twin.secret = secret
        await bot.twin.write(MARIA, "Hello")
    assert [answer.status_code for answer in bot.twin.answers] == [401, 401]
    assert await bot.shop.reasons() == []


async def test_a_bot_without_a_webhook_is_polled(place: Place) -> None:
    bot = await clinic(place, "tg-poll", polling=True)
    await bot.twin.write(MARIA, ASKS)
    await eventually(lambda: len(bot.twin.shown(MARIA)) == 1, within_s=20)
    (prompt,) = bot.twin.shown(MARIA)
    bot.pace()
    await bot.twin.press(MARIA, prompt, "Confirm")
    await eventually(lambda: len(bot.twin.shown(MARIA)) == 2, within_s=20)
    assert await bot.booked() == [MONDAY_10]
    assert bot.twin.answers == []


# The way out


async def test_a_silence_after_it_was_taken_is_one_message_and_an_open_decision(place: Place) -> None:
    bot = await clinic(place, "tg-silent")
    bot.twin.faults.append(Fault(cuts=True, takes=True))
    await bot.says(MARIA, "How much is a filling?")
    (reply,) = await bot.shop.fetch("select id, state from outbound where business = $1")
    assert reply["state"] == "unknown"
    await bot.shop.fetch(
        "update send_attempt set started_at = started_at - interval '3 min' where business = $1"
    )

    async def open_decision() -> bool:
        (row,) = await bot.shop.fetch("select state, reason from outbound where business = $1")
        return (row["state"], row["reason"]) == ("draft", "may_have_arrived")

    await eventually(open_decision, within_s=15)
    assert len(bot.twin.shown(MARIA)) == len(bot.twin.requests) == 1


async def test_a_press_proves_that_a_prompt_of_unknown_outcome_arrived(place: Place) -> None:
    bot = await clinic(place, "tg-proof")
    bot.twin.faults.append(Fault(cuts=True, takes=True))
    prompt = await asked(bot)
    (receipt,) = await bot.presses(MARIA, prompt, "Confirm")
    assert receipt.text.startswith("Booked")
    states = await bot.shop.fetch("select state from outbound where business = $1 order by created_at")
    assert [row["state"] for row in states] == ["sent", "sent"]


async def test_a_wait_that_telegram_asks_for_is_kept_and_the_reply_arrives_once(place: Place) -> None:
    """SND-19."""
    bot = await clinic(place, "tg-429")
    bot.twin.faults.append(too_many(2))
    now = asyncio.get_running_loop().time
    began = now()
    (reply,) = await bot.says(MARIA, "How much is a filling?")
    assert now() - began >= 2
    assert ("filling" in reply.text, len(bot.twin.requests)) == (True, 2)


async def test_who_blocked_the_bot_meanwhile_leaves_a_draft_with_the_reason(place: Place) -> None:
    bot = await clinic(place, "tg-gone")
    bot.twin.blocked.add(MARIA.id)
    assert await bot.says(MARIA, "How much is a filling?") == []
    (reply,) = await bot.shop.fetch("select state, reason from outbound where business = $1")
    assert (reply["state"], "blocked by the user" in reply["reason"]) == ("draft", True)


async def test_a_refused_token_switches_the_account_off_and_the_reply_waits(place: Place) -> None:
    bot = await clinic(place, "tg-401")
    clock = place.town.installation.parts.clock
    place.provider.bots[bot.twin.token] = TelegramTwin(clock=clock, token=place.provider.token())
    await bot.twin.write(MARIA, "How much is a filling?")

    async def is_off() -> bool:
        query = "select id from channel_account where business = $1 and channel = 'telegram' and state = 'disabled'"
        return len(await bot.shop.fetch(query)) == 1

    await eventually(is_off, within_s=15)
    await place.provider.bots[bot.twin.token].close()
    place.provider.bots[bot.twin.token] = bot.twin
    (reply,) = await bot.shop.fetch("select state from outbound where business = $1")
    assert reply["state"] == "queued"


async def test_words_of_a_model_that_look_like_markup_arrive_as_they_are(place: Place) -> None:
    """SND-17."""
    words = "Use price_list *today and ask for dr_ana [here"
    bot = await clinic(place, "tg-snd-17", model=script({"text": words}))
    (reply,) = await bot.says(MARIA, "Where do I find it?")
    assert reply.text == words


async def test_a_model_s_call_asks_by_buttons_whatever_it_says(place: Place) -> None:
    arguments = {"service": "cleaning", "start": MONDAY_10, "dentist": "Dr. Ionescu"}
    bot = await clinic(place, "tg-call", model=script(call("book_appointment", arguments)))
    prompt = await asked(bot, text="The usual, please")
    assert all(len(data.encode()) <= 64 for data, _ in prompt.buttons)
    assert prompt.text.startswith("Book: cleaning")
