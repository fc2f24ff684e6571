"""What is wrong with a channel account, as far as it can be told without calling its provider."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from leeway.accounts import missing_secrets
from leeway.channel.reaching import unreachable
from leeway.terminal import lasting
from shared.channels.accounts import Secrets, Telegram, read_settings
from shared.errors import Misconfigured
from shared.secrets import vault_of
from shared.settings import Settings

LOOKED_AGO_MAX_S: Final = 300.0


def account_troubles(row: Mapping[str, Any], settings: Settings) -> Iterator[str]:
    """Each with what to do. A key that opens no secrets is told once, elsewhere."""
    name, named = f"{row['channel']} {row['address']}", f"{row['address']} --channel {row['channel']}"
    if row["state"] != "on":
        why = row["disabled_why"] or "its credentials were refused"
        yield f"{name} is off, {why}; mend that, then: leeway channel enable {named}"
    try:
        stored = read_settings(row["channel"], row["settings"])
    except Misconfigured:
        yield f"{name} has settings that this version can't read; add it anew"
        return
    polling = isinstance(stored, Telegram) and stored.polling
    if (why := unreachable(settings, row["channel"], polling=polling)) is not None:
        yield f"{name} gets no messages: {why}"
    if polling and row["state"] == "on" and (row["looked_ago_s"] or 0) > LOOKED_AGO_MAX_S:
        ago = lasting(row["looked_ago_s"])
        yield f"{name} was last asked for messages {ago} ago; does ingest run, and what do its logs say?"
    if row["secrets"] is None:
        return  # made by hand, for a test
    try:
        secrets = Secrets.model_validate(vault_of(settings).open(row["secrets"]))
    except Misconfigured:
        return
    if missing := missing_secrets(row["channel"], secrets, polling=polling):
        yield f"{name} lacks {', '.join(missing)}; give it with: leeway channel rotate {named}"
