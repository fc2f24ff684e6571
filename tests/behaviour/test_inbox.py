"""What the inbox promises ingest, on Postgres: a message is stored once for good, for whoever sent it, whatever races."""

import asyncio
import base64
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from services.ingest.adapters.postgres_inbox import ACCOUNT_CACHED_S, PostgresInbox
from services.ingest.core.entrance import Account
from services.ingest.core.events import Inbound, Part, Status
from services.ingest.ports import NewMessages, Request
from shared.channels.troubles import Trouble
from shared.ids import AccountId, BusinessId, ConversationId
from shared.messages import MessageKind, PartKind
from shared.secrets import Vault, new_key
from tests.support.eventually import eventually
from tests.support.factories import ANA, NOON, Ground, SetClock

pytestmark = pytest.mark.postgres

VAULT = Vault(new_key())
SECRET = "whsec_" + base64.b64encode(b"x" * 32).decode()
BRAZIL = ("+5511987654321", "+551187654321")  # one telephone in its two spellings


def inbox_of(place: Ground, clock: SetClock | None = None) -> PostgresInbox:
    """An inbox that remembers nobody yet: another process."""
    return PostgresInbox(place.database, VAULT, clock or SetClock())


@pytest.fixture
def inbox(place: Ground) -> PostgresInbox:
    return inbox_of(place)


async def account_of(place: Ground, business: BusinessId | None = None) -> Account:
    row = await place.row("channel_account", id=await place.account(business))
    return Account(
        id=AccountId(row["id"]),
        business=BusinessId(row["business"]),
        business_slug="clinic",
        channel="sim",
        address=row["address"],
        keys=(),
        verifies_phones=True,
    )


def message(external_id: str = "m1", *, sender: str = ANA, **fields: Any) -> Inbound:
    plain = {"kind": MessageKind.TEXT, "text": "Hello", "channel_at": NOON, "raw": b"{}"}
    return Inbound(external_id=external_id, sender=sender, **(plain | fields))


def request(account: Account, *messages: Inbound, statuses: Sequence[Status] = ()) -> Request:
    return Request(account=account, messages=messages, statuses=tuple(statuses))


def conversations(stored: Sequence[NewMessages]) -> list[ConversationId]:
    return [new.conversation for new in stored]


# Storing


async def test_a_stranger_s_first_message_makes_customer_conversation_and_debt(
    place: Ground, inbox: PostgresInbox
) -> None:
    account = await account_of(place)
    stored = await inbox.store([request(account, message(name="Ana", phone=ANA, raw=b"raw \x00 bytes"))])
    (one,) = stored
    conversation = one.conversation
    assert (one.account, one.messages) == (
        account,
        (await place.owner.fetchval("select id from inbound_message"),),
    )
    state = await place.state(conversation)
    assert (state["unguarded"], state["version"]) == (1, 1)
    assert await place.now() < state["guard_due_at"] < await place.now() + timedelta(seconds=3)
    customer = await place.row("customer")
    assert (customer["name"], customer["phone"], customer["phone_key"]) == ("Ana", ANA, ANA)
    row = await place.row("inbound_message")
    assert (row["body"], row["seq"], row["verdict"], row["channel_at"]) == ("Hello", None, None, NOON)
    assert (await place.row("inbound_payload"))["raw"] == b"raw \x00 bytes"


async def test_everything_of_a_message_is_stored(place: Ground, inbox: PostgresInbox) -> None:
    account = await account_of(place)
    whole = message(
        kind=MessageKind.BUTTON, channel_message_id="c1", thread="t", button="b", quoted="q", locale="ro",
        auto_reply=True, opt_word="opt_in",
    )  # fmt: skip
    await inbox.store([request(account, whole)])
    row = await place.row("inbound_message")
    found = {name: row[name] for name in ("channel_message_id", "thread", "button", "quoted", "locale")}
    assert found == {"channel_message_id": "c1", "thread": "t", "button": "b", "quoted": "q", "locale": "ro"}
    assert (row["kind"], row["auto_reply"], row["opt_word"]) == ("button", True, "opt_in")


