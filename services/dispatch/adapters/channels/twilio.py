"""Twilio on its way out: SMS, and WhatsApp over Twilio, by its Messages (twilio.com/docs/messaging/api/message-resource).

It takes no key, so nothing is sent twice by itself: the attempt rides in the URL that statuses are posted to, and a send whose
outcome is unknown is settled by the first of them.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

import httpx2
import msgspec

from services.dispatch.adapters.channels.calling import call, client, object_in, with_secret
from services.dispatch.core.outcome import Accepted, AccountRefused, NoAnswer, Outcome, Throttled
from services.dispatch.core.sms import plain_letters, segments
from services.dispatch.core.troubles import outcome_of
from services.dispatch.ports import Address, Addresses, Claimed, Courtesy, Probed
from shared.channels.accounts import Twilio
from shared.channels.traits import WHATSAPP_OVER_TWILIO
from shared.channels.troubles import TWILIO, Trouble, twilio_trouble

SEGMENTS_MOST: Final = 100
_AGAIN: Final = (Trouble.RATE, Trouble.BRIEFLY_DOWN)


class TwilioChannel:
    """`public_url` is how Twilio calls us: statuses are asked for where there is one."""

    def __init__(self, addresses: Addresses, *, url: str, public_url: str, connections: int) -> None:
        self._addresses = addresses
        self._url = url
        self._public_url = public_url
        self._client = client(connections=connections)

    async def close(self) -> None:
        await self._client.aclose()

    async def send(self, claimed: Claimed, *, key: str) -> Outcome:
        """`key` is not used: Twilio takes none."""
        address = await with_secret(self._addresses, claimed.account)
        if isinstance(address, Throttled):
            return address
        if address is None or not isinstance(address.settings, Twilio):
            return AccountRefused(reason="the channel account has no auth token")
        form = self._form(claimed, address, address.settings)
        answer = await self._ask("POST", address, "/Messages.json", form)
        if not isinstance(answer, httpx2.Response):
            return answer
        by_sms = not claimed.user_id.startswith(WHATSAPP_OVER_TWILIO)
        return _outcome(answer, counted=segments(form["Body"]) if by_sms and "Body" in form else None)

    async def courtesy(self, courtesy: Courtesy) -> None:
        """None is known to SMS."""

    async def probe(self, address: Address) -> Probed:
        """Whether Twilio takes the credentials for the account, and whether it is active."""
        if not isinstance(address.settings, Twilio) or not address.secret:
            return Probed(works=False, said="the account has no auth token or API key: add it with one")
        answer = await self._ask("GET", address, ".json", None)
        if not isinstance(answer, httpx2.Response):
            return Probed(works=False, said=f"Twilio can't be reached: {answer.reason}")
        if answer.status_code in (401, 403):
            return Probed(
                works=False,
                said="Twilio refuses the credentials: compare account SID and auth token, or API key, with its console",
            )
        state = object_in(answer).get("status")
        if not answer.is_success or not isinstance(state, str):
            return Probed(works=False, said=f"Twilio answers {answer.status_code}: {_said(answer)}")
        return Probed(works=state == "active", said=f"Twilio knows the account; it is {state}")

    def _form(self, claimed: Claimed, address: Address, settings: Twilio) -> dict[str, str]:
        to, text = claimed.user_id, claimed.parts[claimed.part - 1]
        by_whatsapp = to.startswith(WHATSAPP_OVER_TWILIO)
        form = {"To": to, "ValidityPeriod": str(settings.valid_for_s)}
        if by_whatsapp:  # whatever the service's pool holds: the customer wrote to this sender
            form["From"] = WHATSAPP_OVER_TWILIO + settings.number
        elif settings.messaging_service_sid:
            form["MessagingServiceSid"] = settings.messaging_service_sid
        else:
            form["From"] = settings.number
        if claimed.by_template and settings.content_sid:
            form["ContentSid"] = settings.content_sid
            form["ContentVariables"] = msgspec.json.encode({"1": text}).decode()
        else:
            form["Body"] = plain_letters(text) if settings.plain_letters and not by_whatsapp else text
        if self._public_url:
            form["StatusCallback"] = (
                f"{self._public_url}/hooks/twilio/{address.name}/status?o={claimed.attempt}"
            )
        return form

    async def _ask(
        self, method: str, address: Address, below: str, form: Mapping[str, str] | None
    ) -> httpx2.Response | Throttled | NoAnswer:
        settings = address.settings
        assert isinstance(settings, Twilio), "the callers have looked"
        request = self._client.build_request(
            method,
            f"{self._url}/2010-04-01/Accounts/{settings.account_sid}{below}",
            content=urlencode(form).encode() if form is not None else None,
            headers={"content-type": "application/x-www-form-urlencoded"} if form is not None else {},
        )
        user = settings.api_key_sid or settings.account_sid
        basic = httpx2.BasicAuth(user, address.secret)
        return await call(self._client, next(basic.auth_flow(request)))


def _outcome(response: httpx2.Response, *, counted: int | None) -> Outcome:
    status, said = response.status_code, object_in(response)
    if 200 <= status < 300:
        sid = said.get("sid")
        if not isinstance(sid, str) or not sid:
            return NoAnswer(reason=f"Twilio answered {status} without a message")
        return Accepted(provider_id=sid, segments=_segments(said.get("num_segments")) or counted)
    code = said.get("code")
    known = code if type(code) is int and code > 0 else 0
    trouble = twilio_trouble(known, http_status=status)
    unclear = status < 400 or status == 408 or status >= 500
    if unclear and not (known in TWILIO and trouble in _AGAIN):
        return NoAnswer(reason=f"Twilio answered {status}")
    return outcome_of(trouble, reason=f"Twilio answered {status}" + (f", error {known}" if known else ""))


def _segments(stated: object) -> int | None:
    """With a messaging service Twilio does not know yet, and says 0."""
    if not isinstance(stated, str) or not (stated.isascii() and stated.isdigit()) or len(stated) > 3:
        return None
    return min(int(stated), SEGMENTS_MOST) or None


def _said(response: httpx2.Response) -> str:
    code = object_in(response).get("code")
    return f"error {code}" if type(code) is int else "nothing that can be read"
