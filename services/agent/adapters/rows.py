"""A claimed row as the turn it is."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from services.agent.core.turn import Business, Heard, Pending, PromptState, Reply, StoredCall, Turn
from shared.autonomy import Mode, strictest
from shared.ids import BusinessId
from shared.messages import MessageKind, Verdict

PROMPT_STATES: Mapping[str, PromptState] = {
    "draft": PromptState.DRAFT,
    "queued": PromptState.QUEUED,
    "sending": PromptState.SENDING,
    "unknown": PromptState.UNKNOWN,
    "sent": PromptState.SENT,
    "delivered": PromptState.SENT,
    "read": PromptState.SENT,
}

Row = Mapping[str, Any]


def read_turn(row: Row, *, model: str) -> Turn:
    """The turn in a row of `claim`. Answers stored under another model are not used: it starts anew."""
    modes = (row["business_mode"], row["account_mode"], row["mode"])
    same_model = row["turn_model"] == model
    return Turn(
        id=row["turn"],
        conversation=row["conversation"],
        token=row["lease_token"],
        business=_business(row),
        customer=row["customer"],
        locale=row["locale"] or row["locales"][0],
        mode=strictest(*(Mode(mode) for mode in modes if mode)),
        epoch=row["handoff_epoch"],
        attempt=row["attempts"],
        fruitless=row["fruitless"],
        now=row["now"],
        messages=tuple(_heard(message) for message in row["messages"]),
        handled_seq=row["handled_seq"],
        replies=tuple(_reply(reply) for reply in reversed(row["replies"] or ())),
        pending=_pending(row["action"], row["prompt"]),
        open_call=row["call_open"],
        stored_answers=_answers(row["iterations"] or ()) if same_model else (),
        stored_calls=tuple(
            StoredCall(n=call[0], position=call[1], call_id=call[2], tool=call[3], result=call[4])
            for call in row["tool_calls"] or ()
        )
        if same_model
        else (),
    )


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
        day_cap_usd=row["day_cap_usd"],
    )


def _heard(message: Sequence[Any]) -> Heard:
    return Heard(
        seq=message[0],
        id=message[1],
        kind=MessageKind(message[2]),
        text=message[3],
        button=message[4],
        quoted=message[5],
        channel_at=message[6],
        received_at=message[7],
        verdict=Verdict(message[8]),
        unsupported=message[9] == "unsupported",
    )


def _reply(reply: Sequence[Any]) -> Reply:
    return Reply(state=reply[2], text=reply[3], basis_seq=reply[4], created_at=reply[5], firm=reply[6])


def _pending(action: Sequence[Any] | None, prompt: Sequence[Any] | None) -> Pending | None:
    """The action that waits for the customer. One whose prompt has ended waits for nobody."""
    if action is None or prompt is None or prompt[0] not in PROMPT_STATES:
        return None
    state, text, reason, at_send_seq, started_at = prompt
    return Pending(
        id=action[0],
        tool=action[1],
        arguments=action[2],
        shown=action[3],
        digest=action[4],
        confirmations_needed=action[5],
        prompt=action[6],
        prompt_text=text,
        prompt_state=PromptState.UNKNOWN if reason == "may_have_arrived" else PROMPT_STATES[state],
        at_seq=action[7],
        at_send_seq=at_send_seq,
        sent_at=started_at,
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
