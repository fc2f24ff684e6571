"""What every parser needs: JSON that may hold anything, texts that Postgres can hold, times that can be believed."""

import json
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError

from services.ingest.core.events import Malformed
from shared.text import storable

AHEAD_MAX = timedelta(seconds=60)
ID_CHARS_MAX = 256
NAME_CHARS_MAX = 128
LOCALE_CHARS_MAX = 16
WORDS_CHARS_MAX = 1024  # that describe a part of a message
TEXT_CHARS_MAX = 65_536

_decode = msgspec.json.Decoder().decode


def parse_json(body: bytes) -> Any:
    """The JSON in the body. Lone surrogates are let through, to become U+FFFD; anything else wrong is Malformed."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(body.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the body is not JSON: {error}") from error


def explain(error: ValidationError) -> str:
    """Where and what the first problem is, in one line, without the sender's values."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(str(part) for part in first['loc']) or 'body'}: {first['msg']}"


def believable(stated: datetime | None, *, now: datetime) -> datetime:
    """The channel's time of a message; ours when it states none, one from the future, or one before messaging began."""
    if stated is None:
        return now
    if stated.tzinfo is None:
        stated = stated.replace(tzinfo=UTC)
    if stated > now + AHEAD_MAX or stated.year < 2000:
        return now
    return stated.astimezone(UTC)


def clean(text: str | None, limit: int = TEXT_CHARS_MAX) -> str | None:
    """A text as it can be stored, cut to a limit."""
    return None if text is None else storable(text[:limit])


_read_time = TypeAdapter(datetime).validate_python


def _time_or_none(value: object) -> datetime | None:
    try:
        return _read_time(value)
    except (ValidationError, OverflowError):
        return None


Time = Annotated[datetime | None, BeforeValidator(_time_or_none)]
Id = Annotated[str, Field(min_length=1, max_length=ID_CHARS_MAX)]


class Loose(BaseModel):
    """A part of a request: unknown fields are nobody's business, since channels add some every month."""

    model_config = {"extra": "ignore", "frozen": True}
