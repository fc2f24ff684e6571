"""The evidence of a turn: what it began with, what the model and the tools answered, what the gate said, what came of it."""

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from services.agent.core.prompt import VERSION as PROMPT_VERSION
from services.agent.core.turn import Turn
from services.agent.ports import Commit, Sealed
from shared.evidence import seal
from shared.messages import Verdict
from shared.packs import Pack, Tool

POLICY_VERSION = 1  # of gate, matcher and claims; raised when they decide otherwise
SALT_BYTES = 16
PARTS = ("inputs", "answers", "tools", "outcome")


class Sealing:
    """Seals commits, with fresh salts, before they are written."""

    def __init__(self, packs: Mapping[str, Pack]) -> None:
        self._registries = {name: registry_digest(pack.tools) for name, pack in packs.items()}

    def seal(self, commit: Commit) -> Commit:
        salts = {name: secrets.token_bytes(SALT_BYTES) for name in PARTS}
        registry = self._registries.get(commit.turn.business.pack, "")
        return replace(commit, sealed=sealed(commit, salts=salts, registry=registry))


def sealed(commit: Commit, *, salts: Mapping[str, bytes], registry: str) -> Sealed:
    """The commit's envelope, next in its conversation's chain. `salts` has one for each of PARTS."""
    turn = commit.turn
    facts = {
        "turn": str(turn.id),
        "conversation": str(turn.conversation),
        "business": turn.business.id,
        "at": turn.now.isoformat(),
        "cause": "decision" if turn.decides else "message",
        "versions": {
            "engine": turn.business.engine,
            "prompt": PROMPT_VERSION,
            "policy": POLICY_VERSION,
            "pack": turn.business.pack,
            "tools": registry,
        },
        "page": commit.trace.page.hex() if commit.trace.page else None,
        "outcome": commit.outcome,
        "receipts": [str(receipt.action) for receipt in commit.trace.receipts],
        "handoff": commit.handoff,
        "held": commit.held,
    }
    parts = {
        "inputs": _inputs(turn, seq_to=commit.seq_to),
        "answers": {"answers": commit.trace.answers},
        "tools": {"calls": commit.trace.tools},
        "outcome": _outcome(commit),
    }
    envelope = seal(facts, parts, n=turn.chain.length + 1, previous=turn.chain.head, salts=salts)
    return Sealed(n=envelope.n, header=envelope.header, digest=envelope.digest, parts=envelope.parts)


def registry_digest(tools: Sequence[Tool]) -> str:
    """A pack's registry as one number: names, schemas, risks, floors and default levels."""
    declared = [
        [
            one.name,
            one.description,
            one.arguments.model_json_schema(),
            one.risk,
            one.floor,
            one.level,
            one.asked,
        ]
        for one in tools
    ]
    return hashlib.sha256(json.dumps(declared, sort_keys=True).encode()).hexdigest()[:16]


def _inputs(turn: Turn, *, seq_to: int) -> dict[str, Any]:
    """Values of the turn go in as they are: each is frozen, and the encoder spells its fields. `seq_to`: the last it answers."""
    return {
        "messages": turn.messages,
        "taken": [
            one.seq
            for one in turn.messages
            if turn.handled_seq < one.seq <= seq_to and one.verdict is Verdict.TURN
        ],
        "replies": turn.replies,
        "customer": turn.customer,
        "name": turn.customer_name,
        "locale": turn.locale,
        "dials": turn.dials,
        "pending": turn.pending,
        "earlier": turn.earlier,
    }


def _outcome(commit: Commit) -> dict[str, Any]:
    return {
        "text": commit.text,
        "asks": commit.asks,
        "asks_again": commit.asks_again,
        "to_operator": commit.to_operator,
        "ends": {"action": commit.ends, "as": commit.ends_as, "because": commit.ends_because},
        "receipts": commit.trace.receipts,
        "flag": commit.flag,
    }
