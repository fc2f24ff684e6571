"""Reads the entries of a locale's file; each refusal names the locale and the entry. Pure."""

import re
from collections.abc import Iterable
from itertools import product
from string import Formatter
from typing import Any, Final

from shared.errors import Misconfigured
from shared.words import fold, normalise, spaced

_ALTERNATIVES: Final = re.compile(r"\(([^()]*)\)")


def refuse_other_keys(name: str, where: str, found: object, expected: set[str]) -> None:
    """The table holds exactly these keys."""
    if not isinstance(found, dict):
        raise Misconfigured(f"Locale {name!r}: {where} must be a table.")
    if missing := expected - found.keys():
        raise Misconfigured(f"Locale {name!r}: {where} lacks {', '.join(sorted(missing))}.")
    if unknown := found.keys() - expected:
        raise Misconfigured(f"Locale {name!r}: {where} has unknown entries: {', '.join(sorted(unknown))}.")


def phrases(name: str, key: str, entries: object, marks: frozenset[str]) -> frozenset[str]:
    """Normal forms of a list's entries. "(a|b) c" stands for "a c" and "b c"; a comma may be left out."""
    listed: set[str] = set()
    for phrase in _spelled_out(name, key, entries):
        forms = {normalise(phrase, marks), normalise(phrase.replace(",", ""), marks)}
        if "" in forms:
            raise Misconfigured(
                f"Locale {name!r}: {key} has a phrase of nothing but punctuation: {phrase!r}."
            )
        listed |= forms
    return frozenset(listed)


def pieces(name: str, key: str, entries: object, marks: frozenset[str]) -> frozenset[str]:
    """Pieces of a pattern: as `phrases`, but punctuation and a comma stay, since they are looked for too."""
    listed = frozenset(spaced(fold(piece, marks)) for piece in _spelled_out(name, key, entries))
    if "" in listed:
        raise Misconfigured(f"Locale {name!r}: {key} has an empty entry.")
    return listed


def _spelled_out(name: str, key: str, entries: object) -> Iterable[str]:
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise Misconfigured(f"Locale {name!r}: {key} must be a list of phrases.")
    for entry in entries:
        parts = _ALTERNATIVES.split(entry)  # plain text at even places, alternatives at odd ones
        choices = [part.split("|") if at % 2 else [part] for at, part in enumerate(parts)]
        yield from ("".join(chosen) for chosen in product(*choices))


def text(name: str, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise Misconfigured(f"Locale {name!r}: {key} must be a text.")
    return value


def names(name: str, key: str, value: Any, count: int) -> tuple[str, ...]:
    if (
        not isinstance(value, list)
        or len(set(value)) != count
        or not all(isinstance(one, str) for one in value)
    ):
        raise Misconfigured(f"Locale {name!r}: {key} must be {count} different names.")
    return tuple(value)


def template(name: str, key: str, value: object, fields: frozenset[str]) -> str:
    """A wording that names exactly these fields, plainly: no attributes, no formats."""
    wording = text(name, key, value)
    try:
        parts = list(Formatter().parse(wording))
    except ValueError as cause:
        raise Misconfigured(f"Locale {name!r}: the wording of {key} has a stray brace.") from cause
    named = {field for _, field, _, _ in parts if field is not None}
    plain = not any(form or conversion for _, _, form, conversion in parts)
    if not wording.strip() or named != fields or not plain:
        wanted = ", ".join(sorted(fields)) or "no field"
        raise Misconfigured(f"Locale {name!r}: the wording of {key} must be a text that names {wanted}.")
    return wording
