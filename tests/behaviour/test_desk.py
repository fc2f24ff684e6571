"""What the desk promises operators, on Postgres: one decision holds, the other hears whose it was; all or nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from services.console.adapters.postgres_audit import PostgresAudit
from services.console.adapters.postgres_desk import PostgresRecord, PostgresSitting
from services.console.core.drafts import Draft, DryRun, Fails, Passes, Seen
from services.console.core.outcomes import (
    AlreadyClaimed,
    AlreadyDecided,
    Blank,
    Claimed,
    CustomerWrote,
    Decided,
    Discarded,
    DryRunRefused,
    HandedOver,
    InHandoff,
    MayHaveArrived,
    MovedOn,
    NotFound,
    NotInHandoff,
    NotJudgedYet,
    NotOneLine,
    NotWaiting,
    OnItsWay,
    OptedOut,
    Outcome,
    Released,
    RequestClosed,
    RequestOver,
    SummaryChanged,
    TakenOver,
    TextChanged,
    TimeOver,
    TooLong,
)
from services.console.core.wording import sentence
from services.console.desk import Desk
from services.dispatch.core.delivery import Send, Supersede, decide
from shared.audit import Broken, Intact, Note
from shared.digest import text_digest
from shared.ids import ActionId, ConversationId, OutboundId, new_id
from shared.tickets import Stage
from tests.behaviour.test_outbox import outbox_of
from tests.support.eventually import eventually
from tests.support.factories import Ground

pytestmark = pytest.mark.postgres

TEXT = "Hello, how can I help?"
SUMMARY = "Book: cleaning with Dr. Ionescu, Thursday 3 December, 10:00."
PROMPT = f"{SUMMARY} Reply YES to confirm."
RACES = 20


@dataclass
class Rehearsed:
    """A dry run that comes out as it is told to."""

    comes_out: DryRun = field(default_factory=Passes)
    asked: int = 0

    async def __call__(self, draft: Draft) -> DryRun:
        self.asked += 1
        return self.comes_out


@dataclass
class Rung:
    tickets: list[tuple[Stage, UUID]] = field(default_factory=list)

    async def __call__(self, stage: Stage, ids: Any) -> None:
        self.tickets += [(stage, one) for one in ids]


@pytest.fixture
def rehearsed() -> Rehearsed:
    return Rehearsed()


@pytest.fixture
def rung() -> Rung:
    return Rung()


@pytest.fixture
def ours(place: Ground, rehearsed: Rehearsed, rung: Rung) -> Desk:
    return Desk(PostgresRecord(place.database), rehearsal=rehearsed, rings=rung)


def seen(text: str = TEXT, round_: int = 1) -> Seen:
    return Seen(round=round_, digest=text_digest(text))


async def drafted(place: Ground, text: str = TEXT, **columns: Any) -> tuple[ConversationId, OutboundId]:
    """A conversation whose one message has a reply that waits for an operator."""
    conversation = await place.conversation()
    await place.said(conversation, due=False)
    await place.set_state(conversation, handled_seq=1)
    plain = {"state": "draft", "reason": "suggest", "mode": "suggest", "ring_at": None}
    return conversation, await place.outbound(conversation, text, **(plain | columns))


async def prompted(
    place: Ground, text: str = PROMPT, *, action: dict[str, Any] | None = None, **columns: Any
) -> tuple[ConversationId, OutboundId, ActionId]:
    """A draft that is a prompt, with the action it asks about."""
    conversation, draft = await drafted(place, text, **columns)
    turn = await place.turn(
        conversation, (await place.row("inbound_message", conversation=conversation))["id"]
    )
    made = await place.action(
        conversation, prompt=draft, turn=turn, **({"summary": SUMMARY} | (action or {}))
    )
    await place.set("outbound", {"id": draft}, action=made)
    return conversation, draft, made


async def asked(place: Ground, **action: Any) -> tuple[ConversationId, ActionId]:
    """An action that the customer confirmed and that waits for an operator."""
    until = await place.now() + timedelta(hours=24)
    plain = {"state": "operator", "asked": "both", "waits_until": until}
    conversation, _, made = await prompted(place, action=plain | action, state="sent", reason=None)
    return conversation, made


async def handed(place: Ground, reason: str = "handoff_requested", **state: Any) -> ConversationId:
    conversation = await place.conversation(state="handoff", handoff_epoch=1, **state)
    business = (await place.state(conversation))["business"]
    await place.insert("handoff", conversation=conversation, business=business, epoch=1, reason=reason)
    return conversation


async def log(place: Ground) -> list[tuple[str, str, str]]:
    return [(row["actor"], row["action"], row["subject"]) for row in await place.rows("audit_log", order="n")]


async def unchanged(place: Ground, conversation: ConversationId, before: Any) -> None:
    assert await place.state(conversation) == before
    assert not await log(place)


# Drafts


async def test_a_draft_is_sent_in_its_next_round(place: Ground, ours: Desk, rung: Rung) -> None:
    conversation, draft = await drafted(place, first_try_at=await place.now(), suspect=2)
    version = (await place.state(conversation))["version"]
    assert await ours.send(draft, seen=seen(), by="ana") == OnItsWay(outbound=draft)
    row = await place.row("outbound", id=draft)
    assert (row["state"], row["reason"], row["round"], row["body"]) == ("queued", None, 2, TEXT)
    assert (row["suspect"], row["first_try_at"], row["not_before"]) == (0, None, None)
    assert row["ring_at"] <= await place.now()
    assert (await place.state(conversation))["version"] == version + 1
    decision = await place.row("draft_decision", outbound=draft)
    assert (decision["round"], decision["decision"], decision["decided_by"]) == (1, "send", "ana")
    assert decision["text_digest"] == text_digest(TEXT)
    assert await log(place) == [("ana", "draft.send", str(draft))]
    assert rung.tickets == [(Stage.DISPATCH, draft)]


async def test_an_operator_s_send_does_not_ask_the_mode_again(place: Ground, ours: Desk) -> None:
    conversation, draft = await drafted(place)
    await place.set("business", {"id": (await place.state(conversation))["business"]}, mode="suggest")
    await ours.send(draft, seen=seen(), by="ana")
    (reply,) = await outbox_of(place).gather([draft])
    assert decide(reply) == Send()


async def test_a_sent_draft_is_not_superseded_by_what_comes_after(place: Ground, ours: Desk) -> None:
    conversation, draft = await drafted(place)
    await ours.send(draft, seen=seen(), by="ana")
    await place.said(conversation, "One more thing")
    (reply,) = await outbox_of(place).gather([draft])
    assert decide(reply) not in (Supersede(),)


async def test_a_draft_of_before_a_handoff_is_sent_in_it(place: Ground, ours: Desk) -> None:
    conversation, draft = await drafted(place, reason="handoff")
    await place.set_state(conversation, state="handoff", handoff_epoch=1)
    await ours.send(draft, seen=seen(), by="ana")
    (reply,) = await outbox_of(place).gather([draft])
    assert decide(reply) == Send()


async def test_an_edited_draft_goes_out_with_the_new_text_from_its_start(place: Ground, ours: Desk) -> None:
    _, draft = await drafted(place, parts=3, parts_sent=1)
    outcome = await ours.edit(draft, "  Hello Ana\x00!  ", seen=seen(), by="ana")
    assert outcome == OnItsWay(outbound=draft, edited=True)
    row = await place.row("outbound", id=draft)
    assert (row["body"], row["parts_sent"], row["round"]) == ("Hello Ana\ufffd!", 0, 2)
    decision = await place.row("draft_decision", outbound=draft)
    assert (decision["decision"], decision["text_digest"]) == ("edit", text_digest(TEXT))
    entry = await place.row("audit_log")
    assert entry["action"] == "draft.edit"
    assert text_digest("Hello Ana\ufffd!").hex() in entry["detail"]
    assert "Ana" not in entry["detail"]


async def test_what_was_partly_sent_goes_on_where_it_stopped(place: Ground, ours: Desk) -> None:
    _, draft = await drafted(place, parts=3, parts_sent=1)
    await ours.send(draft, seen=seen(), by="ana")
    assert (await place.row("outbound", id=draft))["parts_sent"] == 1


async def test_a_discarded_draft_never_goes_out(place: Ground, ours: Desk, rung: Rung) -> None:
    _, draft = await drafted(place)
    assert await ours.discard(draft, seen=seen(), by="ana") == Discarded(outbound=draft, ended_request=False)
    row = await place.row("outbound", id=draft)
    assert (row["state"], row["round"], row["reason"]) == ("discarded", 1, "suggest")
    assert (await place.row("draft_decision", outbound=draft))["decision"] == "discard"
    assert await log(place) == [("ana", "draft.discard", str(draft))]
    assert rung.tickets == []


@pytest.mark.parametrize("first", ["send", "edit", "discard"])
@pytest.mark.parametrize("second", ["send", "edit", "discard"])
async def test_the_second_hears_whose_the_first_decision_was(
    place: Ground, ours: Desk, first: str, second: str
) -> None:
    _, draft = await drafted(place)
    await wish(ours, first, draft, by="ana")
    before = await place.row("outbound", id=draft)
    outcome = await wish(ours, second, draft, by="bogdan")
    assert isinstance(outcome, AlreadyDecided)
    assert (outcome.by, outcome.what) == ("ana", first)
    assert "Already decided by ana (" in sentence(outcome)
    assert await place.row("outbound", id=draft) == before
    assert len(await log(place)) == 1


async def wish(ours: Desk, what: str, draft: OutboundId, *, by: str, text: str = TEXT) -> Outcome:
    match what:
        case "send":
            return await ours.send(draft, seen=seen(text), by=by)
        case "edit":
            return await ours.edit(draft, f"{text} ({by})", seen=seen(text), by=by)
        case _:
            return await ours.discard(draft, seen=seen(text), by=by)


@pytest.mark.parametrize("race", range(RACES))
async def test_of_two_operators_at_the_same_moment_one_decides(place: Ground, ours: Desk, race: int) -> None:
    conversation, draft = await drafted(place)
    wishes = ("send", "edit", "discard")
    pair = {"ana": wishes[race % 3], "bogdan": wishes[(race // 3) % 3]}
    outcomes = await at_once(
        {by: lambda by=by, what=what: wish(ours, what, draft, by=by) for by, what in pair.items()}
    )
    told = {by: one for by, one in outcomes.items() if isinstance(one, AlreadyDecided)}
    ((loser, already),) = told.items()
    (winner,) = set(pair) - {loser}
    assert (already.by, already.what) == (winner, pair[winner])
    assert [(row["decided_by"], row["decision"]) for row in await place.rows("draft_decision")] == [
        (winner, pair[winner])
    ]
    assert (await place.row("outbound", id=draft))["state"] == (
        "discarded" if pair[winner] == "discard" else "queued"
    )
    assert [actor for actor, _, _ in await log(place)] == [winner]
    assert (await place.state(conversation))["version"] == 2


async def at_once(calls: dict[str, Callable[[], Awaitable[Outcome]]]) -> dict[str, Outcome]:
    gate = asyncio.Event()

    async def call(one: Callable[[], Awaitable[Outcome]]) -> Outcome:
        await gate.wait()
        return await one()

    async with asyncio.TaskGroup() as tasks:
        running = {by: tasks.create_task(call(one)) for by, one in calls.items()}
        gate.set()
    return {by: task.result() for by, task in running.items()}


async def test_a_text_that_was_changed_meanwhile_is_shown_again(place: Ground, ours: Desk) -> None:
    conversation, draft = await drafted(place, "Hello, we are closed today.")
    before = await place.state(conversation)
    outcome = await ours.send(draft, seen=seen("Hello, we are open today."), by="ana")
    assert outcome == TextChanged(round=1, text="Hello, we are closed today.")
    await unchanged(place, conversation, before)


async def test_a_draft_that_came_back_was_not_seen(place: Ground, ours: Desk) -> None:
    _, draft = await drafted(place, round=2, reason="send_failed")
    assert await ours.send(draft, seen=seen(round_=1), by="ana") == TextChanged(round=2, text=TEXT)
    assert await ours.send(draft, seen=seen(round_=2), by="ana") == OnItsWay(outbound=draft)


@pytest.mark.parametrize(
    "state", ["queued", "sending", "sent", "delivered", "superseded", "discarded", "unknown"]
)
async def test_what_is_no_draft_any_more_is_left_alone(place: Ground, ours: Desk, state: str) -> None:
    conversation, draft = await drafted(place, state=state)
    before = await place.state(conversation)
    for what in ("send", "edit", "discard"):
        assert await wish(ours, what, draft, by="ana") == MovedOn(state=state)
    await unchanged(place, conversation, before)


async def test_there_is_none_of_that_id(ours: Desk) -> None:
    nobody = new_id()
    assert await ours.send(OutboundId(nobody), seen=seen(), by="ana") == NotFound()
    assert await ours.approve(ActionId(nobody), by="ana") == NotFound()
    assert await ours.claim(ConversationId(nobody), by="ana") == NotFound()


@pytest.mark.parametrize(
    ("state", "refused"),
    [
        ({"opted_out_at": True}, OptedOut()),
        ({"unguarded": 1}, NotJudgedYet()),
        ({"guarded_seq": 2, "customer_seq": 2}, CustomerWrote()),
    ],
    ids=["opted out", "not judged yet", "the customer wrote"],
)
async def test_a_draft_may_be_discarded_but_not_sent(
    place: Ground, ours: Desk, state: dict[str, Any], refused: Outcome
) -> None:
    conversation, draft = await drafted(place)
    await place.set_state(
        conversation, **(state if "opted_out_at" not in state else {"opted_out_at": await place.now()})
    )
    before = await place.state(conversation)
    assert await ours.send(draft, seen=seen(), by="ana") == refused
    assert await ours.edit(draft, "Hello", seen=seen(), by="ana") == refused
    await unchanged(place, conversation, before)
    assert isinstance(await ours.discard(draft, seen=seen(), by="ana"), Discarded)


@pytest.mark.parametrize(
    "columns", [{"receipt": True}, {"origin_kind": "operator"}], ids=["receipt", "operator's"]
)
async def test_nothing_newer_stands_against_a_receipt_or_a_person_s_words(
    place: Ground, ours: Desk, columns: dict[str, Any]
) -> None:
    conversation, draft = await drafted(place, **columns)
    await place.said(conversation, "And another thing")
    assert await ours.send(draft, seen=seen(), by="ana") == OnItsWay(outbound=draft)


@pytest.mark.parametrize(
    ("text", "refused"), [(" \n\u200b", Blank()), ("x" * 10_001, TooLong(most=10_000))], ids=["blank", "long"]
)
async def test_an_edit_is_a_message(place: Ground, ours: Desk, text: str, refused: Outcome) -> None:
    conversation, draft = await drafted(place)
    before = await place.state(conversation)
    assert await ours.edit(draft, text, seen=seen(), by="ana") == refused
    await unchanged(place, conversation, before)


async def test_what_may_have_arrived_goes_again_only_knowingly(place: Ground, ours: Desk) -> None:
    _, draft = await drafted(place, reason="may_have_arrived")
    await place.attempt(draft, state="undecided")
    assert await ours.send(draft, seen=seen(), by="ana") == MayHaveArrived()
    assert await ours.send(draft, seen=seen(), by="ana", knowing=True) == OnItsWay(outbound=draft)
    assert "may_have_arrived" in (await place.row("audit_log"))["detail"]


async def test_discarding_what_may_have_arrived_closes_the_decision(place: Ground, ours: Desk) -> None:
    _, draft = await drafted(place, reason="may_have_arrived")
    await place.attempt(draft, state="undecided")
    assert isinstance(await ours.discard(draft, seen=seen(), by="ana"), Discarded)
    assert (await place.row("outbound", id=draft))["state"] == "discarded"


@pytest.mark.parametrize(("what", "how"), [("send", "sent by ana"), ("discard", "discarded by ana")])
async def test_a_decision_settles_the_letter_among_the_dead(
    place: Ground, ours: Desk, what: str, how: str
) -> None:
    conversation, draft = await drafted(place, reason="processing_failed")
    await place.insert(
        "dead", id=new_id(), business=(await place.state(conversation))["business"], stage="dispatch",
        conversation=conversation, subject=draft, reason="five times",
    )  # fmt: skip
    await wish(ours, what, draft, by="ana")
    assert (await place.row("dead"))["settled_how"] == how


# Drafts that are prompts


async def test_discarding_a_prompt_ends_its_action(place: Ground, ours: Desk) -> None:
    _, draft, action = await prompted(place)
    assert await ours.discard(draft, seen=seen(PROMPT), by="ana") == Discarded(
        outbound=draft, ended_request=True
    )
    row = await place.row("pending_action", id=action)
    assert (row["state"], row["reason"]) == ("cleared", "discarded")
    assert row["ended_at"] is not None


async def test_an_action_that_waits_for_an_operator_outlives_its_drafts(place: Ground, ours: Desk) -> None:
    _, draft, action = await prompted(place, action={"state": "operator", "asked": "operator"})
    assert await ours.discard(draft, seen=seen(PROMPT), by="ana") == Discarded(
        outbound=draft, ended_request=False
    )
    assert (await place.row("pending_action", id=action))["state"] == "operator"


async def test_an_action_that_is_asked_by_another_prompt_stays(place: Ground, ours: Desk) -> None:
    _, draft, action = await prompted(place)
    await place.set("pending_action", {"id": action}, prompt=new_id())
    assert await ours.send(draft, seen=seen(PROMPT), by="ana") == RequestClosed(state="customer")
    assert await ours.discard(draft, seen=seen(PROMPT), by="ana") == Discarded(
        outbound=draft, ended_request=False
    )
    assert (await place.row("pending_action", id=action))["state"] == "customer"


@pytest.mark.parametrize("state", ["executed", "refused", "cleared", "replaced", "superseded", "declined"])
async def test_a_prompt_whose_action_has_ended_is_not_sent(place: Ground, ours: Desk, state: str) -> None:
    conversation, draft, _ = await prompted(place, action={"state": state})
    before = await place.state(conversation)
    assert await ours.send(draft, seen=seen(PROMPT), by="ana") == RequestClosed(state=state)
    await unchanged(place, conversation, before)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        (f"Dear Ana! {SUMMARY} Just answer YES.", True),
        (SUMMARY, True),
        ("Book: cleaning with Dr. Ionescu, Thursday 3 December, 11:00. Reply YES.", False),
        (SUMMARY.replace("Ionescu", "Ionesc\u200bu"), False),
        (SUMMARY.upper(), False),
    ],
)
async def test_an_edited_prompt_keeps_the_system_s_summary(
    place: Ground, ours: Desk, text: str, sent: bool
) -> None:
    conversation, draft, _ = await prompted(place)
    before = await place.state(conversation)
    outcome = await ours.edit(draft, text, seen=seen(PROMPT), by="ana")
    assert (outcome == OnItsWay(outbound=draft, edited=True)) is sent
    if not sent:
        assert outcome == SummaryChanged(summary=SUMMARY)
        await unchanged(place, conversation, before)


async def test_a_prompt_stays_one_message(place: Ground, ours: Desk) -> None:
    _, draft, _ = await prompted(place)
    assert await ours.edit(draft, SUMMARY + "!" * 1_000, seen=seen(PROMPT), by="ana") == TooLong(most=1_000)


async def test_a_prompt_without_a_known_summary_is_sent_as_it_is_or_not(place: Ground, ours: Desk) -> None:
    _, draft, _ = await prompted(place, action={"summary": ""})
    assert await ours.edit(draft, PROMPT + "!", seen=seen(PROMPT), by="ana") == SummaryChanged(summary="")
    assert await ours.send(draft, seen=seen(PROMPT), by="ana") == OnItsWay(outbound=draft)


async def ago(place: Ground, **time: float) -> Any:
    return await place.now() - timedelta(**time)


async def test_a_fresh_prompt_needs_no_dry_run(place: Ground, ours: Desk, rehearsed: Rehearsed) -> None:
    _, draft, _ = await prompted(place, created_at=await ago(place, minutes=14))
    assert await ours.send(draft, seen=seen(PROMPT), by="ana") == OnItsWay(outbound=draft)
    assert rehearsed.asked == 0


async def test_an_older_prompt_is_looked_at_before_it_is_sent(
    place: Ground, ours: Desk, rehearsed: Rehearsed
) -> None:
    conversation, draft, action = await prompted(place, created_at=await ago(place, minutes=16))
    rehearsed.comes_out = Fails(why="That time is taken.")
    before = await place.state(conversation)
    outcome = await ours.send(draft, seen=seen(PROMPT), by="ana")
    assert outcome == DryRunRefused(why="That time is taken.")
    assert "That time is taken." in sentence(outcome)
    await unchanged(place, conversation, before)
    assert (await place.row("pending_action", id=action))["state"] == "customer"
    rehearsed.comes_out = Passes()
    assert await ours.send(draft, seen=seen(PROMPT), by="ana") == OnItsWay(outbound=draft)
    assert rehearsed.asked == 2


async def test_a_draft_that_asks_nothing_needs_no_dry_run(
    place: Ground, ours: Desk, rehearsed: Rehearsed
) -> None:
    _, draft = await drafted(place, created_at=await ago(place, days=3))
    assert await ours.send(draft, seen=seen(), by="ana") == OnItsWay(outbound=draft)
    assert rehearsed.asked == 0


async def test_a_prompt_that_waited_a_day_is_over(place: Ground, ours: Desk, rung: Rung) -> None:
    _, draft, action = await prompted(place, created_at=await ago(place, hours=24, seconds=1))
    assert await ours.send(draft, seen=seen(PROMPT), by="ana") == RequestOver()
    assert (await place.row("outbound", id=draft))["state"] == "discarded"
    row = await place.row("pending_action", id=action)
    assert (row["state"], row["reason"]) == ("cleared", "prompt_too_old")
    assert await log(place) == [("ana", "draft.expire", str(draft))]
    assert rung.tickets == []


async def test_a_prompt_that_stops_being_fresh_under_our_hands_is_looked_at_all_the_same(
    place: Ground, rehearsed: Rehearsed
) -> None:
    """The look finds it fresh, the lock is got late: the dry run is made then."""
    _, draft, _ = await prompted(place, created_at=await ago(place, minutes=15) + timedelta(seconds=1))

    class Late(PostgresRecord):
        def sitting(self, conversation: ConversationId) -> Any:
            return late(super().sitting(conversation))

    def late(sitting: Any) -> Any:
        class Waits:
            async def __aenter__(self) -> Any:
                await asyncio.sleep(1.1)
                return await sitting.__aenter__()

            async def __aexit__(self, *error: Any) -> Any:
                return await sitting.__aexit__(*error)

        return Waits()

    ours = Desk(Late(place.database), rehearsal=rehearsed)
    assert await ours.send(draft, seen=seen(PROMPT), by="ana") == OnItsWay(outbound=draft)
    assert rehearsed.asked == 1


# Codes of what was seen


async def test_a_code_names_what_a_list_showed(place: Ground, ours: Desk) -> None:
    _, draft = await drafted(place)
    code = seen().code
    assert await ours.seen(draft, code) == await ours.seen(draft) == seen()
    await ours.send(draft, seen=seen(), by="ana")
    assert await ours.seen(draft, code) == seen(), "decided about: whoever comes later is told by whom"
    await place.set("outbound", {"id": draft}, state="draft", reason="send_failed")
    assert await ours.seen(draft, code) == seen()
    assert (await ours.seen(draft)).round == 2


async def test_a_code_of_a_text_that_nobody_has_is_refused(place: Ground, ours: Desk) -> None:
    _, draft = await drafted(place)
    stale = await ours.seen(draft, seen("another text").code)
    assert await ours.send(draft, seen=stale, by="ana") == TextChanged(round=1, text=TEXT)


# Approvals


@pytest.mark.parametrize("approves", [True, False], ids=["approve", "decline"])
async def test_an_answer_is_recorded_and_the_agent_owed(
    place: Ground, ours: Desk, rung: Rung, approves: bool
) -> None:
    conversation, action = await asked(place)
    before = await place.state(conversation)
    outcome = await (
        ours.approve(action, by="ana") if approves else ours.decline(action, " Not on\x00 Sundays ", by="ana")
    )
    assert outcome == Decided(approved=approves)
    row = await place.row("pending_action", id=action)
    assert (row["state"], row["decided"], row["decided_by"]) == (
        "operator", "approved" if approves else "declined", "ana",
    )  # fmt: skip
    assert row["decided_why"] == (None if approves else "Not on\ufffd Sundays")
    assert row["decided_at"] is not None
    state = await place.state(conversation)
    assert row["decision"] is not None
    assert state["decision_owed"] == row["decision"]
    assert state["due_at"] <= await place.now()
    assert state["version"] == before["version"] + 1
    assert await log(place) == [("ana", f"approval.{'approve' if approves else 'decline'}", str(action))]
    assert "Sundays" not in (await place.row("audit_log"))["detail"]
    assert rung.tickets == [(Stage.AGENT, conversation)]


async def test_what_is_due_earlier_stays_due_earlier(place: Ground, ours: Desk) -> None:
    conversation, action = await asked(place)
    earlier = await ago(place, seconds=5)
    await place.set_state(conversation, due_at=earlier)
    await ours.approve(action, by="ana")
    assert (await place.state(conversation))["due_at"] == earlier


async def test_what_is_due_later_is_due_now(place: Ground, ours: Desk) -> None:
    conversation, action = await asked(place)
    await place.set_state(conversation, due_at=await place.now() + timedelta(seconds=9))
    await ours.approve(action, by="ana")
    assert (await place.state(conversation))["due_at"] <= await place.now()


@pytest.mark.parametrize("race", range(RACES))
async def test_of_two_that_answer_at_the_same_moment_one_is_heard(
    place: Ground, ours: Desk, race: int
) -> None:
    _, action = await asked(place)

    def say(by: str, approves: bool) -> Callable[[], Awaitable[Outcome]]:
        return lambda: ours.approve(action, by=by) if approves else ours.decline(action, "No.", by=by)

    says = {"ana": race % 2 == 0, "bogdan": race % 4 < 2}
    outcomes = await at_once({by: say(by, approves) for by, approves in says.items()})
    ((loser, already),) = {by: one for by, one in outcomes.items() if isinstance(one, AlreadyDecided)}.items()
    (winner,) = set(says) - {loser}
    row = await place.row("pending_action", id=action)
    assert already.by == row["decided_by"] == winner
    assert already.what == row["decided"] == ("approved" if says[winner] else "declined")
    assert [actor for actor, _, _ in await log(place)] == [winner]


async def test_an_approval_is_refused_while_people_answer(place: Ground, ours: Desk) -> None:
    conversation, action = await asked(place)
    await place.set_state(conversation, state="handoff", handoff_epoch=1)
    before = await place.state(conversation)
    assert await ours.approve(action, by="ana") == InHandoff()
    assert await ours.decline(action, "No.", by="ana") == InHandoff()
    await unchanged(place, conversation, before)


async def test_the_opted_out_are_not_approved_for_but_may_be_declined(place: Ground, ours: Desk) -> None:
    conversation, action = await asked(place)
    await place.set_state(conversation, opted_out_at=await place.now())
    assert await ours.approve(action, by="ana") == OptedOut()
    assert await ours.decline(action, "No.", by="ana") == Decided(approved=False)


async def test_an_approval_whose_time_is_over_is_a_decline(place: Ground, ours: Desk) -> None:
    until = await ago(place, seconds=1)
    conversation, action = await asked(place, waits_until=until)
    before = await place.state(conversation)
    assert await ours.approve(action, by="ana") == TimeOver(until=until)
    await unchanged(place, conversation, before)
    await place.set("pending_action", {"id": action}, decision=new_id(), decided="expired", decided_at=until)
    outcome = await ours.approve(action, by="ana")
    assert outcome == AlreadyDecided(by="the clock", what="expired", at=until)


@pytest.mark.parametrize("state", ["customer", "executed", "refused", "declined", "cleared", "replaced"])
async def test_what_waits_for_no_operator_is_left_alone(place: Ground, ours: Desk, state: str) -> None:
    conversation, action = await asked(place, state=state)
    before = await place.state(conversation)
    assert await ours.approve(action, by="ana") == NotWaiting(state=state)
    await unchanged(place, conversation, before)


@pytest.mark.parametrize(
    ("why", "refused"),
    [("", NotOneLine()), ("\u200b ", NotOneLine()), ("one\ntwo", NotOneLine()), ("one\u2028two", NotOneLine()), ("x" * 301, TooLong(most=300))],
)  # fmt: skip
async def test_a_reason_is_one_line(place: Ground, ours: Desk, why: str, refused: Outcome) -> None:
    conversation, action = await asked(place)
    before = await place.state(conversation)
    assert await ours.decline(action, why, by="ana") == refused
    await unchanged(place, conversation, before)
    assert await ours.decline(action, "x" * 300, by="ana") == Decided(approved=False)


# Handoffs


async def test_a_handoff_is_claimed_once(place: Ground, ours: Desk) -> None:
    conversation = await handed(place)
    assert await ours.claim(conversation, by="ana") == Claimed(conversation=conversation)
    row = await place.row("handoff", conversation=conversation)
    outcome = await ours.claim(conversation, by="bogdan")
    assert outcome == AlreadyClaimed(by="ana", at=row["claimed_at"])
    assert "claimed by ana" in sentence(outcome)
    assert await place.row("handoff", conversation=conversation) == row
    assert await log(place) == [("ana", "handoff.claim", str(conversation))]


@pytest.mark.parametrize("race", range(RACES))
async def test_of_two_that_claim_at_the_same_moment_one_has_it(place: Ground, ours: Desk, race: int) -> None:
    conversation = await handed(place)
    outcomes = await at_once({by: lambda by=by: ours.claim(conversation, by=by) for by in ("ana", "bogdan")})
    (loser,) = (by for by, one in outcomes.items() if isinstance(one, AlreadyClaimed))
    already = outcomes[loser]
    assert isinstance(already, AlreadyClaimed)
    assert already.by == (await place.row("handoff"))["claimed_by"] != loser
    assert [actor for actor, _, _ in await log(place)] == [already.by]


async def test_a_person_answers_in_a_handoff(place: Ground, ours: Desk, rung: Rung) -> None:
    conversation = await handed(place, guarded_seq=4, customer_seq=2, handled_seq=2)
    outcome = await ours.reply(conversation, " I'll look into it. ", by="ana")
    assert isinstance(outcome, OnItsWay)
    row = await place.row("outbound", id=outcome.outbound)
    assert (row["origin_kind"], row["state"], row["body"]) == ("operator", "queued", "I'll look into it.")
    assert (row["basis_seq"], row["epoch"], row["mode"]) == (4, 1, "auto")
    assert (await place.row("handoff"))["claimed_by"] == "ana", "who answers has claimed it"
    assert rung.tickets == [(Stage.DISPATCH, outcome.outbound)]
    (reply,) = await outbox_of(place).gather([outcome.outbound])
    assert decide(reply) == Send()
    assert "look" not in (await place.row("audit_log"))["detail"]


async def test_a_colleague_may_help_without_taking_it_away(place: Ground, ours: Desk) -> None:
    conversation = await handed(place)
    await ours.claim(conversation, by="ana")
    assert isinstance(await ours.reply(conversation, "Hello", by="bogdan"), OnItsWay)
    assert (await place.row("handoff"))["claimed_by"] == "ana"


async def test_one_key_is_one_message(place: Ground, ours: Desk) -> None:
    conversation, key = await handed(place), new_id()
    for _ in range(2):
        assert isinstance(await ours.reply(conversation, "Hello", by="ana", key=key), OnItsWay)
    assert len(await place.rows("outbound")) == 1


@pytest.mark.parametrize(
    ("state", "text", "refused"),
    [
        ({"state": "bot"}, "Hello", NotInHandoff()),
        ({"opted_out_at": True}, "Hello", OptedOut()),
        ({}, "\u200b", Blank()),
        ({}, "x" * 10_001, TooLong(most=10_000)),
    ],
    ids=["the bot's", "opted out", "blank", "long"],
)
async def test_what_can_not_be_said_is_not(
    place: Ground, ours: Desk, state: dict[str, Any], text: str, refused: Outcome
) -> None:
    conversation = await handed(place)
    await place.set_state(
        conversation,
        **({"opted_out_at": await place.now()} if "opted_out_at" in state else state | {"handoff_epoch": 1}),
    )
    before = await place.state(conversation)
    assert await ours.reply(conversation, text, by="ana") == refused
    await unchanged(place, conversation, before)
    assert not await place.rows("outbound")


async def test_released_the_bot_answers_what_comes_next(place: Ground, ours: Desk) -> None:
    conversation = await handed(place, guarded_seq=4, customer_seq=2, handled_seq=2)
    assert await ours.release(conversation, by="ana", note="All settled") == Released(
        conversation=conversation
    )
    state = await place.state(conversation)
    assert (state["state"], state["handoff_epoch"], state["due_at"]) == ("bot", 2, None)
    assert state["released_at"] is not None
    row = await place.row("handoff")
    assert (row["released_by"], row["note"]) == ("ana", "All settled")
    assert row["released_at"] is not None
    assert await ours.release(conversation, by="bogdan") == NotInHandoff()
    assert await ours.claim(conversation, by="bogdan") == NotInHandoff()
    assert await log(place) == [("ana", "handoff.release", str(conversation))]
    assert "settled" not in (await place.row("audit_log"))["detail"]


@pytest.mark.parametrize(
    "owed", [{"customer_seq": 3}, {"decision_owed": new_id()}], ids=["a message", "a decision"]
)
async def test_released_what_waited_for_the_bot_is_due(
    place: Ground, ours: Desk, owed: dict[str, Any]
) -> None:
    conversation = await handed(place, **({"guarded_seq": 4, "customer_seq": 2, "handled_seq": 2} | owed))
    await ours.release(conversation, by="ana")
    assert (await place.state(conversation))["due_at"] <= await place.now()


async def test_taken_over_what_the_customer_did_not_confirm_is_cleared(place: Ground, ours: Desk) -> None:
    conversation, prompt, action = await prompted(place)
    receipt = await place.outbound(conversation, "Booked.", state="draft", receipt=True)
    another = await place.outbound(conversation, "Hello", state="draft")
    await place.set_state(conversation, due_at=await place.now())
    assert await ours.take(conversation, by="ana") == TakenOver(conversation=conversation, ended_request=True)
    state = await place.state(conversation)
    assert (state["state"], state["handoff_epoch"], state["due_at"], state["handled_seq"]) == (
        "handoff",
        1,
        None,
        1,
    )
    row = await place.row("handoff")
    assert (row["reason"], row["epoch"], row["claimed_by"]) == ("operator", 1, "ana")
    assert (await place.row("pending_action", id=action))["state"] == "cleared"
    states = {row["id"]: row["state"] for row in await place.rows("outbound")}
    assert states == {prompt: "discarded", receipt: "draft", another: "superseded"}
    assert await log(place) == [("ana", "handoff.take", str(conversation))]
    outcome = await ours.take(conversation, by="bogdan")
    assert outcome == HandedOver(reason="operator", by="ana", at=row["claimed_at"])


async def test_taken_over_a_queued_prompt_does_not_leave(place: Ground, ours: Desk) -> None:
    conversation, prompt, _ = await prompted(place, state="queued", reason=None)
    await ours.take(conversation, by="ana")
    assert (await place.row("outbound", id=prompt))["state"] == "discarded"


async def test_taken_over_what_waits_for_an_operator_stays(place: Ground, ours: Desk) -> None:
    conversation, action = await asked(place)
    assert await ours.take(conversation, by="ana") == TakenOver(
        conversation=conversation, ended_request=False
    )
    assert (await place.row("pending_action", id=action))["state"] == "operator"


async def test_taken_over_a_turn_under_way_keeps_its_row_due_until_it_ends(place: Ground, ours: Desk) -> None:
    conversation = await place.conversation()
    await place.said(conversation)
    await place.leased(conversation)
    due_at = (await place.state(conversation))["due_at"]
    await ours.take(conversation, by="ana")
    state = await place.state(conversation)
    assert state["due_at"] == due_at, "a dead worker's lease is found by it"
    assert state["handled_seq"] == state["customer_seq"]


# All or nothing


@pytest.mark.parametrize(
    "what", ["send", "edit", "discard", "approve", "decline", "claim", "reply", "release", "take"]
)
async def test_a_decision_that_can_not_be_written_down_is_none(
    place: Ground, ours: Desk, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies, or the connection, before the commit: nothing of it is there."""

    async def dies(self: PostgresSitting, note: Note) -> None:
        raise ConnectionResetError

    conversation, draft = await drafted(place)
    _, action = await asked(place)
    human = await handed(place)
    calls: dict[str, Callable[[], Awaitable[Outcome]]] = {
        "approve": lambda: ours.approve(action, by="ana"),
        "decline": lambda: ours.decline(action, "No.", by="ana"),
        "claim": lambda: ours.claim(human, by="ana"),
        "reply": lambda: ours.reply(human, "Hello", by="ana"),
        "release": lambda: ours.release(human, by="ana"),
        "take": lambda: ours.take(conversation, by="ana"),
    }
    before = await everything(place)
    with monkeypatch.context() as dying:
        dying.setattr(PostgresSitting, "audit", dies)
        with pytest.raises(Exception, match="Postgres"):
            await (calls[what]() if what in calls else wish(ours, what, draft, by="ana"))
    assert await everything(place) == before
    outcome = await (calls[what]() if what in calls else wish(ours, what, draft, by="ana"))
    assert not isinstance(outcome, AlreadyDecided)
    assert len(await log(place)) == 1


