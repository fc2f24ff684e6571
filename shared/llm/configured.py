"""From ``LLM=…`` to a model: which provider, which name, where, and with whose key."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import SecretStr

from shared.clock import Clock, SystemClock
from shared.errors import Misconfigured
from shared.llm.breaker import GuardedModel
from shared.llm.mock import MODEL as MOCK_MODEL
from shared.llm.mock import PROVIDER as MOCK
from shared.llm.mock import MockModel
from shared.llm.port import Model
from shared.llm.profiles import COMPATIBLE, PROFILES, Profile
from shared.media import MEDIUM, TYPES
from shared.messages import PartKind
from shared.packs import Pack
from shared.settings import Settings

_WORDS = [word for word in PROFILES if word != COMPATIBLE.word]
ACCEPTED = f"LLM accepts mock, {', '.join(f'{word}:MODEL' for word in _WORDS)} or {COMPATIBLE.word}:MODEL@URL"
NEEDS_KEY = frozenset(_WORDS)  # a server of one's own may do without

_PROVIDER = re.compile(r"[a-z][a-z-]{0,30}")
_AT_URL = re.compile(r"@(?=https?://)")  # a model's own name may hold an @


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What ``LLM=…`` asks for. `base_url` only where it is part of the choice."""

    word: str
    model: str
    base_url: str | None = None


def parse(spec: str) -> Choice:
    """The choice that `spec` spells. Raises Misconfigured with one line that names what is accepted.

    The value itself is not repeated beyond its first word: a key pasted into it must not reach a log.
    """
    word, colon, rest = spec.strip().partition(":")
    if word == MOCK and not colon:
        return Choice(word=MOCK, model=MOCK_MODEL)
    if word == COMPATIBLE.word:
        return _compatible(rest)
    if word in PROFILES and _is_name(rest):
        return Choice(word=word, model=rest)
    known = word == MOCK or word in PROFILES
    said = f", not {word}:…" if colon and not known and _PROVIDER.fullmatch(word) else ""
    raise Misconfigured(f"{ACCEPTED}{said}.")


async def configured_model(
    settings: Settings,
    packs: Mapping[str, Pack],
    *,
    clock: Clock | None = None,
    base_url: str | None = None,
) -> Model:
    """The installation's model, warmed up, without a call over the network. Close it at the end.

    A provider that is away is not asked again and again (see shared.llm.breaker). `base_url` takes the place of
    the provider's own address: for a gateway, or a server of a test.
    Raises Misconfigured, naming the variable, for a choice that can't be understood or has no key.
    """
    choice = parse(settings.llm)
    if choice.word == MOCK:
        return MockModel(packs)
    from shared.llm.endpoint import EndpointModel  # noqa: PLC0415  half a second and 30 MB that the mock does without

    profile = PROFILES[choice.word]
    model = EndpointModel(
        profile,
        choice.model,
        api_key=_key(settings, profile, choice),
        slots=settings.slots,
        base_url=base_url or choice.base_url,
        tariffs=settings.prices,
    )
    await model.warm_up()
    return GuardedModel(model, clock=clock or SystemClock())


def media_types(settings: Settings) -> frozenset[str]:
    """The types of recordings and pictures that the model is given. Raises Misconfigured for what it is known not to take."""
    choice = parse(settings.llm)
    if choice.word == MOCK:
        takes = dict(TYPES)
    else:
        profile = PROFILES[choice.word]
        pictures = TYPES[PartKind.IMAGE] if profile.sees else frozenset()
        takes = {PartKind.AUDIO: profile.hears, PartKind.IMAGE: pictures}
    named = [kind for kind, medium in MEDIUM.items() if medium in settings.media]
    if refused := [MEDIUM[kind].value for kind in named if not takes[kind]]:
        raise Misconfigured(
            f"LEEWAY_MEDIA names {' and '.join(refused)}, which LLM={choice.word}:… does not take; "
            "leave it out, or choose another model."
        )
    return frozenset().union(*(takes[kind] for kind in named))


def _key(settings: Settings, profile: Profile, choice: Choice) -> SecretStr | None:
    key: SecretStr | None = getattr(settings, profile.key.lower())
    if choice.word not in NEEDS_KEY and (key is None or not key.get_secret_value().strip()):
        return None
    return _usable_key(key, variable=profile.key, choice=choice)


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
    return Choice(word=COMPATIBLE.word, model=model, base_url=urls[0])


def _is_name(model: str) -> bool:
    return 0 < len(model) <= 200 and model.isascii() and model.isprintable() and " " not in model


def _usable_key(key: SecretStr | None, *, variable: str, choice: Choice) -> SecretStr:
    text = key.get_secret_value().strip() if key else ""
    if not text:
        raise Misconfigured(
            f"LLM={choice.word}:{choice.model} needs {variable}; set it in the environment or in .env."
        )
    if not text.isascii() or not text.isprintable() or " " in text:
        raise Misconfigured(f"{variable} holds characters that no key has; copy it again.")
    return SecretStr(text)
