"""Field cases about confirming, played through all services: what is a yes, to what, for how long, and what it meets."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.llm.port import Answer, UserText
from shared.llm.scripted import ScriptedModel
from tests.support.eventually import eventually
from tests.support.town import (
    ANA,
    ZONE,
    Customer,
    Held,
    Shop,
    Slow,
    Town,
    a_town,
    another_agent,
    call,
    script,
)

pytestmark = [pytest.mark.postgres, pytest.mark.stack, pytest.mark.xdist_group("field-confirming")]

FRIDAY_10 = "2026-12-04T10:00"
MONDAY_10 = "2026-12-07T10:00"
TUESDAY_11 = "2026-12-08T11:00"

# CNF-02, CNF-03, CNF-05 and what is like them: refusals that begin as a yes, a yes to something else, slips of the finger.
NO_YES = [
    "sure, not", "yes I don't want that", "That doesn't sound good", "da de unde",
    "yes, on Friday please", "yes but at 3pm", "ok for 11?", "da, dar la 11", "da, vineri", "bine, însă mai târziu", "yes for my daughter",
    "yues", "yse", "ye", "yess no", "dda", "daa nu", "nou", "n0",
    "yes?", "YES to the other one", "no yes", "yesterday", "da, dar mâine",
]  # fmt: skip
# What says no, whatever it begins with.
REFUSALS = ["definitely not", "absolutely not", "of course not", "sigur că nu", "nici vorbă", "NU", "No.", "nu, mulțumesc", "ＮＯ"]  # fmt: skip
# CNF-04, CNF-06 and CNF-09: however it is written.
YES = ["Yes.", "Y!", "Yep", " YES ", "yes please", "Da!", "da, vă rog", "Da, mulțumesc", "ＹＥＳ", "ＤＡ", "confirmă", "confirma", "CONFIRMĂ"]  # fmt: skip


@pytest.fixture(scope="module")
async def town() -> AsyncIterator[Town]:
    async with a_town("field-confirming") as town:
        yield town


def booking(start: str = MONDAY_10, service: str = "cleaning") -> dict[str, Any]:
    return call("book_appointment", {"service": service, "start": start, "dentist": "Dr. Ionescu"})


async def each_with_an_appointment(shop: Shop, many: int) -> Sequence[Customer]:
    """Customers who have each a check-up of their own, in half hours from Monday morning on."""
    customers = []
    for n in range(many):
        day, half_hour = divmod(n, 8)
        start = datetime(2026, 12, 7 + day, 9, 0, tzinfo=ZONE) + half_hour * timedelta(minutes=30)
        number = f"+407000020{n:02}"
        await shop.has_appointment(number, start.isoformat())
        customers.append(shop.customer(number))
    return customers


async def test_whatever_is_no_plain_yes_cancels_nothing_and_is_a_request_of_its_own(town: Town) -> None:
    """CNF-02, CNF-03, CNF-05: with a cancellation pending, at its first step and at its last."""
    shop = await town.business("no-yes")
    customers = await each_with_an_appointment(shop, len(NO_YES))
    for at, (customer, text) in enumerate(zip(customers, NO_YES, strict=True)):
        [asked] = await customer.says("cancel my appointment")
        assert asked.startswith("Cancel: check-up")
        if at % 2:
            [last] = await customer.says("yes")
            assert "last step" in last
        before = shop.model_calls
        assert len(await customer.says(text)) == 1, f"{text!r} is answered"
        assert shop.model_calls > before, f"{text!r} is for the model"
        assert await town.owner.fetch(
            "select from pending_action where conversation = $1 and state in ('cleared', 'replaced')",
            await shop.conversation(customer.number),
        ), text
    assert await shop.ran() == []
    assert len(await shop.appointments()) == len(NO_YES)


async def test_a_refusal_clears_without_a_model(town: Town) -> None:
    """CNF-02, CNF-04, CNF-06: no is no, and the next yes is to nothing."""
    shop = await town.business("refusals")
    customers = await each_with_an_appointment(shop, len(REFUSALS))
    for customer, text in zip(customers, REFUSALS, strict=True):
        await customer.says("cancel my appointment")
        before = shop.model_calls
        [left] = await customer.says(text)
        assert left in ("All right, I left it as it was.", "Bine, am lăsat totul cum era."), text
        assert shop.model_calls == before
        await customer.says("yes")
    assert await shop.waiting() == []
    assert await shop.ran() == []


async def test_a_plain_yes_books_however_it_is_written(town: Town) -> None:
    """CNF-04, CNF-06, CNF-09."""
    starts = [f"2026-12-{7 + n // 8:02}T{9 + n % 8 // 2:02}:{n % 2 * 30:02}" for n in range(len(YES))]
    shop = await town.business("yes", model=script(*(booking(start, "checkup") for start in starts)))
    for n, text in enumerate(YES):
        customer = shop.customer(f"+407000030{n:02}")
        await customer.says("A check-up, please")
        before = shop.model_calls
        [done] = await customer.says(text)
        assert done.startswith(("Booked:", "Programat")), text
        assert shop.model_calls == before
    assert await shop.appointments() == starts


@pytest.mark.parametrize("text", ["ok", "Ok.", "sigur", "👍"])
async def test_a_soft_yes_is_asked_about_once_and_no_more(town: Town, text: str) -> None:
    """CNF-04: `ok` is documented as neither."""
    shop = await town.business("soft", model=script(booking(), {"text": "Which time suits you?"}))
    ana = shop.customer()
    await ana.says("A cleaning, please")
    [again] = await ana.says(text)
    assert "Monday 7 December, 10:00" in again or "luni 7 decembrie, 10:00" in again
    assert await ana.says(text) == ["Which time suits you?"]
    assert (await shop.waiting(), await shop.ran()) == ([], [])


async def test_a_reaction_sent_as_text_is_asked_about_once_at_most(town: Town) -> None:
    """CNF-11: a cancellation is pending, and the phone reacts to its question by a text."""
    shop = await town.business("cnf-11")
    await shop.has_appointment(ANA, FRIDAY_10)
    ana = shop.customer()
    await ana.says("cancel my Friday appointment")
    asked = shop.model_calls
    [again] = await ana.says("Liked “Reply YES to cancel your appointment”")
    assert "please answer YES or NO" in again
    for text in ("Loved “Reply YES to confirm”", "Disliked “Reply YES to confirm”", "Questioned “Reply YES to confirm”"):  # fmt: skip
        assert await ana.says(text) == []
    assert shop.model_calls == asked, "a reaction asks for nothing"
    assert (await shop.appointments(), await shop.ran()) == ([FRIDAY_10], [])
    assert len(await shop.waiting()) == 1, "what was asked can still be answered"


async def test_a_no_in_words_of_ones_own_books_nothing_now_or_later(town: Town) -> None:
    """CNF-13."""
    shop = await town.business("cnf-13")
    ana = shop.customer()
    await ana.says("Book a cleaning on Monday at 10, please")
    await ana.says("Wait, do NOT book that")
    assert await shop.waiting() == []
    await ana.says("yes")
    assert (await shop.appointments(), await shop.ran()) == ([], [])


@pytest.mark.parametrize("tool", ["book", "cancel"])
@pytest.mark.parametrize(
    ("after", "counts"),
    [(timedelta(minutes=14, seconds=59), True), (timedelta(minutes=15, seconds=1), False)],
    ids=["a second before", "a second after"],
)
async def test_a_yes_counts_for_fifteen_minutes(
    town: Town, tool: str, after: timedelta, *, counts: bool
) -> None:
    """CNF-15: of a booking, and of the last step of a cancellation."""
    shop = await town.business("cnf-15", model=script(booking()) if tool == "book" else None)
    ana = shop.customer()
    if tool == "book":
        await ana.says("A cleaning, please")
    else:
        await shop.has_appointment(ANA, FRIDAY_10)
        await ana.says("cancel my appointment")
        await ana.says("yes")
    asked_at = await last_sent_at(shop)
    before = shop.model_calls
    [answer] = await ana.says("yes", at=asked_at + after)
    assert shop.model_calls == before
    if counts:
        assert answer.startswith(("Booked:", "Cancelled:"))
        assert len(await shop.ran()) == 1
    else:
        assert answer.startswith("Some time has passed, so I checked again:")
        assert await shop.ran() == []
        assert len(await shop.waiting()) == 1, "and is asked again"


async def last_sent_at(shop: Shop) -> datetime:
    """Business time of the last sending."""
    rows = await shop.fetch("select max(claimed_at) as at from send_attempt where business = $1")
    at: datetime = rows[0]["at"]
    return at


@pytest.mark.parametrize("asks", ["move my appointment to Monday at 10", "cancel my appointment"])
async def test_what_an_operator_took_away_meanwhile_is_told_and_never_confirmed(
    town: Town, asks: str
) -> None:
    """CNF-17."""
    shop = await town.business("cnf-17")
    await shop.has_appointment(ANA, FRIDAY_10)
    ana = shop.customer()
    [asked] = await ana.says(asks)
    if asked.startswith("Cancel"):
        await ana.says("yes")
    await shop.fetch("update clinic.appointment set state = 'cancelled' where business = $1")
    assert await ana.says("Y") == ["That appointment no longer exists: it has been cancelled."]
    assert (await shop.ran(), await shop.waiting()) == ([], [])


async def test_a_question_between_two_yeses_leaves_the_appointment(town: Town) -> None:
    """CNF-18: the second confirmation must follow its prompt, and nothing else said between."""
    shop = await town.business("cnf-18")
    await shop.has_appointment(ANA, FRIDAY_10)
    ana = shop.customer()
    await ana.says("cancel my Friday appointment")
    [last] = await ana.says("yes")
    assert "last step" in last
    [hours] = await ana.says("what time do you open?")
    assert "09:00" in hours
    await ana.says("yes")
    assert (await shop.appointments(), await shop.ran()) == ([FRIDAY_10], [])


async def test_a_press_is_taken_at_once_while_the_model_thinks_and_counts_once(town: Town) -> None:
    """CNF-21: whatever the turn before it is waiting for, a press is taken; pressed or delivered twice is once."""
    thinks = Held(script({"text": "We open at nine."}))
    shop = await town.business("cnf-21", model=script(booking()))
    ana = shop.customer()
    await ana.says("A cleaning, please")
    (confirm, title), *_ = ana.buttons
    town.models.own[shop.slug] = thinks
    await ana.write("what time do you open?")
    async with asyncio.timeout(20):
        await thinks.asked.wait()
    async with asyncio.timeout(
        5
    ):  # a channel waits a few seconds for its answer; the model is still thinking
        message = await ana.write(title, kind="button", button=confirm)
        assert await ana.telephone.post(
            {"messages": [{"id": message, "from": ANA, "text": title, "kind": "button", "button": confirm}]}
        ) == 200  # fmt: skip
        await ana.write(title, kind="button", button=confirm)
    thinks.goes_on.set()
    answers = await ana.hears()
    assert answers == ["We open at nine.", "That request is no longer open, so nothing was changed."]
    assert await shop.ran() == []


async def test_words_right_before_a_press_are_answered_all_the_same(town: Town) -> None:
    """CNF-21's kind: words and a press in one delivery, while something is asked; each has its own answer."""
    shop = await town.business("words-press", model=script(booking(), {"text": "Yes, we have parking."}))
    ana = shop.customer()
    await ana.says("A cleaning, please")
    (confirm, title), *_ = ana.buttons
    town.go_to(town.now + timedelta(seconds=20))
    words = {"id": "words-1", "from": ANA, "text": "And do you have parking?", "at": town.now.isoformat()}
    press = {
        "id": "words-2",
        "from": ANA,
        "text": title,
        "kind": "button",
        "button": confirm,
        "at": town.now.isoformat(),
    }
    assert await ana.telephone.post({"messages": [words, press]}) == 200
    assert await ana.hears() == ["Yes, we have parking.", "That request is no longer open, so nothing was changed."]  # fmt: skip
    assert await shop.ran() == []


