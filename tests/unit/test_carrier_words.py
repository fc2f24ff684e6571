"""No wording of the system's asks anybody to send a word that a carrier takes as an opt-out: whoever obeyed would be cut off."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import packs
from leeway.twins.twilio import OPT_OUT
from shared.locales import available, load

WORDINGS = sorted(Path(packs.__file__).parent.glob("*/wording/*.toml"))
WORDS = "|".join(OPT_OUT)
# In capitals, as words to send are; in quotes; or after a verb of sending.
ASKS = re.compile(
    rf"\b(?:{WORDS})\b|[\"'„“‘«](?i:{WORDS})[\"'”’»]|(?i:\b(?:reply|send|text|answer|type|scrieți|răspundeți|trimiteți|scrie|răspunde|trimite)\s+(?:with\s+|cu\s+)?(?:{WORDS})\b)"
)  # fmt: skip


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


@pytest.mark.parametrize("name", available())
def test_no_notice_asks_for_a_carriers_word(name: str) -> None:
    notices = dict(load(name).notices)
    welcome = notices.pop("opted_in")  # tells how to leave, which is what STOP is for
    assert set(re.findall(rf"\b(?:{WORDS})\b", welcome)) == {"STOP"}
    assert len(notices) > 20
    assert not [text for text in notices.values() if ASKS.search(text)]


@pytest.mark.parametrize("path", WORDINGS, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_no_prompt_reminder_or_refusal_of_a_pack_does(path: Path) -> None:
    whole = tomllib.loads(path.read_text())
    said = list(
        texts({name: value for name, value in whole.items() if name != "mock"})
    )  # what its mock hears
    assert len(said) > 10
    assert not [text for text in said if ASKS.search(text)]


def test_no_label_of_a_reminders_buttons_is_one() -> None:
    reminders = [
        one["reminder"] for path in WORDINGS if "reminder" in (one := tomllib.loads(path.read_text()))
    ]
    labels = [one[name] for one in reminders for name in ("keep", "cancel")]
    assert len(labels) >= 4
    assert not [one for one in labels if one.upper() in OPT_OUT]


@pytest.mark.parametrize(
    "text",
    ["Reply CANCEL to cancel.", "Reply YES or STOP.", "To leave, send 'stop'.", "Răspundeți cu cancel.", "Trimite „STOP” la 1234"],
)  # fmt: skip
def test_asking_is_seen(text: str) -> None:
    assert ASKS.search(text)


@pytest.mark.parametrize(
    "text", ["Cancelled: check-up.", "Cancel: check-up, Monday.", "Reply YES or NO.", "at the end of the day"]
)
def test_telling_is_not_asking(text: str) -> None:
    assert not ASKS.search(text)
