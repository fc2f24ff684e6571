"""From ``LLM=…`` to a model: which provider, which name, where, and with whose key."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import SecretStr

from shared.errors import Misconfigured
from shared.llm.mock import MODEL as MOCK_MODEL
from shared.llm.mock import PROVIDER as MOCK
from shared.llm.mock import MockModel
from shared.llm.port import Model
from shared.packs import Pack
from shared.settings import Settings

OPENAI = "openai"
COMPATIBLE = "openai-compatible"
ACCEPTED = "LLM accepts mock, openai:MODEL or openai-compatible:MODEL@URL"

_PROVIDER = re.compile(r"[a-z][a-z-]{0,30}")
_AT_URL = re.compile(r"@(?=https?://)")  # a model's own name may hold an @


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What ``LLM=…`` asks for. `base_url` only where it is part of the choice."""

    provider: str
    model: str
    base_url: str | None = None


def parse(spec: str) -> Choice:
    """The choice that `spec` spells. Raises Misconfigured with one line that names what is accepted.

    The value itself is not repeated beyond its first word: a key pasted into it must not reach a log.
    """
    provider, colon, rest = spec.strip().partition(":")
    if provider == MOCK and not colon:
        return Choice(provider=MOCK, model=MOCK_MODEL)
    if provider == OPENAI and _is_name(rest):
        return Choice(provider=OPENAI, model=rest)
    if provider == COMPATIBLE:
        return _compatible(rest)
    known = provider in (MOCK, OPENAI)
    said = f", not {provider}:…" if colon and not known and _PROVIDER.fullmatch(provider) else ""
    raise Misconfigured(f"{ACCEPTED}{said}.")


async def configured_model(settings: Settings, packs: Mapping[str, Pack]) -> Model:
    """The installation's model, warmed up, without a call over the network. Close it at the end.

    Raises Misconfigured, naming the variable, for a choice that can't be understood or has no key.
    """
    choice = parse(settings.llm)
    if choice.provider == MOCK:
        return MockModel(packs)
    from shared.llm.chat import ChatModel  # noqa: PLC0415  half a second and 30 MB that the mock does without

    if choice.base_url is None:
        key = _usable_key(settings.openai_api_key, variable="OPENAI_API_KEY", choice=choice)
        model = ChatModel.openai(choice.model, api_key=key, slots=settings.slots)
    else:
        model = ChatModel.compatible(
            choice.model,
            base_url=choice.base_url,
            slots=settings.slots,
            api_key=settings.openai_compatible_api_key,
        )
    await model.warm_up()
    return model


def _compatible(rest: str) -> Choice:
    model, *urls = _AT_URL.split(rest)
    if len(urls) != 1 or not _is_name(model):
        raise Misconfigured(f"{ACCEPTED}; the URL starts with http:// or https:// and usually ends in /v1.")
    try:
        parts = urlsplit(urls[0])
        usable = bool(parts.hostname) and parts.port != 0 and not any(c.isspace() for c in urls[0])
    except ValueError:
        usable = False
    if not usable:
        raise Misconfigured(
            "LLM=openai-compatible:MODEL@URL: the URL needs a host, and a port from 1 to 65535 if any."
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise Misconfigured(
            "LLM=openai-compatible:MODEL@URL: the URL must have no user, password, query or fragment in it."
        )
    return Choice(provider=COMPATIBLE, model=model, base_url=urls[0])


def _is_name(model: str) -> bool:
    return 0 < len(model) <= 200 and model.isascii() and model.isprintable() and " " not in model


def _usable_key(key: SecretStr | None, *, variable: str, choice: Choice) -> SecretStr:
    text = key.get_secret_value().strip() if key else ""
    if not text:
        raise Misconfigured(
            f"LLM={choice.provider}:{choice.model} needs {variable}; set it in the environment or in .env."
        )
    if not text.isascii() or not text.isprintable() or " " in text:
        raise Misconfigured(f"{variable} holds characters that no key has; copy it again.")
    return SecretStr(text)
