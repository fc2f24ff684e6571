"""The OpenAPI document of the webhooks, whose hot route FastAPI does not see."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from services.ingest.core.entrances import ENTRANCES
from services.ingest.core.generic import Event
from services.ingest.core.sim import SimMessage, SimStatus

Schema = Mapping[str, Any]

_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_TEXT: Final[Schema] = {"type": "string"}

_STANDARD: Final = (
    ("webhook-id", "Unique per message and the same over retries; no dot in it."),
    ("webhook-timestamp", "Unix seconds of this attempt; five minutes off at most."),
    ("webhook-signature", "Standard Webhooks v1: `v1,` and base64 of HMAC-SHA256 over `id.timestamp.body`."),
)
_META: Final = (
    ("x-hub-signature-256", "`sha256=` and the hex HMAC-SHA256 of the raw body by the app secret."),
)
_TWILIO: Final = (
    ("x-twilio-signature", "Base64 of the HMAC over the public URL and the sorted fields of the form."),
)
_BOT: Final = (("x-telegram-bot-api-secret-token", "The secret that the webhook was set with."),)
_HANDSHAKE: Final = ("hub.mode", "hub.verify_token", "hub.challenge")

_ANSWERS: Final = {
    "200": "Stored, or stored before, or nothing to store.",
    "400": "Not readable, or a header missing or outside its tolerance.",
    "401": "The signature is wrong.",
    "404": "No such channel account.",
    "405": "Not a method of this path.",
    "413": "The body is too large.",
    "503": "Not stored: deliver it again.",
}
_SHAKEN: Final = {
    "200": "The challenge, as text.",
    "403": "Another verify token, or no question of Meta's.",
    "404": "No such channel account.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One path as the document tells it."""

    channel: str
    summary: str
    headers: Sequence[tuple[str, str]]
    schema: Schema
    takes: str = _JSON
    below: str = ""
    handshake: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"/hooks/{self.channel}/{{account}}{self.below}"


def document(*, title: str, version: str) -> dict[str, Any]:
    """The whole of it."""
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": {hook.path: {"post": _post(hook), **hook.handshake} for hook in _hooks()},
    }


def _hooks() -> Sequence[Hook]:
    sim = _object(
        messages={"type": "array", "items": _of_model(SimMessage)},
        statuses={"type": "array", "items": _of_model(SimStatus)},
    )
    envelope = _object(object=_TEXT, entry={"type": "array", "items": {"type": "object"}})
    update = _object("update_id", update_id={"type": "integer", "minimum": 1})
    form = {"type": "object", "additionalProperties": _TEXT}
    return (
        Hook(
            channel="generic",
            summary="A message by the generic signed webhook.",
            headers=_STANDARD,
            schema=_of_model(Event),
        ),
        Hook(
            channel="sim",
            summary="Messages and statuses of a simulated telephone.",
            headers=_STANDARD,
            schema=sim,
        ),
        Hook(
            channel="whatsapp",
            summary="Messages, statuses and echoes of the WhatsApp Cloud API.",
            headers=_META,
            schema=envelope,
            handshake={"get": _handshake()},
        ),
        Hook(
            channel="twilio",
            summary="A message by Twilio: SMS, MMS or WhatsApp.",
            headers=_TWILIO,
            schema=form,
            takes=_FORM,
        ),
        Hook(
            channel="twilio",
            below="/status",
            summary="What became of a send by Twilio.",
            headers=_TWILIO,
            schema=form,
            takes=_FORM,
        ),
        Hook(channel="telegram", summary="An update of a Telegram bot.", headers=_BOT, schema=update),
    )


def _post(hook: Hook) -> dict[str, Any]:
    answered = ENTRANCES[hook.channel].content_type.decode().partition(";")[0]
    headers = [
        {"name": name, "in": "header", "required": True, "description": text, "schema": _TEXT}
        for name, text in hook.headers
    ]
    return {
        "summary": hook.summary,
        "parameters": [_account(), *headers],
        "requestBody": {"required": True, "content": {hook.takes: {"schema": hook.schema}}},
        "responses": _responses(_ANSWERS, answered),
    }


def _handshake() -> dict[str, Any]:
    asked = [{"name": name, "in": "query", "required": True, "schema": _TEXT} for name in _HANDSHAKE]
    return {
        "summary": "Meta's question whether this URL wants its webhooks.",
        "parameters": [_account(), *asked],
        "responses": _responses(_SHAKEN, "text/plain"),
    }


def _account() -> dict[str, Any]:
    return {"name": "account", "in": "path", "required": True, "schema": _TEXT}


def _responses(answers: Mapping[str, str], content_type: str) -> dict[str, Any]:
    return {
        status: {"description": text, "content": {content_type: {"schema": _TEXT}}} for status, text in answers.items()
    }  # fmt: skip


def _object(*required: str, **properties: Schema) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _of_model(model: Any) -> dict[str, Any]:
    """The model's JSON schema with its definitions put in place, so that the document needs no components."""
    schema: dict[str, Any] = model.model_json_schema(by_alias=True)
    definitions = schema.pop("$defs", {})

    def inlined(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return inlined(definitions[value["$ref"].rsplit("/", 1)[-1]])
            return {key: inlined(item) for key, item in value.items()}
        return [inlined(item) for item in value] if isinstance(value, list) else value

    result: dict[str, Any] = inlined(schema)
    return result
