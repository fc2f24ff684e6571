"""What the record promises of caps, on Postgres: no call that may overrun one, and what was not spent is given back."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from services.agent.adapters.postgres_turns import PostgresTurns
from services.agent.core.turn import Turn
from services.agent.ports import Cap
from shared.ids import CallId, ConversationId, new_id
from tests.support.factories import Ground
from tests.support.turns_on_postgres import ANYONE, call, claim_one, reply

pytestmark = pytest.mark.postgres

CENT = Decimal("0.01")
DAY = {"day_cap_usd": Decimal(1)}


async def capped(place: Ground, **caps: Decimal) -> ConversationId:
    return await place.conversation(await place.account(await place.business(**caps)))


async def claimed(place: Ground, turns: PostgresTurns, conversation: ConversationId) -> Turn:
    await place.said(conversation)
    return await claim_one(turns, conversation)


async def reserve(turns: PostgresTurns, turn: Turn, usd: str, *, n: int = 1) -> CallId | None:
    """A call that may cost so much; None where it does not fit."""
    made = CallId(new_id())
    barred_by = await turns.reserve(turn, made, n=n, try_=1, reserved=Decimal(usd))
    return None if barred_by else made


async def used(place: Ground) -> Decimal:
    amount: Decimal = (await place.row("budget"))["used_usd"]
    return amount


async def spent(turns: PostgresTurns, turn: Turn, made: CallId, usd: str | None, **fields: Any) -> None:
    await turns.end_call(turn, call(made, cost_usd=None if usd is None else Decimal(usd), **fields))


# The day


@pytest.mark.parametrize("first", ["no row yet", "a row"])
async def test_twenty_at_once_never_overrun_a_day_s_cap(
    place: Ground, turns: PostgresTurns, first: str
) -> None:
    account = await place.account(await place.business(**DAY))
    conversations = [await place.conversation(account) for _ in range(20)]
    for conversation in conversations:
        await place.said(conversation)
    batch = await turns.claim(conversations, ANYONE)
    fitting = 11
    if first == "a row":
        fitting -= int(await reserve(turns, batch[0], "0.09", n=9) is not None)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(reserve(turns, turn, "0.09")) for turn in batch]
    made = [task.result() for task in tasks if task.result()]
    assert len(made) == fitting
    assert await used(place) == Decimal("0.99")
    assert {row["id"] for row in await place.rows("llm_call", n=1)} == set(made), "and no row for the others"


async def test_a_cap_may_be_used_up_to_the_last_cent(place: Ground, turns: PostgresTurns) -> None:
    turn = await claimed(place, turns, await capped(place, **DAY))
    assert await reserve(turns, turn, "0.50")
    assert await reserve(turns, turn, "0.50", n=2)
    assert await reserve(turns, turn, "0.000001", n=3) is None


async def test_what_does_not_fit_counts_nothing(place: Ground, turns: PostgresTurns) -> None:
    """Also of the day's first call: a refusal must not use up what a smaller one could have."""
    turn = await claimed(place, turns, await capped(place, **DAY))
    assert await reserve(turns, turn, "1.01") is None
    assert not await place.rows("budget")
    assert await reserve(turns, turn, "0.40")
    assert await reserve(turns, turn, "0.70", n=2) is None
    assert await used(place) == Decimal("0.40")
    assert await reserve(turns, turn, "0.60", n=3)


async def test_the_day_s_first_use_adds_up_what_the_day_has_cost(place: Ground, turns: PostgresTurns) -> None:
    """A cap may be set at noon; calls still under way, and lost ones, count as reserved."""
    conversation = await capped(place)
    turn = await claimed(place, turns, conversation)
    assert turn.open_call is not None
    await spent(turns, turn, turn.open_call, "0.50")
    await turns.begin_call(turn, CallId(new_id()), n=2, try_=1, reserved=Decimal("0.20"), tools=())
    await place.owner.execute("update business set day_cap_usd = 1")
    assert await reserve(turns, turn, "0.31", n=3) is None
    assert await reserve(turns, turn, "0.30", n=4)
    assert await used(place) == Decimal("1.00")