async def test_a_repeat_changes_nothing(place: Ground, inbox: PostgresInbox) -> None:
    account = await account_of(place)
    (conversation,) = conversations(await inbox.store([request(account, message())]))
    before = await place.state(conversation)
    assert list(await inbox.store([request(account, message(text="Other words, same id"))])) == []
    assert list(await inbox_of(place).store([request(account, message())])) == []
    assert await place.state(conversation) == before
    assert (await place.row("inbound_message"))["body"] == "Hello"
    assert len(await place.rows("inbound_payload")) == 1


async def test_a_message_that_is_twice_in_one_batch_is_stored_once(
    place: Ground, inbox: PostgresInbox
) -> None:
    account = await account_of(place)
    (one,) = await inbox.store(
        [request(account, message(), message()), request(account, message(), message("m2"))]
    )
    assert len(one.messages) == 2
    assert (await place.state(one.conversation))["unguarded"] == 2
    assert len(await place.rows("inbound_message")) == 2


async def test_the_same_id_on_another_account_is_another_message(place: Ground, inbox: PostgresInbox) -> None:
    one, other = await account_of(place), await account_of(place)
    stored = await inbox.store([request(one, message()), request(other, message())])
    assert [len(new.messages) for new in stored] == [1, 1]
    assert {new.account.id for new in stored} == {one.id, other.id}


async def test_the_guard_s_time_is_not_put_off_by_more_messages(place: Ground, inbox: PostgresInbox) -> None:
    account = await account_of(place)
    (conversation,) = conversations(await inbox.store([request(account, message())]))
    first = (await place.state(conversation))["guard_due_at"]
    await inbox.store([request(account, message("m2"))])
    assert (await place.state(conversation))["guard_due_at"] == first


async def test_a_flood_of_strangers_is_stored_in_portions_that_the_database_has_time_for(
    place: Ground, inbox: PostgresInbox
) -> None:
    """As after an outage: several requests at once, of a thousand messages each. In one statement they would take too long,
    again at each delivery, and every neighbour with them."""
    account = await account_of(place)
    flood = [message(f"m{n}", sender=f"+4071{n:07d}", phone=None) for n in range(12_000)]
    neighbour = message("last", sender=ANA)
    stored = await inbox.store([request(account, *flood), request(account), request(account, neighbour)])
    assert sum(len(new.messages) for new in stored) == 12_001
    assert await place.owner.fetchval("select count(*) from inbound_message") == 12_001
    assert await place.owner.fetchval("select count(distinct conversation) from inbound_message") == 12_001


async def test_twenty_processes_with_the_same_message_store_it_once(place: Ground) -> None:
    account = await account_of(place)
    async with asyncio.TaskGroup() as group:
        stores = [
            group.create_task(inbox_of(place).store([request(account, message(phone=ANA))]))
            for _ in range(20)
        ]
    assert sorted(len(task.result()) for task in stores) == [0] * 19 + [1]
    assert len(await place.rows("customer")) == 1
    assert len(await place.rows("conversation")) == 1
    assert (await place.row("conversation_state"))["unguarded"] == 1


async def test_two_ingests_with_the_same_messages_in_other_order_do_not_wait_for_each_other_for_ever(
    place: Ground,
) -> None:
    account = await account_of(place)
    people = [f"+4070000{n:04}" for n in range(12)]
    first = inbox_of(place)
    await first.store([request(account, *(message(f"start-{who}", sender=who) for who in people))])
    for round_ in range(6):
        messages = [message(f"{round_}-{who}", sender=who) for who in people]
        async with asyncio.TaskGroup() as group:
            stores = [
                group.create_task(first.store([request(account, *messages)])),
                group.create_task(inbox_of(place).store([request(account, *messages[::-1])])),
            ]
        assert sum(len(new.messages) for task in stores for new in task.result()) == len(people)
    deadlocks = await place.owner.fetchval(
        "select deadlocks from pg_stat_database where datname = current_database()"
    )
    assert deadlocks == 0
    assert {row["unguarded"] for row in await place.rows("conversation_state")} == {7}


