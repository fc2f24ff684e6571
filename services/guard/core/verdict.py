"""The nouns of the guard: what it is told, and what it decides. No I/O here, and no clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from shared.autonomy import Mode
from shared.ids import MessageId
from shared.messages import MessageKind, Verdict


class Reason(StrEnum):
    """Why a message was decided so; stored on the message and counted. A plain message has none."""

    DUPLICATE = "duplicate"
    SYSTEM_MESSAGE = "system_message"
    REACTION = "reaction"
    EDIT = "edit"
    DELETION = "deletion"
    FROM_ME = "from_me"
    OWNER_TAKEOVER = "owner_takeover"
    SELF_ECHO = "self_echo"
    GROUP = "group"
    OPT_OUT = "opt_out"
    OPT_IN = "opt_in"
    OPTED_OUT = "opted_out"
    CHANNEL_DISABLED = "channel_disabled"
    AUTONOMY_OFF = "autonomy_off"
    HANDOFF_ACTIVE = "handoff_active"
    HANDOFF_REQUESTED = "handoff_requested"
    LOOP = "loop"
    RATE_LIMITED = "rate_limited"
    STALE = "stale"
    UNSUPPORTED = "unsupported"
    BUDGET = "budget"
    PROCESSING_FAILED = "processing_failed"


class Notice(StrEnum):
    """A fixed message of the system, worded by locale in shared/locales."""

    HANDOFF_REQUESTED = "handoff_requested"
    RATE_LIMITED = "rate_limited"
    BUDGET = "budget"
    PROCESSING_FAILED = "processing_failed"
    OPTED_IN = "opted_in"  # of an opt-out there is none: after it nothing is sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """One message to judge, as it was stored."""

    id: MessageId
    kind: MessageKind
    text: str
    channel_at: datetime
    received_at: datetime
    sender: str = ""  # the channel user id
    from_us: bool = False  # of an echo: our own send came back
    auto_reply: bool = False  # the channel marked it as an automatic answer
    opt_word: str | None = None  # the channel itself says "opt_out" or "opt_in"
    channel_message_id: str | None = None
    quoted: str | None = None  # of an edit or a deletion: what it is about
    deleted: bool = False  # taken back: nobody said it


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A typed text of the customer that was judged before, whatever the verdict."""

    text: str
    received_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The snapshot a conversation is judged on; it evolves as its messages are judged one after another.

    It knows no "now": messages are judged by their own times, so that a backlog of ours changes no verdict.
    """

    mode: Mode  # the strictest of business, channel account and conversation
    in_handoff: bool = False
    takeover_ends_at: datetime | None = None  # of an owner's takeover: when it releases itself
    opted_out: bool = False
    account_on: bool = True
    carrier_takes_cancel: bool = False  # CANCEL is an opt-out on this account
    own_addresses: frozenset[str] = frozenset()
    last_said: Sequence[Said] = ()  # oldest first, the last 3
    reply_times: Sequence[datetime] = ()  # when our last replies left, oldest first, at most 8
    messages_in_10_min: int = 0  # of the customer, judged before; no reactions
    seen: frozenset[MessageId] = frozenset()  # judged before in the same batch
    newest_answered_at: datetime | None = None  # the channel's time of the newest message answered
    cap_reached: bool = False  # so does one of which the spending is unknown
    stale_after: timedelta = timedelta(hours=1)
    rate_per_10_min: int = 20
    takeover_quiet: timedelta = timedelta(minutes=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The decision about one message. What it asks of the conversation stands beside the verdict."""

    message: MessageId
    verdict: Verdict
    reason: Reason | None = None
    customer_spoke: bool = False  # raises customer_seq, so that a reply that has not left is superseded
    handoff: bool = False  # people take over, with `reason`
    releases: bool = False  # an owner's takeover had run out when this message came
    opt_out: bool | None = None  # True: opted out; False: opted in again; None: unchanged
    clears_action: bool = False  # what the customer had not fully confirmed is cleared
    notice: Notice | None = None  # one fixed message to the customer
    flag: bool = False  # a person should look
    closes_window: bool = False  # a button: the burst ends here
    locale: str | None = None  # recognised by word lists


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All unjudged messages of a conversation, decided in order, and the snapshot after the last."""

    judged: tuple[Judged, ...]
    after: Facts
    again: tuple[Judged, ...] = ()  # of messages judged before, whose text was edited


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a business may spend in its local day, what it spent and reserved; None: no cap, or unknown."""

    cap_usd: Decimal | None
    spent_usd: Decimal | None

    @property
    def reached(self) -> bool:
        if self.cap_usd is None:
            return False
        return self.spent_usd is None or self.spent_usd >= self.cap_usd
