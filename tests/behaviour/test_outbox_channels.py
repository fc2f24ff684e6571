"""What the record of replies keeps of channels, on Postgres: pace, window, opt-out, templates, what a send is worth, side calls."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import combinations, permutations
from typing import Any

import pytest

from services.dispatch.adapters.channels.sim import SimChannel
from services.dispatch.adapters.postgres_addresses import PostgresAddresses
from services.dispatch.adapters.postgres_outbox import PostgresOutbox
from services.dispatch.core.delivery import Discard, DraftReason, MakeDraft, Send, Wait, decide
from services.dispatch.core.outcome import (
    Accepted,
    AccountRefused,
    NoAnswer,
    OptedOut,
    Outcome,
    Throttled,
    WindowClosed,
    settle,
)
from services.dispatch.core.troubles import outcome_of
from services.dispatch.handler import Dispatch
from services.dispatch.ports import Claimed, CourtesyKind, Decided, Settlement
from services.ingest.adapters.postgres_inbox import PostgresInbox
from services.ingest.core.entrance import Account
from services.ingest.core.events import STATUSES, Status
from services.ingest.ports import Request
from shared.broker.memory import MemoryBroker
from shared.channels.traits import TRAITS, ChannelName
from shared.channels.troubles import Trouble
from shared.clock import SystemClock
from shared.ids import AccountId, AttemptId, BusinessId, ConversationId, OutboundId, WorkerNumber, new_id
from shared.messages import MessageKind
from shared.secrets import Vault, new_key
from shared.settings import Timeouts
from shared.telemetry.metrics import Metrics
from shared.work.slots import Slots
from tests.support.factories import Ground, SetClock, Worker

pytestmark = pytest.mark.postgres

VAULT = Vault(new_key())
WHATSAPP = '{"phone_number_id": "1"}'
WITH_TEMPLATE = '{"phone_number_id": "1", "template": {"name": "reply", "language": "ro"}}'
BUTTONS = '[{"id": "a:confirm", "title": "Confirm"}]'


def outbox_of(place: Ground, *, worker: int = 1) -> PostgresOutbox:
    return PostgresOutbox(
        place.database,
        presence=Worker(WorkerNumber(worker)),  # type: ignore[arg-type]  # only its number is asked
        addresses=PostgresAddresses(place.database, VAULT, SetClock()),
        unknown_after=timedelta(seconds=45),
    )


@pytest.fixture
def outbox(place: Ground) -> PostgresOutbox:
    return outbox_of(place)


async def line(place: Ground, channel: str, **columns: Any) -> AccountId:
    settings = WHATSAPP if channel == ChannelName.WHATSAPP else "{}"
    return await place.account(channel=channel, **({"settings": settings} | columns))


async def answered(
    place: Ground,
    account: AccountId,
    *,
    user_id: str | None = None,
    ago: timedelta = timedelta(),
    **columns: Any,
) -> tuple[ConversationId, OutboundId]:
    """A conversation whose one message, written so long ago, has a reply that waits."""
    conversation = await place.conversation(account, user_id=user_id)
    await place.said(conversation, due=False)
    await place.set_state(conversation, handled_seq=1, last_customer_at=await place.now() - ago)
    return conversation, await place.outbound(conversation, **columns)


async def recorded(outbox: PostgresOutbox, outbound: OutboundId, **fields: Any) -> Claimed | None:
    """What is decided on the reply, recorded; the claim, if it is one."""
    (reply,) = await outbox.gather([outbound])
    parts = fields.get("parts", (reply.body,))
    claimed, _ = await outbox.record([Decided(reply=reply, decision=decide(reply), parts=parts)])
    return claimed[0] if claimed else None


def settlement(claimed: Claimed, outcome: Outcome, *, next_attempt: AttemptId | None = None) -> Settlement:
    settled = settle(
        outcome,
        last_part=claimed.last_part,
        idempotent=False,
        backoff=timedelta(seconds=1),
        by_template=claimed.by_template,
    )
    return Settlement(claimed=claimed, settled=settled, next_attempt=next_attempt)


async def claim_one(outbox: PostgresOutbox, outbound: OutboundId) -> Claimed:
    (claimed,) = await outbox.claim_plain([outbound])
    return claimed


async def status(place: Ground, claimed: Claimed, said: Sequence[Status]) -> None:
    row = await place.row("channel_account", id=claimed.account)
    account = Account(
        id=claimed.account, business=BusinessId(row["business"]), business_slug="clinic", channel=row["channel"],
        address=row["address"], keys=(), verifies_phones=False,
    )  # fmt: skip
    inbox = PostgresInbox(place.database, VAULT, SetClock())
    held = await inbox.settle_statuses([Request(account=account, messages=(), statuses=tuple(said))])
    assert held == 0


# Where to


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "looked at"])
async def test_a_claim_says_where_this_person_is_reached(
    place: Ground, outbox: PostgresOutbox, *, plain: bool
) -> None:
    account = await line(place, "whatsapp")
    conversation, outbound = await answered(place, account, user_id="RO.1")
    await place.set("channel_identity", {"conversation": conversation}, reply_to="40700000001")
    claimed = await claim_one(outbox, outbound) if plain else await recorded(outbox, outbound)
    assert claimed is not None
    assert (claimed.user_id, claimed.reply_to, claimed.in_handoff) == ("RO.1", "40700000001", False)


async def test_a_claim_in_a_handoff_says_so(place: Ground, outbox: PostgresOutbox) -> None:
    account = await line(place, "generic")
    conversation, outbound = await answered(place, account, origin_kind="operator")
    await place.set_state(conversation, state="handoff")
    claimed = await recorded(outbox, outbound)
    assert claimed is not None
    assert claimed.in_handoff


# Pace


async def test_of_an_account_as_many_are_claimed_as_its_burst_leaves(
    place: Ground, outbox: PostgresOutbox
) -> None:
    traits = TRAITS["telegram"]
    account = await line(place, "telegram")
    outbounds = [(await answered(place, account))[1] for _ in range(traits.account_burst + 5)]
    began = await place.now()
    first = await outbox.claim_plain(outbounds)
    assert [one.outbound for one in first] == outbounds[: traits.account_burst], "the oldest"
    used = (await place.row("account_rate"))["next_at"] - began
    assert used >= traits.account_burst * traits.per_account
    rest = outbounds[traits.account_burst :]
    move = "update account_rate set next_at = now() + $1::interval"
    await place.owner.execute(move, timedelta(hours=1))
    assert not await outbox_of(place, worker=2).claim_plain(rest), "no other worker's either"
    (seen, *_) = await outbox.gather(rest)
    assert seen.account_next_at is not None
    began = await place.now()
    await place.owner.execute(move, (traits.account_burst - 2) * traits.per_account)
    claimed = len(await outbox.claim_plain(rest))
    passed = await place.now() - began
    assert 2 <= claimed <= 2 + passed // traits.per_account + 1


async def test_sends_that_are_looked_at_move_the_account_s_time_on_as_well(
    place: Ground, outbox: PostgresOutbox
) -> None:
    account = await line(place, "telegram")
    each = TRAITS["telegram"].per_account
    _, one = await answered(place, account)
    _, other = await answered(place, account, round=2)
    await claim_one(outbox, one)
    before = (await place.row("account_rate"))["next_at"]
    assert await recorded(outbox, other)
    after = await place.row("account_rate")
    assert after["sent"] == 2
    assert each - timedelta(milliseconds=1) <= after["next_at"] - min(before, after["next_at"])


async def test_a_later_part_moves_it_on_too(place: Ground, outbox: PostgresOutbox) -> None:
    account = await line(place, "telegram")
    _, outbound = await answered(place, account)
    claimed = await recorded(outbox, outbound, parts=("Hello", "you"))
    assert claimed is not None
    before = await place.row("account_rate")
    await outbox.settle([settlement(claimed, Accepted(provider_id="p1"), next_attempt=AttemptId(new_id()))])
    after = await place.row("account_rate")
    assert after["next_at"] > before["next_at"]
    assert after["sent"] == before["sent"] + 1


async def test_a_channel_without_a_pace_has_no_time(place: Ground, outbox: PostgresOutbox) -> None:
    account = await line(place, "sim")
    outbounds = [(await answered(place, account))[1] for _ in range(60)]
    assert len(await outbox.claim_plain(outbounds)) == 60
    assert (await place.row("account_rate"))["next_at"] is None


async def test_somebody_who_was_just_written_to_waits_for_the_next(
    place: Ground, outbox: PostgresOutbox
) -> None:
    conversation, outbound = await answered(place, await line(place, "telegram"))
    claimed = await claim_one(outbox, outbound)
    await outbox.settle([settlement(claimed, Accepted(provider_id="p1"))])
    second = await place.outbound(conversation)
    assert not await outbox.claim_plain([second])
    (seen,) = await outbox.gather([second])
    assert seen.person_waits_until is not None
    assert decide(seen) == Wait(seen.person_waits_until)
    await place.set_state(conversation, pair_wait_until=await place.now())
    assert await claim_one(outbox, second)


async def test_a_provider_s_wait_for_one_person_holds_for_whatever_else_is_theirs(
    place: Ground, outbox: PostgresOutbox
) -> None:
    conversation, outbound = await answered(place, await line(place, "whatsapp"))
    claimed = await claim_one(outbox, outbound)
    await outbox.settle([settlement(claimed, outcome_of(Trouble.PAIR_RATE, reason="131056", tries=3))])
    row = await place.row("outbound", id=outbound)
    waits = (await place.state(conversation))["pair_wait_until"]
    assert row["state"] == "queued"
    assert timedelta(seconds=60) < waits - await place.now() <= timedelta(seconds=64)
    notice = await place.outbound(conversation, origin_kind="notice", basis_seq=0)
    (seen,) = await outbox.gather([notice])
    assert decide(seen) == Wait(waits)


# Window


@pytest.mark.parametrize(
    ("channel", "user_id"), [("whatsapp", "40700000001"), ("twilio", "whatsapp:+40700000001")]
)
async def test_free_text_is_claimed_within_the_window_only(
    place: Ground, outbox: PostgresOutbox, channel: str, user_id: str
) -> None:
    account = await line(place, channel)
    _, fresh = await answered(place, account, user_id=user_id, ago=timedelta(hours=23))
    conversation, old = await answered(
        place, account, user_id=user_id + "2", ago=timedelta(hours=23, minutes=51)
    )
    assert [one.outbound for one in await outbox.claim_plain([fresh, old])] == [fresh]
    assert await recorded(outbox, old) is None
    row = await place.row("outbound", id=old)
    assert (row["state"], row["reason"]) == ("draft", "window_closed")
    assert (await place.state(conversation))["sending_attempt"] is None


async def test_an_sms_has_no_window(place: Ground, outbox: PostgresOutbox) -> None:
    _, outbound = await answered(place, await line(place, "twilio"), ago=timedelta(days=3))
    claimed = await recorded(outbox, outbound)
    assert claimed is not None
    assert not claimed.by_template


async def test_by_template_it_leaves_without_buttons_and_the_attempt_says_so(
    place: Ground, outbox: PostgresOutbox
) -> None:
    account = await line(place, "whatsapp", settings=WITH_TEMPLATE)
    _, outbound = await answered(place, account, ago=timedelta(days=2), buttons=BUTTONS)
    assert not await outbox.claim_plain([outbound])
    claimed = await recorded(outbox, outbound)
    assert claimed is not None
    assert (claimed.by_template, claimed.buttons) == (True, None)
    assert (await place.row("send_attempt"))["by_template"]


async def test_a_window_that_the_channel_says_is_closed_is_closed_for_the_next_claim(
    place: Ground, outbox: PostgresOutbox
) -> None:
    conversation, outbound = await answered(place, await line(place, "whatsapp"))
    claimed = await claim_one(outbox, outbound)
    await outbox.settle([settlement(claimed, WindowClosed(reason="131047"))])
    state = await place.state(conversation)
    assert state["window_closed_at"] > state["last_customer_at"]
    row = await place.row("outbound")
    assert (row["state"], row["reason"]) == ("queued", "window_closed: 131047")
    (seen,) = await outbox.gather([outbound])
    assert decide(seen) == MakeDraft(DraftReason.WINDOW_CLOSED)
    later = await place.outbound(conversation)
    assert not await outbox.claim_plain([later])
    await place.set_state(conversation, last_customer_at=state["window_closed_at"] + timedelta(seconds=1))
    (seen,) = await outbox.gather([outbound])
    assert decide(seen) == Send(), "they wrote since"


# Opt-out, account, mistakes


async def test_who_opted_out_at_the_channel_is_opted_out_here_and_people_see_the_receipt(
    place: Ground, outbox: PostgresOutbox
) -> None:
    conversation, outbound = await answered(place, await line(place, "twilio"), receipt=True)
    second = await place.outbound(conversation)
    claimed = await claim_one(outbox, outbound)
    stored = await outbox.settle([settlement(claimed, OptedOut(reason="21610"))])
    assert stored[claimed.attempt].following == second
    assert (await place.state(conversation))["opted_out_at"] is not None
    row = await place.row("outbound", id=outbound)
    assert (row["state"], row["reason"]) == ("discarded", "opted_out")
    assert (await place.row("send_attempt"))["state"] == "refused"
    assert (await place.row("flag"))["reason"] == "receipt_not_sent"
    (seen,) = await outbox.gather([second])
    assert decide(seen) == Discard()


@pytest.mark.parametrize("heard", ["in the answer", "in a status"])
async def test_what_asked_who_opted_out_is_over(place: Ground, outbox: PostgresOutbox, heard: str) -> None:
    conversation, outbound = await answered(place, await line(place, "twilio"))
    turn = await place.turn(conversation, (await place.row("inbound_message"))["id"])
    action = await place.action(conversation, prompt=outbound, turn=turn)
    await place.set("outbound", {"id": outbound}, action=action)
    claimed = await claim_one(outbox, outbound)
    await place.said(conversation, due=True)
    if heard == "in the answer":
        await outbox.settle([settlement(claimed, OptedOut(reason="21610"))])
    else:
        failed = Status(status="failed", correlation=str(claimed.attempt), trouble=Trouble.OPTED_OUT)
        await status(place, claimed, [failed])
    assert (await place.row("outbound"))["state"] == "discarded"
    assert (await place.row("pending_action"))["state"] == "cleared"
    state = await place.state(conversation)
    assert (state["due_at"], state["handled_seq"]) == (None, 2), "nobody works on what they wrote meanwhile"
    assert not await place.rows("flag")


async def test_an_opt_out_that_is_heard_late_counts_all_the_same(
    place: Ground, outbox: PostgresOutbox
) -> None:
    """Its worker was stopped for a minute: the attempt is nobody's any more, and another is under way."""
    conversation, outbound = await answered(place, await line(place, "twilio"))
    claimed = await claim_one(outbox, outbound)
    await place.owner.execute("update send_attempt set started_at = now() - interval '1 min'")
    await outbox.abandon(None)
    second = await place.outbound(conversation)
    under_way = await claim_one(outbox, second)
    stored = await outbox.settle([settlement(claimed, OptedOut(reason="21610"))])
    assert not stored[claimed.attempt].current
    state = await place.state(conversation)
    assert state["opted_out_at"] is not None
    assert state["sending_attempt"] == under_way.attempt
    both = [settlement(claimed, OptedOut(reason="21610")), settlement(under_way, Accepted(provider_id="p2"))]
    stored = await outbox.settle(both)
    assert stored[under_way.attempt].current
    assert (await place.state(conversation))["sending_attempt"] is None, "in one batch with it, too"


