"""Rows as the values they are: a claimed turn, dials, a decision, a commit."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from services.agent.core.gate import Dials, LevelSet
from services.agent.core.heard import Heard, Part
from services.agent.core.turn import (
    Business,
    Caps,
    Chain,
    Decided,
    Decision,
    Earlier,
    Pending,
    Prompt,
    PromptState,
    Reply,
    StoredCall,
    Turn,
    WaitsFor,
)
from services.agent.ports import Committed
from shared.autonomy import Asked, Mode, strictest
from shared.ids import ActionId, BusinessId, OutboundId
from shared.messages import MessageKind, PartKind, Verdict

PROMPT_STATES: Mapping[str, PromptState] = {
    "draft": PromptState.DRAFT,
    "queued": PromptState.QUEUED,
    "sending": PromptState.SENDING,
    "unknown": PromptState.UNKNOWN,
    "sent": PromptState.SENT,
    "delivered": PromptState.SENT,
    "read": PromptState.SENT,
}

NOT_WRITTEN = Committed(written=False, live=False, again=False)

Row = Mapping[str, Any]


def read_turn(row: Row, *, model: str) -> Turn:
    """The turn in a row of `claim`. Answers stored under another model are not used: it starts anew, keeping receipts."""
    same_model = row["turn_model"] == model
    dropped = _dropped(row["action"], row["prompt"])
    return Turn(
        id=row["turn"],
        conversation=row["conversation"],
        token=row["lease_token"],
        business=_business(row),
        customer=row["customer"],
        customer_name=row["customer_name"],
        locale=row["locale"] or row["locales"][0],
        dials=read_dials(row),
        epoch=row["handoff_epoch"],
        attempt=row["attempts"],
        fruitless=row["fruitless"],
        now=row["now"],
        waited=row["waited"],
        messages=tuple(_heard(message, row["handled_seq"]) for message in row["messages"] or ()),
        handled_seq=row["handled_seq"],
        replies=tuple(_reply(reply) for reply in reversed(row["replies"] or ())),
        pending=None if dropped else _pending(row["action"], row["prompt"]),
        dropped=dropped,
        decides=row["cause_kind"] == "decision",
        earlier=tuple(
            Earlier(tool=one[0], arguments=one[1], state=one[2], reason=one[3], ended_at=one[4])
            for one in row["earlier"] or ()
        ),
        chain=Chain(length=row["chain_length"], head=row["chain_head"]),
        open_call=row["call_open"],
        stored_answers=_answers(row["iterations"] or ()) if same_model else (),
        stored_calls=tuple(
            StoredCall(
                n=call[0],
                position=call[1],
                call_id=call[2],
                tool=call[3],
                decision=call[4],
                reason=call[5],
                result=call[6],
            )
            for call in row["tool_calls"] or ()
        )
        if same_model
        else (),
    )


def read_dials(row: Row) -> Dials:
    """Both dials in a row: the three modes, and the business's levels."""
    modes = (row["business_mode"], row["account_mode"], row["mode"])
    return Dials(
        mode=strictest(*(Mode(mode) for mode in modes if mode)),
        levels={
            tool: LevelSet(level=level, asked=Asked(asked) if asked else None)
            for tool, level, asked in row["levels"] or ()
        },
    )


def read_decision(decided: str | None, reason: str | None, by: str | None) -> Decision | None:
    return Decision(decided=Decided(decided), reason=reason, by=by or "") if decided else None


def read_committed(rows: Sequence[Row]) -> Committed:
    """What a commit's statement returned; nothing: the lease was another's."""
    if not rows:
        return NOT_WRITTEN
    return Committed(written=True, live=rows[0]["live"], again=rows[0]["again"])


def _business(row: Row) -> Business:
    return Business(
        id=BusinessId(row["business"]),
        slug=row["slug"],
        name=row["business_name"],
        pack=row["pack"],
        engine=row["engine"],
        locales=tuple(row["locales"]),
        zone=ZoneInfo(row["time_zone"]),
        stale_after=timedelta(seconds=row["stale_after_s"]),
        caps=Caps(
            turn_usd=row["turn_cap_usd"],
            conversation_usd=row["conversation_cap_usd"],
            day_usd=row["day_cap_usd"],
        ),
    )


def _heard(message: Sequence[Any], handled_seq: int) -> Heard:
    """An edit that came while a turn was under way which then did not take the message: the next one answers the new words."""
    seq, text, edited_to = message[0], message[3], message[12]
    if edited_to is not None and seq > handled_seq:
        text, edited_to = edited_to, None
    return Heard(
        seq=seq,
        id=message[1],
        kind=MessageKind(message[2]),
        text=text,
        button=message[4],
        quoted=message[5],
        channel_at=message[6],
        received_at=message[7],
        verdict=Verdict(message[8]),
        unsupported=message[9] == "unsupported",
        forwarded=message[10],
        edited=message[11],
        edited_to=edited_to,
        deleted=message[13],
        parts=tuple(
            Part(n=part[0], kind=PartKind(part[1]), mime=part[2], state=part[3], words=part[4])
            for part in message[14] or ()
        ),
    )


def _dropped(action: Sequence[Any] | None, prompt: Sequence[Any] | None) -> ActionId | None:
    """The action that waits although what it came from was edited or deleted while its turn was under way. One whose effect
    outside the record was called for is not dropped: a person looks."""
    amended = action is not None and prompt is not None and prompt[6]
    return action[0] if action is not None and amended and not action[17] else None


def _reply(reply: Sequence[Any]) -> Reply:
    return Reply(
        state=reply[2],
        text=reply[3],
        basis_seq=reply[4],
        created_at=reply[5],
        firm=reply[6],
        asked_at=reply[7],
    )


def _pending(action: Sequence[Any] | None, prompt: Sequence[Any] | None) -> Pending | None:
    """The action that waits for a person. One whose prompt has ended waits for no customer."""
    if action is None:
        return None
    waits_for = WaitsFor(action[8])
    shown = _prompt(action[13], prompt)
    if waits_for is WaitsFor.CUSTOMER and shown is None:
        return None
    return Pending(
        id=action[0],
        tool=action[1],
        arguments=action[2],
        shown=action[3],
        digest=action[4],
        summary=action[5],
        confirmations_needed=action[6],
        asked=Asked(action[7]),
        waits_for=waits_for,
        at_seq=action[9],
        step=action[10],
        repeats=action[11],
        clock_from=action[12],
        prompt=shown,
        decision=read_decision(action[14], action[15], action[16]),
        executing=action[17],
    )


def _prompt(outbound: OutboundId, prompt: Sequence[Any] | None) -> Prompt | None:
    if prompt is None or prompt[0] not in PROMPT_STATES:
        return None
    state, reason, at_send_seq, claimed_at, taken_at, provider_ids, _ = prompt
    return Prompt(
        outbound=outbound,
        state=PromptState.UNKNOWN if reason == "may_have_arrived" else PROMPT_STATES[state],
        at_send_seq=at_send_seq,
        sent_at=claimed_at,
        taken_at=taken_at,
        provider_ids=frozenset(provider_ids or ()),
    )


def _answers(iterations: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """The answers stored so far, one an iteration: of two attempts at the same one, the later."""
    latest = {n: answer for _, n, answer in iterations}
    answers: list[str] = []
    for n in sorted(latest):
        if n != len(answers) + 1:
            break
        answers.append(latest[n])
    return tuple(answers)