async def test_a_press_between_two_calls_of_the_model_leaves_the_answer(town: Town) -> None:
    """CNF-21's kind: the model has looked something up and is about to be asked again."""
    looks = call("find_slots", {"service": "cleaning", "first_day": "2026-12-07", "last_day": "2026-12-07"})
    thinks = Held(script(looks, {"text": "Free at ten."}))
    shop = await town.business("between", model=script(booking()))
    ana = shop.customer()
    await ana.says("A cleaning, please")
    (confirm, title), *_ = ana.buttons
    town.models.own[shop.slug] = thinks
    await ana.write("What else is free on Monday?")
    async with asyncio.timeout(20):
        await thinks.asked.wait()
    await ana.write(title, kind="button", button=confirm)
    await eventually(lambda: is_judged(shop))
    thinks.goes_on.set()
    assert await ana.hears() == ["Free at ten.", "That request is no longer open, so nothing was changed."]


async def is_judged(shop: Shop) -> bool:
    return "a message is not judged" not in await shop.town.record.owed(shop.business)


async def test_a_press_that_came_before_the_model_was_asked_is_applied_once(town: Town) -> None:
    """CNF-21: the same press thrice at once, on its own, executes once."""
    shop = await town.business("press", model=script(booking()))
    ana = shop.customer()
    await ana.says("A cleaning, please")
    (confirm, title), *_ = ana.buttons
    press = {"id": "press-1", "from": ANA, "text": title, "kind": "button", "button": confirm}
    async with asyncio.TaskGroup() as tasks:
        for message in (press, press, {**press, "id": "press-2"}):
            tasks.create_task(ana.telephone.post({"messages": [message]}))
    assert await ana.hears() == ["Booked: cleaning with Dr. Ionescu, Monday 7 December, 10:00."]
    assert (await shop.ran(), await shop.appointments()) == (["book_appointment"], [MONDAY_10])