async def test_a_store_that_waited_adds_to_the_row_as_it_is_then(place: Ground, inbox: PostgresInbox) -> None:
    """The guard judged and subtracted in between: nothing is lost, nothing counted twice."""
    account = await account_of(place)
    (conversation,) = conversations(await inbox.store([request(account, message())]))
    async with asyncio.TaskGroup() as group, place.held("conversation_state", "conversation", [conversation]):
        waiting = group.create_task(inbox.store([request(account, message("m2"))]))
        await eventually(lambda: place.waiting("store"))
    assert waiting.result()
    assert (await place.state(conversation))["unguarded"] == 2


async def test_a_conversation_that_was_erased_meanwhile_is_made_again(
    place: Ground, inbox: PostgresInbox
) -> None:
    account = await account_of(place)
    await inbox.store([request(account, message())])
    for table in (
        "inbound_payload", "inbound_message", "conversation_state", "channel_identity", "conversation", "customer",
    ):  # fmt: skip
        await place.owner.execute(f"delete from {table}")
    (one,) = await inbox.store([request(account, message("m2"))])
    assert len(one.messages) == 1
    assert (await place.state(one.conversation))["unguarded"] == 1


# Who it is


async def test_one_customer_writes_on_two_accounts_of_a_business(place: Ground, inbox: PostgresInbox) -> None:
    business = await place.business()
    one, other = await account_of(place, business), await account_of(place, business)
    await inbox.store([request(one, message(phone=ANA))])
    await inbox.store([request(other, message(sender="ana-7", phone=ANA))])
    assert len(await place.rows("customer")) == 1
    assert len(await place.rows("conversation")) == 2, "a conversation is one channel identity"


async def test_two_businesses_have_two_customers_of_one_number(place: Ground, inbox: PostgresInbox) -> None:
    one, other = await account_of(place), await account_of(place)
    await inbox.store([request(one, message(phone=ANA)), request(other, message(phone=ANA))])
    assert len(await place.rows("customer")) == 2


async def test_a_number_that_is_not_proven_resolves_nobody(place: Ground, inbox: PostgresInbox) -> None:
    business = await place.business()
    one, other = await account_of(place, business), await account_of(place, business)
    await inbox.store([request(one, message(phone=ANA))])
    await inbox.store([request(other, message(sender=ANA, phone=None))])
    assert len(await place.rows("customer")) == 2


@pytest.mark.parametrize(("one", "other"), [BRAZIL, BRAZIL[::-1], ("+5215512345678", "+525512345678")])
async def test_a_country_s_spellings_are_one_customer(
    place: Ground, inbox: PostgresInbox, one: str, other: str
) -> None:
    account = await account_of(place)
    await inbox.store([request(account, message("m1", sender="one", phone=one))])
    await inbox.store([request(account, message("m2", sender="other", phone=other))])
    assert len(await place.rows("customer")) == 1


async def test_a_country_s_spellings_in_one_batch_are_one_customer(
    place: Ground, inbox: PostgresInbox
) -> None:
    account = await account_of(place)
    await inbox.store(
        [
            request(account, message("m1", sender="one", phone=BRAZIL[0])),
            request(account, message("m2", sender="other", phone=BRAZIL[1])),
        ]
    )
    assert len(await place.rows("customer")) == 1
    assert len(await place.rows("conversation")) == 2


async def test_of_two_first_messages_at_once_the_loser_takes_the_winner_s_customer(place: Ground) -> None:
    """On two accounts, through two processes: one customer, and nobody without one."""
    business = await place.business()
    accounts = [await account_of(place, business) for _ in range(2)]
    for round_ in range(8):
        phone = f"+4070000{round_:04}"
        async with asyncio.TaskGroup() as group:
            for account in accounts:
                group.create_task(
                    inbox_of(place).store(
                        [request(account, message(f"m{round_}", sender=phone, phone=phone))]
                    )
                )
    assert len(await place.rows("customer")) == 8
    identities = await place.rows("channel_identity")
    assert len(identities) == 16
    assert len({row["customer"] for row in identities}) == 8


