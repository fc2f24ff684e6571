"""Secrets from a person: typed unseen, or from the environment; never arguments, which every user of the machine can read."""

import secrets
import sys
from typing import Final

import typer
from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.errors import Misconfigured

PREFIX: Final = "LEEWAY_CHANNEL_"


class Told(BaseSettings):
    """What the environment says, for who has no terminal."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    app_secret: SecretStr | None = None
    access_token: SecretStr | None = None
    auth_token: SecretStr | None = None
    api_key_secret: SecretStr | None = None
    bot_token: SecretStr | None = None


def ask(name: str, what: str) -> str:
    """The secret of that name in `Told`. Raises Misconfigured for an empty one, and where nobody can be asked."""
    told: SecretStr | None = getattr(Told(), name)
    variable = f"{PREFIX}{name.upper()}"
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