async def test_thanks_after_a_booking_change_nothing_and_are_no_loop(town: Town) -> None:
    """CNF-24."""
    shop = await town.business("cnf-24")
    ana = shop.customer()
    await ana.says("Book a cleaning on Monday at 10, please")
    await ana.says("yes")
    for text in ("Thank you", "mersi", "ok mulțumesc"):
        [answer] = await ana.says(text)
        assert len(answer) < 40, "a short word back, if any"
    assert (await shop.appointments(), await shop.ran()) == ([MONDAY_10], ["book_appointment"])
    assert (await shop.waiting(), await shop.handoffs()) == ([], [])


async def test_a_request_replaced_by_another_is_gone_for_good(town: Town) -> None:
    """CNF-25, and the button of the first question after the second was asked."""
    shop = await town.business("cnf-25", model=script(booking(MONDAY_10), booking(TUESDAY_11)))
    ana = shop.customer()
    await ana.says("book Monday 10")
    (first, title), *_ = ana.buttons
    [asked] = await ana.says("actually Tuesday 11")
    assert "Tuesday 8 December, 11:00" in asked
    assert await ana.says(title, kind="button", button=first) == [
        "That request is no longer open, so nothing was changed."
    ]
    await ana.says("yes")
    assert await shop.appointments() == [TUESDAY_11]


