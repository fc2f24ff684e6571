"""Field cases about edits, deletions, reactions and what comes beside text, played through all services."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shared.locales import load
from tests.support.eventually import eventually
from tests.support.town import ANA, Customer, Held, Shop, Town, a_town, call, script, texts_told

pytestmark = [pytest.mark.postgres, pytest.mark.stack, pytest.mark.xdist_group("field-edits")]

MONDAY_10, MONDAY_11 = "2026-12-07T10:00", "2026-12-07T11:00"
REQUEST = "Book 7 Dec at 10"
EN = load("en")
DROPPED = f"{EN.notice('request_edited')} {EN.notice('write_again')}"


@pytest.fixture(scope="module")
async def town() -> AsyncIterator[Town]:
    async with a_town("field-edits") as town:
        yield town


def booking(start: str = MONDAY_10) -> dict[str, Any]:
    return call("book_appointment", {"service": "cleaning", "start": start, "dentist": "Dr. Ionescu"})


async def asked_about(shop: Shop, text: str = REQUEST) -> tuple[Customer, str]:
    """Ana, who was asked about it; and her message's id on the channel."""
    ana = shop.customer(ANA)
    town = shop.town
    town.go_to(town.now)
    message = await ana.write(text)
    [prompt] = await ana.hears()
    assert prompt.startswith("Book: cleaning")
    return ana, message


async def story(shop: Shop) -> list[tuple[str, str, str | None]]:
    rows = await shop.fetch(
        "select kind, body, edited_to from inbound_message where business = $1 order by received_at, id"
    )
    return [(row["kind"], row["body"], row["edited_to"]) for row in rows]


@pytest.mark.parametrize("how", ["edit", "deletion"])
@pytest.mark.parametrize("answer", ["yes", "no", "the button"])
async def test_what_was_asked_about_an_edited_message_can_not_be_confirmed(
    town: Town, how: str, answer: str
) -> None:
    """SHP-14."""
    shop = await town.business("shp-14", model=script(booking()))
    ana, message = await asked_about(shop)
    new = "Book 7 Dec at 11" if how == "edit" else None
    assert await ana.says(new, kind=how, quoted=message) == [], "it starts no turn"
    assert await shop.waiting() == []
    said = await ana.presses("Confirm") if answer == "the button" else await ana.says(answer)
    assert said == [DROPPED]
    assert (await shop.ran(), await shop.appointments(), shop.model_calls) == ([], [], 1)
    edited = ("text", REQUEST, new) if how == "edit" else ("text", "", None)
    assert (await story(shop))[0] == edited


async def test_the_next_request_is_told_of_it_and_the_history_shows_the_edit(town: Town) -> None:
    """SHP-14: the model finds what was said, and what it became."""
    shop = await town.business("shp-14", model=script(booking(), booking(MONDAY_11)))
    ana, message = await asked_about(shop)
    await ana.says("Book 7 Dec at 11", kind="edit", quoted=message)
    [prompt] = await ana.says("Book it at 11 please")
    assert prompt.startswith(f"{EN.notice('request_edited')} Book: cleaning")
    assert f"{REQUEST}\n(edited afterwards to: Book 7 Dec at 11)" in texts_told(shop.requests[-1])
    await ana.says("yes")
    assert await shop.appointments() == [MONDAY_11]


async def test_an_edit_while_the_model_thinks_is_not_overlooked(town: Town) -> None:
    """The prompt is about the old words, as the answer was under way: nothing can be confirmed by it."""
    held = Held(script(booking()))
    shop = await town.business("shp-14", model=held)
    ana = shop.customer(ANA)
    message = await ana.write(REQUEST)
    await held.asked.wait()
    await ana.write("Book 7 Dec at 11", kind="edit", quoted=message)

    async def judged() -> bool:
        rows = await shop.fetch(
            "select 1 from inbound_message where business = $1 and kind = 'edit' and seq > 0"
        )
        return bool(rows)

    await eventually(judged)
    held.goes_on.set()
    [prompt] = await ana.hears()
    assert prompt.startswith("Book: cleaning")
    assert await ana.says("yes") == [DROPPED]
    assert (await shop.ran(), await shop.waiting()) == ([], [])


async def test_a_message_edited_before_its_turn_is_answered_as_it_is_now(town: Town) -> None:
    shop = await town.business("edited", model=script({"text": "We do."}), window_ms=1500)
    ana = shop.customer(ANA)
    message = await ana.write("Do you open on Sundays?")
    await ana.write("Do you open on Saturdays?", kind="edit", quoted=message)
    assert await ana.hears() == ["We do."]
    assert "Saturdays" in texts_told(shop.requests[0])
    assert "Sundays" not in texts_told(shop.requests[0])


