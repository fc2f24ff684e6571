"""Fetching media on Postgres: claimed once, never left undone, stored by whoever has the claim."""

import asyncio
from datetime import timedelta

import pytest

from services.ingest.adapters.media_record import TRIES_MAX, PostgresMedia
from shared.ids import MessageId
from shared.secrets import Vault, new_key
from tests.support.factories import Ground

pytestmark = pytest.mark.postgres
VAULT = Vault(new_key())


async def due(place: Ground, *, n: int = 1, **more: object) -> MessageId:
    account = await place.account(
        channel="telegram", settings='{"bot_id": "7"}', secrets=VAULT.seal({"outbound": "7:token"})
    )
    conversation = await place.conversation(account)
    message = await place.wrote(conversation, "", kind="media")
    business = (await place.row("channel_account", id=account))["business"]
    plain = {"kind": "audio", "reference": "f", "state": "due", "due_at": await place.now()}
    for at in range(n):
        await place.insert("media_part", message=message, business=business, n=at + 1, **(plain | more))
    return message


async def test_a_part_is_claimed_by_one_with_what_its_account_needs(place: Ground) -> None:
    await due(place, n=20)
    media = PostgresMedia(place.database, VAULT)
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(media.claim(most=8)) for _ in range(4)]
    claims = [task.result() for task in asked]
    claimed = [one.n for claim in claims for one in claim]
    assert sorted(claimed) == sorted(set(claimed))
    assert max(len(claim) for claim in claims) == 8
    (one, *_) = next(claim for claim in claims if claim)
    assert one.secrets.outbound is not None
    assert (one.channel, one.secrets.outbound.get_secret_value(), one.tries) == ("telegram", "7:token", 1)


async def test_who_dies_over_a_part_leaves_it_due_until_it_was_tried_five_times(place: Ground) -> None:
    message = await due(place)
    media = PostgresMedia(place.database, VAULT, claim=timedelta())
    tries = [[one.tries for one in await media.claim(most=8)] for _ in range(TRIES_MAX + 1)]
    assert tries == [[1], [2], [3], [4], [5], []]
    row = await place.row("media_part", message=message)
    assert (row["state"], row["due_at"]) == ("failed", None)


async def test_only_whoever_has_the_claim_writes(place: Ground) -> None:
    message = await due(place)
    (late,) = await PostgresMedia(place.database, VAULT, claim=timedelta()).claim(most=8)
    media = PostgresMedia(place.database, VAULT)
    (holder,) = await media.claim(most=8)
    await media.end(late, state="failed", reason="gone")
    await media.later(late, reason="away", pause=timedelta())
    await media.store(late, b"late")
    assert (await place.row("media_part", message=message))["state"] == "due"
    await media.store(holder, b"OggS")
    row = await place.row("media_part", message=message)
    assert (row["state"], row["content"], row["bytes"], row["due_at"]) == ("stored", b"OggS", 4, None)


async def test_after_a_pause_it_is_due_again_and_after_its_end_never(place: Ground) -> None:
    message = await due(place)
    media = PostgresMedia(place.database, VAULT)
    (first,) = await media.claim(most=8)
    await media.later(first, reason="answered with 503", pause=timedelta())
    (second,) = await media.claim(most=8)
    await media.end(second, state="refused", reason="too large")
    assert await media.claim(most=8) == []
    row = await place.row("media_part", message=message)
    assert (row["state"], row["reason"], row["content"]) == ("refused", "too large", None)


async def test_secrets_of_another_key_hold_up_nothing_else(place: Ground) -> None:
    await due(place)
    media = PostgresMedia(place.database, Vault(new_key()))
    (one,) = await media.claim(most=8)
    assert one.secrets.outbound is None


async def test_a_part_that_another_session_holds_is_passed_over(place: Ground) -> None:
    held, free = await due(place), await due(place)
    async with place.held("media_part", "message", [held]), asyncio.timeout(2):
        claimed = await PostgresMedia(place.database, VAULT).claim(most=8)
    assert [one.message for one in claimed] == [free]
