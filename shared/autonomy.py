"""The dials: a business's mode, and a tool's level by risk. Pure tables; the gate reads them, nobody goes round them."""

from enum import StrEnum
from typing import Final


class Mode(StrEnum):
    """What becomes of a reply."""

    OFF = "off"
    SUGGEST = "suggest"
    AUTO = "auto"


class Risk(StrEnum):
    """What a wrong call costs."""

    READ = "read"
    WRITE = "write"
    IRREVERSIBLE = "irreversible"


class Ruling(StrEnum):
    """What the level alone says to a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Asked(StrEnum):
    """Who is asked, where a level asks."""

    CUSTOMER = "customer"
    OPERATOR = "operator"
    BOTH = "both"  # the customer first


DEFAULT_LEVEL: Final = 2

_STRICTNESS: Final = {Mode.OFF: 0, Mode.SUGGEST: 1, Mode.AUTO: 2}

_RULINGS: Final[dict[Risk, tuple[Ruling, Ruling, Ruling, Ruling, Ruling]]] = {
    Risk.READ: (Ruling.ALLOW, Ruling.ALLOW, Ruling.ALLOW, Ruling.ALLOW, Ruling.ALLOW),
    Risk.WRITE: (Ruling.DENY, Ruling.DENY, Ruling.ASK, Ruling.ALLOW, Ruling.ALLOW),
    Risk.IRREVERSIBLE: (Ruling.DENY, Ruling.DENY, Ruling.ASK, Ruling.ASK, Ruling.ALLOW),
}


def strictest(*modes: Mode | None) -> Mode:
    """The strictest of the modes that are set (off < suggest < auto); suggest when none is."""
    return min(
        (mode for mode in modes if mode is not None), key=_STRICTNESS.__getitem__, default=Mode.SUGGEST
    )


def decide(level: object, risk: Risk | None) -> Ruling:
    """What a level says to a risk: a tool without a class counts as irreversible, an unreadable level as deny."""
    if not isinstance(level, int) or isinstance(level, bool) or not 0 <= level <= 4:
        return Ruling.DENY
    return _RULINGS[risk or Risk.IRREVERSIBLE][level]
