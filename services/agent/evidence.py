"""The evidence of a turn: what it began with, what the model and the tools answered, what the gate said, what came of it."""

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from services.agent.core.gate import Dials
from services.agent.core.prompt import VERSION as PROMPT_VERSION
from services.agent.core.turn import Heard, Pending, Turn
from services.agent.ports import Commit, Sealed, ToolRecord
from shared.evidence import seal
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
        "inputs": _inputs(turn),
        "answers": {"answers": list(commit.trace.answers)},
        "tools": {"calls": [_tool(one) for one in commit.trace.tools]},
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


def _inputs(turn: Turn) -> dict[str, Any]:
    return {
        "messages": [_heard(one) for one in turn.messages],
        "taken": [one.seq for one in turn.taken.messages],
        "replies": [{"seq": one.basis_seq, "state": one.state, "text": one.text} for one in turn.replies],
        "customer": str(turn.customer),
        "name": turn.customer_name,
        "locale": turn.locale,
        "dials": _dials(turn.dials),
        "pending": _pending(turn.pending),
    }


def _heard(one: Heard) -> dict[str, Any]:
    return {
        "seq": one.seq,
        "id": str(one.id),
        "kind": one.kind.value,
        "text": one.text,
        "button": one.button,
        "quoted": one.quoted,
        "at": one.channel_at.isoformat(),
        "received_at": one.received_at.isoformat(),
        "verdict": one.verdict.value,
    }


def _dials(dials: Dials) -> dict[str, Any]:
    levels = {
        tool: {"level": setting.level, "asked": setting.asked.value if setting.asked else None}
        for tool, setting in dials.levels.items()
    }
    return {"mode": dials.mode.value, "levels": levels}


def _pending(pending: Pending | None) -> dict[str, Any] | None:
    if pending is None:
        return None
    decision = pending.decision
    return {
        "action": str(pending.id),
        "tool": pending.tool,
        "arguments": pending.arguments,
        "shown": pending.shown,
        "digest": pending.digest.hex(),
        "waits_for": pending.waits_for.value,
        "step": pending.step,
        "needed": pending.confirmations_needed,
        "prompt": pending.prompt.state.value if pending.prompt else None,
        "decided": {"as": decision.decided.value, "reason": decision.reason, "by": decision.by}
        if decision
        else None,
    }


def _tool(one: ToolRecord) -> dict[str, Any]:
    return {
        "n": one.n,
        "position": one.position,
        "tool": one.tool,
        "arguments": one.arguments,
        "decision": one.decision,
        "reason": one.reason,
        "why": one.why,
        "result": one.result,
    }


def _outcome(commit: Commit) -> dict[str, Any]:
    asks, again = commit.asks, commit.asks_again
    return {
        "text": commit.text,
        "asks": {"action": str(asks.id), "tool": asks.tool, "digest": asks.digest.hex()} if asks else None,
        "asks_again": {"action": str(again.action), "step": again.step} if again else None,
        "to_operator": str(commit.to_operator) if commit.to_operator else None,
        "ends": {"action": str(commit.ends), "as": commit.ends_as, "because": commit.ends_because}
        if commit.ends
        else None,
        "receipts": [
            {"action": str(one.action), "tool": one.tool, "digest": one.digest.hex(), "result": one.result}
            for one in commit.trace.receipts
        ],
        "flag": commit.flag,
    }
