"""What a reply of the model pretends: that something is done, or that a yes of the customer would do it. Pure.

Both are the system's to say. Word lists by locale decide, sentence by sentence; quoted sentences are not the
reply's own.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from shared.locales import Locale
from shared.words import fold, spaced

_MARKUP: Final = re.compile(r"[*_`~#]+")
_QUOTED: Final = re.compile(r"\"([^\"\n]*)\"|“([^“”\n]*)”|„([^„”“\"\n]*)[”“\"]|«([^«»\n]*)»")
_SENTENCE_END: Final = re.compile(r"[.!?]+(?=\s|$)|\n+")
_WORD: Final = re.compile(r"[\w'-]+")
_WORDS_OF_A_SUBJECT: Final = 4


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str  # folded, one space between words, its full stop gone
    is_question: bool


@dataclass(frozen=True, slots=True)
class _Place:
    """Where words were found in a sentence, and what stands around them."""

    before: str  # from the beginning of the sentence
    clause: str  # of it, what belongs to the same clause
    after: str
    is_asked: bool  # the question mark is this clause's


def claims_done(text: str, locales: Sequence[Locale]) -> bool:
    """Whether the reply says that an action is finished ("I've booked …", "am programat …").

    What is denied, conditional, asked, still to come, or said of others ("that slot is booked") claims nothing.
    """
    for locale in locales:
        own = _own_words(text, locale)
        if locale.claims.any.search(own) and any(_claims(one, locale) for one in _sentences(own, locale)):
            return True
    return False


def asks_to_confirm(text: str, locales: Sequence[Locale]) -> bool:
    """Whether the reply asks for a yes to an action ("Reply YES", "shall I book it?", "confirmați?")."""
    for locale in locales:
        own = _own_words(text, locale)
        if locale.asking.any.search(own) and any(_asks(one, locale) for one in _sentences(own, locale)):
            return True
    return False


def _claims(sentence: _Sentence, locale: Locale) -> bool:
    return (
        _opens_as_done(sentence, locale)
        or any(_did(place, locale) for place in _places(locale.claims.did, sentence, locale))
        or any(_is_finished(place, locale) for place in _places(locale.claims.finished, sentence, locale))
        or any(_was_done(place, locale) for place in _places(locale.claims.was_done, sentence, locale))
        or any(_is_done(place, locale) for place in _places(locale.claims.is_done, sentence, locale))
    )


def _opens_as_done(sentence: _Sentence, locale: Locale) -> bool:
    """ "Booked: …", "✅ Confirmed", "Appointment moved to Friday": a sentence that needs no subject."""
    words = locale.claims
    found = words.opening.search(sentence.text)
    if not found:
        return False
    asked = sentence.is_question and not words.breaks.search(sentence.text, found.end() - 1)
    about = found["before"] or ""
    return not (asked or words.negations.search(about) or words.conditions.search(about))


def _did(place: _Place, locale: Locale) -> bool:
    """The bot says that it did it. Conditions count in the same clause: "if you like, …" binds nothing."""
    words = locale.claims
    return (
        _is_said(place, locale)
        and not words.conditions.search(place.clause)
        and not words.own_affairs.match(place.after.lstrip())
    )


def _is_finished(place: _Place, locale: Locale) -> bool:
    return _is_said(place, locale) and not _is_bound_or_of_others(place, locale)


def _was_done(place: _Place, locale: Locale) -> bool:
    """Something "has been booked", unless it is a thing of others or the doing of others."""
    words = locale.claims
    return _happened(place, locale) and (
        bool(words.named.search(_subject(place))) or not _is_of_others(place, locale)
    )


def _is_done(place: _Place, locale: Locale) -> bool:
    """Something "is booked": only of what the customer asked for; a dentist may be booked as well."""
    words, subject = locale.claims, _subject(place)
    if not _happened(place, locale):
        return False
    is_theirs = words.named.search(subject) or words.for_customer.match(place.after.lstrip())
    if is_theirs or not _WORD.search(subject):
        return True
    if _is_of_others(place, locale):
        return False
    return bool(words.owned.search(subject)) or _last_word(subject) in words.pronouns


def _happened(place: _Place, locale: Locale) -> bool:
    """Said as a fact of the past, and not as what tells one thing from another ("the one that was moved")."""
    words, subject = locale.claims, _subject(place)
    told_apart = _last_word(subject) in words.relatives and len(_WORD.findall(subject)) > 1
    return not (told_apart or not _is_said(place, locale) or _is_bound_or_of_others(place, locale))


def _is_bound_or_of_others(place: _Place, locale: Locale) -> bool:
    """By a condition before it, or the doing of somebody else, who is named after it."""
    words = locale.claims
    return bool(words.conditions.search(place.before) or words.others_did.match(place.after.lstrip()))


def _is_said(place: _Place, locale: Locale) -> bool:
    words = locale.claims
    return not (
        place.is_asked
        or words.negations.search(place.clause)
        or _last_word(place.clause) in words.helpers
        or words.nothing.match(place.after.lstrip())
    )


def _is_of_others(place: _Place, locale: Locale) -> bool:
    near = " ".join(_WORD.findall(_subject(place))[-_WORDS_OF_A_SUBJECT:])
    return bool(locale.claims.others.search(near) or locale.claims.others.match(place.after.lstrip()))


def _subject(place: _Place) -> str:
    """The words before, of the clause, or of the sentence where the clause has none ("…, 10:00, is booked")."""
    return place.clause if _WORD.search(place.clause) else place.before


def _last_word(text: str) -> str:
    found = _WORD.findall(text)
    return found[-1] if found else ""


def _asks(sentence: _Sentence, locale: Locale) -> bool:
    words = locale.asking
    if words.later.search(sentence.text):
        return False
    demands = (words.phrases, words.confirms) if sentence.is_question else (words.phrases,)
    questions = (words.asked, words.offers) if sentence.is_question else ()
    return any(
        _is_demand(place, locale) for pattern in demands for place in _places(pattern, sentence, locale)
    ) or any(
        _asks_for_nothing_else(place, locale)
        for pattern in questions
        for place in _places(pattern, sentence, locale)
    )


def _is_demand(place: _Place, locale: Locale) -> bool:
    """Not "you need not confirm", nor "please confirm your name"."""
    return not (
        locale.claims.negations.search(place.clause) or locale.asking.details.match(place.after.lstrip())
    )


def _asks_for_nothing_else(place: _Place, locale: Locale) -> bool:
    """Not "which day shall I book?"."""
    return not locale.asking.choices.search(place.clause)


def _places(pattern: re.Pattern[str], sentence: _Sentence, locale: Locale) -> Iterator[_Place]:
    breaks = locale.claims.breaks
    for found in pattern.finditer(sentence.text):
        before, after = sentence.text[: found.start()], sentence.text[found.end() :]
        starts = max((one.end() for one in breaks.finditer(before)), default=0)
        is_asked = sentence.is_question and not breaks.search(after)
        yield _Place(before, before[starts:], after, is_asked)


def _own_words(text: str, locale: Locale) -> str:
    """The text folded, without markup and quotes; runs of blanks are one, and lines are kept apart."""
    own = locale.claims.set_aside.sub(" ", _unquoted(_MARKUP.sub("", fold(text, locale.dropped_marks))))
    return "\n".join(map(spaced, own.splitlines()))


def _sentences(own: str, locale: Locale) -> Iterator[_Sentence]:
    words = locale.claims
    start = 0
    for end in _SENTENCE_END.finditer(own):
        if end[0] == "." and _last_word(own[max(0, end.start() - 8) : end.start()]) in words.abbreviations:
            continue
        yield _Sentence(spaced(own[start : end.start()]), "?" in end[0])
        start = end.end()
    yield _Sentence(spaced(own[start:]), is_question=False)


def _unquoted(text: str) -> str:
    """Without what is quoted; a single word in quotes is only pointed out, and a quote of all is none."""
    whole = _QUOTED.fullmatch(text.strip())
    if whole:
        return next(part for part in whole.groups() if part is not None)
    return _QUOTED.sub(_pointed_out, text)


def _pointed_out(quote: re.Match[str]) -> str:
    inside = next(part for part in quote.groups() if part is not None)
    return f" {inside} " if inside.strip(" .,!").replace("-", "").isalpha() else " … "
