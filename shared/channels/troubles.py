"""What providers' error codes mean, as tables: from the vendors' documentation (WhatsApp Cloud API, support/error-codes, 18 June
2026; Twilio, docs/api/errors), sorted by what must be done about them, which is ours."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Trouble(StrEnum):
    """What kind of failure a provider reported, by what follows from it."""

    CREDENTIALS = (
        "credentials"  # every send fails the same way: the account is off until a person puts it right
    )
    ACCOUNT = "account"  # blocked, unpaid, not registered: the same
    BRIEFLY_DOWN = "briefly_down"  # surely not taken: again, with back-off
    RATE = "rate"  # too fast on the account
    PAIR_RATE = "pair_rate"  # too fast to this one person
    SPAM_LIMIT = "spam_limit"  # the account pauses for an hour, and a person looks
    WINDOW_CLOSED = "window_closed"  # free text is not taken now: a template, or people
    RECIPIENT = "recipient"  # this person can't be reached this way
    OPTED_OUT = "opted_out"  # this person wants nothing more of us
    CONTENT = "content"  # these words were refused or filtered: never the same again
    CONFIGURATION = "configuration"  # a template, a sender, a country is not set up
    OUR_BUG = "our_bug"  # the request was wrong
    UNKNOWN = "unknown"  # a code nobody knows: for good


def _table(rows: Mapping[Trouble, str]) -> Mapping[int, Trouble]:
    return {int(code): trouble for trouble, codes in rows.items() for code in codes.split()}


WHATSAPP: Final = _table(
    {
        Trouble.CREDENTIALS: "0 3 10 190 131005",
        Trouble.ACCOUNT: "368 130497 131031 131042 131045 133010 131037 33 131064",
        Trouble.BRIEFLY_DOWN: "1 2 131000 131016 131057 133004",
        Trouble.RATE: "4 80007 130429",
        Trouble.PAIR_RATE: "131056",
        Trouble.SPAM_LIMIT: "131048",
        Trouble.WINDOW_CLOSED: "131047 470",
        Trouble.RECIPIENT: "131026 131021 131030 130472 137000 131062 131063 131049 131050",
        Trouble.OUR_BUG: "100 131008 131009 131051 131053 135000",
        Trouble.CONFIGURATION: "132000 132001 132005 132007 132008 132012 132015 132016 132068 132069",
    }
)
_WHATSAPP_PERMISSIONS: Final = range(200, 300)

TWILIO: Final = _table(
    {
        Trouble.CREDENTIALS: "20003 20005 30002",
        Trouble.BRIEFLY_DOWN: "20503 30001",
        Trouble.RATE: "20429 63018",
        Trouble.WINDOW_CLOSED: "63016",
        Trouble.RECIPIENT: "21211 21614 21635 30003 30004 30005 30006 30008 63003 63024",
        Trouble.OPTED_OUT: "21610",
        Trouble.CONTENT: "30007 63013 63049",
        Trouble.CONFIGURATION: "21408 21606 21608 21612 21659 21660 30022 30034 63007 63032 63033",
        Trouble.OUR_BUG: "21602 21604 21617",
    }
)


def whatsapp_trouble(code: int, *, http_status: int | None = None) -> Trouble:
    """What an error code of the Cloud API means. `http_status`: of the answer it came in, if in one."""
    if code in _WHATSAPP_PERMISSIONS:
        return Trouble.CREDENTIALS
    if code not in WHATSAPP and http_status is not None and http_status >= 500:
        return Trouble.BRIEFLY_DOWN
    return WHATSAPP.get(code) or _by_status(http_status)


def twilio_trouble(code: int, *, http_status: int | None = None) -> Trouble:
    """What an error code of Twilio's means. Of 30003 and 30008, "unreachable" and "unknown", nothing is sent again by itself:
    they come in a status, when the reply is a person's business already."""
    return TWILIO.get(code) or _by_status(http_status)


def _by_status(http_status: int | None) -> Trouble:
    if http_status in (401, 403):
        return Trouble.CREDENTIALS
    return Trouble.RATE if http_status == 429 else Trouble.UNKNOWN
