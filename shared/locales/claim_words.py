"""The words by which a reply claims a finished action or asks for a yes, compiled once from a locale's lists."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared.locales.entries import pieces, refuse_other_keys
from shared.words import any_of, one_of

# What each list is for is said in the files, beside the words. Some are looked for as they are ...
_SEARCHED: Final = (
    "finished", "named", "owned", "others", "others_did", "for_customer", "own_affairs", "nothing", "negations",
    "conditions", "set_aside",
)  # fmt: skip
_SINGLE_WORDS: Final = ("pronouns", "relatives", "helpers", "abbreviations")
# ... and some are parts of longer patterns.
_PARTS: Final = (
    "actors", "passives", "states", "adverbs", "done", "alone", "leads", "things", "followers", "breaks",
)  # fmt: skip
_ASKED: Final = ("phrases", "confirms", "asked", "details", "choices", "later")
_OFFERED: Final = ("offers", "between", "verbs")

_SIGNS: Final = r"(?:[^\w\s(]|\s|\d+[.)]\s)*"  # emoji, bullets, numbers of a list
_ENDS: Final = r"(?:\s*(?:$|[^\w\s'-])|\s-\s|\s\d)"
_NO_WORD_BEFORE: Final = r"(?<![\w'-])"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimWords:
    """Patterns over one folded sentence."""

    any: re.Pattern[str]  # what every claim has some of: a text without it is looked at no further
    did: re.Pattern[str]  # "i've booked"
    was_done: re.Pattern[str]  # "has been booked"
    is_done: re.Pattern[str]  # "is booked"
    finished: re.Pattern[str]  # "all set"
    opening: re.Pattern[str]  # at the beginning: "booked for", "appointment confirmed", "done:"
    named: re.Pattern[str]  # what an action is about
    owned: re.Pattern[str]  # "your"
    pronouns: frozenset[str]
    others: re.Pattern[str]  # what may be booked or moved without an action: a slot, a dentist
    others_did: re.Pattern[str]  # right after: "by another patient"
    for_customer: re.Pattern[str]  # right after, and it is the customer's all the same
    own_affairs: re.Pattern[str]  # right after: "we've updated our opening hours"
    relatives: frozenset[str]
    nothing: re.Pattern[str]  # right after: "booked nothing"
    negations: re.Pattern[str]
    helpers: frozenset[str]  # right before: "should i have booked"
    conditions: re.Pattern[str]
    breaks: re.Pattern[str]  # between clauses
    set_aside: re.Pattern[str]  # "no problem" denies nothing
    abbreviations: frozenset[str]  # a dot after one ends no sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingWords:
    """Patterns over one folded sentence."""

    any: re.Pattern[str]  # what every such question has some of
    phrases: re.Pattern[str]  # "reply yes"
    confirms: re.Pattern[str]  # in a question: "confirm"
    asked: re.Pattern[str]  # in a question: "is that correct"
    offers: re.Pattern[str]  # in a question: "shall i book"
    details: re.Pattern[str]  # right after: "confirm which day"
    choices: re.Pattern[str]  # before, in the same question: "which day shall i book"
    later: re.Pattern[str]  # "the system will ask you"


def claim_words(name: str, table: Mapping[str, Any], marks: frozenset[str]) -> ClaimWords:
    """The [claims] of a file. Misconfigured names the entry that is missing or unknown."""
    of = _lists(name, "claims", table, (*_SEARCHED, *_SINGLE_WORDS, *_PARTS), marks)
    looked_for: dict[str, Any] = {key: any_of(of[key]) for key in _SEARCHED}
    looked_for |= {key: of[key] for key in _SINGLE_WORDS}
    after = rf" (?:{one_of(of['adverbs'])} ){{0,3}}{one_of(of['done'])}(?!\w)"
    return ClaimWords(
        any=any_of({*of["done"], *of["finished"], *(word.rstrip(",") for word in of["alone"])}),
        did=re.compile(rf"{_NO_WORD_BEFORE}{one_of(of['actors'])}{after}"),
        was_done=re.compile(_with_attached(of["passives"]) + after),
        is_done=re.compile(_with_attached(of["states"]) + after),
        opening=re.compile(_opening(of)),
        breaks=re.compile(rf"[,;:–—(](?=\s|$)|\s-(?=\s)|(?<!\w){one_of(of['breaks'])}(?!\w)"),
        **looked_for,
    )


def asking_words(name: str, table: Mapping[str, Any], marks: frozenset[str]) -> AskingWords:
    """The [asking] of a file. Misconfigured names the entry that is missing or unknown."""
    of = _lists(name, "asking", table, (*_ASKED, *_OFFERED), marks)
    offer = rf"{_NO_WORD_BEFORE}{one_of(of['offers'])} "
    return AskingWords(
        any=any_of({*of["phrases"], *of["confirms"], *of["asked"], *of["verbs"]}),
        offers=re.compile(rf"{offer}(?:{one_of(of['between'])} ?){{0,2}}{one_of(of['verbs'])}(?!\w)"),
        **{key: any_of(of[key]) for key in _ASKED},
    )


def _lists(
    name: str, where: str, table: Mapping[str, Any], keys: tuple[str, ...], marks: frozenset[str]
) -> dict[str, frozenset[str]]:
    refuse_other_keys(name, f"[{where}]", table, set(keys))
    return {key: pieces(name, f"{where}.{key}", table[key], marks) for key in keys}


def _with_attached(words: frozenset[str]) -> str:
    """Words that stand alone, and those that hang on the one before ("'s been")."""
    attached = frozenset(word for word in words if word.startswith("'"))
    return rf"(?:{_NO_WORD_BEFORE}{one_of(words - attached)}|(?<=\w){one_of(attached)})"


def _opening(of: Mapping[str, frozenset[str]]) -> str:
    """A sentence without a subject: the participle alone, the thing and the participle, or one word for done."""
    lead = rf"{_SIGNS}(?:{one_of(of['leads'])}[,:]? {_SIGNS})*"
    done = rf"(?:{one_of(of['adverbs'])} )?{one_of(of['done'])}"
    thing = rf"(?:(?:(?:[\w'-]+ ){{0,2}}{one_of(of['things'])}:?|\d[\d.,]*(?: [\w'-]+){{1,5}}?) )?"
    goes_on = rf"(?:{_ENDS}| {one_of(of['followers'])}(?!\w))"
    return (
        rf"^{lead}(?:(?P<before>{thing}){done}{goes_on}|{one_of(of['alone'])}(?:(?<=,)|\s*(?:$|[^\w\s,'-])))"
    )