async def test_the_same_strangers_at_once_in_other_order_are_made_once(place: Ground) -> None:
    account = await account_of(place)
    people = [f"+4070000{n:04}" for n in range(10)]
    async with asyncio.TaskGroup() as group:
        for process in range(4):
            order = people if process % 2 else people[::-1]
            messages = [message(f"{process}-{who}", sender=who, phone=who) for who in order]
            group.create_task(inbox_of(place).store([request(account, *messages)]))
    for table in ("customer", "conversation", "channel_identity", "conversation_state"):
        assert len(await place.rows(table)) == 10, table
    assert {row["unguarded"] for row in await place.rows("conversation_state")} == {4}


async def test_strangers_without_a_number_leave_no_customer_behind_when_they_lose(place: Ground) -> None:
    account = await account_of(place)
    async with asyncio.TaskGroup() as group:
        for process in range(8):
            group.create_task(
                inbox_of(place).store([request(account, message(f"m{process}", sender="anna"))])
            )
    assert len(await place.rows("customer")) == 1
    assert (await place.row("conversation_state"))["unguarded"] == 8


# Who is known by more than one id


BSUID = "RO.90000000000000000001"


async def test_who_was_known_by_a_number_keeps_the_conversation_when_the_channel_gives_an_id(
    place: Ground, inbox: PostgresInbox
) -> None:
    account = await account_of(place)
    (first,) = conversations(await inbox.store([request(account, message(phone=ANA, reply_to=ANA))]))
    later = message("m2", sender=BSUID, also_known_as=ANA, reply_to=ANA, phone=ANA)
    (second,) = conversations(await inbox.store([request(account, later)]))
    assert second == first
    identity = await place.row("channel_identity")
    assert (identity["user_id"], identity["reply_to"]) == (BSUID, ANA)
    by_id_alone = message("m3", sender=BSUID)
    (third,) = conversations(await inbox_of(place).store([request(account, by_id_alone)]))
    assert third == first
    assert (await place.row("channel_identity"))["reply_to"] == ANA, (
        "a number that is hidden now is still the way"
    )


@pytest.mark.parametrize("order", [1, -1], ids=["the id first", "the number first"])
async def test_a_strangers_id_and_bare_number_in_one_batch_are_one_conversation(
    place: Ground, inbox: PostgresInbox, order: int
) -> None:
    account = await account_of(place)
    both = message("m1", sender=BSUID, also_known_as=ANA, reply_to=ANA, phone=ANA)
    bare = message("m2", sender=ANA, reply_to=ANA, phone=ANA)
    await inbox.store([request(account, *[both, bare][::order])])
    assert (await place.row("conversation_state"))["unguarded"] == 2
    assert (await place.row("channel_identity"))["user_id"] == BSUID


async def test_a_number_alone_finds_who_has_it_and_renames_nobody(
    place: Ground, inbox: PostgresInbox
) -> None:
    """As of an echo or an old version of the webhook, which state no id."""
    account = await account_of(place)
    known = message(sender=BSUID, also_known_as=ANA, reply_to=ANA, phone=ANA)
    (first,) = conversations(await inbox.store([request(account, known)]))
    (second,) = conversations(await inbox.store([request(account, message("m2", sender=ANA, reply_to=ANA))]))
    assert second == first
    assert (await place.row("channel_identity"))["user_id"] == BSUID


async def test_a_number_that_went_to_somebody_else_is_somebody_else(
    place: Ground, inbox: PostgresInbox
) -> None:
    account = await account_of(place)
    one = message(sender=BSUID, also_known_as=ANA, reply_to=ANA, phone=ANA)
    other = message("m2", sender="RO.2", also_known_as=ANA, reply_to=ANA, phone=ANA)
    (first,) = conversations(await inbox.store([request(account, one)]))
    (second,) = conversations(await inbox_of(place).store([request(account, other)]))
    assert first != second
    assert len(await place.rows("channel_identity")) == 2


async def test_a_new_number_of_a_known_id_is_where_replies_go(place: Ground, inbox: PostgresInbox) -> None:
    account = await account_of(place)
    await inbox.store([request(account, message(sender=BSUID, reply_to=ANA))])
    await inbox.store([request(account, message("m2", sender=BSUID, reply_to="+40700000002"))])
    assert (await place.row("channel_identity"))["reply_to"] == "+40700000002"


