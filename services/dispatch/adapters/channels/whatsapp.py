"""WhatsApp on its way out: the Cloud API's messages (developers.facebook.com, messages/send-messages and support/error-codes).

An answer of 200 means taken, not delivered: failures come as statuses. There is no idempotency key; each send carries our
attempt's id, which comes back in its statuses, so that one without an answer is settled by them. A person is reached by the
number where it is known: an id in place of a number would be answered with 200, and dropped.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import httpx2
import msgspec

from services.dispatch.adapters.channels.calling import call, client, object_in, with_secret
from services.dispatch.core.delivery import TEMPLATE_TEXT_MAX
from services.dispatch.core.outcome import Accepted, AccountRefused, NoAnswer, Outcome, Refused, Throttled
from services.dispatch.core.troubles import outcome_of
from services.dispatch.ports import Address, Addresses, Claimed, Courtesy, CourtesyKind, Probed
from shared.channels.accounts import WhatsApp
from shared.channels.traits import TRAITS, ChannelName
from shared.channels.troubles import Trouble, whatsapp_trouble
from shared.channels.whatsapp import BSUID, BUTTONS_MAX

SAID_CHARS_MAX: Final = 200

_NUMBER: Final = re.compile(r"\+[1-9][0-9]{6,14}")
_SPACES: Final = re.compile(r"\s+")
_TRAITS: Final = TRAITS[ChannelName.WHATSAPP]


class WhatsAppChannel:
    def __init__(self, addresses: Addresses, *, url: str, connections: int) -> None:
        self._addresses = addresses
        self._url = url
        self._client = client(connections=connections)

    async def close(self) -> None:
        await self._client.aclose()

    async def send(self, claimed: Claimed, *, key: str) -> Outcome:
        """`key` is not used: the API takes none."""
        address = await with_secret(self._addresses, claimed.account)
        if isinstance(address, Throttled):
            return address
        if address is None:
            return AccountRefused(reason="the channel account has no access token")
        to = _recipient(claimed.user_id, claimed.reply_to)
        if to is None:
            return Refused(
                reason="neither a number nor an id that WhatsApp gave us", trouble=Trouble.RECIPIENT
            )
        content = _content(claimed, address)
        if isinstance(content, Refused):
            return content
        body = {
            "messaging_product": "whatsapp",
            "recipient_type": "individual",
            **to,
            **content,
            "biz_opaque_callback_data": claimed.attempt.hex,
        }
        answer = await self._post(address, body)
        return _outcome(answer, tries=claimed.tries) if isinstance(answer, httpx2.Response) else answer

    async def courtesy(self, courtesy: Courtesy) -> None:
        """Read, and typing for up to 25 s or until the reply. A press needs no acknowledgement."""
        address = await self._addresses.address(courtesy.account)
        if address is None or courtesy.kind is not CourtesyKind.TYPING:
            return
        seen = {"messaging_product": "whatsapp", "status": "read", "message_id": courtesy.message_id}
        await self._post(address, {**seen, "typing_indicator": {"type": "text"}})

    async def probe(self, address: Address) -> Probed:
        """Whose number the token may use."""
        fields = "?fields=display_phone_number,verified_name"
        answer = await call(
            self._client,
            self._client.build_request("GET", self._at(address) + fields, headers=_headers(address)),
        )
        if not isinstance(answer, httpx2.Response):
            return Probed(works=False, said=f"WhatsApp could not be asked: {answer.reason}")
        content = object_in(answer)
        if answer.status_code == 200 and content.get("display_phone_number"):
            return Probed(
                works=True, said=f"{content['display_phone_number']}, {content.get('verified_name') or ''}"
            )
        _, why = _error(content)
        return Probed(
            works=False, said=f"WhatsApp answered {answer.status_code}: {why or 'not what it should'}"
        )

    def _at(self, address: Address) -> str:
        assert isinstance(address.settings, WhatsApp), "settings of another channel"
        return f"{self._url}/{address.settings.api_version}/{address.settings.phone_number_id}"

    async def _post(
        self, address: Address, body: Mapping[str, Any]
    ) -> httpx2.Response | Throttled | NoAnswer:
        request = self._client.build_request(
            "POST",
            f"{self._at(address)}/messages",
            content=msgspec.json.encode(body),
            headers={"content-type": "application/json", **_headers(address)},
        )
        return await call(self._client, request)


def _headers(address: Address) -> dict[str, str]:
    return {"authorization": f"Bearer {address.secret}"}


def _recipient(user_id: str, reply_to: str | None) -> dict[str, str] | None:
    """By number where one is known, with its plus, else by the id, which stands in a field of its own; None: neither is there."""
    for number in (reply_to, user_id):
        if number and _NUMBER.fullmatch(number):
            return {"to": number}
    return {"recipient": user_id} if BSUID.fullmatch(user_id) else None


def _content(claimed: Claimed, address: Address) -> dict[str, Any] | Refused:
    text = claimed.parts[claimed.part - 1]
    if claimed.by_template:
        return _template(text, address)
    buttons = msgspec.json.decode(claimed.buttons) if claimed.buttons and claimed.last_part else []
    if _fits(text, buttons):
        replies = [{"type": "reply", "reply": {"id": one["id"], "title": one["title"]}} for one in buttons]
        shown = {"type": "button", "body": {"text": text}, "action": {"buttons": replies}}
        return {"type": "interactive", "interactive": shown}
    return {"type": "text", "text": {"preview_url": False, "body": text}}


def _fits(text: str, buttons: list[Mapping[str, str]]) -> bool:
    """Whether the buttons can stand below the text. The words say how to answer without them."""
    titles = {one["title"] for one in buttons}
    return (
        0 < len(buttons) <= BUTTONS_MAX
        and len(titles) == len(buttons)
        and all(0 < len(title) <= _TRAITS.button_title_max for title in titles)
        and len(text) <= (_TRAITS.text_beside_buttons_max or _TRAITS.text_max)
    )


def _template(text: str, address: Address) -> dict[str, Any] | Refused:
    """The account's approved template with the text as its one parameter, which takes neither line breaks nor runs of spaces."""
    template = address.settings.template if isinstance(address.settings, WhatsApp) else None
    flat = _SPACES.sub(" ", text).strip()
    if template is None or not flat or len(flat) > TEMPLATE_TEXT_MAX:
        return Refused(
            reason="the account has no template that takes this text", trouble=Trouble.CONFIGURATION
        )
    shown = {
        "name": template.name,
        "language": {"code": template.language},
        "components": [{"type": "body", "parameters": [{"type": "text", "text": flat}]}],
    }
    return {"type": "template", "template": shown}


