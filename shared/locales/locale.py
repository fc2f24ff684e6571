"""A loaded locale, and a text as all locales of a business read it. Pure: cores are handed these."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared.locales.claim_words import AskingWords, ClaimWords
from shared.words import fold, is_blank, normalise, spaced

READ_CHARS_MAX: Final = 4_096  # of a text when phrases are looked for; a longer one is no word of a list
_WORDS_WEIGHED_MAX: Final = 60  # of a text when its language is guessed
_WORD: Final = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Locale:
    """Word lists in normal form, and wordings. No phrase has two meanings, but for a yes that opts in."""

    name: str
    dropped_marks: frozenset[str]  # combining marks that its writers leave out
    told_by_marks: frozenset[str]  # words with marks that make them other words than the listed ones
    explicit_yes: frozenset[str]
    soft_yes: frozenset[str]
    no: frozenset[str]
    opt_out: frozenset[str]
    carrier_opt_out: frozenset[str]  # an opt-out only where the carrier takes it as one
    opt_in: frozenset[str]  # read only of someone who is opted out
    thanks: tuple[str, ...]  # may follow an opt-out or opt-in word; longest first
    handoff_words: frozenset[str]  # the whole message
    handoff_phrases: re.Pattern[str]  # anywhere in it
    handoff_negations: tuple[str, ...]  # each after a space; right before the phrase they turn it round
    auto_responder_phrases: re.Pattern[str]  # anywhere
    auto_responder_titles: re.Pattern[str]  # at the beginning, as a title
    reactions: re.Pattern[str]  # the whole of a text that a phone sends in place of a reaction
    claims: ClaimWords  # of a reply that pretends that something is done
    asking: AskingWords  # of one that asks for a yes
    common_words: frozenset[str]  # tell the language; none of another locale's
    notices: Mapping[str, str]
    weekdays: tuple[str, ...]  # Monday first
    months: tuple[str, ...]
    day_pattern: str
    moment_pattern: str

    def normalise(self, text: str) -> str:
        """The text as this locale's lists hold it."""
        return normalise(text, self.dropped_marks)

    def is_reaction(self, text: str) -> bool:
        """Whether the text is what a phone sends in place of a reaction (Liked “…”), all of it."""
        return len(text) <= READ_CHARS_MAX and bool(
            self.reactions.fullmatch(spaced(fold(text, self.dropped_marks)))
        )

    def means_another_word(self, text: str) -> bool:
        """Whether a word in it is told from a listed one by its marks alone ("dă" is no "da")."""
        return bool(self.told_by_marks) and not self.told_by_marks.isdisjoint(_WORD.findall(fold(text)))

    def answers(self, normal: str) -> bool:
        """Whether the whole text is a yes, a soft yes or a no."""
        return normal in self.explicit_yes or normal in self.soft_yes or normal in self.no

    def notice(self, name: str, **values: str) -> str:
        """A fixed message of the system; values are put in as they are."""
        return self.notices[name].format_map(values)

    def day(self, at: datetime) -> str:
        """ "Thursday 3 December", of a time already in the business's zone."""
        return self.day_pattern.format_map(self._parts(at))

    def moment(self, at: datetime) -> str:
        """ "Thursday 3 December, 10:00", of a time already in the business's zone."""
        return self.moment_pattern.format_map(self._parts(at))

    def _parts(self, at: datetime) -> dict[str, str]:
        return {
            "weekday": self.weekdays[at.weekday()],
            "day": str(at.day),
            "month": self.months[at.month - 1],
            "time": f"{at:%H:%M}",
        }


@dataclass(frozen=True, slots=True)
class Reading:
    """A text in the normal form of each locale, made once."""

    forms: tuple[tuple[Locale, str], ...]
    blank: bool
    whole: bool  # False: it was cut, so that no list can hold it

    def locale(self) -> str | None:
        """The locale whose words it has; None when no words tell, or those of several."""
        if self.blank or len(self.forms) == 1:
            return None if self.blank else self._only()
        words = {normal: _words(normal) for normal in {normal for _, normal in self.forms}}
        weights = [_weight(locale, normal, words[normal]) for locale, normal in self.forms]
        best = max(weights)
        if not best or weights.count(best) > 1:
            return None
        return self.forms[weights.index(best)][0].name

    def _only(self) -> str | None:
        locale, normal = self.forms[0]
        return locale.name if _weight(locale, normal, _words(normal)) else None


def read(text: str, locales: Sequence[Locale]) -> Reading:
    """Normalises a text for all locales; once, where they fold alike."""
    whole = len(text) <= READ_CHARS_MAX
    if not whole:
        text = text[:READ_CHARS_MAX]
    if text.isascii():
        same = normalise(text)
        return Reading(tuple((locale, same) for locale in locales), not text or text.isspace(), whole)
    return Reading(tuple((locale, locale.normalise(text)) for locale in locales), is_blank(text), whole)


def _words(normal: str) -> list[str]:
    """Its first words, as many as are weighed."""
    return _WORD.findall(normal, 0, _WORDS_WEIGHED_MAX * 8)[:_WORDS_WEIGHED_MAX]


def _weight(locale: Locale, normal: str, words: Sequence[str]) -> int:
    """How many words speak for the locale; a phrase of its lists outweighs them."""
    if (
        locale.answers(normal)
        or normal in locale.opt_out
        or normal in locale.opt_in
        or normal in locale.handoff_words
    ):
        return _WORDS_WEIGHED_MAX
    return sum(map(locale.common_words.__contains__, words))
