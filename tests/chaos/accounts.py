"""Afterwards: is every message accounted for, answered once, and in order?"""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

from shared.evidence import Envelope, Found, check
from tests.chaos.customers import Written
from tests.support.stack import OWED, Stack

MARK = re.compile(r"\b\d+x\d+\b")


async def problems(stack: Stack, script: Sequence[Written]) -> tuple[list[str], Mapping[str, int]]:
    """Everything that does not hold, in sentences, and figures."""
    found: list[str] = []
    messages = {
        row["external_id"]: row
        for row in await stack.ask(
            "select m.external_id, m.conversation, m.seq, m.verdict, m.reason, i.user_id from leeway.inbound_message m"
            " join leeway.channel_identity i on i.conversation = m.conversation"
        )
    }
    expected = {one.id for one in script}
    found += [
        f"message {id_} was taken with 200 and is not stored" for id_ in sorted(expected - messages.keys())
    ]
    found += [f"message {id_} was never written" for id_ in sorted(messages.keys() - expected)]
    found += [f"message {id_} was never judged" for id_, row in messages.items() if row["seq"] is None]
    if (owed := (await stack.ask(OWED))[0][0]) != 0:
        found.append(f"{owed} things are still owed")
    found += await _turns(stack)
    found += await _envelopes(stack)
    found += await _sends(stack)
    arrived = await _arrived(stack)
    seqs: dict[str, int] = {}  # by the mark at the end of each text
    heard = {mark for texts in arrived.values() for text in texts for mark in MARK.findall(text)}
    for one in script:
        row = messages.get(one.id)
        if row is None:
            continue
        mark = one.text.rsplit(" ", 1)[1]
        seqs[mark] = row["seq"] or 0
        if row["verdict"] == "turn" and mark not in heard:
            found.append(
                f"message {one.id} ({row['seq']=}) was for a turn, and no reply that arrived answers it"
            )
        if row["verdict"] != "turn" and not row["reason"]:
            found.append(f"message {one.id} has verdict {row['verdict']} and no reason")
    found += _out_of_order(arrived, seqs)
    replies = sum(map(len, arrived.values()))
    reasons = Counter(f"{row['verdict']} {row['reason'] or ''}".strip() for row in messages.values())
    return found, {"messages": len(messages), "replies": replies, **dict(sorted(reasons.items()))}


async def _turns(stack: Stack) -> list[str]:
    """One after another in a conversation, each with an end, none over messages that another took."""
    found = []
    rows = await stack.ask(
        "select conversation, id, seq_from, seq_to, state, started_at, ended_at from leeway.turn order by conversation, seq_from"
    )
    for before, after in itertools.pairwise(rows):
        if before["conversation"] != after["conversation"]:
            continue
        if before["seq_to"] >= after["seq_from"]:
            found.append(f"turns {before['id']} and {after['id']} took the same messages")
        if before["ended_at"] is not None and before["ended_at"] > after["started_at"]:
            found.append(f"turn {after['id']} began before {before['id']} ended")
    found += [
        f"turn {row['id']} has no end" for row in rows if row["ended_at"] is None or row["state"] == "running"
    ]
    return found


async def _envelopes(stack: Stack) -> list[str]:
    """One at least for each turn; each conversation's chain of them is whole."""
    found = [
        f"turn {row['id']} has no envelope"
        for row in await stack.ask(
            "select t.id from leeway.turn t where not exists (select from leeway.envelope e where e.turn = t.id)"
        )
    ]
    chains: dict[UUID, list[Envelope]] = defaultdict(list)
    for row in await stack.ask("select * from leeway.envelope order by conversation, n"):
        chains[row["conversation"]].append(
            Envelope(n=row["n"], header=row["header"], digest=row["digest"], parts=row["parts"])
        )
    found += [
        f"the chain of conversation {conversation} is not whole"
        for conversation, chain in chains.items()
        if set(check(chain)) != {Found.WHOLE}
    ]
    return found


async def _sends(stack: Stack) -> list[str]:
    """One outbound a turn, its deliveries under one key each; in a conversation they leave in the order they were made."""
    found = []
    keys = [row["key"] for row in await stack.ask("select key from leeway.sim_delivery")] + list(
        stack.receiver.bodies
    )
    delivered = Counter(key.split("_")[1] for key in keys)
    found += [f"outbound {id_} arrived {count} times" for id_, count in delivered.items() if count > 1]
    rows = await stack.ask(
        "select o.id, o.conversation, o.state, o.basis_seq, o.sent_at, o.origin, o.origin_kind from leeway.outbound o order by o.conversation, o.basis_seq, o.id"
    )
    sent = [row for row in rows if row["state"] in ("sent", "delivered", "read")]
    found += [
        f"outbound {row['id']} is sent and never arrived" for row in sent if row["id"].hex not in delivered
    ]
    known = {row["id"].hex: row["state"] for row in rows}
    found += [
        f"outbound {id_} arrived and is {known.get(id_)}"
        for id_ in delivered
        if known.get(id_) not in ("sent", "delivered", "read", "draft")
    ]
    for before, after in itertools.pairwise(sent):
        if before["conversation"] == after["conversation"] and before["sent_at"] > after["sent_at"]:
            found.append(f"outbound {after['id']} left before {before['id']}, which was made earlier")
    turns = Counter(row["origin"] for row in rows if row["origin_kind"] == "turn")
    found += [f"turn {origin} has {count} replies" for origin, count in turns.items() if count > 1]
    return found


async def _arrived(stack: Stack) -> Mapping[str, Sequence[str]]:
    """What each customer got, in the order in which it came."""
    arrived: dict[str, list[str]] = defaultdict(list)
    for row in await stack.ask("select user_id, body from leeway.sim_delivery order by delivered_at, key"):
        arrived[row["user_id"]].append(row["body"])
    for body in stack.receiver.bodies.values():
        arrived[body["to"]].append(body["text"])
    return arrived


def _out_of_order(arrived: Mapping[str, Sequence[str]], seqs: Mapping[str, int]) -> list[str]:
    """Customers whom a reply answered an earlier message than the replies before it. (In one reply, messages stand in the
    order in which they were written.)"""
    found = []
    for customer, texts in arrived.items():
        answered: list[int] = []
        for text in texts:
            new = sorted({seqs[mark] for mark in MARK.findall(text) if mark in seqs} - set(answered))
            answered += new
        if answered != sorted(answered):
            found.append(f"{customer} was answered in the order {answered}")
    return found
