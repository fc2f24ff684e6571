"""WhatsApp's twin: one number on the Cloud API (developers.facebook.com, as of November 2026), and the people who write to it.

It checks what the API checks and answers with its codes. A message that was taken may still fail later, by a status;
statuses are posted when somebody says so, in any order. An id in place of a number is answered with 200, and nobody gets it,
as it is with the real one.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leeway.twins.twin import Delivered, Fault, Twin
from leeway.twins.whatsapp_checks import ApiError, recipient_of, shown
from shared.clock import Clock

WINDOW: Final = timedelta(hours=24)
MESSAGES_IN_POST_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody with WhatsApp: by number and id, or, where the number is hidden, by the id alone."""

    id: str
    number: str | None = None  # without a plus, as the API states it
    name: str = "Ana"

    def contact(self) -> dict[str, Any]:
        stated = {"wa_id": self.number} if self.number else {}
        return {"profile": {"name": self.name}, "user_id": self.id, **stated}

    def sender(self) -> dict[str, Any]:
        return {"from_user_id": self.id} | ({"from": self.number} if self.number else {})


def api_fault(code: int, *, status: int = 400, message: str = "refused") -> Fault:
    """The next send is answered with this error."""
    return Fault(status=status, body=ApiError(code, message, status=status).body())