async def test_yesterday_of_the_business_s_own_day_counts_nothing(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await capped(place)
    turn = await claimed(place, turns, conversation)
    assert turn.open_call is not None
    await spent(turns, turn, turn.open_call, "0.90")
    await place.owner.execute("update business set day_cap_usd = 1")
    midnight = "date_trunc('day', now() at time zone 'Europe/Bucharest') at time zone 'Europe/Bucharest'"
    await place.owner.execute(f"update llm_call set started_at = {midnight} - interval '1 s'")
    assert await reserve(turns, turn, "0.95", n=2)
    assert await used(place) == Decimal("0.95")
    assert (await place.row("budget"))["day"] == await place.owner.fetchval(
        "select (now() at time zone 'Europe/Bucharest')::date"
    )


async def test_another_business_s_calls_use_up_nothing(place: Ground, turns: PostgresTurns) -> None:
    ours, theirs = await capped(place, **DAY), await capped(place, **DAY)
    assert await reserve(turns, await claimed(place, turns, theirs), "0.90")
    assert await reserve(turns, await claimed(place, turns, ours), "0.90")
    assert [row["used_usd"] for row in await place.rows("budget")] == [Decimal("0.90")] * 2


# Turn and conversation


async def test_a_turn_s_cap_is_of_all_its_calls_whatever_attempt_made_them(
    place: Ground, turns: PostgresTurns
) -> None:
    conversation = await capped(place, turn_cap_usd=Decimal("0.10"))
    turn = await claimed(place, turns, conversation)
    assert await reserve(turns, turn, "0.06")
    assert await reserve(turns, turn, "0.05", n=2) is None
    lease_over = "update conversation_state set lease_until = now() - interval '1 s'"
    await place.owner.execute(lease_over)
    again = await claim_one(turns, conversation)
    assert again.id == turn.id
    assert await reserve(turns, again, "0.05", n=2) is None
    assert await reserve(turns, again, "0.04", n=2)
    await turns.commit(reply(again))
    assert await reserve(turns, await claimed(place, turns, conversation), "0.10"), (
        "the next turn has its own"
    )


async def test_a_conversation_s_cap_is_of_its_last_day(place: Ground, turns: PostgresTurns) -> None:
    conversation = await capped(place, conversation_cap_usd=Decimal("0.10"))
    turn = await claimed(place, turns, conversation)
    assert await reserve(turns, turn, "0.06")
    await turns.commit(reply(turn))
    following = await claimed(place, turns, conversation)
    assert await reserve(turns, following, "0.05") is None
    await place.owner.execute("update llm_call set started_at = now() - interval '25 hours'")
    assert await reserve(turns, following, "0.10")


async def test_every_cap_that_is_set_must_bear_it(place: Ground, turns: PostgresTurns) -> None:
    conversation = await capped(
        place, turn_cap_usd=Decimal("0.50"), conversation_cap_usd=Decimal("0.70"), day_cap_usd=Decimal("0.80")
    )
    turn = await claimed(place, turns, conversation)
    assert await reserve(turns, turn, "0.51") is None
    assert await reserve(turns, turn, "0.50")
    await turns.commit(reply(turn))
    following = await claimed(place, turns, conversation)
    assert await reserve(turns, following, "0.21") is None
    assert await reserve(turns, following, "0.20")
    assert await used(place) == Decimal("0.70")


@pytest.mark.parametrize("cap", Cap)
async def test_the_cap_that_forbids_a_call_is_told(place: Ground, turns: PostgresTurns, cap: Cap) -> None:
    caps = {f"{one}_cap_usd": Decimal("0.10" if one is cap else 1) for one in Cap}
    turn = await claimed(place, turns, await capped(place, **caps))
    for usd, told in (("0.11", cap), ("0.10", None), ("0.01", cap)):
        made = CallId(new_id())
        assert await turns.reserve(turn, made, n=1, try_=1, reserved=Decimal(usd)) is told


async def test_without_a_day_cap_no_row_is_touched(place: Ground, turns: PostgresTurns) -> None:
    turn = await claimed(place, turns, await capped(place, turn_cap_usd=Decimal(1)))
    made = await reserve(turns, turn, "0.50")
    assert made
    await spent(turns, turn, made, "0.10")
    assert not await place.rows("budget")


async def test_a_turn_under_a_cap_opens_no_call_with_its_claim(place: Ground, turns: PostgresTurns) -> None:
    for caps in (DAY, {"turn_cap_usd": CENT}, {"conversation_cap_usd": CENT}):
        assert (await claimed(place, turns, await capped(place, **caps))).open_call is None


# Settled


async def test_what_a_call_did_not_cost_is_given_back(place: Ground, turns: PostgresTurns) -> None:
    turn = await claimed(place, turns, await capped(place, **DAY))
    made = await reserve(turns, turn, "0.50")
    assert made
    await turns.begin_call(turn, made, n=1, try_=1, reserved=Decimal("0.50"), tools=())
    await spent(turns, turn, made, "0.10")
    assert await used(place) == Decimal("0.10")
    assert (await place.row("llm_call"))["reserved_usd"] == Decimal("0.50")


async def test_what_a_call_cost_beyond_its_reservation_counts_too(
    place: Ground, turns: PostgresTurns
) -> None:
    turn = await claimed(place, turns, await capped(place, **DAY))
    made = await reserve(turns, turn, "0.10")
    assert made
    await spent(turns, turn, made, "0.25")
    assert await used(place) == Decimal("0.25")


async def test_a_call_that_was_not_made_gives_all_of_it_back(place: Ground, turns: PostgresTurns) -> None:
    turn = await claimed(place, turns, await capped(place, **DAY))
    made = await reserve(turns, turn, "0.50")
    assert made
    await spent(turns, turn, made, "0", state="failed", answer=None)
    assert await used(place) == 0


async def test_a_price_that_nobody_knows_counts_as_reserved(place: Ground, turns: PostgresTurns) -> None:
    turn = await claimed(place, turns, await capped(place, **DAY))
    made = await reserve(turns, turn, "0.50")
    assert made
    await spent(turns, turn, made, None)
    assert await used(place) == Decimal("0.50")


async def test_a_call_is_settled_once(place: Ground, turns: PostgresTurns) -> None:
    turn = await claimed(place, turns, await capped(place, **DAY))
    made = await reserve(turns, turn, "0.50")
    assert made
    for _ in range(2):
        await spent(turns, turn, made, "0.10")
    assert await used(place) == Decimal("0.10")


async def test_it_is_settled_without_the_lease(place: Ground, turns: PostgresTurns) -> None:
    turn = await claimed(place, turns, await capped(place, **DAY))
    made = await reserve(turns, turn, "0.50")
    assert made
    await place.owner.execute("update conversation_state set lease_token = gen_random_uuid()")
    await spent(turns, turn, made, "0.10")
    assert await used(place) == Decimal("0.10"), "it was spent, and not more than that"


async def test_the_last_call_of_an_ordinary_turn_is_settled_with_its_commit(
    place: Ground, turns: PostgresTurns
) -> None:
    turn = await claimed(place, turns, await capped(place, **DAY))
    made = await reserve(turns, turn, "0.50")
    assert made
    await turns.begin_call(turn, made, n=1, try_=1, reserved=Decimal("0.50"), tools=())
    committed = await turns.commit(reply(turn, last_call=call(made, cost_usd=Decimal("0.10"))))
    assert committed.live
    assert await used(place) == Decimal("0.10")
    assert (await place.row("llm_call"))["state"] == "done"
    assert len(await place.rows("iteration")) == 1


async def test_many_settled_at_once_come_to_the_same(place: Ground, turns: PostgresTurns) -> None:
    account = await place.account(await place.business(**DAY))
    batch = [await claimed(place, turns, await place.conversation(account)) for _ in range(8)]
    made = [await reserve(turns, turn, "0.10") for turn in batch]
    async with asyncio.TaskGroup() as group:
        for turn, one in zip(batch, made, strict=True):
            assert one
            group.create_task(spent(turns, turn, one, "0.01"))
    assert await used(place) == Decimal("0.08")


async def test_a_lost_call_counts_as_reserved(place: Ground, turns: PostgresTurns) -> None:
    turn = await claimed(place, turns, await capped(place, **DAY))
    assert await reserve(turns, turn, "0.60")
    await place.owner.execute("update llm_call set started_at = started_at - interval '181 s'")
    assert await turns.lose_calls() == 1
    assert (await place.row("llm_call"))["state"] == "lost"
    assert await used(place) == Decimal("0.60")
    assert await reserve(turns, turn, "0.50", n=2) is None