async def everything(place: Ground) -> dict[str, list[Any]]:
    tables = (
        "conversation_state",
        "outbound",
        "pending_action",
        "handoff",
        "draft_decision",
        "audit_log",
        "audit_head",
    )
    return {table: await place.rows(table) for table in tables}


# What others do at the same time


@pytest.mark.parametrize(
    ("meanwhile", "refused"),
    [
        ("opted_out_at = now()", OptedOut()),
        ("unguarded = 1", NotJudgedYet()),
        ("guarded_seq = 2, customer_seq = 2", CustomerWrote()),
    ],
    ids=["opts out", "writes", "is judged"],
)
async def test_a_draft_is_decided_on_the_row_as_it_is_when_it_is_got(
    place: Ground, ours: Desk, meanwhile: str, refused: Outcome
) -> None:
    conversation, draft = await drafted(place)
    outcome = await decided_after(
        place, conversation, meanwhile, lambda: ours.send(draft, seen=seen(), by="ana")
    )
    assert outcome == refused
    assert (await place.row("outbound", id=draft))["state"] == "draft"


async def test_an_approval_is_decided_on_the_row_as_it_is_when_it_is_got(place: Ground, ours: Desk) -> None:
    conversation, action = await asked(place)
    handoff = "state = 'handoff', handoff_epoch = 1"
    assert (
        await decided_after(place, conversation, handoff, lambda: ours.approve(action, by="ana"))
        == InHandoff()
    )
    assert (await place.row("pending_action", id=action))["decided"] is None


