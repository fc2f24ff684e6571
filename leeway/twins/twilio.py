"""Twilio's twin: one account with one number, and the telephones of its customers, by SMS and WhatsApp.

Webhooks are signed forms, lost where we can't be reached. As the carrier does, it takes STOP and the like for itself: it answers
the customer, still delivers the message, and refuses what we send afterwards (21610).
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

import httpx2

from leeway.twins.twilio_messages import WHATSAPP, Message, TwilioAccount, TwilioMessages
from leeway.twins.twin import Delivered
from shared.clock import Clock

OPT_OUT: Final = ("STOP", "STOPALL", "UNSUBSCRIBE", "CANCEL", "END", "QUIT", "REVOKE", "OPTOUT")
OPT_IN: Final = ("START", "YES", "UNSTOP")
STOPPED: Final = "You have successfully been unsubscribed. Reply START to resubscribe."
STARTED: Final = "You have successfully been re-subscribed."


class TwilioTwin(TwilioMessages):
    """`webhook` is where it posts; `public` is the same URL as the account has it configured, which is what it signs, where a
    proxy stands between."""

    def __init__(
        self, *, clock: Clock, account: TwilioAccount, webhook: str = "", public: str | None = None
    ) -> None:
        super().__init__(clock=clock, account=account, webhook=webhook)
        self.public = public
        self.said_by_carrier: list[tuple[str, str]] = []  # to whom and what, without us
        self.away = False  # our webhooks can't be reached: what customers send waits to be listed

    def shown(self, telephone: str) -> list[Delivered]:
        """What somebody's telephone shows of ours."""
        return [one for one in self.delivered if one.to == telephone]

    # What customers do

    async def write(
        self, sender: str, text: str = "", *, media: tuple[tuple[str, bytes], ...] = (), **more: str
    ) -> str:
        """A message by SMS, or by WhatsApp from `whatsapp:…`; `more` are parameters of the webhook. Its id."""
        by_whatsapp = sender.startswith(WHATSAPP)
        to = (WHATSAPP if by_whatsapp else "") + self.account.number
        heard = None if by_whatsapp else self._carrier_hears(sender, text)
        if heard is not None and self.account.advanced:
            more = {"OptOutType": heard, **more}
        sid = self.next_sid("MM" if media else "SM")
        self.messages[sid] = Message(
            sid=sid,
            sender=sender,
            to=to,
            body=text,
            at=self.clock.now(),
            inbound=True,
            status="received",
            media=media,
            more=more,
        )
        await self.deliver(sid)
        return sid

    async def press(self, sender: str, quoted: str, payload: str, title: str) -> str:
        """A quick reply under one of our messages."""
        return await self.write(
            sender,
            title,
            MessageType="button",
            ButtonText=title,
            ButtonPayload=payload,
            OriginalRepliedMessageSid=quoted,
        )

    async def deliver(self, sid: str) -> int | None:
        """Post a message to the webhook, be it once more; the status of our answer. None: it is lost."""
        if self.away:
            return None
        answer = await self._post_signed("", self._url, self._inbound_form(self.messages[sid]))
        return answer.status_code

    async def status(self, sid: str, state: str, *, code: int | None = None) -> int | None:
        """A status of a message of ours to its StatusCallback, in whatever order; the status of our answer."""
        message = self.messages[sid]
        message.status = state
        if message.callback is None or self.away:
            return None
        form = {
            "MessageSid": sid, "SmsSid": sid, "MessageStatus": state, "SmsStatus": state, "ApiVersion": "2010-04-01",
            "AccountSid": self.account.sid, "From": message.sender, "To": message.to,
        } | ({"ErrorCode": str(code)} if code else {})  # fmt: skip
        below = message.callback.removeprefix(self._url)
        return (await self._post_signed(below, message.callback, form)).status_code

    def sign(self, url: str, form: Mapping[str, str]) -> str:
        """X-Twilio-Signature of a form."""
        text = url + "".join(name + form[name] for name in sorted(form))
        return base64.b64encode(
            hmac.digest(self.account.token.encode(), text.encode(), hashlib.sha1)
        ).decode()

    def _carrier_hears(self, sender: str, text: str) -> str | None:
        word = text.strip().upper()
        if word in OPT_OUT:
            self.opted_out.add(sender)
            self.said_by_carrier.append((sender, STOPPED))
            return "STOP"
        if word in OPT_IN and sender in self.opted_out:
            self.opted_out.discard(sender)
            self.said_by_carrier.append((sender, STARTED))
            return "START"
        return None

    def _inbound_form(self, message: Message) -> dict[str, str]:
        form = {
            "MessageSid": message.sid, "SmsSid": message.sid, "SmsMessageSid": message.sid, "AccountSid": self.account.sid,
            "From": message.sender, "To": message.to, "Body": message.body, "NumMedia": str(len(message.media)),
            "NumSegments": "1", "SmsStatus": "received", "ApiVersion": "2010-04-01", "FromCity": "", "FromZip": "",
        }  # fmt: skip
        for n, (url, mime) in enumerate(self.media_of(message)):
            form |= {f"MediaUrl{n}": url, f"MediaContentType{n}": mime}
        if self.account.service is not None:
            form["MessagingServiceSid"] = self.account.service
        return form | dict(message.more)

    @property
    def _url(self) -> str:
        return self.public or self.webhook

    async def _post_signed(self, below: str, signed: str, form: Mapping[str, str]) -> httpx2.Response:
        headers = {
            "content-type": "application/x-www-form-urlencoded; charset=UTF-8",
            "x-twilio-signature": self.sign(signed, form),
        }
        return await self.post(urlencode(form).encode(), headers, path=below)
