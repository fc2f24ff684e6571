"""What the Cloud API checks of a send before it takes it, with its codes (messages/send-messages, support/error-codes)."""

import re
from collections.abc import Mapping
from typing import Any, Final

TEXT_MAX: Final = 4096
TEXT_BESIDE_BUTTONS_MAX: Final = 1024
BUTTONS_MAX: Final = 3
TITLE_MAX: Final = 20
BUTTON_ID_MAX: Final = 256
CORRELATION_MAX: Final = 512

_BSUID: Final = re.compile(r"[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]{1,128}")

Shown = tuple[str, tuple[tuple[str, str], ...], str | None]


class ApiError(Exception):
    """A refusal in the API's form."""

    def __init__(self, code: int, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status

    def body(self) -> dict[str, Any]:
        about = {"messaging_product": "whatsapp", "details": self.message}
        error = {"message": f"(#{self.code}) {self.message}", "type": "OAuthException", "code": self.code}
        return {"error": error | {"error_data": about, "fbtrace_id": "twin"}}


def recipient_of(asked: Mapping[str, Any]) -> tuple[str, bool]:
    """Who a send is for, and whether it names an id. `to` wins where both are given."""
    if asked.get("messaging_product") != "whatsapp":
        raise ApiError(100, "messaging_product is required")
    if asked.get("recipient_type", "individual") != "individual":
        raise ApiError(100, "recipient_type must be individual")
    if asked.get("to"):
        return str(asked["to"]), False
    named = str(asked.get("recipient") or "")
    if not _BSUID.fullmatch(named):
        raise ApiError(131008, "to or recipient is required")
    return named, True


def shown(asked: Mapping[str, Any]) -> Shown:
    """Text, buttons and template of a send. Raises ApiError for what the API refuses."""
    if len(str(asked.get("biz_opaque_callback_data") or "")) > CORRELATION_MAX:
        raise ApiError(100, "biz_opaque_callback_data is too long")
    match asked.get("type"):
        case "text":
            return _text(asked["text"].get("body"), TEXT_MAX), (), None
        case "interactive":
            return _interactive(asked["interactive"])
        case "template":
            return _template(asked["template"])
        case other:
            raise ApiError(131009, f"type {other} is not valid")


def _text(text: object, most: int) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ApiError(131008, "text is required")
    if len(text) > most:
        raise ApiError(131009, f"text must be at most {most} characters")
    return text


def _interactive(interactive: Mapping[str, Any]) -> Shown:
    text = _text(interactive["body"].get("text"), TEXT_BESIDE_BUTTONS_MAX)
    replies = [one["reply"] for one in interactive["action"]["buttons"]]
    titles = [one["title"] for one in replies]
    if not 1 <= len(replies) <= BUTTONS_MAX or len(set(titles)) != len(titles):
        raise ApiError(131009, "buttons must be one to three, with different titles")
    if any(not title or len(title) > TITLE_MAX for title in titles):
        raise ApiError(131009, f"a button's title has 1 to {TITLE_MAX} characters")
    if any(not one["id"] or len(one["id"]) > BUTTON_ID_MAX for one in replies):
        raise ApiError(131009, f"a button's id has 1 to {BUTTON_ID_MAX} characters")
    return text, tuple((one["id"], one["title"]) for one in replies), None


def _template(template: Mapping[str, Any]) -> Shown:
    if not template.get("name") or not template.get("language", {}).get("code"):
        raise ApiError(132001, "Template name does not exist in the translation", status=404)
    (body,) = template["components"]
    (parameter,) = body["parameters"]
    text = parameter["text"]
    if not text or "\n" in text or "    " in text:
        raise ApiError(132012, "Parameter format does not match")
    return text, (), template["name"]
