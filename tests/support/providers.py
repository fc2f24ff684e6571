"""Stands for three providers at once, of every account: takes whatever is sent, gives it an id, remembers it.

For conversations over many businesses. What a provider checks, limits and refuses is the twins' (leeway/twins).
"""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One send as its provider was asked for it. `account` names ours: phone-number id, number, bot token."""

    account: str
    to: str
    text: str
    id: str
    buttons: tuple[tuple[str, str], ...] = ()  # id and title
    asked: Any = None


class Providers:
    """The Cloud API's messages, Twilio's Messages, Telegram's methods."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.side_calls: list[tuple[str, Any]] = []

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/{version}/{number}/messages", self._whatsapp, methods=["POST"]),
                Route("/2010-04-01/Accounts/{sid}/Messages.json", self._twilio, methods=["GET", "POST"]),
                Route("/bot{token}/{method}", self._telegram, methods=["GET", "POST"]),
            ]
        )

    def of(self, account: str) -> list[Sent]:
        """What one of our accounts sent, in order."""
        return [one for one in self.sent if one.account == account]

    def _keep(self, account: str, to: str, text: str, **more: Any) -> None:
        self.sent.append(Sent(account=account, to=to, text=text, **more))

    async def _whatsapp(self, request: Request) -> JSONResponse:
        asked = json.loads(await request.body())
        if "status" in asked:
            self.side_calls.append(("read", asked))
            return JSONResponse({"success": True})
        interactive = asked.get("interactive", {})
        buttons = [one["reply"] for one in interactive.get("action", {}).get("buttons", ())]
        text = interactive["body"]["text"] if interactive else asked["text"]["body"]
        id_ = f"wamid.OUT{len(self.sent)}"
        self._keep(
            request.path_params["number"], asked.get("to") or asked["recipient"], text,
            id=id_, buttons=tuple((one["id"], one["title"]) for one in buttons), asked=asked,
        )  # fmt: skip
        return JSONResponse({"messaging_product": "whatsapp", "contacts": [], "messages": [{"id": id_}]})

    async def _twilio(self, request: Request) -> JSONResponse:
        if request.method == "GET":
            return JSONResponse({"messages": [], "next_page_uri": None})
        asked = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
        id_ = f"SM{len(self.sent):032x}"
        self._keep(asked["From"], asked["To"], asked["Body"], id=id_, asked=asked)
        return JSONResponse(
            {"sid": id_, "status": "queued", "error_code": None, "num_segments": "1"}, status_code=201
        )

    async def _telegram(self, request: Request) -> JSONResponse:
        asked = json.loads(await request.body() or b"{}")
        method = request.path_params["method"]
        if method != "sendMessage":
            self.side_calls.append((method, asked))
            return JSONResponse({"ok": True, "result": True})
        number = 1_000 + len(self.sent)
        rows = asked.get("reply_markup", {}).get("inline_keyboard", ())
        buttons = tuple((one["callback_data"], one["text"]) for row in rows for one in row)
        self._keep(
            request.path_params["token"], str(asked["chat_id"]), asked["text"], id=str(number), buttons=buttons, asked=asked
        )  # fmt: skip
        chat = {"id": int(asked["chat_id"]), "type": "private"}
        return JSONResponse({"ok": True, "result": {"message_id": number, "date": 1, "chat": chat}})
