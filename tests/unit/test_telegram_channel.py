"""Telegram's way out, against its twin: what is sent, what its answers mean, and that its token stays ours."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import structlog
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from leeway.twins.telegram import Person, TelegramTwin, too_many
from leeway.twins.telegram_updates import error
from leeway.twins.twin import Fault, serving
from services.agent.core import pending, reminder
from services.dispatch.adapters.channels.telegram import TelegramChannel
from services.dispatch.core.outcome import Accepted, AccountRefused, NoAnswer, Outcome, Refused, Throttled
from services.dispatch.ports import Courtesy, CourtesyKind, Probed
from shared.channels.accounts import Secrets, Telegram
from shared.channels.telegram import BUTTON_BYTES_MAX
from shared.channels.traits import ChannelName
from shared.channels.troubles import Trouble
from shared.ids import ActionId
from shared.telemetry.logs import configure_logs
from tests.support.factories import NOON, SetClock
from tests.support.sends import ACCOUNT, Known, address, claimed
from tests.support.served import Served

TOKEN = "710000900:AAtest-token_of-no-bot"
SECRET = "hook_secret-1"
MARIA = Person(id=710_000_012, first_name="Maria")
BUTTONS = [{"id": "pa:1:1:confirm", "title": "Confirm"}, {"id": "pa:1:1:cancel", "title": "Cancel"}]


@dataclass
class Bot:
    twin: TelegramTwin
    channel: TelegramChannel
    known: Known

    async def send(self, *parts: str, **fields: Any) -> Outcome:
        return await self.channel.send(claimed(*parts, channel=ChannelName.TELEGRAM, **fields), key="out_1")

    async def courtesy(self, kind: CourtesyKind, message_id: str = "1", quoted: str | None = None) -> None:
        await self.channel.courtesy(
            Courtesy(kind=kind, account=ACCOUNT, channel="telegram", user_id=str(MARIA.id), message_id=message_id, quoted=quoted)
        )  # fmt: skip


def known(**more: Any) -> Known:
    settings = Telegram(bot_id="710000900", **more)
    return Known(address("telegram", inbound=(SECRET, "the-one-before"), outbound=TOKEN, settings=settings))


@asynccontextmanager
async def channel_to(url: str, addresses: Known) -> AsyncIterator[TelegramChannel]:
    channel = TelegramChannel(addresses, url=url, connections=4)
    try:
        yield channel
    finally:
        await channel.close()


@pytest.fixture
async def bot(served: Served) -> AsyncIterator[Bot]:
    """A bot whom Maria has written to."""
    twin, addresses = TelegramTwin(clock=SetClock(), token=TOKEN), known()
    await twin.write(MARIA, "Hello")
    async with served.serving(twin.app) as url, channel_to(url, addresses) as channel:
        yield Bot(twin, channel, addresses)
        await twin.close()


# What is sent


async def test_a_text_arrives_as_it_is_and_is_named_by_chat(bot: Bot) -> None:
    outcome = await bot.send("Use price_list *today and ask for dr_ana [here <b>")
    (shown,) = bot.twin.shown(MARIA)
    assert shown.text == "Use price_list *today and ask for dr_ana [here <b>"
    assert outcome == Accepted(provider_id=f"{MARIA.id}:{shown.id}", taken_at=NOON)
    (request,) = bot.twin.requests
    assert "parse_mode" not in request
    assert request["link_preview_options"] == {"is_disabled": True}


async def test_two_chats_may_have_messages_of_one_number_and_their_names_differ(bot: Bot) -> None:
    other = Person(id=710_000_013)
    await bot.twin.write(other, "Hello")
    one, two = await bot.send(), await bot.send(user_id=str(other.id))
    assert isinstance(one, Accepted)
    assert isinstance(two, Accepted)
    assert bot.twin.delivered[0].id == bot.twin.delivered[1].id
    assert one.provider_id != two.provider_id


async def test_buttons_stand_under_the_last_part_only(bot: Bot) -> None:
    whole = claimed("First.", "Second?", buttons=BUTTONS, channel="telegram")
    for part in (1, 2):
        await bot.channel.send(replace(whole, part=part), key="out_1")
    first, second = bot.twin.shown(MARIA)
    assert (first.text, first.buttons) == ("First.", ())
    assert second.buttons == (("pa:1:1:confirm", "Confirm"), ("pa:1:1:cancel", "Cancel"))


async def test_more_than_two_buttons_take_more_rows(bot: Bot) -> None:
    await bot.send(buttons=[{"id": str(n), "title": str(n)} for n in range(5)])
    rows = bot.twin.requests[0]["reply_markup"]["inline_keyboard"]
    assert [len(row) for row in rows] == [2, 2, 1]


OURS = [
    *(pending.Button(action=ActionId(UUID(int=2**128 - 1)), step=9999, press=press).encode() for press in pending.Press),
    *(reminder.Button(reminder=UUID(int=2**128 - 1), press=press).encode() for press in reminder.Press),
]  # fmt: skip


@pytest.mark.parametrize("data", OURS)
async def test_our_longest_buttons_fit(bot: Bot, data: str) -> None:
    assert len(data.encode()) <= BUTTON_BYTES_MAX
    assert isinstance(await bot.send(buttons=[{"id": data, "title": "Yes"}]), Accepted)


# What its answers mean

ERRORS = [
    (429, "Too Many Requests: retry after 7", {"retry_after": 7}, Throttled, None),
    (400, "Bad Request: chat not found", {}, Refused, Trouble.RECIPIENT),
    (400, "Bad Request: PEER_ID_INVALID", {}, Refused, Trouble.RECIPIENT),
    (400, "Bad Request: message is too long", {}, Refused, Trouble.OUR_BUG),
    (400, "Bad Request: BUTTON_DATA_INVALID", {}, Refused, Trouble.OUR_BUG),
    (401, "Unauthorized", {}, AccountRefused, None),
    (404, "Not Found", {}, AccountRefused, None),
    (403, "Forbidden: bot was blocked by the user", {}, Refused, Trouble.RECIPIENT),
    (403, "Forbidden: user is deactivated", {}, Refused, Trouble.RECIPIENT),
    (500, "Internal Server Error", {}, Throttled, None),
    (502, "Bad Gateway", {}, Throttled, None),
]


@pytest.mark.parametrize(
    ("code", "description", "parameters", "kind", "trouble"), ERRORS, ids=[row[1] for row in ERRORS]
)
async def test_an_error_is_what_must_be_done_about_it(bot: Bot, code: int, description: str, parameters: dict[str, int], kind: type[Outcome], trouble: Trouble | None) -> None:  # fmt: skip
    bot.twin.faults.append(Fault(status=code, body=error(code, description, **parameters)))
    outcome = await bot.send()
    assert type(outcome) is kind
    assert getattr(outcome, "trouble", None) is trouble
    assert bot.twin.shown(MARIA) == []


async def test_a_wait_that_telegram_asks_for_holds_for_the_whole_bot(bot: Bot) -> None:
    bot.twin.faults.append(too_many(7))
    outcome = await bot.send()
    assert isinstance(outcome, Throttled)
    assert (outcome.retry_after, outcome.whole_account) == (timedelta(seconds=7), True)
    assert isinstance(await bot.send(), Accepted)


async def test_who_blocked_the_bot_can_not_be_reached(bot: Bot) -> None:
    await bot.twin.block(MARIA)
    outcome = await bot.send()
    assert isinstance(outcome, Refused)
    assert outcome.trouble is Trouble.RECIPIENT


async def test_nobody_can_be_written_to_first(bot: Bot) -> None:
    outcome = await bot.send(user_id="710000099")
    assert isinstance(outcome, Refused)
    assert outcome.trouble is Trouble.RECIPIENT


@pytest.mark.parametrize("user_id", ["+40700000012", "-1001", "@maria", "٧", ""])
async def test_what_is_no_telegram_id_is_not_sent_to(bot: Bot, user_id: str) -> None:
    assert isinstance(await bot.send(user_id=user_id), Refused)
    assert bot.twin.requests == []


async def test_a_cut_after_it_was_taken_leaves_the_outcome_open(bot: Bot) -> None:
    bot.twin.faults.append(Fault(cuts=True, takes=True))
    assert isinstance(await bot.send(), NoAnswer)
    assert len(bot.twin.shown(MARIA)) == 1


async def test_a_port_that_nobody_listens_on_took_nothing(bot: Bot) -> None:
    async with serving(bot.twin.app) as url:
        pass
    async with channel_to(url, bot.known) as channel:
        assert isinstance(await channel.send(claimed(channel="telegram"), key="k"), Throttled)


@pytest.mark.parametrize(
    "answer",
    [
        PlainTextResponse("<html>", status_code=502),
        PlainTextResponse("<html>", status_code=200),
        PlainTextResponse("nginx", status_code=404),
        JSONResponse(["ok"]),
        JSONResponse({"ok": "yes"}),
        PlainTextResponse(b"\xff\xfe", status_code=200),
    ],
    ids=["502 of a proxy", "a page", "404 of a proxy", "a list", "no boolean", "no text"],
)
async def test_an_answer_that_is_not_telegram_s_leaves_the_outcome_open(
    served: Served, answer: Response
) -> None:
    async with odd(served, answer) as channel:
        assert isinstance(await channel.send(claimed(channel="telegram"), key="k"), NoAnswer)


@pytest.mark.parametrize("result", [True, {}, {"message_id": "7"}, {"message_id": 7, "date": 10**18}])
async def test_a_send_that_was_taken_is_sent_whatever_is_said_of_it(served: Served, result: object) -> None:
    async with odd(served, JSONResponse({"ok": True, "result": result})) as channel:
        assert isinstance(await channel.send(claimed(channel="telegram"), key="k"), Accepted)


@pytest.mark.parametrize("after", [0, -4, "7", 1.5, None, True])
async def test_a_wait_that_is_none_is_a_second(served: Served, after: object) -> None:
    body = {"ok": False, "error_code": 429, "description": "x", "parameters": {"retry_after": after}}
    async with odd(served, JSONResponse(body, status_code=429)) as channel:
        outcome = await channel.send(claimed(channel="telegram"), key="k")
    assert isinstance(outcome, Throttled)
    assert outcome.retry_after == timedelta(seconds=1)


@asynccontextmanager
async def odd(served: Served, answer: Response) -> AsyncIterator[TelegramChannel]:
    """A channel whose provider always answers so."""

    async def same(_: Request) -> Response:
        return answer

    app = Starlette(routes=[Route("/{path:path}", same, methods=["POST"])])
    async with served.serving(app) as url, channel_to(url, known()) as channel:
        yield channel


async def test_without_a_token_the_account_is_at_fault_and_without_a_database_nobody(bot: Bot) -> None:
    bot.known.away = True
    assert isinstance(await bot.send(), Throttled)
    bot.known.away = False
    bot.known.found = address("telegram")
    assert isinstance(await bot.send(), AccountRefused)
    bot.known.found = None
    assert isinstance(await bot.send(), AccountRefused)


# Courtesies


async def test_a_press_stops_waiting_and_its_buttons_go(bot: Bot) -> None:
    await bot.send("Book it?", buttons=BUTTONS)
    (shown,) = bot.twin.shown(MARIA)
    press = await bot.twin.press(MARIA, shown, "Confirm")
    await bot.courtesy(CourtesyKind.PRESSED, press, f"{MARIA.id}:{shown.id}")
    assert [one["method"] for one in bot.twin.side_calls] == ["answerCallbackQuery", "editMessageReplyMarkup"]
    assert bot.twin.side_calls[0]["callback_query_id"] == press
    assert "reply_markup" not in bot.twin.messages[MARIA.id, int(shown.id)]


async def test_a_press_too_old_to_be_acknowledged_loses_its_buttons_all_the_same(bot: Bot) -> None:
    await bot.send("Book it?", buttons=BUTTONS)
    (shown,) = bot.twin.shown(MARIA)
    await bot.courtesy(CourtesyKind.PRESSED, "too old", f"{MARIA.id}:{shown.id}")
    assert "reply_markup" not in bot.twin.messages[MARIA.id, int(shown.id)]


@pytest.mark.parametrize("quoted", [None, "", "elsewhere", "7", "a:b", "7:", "7:-1"])
async def test_a_press_of_nobody_knows_which_message_is_acknowledged(bot: Bot, quoted: str | None) -> None:
    await bot.courtesy(CourtesyKind.PRESSED, "9", quoted)
    assert [one["method"] for one in bot.twin.side_calls] == ["answerCallbackQuery"]


async def test_typing_is_shown_where_the_answer_will_be(bot: Bot) -> None:
    await bot.courtesy(CourtesyKind.TYPING)
    assert bot.twin.side_calls == [{"method": "sendChatAction", "chat_id": str(MARIA.id), "action": "typing"}]


# The account


async def test_a_probe_says_who_the_bot_is_and_where_its_updates_go(bot: Bot) -> None:
    assert bot.known.found is not None
    probed = await bot.channel.probe(bot.known.found)
    assert (probed.works, "has no webhook" in probed.said) == (False, True)
    assert await bot.channel.set_webhook(
        bot.known.found, "https://clinic.test/hooks/telegram/clinic"
    ) == Probed(works=True, said="Telegram posts updates to the webhook")
    assert (bot.twin.webhook, bot.twin.secret) == ("https://clinic.test/hooks/telegram/clinic", SECRET)
    assert bot.twin.allowed == ("message", "edited_message", "callback_query", "my_chat_member")
    probed = await bot.channel.probe(bot.known.found)
    assert probed == Probed(
        works=True, said="@twin_bot; webhook https://clinic.test/hooks/telegram/clinic, 1 updates wait"
    )


async def test_a_probe_tells_what_keeps_updates_away(bot: Bot) -> None:
    assert bot.known.found is not None
    await bot.channel.set_webhook(bot.known.found, "http://127.0.0.1:9/hooks/telegram/clinic")
    await bot.twin.write(MARIA, "Anybody there?")
    probed = await bot.channel.probe(bot.known.found)
    assert (probed.works, "last error: Connection refused" in probed.said) == (False, True)
    polls = known(polling=True).found
    assert polls is not None
    probed = await bot.channel.probe(polls)
    assert (probed.works, "until it is deleted" in probed.said) == (False, True)
    assert (await bot.channel.delete_webhook(polls)).works
    probed = await bot.channel.probe(polls)
    assert probed == Probed(works=True, said="@twin_bot; its updates are fetched, 2 wait")


async def test_a_probe_knows_a_wrong_token_and_another_bot_s(bot: Bot) -> None:
    found = bot.known.found
    assert found is not None
    wrong = replace(found, secrets=Secrets(outbound=SecretStr("710000900:wrong")))
    probed = await bot.channel.probe(wrong)
    assert (probed.works, "@BotFather" in probed.said) == (False, True)
    probed = await bot.channel.probe(replace(found, settings=Telegram(bot_id="1")))
    assert (probed.works, probed.said) == (False, "the token is of another bot: @twin_bot")


@pytest.mark.parametrize("secret", ["", "whsec_a+b/c=", "ă", "x" * 257])
async def test_a_secret_that_telegram_would_refuse_is_not_sent(bot: Bot, secret: str) -> None:
    probed = await bot.channel.set_webhook(
        address("telegram", inbound=(secret,), outbound=TOKEN), "https://x.test"
    )
    assert (probed.works, bot.twin.webhook) == (False, "")


async def test_a_webhook_without_https_is_refused_in_telegram_s_words(bot: Bot) -> None:
    assert bot.known.found is not None
    probed = await bot.channel.set_webhook(bot.known.found, "http://clinic.test/x")
    assert (probed.works, "HTTPS URL must be provided" in probed.said) == (False, True)


# The token


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    """Whatever a test sets up of the process's logs is undone."""
    loggers = [logging.getLogger(name) for name in ("httpx2", "httpcore2", "aiormq")]
    levels, before = [one.level for one in loggers], structlog.get_config()
    yield
    for one, level in zip(loggers, levels, strict=True):
        one.setLevel(level)
    structlog.configure(**before)
    structlog.contextvars.clear_contextvars()


@pytest.mark.usefixtures("logs_as_before")
@pytest.mark.parametrize("level", ["debug", "info"])
async def test_no_log_and_no_reason_ever_holds_the_token(
    bot: Bot, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The HTTP client logs every URL at INFO, whatever our level: its logs are kept quiet where ours are set up."""
    with caplog.at_level(logging.DEBUG):
        configure_logs(level=level, service="test")
        logging.getLogger("httpx2").info("heard?")
        outcomes = [await bot.send()]
        for fault in (Fault(status=401, body=error(401, "Unauthorized")), Fault(cuts=True)):
            bot.twin.faults.append(fault)
            outcomes.append(await bot.send())
        async with channel_to("http://127.0.0.1:9", bot.known) as channel:
            outcomes.append(await channel.send(claimed(channel="telegram"), key="k"))
        bot.known.found = address("telegram", outbound="1:a\nb")
        outcomes.append(await bot.send())
    assert "heard?" not in caplog.text
    assert TOKEN not in caplog.text + repr(outcomes)
    assert isinstance(outcomes[-1], AccountRefused)
