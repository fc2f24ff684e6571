"""What was said to us, and which messages a turn takes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.ids import MessageId
from shared.messages import MessageKind, PartKind, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a message carries beside its text. `words` describe it, or are what a model made of a recording."""

    n: int
    kind: PartKind
    mime: str | None = None
    state: str = "kept"
    words: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """An inbound message of the conversation, judged.

    `text` is what a turn answers: of a message that was edited before one took it, the new words. `edited_to` is what it became
    after that, `deleted`: it was taken back, and its words are gone.
    """

    seq: int
    id: MessageId
    kind: MessageKind
    text: str
    button: str | None
    quoted: str | None
    channel_at: datetime
    received_at: datetime
    verdict: Verdict
    unsupported: bool  # by itself, without what its parts say
    forwarded: bool = False  # somebody else's words
    edited: bool = False
    edited_to: str | None = None
    deleted: bool = False
    parts: tuple[Part, ...] = ()

    @property
    def is_captioned(self) -> bool:
        """A picture with words under it, which are a request, never an answer."""
        return self.kind is MessageKind.MEDIA and not self.unsupported

    @property
    def is_text(self) -> bool:
        """Whether there is text of its own to read."""
        return not (self.unsupported or self.deleted)

    @property
    def is_readable(self) -> bool:
        """Whether there are words: its own, or those of its parts."""
        return self.is_text or (not self.deleted and any(part.words for part in self.parts))

    @property
    def transcripts(self) -> tuple[str, ...]:
        """What a machine heard in its recordings."""
        return tuple(
            part.words
            for part in self.parts
            if part.kind is PartKind.AUDIO and part.words and not self.deleted
        )

    @property
    def is_typed(self) -> bool:
        """Whether its words are the customer's, as they typed them: no other can confirm anything, or decline it."""
        return not (self.edited or self.forwarded or self.transcripts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The messages that a turn answers, and the last seq it covers (those between are not for it)."""

    messages: tuple[Heard, ...] = ()
    seq_to: int

    @property
    def first_seq(self) -> int:
        return self.messages[0].seq

    @property
    def button(self) -> Heard | None:
        """The press that this turn is, if it is one."""
        first = self.messages[0]
        return first if first.kind is MessageKind.BUTTON else None

    @property
    def texts(self) -> tuple[str, ...]:
        """What the customer wrote, fragment by fragment."""
        return tuple(one.text for one in self.messages if one.is_text)

    @property
    def spoken(self) -> tuple[str, ...]:
        """The same with what a machine heard them say: the whole that counts as an answer, or does not."""
        return tuple(
            text for one in self.messages for text in ((one.text,) if one.is_text else ()) + one.transcripts
        )

    @property
    def is_typed(self) -> bool:
        """Whether all these words are the customer's own typing."""
        return all(one.is_typed for one in self.messages if one.is_readable)

    @property
    def nothing_to_read(self) -> bool:
        """A sticker, a voice note that nobody heard, an empty message, and nothing else."""
        return not any(one.is_readable for one in self.messages)

    @property
    def is_taken_back(self) -> bool:
        """All of it was deleted before it was answered."""
        return all(one.deleted for one in self.messages)


def take(messages: Sequence[Heard], *, after: int) -> Taken:
    """The turn's share of what is owed: a button press is a turn by itself, and ends the one before it."""
    new = [one for one in messages if one.seq > after]
    owed = [one for one in new if one.verdict is Verdict.TURN]
    press = next((at for at, one in enumerate(owed) if one.kind is MessageKind.BUTTON), None)
    if press is None:
        return Taken(messages=tuple(owed), seq_to=max((one.seq for one in new), default=after))
    end = 1 if press == 0 else press
    following = owed[end].seq if end < len(owed) else None
    seq_to = following - 1 if following is not None else max(one.seq for one in new)
    return Taken(messages=tuple(owed[:end]), seq_to=seq_to)
