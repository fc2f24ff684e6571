"""Telegram on its way out, by the Bot API 10.3 (core.telegram.org/bots/api).

Texts go without parse_mode, so that no word of a model's can break them. Telegram takes no idempotency key and reports nothing
later: a send without an answer is known by a press of its buttons, or by a person. The token is in every URL: no address is ever
part of a reason or a log line.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx2
import msgspec

from services.dispatch.adapters.channels.calling import call, client, object_in, with_secret
from services.dispatch.core.outcome import Accepted, AccountRefused, NoAnswer, Outcome, Refused, Throttled
from services.dispatch.core.troubles import outcome_of
from services.dispatch.ports import Address, Addresses, Claimed, Courtesy, CourtesyKind, Probed
from shared.channels.accounts import Telegram
from shared.channels.telegram import ALLOWED_UPDATES, message_name, read_message_name
from shared.channels.troubles import Trouble

BUTTONS_IN_ROW: Final = 2
WEBHOOK_CONNECTIONS: Final = 1  # keeps the order of what a customer writes within one second
RETRY_AFTER_MAX_S: Final = 86_400
TIME_MAX_S: Final = 2**33
SAID_CHARS_MAX: Final = 200

_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")  # what setWebhook takes as secret_token
_NOT_THERE: Final = ("chat not found", "user not found", "peer_id_invalid", "chat_id_invalid")
_TELEGRAM_ITSELF: Final = range(500, 600)


@dataclass(frozen=True, slots=True)
class Said:
    """An answer of Telegram's: its result, or its error."""

    result: Any
    code: int  # 0: no error
    description: str
    retry_after: timedelta | None

    def why(self) -> str:
        return f"Telegram answered {self.code}: {self.description}"


class TelegramChannel:
    def __init__(self, addresses: Addresses, *, url: str, connections: int) -> None:
        self._addresses = addresses
        self._url = url
        self._client = client(connections=connections)

    async def close(self) -> None:
        await self._client.aclose()

    async def send(self, claimed: Claimed, *, key: str) -> Outcome:
        """`key` is not used: Telegram takes none."""
        address = await with_secret(self._addresses, claimed.account)
        if isinstance(address, Throttled):
            return address
        if address is None:
            return AccountRefused(reason="the channel account has no bot token")
        if not (claimed.user_id.isascii() and claimed.user_id.isdigit()):
            return Refused(reason="not an id of a Telegram user", trouble=Trouble.RECIPIENT)
        chat = int(claimed.user_id)
        said = await self._ask(address, "sendMessage", _message(claimed, chat))
        return _outcome(said, chat) if isinstance(said, Said) else said

    async def courtesy(self, courtesy: Courtesy) -> None:
        """Whatever comes of it: a press may be too old to be acknowledged, and its buttons go all the same."""
        address = await self._addresses.address(courtesy.account)
        if address is None or not address.secret:
            return
        match courtesy.kind:
            case CourtesyKind.TYPING:
                await self._ask(address, "sendChatAction", {"chat_id": courtesy.user_id, "action": "typing"})
            case CourtesyKind.PRESSED:
                await self._ask(address, "answerCallbackQuery", {"callback_query_id": courtesy.message_id})
                if (named := read_message_name(courtesy.quoted or "")) is not None:
                    chat, number = named
                    await self._ask(
                        address, "editMessageReplyMarkup", {"chat_id": chat, "message_id": number}
                    )

    async def probe(self, address: Address) -> Probed:
        """Who the token's bot is, and whether its updates come by webhook."""
        bot = await self._asked(address, "getMe")
        if isinstance(bot, Probed):
            return bot
        if isinstance(address.settings, Telegram) and str(bot.get("id")) != address.settings.bot_id:
            return Probed(works=False, said=f"the token is of another bot: @{bot.get('username')}")
        webhook = await self._asked(address, "getWebhookInfo")
        if isinstance(webhook, Probed):
            return webhook
        return _judged(address, str(bot.get("username")), webhook)

    async def set_webhook(self, address: Address, url: str) -> Probed:
        """Have Telegram post updates to this https URL with the account's current inbound secret. Never raises."""
        secret = address.secrets.inbound[0].get_secret_value() if address.secrets.inbound else ""
        if not _SECRET.fullmatch(secret):
            return Probed(
                works=False, said="the inbound secret must be 1 to 256 of A-Z, a-z, 0-9, _ and - for Telegram"
            )
        body = {
            "url": url,
            "secret_token": secret,
            "allowed_updates": ALLOWED_UPDATES,
            "max_connections": WEBHOOK_CONNECTIONS,
        }
        return _done(await self._ask(address, "setWebhook", body), "Telegram posts updates to the webhook")

    async def delete_webhook(self, address: Address) -> Probed:
        """Have Telegram keep updates until they are fetched; those that wait stay. Never raises."""
        return _done(await self._ask(address, "deleteWebhook", {}), "Telegram keeps updates to be fetched")

    async def _asked(self, address: Address, method: str) -> Mapping[str, Any] | Probed:
        """An object that Telegram answers with, or what it says instead."""
        said = await self._ask(address, method, {})
        if isinstance(said, Said) and said.code == 0:
            return said.result if isinstance(said.result, dict) else _UNREADABLE
        return _done(said, "")

    async def _ask(
        self, address: Address, method: str, body: Mapping[str, Any]
    ) -> Said | Throttled | NoAnswer:
        try:
            request = self._client.build_request(
                "POST",
                f"{self._url}/bot{address.secret}/{method}",
                content=msgspec.json.encode(body),
                headers={"content-type": "application/json"},
            )
        except (httpx2.InvalidURL, UnicodeError, ValueError):
            return Said(None, 401, "the bot token can't stand in a URL", None)
        answer = await call(self._client, request)
        if not isinstance(answer, httpx2.Response):
            return answer
        return _read(answer) or NoAnswer(reason=f"answered {answer.status_code}, and not by Telegram")