async def test_two_processes_that_learn_an_id_at_once_keep_one_conversation(place: Ground) -> None:
    account = await account_of(place)
    await inbox_of(place).store([request(account, message(phone=ANA, reply_to=ANA))])
    async with asyncio.TaskGroup() as group:
        for n in range(6):
            told = message(f"n{n}", sender=BSUID, also_known_as=ANA, reply_to=ANA, phone=ANA)
            group.create_task(inbox_of(place).store([request(account, told)]))
    assert (await place.row("channel_identity"))["user_id"] == BSUID
    assert (await place.row("conversation_state"))["unguarded"] == 7


# Numbers that are proven


async def proves(
    inbox: PostgresInbox, account: Account, *, sender: str, phone: str, name: str = "card"
) -> None:
    card = message(name, sender=sender, phone=phone, proves_phone=True, kind=MessageKind.MEDIA)
    await inbox.store([request(account, card)])


async def test_a_stranger_s_own_card_gives_them_their_number(place: Ground, inbox: PostgresInbox) -> None:
    account = await account_of(place)
    (conversation,) = conversations(await inbox.store([request(account, message(sender="7"))]))
    before = await place.state(conversation)
    await proves(inbox, account, sender="7", phone=ANA)
    customer = await place.row("customer")
    assert (customer["phone"], customer["phone_key"]) == (ANA, ANA)
    assert (await place.state(conversation))["version"] > before["version"] + 1, (
        "what is decided must look again"
    )


async def test_a_card_leads_to_the_customer_who_has_the_number(place: Ground, inbox: PostgresInbox) -> None:
    business = await place.business()
    phone_line, chat = await account_of(place, business), await account_of(place, business)
    await inbox.store([request(phone_line, message(phone=ANA))])
    known = await place.row("customer")
    (conversation,) = conversations(await inbox.store([request(chat, message("m2", sender="7"))]))
    cause = (await place.row("inbound_message", conversation=conversation))["id"]
    prompt = await place.outbound(conversation)
    action = await place.action(conversation, prompt=prompt, turn=await place.turn(conversation, cause))
    await proves(inbox, chat, sender="7", phone=ANA)
    assert (await place.row("conversation", id=conversation))["customer"] == known["id"]
    assert (await place.row("channel_identity", conversation=conversation))["customer"] == known["id"]
    ended = await place.row("pending_action", id=action)
    assert (ended["state"], ended["reason"]) == ("cleared", "identity_changed"), "it was the stranger's"
    assert (await place.row("outbound", id=prompt))["state"] == "discarded"


async def test_who_has_another_number_keeps_it_and_people_look(place: Ground, inbox: PostgresInbox) -> None:
    account = await account_of(place)
    await inbox.store([request(account, message(phone=ANA))])
    await inbox.store([request(account, message("m2", sender="b", phone="+40700000002"))])
    await proves(inbox, account, sender="b", phone=ANA)
    identities = await place.rows("channel_identity", "user_id")
    assert identities[0]["customer"] != identities[1]["customer"]
    assert (await place.row("flag"))["reason"] == "another_number"


async def test_two_who_prove_one_number_at_once_are_one_customer(place: Ground) -> None:
    business = await place.business()
    accounts = [await account_of(place, business) for _ in range(2)]
    for at, account in enumerate(accounts):
        await inbox_of(place).store([request(account, message(f"m{at}", sender="7"))])
    async with asyncio.TaskGroup() as group:
        for account in accounts:
            group.create_task(proves(inbox_of(place), account, sender="7", phone=ANA))
    holders = await place.rows("customer", phone_key=ANA)
    assert len(holders) == 1
    assert {row["customer"] for row in await place.rows("conversation")} == {holders[0]["id"]}


# What a message carries beside its text


