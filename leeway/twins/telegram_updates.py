"""How updates reach a Telegram bot: posted to its webhook with the secret token, or waiting to be fetched, never both."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from starlette.responses import JSONResponse, Response

from leeway.twins.twin import Twin

UPDATES_MOST: Final = 100
FIRST_UPDATE: Final = 500_000_001
SECRET_HEADER: Final = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105  the header's public name in Telegram's documentation, not its value

_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")
_LOOPBACK: Final = "127.0.0.1"  # where a twin may be met without https
_HAS_WEBHOOK: Final = (
    "Conflict: can't use getUpdates method while webhook is active; "
    "use deleteWebhook to delete the webhook first"
)
_OTHER_FETCH: Final = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
)


class ApiError(Exception):
    """What a method answers with instead of its result."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(description)
        self.code = code

    def answer(self) -> Response:
        return JSONResponse(error(self.code, str(self)), status_code=self.code)


def error(code: int, description: str, **parameters: int) -> dict[str, Any]:
    """The body of an error."""
    body: dict[str, Any] = {"ok": False, "error_code": code, "description": description}
    return body | ({"parameters": parameters} if parameters else {})


class TelegramUpdates(Twin):
    """The updates of one bot, and the methods of the Bot API that are about them."""

    def __init__(self, *, webhook: str, secret: str) -> None:
        super().__init__(webhook=webhook)
        self.secret = secret
        self.allowed: tuple[str, ...] = ()  # kinds of updates; empty: all
        self.waiting: list[dict[str, Any]] = []  # updates nobody has taken yet, oldest first
        self._last_error: str | None = None
        self._next_update = FIRST_UPDATE
        self._arrived = asyncio.Event()
        self._fetching: asyncio.Event | None = None  # set: another fetch took over

    async def close(self) -> None:
        if self._fetching is not None:
            self._fetching.set()
            self._arrived.set()
        await super().close()

    async def happens(self, kind: str, item: Mapping[str, Any]) -> None:
        """An update: posted to the webhook, else it waits. One that is not answered with 2xx waits as well."""
        update = {"update_id": self._next_update, kind: dict(item)}
        self._next_update += 1
        if self.allowed and kind not in self.allowed:
            return
        self.waiting.append(update)
        self._arrived.set()
        if self.webhook:
            await self.deliver(update)

    async def deliver(self, update: Mapping[str, Any]) -> int:
        """Post an update, be it once more; the status of our answer, 0 for none."""
        body = json.dumps(update, ensure_ascii=False).encode()
        headers = {"content-type": "application/json"} | ({SECRET_HEADER: self.secret} if self.secret else {})
        try:
            answer = await self.post(body, headers)
        except httpx2.HTTPError:
            self._last_error = "Connection refused"
            return 0
        if answer.is_success:
            self.waiting = [one for one in self.waiting if one["update_id"] != update["update_id"]]
        else:
            self._last_error = f"Wrong response from the webhook: {answer.status_code}"
        return answer.status_code

    async def get_updates(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        if self.webhook:
            raise ApiError(409, _HAS_WEBHOOK)
        if self._fetching is not None:
            self._fetching.set()
            self._arrived.set()
        took_over = self._fetching = asyncio.Event()
        offset = int(asked.get("offset", 0))
        self.waiting = [one for one in self.waiting if one["update_id"] >= offset]
        self.allowed = tuple(asked.get("allowed_updates", self.allowed))
        try:
            async with asyncio.timeout(float(asked.get("timeout", 0))):
                while not self.waiting and not took_over.is_set():
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            pass
        if took_over.is_set():
            raise ApiError(409, _OTHER_FETCH)
        self._fetching = None
        return self.waiting[: min(int(asked.get("limit", UPDATES_MOST)), UPDATES_MOST)]

    async def set_webhook(self, asked: Mapping[str, Any]) -> bool:
        url, secret = str(asked.get("url", "")), str(asked.get("secret_token", ""))
        parts = urlsplit(url)
        if url and parts.scheme != "https" and parts.hostname != _LOOPBACK:
            raise ApiError(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
        if secret and not _SECRET.fullmatch(secret):
            raise ApiError(400, "Bad Request: secret token contains unallowed characters")
        self.webhook, self.secret = url, secret
        self.allowed = tuple(asked.get("allowed_updates", self.allowed))
        self._last_error = None
        return True

    async def delete_webhook(self, _: Mapping[str, Any]) -> bool:
        self.webhook = self.secret = ""
        return True

    async def webhook_info(self, _: Mapping[str, Any]) -> dict[str, Any]:
        info = {
            "url": self.webhook,
            "has_custom_certificate": False,
            "pending_update_count": len(self.waiting),
        }
        return info | ({"last_error_message": self._last_error} if self._last_error else {})
