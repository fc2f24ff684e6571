"""Packets: what is written is read back, what is not one is refused, and every ticket travels once."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import Unusable
from shared.ids import new_id
from shared.tickets import (
    KIND_OF,
    PACKET_BYTES_MAX,
    PACKET_TICKETS_MAX,
    TICKETS_MAX,
    VERSION,
    Kind,
    Packet,
    Stage,
    decode,
    encode,
    packets,
)

IDS = st.lists(st.uuids(), min_size=1, max_size=PACKET_TICKETS_MAX)
ID = "01900000-0000-7000-8000-000000000001"


@given(stage=st.sampled_from(Stage), ids=IDS)
def test_a_packet_is_read_as_it_was_written(*, stage: Stage, ids: list[UUID]) -> None:
    packet = Packet(v=VERSION, kind=KIND_OF[stage], ids=tuple(ids))
    body = encode(packet)
    assert decode(body, stage) == packet
    assert len(body) <= PACKET_BYTES_MAX


def test_a_packet_on_the_wire() -> None:
    packet = Packet(v=1, kind=Kind.CONVERSATION, ids=(UUID(ID),))
    assert json.loads(encode(packet)) == {"v": 1, "kind": "conversation", "ids": [ID]}


def test_a_packet_holds_ids_and_nothing_of_a_customer_s() -> None:
    assert set(Packet.__struct_fields__) == {"v", "kind", "ids"}


def body(**fields: object) -> bytes:
    return json.dumps({"v": 1, "kind": "conversation", "ids": [ID]} | fields).encode()


UNUSABLE = [
    ("nothing", b"", "not a packet"),
    ("no JSON", b"hello", "not a packet"),
    ("an empty object", b"{}", "not a packet"),
    ("null", b"null", "not a packet"),
    ("another version", body(v=2), "version 2"),
    ("a version that is a text", body(v="1"), "not a packet"),
    ("another stage's kind", body(kind="outbound"), "no place in the queue of guard"),
    ("a kind of nobody", body(kind="weather"), "not a packet"),
    ("no tickets", body(ids=[]), "0 tickets"),
    ("too many tickets", body(ids=[ID] * (PACKET_TICKETS_MAX + 1)), "101 tickets"),
    ("an id that is none", body(ids=["7"]), "not a packet"),
    ("a number for an id", body(ids=[7]), "not a packet"),
    ("a field too many", body(text="Hello"), "not a packet"),
    ("too large", b" " * (PACKET_BYTES_MAX + 1), "at most 65536"),
    ("deep nesting", b"[" * 60_000, "not a packet"),
    ("invalid UTF-8", b'{"v":1,"kind":"\xff","ids":[]}', "not a packet"),
]


@pytest.mark.parametrize(("content", "says"), [row[1:] for row in UNUSABLE], ids=[row[0] for row in UNUSABLE])
def test_what_is_no_packet_is_refused_with_what_was_wrong(content: bytes, says: str) -> None:
    with pytest.raises(Unusable, match=says):
        decode(content, Stage.GUARD)


@given(st.binary())
def test_any_bytes_are_a_packet_or_unusable(content: bytes) -> None:
    with pytest.raises(Unusable):
        decode(content, Stage.GUARD)


@given(stage=st.sampled_from(Stage), ids=st.lists(st.uuids(), max_size=260))
def test_every_ticket_travels_once_and_in_order(*, stage: Stage, ids: list[UUID]) -> None:
    made = list(packets(stage, ids + ids[:3]))
    assert [ticket for packet in made for ticket in packet.ids] == list(dict.fromkeys(ids))
    assert all(1 <= len(packet.ids) <= TICKETS_MAX[stage] for packet in made)
    for packet in made:
        assert decode(encode(packet), stage) == packet


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("kind", Kind)
def test_where_a_kind_has_its_place(stage: Stage, kind: Kind) -> None:
    """Courtesies go to dispatch, beside replies; everything else where it is owed."""
    content = encode(Packet(v=VERSION, kind=kind, ids=(UUID(ID),)))
    if kind is KIND_OF[stage] or (stage, kind) == (Stage.DISPATCH, Kind.MESSAGE):
        assert decode(content, stage).kind is kind
    else:
        with pytest.raises(Unusable, match="no place"):
            decode(content, stage)


def test_packets_of_a_kind_beside_the_stage_s_own() -> None:
    (packet,) = packets(Stage.DISPATCH, [UUID(ID)], kind=Kind.MESSAGE)
    assert (packet.kind, packet.ids) == (Kind.MESSAGE, (UUID(ID),))


def test_packets_are_as_few_as_can_be() -> None:
    ids = [new_id() for _ in range(200)]
    assert [len(packet.ids) for packet in packets(Stage.GUARD, ids)] == [100, 100]
    assert [len(packet.ids) for packet in packets(Stage.AGENT, ids[:33])] == [16, 16, 1]


def test_every_stage_has_a_kind_and_a_size() -> None:
    assert set(KIND_OF) == set(TICKETS_MAX) == set(Stage)
    assert max(TICKETS_MAX.values()) <= PACKET_TICKETS_MAX