_UNREADABLE: Final = Probed(works=False, said="Telegram's answer can't be read")


def _message(claimed: Claimed, chat: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "chat_id": chat,
        "text": claimed.parts[claimed.part - 1],
        "link_preview_options": {"is_disabled": True},
    }
    if claimed.buttons and claimed.last_part:
        body["reply_markup"] = {"inline_keyboard": _keyboard(msgspec.json.decode(claimed.buttons))}
    return body


def _keyboard(buttons: list[Mapping[str, str]]) -> list[list[dict[str, str]]]:
    made = [{"text": one["title"], "callback_data": one["id"]} for one in buttons]
    return [made[at : at + BUTTONS_IN_ROW] for at in range(0, len(made), BUTTONS_IN_ROW)]


def _read(response: httpx2.Response) -> Said | None:
    """What Telegram said; None for an answer that is not of its form, as of something in between."""
    content = object_in(response)
    if not isinstance(content.get("ok"), bool):
        return None
    if content["ok"]:
        return Said(content.get("result"), 0, "", None)
    code = content.get("error_code")
    return Said(
        None,
        code if type(code) is int and code > 0 else response.status_code,
        str(content.get("description"))[:SAID_CHARS_MAX],
        _retry_after(content.get("parameters")),
    )


def _retry_after(parameters: object) -> timedelta | None:
    seconds = parameters.get("retry_after") if isinstance(parameters, dict) else None
    if type(seconds) is not int or seconds <= 0:
        return None
    return timedelta(seconds=min(seconds, RETRY_AFTER_MAX_S))


def _outcome(said: Said, chat: int) -> Outcome:
    if said.code == 0:
        result = said.result if isinstance(said.result, dict) else {}
        number, date = result.get("message_id"), result.get("date")
        return Accepted(
            provider_id=message_name(chat, number) if type(number) is int else None,
            taken_at=datetime.fromtimestamp(date, UTC)
            if isinstance(date, int) and 0 < date < TIME_MAX_S
            else None,
        )
    return outcome_of(_trouble(said), reason=said.why(), retry_after=said.retry_after)


def _trouble(said: Said) -> Trouble:
    """By the code, and of a 400 by its words: there is nothing else to tell it by."""
    if said.code == 429:
        return Trouble.RATE
    if said.code in (401, 404):  # a token out of form is a path that is not there
        return Trouble.CREDENTIALS
    if said.code == 403:  # blocked, deactivated, never started
        return Trouble.RECIPIENT
    if said.code in _TELEGRAM_ITSELF:
        return Trouble.BRIEFLY_DOWN
    there = any(words in said.description.lower() for words in _NOT_THERE)
    return Trouble.RECIPIENT if there else Trouble.OUR_BUG


def _done(said: Said | Throttled | NoAnswer, works: str) -> Probed:
    if not isinstance(said, Said):
        return Probed(works=False, said=f"Telegram could not be asked: {said.reason}")
    if said.code in (401, 404):
        return Probed(
            works=False, said="Telegram knows no such bot: copy the token from @BotFather once more"
        )
    return Probed(works=False, said=said.why()) if said.code else Probed(works=True, said=works)


def _judged(address: Address, bot: str, webhook: Mapping[str, Any]) -> Probed:
    """Whether updates reach us: a webhook and polling exclude each other."""
    url, trouble, waiting = (
        webhook.get("url"),
        webhook.get("last_error_message"),
        webhook.get("pending_update_count"),
    )
    polls = isinstance(address.settings, Telegram) and address.settings.polling
    if polls and url:
        return Probed(
            works=False, said=f"@{bot} has a webhook, {url}: nothing can be fetched until it is deleted"
        )
    if polls:
        return Probed(works=True, said=f"@{bot}; its updates are fetched, {waiting or 0} wait")
    if not url:
        return Probed(works=False, said=f"@{bot} has no webhook: set it, or let updates be fetched")
    about = f"@{bot}; webhook {url}, {waiting or 0} updates wait"
    return Probed(works=not trouble, said=f"{about}, last error: {trouble}" if trouble else about)