async def test_a_disabled_account_says_why_and_its_replies_wait(
    place: Ground, outbox: PostgresOutbox
) -> None:
    account = await line(place, "whatsapp")
    _, outbound = await answered(place, account)
    claimed = await claim_one(outbox, outbound)
    await place.owner.execute("update outbound set first_try_at = now() - interval '3 min'")
    await outbox.settle([settlement(claimed, AccountRefused(reason="131042"))])
    await outbox.disable(account, "131042")
    row = await place.row("channel_account")
    assert (row["state"], row["disabled_why"]) == ("disabled", "131042")
    assert (await place.row("outbound"))["state"] == "queued", "however long it was tried before"
    assert not await outbox.claim_plain([outbound])


async def test_old_secrets_that_are_refused_after_a_rotation_disable_nothing(
    place: Ground, outbox: PostgresOutbox
) -> None:
    account = await line(place, "whatsapp")
    await outbox.pause(account, timedelta())  # whatever made it look the account up
    await place.set(
        "channel_account", {"id": account}, secrets=VAULT.seal({"inbound": [], "outbound": "new"})
    )
    assert not await outbox.disable(account, "190")
    assert (await place.row("channel_account"))["state"] == "on"
    assert await outbox.disable(account, "190"), "the new ones were refused as well"
    assert (await place.row("channel_account"))["state"] == "disabled"


