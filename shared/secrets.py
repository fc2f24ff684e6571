"""Secrets of channel accounts, encrypted at rest with a key from the environment."""

from collections.abc import Mapping

import msgspec
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from shared.errors import Misconfigured
from shared.settings import Settings


class Vault:
    """Seals and opens secrets. `keys` is LEEWAY_SECRET_KEY: Fernet keys by comma, the first seals, all open (rotation)."""

    def __init__(self, keys: str) -> None:
        try:
            self._fernet = MultiFernet([Fernet(key.strip()) for key in keys.split(",") if key.strip()])
        except ValueError as error:
            raise Misconfigured(
                "LEEWAY_SECRET_KEY must be a Fernet key (32 bytes, URL-safe base64); make one with: leeway doctor --new-key"
            ) from error

    def seal(self, secrets: Mapping[str, object]) -> bytes:
        return self._fernet.encrypt(msgspec.json.encode(dict(secrets)))

    def open(self, sealed: bytes | None) -> Mapping[str, object]:
        """The secrets; none for an account without. Raises Misconfigured when the key is not the one they were sealed with."""
        if sealed is None:
            return {}
        try:
            opened: dict[str, object] = msgspec.json.decode(self._fernet.decrypt(sealed))
        except InvalidToken as error:
            raise Misconfigured(
                "LEEWAY_SECRET_KEY is not the key that this database's channel secrets were sealed with."
            ) from error
        return opened


def new_key() -> str:
    """A fresh key for LEEWAY_SECRET_KEY."""
    return Fernet.generate_key().decode()


def vault_of(settings: Settings) -> Vault:
    """The installation's vault. Raises Misconfigured when LEEWAY_SECRET_KEY is not set."""
    if settings.secret_key is None:
        raise Misconfigured("LEEWAY_SECRET_KEY is not set; make one with: leeway doctor --new-key")
    return Vault(settings.secret_key.get_secret_value())
