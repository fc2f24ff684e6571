"""Telegram's twin: a bot's side of the Bot API 10.3 (core.telegram.org/bots/api), and the people who write to the bot.

Updates are posted to the webhook with its secret token, or wait to be fetched, never both. People know the bot once they wrote.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leeway.twins.telegram_updates import ApiError, TelegramUpdates, error
from leeway.twins.twin import Delivered, Fault
from shared.clock import Clock

TEXT_UNITS_MAX: Final = 4096  # of UTF-16
BUTTON_BYTES_MAX: Final = 64
FILE_BYTES_MAX: Final = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody with Telegram."""

    id: int
    first_name: str = "Ana"
    language_code: str = "en"

    def as_user(self) -> dict[str, Any]:
        return {"is_bot": False, "id": self.id, "first_name": self.first_name, "language_code": self.language_code}  # fmt: skip

    def chat(self) -> dict[str, Any]:
        return {"id": self.id, "type": "private", "first_name": self.first_name}


def too_many(seconds: int) -> Fault:
    """The next send comes too fast."""
    said = f"Too Many Requests: retry after {seconds}"
    return Fault(status=429, body=error(429, said, retry_after=seconds))


class TelegramTwin(TelegramUpdates):
    """One bot. `clock` stamps messages; without a `webhook` updates wait until they are fetched."""

    def __init__(
        self, *, clock: Clock, token: str, webhook: str = "", secret: str = "", username: str = "twin_bot"
    ) -> None:
        super().__init__(webhook=webhook, secret=secret)
        self._clock = clock
        self.token = token
        self.bot = {"id": int(token.partition(":")[0]), "is_bot": True, "first_name": "Twin", "username": username}  # fmt: skip
        self.blocked: set[int] = set()
        self.messages: dict[tuple[int, int], dict[str, Any]] = {}  # by chat and number
        self.files: dict[str, bytes] = {}
        self._known: set[int] = set()
        self._open_presses: set[str] = set()
        self._next_press = 4_382_000_000_000_001

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/bot{token}/{method}", self._call, methods=["GET", "POST"]),
                Route("/file/bot{token}/{path:path}", self._download),
            ]
        )

    def shown(self, person: Person) -> list[Delivered]:
        """What a person's telephone shows of the bot's."""
        return [one for one in self.delivered if one.to == str(person.id)]

    # What people do

    async def write(self, person: Person, text: str | None = None, **more: Any) -> dict[str, Any]:
        """A message of theirs in the private chat; `more` are fields of the Bot API. The message."""
        self._known.add(person.id)
        fields = more if text is None else {"text": text, **more}
        message = self._message(person.chat(), person.as_user(), fields)
        await self.happens("message", message)
        return message

    async def edit(self, person: Person, number: int, text: str) -> None:
        message = self.messages[person.id, number]
        message |= {"text": text, "edit_date": self._now()}
        await self.happens("edited_message", message)

    async def press(self, person: Person, delivered: Delivered, title: str) -> str:
        """A button under one of the bot's messages. The press's id."""
        data = next(button for button, label in delivered.buttons if label == title)
        return await self.press_forged(person, data, message=self.messages[person.id, int(delivered.id)])

    async def press_forged(
        self, person: Person, data: str, *, message: Mapping[str, Any] | None = None
    ) -> str:
        """A press with data of the client's own making, as a modified client sends it."""
        press = str(self._next_press)
        self._next_press += 1
        self._open_presses.add(press)
        query = {"id": press, "from": person.as_user(), "chat_instance": "-6001", "data": data}
        await self.happens("callback_query", query | ({"message": dict(message)} if message else {}))
        return press

    async def share_contact(self, person: Person, phone: str, *, owner: int | None) -> None:
        """A card; `owner` is who has that number on Telegram. The number comes without its plus."""
        card = {"phone_number": phone.removeprefix("+"), "first_name": person.first_name}
        await self.write(person, contact=card | ({"user_id": owner} if owner else {}))

    async def say_in_group(self, person: Person, text: str) -> None:
        chat = {"id": -1_001_234_567_890, "type": "supergroup", "title": "Family"}
        await self.happens("message", self._message(chat, person.as_user(), {"text": text}))

    async def block(self, person: Person) -> None:
        self.blocked.add(person.id)
        await self._membership(person, "member", "kicked")

    async def unblock(self, person: Person) -> None:
        self.blocked.discard(person.id)
        await self._membership(person, "kicked", "member")

    async def _membership(self, person: Person, before: str, after: str) -> None:
        change = {"old_chat_member": {"status": before}, "new_chat_member": {"status": after}}
        about = {"chat": person.chat(), "from": person.as_user(), "date": self._now()}
        await self.happens("my_chat_member", about | change)

    def _message(
        self, chat: dict[str, Any], sender: Mapping[str, Any], fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        number = 1 + max((n for c, n in self.messages if c == chat["id"]), default=10)
        message = {"message_id": number, "date": self._now(), "chat": chat, "from": dict(sender), **fields}
        self.messages[chat["id"], number] = message
        return message

    def _now(self) -> int:
        return int(self._clock.now().timestamp())

    # What the bot asks for

    async def _call(self, request: Request) -> Response:
        if request.path_params["token"] != self.token:
            return ApiError(401, "Unauthorized").answer()
        method = request.path_params["method"]
        asked = {**request.query_params, **(json.loads(await request.body() or b"{}"))}
        if method == "sendMessage":
            return await self._send(asked)
        answers = {
            "getMe": self._get_me,
            "getUpdates": self.get_updates,
            "setWebhook": self.set_webhook,
            "deleteWebhook": self.delete_webhook,
            "getWebhookInfo": self.webhook_info,
            "answerCallbackQuery": self._answer_press,
            "editMessageReplyMarkup": self._edit_markup,
            "sendChatAction": self._chat_action,
            "getFile": self._get_file,
        }
        if method not in answers:
            return ApiError(404, "Not Found").answer()
        try:
            return JSONResponse({"ok": True, "result": await answers[method](asked)})
        except ApiError as refused:
            return refused.answer()

    async def _send(self, asked: Mapping[str, Any]) -> Response:
        self.requests.append(asked)
        if not self.faults or self.faults[0].takes:
            try:
                sent = self._take(asked)
            except ApiError as refused:
                return refused.answer()
        fault, instead = await self.meet_fault()
        return instead if fault and instead else JSONResponse({"ok": True, "result": sent})

    def _take(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        chat, text = self._chat(asked), asked.get("text")
        if not isinstance(text, str) or not text.strip():
            raise ApiError(400, "Bad Request: message text is empty")
        if len(text.encode("utf-16-le")) // 2 > TEXT_UNITS_MAX:
            raise ApiError(400, "Bad Request: message is too long")
        markup = asked.get("reply_markup")
        buttons = [one for row in (markup or {}).get("inline_keyboard", ()) for one in row]
        if not all(0 < len(one["callback_data"].encode()) <= BUTTON_BYTES_MAX for one in buttons):
            raise ApiError(400, "Bad Request: BUTTON_DATA_INVALID")
        sent = self._message(
            {"id": chat, "type": "private"},
            self.bot,
            {"text": text} | ({"reply_markup": markup} if markup else {}),
        )
        titles = tuple((one["callback_data"], one["text"]) for one in buttons)
        self.delivered.append(Delivered(id=str(sent["message_id"]), to=str(chat), text=text, buttons=titles))
        return sent

    def _chat(self, asked: Mapping[str, Any]) -> int:
        chat = int(asked.get("chat_id", 0))
        if chat in self.blocked:
            raise ApiError(403, "Forbidden: bot was blocked by the user")
        if chat not in self._known:
            raise ApiError(400, "Bad Request: chat not found")
        return chat

    async def _get_me(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return self.bot

    async def _answer_press(self, asked: Mapping[str, Any]) -> bool:
        self.side_calls.append({"method": "answerCallbackQuery", **asked})
        if asked.get("callback_query_id") not in self._open_presses:
            raise ApiError(400, "Bad Request: query is too old and response timeout expired or query ID is invalid")  # fmt: skip
        self._open_presses.discard(asked["callback_query_id"])
        return True

    async def _edit_markup(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        self.side_calls.append({"method": "editMessageReplyMarkup", **asked})
        message = self.messages.get((int(asked.get("chat_id", 0)), int(asked.get("message_id", 0))))
        if message is None or message["from"] != self.bot:
            raise ApiError(400, "Bad Request: message to edit not found")
        if message.get("reply_markup") == asked.get("reply_markup"):
            raise ApiError(400, "Bad Request: message is not modified")
        message.pop("reply_markup", None)
        if asked.get("reply_markup"):
            message["reply_markup"] = asked["reply_markup"]
        return message

    async def _chat_action(self, asked: Mapping[str, Any]) -> bool:
        self.side_calls.append({"method": "sendChatAction", **asked})
        self._chat(asked)
        return True

    async def _get_file(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        file = str(asked.get("file_id"))
        if file not in self.files:
            raise ApiError(400, "Bad Request: invalid file_id")
        size = len(self.files[file])
        if size > FILE_BYTES_MAX:
            raise ApiError(400, "Bad Request: file is too big")
        return {"file_id": file, "file_unique_id": file[:16], "file_size": size, "file_path": f"files/{file}"}

    async def _download(self, request: Request) -> Response:
        content = self.files.get(request.path_params["path"].removeprefix("files/"))
        if request.path_params["token"] != self.token or content is None:
            return ApiError(404, "Not Found").answer()
        return Response(content, media_type="application/octet-stream")