async def test_a_mistake_of_ours_lies_among_the_dead_once(place: Ground, outbox: PostgresOutbox) -> None:
    conversation, outbound = await answered(place, await line(place, "whatsapp"))
    claimed = await claim_one(outbox, outbound)
    await outbox.bury(claimed, "131009 a field was wrong")
    await outbox.bury(claimed, "131009 another field was wrong")
    dead = await place.row("dead")
    assert (dead["stage"], dead["subject"], dead["conversation"]) == ("dispatch", outbound, conversation)
    assert dead["reason"] == "131009 another field was wrong"


async def test_a_wait_longer_than_two_minutes_is_for_people_at_once(
    place: Ground, outbox: PostgresOutbox
) -> None:
    _, outbound = await answered(place, await line(place, "whatsapp"))
    claimed = await claim_one(outbox, outbound)
    await outbox.settle([settlement(claimed, Throttled(reason="spam", retry_after=timedelta(hours=1)))])
    row = await place.row("outbound")
    assert (row["state"], row["reason"], row["ring_at"]) == ("draft", "send_failed: spam", None)


# What a send was worth, forward only


TAKEN = datetime.fromisoformat("2026-12-01T10:00:00+00:00")


@pytest.mark.parametrize("first", ["the outcome", "the status"])
async def test_when_it_was_taken_and_its_segments_are_stored_whatever_comes_first(
    place: Ground, outbox: PostgresOutbox, first: str
) -> None:
    _, outbound = await answered(place, await line(place, "twilio"))
    claimed = await claim_one(outbox, outbound)
    made = settlement(claimed, Accepted(provider_id="SM1", taken_at=TAKEN, segments=3))
    said = Status(
        status="sent",
        correlation=str(claimed.attempt),
        provider_id="SM1",
        at=TAKEN + timedelta(seconds=2),
        billing="sms",
    )
    if first == "the outcome":
        await outbox.settle([made])
        await status(place, claimed, [said])
    else:
        await status(place, claimed, [said])
        await outbox.settle([made])
    row = await place.row("send_attempt")
    assert (row["taken_at"], row["segments"], row["billing"]) == (TAKEN, 3, "sms")
    await outbox.settle(
        [settlement(claimed, Accepted(provider_id="SM1", taken_at=TAKEN + timedelta(hours=1), segments=9))]
    )
    row = await place.row("send_attempt")
    assert (row["taken_at"], row["segments"]) == (TAKEN, 3)


