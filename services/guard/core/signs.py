"""What words and times tell the guards: a wish to stop, a wish for a person, a machine at the other end."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from services.guard.core.verdict import Facts
from shared.locales import Locale, Reading, read
from shared.words import COMPARED_CHARS_MAX, near_same, without_ending

SAME_BEFORE: Final = 2  # a third near-same text is a loop
SAME_WITHIN: Final = timedelta(minutes=10)
SAME_CHARS_MIN: Final = 8  # "hello?" thrice is impatience
QUICK_BEFORE: Final = 3  # a fourth quick answer in a row is a loop
QUICK_WITHIN: Final = timedelta(seconds=3)


def opts_out(words: Reading) -> bool:
    """The whole message is an opt-out word; thanks may follow it."""
    return words.whole and any(
        normal in locale.opt_out or without_ending(normal, locale.thanks) in locale.opt_out
        for locale, normal in words.forms
    )


def opts_in(words: Reading) -> bool:
    """The whole message is an opt-in word; thanks may follow it."""
    return words.whole and any(
        normal in locale.opt_in or without_ending(normal, locale.thanks) in locale.opt_in
        for locale, normal in words.forms
    )


def is_cancel(words: Reading) -> bool:
    """The whole message is the word that some carriers take as an opt-out."""
    return words.whole and any(
        without_ending(normal, locale.thanks) in locale.carrier_opt_out for locale, normal in words.forms
    )


def asks_for_person(words: Reading) -> bool:
    """The whole message is a word for a person, or a clear phrase stands in it and is not turned round."""
    return any(
        (words.whole and normal.rstrip(" ?") in locale.handoff_words) or _pleads(locale, normal)
        for locale, normal in words.forms
    )


def _pleads(locale: Locale, normal: str) -> bool:
    return any(
        not f" {normal[: found.start()].rstrip()}".endswith(locale.handoff_negations)
        for found in locale.handoff_phrases.finditer(normal)
    )


def answers(words: Reading) -> bool:
    """The whole message is a yes, a soft yes or a no, which people do repeat."""
    return words.whole and any(locale.answers(normal) for locale, normal in words.forms)


def answers_by_itself(words: Reading) -> bool:
    """The words of an automatic reply."""
    return any(
        locale.auto_responder_phrases.search(normal) or locale.auto_responder_titles.match(normal)
        for locale, normal in words.forms
    )


def repeats_itself(words: Reading, received_at: datetime, facts: Facts) -> bool:
    """The third near-same text in ten minutes."""
    before = facts.last_said[-SAME_BEFORE:]
    if len(before) < SAME_BEFORE or received_at - before[0].received_at > SAME_WITHIN:
        return False
    locale, normal = words.forms[0]
    return len(normal) >= SAME_CHARS_MIN and all(
        near_same(normal, locale.normalise(said.text[:COMPARED_CHARS_MAX])) for said in reversed(before)
    )


def answers_too_quickly(received_at: datetime, facts: Facts, locales: Sequence[Locale]) -> bool:
    """The fourth text in a row that came within seconds of a reply of ours, each of another one."""
    before = facts.last_said[-QUICK_BEFORE:]
    if len(before) < QUICK_BEFORE or len(facts.reply_times) <= QUICK_BEFORE:
        return False
    times = sorted((*(said.received_at for said in before), received_at))
    return _each_has_its_reply(times, facts.reply_times) and not any(
        answers(read(said.text, locales)) for said in before
    )


def _each_has_its_reply(times: Sequence[datetime], replies: Sequence[datetime]) -> bool:
    """Whether each time lies at most `QUICK_WITHIN` after a reply of its own; both ascend."""
    left = iter(replies)
    for time in times:
        reply = next((reply for reply in left if reply >= time - QUICK_WITHIN), None)
        if reply is None or reply > time:
            return False
    return True