async def decided_after(
    place: Ground, conversation: ConversationId, change: str, call: Callable[[], Awaitable[Outcome]]
) -> Outcome:
    """Called while another transaction changes the row, which commits once we wait for it, wherever that is."""
    other = await asyncpg.connect(place.url, server_settings={"search_path": "leeway"})
    try:
        async with asyncio.TaskGroup() as tasks, other.transaction():
            query = f"update conversation_state set {change}, version = version + 1 where conversation = $1"
            await other.execute(query, conversation)
            calling = tasks.create_task(as_coroutine(call))
            await eventually(lambda: somebody_waits(place))
        return calling.result()
    finally:
        await other.close()


async def as_coroutine(call: Callable[[], Awaitable[Outcome]]) -> Outcome:
    return await call()


async def somebody_waits(place: Ground) -> bool:
    query = "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')"
    found: bool = await place.owner.fetchval(query)
    return found


# The log


async def test_the_chain_is_whole_whoever_decides_at_once(place: Ground, ours: Desk) -> None:
    account = await place.account()
    conversations = [await place.conversation(account) for _ in range(10)]
    await at_once(
        {
            f"operator {at}": lambda one=one, at=at: ours.take(one, by=f"operator {at}")
            for at, one in enumerate(conversations)
        }
    )
    business = (await place.state(conversations[0]))["business"]
    verified = await PostgresAudit(place.database).verified(business)
    assert isinstance(verified, Intact)
    assert verified.head.n == 10
    times = [row["at"] for row in await place.rows("audit_log", order="n")]
    assert times == sorted(times)