async def test_the_earliest_time_that_was_told_counts(place: Ground, outbox: PostgresOutbox) -> None:
    """A yes that came before our own note of the sending is younger than it."""
    _, outbound = await answered(place, await line(place, "whatsapp"))
    claimed = await claim_one(outbox, outbound)
    await status(place, claimed, [Status(status="sent", correlation=str(claimed.attempt), at=TAKEN)])
    late = Accepted(provider_id="p1", taken_at=TAKEN + timedelta(hours=1))
    await outbox.settle([settlement(claimed, late)])
    row = await place.row("send_attempt")
    assert (row["taken_at"], row["provider_id"]) == (TAKEN, "p1")


# An outcome that nobody knew, settled by a status


@pytest.mark.parametrize("heard", ["before the outcome", "after it"])
async def test_a_part_of_unknown_outcome_is_settled_by_correlation_and_the_next_goes_on(
    place: Ground, outbox: PostgresOutbox, heard: str
) -> None:
    _, outbound = await answered(place, await line(place, "whatsapp"))
    claimed = await recorded(outbox, outbound, parts=("one", "two"))
    assert claimed is not None
    said = [Status(status="sent", correlation=str(claimed.attempt))]
    if heard == "before the outcome":
        await status(place, claimed, said)
    await outbox.settle([settlement(claimed, NoAnswer(reason="time-out"))])
    if heard == "after it":
        assert (await place.row("outbound"))["state"] == "unknown"
        await status(place, claimed, said)
    row = await place.row("outbound")
    assert (row["state"], row["parts_sent"]) == ("queued", 1)
    following = await recorded(outbox, outbound, parts=("one", "two"))
    assert following is not None
    assert following.part == 2
    await outbox.settle([settlement(following, Accepted(provider_id="p2"))])
    assert (await place.row("outbound"))["state"] == "sent"


