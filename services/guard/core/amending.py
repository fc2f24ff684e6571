"""What edits and deletions do to the messages they are about. Pure.

One that no turn has taken is changed, and judged again. One that a turn has taken, or is answering, keeps what was answered, and
what it became stands beside it; the action that waits because of it ends. One that has not come yet is waited for.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from services.guard.core.verdict import Unjudged
from shared.ids import MessageId
from shared.messages import MessageKind, Verdict

AMENDS: Final = frozenset({MessageKind.EDIT, MessageKind.DELETION})
# Kinds whose text an edit may replace: the label of a button is ours, and what others said is theirs.
_REWRITTEN: Final = frozenset({MessageKind.TEXT, MessageKind.MEDIA, MessageKind.UNSUPPORTED})
_TAKEN_BACK: Final = _REWRITTEN | {MessageKind.BUTTON}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A judged message that an unjudged edit or deletion concerns, as it stands."""

    message: Unjudged
    seq: int
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Concerned:
    """What bears on a conversation's edits and deletions; gathered only where there are some."""

    known: tuple[Known, ...] = ()  # what they are about, and earlier edits of the same
    waiting: tuple[Unjudged, ...] = ()  # edits and deletions judged before their original came, oldest first
    unanswered: tuple[int, ...] = ()  # seqs that are for a turn, and that none has taken
    action_from: tuple[int, int] | None = (
        None  # seqs that the pending action came from; None: none that may end
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """New columns of a message; None leaves one as it is."""

    message: MessageId
    seq: int | None = None  # None: it is judged in the same batch
    kind: MessageKind | None = None
    text: str | None = None
    edited_at: datetime | None = None
    edited_to: str | None = None
    deleted_at: datetime | None = None  # what an edit made of it goes, too, and the channel's own copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Amended:
    """A batch as it is judged after its edits and deletions."""

    messages: tuple[Unjudged, ...]
    again: tuple[Known, ...] = ()  # judged before, changed, and judged again, by seq
    changes: tuple[Change, ...] = ()
    clears_action: bool = False
    still_wait: bool = False  # an edit or deletion whose original has not come


def amend(messages: Sequence[Unjudged], concerned: Concerned, *, handled_seq: int, leased: bool) -> Amended:
    """Applies the edits and deletions in `messages`, and those that waited for one of them, the last of each original.

    `leased`: a turn is under way. Raises nothing.
    """
    originals = {
        one.message.channel_message_id: one for one in concerned.known if one.message.kind not in AMENDS
    }
    gone = {quoted for quoted, one in originals.items() if one.message.deleted}
    last = _last_of_each([*concerned.waiting, *messages], gone)
    if not last:
        return Amended(messages=tuple(messages))
    here = {one.channel_message_id for one in messages if one.kind not in AMENDS}
    fresh = [_applied(one, last) for one in messages]
    changes = [change for _, change in fresh if change is not None]
    again: list[Known] = []
    clears = False
    for quoted, amends in last.items():
        known = originals.get(quoted)
        if known is None or quoted in here:
            continue
        if known.seq > handled_seq and not leased and known.message.kind in _TAKEN_BACK:
            message, change = _applied(known.message, last)
            if change is not None:
                again.append(replace(known, message=message))
                changes.append(replace(change, seq=known.seq))
            continue
        changes.append(_beside(known, amends))
        clears = clears or _came_from(known, concerned.action_from)
    return Amended(
        messages=tuple(message for message, _ in fresh),
        again=tuple(sorted(again, key=lambda one: one.seq)),
        changes=(*changes, *_copies(messages, concerned.known, last)),
        clears_action=clears,
        still_wait=any(quoted not in here and quoted not in originals for quoted in last),
    )


def _last_of_each(messages: Sequence[Unjudged], gone: Collection[str | None]) -> dict[str, Unjudged]:
    """The edit or deletion that counts, by what it is about. Nothing comes after a deletion: what is `gone` stays so."""
    last: dict[str, Unjudged] = {}
    for one in messages:
        if one.kind not in AMENDS or not one.quoted:
            continue
        before = last.get(one.quoted)
        if one.quoted in gone:
            last[one.quoted] = replace(one, kind=MessageKind.DELETION)
        elif before is None or before.kind is not MessageKind.DELETION:
            last[one.quoted] = one
    return last


def _applied(message: Unjudged, last: Mapping[str, Unjudged]) -> tuple[Unjudged, Change | None]:
    """The message as it is judged now, and what is stored of that."""
    amends = last.get(message.channel_message_id or "")
    if amends is None or message.deleted or message.kind in AMENDS:
        return message, None
    if amends.kind is MessageKind.DELETION and message.kind in _TAKEN_BACK:
        taken_back = replace(message, text="", opt_word=None, deleted=True)
        return taken_back, Change(message=message.id, text="", deleted_at=amends.channel_at)
    if amends.kind is not MessageKind.EDIT or message.kind not in _REWRITTEN:
        return message, None
    kind = MessageKind.TEXT if message.kind is MessageKind.UNSUPPORTED else message.kind
    edited = replace(message, kind=kind, text=amends.text, opt_word=amends.opt_word)
    return edited, Change(message=message.id, kind=kind, text=amends.text, edited_at=amends.channel_at)


def _beside(known: Known, amends: Unjudged) -> Change:
    """A turn has taken it: what it became is kept beside what was answered."""
    if amends.kind is MessageKind.DELETION:
        return Change(message=known.message.id, seq=known.seq, text="", deleted_at=amends.channel_at)
    return Change(message=known.message.id, seq=known.seq, edited_at=amends.channel_at, edited_to=amends.text)


def _copies(
    messages: Sequence[Unjudged], known: Sequence[Known], last: Mapping[str, Unjudged]
) -> list[Change]:
    """Edits of what was deleted: their words go with it."""
    edits = [*((one, None) for one in messages), *((one.message, one.seq) for one in known)]
    found = [(one, seq, last.get(one.quoted or "")) for one, seq in edits if one.kind is MessageKind.EDIT]
    return [
        Change(message=one.id, seq=seq, text="", deleted_at=amends.channel_at)
        for one, seq, amends in found
        if amends is not None and amends.kind is MessageKind.DELETION
    ]


def _came_from(known: Known, action_from: tuple[int, int] | None) -> bool:
    if action_from is None or known.verdict is not Verdict.TURN:
        return False
    first, last = action_from
    return first <= known.seq <= last
