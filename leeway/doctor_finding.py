"""What `leeway doctor` has found: one line each."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Health(StrEnum):
    OK = "ok"
    NOTE = "note"  # worth knowing, nothing is broken
    FIX = "FIX"


STYLES: Final = {Health.OK: "green", Health.NOTE: "yellow", Health.FIX: "bold red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line: what was looked at, how it is, and what to do where something is wrong."""

    health: Health
    what: str
    said: str


def ok(what: str, said: str) -> Finding:
    return Finding(health=Health.OK, what=what, said=said)


def note(what: str, said: str) -> Finding:
    return Finding(health=Health.NOTE, what=what, said=said)


def fix(what: str, said: str) -> Finding:
    return Finding(health=Health.FIX, what=what, said=said)