@pytest.mark.parametrize("decided", [False, True], ids=["unknown", "an open decision"])
@pytest.mark.parametrize("heard", ["by a status", "by the answer"])
async def test_a_part_that_nobody_knew_of_is_heard_of_late_and_the_next_goes_on(
    place: Ground, outbox: PostgresOutbox, heard: str, *, decided: bool
) -> None:
    """Its worker was taken for dead."""
    _, outbound = await answered(place, await line(place, "whatsapp"))
    claimed = await recorded(outbox, outbound, parts=("one", "two"))
    assert claimed is not None
    await place.owner.execute("update send_attempt set started_at = now() - interval '3 min'")
    await outbox.abandon(None)
    if decided:
        await outbox.open_decisions()
    assert (await place.row("outbound"))["state"] == ("draft" if decided else "unknown")
    if heard == "by a status":
        await status(place, claimed, [Status(status="delivered", correlation=str(claimed.attempt))])
    else:
        late = settlement(claimed, Accepted(provider_id="p1"), next_attempt=AttemptId(new_id()))
        assert not (await outbox.settle([late]))[claimed.attempt].current
    row = await place.row("outbound")
    assert (row["state"], row["parts_sent"]) == ("queued", 1)
    assert row["ring_at"] is not None
    following = await recorded(outbox, outbound, parts=("one", "two"))
    assert following is not None
    assert following.part == 2


