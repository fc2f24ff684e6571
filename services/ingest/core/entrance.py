"""What a channel's way in is: how its requests are authenticated, read and answered. Its table is entrances.py."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from services.ingest.core.events import Parsed
from shared.channels.accounts import Settings
from shared.ids import AccountId, BusinessId
from shared.signing import Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A channel account as its URL names it. `keys` are the secrets that sign its requests, current ones first.

    `homes` are the business's accounts on the channel by the address that payloads name, this one among them: a message for
    any of them may come by this URL, one for any other address is somebody else's.
    """

    id: AccountId
    business: BusinessId
    business_slug: str
    channel: str
    address: str
    keys: tuple[bytes, ...]
    verifies_phones: bool = False
    verify_token: bytes | None = None
    settings: Settings = field(default_factory=Settings)
    own_number: str | None = None
    homes: Mapping[str, AccountId] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A request as it came: raw, for its signature. Header names are in lower case; `url` is how the channel called us."""

    url: str  # LEEWAY_PUBLIC_BASE_URL, raw path and query
    headers: Mapping[bytes, bytes]
    body: bytes
    query: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """One channel's way in. All three functions are pure, and `parse` raises nothing but Malformed."""

    check: Callable[[Post, Account, float], Signature]  # the last: now, in Unix seconds
    parse: Callable[[Post, Account, datetime], Parsed]
    handshake: Callable[[bytes, Account], str | None] | None = (
        None  # a GET's query → the answer; None: refused
    )
    body_bytes_max: int = 256 * 1024
    content_type: bytes = b"text/plain; charset=utf-8"
    answer: bytes = b""  # of a request that was taken
    refusal: bytes | None = None  # of one that was not; None: a sentence that says why
    status_path: bool = False  # statuses come to /hooks/{channel}/{account}/status
