"""The providers, one row each, and the models that want to be asked in a way of their own.

Facts from the providers' own pages of November 2026. A parameter that a model refuses all the same is left out
at once and from then on (see Dialect.without), so that a row that has aged costs one call, not a conversation.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.llm.dialect import ROOM_TOKENS, TEMPERATURE, Api, Dialect
from shared.llm.schemas import SchemaForm
from shared.media import TYPES
from shared.messages import PartKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """How the models whose names match are asked."""

    names: str  # an expression for the whole name
    effort: str | None = None  # of reasoning; None: the model knows no such word
    temperature: bool = True
    room: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A provider. What must be echoed back (thought signatures, reasoning) is in every answer's `raw`."""

    word: str  # in LLM=word:MODEL
    provider: str  # in metrics and rows
    base_url: str
    key: str  # the variable with its key
    api: Api = Api.CHAT
    listed: str | None = None  # its name in genai-prices
    limit: tuple[str, str | None] = ("max_tokens", "max_completion_tokens")  # and its other name
    fixed: Mapping[str, Any] = field(default_factory=dict)
    beside_tools: Mapping[str, Any] = field(default_factory=dict)
    schemas: SchemaForm = SchemaForm.AS_IS
    cache_key: str | None = None
    customer: str | None = None
    hears: frozenset[str] = frozenset()  # types of recordings, as its page on audio lists them
    sees: bool = True  # JPEG, PNG and WebP
    models: Sequence[Models] = (Models(names=".*"),)  # the first that matches

    def dialect(self, model: str) -> Dialect:
        """How `model` is asked."""
        row = next((row for row in self.models if re.fullmatch(row.names, model)), Models(names=".*"))
        fixed = dict(self.fixed)
        if row.temperature:
            fixed["temperature"] = TEMPERATURE
        if row.effort:
            fixed |= _effort(row.effort, self.api)
        limit, other_limit = self.limit
        return Dialect(
            api=self.api,
            limit=limit,
            other_limit=other_limit,
            room=row.room,
            fixed=fixed,
            beside_tools=self.beside_tools,
            schemas=self.schemas,
            cache_key=self.cache_key,
            customer=self.customer,
        )


def _effort(effort: str, api: Api) -> dict[str, Any]:
    if api is Api.CHAT:
        return {"reasoning_effort": effort}
    # Nothing is stored at the provider, so what it thought has to come back in a form that can be sent again.
    return {"reasoning": {"effort": effort}, "include": ["reasoning.encrypted_content"]}


_OPENAI_MODELS = (
    Models(names=r".*gpt-\d.*-(pro|codex).*", effort="medium", temperature=False, room=ROOM_TOKENS),
    Models(names=r".*gpt-(5\.\d|[6-9]).*", effort="none"),  # reason by default, and refuse a temperature then
    Models(names=r".*gpt-5\b.*", effort="minimal", temperature=False, room=ROOM_TOKENS),
    Models(names=r"o\d.*", effort="low", temperature=False, room=ROOM_TOKENS),
    Models(names=r".*"),  # gpt-4 and older: reasoning is no word there
)

_MP3_AND_WAV = frozenset({"audio/mpeg", "audio/wav"})  # all that OpenAI's input_audio names

OPENAI = Profile(
    word="openai",
    provider="openai",
    base_url="https://api.openai.com/v1",
    key="OPENAI_API_KEY",
    api=Api.RESPONSES,
    listed="openai",
    limit=("max_output_tokens", None),
    fixed={"store": False},
    beside_tools={"parallel_tool_calls": False},  # strictness is promised for one call at a time
    schemas=SchemaForm.STRICT,
    cache_key="prompt_cache_key",
    customer="safety_identifier",
    hears=_MP3_AND_WAV,
    models=_OPENAI_MODELS,
)

OPENAI_CHAT = Profile(
    word="openai-chat",
    provider="openai",
    base_url=OPENAI.base_url,
    key=OPENAI.key,
    listed="openai",
    limit=("max_completion_tokens", "max_tokens"),
    fixed={"store": False},
    beside_tools={"parallel_tool_calls": False},
    schemas=SchemaForm.STRICT,
    cache_key="prompt_cache_key",
    customer="safety_identifier",
    hears=_MP3_AND_WAV,
    models=_OPENAI_MODELS,  # from gpt-5.6 on, tools are taken here only with reasoning off
)

GEMINI = Profile(
    word="gemini",
    provider="gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta/openai/",
    key="GEMINI_API_KEY",
    listed="google",
    schemas=SchemaForm.FLAT,
    hears=_MP3_AND_WAV | {"audio/ogg", "audio/aac"},
    models=(
        Models(names=r"gemini-2\.5-flash.*", effort="none"),
        Models(names=r"gemini-2\.5.*", effort="low", room=ROOM_TOKENS),
        Models(names=r"gemini-[12]\b.*"),
        # From 3 on thinking stays on, "minimal" is not taken everywhere, and Google advises against a temperature
        Models(names=r"gemini-\d.*", effort="low", temperature=False, room=ROOM_TOKENS),
        Models(names=r".*"),
    ),
)

DEEPSEEK = Profile(
    word="deepseek",
    provider="deepseek",
    base_url="https://api.deepseek.com",
    key="DEEPSEEK_API_KEY",
    listed="deepseek",
    limit=("max_tokens", None),
    sees=False,
    fixed={"thinking": {"type": "disabled"}},  # on by default, and it would ignore the temperature
)

ANTHROPIC = Profile(
    word="anthropic",
    provider="anthropic",
    base_url="https://api.anthropic.com/v1/",
    key="ANTHROPIC_API_KEY",
    listed="anthropic",  # no caching in this interface: everything is read at the full price
)

COMPATIBLE = Profile(
    word="openai-compatible",
    provider="openai-compatible",
    base_url="",  # part of LLM=openai-compatible:MODEL@URL
    key="OPENAI_COMPATIBLE_API_KEY",
    hears=TYPES[PartKind.AUDIO],  # whatever its server takes
)

PROFILES: Mapping[str, Profile] = {
    profile.word: profile for profile in (OPENAI, OPENAI_CHAT, GEMINI, DEEPSEEK, ANTHROPIC, COMPATIBLE)
}
"""By the word in ``LLM=…``."""