async def test_fragments_are_one_turn_and_one_answer_that_uses_them_all(town: Town) -> None:
    """BUR-01, in the words that were written."""
    shop = await town.business("bur-01", window_ms=2000, model=script(booking("2026-12-04T10:00")))
    ana = shop.customer()
    began = town.now
    for second, text in enumerate(["Hi", "I want", "an appointment", "tomorrow at 10"]):
        town.go_to(began + timedelta(seconds=second))
        await ana.write(text)
    assert await ana.hears() == [
        "Book: cleaning with Dr. Ionescu, Friday 4 December, 10:00. Reply YES to confirm or NO to leave it."
    ]
    told = [one.text for one in shop.requests[-1].messages if isinstance(one, UserText)]
    assert (len(shop.requests), told) == (1, ["Hi", "I want", "an appointment", "tomorrow at 10"])


async def test_two_workers_answer_one_customer_in_order_and_miss_nothing(town: Town) -> None:
    """BUR-03: 100 ms apart, and of the same second by the channel's clock; each business ten customers at once."""
    shop = await town.business(
        "bur-03", model=Slow(ScriptedModel(lambda request: Answer(text="Hm.")), takes_s=0.2)
    )
    customers = [shop.customer(f"+407000040{n:02}") for n in range(10)]
    at = town.now.replace(microsecond=0).isoformat()
    async with another_agent(town):
        for text in ("my name is Ana", "what is my name?"):
            for customer in customers:
                await customer.write(text, at=at)
            await asyncio.sleep(0.1)  # not for anything to happen: so far apart they were written
        await shop.settled()
    assert len(await shop.left()) >= 10
    for customer in customers:
        turns = await town.owner.fetch(
            "select seq_from, seq_to, started_at, ended_at from turn where conversation = $1 order by seq_from, started_at",
            await shop.conversation(customer.number),
        )
        assert (turns[0]["seq_from"], turns[-1]["seq_to"]) == (1, 2)
        assert all(one["ended_at"] <= other["started_at"] for one, other in itertools.pairwise(turns))
    whole = [[one.text for one in request.messages if isinstance(one, UserText)] for request in shop.requests]
    assert whole.count(["my name is Ana", "what is my name?"]) >= 10, "the history of each has both"


