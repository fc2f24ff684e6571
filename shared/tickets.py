"""What travels on the broker: ids and a version, never a customer's words.

A packet is ``{"v": 1, "kind": "conversation" | "outbound" | "message", "ids": [uuid, …]}`` for good: what changes is in the
row. A message's ticket asks for a courtesy, which no row owes: it may be lost.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from uuid import UUID

import msgspec

from shared.errors import Unusable

VERSION = 1
PACKET_BYTES_MAX = 64 * 1024
PACKET_TICKETS_MAX = 100


class Stage(StrEnum):
    """The three stages that are fed by a queue."""

    GUARD = "guard"
    AGENT = "agent"
    DISPATCH = "dispatch"


class Kind(StrEnum):
    """What the ids of a packet name."""

    CONVERSATION = "conversation"
    OUTBOUND = "outbound"
    MESSAGE = "message"


class Packet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tickets of one committed batch for one queue."""

    v: int
    kind: Kind
    ids: tuple[UUID, ...]


KIND_OF: dict[Stage, Kind] = {
    Stage.GUARD: Kind.CONVERSATION,
    Stage.AGENT: Kind.CONVERSATION,
    Stage.DISPATCH: Kind.OUTBOUND,
}
BESIDE: dict[Stage, frozenset[Kind]] = {
    Stage.GUARD: frozenset(),
    Stage.AGENT: frozenset(),
    Stage.DISPATCH: frozenset({Kind.MESSAGE}),
}

# A packet is redelivered whole, and an agent bounds the turns under way itself: small ones spread the work.
TICKETS_MAX: dict[Stage, int] = {Stage.GUARD: 100, Stage.AGENT: 16, Stage.DISPATCH: 100}

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Packet)


def encode(packet: Packet) -> bytes:
    """The packet as JSON."""
    return _encoder.encode(packet)


def decode(body: bytes, stage: Stage) -> Packet:
    """The packet in ``body``.

    Raises Unusable, with what was wrong, for anything that is not a packet of this version for this stage.
    """
    if len(body) > PACKET_BYTES_MAX:
        raise Unusable(f"{len(body)} bytes; a packet has at most {PACKET_BYTES_MAX}")
    try:
        packet = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unusable(f"not a packet: {error}") from error
    if packet.v != VERSION:
        raise Unusable(f"packet of version {packet.v}; this is version {VERSION}")
    if packet.kind is not KIND_OF[stage] and packet.kind not in BESIDE[stage]:
        raise Unusable(f"a packet of kind {packet.kind} has no place in the queue of {stage}")
    if not 1 <= len(packet.ids) <= PACKET_TICKETS_MAX:
        raise Unusable(f"{len(packet.ids)} tickets; a packet has 1 to {PACKET_TICKETS_MAX}")
    return packet


def packets(stage: Stage, ids: Iterable[UUID], *, kind: Kind | None = None) -> Iterator[Packet]:
    """The ids, each once and in their order, as packets of the stage's size and, unless another is given, its kind."""
    unique: Sequence[UUID] = tuple(dict.fromkeys(ids))
    size = TICKETS_MAX[stage]
    for start in range(0, len(unique), size):
        yield Packet(v=VERSION, kind=kind or KIND_OF[stage], ids=tuple(unique[start : start + size]))