async def test_parts_and_announced_changes_are_stored_with_their_message_once(
    place: Ground, inbox: PostgresInbox
) -> None:
    account = await account_of(place)
    voice = Part(kind=PartKind.AUDIO, mime="audio/ogg", reference="70", fetched=True)
    pin = Part(kind=PartKind.LOCATION, words="Str. Exemplu 1")
    whole = message(kind=MessageKind.MEDIA, text="", parts=(voice, pin), forwarded=True)
    renamed = message("m2", kind=MessageKind.SYSTEM, renamed_to=BSUID)
    for _ in range(2):
        await inbox.store([request(account, whole, renamed, message("m3"))])
    parts = await place.rows("media_part", "n")
    assert [(part["kind"], part["state"], part["words"]) for part in parts] == [
        ("audio", "due", None), ("location", "kept", "Str. Exemplu 1"),
    ]  # fmt: skip
    assert parts[0]["due_at"] is not None
    assert parts[1]["due_at"] is None
    change = await place.row("identity_change")
    assert (change["old_user_id"], change["new_user_id"], change["decided"]) == (ANA, BSUID, None)
    stored = await place.rows("inbound_message", "external_id")
    assert [row["forwarded"] for row in stored] == [True, False, False]


# Accounts


async def test_an_account_comes_with_its_keys(place: Ground, inbox: PostgresInbox) -> None:
    await place.account(
        address="line", secrets=VAULT.seal({"inbound": [SECRET], "outbound": None}), verifies_phones=True
    )
    found = await inbox.account("sim", "line")
    assert found is not None
    assert (found.keys, found.verifies_phones) == ((b"x" * 32,), True)
    assert await inbox.account("generic", "line") is None
    assert await inbox.account("sim", "other") is None


async def test_an_account_is_looked_up_again_after_a_while(place: Ground) -> None:
    clock = SetClock()
    inbox = inbox_of(place, clock)
    assert await inbox.account("sim", "line") is None
    await place.account(address="line")
    assert await inbox.account("sim", "line") is None
    clock.pass_(ACCOUNT_CACHED_S + 1)
    assert await inbox.account("sim", "line") is not None


@pytest.mark.parametrize("address", ["\x00", "a\x00b", "\ud800", "", "x" * 10_000], ids=ascii)
async def test_an_address_of_any_kind_is_looked_up(inbox: PostgresInbox, address: str) -> None:
    assert await inbox.account("sim", address) is None


# Statuses


async def test_a_status_that_meets_nothing_is_held_and_tried_again(
    place: Ground, inbox: PostgresInbox
) -> None:
    account = await account_of(place)
    early = Status(status="delivered", provider_id="p1")
    assert await inbox.settle_statuses([request(account, statuses=[early])]) == 1
    held = await place.row("held_status")
    assert held["due_at"] > await place.now() + timedelta(seconds=4)
    assert await inbox.retry_held() == 0
    conversation = await place.conversation(account.id)
    outbound = await place.outbound(conversation, state="sent")
    await place.attempt(outbound, state="sent", rank=10, provider_id="p1")
    await place.owner.execute("update held_status set due_at = now()")
    assert await inbox.retry_held() == 1
    assert (await place.row("outbound"))["state"] == "delivered"
    assert not await place.rows("held_status")


async def test_a_held_status_is_tried_after_5_60_and_600_seconds_and_then_dropped(
    place: Ground, inbox: PostgresInbox
) -> None:
    account = await account_of(place)
    await inbox.settle_statuses([request(account, statuses=[Status(status="sent", provider_id="p1")])])
    pauses = []
    for _ in range(3):
        await place.owner.execute("update held_status set due_at = now()")
        await inbox.retry_held()
        rows = await place.rows("held_status")
        pauses.append(round((rows[0]["due_at"] - await place.now()).total_seconds(), -1))
    assert pauses == [60, 600, 600]
    await place.owner.execute("update held_status set due_at = now()")
    await inbox.retry_held()
    assert not await place.rows("held_status"), (
        "dropped when its time is over, whether or not others are held"
    )


async def test_two_processes_do_not_try_the_same_held_status(place: Ground, inbox: PostgresInbox) -> None:
    account = await account_of(place)
    statuses = [Status(status="sent", provider_id=f"p{n}") for n in range(20)]
    await inbox.settle_statuses([request(account, statuses=statuses)])
    await place.owner.execute("update held_status set due_at = now()")
    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(inbox_of(place).retry_held())
    assert {row["tries"] for row in await place.rows("held_status")} == {1}


