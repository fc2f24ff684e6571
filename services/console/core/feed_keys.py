"""Who may read a feed: whoever has its URL, whose token nobody makes without the installation's key. Pure."""

import base64
import hmac
import re
from collections.abc import Iterable
from typing import Final

from shared.ids import BusinessId

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PURPOSE: Final = b"leeway: tokens of feeds, version 1"


class FeedKeys:
    """Makes and tests tokens. Of several secret keys the first makes them and all open, so that keys can be renewed."""

    def __init__(self, secret_keys: Iterable[str]) -> None:
        self._keys = [hmac.digest(one.encode(), _PURPOSE, "sha256") for one in secret_keys]
        assert self._keys, "there is a secret key"

    def token(self, business: BusinessId, name: str) -> str:
        """43 letters, digits, - and _."""
        return _token(self._keys[0], business, name)

    def opens(self, token: str, business: BusinessId, name: str) -> bool:
        """Whether the token is this feed's, in a time that tells nothing about how nearly it is."""
        given = token.encode(errors="replace")
        matches = [hmac.compare_digest(_token(key, business, name).encode(), given) for key in self._keys]
        return any(matches)


def _token(key: bytes, business: BusinessId, name: str) -> str:
    signed = hmac.digest(key, f"{int(business)}/{name}".encode(), "sha256")
    return base64.urlsafe_b64encode(signed).decode().rstrip("=")
