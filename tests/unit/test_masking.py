"""What logs may show: nobody's number, address or secret, and everything else as it was."""

import string
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from shared.ids import new_id
from shared.masking import HIDDEN, SECRET_CHARS_MIN, TEXT_CHARS_MAX, Masker

MASKER = Masker()
AROUND = st.sampled_from(
    ["", "of {}", "to {}, again", "({})", "{}.", "<{}>", "“{}”", "id: {}; next", "a\n{}\nb"]
)


def put(around: str, text: str) -> str:
    return around.format(text) if around else text


PEOPLE = [
    pytest.param("+40 740 123 456", "[phone]", id="E.164 with spaces"),
    pytest.param("+40740123456", "[phone]", id="E.164"),
    pytest.param("0740\u2011123\u2013456", "[phone]", id="with dashes beyond ASCII"),
    pytest.param("40740123456", "[phone]", id="WhatsApp's form"),
    pytest.param("0740123456", "[phone]", id="national"),
    pytest.param("0740.123.456", "[phone]", id="with dots"),
    pytest.param("(021) 312-34-56", "[phone]", id="with brackets"),
    pytest.param("+1 (555) 010-9999", "[phone]", id="American"),
    pytest.param("555-010-9999", "[phone]", id="American, national"),
    pytest.param("7654321", "[phone]", id="seven digits"),
    pytest.param("0740\u2212123\u2212456", "[phone]", id="with signs for minus"),
    pytest.param("0740\u200b123\u200b456", "[phone]", id="with marks that nobody sees"),
    pytest.param("%2B40740123456", "[phone]", id="as in a URL"),
    pytest.param("whatsapp%3A%2B40740123456", "[phone]", id="Twilio's form as in a URL"),
    pytest.param("0740%20123%20456", "[phone]", id="with spaces as in a URL"),
    pytest.param("ana.popescu%40example.co.uk", "[email]", id="e-mail address as in a URL"),
    pytest.param("ana＠example.ro", "[email]", id="e-mail address, full width"),
    pytest.param("ana.popescu+x@example.co.uk", "[email]", id="e-mail address"),
    pytest.param("RO49 AAAA 1B31 0075 9384 0000", "[iban]", id="IBAN in groups"),
    pytest.param("DE89370400440532013000", "[iban]", id="IBAN"),
    pytest.param("4111 1111 1111 1111", "[card]", id="card in groups"),
    pytest.param("5500005555555559", "[card]", id="card"),
    pytest.param("1960229410015", "[cnp]", id="CNP"),
    pytest.param("wamid.HBgLNDA3NDAxMjM0NTYVAgASGBQz", "wamid.[hidden]", id="a message's id that holds a number"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), PEOPLE)
@pytest.mark.parametrize(
    "around", ["{}", "call {} now", '{{"to":"{}"}}', "({})", "{}, again", "about={}&x=1"]
)
def test_who_somebody_is_is_masked(text: str, shown: str, around: str) -> None:
    masked = MASKER.text(around.format(text))
    assert text not in masked
    assert shown in masked


SECRETS = [
    "Bearer abcdefgh12345678",
    "Basic dXNlcjpwYXNz",
    "sk-TEST-123",
    "sk-proj-abcdefghijklmnop",
    "EAAG-TEST",
    "EAABsbCS1iHgBAKZCZCabcdef",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "AIzaSyA1234567890abcdefghijklmnopqrstu",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
    "123456789:AAEhBP0av28hUz0XZYabcdefghijklmnop",
    "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE=",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("around", ["{}", "refused: {}", '"{}"', "key={}&x=1", "it was {}."])
def test_a_secret_of_a_known_form_is_masked(secret: str, around: str) -> None:
    masked = MASKER.text(around.format(secret))
    assert secret.rsplit(" ", maxsplit=1)[-1] not in masked
    assert "[secret]" in masked


@pytest.mark.parametrize(
    "text",
    [
        "amqp://leeway:hunter2!@rabbit:5672/",
        "postgresql://leeway:hunter2!@db/leeway",
        "postgresql://leeway:a/hunter2!@db/leeway",
        "postgresql://leeway:a@hunter2!@db/leeway",
        "https://x.test/?access_token=hunter2!",
        '{"password": "hunter2!"}',
        "auth_token: hunter2!",
        "LEEWAY_SECRET_KEY=hunter2!",
        "OPENAI_API_KEY=hunter2!",
        "client_secret='hunter2!'",
        "authorization: Basic hunter2!",
        '{"Authorization": "Bearer hunter2!"}',
    ],
)
def test_a_secret_is_masked_where_its_name_or_place_tells(text: str) -> None:
    assert "hunter2" not in MASKER.text(text)


def test_the_rest_of_an_address_stays() -> None:
    assert MASKER.text("amqp://leeway:hunter2!@rabbit:5672/") == "amqp://[secret]@rabbit:5672/"
    assert MASKER.text("https://api.telegram.org/bot123456789:AAEhBP0av28hUz0XZYabcdefg/getMe") == (
        "https://api.telegram.org/bot[secret]/getMe"
    )


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-01T04:54:30.123456Z",
        "2026-12-01 04:54:30+02:00",
        "2026-12-01",
        "1764567890",
        "1764567890123",
        "12345678 bytes; a packet has at most 65536",
        "127.0.0.1:54321",
        "http://127.0.0.1:8000/readyz",
        "took 0.0123456789 s",
        "1234567.25 seconds",
        "0123456789abcdef0123456789abcdef",
        "a9993e364706816aba3e25717850c26c9cd0d89d",
        "File services/agent/handler.py, line 123, in _work",
        "PostgreSQL 17.2, 4 of 100 connections",
        "no confirm for leeway.guard within 5 s",
        "batch failed, repeating it ticket by ticket",
    ],
)
def test_what_is_nobody_s_stays(text: str) -> None:
    assert MASKER.text(text) == text