@pytest.mark.parametrize("name", ["queued", "SENT", "", "lost"])
async def test_a_status_that_means_nothing_to_us_is_passed_over(
    place: Ground, inbox: PostgresInbox, name: str
) -> None:
    account = await account_of(place)
    assert (
        await inbox.settle_statuses([request(account, statuses=[Status(status=name, provider_id="p")])]) == 0
    )
    assert not await place.rows("held_status")


async def test_a_status_of_another_account_s_send_meets_nothing(place: Ground, inbox: PostgresInbox) -> None:
    conversation = await place.conversation()
    outbound = await place.outbound(conversation, state="sent")
    attempt = await place.attempt(outbound, state="sent", rank=10, provider_id="p1")
    other = await account_of(place)
    statuses = [Status(status="read", provider_id="p1"), Status(status="read", correlation=str(attempt))]
    assert await inbox.settle_statuses([request(other, statuses=statuses)]) == 2
    assert (await place.row("outbound"))["state"] == "sent"


@pytest.mark.parametrize("correlation", ["", "no uuid", "\ufffd", "0" * 64])
async def test_a_correlation_that_is_none_of_ours_is_held(
    place: Ground, inbox: PostgresInbox, correlation: str
) -> None:
    account = await account_of(place)
    statuses = [Status(status="sent", correlation=correlation)]
    assert await inbox.settle_statuses([request(account, statuses=statuses)]) == 1


# What a status says beside how far a send is


async def sent(place: Ground, **attempt: Any) -> tuple[Account, Any, Any]:
    """An account, and one send on it."""
    account = await account_of(place)
    outbound = await place.outbound(await place.conversation(account.id), state="sent")
    plain = {"state": "sent", "rank": 10, "provider_id": "p1"}
    return account, outbound, await place.attempt(outbound, **(plain | attempt))


async def test_a_failure_because_they_opted_out_opts_them_out(place: Ground, inbox: PostgresInbox) -> None:
    account, outbound, _ = await sent(place)
    said = Status(status="failed", provider_id="p1", reason="21610", trouble=Trouble.OPTED_OUT)
    await inbox.settle_statuses([request(account, statuses=[said])])
    row = await place.row("outbound", id=outbound)
    assert (row["state"], row["reason"]) == ("discarded", "opted_out")
    assert (await place.state(row["conversation"]))["opted_out_at"] is not None


async def test_a_receipt_that_an_opt_out_kept_from_them_is_flagged(
    place: Ground, inbox: PostgresInbox
) -> None:
    account = await account_of(place)
    conversation = await place.conversation(account.id)
    heard = await place.said(conversation, "YES")
    outbound = await place.outbound(conversation, state="sent", receipt=True)
    await place.attempt(outbound, state="sent", rank=10, provider_id="p1")
    said = Status(status="failed", provider_id="p1", trouble=Trouble.OPTED_OUT)
    await inbox.settle_statuses([request(account, statuses=[said])])
    flag = await place.row("flag")
    assert (flag["message"], flag["reason"]) == (heard, "receipt_not_sent")


async def test_a_failure_because_the_window_is_closed_is_remembered(
    place: Ground, inbox: PostgresInbox
) -> None:
    account, outbound, _ = await sent(place)
    said = Status(status="failed", provider_id="p1", reason="131047", trouble=Trouble.WINDOW_CLOSED)
    await inbox.settle_statuses([request(account, statuses=[said])])
    row = await place.row("outbound", id=outbound)
    assert (row["state"], row["reason"]) == ("draft", "window_closed")
    state = await place.state(row["conversation"])
    assert state["window_closed_at"] is not None
    assert state["opted_out_at"] is None


async def test_another_failure_is_a_draft_with_what_the_channel_said(
    place: Ground, inbox: PostgresInbox
) -> None:
    account, outbound, _ = await sent(place)
    said = Status(status="failed", provider_id="p1", reason="30007 filtered", trouble=Trouble.CONTENT)
    await inbox.settle_statuses([request(account, statuses=[said])])
    row = await place.row("outbound", id=outbound)
    assert (row["state"], row["reason"]) == ("draft", "send_failed: 30007 filtered")
    state = await place.state(row["conversation"])
    assert (state["opted_out_at"], state["window_closed_at"]) == (None, None)


