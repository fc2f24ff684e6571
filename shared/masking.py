"""Takes out of texts what must not stand in logs: numbers and addresses of people, and secrets. Pure.

Nobody can tell a customer's words by their form, so a field that holds such words is hidden whole, by its name.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final

SECRET_CHARS_MIN = 6  # a shorter one would be found in ordinary words
OWN_NAME = "leeway"  # the password of the URLs by default, and in half of all lines besides
DEEP_MAX = 6  # how far nested values are followed
ITEMS_MAX = 100  # of one value that holds others
TEXT_CHARS_MAX = 8_192  # of one text; more is cut off
PHONE_DIGITS_MAX = 15  # of E.164

HIDDEN = "[hidden]"
_CUT_OFF = "[cut off]"

# Fields that may hold words of people, or say who they are.
_PERSONAL_FIELDS = frozenset(
    {"answer", "arguments", "body", "caption", "content", "customer_name", "display_name", "draft", "email"}
    | {"first_name", "from", "full_name", "last_name", "message_text", "note", "payload", "phone", "prompt", "raw"}
    | {"recipient", "reply", "sender", "summary", "text", "texts", "to", "transcript", "user_id", "username", "words"}
)  # fmt: skip
_SECRET_FIELDS = frozenset(
    {"api_key", "apikey", "auth", "authorization", "cookie", "credentials", "key", "passwd", "password", "secret"}
    | {"secrets", "set-cookie", "signature", "token", "x-api-key"}
)  # fmt: skip
_SECRET_FIELD_ENDINGS = (
    "_api_key",
    "_auth",
    "_key",
    "_password",
    "_secret",
    "_secrets",
    "_token",
    "-key",
    "-secret",
    "-token",
)

_CREDENTIAL: Final = re.compile(
    r"""
    (?P<url>(?<=://)[^\s/@:]*:[^\s"'<>]+(?=@))
  | (?P<scheme>(?i:\b(?:bearer|basic)\ +)[A-Za-z0-9._~+/=-]{6,})
  | (?P<key>\bsk-[A-Za-z0-9_-]{6,} | \bEAA[A-Za-z0-9_-]{6,} | \bwhsec_[A-Za-z0-9+/=_-]{6,} | \bAIza[A-Za-z0-9_-]{20,}
      | \beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_.-]{6,} | \bgAAAA[A-Za-z0-9_=-]{20,}
      | (?<![A-Za-z0-9_-])[A-Za-z0-9_-]{43}=(?![A-Za-z0-9=]))
  | (?P<bot>(?:(?<=bot)|\b)\d{5,}:[A-Za-z0-9_-]{20,})
  | (?P<named>(?i:(?<![A-Za-z0-9])(?:access_token|api[_-]?key|auth_token|authorization|bot_token|client_secret|password|passwd
      |secret|secret_key|token|verify_token|app_secret))["']?\s*[=:]\s*["']?(?!\[)(?:(?i:bearer|basic)\ +)?[^\s"'&,;})\]]+)
  | (?P<message>\bwamid\.[A-Za-z0-9+/=_-]+)
    """,
    re.VERBOSE,
)
# Nobody's, and full of digits: ids, digests, times, addresses of machines, measures and counts.
_HARMLESS: Final = re.compile(
    r"""(
    \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b
  | \b(?=[0-9]*[a-f])(?:[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})\b
  | (?<![\w+.-])(?:19|20|21)\d\d-[01]\d-[0-3]\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:\ ?Z|[+-]\d\d:?\d\d)?)?(?![\w-])
  | (?<![\d+.-])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?![\d.])
  | (?<![\d+.()/-])(?:0|[1-9]\d*)\.\d+(?![\d.]*\d)
  | (?<![\d+.()/-])[1-9]\d*(?=\ (?:bytes|characters|ms|s|seconds|tokens|rows|messages|conversations|tickets)\b)
    )""",
    re.VERBOSE,
)
# Before what is harmless is set aside: a name may look like a number or a day.
_EMAIL: Final = re.compile(
    r"(?<![\w.!#$%&'*+/=?^`{|}~-])[\w.!#$%&'*+/=?^`{|}~-]+(?:[@＠]|%40)[\w-]+(?:\.[\w-]+)+"
)
# Also dashes of all kinds, marks that nobody sees, and what a URL makes of the usual ones.
_BETWEEN = (
    r"(?:[\s().\-/\u2010-\u2015\u2212\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|%2[089DEFdef])"
)
_RUN = rf"\+?\d(?:{_BETWEEN}{{0,3}}\d){{6,}}"
_PERSONAL: Final = re.compile(
    rf"""
    (?P<iban>\b[A-Z]{{2}}\d{{2}}(?:\ ?[A-Z0-9]{{4}}){{2,7}}(?:\ ?[A-Z0-9]{{1,4}})?\b)
  | (?P<digits>(?:(?<!\w)|(?<=%[0-9A-Fa-f]{{2}})){_RUN}(?!\w))
    """,
    re.VERBOSE,
)
_DIGITS: Final = re.compile(_RUN)


class Masker:
    """Masks by form, by the name of a field, and by value: `secrets` are what this process knows."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        told = {one for one in secrets if len(one) >= SECRET_CHARS_MIN and one != OWN_NAME}
        known = sorted(told, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        """The text without numbers and addresses of people, and without secrets."""
        if len(text) > TEXT_CHARS_MAX:
            text = text[:TEXT_CHARS_MAX] + _CUT_OFF
        if self._known is not None:
            text = self._known.sub("[secret]", text)
        pieces = _HARMLESS.split(_EMAIL.sub("[email]", _CREDENTIAL.sub(_credential, text)))
        pieces[::2] = [_PERSONAL.sub(_personal, piece) for piece in pieces[::2]]
        return "".join(pieces)

    def field(self, name: str, value: object) -> Any:
        """What a field of that name may show, as plain JSON."""
        return HIDDEN if value is not None and _hides(name) else self._value(value, DEEP_MAX)

    def _value(self, value: object, deep: int) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return self.text(value)
        if deep and isinstance(value, Mapping):
            pairs = [(self.text(str(key)), one) for key, one in list(value.items())[:ITEMS_MAX]]
            return {key: HIDDEN if _hides(key) else self._value(one, deep - 1) for key, one in pairs}
        if (
            deep
            and isinstance(value, Sequence | frozenset | set)
            and not isinstance(value, bytes | bytearray)
        ):
            return [self._value(one, deep - 1) for one in list(value)[:ITEMS_MAX]]
        if type(value).__module__ in _PLAIN:
            return self.text(str(value))
        return f"[{type(value).__name__}]"  # what it holds, nobody knows here


_PLAIN = frozenset({"uuid", "datetime", "decimal", "pathlib", "zoneinfo", "ipaddress"})


def _hides(name: str) -> bool:
    lower = name.lower()
    return lower in _PERSONAL_FIELDS or lower in _SECRET_FIELDS or lower.endswith(_SECRET_FIELD_ENDINGS)


def _credential(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "named":
            return re.split("[=:]", found.group(), maxsplit=1)[0] + "=[secret]"
        case "scheme":
            return found.group().split(" ", maxsplit=1)[0] + " [secret]"
        case "message":
            return "wamid.[hidden]"
        case _:
            return "[secret]"


def _personal(found: re.Match[str]) -> str:
    if found.lastgroup == "iban" and _is_iban(found.group()):
        return "[iban]"
    return _DIGITS.sub(_digits, found.group())


def _digits(found: re.Match[str]) -> str:
    """A run of digits that may be somebody's: by how many there are, and by their check digit."""
    text = found.group()
    digits = re.sub(r"%[0-9A-Fa-f]{2}|\D", "", text)
    count = len(digits)
    bare = digits == text
    if 13 <= count <= 19 and _is_card(digits):
        return "[card]"
    if count == 13 and _is_cnp(digits):
        return "[cnp]"
    if bare and _is_timestamp(digits):
        return text
    return text if bare and count > PHONE_DIGITS_MAX else "[phone]"


def _is_timestamp(digits: str) -> bool:
    """Seconds or milliseconds since 1970, of 2017 to 2030. Telephone numbers with 1 for their country have 11 digits."""
    return len(digits) in (10, 13) and digits[0] == "1" and "5" <= digits[1] <= "8"


def _is_card(digits: str) -> bool:
    """By Luhn's check digit."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (1 + place % 2)
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def _is_cnp(digits: str) -> bool:
    """A Romanian personal number: sex and century, date of birth, and the check digit of the law."""
    try:
        date(2000, int(digits[3:5]), int(digits[5:7]))
    except ValueError:
        return False
    total = sum(int(a) * int(b) for a, b in zip(digits, "279146358279", strict=False)) % 11
    return digits[0] != "0" and int(digits[12]) == (1 if total == 10 else total)


def _is_iban(text: str) -> bool:
    """By its check digits (ISO 13616)."""
    letters = text.replace(" ", "")
    turned = letters[4:] + letters[:4]
    return 15 <= len(letters) <= 34 and int("".join(str(int(one, 36)) for one in turned)) % 97 == 1
