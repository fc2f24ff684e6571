"""How the snapshot that messages are judged on goes on from one to the next. Pure."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from services.guard.core.verdict import Facts, Judged, Reason, Said, Unjudged
from shared.messages import MessageKind

SAID_KEPT: Final = 3  # as many as the loop guard looks at

_NOT_THE_CUSTOMER: Final = frozenset(
    {
        MessageKind.SYSTEM,
        MessageKind.REACTION,
        MessageKind.ECHO,
        MessageKind.GROUP,
        MessageKind.EDIT,
        MessageKind.DELETION,
    }
)


def following(message: Unjudged, decision: Judged, facts: Facts) -> Facts:
    """The snapshot that the next message is judged on."""
    if decision.reason is Reason.DUPLICATE:
        return facts
    last_said = facts.last_said
    if message.kind is MessageKind.TEXT and from_customer(message, facts):
        last_said = (*last_said, Said(text=message.text, received_at=message.received_at))[-SAID_KEPT:]
    ends_at = None if decision.handoff else facts.takeover_ends_at
    if decision.reason is Reason.OWNER_TAKEOVER:
        quiet_until = message.received_at + facts.takeover_quiet
        ends_at = quiet_until if ends_at is None else max(ends_at, quiet_until)
    return replace(
        facts,
        seen=facts.seen | {message.id},
        last_said=last_said,
        in_handoff=facts.in_handoff or decision.handoff,
        takeover_ends_at=ends_at,
        opted_out=facts.opted_out if decision.opt_out is None else decision.opt_out,
    )


def takeover_is_over(message: Unjudged, facts: Facts) -> bool:
    """Whether an owner's takeover had run out when the customer said this."""
    ends_at = facts.takeover_ends_at
    if not facts.in_handoff or ends_at is None or _said_at(message) <= ends_at:
        return False
    return from_customer(message, facts)


def from_customer(message: Unjudged, facts: Facts) -> bool:
    """Whether the customer said something with it, not the channel, nor our own side, and did not take it back."""
    silent = message.deleted or message.kind in _NOT_THE_CUSTOMER
    return not silent and message.sender not in facts.own_addresses


def _said_at(message: Unjudged) -> datetime:
    """The channel's time, which may run ahead, but not beyond our receipt."""
    return min(message.channel_at, message.received_at)