class WhatsAppTwin(Twin):
    """One number. `webhook` is the account's URL of ours; `display_number` has no plus, as the API states it."""

    def __init__(
        self,
        *,
        clock: Clock,
        webhook: str,
        app_secret: str,
        access_token: str,
        phone_number_id: str = "900000000000001",
        display_number: str = "40700000100",
    ) -> None:
        super().__init__(webhook=webhook)
        self._clock = clock
        self._secret = app_secret
        self.access_token = access_token
        self.phone_number_id = phone_number_id
        self.display_number = display_number
        self.media: dict[str, tuple[str, bytes]] = {}  # type and content
        self._people: dict[str, Person] = {}  # by number and by id
        self._wrote: dict[str, datetime] = {}  # when each id last wrote
        self._made = 0

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/{version}/{id}/messages", self._messages, methods=["POST"]),
                Route("/media/{id}", self._content),
                Route("/{version}/{id}", self._object),
            ]
        )

    def shown(self, person: Person) -> list[Delivered]:
        """What a person's telephone shows of the business's."""
        return [one for one in self.delivered if one.to == person.id]

    # What people do

    async def write(self, person: Person, text: str, *, quotes: Delivered | None = None) -> str:
        """A text of theirs. Its id."""
        context = {"context": {"from": self.display_number, "id": quotes.id}} if quotes else {}
        return await self.does(person, {"type": "text", "text": {"body": text}, **context})

    async def press(self, person: Person, delivered: Delivered, title: str) -> str:
        """A button under one of the business's messages."""
        button = next(id_ for id_, label in delivered.buttons if label == title)
        reply = {"type": "button_reply", "button_reply": {"id": button, "title": title}}
        context = {"from": self.display_number, "id": delivered.id}
        return await self.does(person, {"type": "interactive", "interactive": reply, "context": context})

    async def send_media(self, person: Person, kind: str, mime: str, content: bytes, **more: Any) -> str:
        """A voice note (`audio`), a picture (`image`), …; `more` are fields of the API, as `caption`."""
        media = str(700_000_000_000_000 + len(self.media))
        self.media[media] = (mime, content)
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        return await self.does(
            person, {"type": kind, kind: {"id": media, "mime_type": mime, "sha256": digest, **more}}
        )

    async def edit(self, person: Person, message: str, text: str) -> str:
        changed = {"original_message_id": message, "message": {"type": "text", "text": {"body": text}}}
        return await self.does(person, {"type": "edit", "edit": changed})

    async def revoke(self, person: Person, message: str) -> str:
        return await self.does(person, {"type": "revoke", "revoke": {"original_message_id": message}})

    async def does(self, person: Person, message: Mapping[str, Any]) -> str:
        """Any message of theirs, by the API's fields. Its id."""
        made = self.message_of(person, message)
        await self.deliver([(person, made)])
        return str(made["id"])

    def message_of(self, person: Person, message: Mapping[str, Any]) -> dict[str, Any]:
        """A message with sender, id and time, not yet delivered."""
        self._people |= {known: person for known in (person.id, person.number) if known}
        self._wrote[person.id] = self._clock.now()
        return {**person.sender(), "id": self._id(), "timestamp": self._now(), **message}

    async def deliver(self, messages: Sequence[tuple[Person, Mapping[str, Any]]]) -> httpx2.Response:
        """Messages in one POST, as the API batches them. Our answer."""
        assert len(messages) <= MESSAGES_IN_POST_MAX, "so many come in one POST at most"
        people = {person.id: person for person, _ in messages}
        value = {
            "contacts": [person.contact() for person in people.values()],
            "messages": [message for _, message in messages],
        }
        return await self.notify("messages", value)

    async def owner_writes(self, person: Person, text: str) -> str:
        """The owner answers from the telephone: an echo."""
        to = {"to_user_id": person.id} | ({"to": person.number} if person.number else {})
        echo = {"from": self.display_number, **to, "id": self._id(), "timestamp": self._now()}
        await self.notify(
            "smb_message_echoes", {"message_echoes": [echo | {"type": "text", "text": {"body": text}}]}
        )
        return str(echo["id"])

    async def status(self, delivered: Delivered, status: str, *, error: int | None = None) -> httpx2.Response:
        """What became of a send: sent, delivered, read, failed. A failure comes without contacts, as from the real one."""
        person = self._people[delivered.to]
        said: dict[str, Any] = {"id": delivered.id, "status": status, "timestamp": self._now()}
        if delivered.correlation:
            said["biz_opaque_callback_data"] = delivered.correlation
        if person.number:
            said["recipient_id"] = person.number
        if status == "failed":
            said["errors"] = [{"code": error or 131000, "title": "failed"}]
            return await self.notify("messages", {"statuses": [said]})
        return await self.notify("messages", {"contacts": [person.contact()], "statuses": [said]})

    async def notify(self, field: str, value: Mapping[str, Any]) -> httpx2.Response:
        """One change, posted with the app's signature."""
        metadata = {"display_phone_number": self.display_number, "phone_number_id": self.phone_number_id}
        change = {"field": field, "value": {"messaging_product": "whatsapp", "metadata": metadata, **value}}
        content = {
            "object": "whatsapp_business_account",
            "entry": [{"id": "800000000000001", "changes": [change]}],
        }
        body = json.dumps(content).encode()  # with \\u escapes, as the real one
        signature = hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"content-type": "application/json", "x-hub-signature-256": f"sha256={signature}"}
        return await self.post(body, headers)

    # What the business asks for

    async def _messages(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        asked: dict[str, Any] = json.loads(await request.body())
        if "status" in asked:  # read, and typing
            self.side_calls.append(asked)
            return JSONResponse({"success": True})
        self.requests.append(asked)
        taken: dict[str, Any] = {}
        if not self.faults or self.faults[0].takes:
            try:
                taken = self._take(asked)
            except ApiError as error:
                return JSONResponse(error.body(), status_code=error.status)
        fault, instead = await self.meet_fault()
        return instead if fault and instead else JSONResponse(taken)

    def _take(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        named, is_id = recipient_of(asked)
        text, buttons, template = shown(asked)
        wamid = self._id()
        answer = {
            "messaging_product": "whatsapp",
            "contacts": [
                {"input": named} | ({"user_id": named} if is_id else {"wa_id": named.removeprefix("+")})
            ],
            "messages": [{"id": wamid}],
        }
        person = self._people.get(named.removeprefix("+"))
        if not is_id and not named.startswith("+"):
            return answer  # an id where a number belongs: 200, and nobody gets it
        if person is None:
            raise ApiError(131026, "Message undeliverable")
        if template is None and self._clock.now() - self._wrote[person.id] > WINDOW:
            raise ApiError(131047, "Re-engagement message")
        self.delivered.append(
            Delivered(
                id=wamid,
                to=person.id,
                text=text,
                buttons=buttons,
                correlation=asked.get("biz_opaque_callback_data"),
                template=template,
            )
        )
        return answer

    async def _object(self, request: Request) -> Response:
        """The number itself, or where a media's content is."""
        if (refused := self._refused(request, any_id=True)) is not None:
            return refused
        id_ = request.path_params["id"]
        if id_ == self.phone_number_id:
            return JSONResponse(
                {"display_phone_number": f"+{self.display_number}", "verified_name": "Twin", "id": id_}
            )
        if id_ not in self.media:
            return JSONResponse(ApiError(100, "Unsupported get request", status=400).body(), status_code=400)
        mime, content = self.media[id_]
        url = f"{request.base_url}media/{id_}"
        return JSONResponse({"id": id_, "url": url, "mime_type": mime, "file_size": len(content)})

    async def _content(self, request: Request) -> Response:
        if (refused := self._refused(request, any_id=True)) is not None:
            return refused
        if request.path_params["id"] not in self.media:
            return Response(status_code=404)
        mime, content = self.media[request.path_params["id"]]
        return Response(content, media_type=mime)

    def _refused(self, request: Request, *, any_id: bool = False) -> Response | None:
        error = None
        if request.headers.get("authorization") != f"Bearer {self.access_token}":
            error = ApiError(190, "Invalid OAuth access token", status=401)
        elif not any_id and request.path_params["id"] != self.phone_number_id:
            error = ApiError(100, "Unsupported post request")
        return JSONResponse(error.body(), status_code=error.status) if error else None

    def _id(self) -> str:
        self._made += 1
        return f"wamid.TWIN{self.phone_number_id[-4:]}{self._made:08}"

    def _now(self) -> str:
        return str(int(self._clock.now().timestamp()))
