"""What a person does at a provider, in a few lines."""

from collections.abc import Mapping, Sequence
from typing import Final

from shared.channels.traits import ChannelName

TO_DO: Final[Mapping[str, Sequence[str]]] = {
    ChannelName.GENERIC: (
        "Keep the secrets: they are not shown again. Sign as standardwebhooks.com says.",
        "Replies are signed with the reply secret and posted to the callback URL.",
    ),
    ChannelName.SIM: ("Keep the secret: it is not shown again. Sign as standardwebhooks.com says.",),
    ChannelName.WHATSAPP: (
        "In the app's dashboard, WhatsApp, Configuration: enter the webhook URL and the verify token, then Verify and save.",
        "Subscribe to the field messages (and smb_message_echoes, if somebody also answers from the telephone).",
        "The verify token is not shown again.",
    ),
    ChannelName.TWILIO: (
        "In Twilio's console, at the number, Messaging: A message comes in, Webhook, POST, the webhook URL.",
        "With a messaging service: set it there, under Integration, instead.",
        "The URL must be exactly this one: Twilio signs it. Add #rc=2&rp=5xx,ct,rt behind it, and Twilio tries again.",
    ),
}
TELEGRAM_POLLING: Final = ("Nothing is to be done: updates are fetched.",)
TELEGRAM_NO_URL: Final = (
    "Set LEEWAY_PUBLIC_BASE_URL (https), restart, then: leeway channel rotate --inbound, which tells Telegram the URL.",
    "Without a public URL, add the bot with --polling instead.",
)
