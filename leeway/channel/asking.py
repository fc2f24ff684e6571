"""Secrets from a person: typed unseen, or from the environment; never arguments, which every user of the machine can read."""

import secrets
import sys

import typer
from pydantic import SecretStr

from shared.errors import Misconfigured
from shared.settings import CHANNEL_PREFIX, ChannelSecrets


def ask(name: str, what: str) -> str:
    """The secret of that name in `ChannelSecrets`. Raises Misconfigured for an empty one, and where nobody can be asked."""
    told: SecretStr | None = getattr(ChannelSecrets(), name)
    variable = f"{CHANNEL_PREFIX}{name.upper()}"
    if told is not None:
        given, where = told.get_secret_value(), variable
    elif sys.stdin.isatty():
        given, where = typer.prompt(what, default="", hide_input=True, show_default=False), "It"
    else:
        raise Misconfigured(f"The {what} is needed: set {variable}, or call this on a terminal to be asked.")
    given = given.strip()
    if not given:
        raise Misconfigured(f"The {what} is empty ({variable}); nothing was stored.")
    if not (given.isascii() and given.isprintable() and " " not in given):
        raise Misconfigured(f"{where} holds no {what}: blanks or letters beyond ASCII are in it.")
    return given


def made() -> str:
    """A fresh secret of 32 random bytes, of letters, digits, _ and -: WhatsApp's verify token, Telegram's secret token."""
    return secrets.token_urlsafe(32)