async def test_a_message_deleted_before_its_turn_is_not_answered(town: Town) -> None:
    shop = await town.business("deleted", model=script({"text": "Never said."}), window_ms=1500)
    ana = shop.customer(ANA)
    message = await ana.write("a word too much")
    await ana.write(None, kind="deletion", quoted=message)
    assert await ana.hears() == []
    assert shop.model_calls == 0
    raws = await shop.fetch(
        "select p.raw from inbound_payload p join inbound_message m on m.id = p.message where p.business = $1 and m.kind = 'text'"
    )
    assert [row["raw"] for row in raws] == [b""]


async def test_an_edit_before_its_original_waits_for_it(town: Town) -> None:
    shop = await town.business("edited", model=script({"text": "We do."}))
    ana = shop.customer(ANA)
    assert await ana.says("Do you open on Saturdays?", kind="edit", quoted="sim-original") == []
    assert await ana.says("Do you open on Sundays?", id="sim-original") == ["We do."]
    assert "Saturdays" in texts_told(shop.requests[0])


async def test_an_edit_of_a_yes_is_no_confirmation(town: Town) -> None:
    """SHP-16: it confirmed something yesterday, and something else is pending now."""
    shop = await town.business("shp-16", model=script(booking(), booking(MONDAY_11)))
    ana, _ = await asked_about(shop)
    yes = await ana.write("yes")
    await ana.hears()
    assert await shop.appointments() == [MONDAY_10]
    await ana.says("and one more at 11 please")
    [(tool, _)] = await shop.waiting()
    assert await ana.says("yes", kind="edit", quoted=yes) == []
    assert [one for one, _ in await shop.waiting()] == [tool]
    assert await shop.appointments() == [MONDAY_10]
    await ana.says("yes")
    assert await shop.appointments() == [MONDAY_10, MONDAY_11]


@pytest.mark.parametrize("first", ["perhaps", "no"])
async def test_words_edited_into_a_yes_before_they_were_answered_are_asked_about(
    town: Town, first: str
) -> None:
    shop = await town.business("edited", model=script(booking()), window_ms=1500)
    ana, _ = await asked_about(shop)
    message = await ana.write(first)
    await ana.write("yes", kind="edit", quoted=message)
    [again] = await ana.hears()
    assert again.startswith(EN.notice("prompt_repeated"))
    assert await shop.ran() == []
    await ana.says("yes")
    assert await shop.ran() == ["book_appointment"]


async def test_a_forwarded_yes_is_asked_about(town: Town) -> None:
    shop = await town.business("forwarded", model=script(booking()))
    ana, _ = await asked_about(shop)
    [again] = await ana.says("yes", forwarded=True)
    assert again.startswith(EN.notice("prompt_repeated"))
    assert (await shop.ran(), shop.model_calls) == ([], 1)


async def test_a_reaction_leaves_what_is_asked(town: Town) -> None:
    """SHP-06."""
    shop = await town.business("shp-06", model=script(booking()))
    ana, _ = await asked_about(shop)
    assert await ana.says("👍", kind="reaction", quoted="the-prompt") == []
    assert (await shop.ran(), shop.model_calls, len(await shop.waiting())) == ([], 1, 1)
    await ana.says("yes")
    assert await shop.ran() == ["book_appointment"]


async def with_part(
    shop: Shop, ana: Customer, text: str | None, *, kind: str, words: str | None
) -> list[str]:
    """A message with something beside its text, as a channel that has parts stores it; and all that came of it."""
    message = await ana.write(text, kind="media")
    await shop.fetch(
        "insert into media_part (message, business, n, kind, words) select id, business, 1, $3, $4 from inbound_message where business = $1 and external_id = $2",
        message, kind, words,
    )  # fmt: skip
    return await ana.hears()


async def test_a_place_is_told_to_the_model_as_one(town: Town) -> None:
    """SHP-08: never an empty turn."""
    shop = await town.business(
        "shp-08", model=script({"text": "We are five minutes from there."}), window_ms=1500
    )
    said = await with_part(shop, shop.customer(ANA), None, kind="location", words="44.43, 26.1")
    assert said == ["We are five minutes from there."]
    assert "(location: 44.43, 26.1)" in texts_told(shop.requests[0])


async def test_a_caption_is_the_customers_text_beside_a_marker(town: Town) -> None:
    """SHP-19."""
    shop = await town.business("shp-19", model=script({"text": "A colleague looks at it."}), window_ms=1500)
    caption = "Is this tooth ok? Can I come Monday?"
    await with_part(shop, shop.customer(ANA), caption, kind="image", words=None)
    assert f"{caption}\n(image)" in texts_told(shop.requests[0])