async def test_a_failure_after_delivery_is_no_opt_out(place: Ground, inbox: PostgresInbox) -> None:
    account, outbound, _ = await sent(place, state="delivered", rank=20)
    said = Status(status="failed", provider_id="p1", trouble=Trouble.OPTED_OUT)
    await inbox.settle_statuses([request(account, statuses=[said])])
    row = await place.row("outbound", id=outbound)
    assert row["state"] == "sent"
    assert (await place.state(row["conversation"]))["opted_out_at"] is None


@pytest.mark.parametrize(("state", "rank"), [("sending", 0), ("sent", 10), ("delivered", 20)])
async def test_a_failure_of_what_was_sent_again_since_takes_nothing_back(
    place: Ground, inbox: PostgresInbox, state: str, rank: int
) -> None:
    """Nobody knew of the first, an operator sent it once more: a draft now would be sent a third time."""
    account, outbound, first = await sent(place, state="undecided", rank=0, provider_id=None)
    again = await place.attempt(outbound, state=state, rank=rank, provider_id="p2")
    await place.owner.execute("update outbound set state = $1, round = 2, parts_sent = 1", state)
    await inbox.settle_statuses(
        [request(account, statuses=[Status(status="failed", correlation=str(first))])]
    )
    row = await place.row("outbound", id=outbound)
    assert (row["state"], row["parts_sent"]) == (state, 1)
    assert (await place.row("send_attempt", id=first))["state"] == "failed"
    if state == "sent":
        await inbox.settle_statuses([request(account, statuses=[Status(status="failed", provider_id="p2")])])
        assert (await place.row("outbound", id=outbound))["state"] == "draft", "its last send is what counts"
    assert (await place.row("send_attempt", id=again))["rank"] == (15 if state == "sent" else rank)


async def test_the_channels_time_of_taking_it_is_the_earliest_whatever_the_order(
    place: Ground, inbox: PostgresInbox
) -> None:
    account, _, attempt = await sent(place, state="sending", rank=0, provider_id=None)
    for status, second in (("read", 9), ("sent", 4), ("delivered", 6)):
        said = Status(
            status=status,
            correlation=attempt.hex,
            provider_id="p9",
            at=NOON + timedelta(seconds=second),
            billing="service" if status == "sent" else None,
        )
        assert await inbox.settle_statuses([request(account, statuses=[said])]) == 0
    row = await place.row("send_attempt", id=attempt)
    assert (row["taken_at"], row["rank"], row["state"]) == (NOON + timedelta(seconds=4), 30, "read")
    assert (row["provider_id"], row["billing"]) == ("p9", "service"), "a status tells the provider's id, too"


async def test_a_held_status_keeps_all_it_said(place: Ground, inbox: PostgresInbox) -> None:
    account = await account_of(place)
    early = Status(status="failed", provider_id="p1", trouble=Trouble.OPTED_OUT, at=NOON, billing="service")
    assert await inbox.settle_statuses([request(account, statuses=[early])]) == 1
    outbound = await place.outbound(await place.conversation(account.id), state="sent")
    attempt = await place.attempt(outbound, state="sent", rank=10, provider_id="p1")
    await place.owner.execute("update held_status set due_at = now()")
    assert await inbox.retry_held() == 1
    assert (await place.row("outbound", id=outbound))["reason"] == "opted_out"
    row = await place.row("send_attempt", id=attempt)
    assert (row["taken_at"], row["billing"]) == (NOON, "service")


async def test_a_status_that_names_two_sends_settles_both_and_takes_no_name_away(
    place: Ground, inbox: PostgresInbox
) -> None:
    account, _, one = await sent(place, provider_id="p1")
    other = await place.attempt(
        await place.outbound(await place.conversation(account.id)), state="sending", provider_id=None
    )
    mixed = Status(status="delivered", correlation=other.hex, provider_id="p1")
    assert await inbox.settle_statuses([request(account, statuses=[mixed])]) == 0
    rows = {row["id"]: row for row in await place.rows("send_attempt")}
    assert (rows[one]["provider_id"], rows[other]["provider_id"]) == ("p1", None)
    assert {row["state"] for row in rows.values()} == {"delivered"}