async def test_nothing_is_deleted_without_naming_it(town: Town) -> None:
    """PCK-06: ten expenses, and words that permit nothing."""
    shop = await town.business("pck-06", pack="expenses")
    ana = shop.customer()
    for n in range(10):
        await ana.says(f"add {n + 11} for thing {n}", at=town.now + timedelta(minutes=2))
        await ana.says("yes")
    [which] = await ana.says("clean up my old entries")
    assert "Which of them" in which
    await ana.says("ok thanks")
    await ana.says("yes")
    kept = await shop.fetch("select from expenses.expense where business = $1 and state = 'kept'")
    assert (len(kept), set(await shop.ran())) == (10, {"add_expense"})


@pytest.mark.parametrize("level", [2, 3])
async def test_a_model_that_cleans_up_on_its_own_is_asked_about_each_entry(town: Town, level: int) -> None:
    """PCK-06: whatever the model calls, an entry goes after a yes to that entry."""
    shop = await town.business("cleans", pack="expenses")
    ana = shop.customer()
    for n in range(3):
        await ana.says(f"add {n + 11} for thing {n}")
        await ana.says("yes")
    town.models.own[shop.slug] = script(
        {"calls": [{"name": "delete_expense", "arguments": {"id": n}} for n in (1, 2, 3)]},
        {"text": "You're welcome."},
    )
    await shop.fetch(
        "insert into tool_level (business, tool, level, set_by) values ($1, 'delete_expense', $2, 'test')",
        level,
    )
    [asked] = await ana.says("clean up my old entries")
    assert asked.startswith("Delete expense 1:")
    await ana.says("ok thanks")
    kept = await shop.fetch("select from expenses.expense where business = $1 and state = 'kept'")
    assert len(kept) == 3
    assert "delete_expense" not in await shop.ran()


async def test_it_is_told_apart_who_waits(town: Town) -> None:
    """The suite's own wait: a step is not over while a turn is under way."""
    shop = await town.business("waits", model=Held(script({"text": "Hello."})))
    held = town.models.own[shop.slug]
    assert isinstance(held, Held)
    ana = shop.customer()
    await ana.write("hello")
    await eventually(held.asked.is_set)
    assert await town.record.owed(shop.business) != []
    held.goes_on.set()
    assert await ana.hears() == ["Hello."]
