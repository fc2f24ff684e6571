"""The chain over who decided and changed what: each entry's digest covers the one before it. Pure.

An entry that was changed, left out, put in or moved breaks the chain at its number; entries cut off at the end are
told by the head, which is kept apart. Whoever may rewrite the whole chain with its head is found out only by a head
that was noted elsewhere.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from shared.digest import canonical
from shared.ids import BusinessId

GENESIS: Final = bytes(32)  # what the first entry's digest covers in place of one before


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What is to be written down. `detail` is canonical JSON and holds nobody's words: an entry can't be erased."""

    actor: str
    action: str  # "draft.send", "tool.level": what kind of decision
    subject: str  # what it is about: an id, a tool's name
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A note in its place in a business's chain."""

    business: BusinessId
    n: int  # from 1, without gaps
    at: datetime
    note: Note


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last entry's number and digest, as kept apart from the entries. None written yet: 0 and GENESIS."""

    n: int = 0
    digest: bytes = GENESIS


@dataclass(frozen=True, slots=True, kw_only=True)
class Intact:
    """Every entry is as it was written, and none is missing."""

    head: Head


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The first place where the chain is not as it was written. `n`: the entry."""

    n: int
    what: str


def chained(before: bytes, entry: Entry) -> bytes:
    """The entry's digest: SHA-256 over the digest before it and the entry as canonical JSON."""
    text = canonical(
        {
            "business": int(entry.business),
            "n": entry.n,
            "at": entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
            "actor": entry.note.actor,
            "action": entry.note.action,
            "subject": entry.note.subject,
            "detail": entry.note.detail,
        }
    )
    return hashlib.sha256(before + text.encode()).digest()


def verify(entries: Iterable[tuple[Entry, bytes]], head: Head) -> Intact | Broken:
    """A business's entries by number, each with its stored digest, held against the chain and its head."""
    reached = Head()
    for entry, stored in entries:
        if entry.n != reached.n + 1:
            return Broken(n=reached.n + 1, what="is missing")
        if chained(reached.digest, entry) != stored:
            return Broken(n=entry.n, what="is not as it was written")
        reached = Head(n=entry.n, digest=stored)
    if reached.n < head.n:
        return Broken(n=reached.n + 1, what="is missing")
    if reached != head:
        return Broken(n=reached.n, what="does not fit the chain's head")
    return Intact(head=reached)