ANSWER = "the provider's answer"


def highest(names: Sequence[str]) -> str:
    """What the reply is in the end: the answer to our call says `sent`."""
    top = max(STATUSES["sent"] if name == ANSWER else STATUSES[name] for name in names)
    return (
        "draft" if top == STATUSES["failed"] else next(name for name, rank in STATUSES.items() if rank == top)
    )


@pytest.mark.parametrize("named", ["by correlation", "by correlation and provider id"])
async def test_statuses_and_the_answer_in_every_order_end_in_the_highest(
    place: Ground, outbox: PostgresOutbox, named: str
) -> None:
    """Every order of every choice of statuses, the answer to our call among them: 261."""
    account = await line(place, "whatsapp")
    played = 0
    for chosen in (names for size in range(len(STATUSES) + 1) for names in combinations(STATUSES, size)):
        for order in permutations([*chosen, ANSWER]):
            played += 1
            _, outbound = await answered(place, account, user_id=f"4070000{played:04}")
            await place.owner.execute("update account_rate set next_at = null")
            claimed = await claim_one(outbox, outbound)
            provider = f"wamid.{played}"
            for name in order:
                if name == ANSWER:
                    await outbox.settle([settlement(claimed, Accepted(provider_id=provider))])
                else:
                    own = provider if named != "by correlation" else None
                    at = TAKEN + timedelta(
                        seconds=STATUSES[name]
                    )  # lower ones tell of earlier, whenever they come
                    said = Status(status=name, correlation=str(claimed.attempt), provider_id=own, at=at)
                    await status(place, claimed, [said])
            row = await place.row("outbound", id=outbound)
            assert row["state"] == highest(order), order
            attempt = await place.row("send_attempt", outbound=outbound)
            ends = "failed" if row["state"] == "draft" else row["state"]
            assert (attempt["provider_id"], attempt["state"]) == (provider, ends), order
    assert played == 261


# Side calls


async def test_what_a_side_call_needs_to_know_of_its_message(place: Ground, outbox: PostgresOutbox) -> None:
    account = await line(place, "telegram")
    conversation = await place.conversation(account, user_id="7")
    text = await place.said(conversation, channel_message_id="70:1")
    press = await place.said(conversation, kind=MessageKind.BUTTON, channel_message_id="press", quoted="70:2")
    nameless = await place.said(conversation, channel_message_id=None)
    found = {one.message_id: one for one in await outbox.courtesies([text, press, nameless])}
    assert set(found) == {"70:1", "press"}
    assert found["70:1"].kind is CourtesyKind.TYPING
    pressed = found["press"]
    assert (pressed.kind, pressed.quoted, pressed.user_id) == (CourtesyKind.PRESSED, "70:2", "7")
    await place.set("channel_account", {"id": account}, state="disabled")
    assert not await outbox.courtesies([text, press])


# Two hundred at once


async def test_four_dispatches_deliver_two_hundred_replies_once_each(place: Ground) -> None:
    account = await line(place, "sim")
    outbounds = [(await answered(place, account, user_id=f"person-{n}"))[1] for n in range(200)]
    async with asyncio.TaskGroup() as group:
        dispatches, running = [], []
        for worker in range(1, 5):
            outbox = outbox_of(place, worker=worker)
            sim = SimChannel(outbox)
            one = Dispatch(
                outbox=outbox, channels={"sim": sim}, broker=MemoryBroker(), metrics=Metrics(process=False),
                clock=SystemClock(), timeouts=Timeouts(), slots=Slots(500),
            )  # fmt: skip
            dispatches.append(one)
            running += [group.create_task(one.run()), group.create_task(sim.run())]
        await asyncio.sleep(0)
        async with asyncio.TaskGroup() as claims:
            for one in dispatches:
                claims.create_task(one.claim(outbounds))
        for one in dispatches:
            await one.idle()
        for job in running:
            job.cancel()
    assert len(await place.rows("sim_delivery")) == 200
    assert len(await place.rows("send_attempt")) == 200
    assert {row["state"] for row in await place.rows("outbound")} == {"sent"}
