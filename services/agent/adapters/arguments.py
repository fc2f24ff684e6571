"""What a turn's statements are given: a commit and its tool calls, as columns."""

from collections.abc import Sequence
from typing import Any

from services.agent.core.turn import Turn
from services.agent.ports import Commit, NewAction, Sealed, ToolRecord
from shared.ids import new_id
from shared.text import storable


def sealed_of(commit: Commit) -> Sealed:
    assert commit.sealed is not None, "a commit carries its evidence"
    return commit.sealed


def commit_arguments(commit: Commit) -> tuple[Any, ...]:
    """Of `commit_full`."""
    turn, again, sealed = commit.turn, commit.asks_again, sealed_of(commit)
    return (
        turn.conversation,
        turn.token,
        turn.id,
        commit.seq_to,
        turn.epoch,
        commit.state.value,
        commit.outcome,
        commit.outbound,
        storable(commit.text) if commit.text is not None else None,
        commit.buttons,
        turn.mode.value,
        commit.receipt,
        commit.held,
        commit.ends,
        commit.ends_as,
        commit.ends_because,
        commit.ends_result,
        *_asks(commit.asks),
        turn.customer,
        *((again.action, again.step, again.repeats, again.clock_from) if again else (None,) * 4),
        commit.to_operator,
        commit.handoff,
        new_id() if commit.dead else None,
        commit.flag,
        turn.decides,
        sealed.n,
        sealed.header,
        sealed.digest,
        sealed.parts,
        *tool_arrays([(turn, commit.tools)])[1:],
        turn.asked_at,
    )


def tool_arrays(tools: Sequence[tuple[Turn, Sequence[ToolRecord]]]) -> tuple[list[Any], ...]:
    """Of tool calls: which turn, then a column each."""
    records = [(turn, record) for turn, of_turn in tools for record in of_turn]
    return (
        [turn.id for turn, _ in records],
        [record.n for _, record in records],
        [record.position for _, record in records],
        [storable(record.call_id) for _, record in records],
        [storable(record.tool) for _, record in records],
        [storable(record.arguments) for _, record in records],
        [record.decision for _, record in records],
        [record.reason for _, record in records],
        [record.result for _, record in records],
        [record.why for _, record in records],
    )


def _asks(asks: NewAction | None) -> tuple[Any, ...]:
    if asks is None:
        return (None,) * 11
    return (
        asks.id,
        asks.tool,
        storable(asks.arguments),
        storable(asks.shown),
        asks.digest,
        storable(asks.summary),
        asks.confirmations_needed,
        asks.asked.value,
        asks.waits_for.value,
        asks.call_n,
        asks.call_position,
    )