TAMPERED = {
    "another actor": ("update audit_log set actor = 'bogdan' where n = 2", 2, "is not as it was written"),
    "another detail": ("update audit_log set detail = '{}' where n = 2", 2, "is not as it was written"),
    "another time": (
        "update audit_log set at = at + interval '1 s' where n = 2",
        2,
        "is not as it was written",
    ),
    "another digest": ("update audit_log set digest = 'x' where n = 2", 2, "is not as it was written"),
    "left out": ("delete from audit_log where n = 2", 2, "is missing"),
    "cut off": ("delete from audit_log where n = 3", 3, "is missing"),
    "all gone": ("delete from audit_log", 1, "is missing"),
    "no head": ("delete from audit_head", 3, "does not fit the chain's head"),
    "another head": ("update audit_head set n = 2", 3, "does not fit the chain's head"),
}


@pytest.mark.parametrize("case", TAMPERED)
async def test_tampering_is_found_and_its_entry_named(place: Ground, ours: Desk, case: str) -> None:
    query, n, what = TAMPERED[case]
    conversation = await handed(place)
    business = (await place.state(conversation))["business"]
    await ours.claim(conversation, by="ana")
    await ours.reply(conversation, "Hello", by="ana")
    await ours.release(conversation, by="ana")
    audit = PostgresAudit(place.database)
    assert isinstance(await audit.verified(business), Intact)
    await place.owner.execute(query)
    assert await audit.verified(business) == Broken(n=n, what=what)


async def test_no_service_may_change_the_log(place: Ground) -> None:
    connection = await asyncpg.connect(
        place.url, server_settings={"search_path": "leeway", "role": "leeway_pipeline"}
    )
    try:
        for query in ("update audit_log set actor = 'x'", "delete from audit_log", "delete from audit_head"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(query)
    finally:
        await connection.close()