@given(
    around=AROUND,
    country=st.sampled_from(["40", "44", "1", "49", "380"]),
    rest=st.integers(20_000_000, 999_999_999),
)
def test_no_telephone_number_survives(around: str, country: str, rest: int) -> None:
    number = f"+{country}{rest}"
    masked = MASKER.text(put(around, number))
    assert str(rest) not in masked


@given(
    around=AROUND,
    first=st.text(string.ascii_lowercase + string.digits + "._", min_size=1, max_size=20),
    host=st.text(string.ascii_lowercase, min_size=1, max_size=20),
)
def test_no_e_mail_address_survives(around: str, first: str, host: str) -> None:
    address = f"{first}@{host}.ro"
    assert f"@{host}" not in MASKER.text(put(around, address))


@given(around=AROUND, digits=st.lists(st.integers(0, 9), min_size=12, max_size=18))
def test_no_card_number_survives(around: str, digits: list[int]) -> None:
    text = "".join(map(str, digits))
    doubled = [int(sum(map(int, str(d * (1 + (place + 1) % 2))))) for place, d in enumerate(reversed(digits))]
    card = text + str(-sum(doubled) % 10)
    assert card not in MASKER.text(put(around, card))


@pytest.mark.parametrize("name", ["0.0", "2026-12-01", "127.0.0.1", "1764567890", "12345678"])
def test_an_address_that_begins_like_a_number_is_no_way_out(name: str) -> None:
    assert MASKER.text(f"to {name}@clinic.ro") == "to [email]"


def test_numbers_side_by_side_are_no_way_out() -> None:
    assert MASKER.text("0740123456 0741123456") == "[phone]"


@given(around=AROUND, bits=st.integers(0, 2**128 - 1))
def test_every_id_survives(around: str, bits: int) -> None:
    text = put(around, str(UUID(int=bits)))
    assert MASKER.text(text) == text


@given(around=AROUND, when=st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_every_timestamp_survives(around: str, when: datetime) -> None:
    text = put(around, when.isoformat())
    assert MASKER.text(text) == text


@given(st.text())
def test_masking_again_changes_nothing(text: str) -> None:
    once = MASKER.text(text)
    assert MASKER.text(once) == once


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
        lambda one: st.lists(one, max_size=4) | st.dictionaries(st.text(max_size=8), one, max_size=4),
        max_leaves=10,
    )
)
def test_numbers_and_forms_of_values_survive(value: Any) -> None:
    shown = MASKER.field("parts", value)
    if isinstance(value, list):
        assert len(shown) == len(value)
    elif not isinstance(value, str | dict):
        assert shown == value


@given(
    before=st.text(string.ascii_letters + " ", max_size=20),
    secret=st.text(string.ascii_letters + string.digits + "-+/=.$^", min_size=SECRET_CHARS_MIN, max_size=40),
)
def test_what_the_process_knows_is_masked_by_value(before: str, secret: str) -> None:
    assert secret not in Masker([secret]).text(f"{before} {secret} and {secret}")


def test_a_secret_too_short_to_be_one_masks_no_words() -> None:
    assert Masker(["guest", ""]).text("a guest came") == "a guest came"


@pytest.mark.parametrize(
    "name",
    [
        "text",
        "body",
        "user_id",
        "sender",
        "phone",
        "first_name",
        "last_name",
        "token",
        "bot_token",
        "app_secret",
        "password",
        "Authorization",
    ],
)
def test_a_field_is_hidden_whole_by_its_name(name: str) -> None:
    assert MASKER.field(name, "a table for two") == HIDDEN
    assert MASKER.field("about", {"inner": {name: "a table for two"}}) == {"inner": {name: HIDDEN}}
    assert MASKER.field(name, None) is None


@pytest.mark.parametrize(
    "name", ["tokens", "stage", "message", "turn", "conversation", "reason", "account", "error"]
)
def test_names_of_ordinary_fields_hide_nothing(name: str) -> None:
    assert MASKER.field(name, "guard") == "guard"


def test_values_of_known_kinds_are_shown_as_text_and_others_by_their_kind() -> None:
    one = new_id()
    assert MASKER.field("id", one) == str(one)
    assert MASKER.field("cost", Decimal("0.25")) == "0.25"
    assert MASKER.field("raw_bytes", b"a table for two") == "[bytes]"
    assert MASKER.field("known", SecretStr("hunter2!")) == "[SecretStr]"
    assert MASKER.field("error", ValueError("a table for two")) == "[ValueError]"


def test_long_texts_are_cut_off() -> None:
    assert len(MASKER.text("x" * (TEXT_CHARS_MAX + 1))) < TEXT_CHARS_MAX + 20


def test_our_own_name_is_no_secret_though_it_is_the_password_of_the_urls_by_default() -> None:
    masker = Masker(["leeway", "leeway2"])
    assert masker.text("run: leeway migrate") == "run: leeway migrate"
    assert masker.text("not leeway2") == "not [secret]"
