"""Run by .oracles/bin/python: cases as JSON lines on stdin, verdicts on stdout. Needs the vendors' packages and nothing of ours.

A case is `{"judge": NAME, ...}`; a verdict is what that judge below returns, or `{"raised": CLASS}` where the vendor's code raises.
"""

import base64
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from aiogram.types import Update
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from pywa import WhatsApp
from pywa.types.base_update import RawUpdate
from pywa.utils import webhook_updates_validator
from standardwebhooks import Webhook, WebhookVerificationError
from twilio.request_validator import RequestValidator

Case = dict[str, Any]
PYWA = WhatsApp(phone_id="1", token="none", filter_updates=False)
LISTS = ("messages", "statuses", "message_echoes")


class Fields:
    """A form's fields, some of them more than once, as twilio's validator reads those of web frameworks."""

    def __init__(self, pairs: list[list[str]]) -> None:
        self._pairs = pairs

    def __iter__(self) -> Iterator[str]:
        return iter(name for name, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def getlist(self, wanted: str) -> list[str]:
        return [value for name, value in self._pairs if name == wanted]


def twilio_signature(case: Case) -> bool:
    content = case["body"] if case["form"] is None else Fields(case["form"])
    validator = RequestValidator(case["key"])
    return bool(validator.validate(case["url"], content, case["signature"], case["algorithm"]))


def meta_signature(case: Case) -> bool:
    return webhook_updates_validator(case["key"], base64.b64decode(case["body"]), case["signature"])


def standard_signature(case: Case) -> bool:
    """With each of the secrets, as a receiver does who is changing them."""
    body = base64.b64decode(case["body"])
    for secret in case["secrets"]:
        try:
            Webhook(secret).verify(body, case["headers"], json_parse=False)
        except WebhookVerificationError:
            continue
        return True
    return False


def whatsapp_items(case: Case) -> list[Case]:
    """What pywa reads, which is one item of a request: each is given to it alone."""
    envelope = json.loads(base64.b64decode(case["body"]))
    return [{"id": id_, **_item(single)} for id_, single in _singles(envelope)]


def _singles(envelope: Case) -> Iterator[tuple[str, Case]]:
    """Each item's id, and a request with that item alone."""
    for entry in envelope["entry"]:
        for change in entry["changes"]:
            value = change["value"]
            for name in LISTS:
                for item in value.get(name, ()):
                    plain = {key: kept for key, kept in value.items() if key not in LISTS}
                    single = {**change, "value": {**plain, name: [item]}}
                    yield item["id"], {**envelope, "entry": [{**entry, "changes": [single]}]}


def _item(single: Case) -> Case:
    update = RawUpdate(json.dumps(single).encode(), hmac_header=None, update_hash="")
    try:
        handler = PYWA._get_handler_type(update)
        if handler is None:
            return {"raised": "no handler"}
        read = PYWA._handlers_to_updates[handler].from_update(client=PYWA, update=update)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        return {"raised": type(error).__name__}
    person = getattr(read, "from_user", None)
    quoted = getattr(read, "reply_to_message", None)
    reaction = getattr(read, "reaction", None)
    words = getattr(read, "message", read)  # of an edit, the message as it is now
    return {
        "class": type(read).__name__,
        "id": read.id,
        "user_id": getattr(person, "bsuid", None),
        "phone": getattr(person, "wa_id", None),
        "name": getattr(person, "name", None),
        "text": getattr(words, "text", None) or getattr(words, "caption", None) or getattr(read, "title", None),
        "button": getattr(read, "data", None),
        "quoted": getattr(quoted, "message_id", None) or getattr(read, "original_message_id", None)
        or getattr(reaction, "message_id", None),
        "emoji": getattr(reaction, "emoji", None),
        "forwarded": bool(getattr(read, "forwarded", False)),
        "status": getattr(getattr(read, "status", None), "value", None),
        "tracker": getattr(read, "tracker", None),
        "our_number": read.metadata.phone_number_id,
        "at": int(read.timestamp.timestamp()),
    }  # fmt: skip


def grafana_dashboard(case: Case) -> Any:
    """What Grafana's own model keeps of a dashboard: a field that it does not know is gone."""
    return json.loads(JSONEncoder().encode(Dashboard.from_json(case["dashboard"])))


def telegram_update(case: Case) -> Case:
    update = Update.model_validate_json(base64.b64decode(case["body"]))
    press = update.callback_query
    message = press.message if press else update.message or update.edited_message
    person = press.from_user if press else message.from_user if message else None
    contact = getattr(message, "contact", None)
    return {
        "class": update.event_type,
        "id": update.update_id,
        "user_id": person.id if person else None,
        "name": person.first_name if person else None,
        "chat": message.chat.id if message else None,
        "message_id": message.message_id if message else None,
        "text": None if press or not message else message.text or message.caption,
        "button": press.data if press else None,
        "press": press.id if press else None,
        "proven": contact.phone_number if contact and person and contact.user_id == person.id else None,
    }


JUDGES: dict[str, Callable[[Case], Any]] = {
    one.__name__: one
    for one in (
        twilio_signature,
        meta_signature,
        standard_signature,
        whatsapp_items,
        telegram_update,
        grafana_dashboard,
    )
}


def main() -> None:
    register_default_plugins()
    for line in sys.stdin:
        case = json.loads(line)
        try:
            verdict = JUDGES[case["judge"]](case)
        except Exception as error:  # whatever a vendor's code raises is its verdict
            verdict = {"raised": type(error).__name__}
        sys.stdout.write(json.dumps(verdict) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