def _error(content: Mapping[str, Any]) -> tuple[int | None, str]:
    """Code and words of an error; a code is what to decide on, since the same one comes with several HTTP statuses."""
    error = content.get("error")
    if not isinstance(error, dict) or type(error.get("code")) is not int:
        return None, ""
    data = error.get("error_data")
    details = data.get("details") if isinstance(data, dict) else None
    return error["code"], str(details or error.get("message") or "")[:SAID_CHARS_MAX]


def _outcome(response: httpx2.Response, *, tries: int) -> Outcome:
    content = object_in(response)
    code, why = _error(content)
    if code is not None:
        trouble = whatsapp_trouble(code, http_status=response.status_code)
        return outcome_of(trouble, reason=f"WhatsApp says {code}: {why}", tries=tries)
    if response.is_success:
        messages = content.get("messages")
        first = messages[0] if isinstance(messages, list) and messages else {}
        wamid = first.get("id") if isinstance(first, dict) else None
        return (
            Accepted(provider_id=wamid)
            if isinstance(wamid, str) and wamid
            else NoAnswer(reason="WhatsApp answered without an id")
        )
    if response.status_code >= 500:
        return NoAnswer(reason=f"answered {response.status_code}, and not by WhatsApp")
    return Refused(reason=f"answered {response.status_code}, and not by WhatsApp")
