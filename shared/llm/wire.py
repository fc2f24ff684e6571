"""What both interfaces say in the same way: names, tokens, problems. No I/O, and no trust in what comes in."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from shared.llm.port import UNTOLD, FailureKind, ModelFailure, Usage, UserMedia

TOKENS_MAX = 2**31 - 1  # what the metering table's columns hold
NAME_CHARS_MAX = 200
DETAIL_CHARS_MAX = 200

_THOUGHT = re.compile(r"\A.*</(think|thinking|thought)>|\A\s*<(think|thinking|thought)>.*", re.DOTALL)


class NoAnswerError(Exception):
    """A 200 without an answer in it; the text says what is missing."""

    def __init__(self, missing: str, kind: FailureKind = FailureKind.BAD_ANSWER) -> None:
        super().__init__(missing)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Where an interface keeps its numbers in `usage`."""

    input: str
    output: str
    input_details: str
    output_details: str


CHAT_NAMES = Names(
    input="prompt_tokens",
    output="completion_tokens",
    input_details="prompt_tokens_details",
    output_details="completion_tokens_details",
)
RESPONSES_NAMES = Names(
    input="input_tokens",
    output="output_tokens",
    input_details="input_tokens_details",
    output_details="output_tokens_details",
)


def read_usage(usage: object, names: Names = CHAT_NAMES) -> Usage:
    """Tokens as told, in whichever of the known places; what is absurd counts as 0, and nothing at all as untold.

    Cached tokens are in the details, at DeepSeek in `prompt_cache_hit_tokens`. Gemini leaves its thinking out of
    `completion_tokens`, so the output is what the total has beyond the prompt, if more.
    """
    fields = mapping(usage)
    if not any(_is_count(fields.get(name)) for name in (names.input, names.output)):
        return UNTOLD
    details = mapping(fields.get(names.input_details))
    read = _tokens(fields.get(names.input))
    cached = min(
        _tokens(details.get("cached_tokens")) or _tokens(fields.get("prompt_cache_hit_tokens")), read
    )
    output = max(_tokens(fields.get(names.output)), _tokens(fields.get("total_tokens")) - read)
    reasoning = _tokens(mapping(fields.get(names.output_details)).get("reasoning_tokens"))
    return Usage(
        input=read,
        cached=cached,
        output=output,
        reasoning=min(reasoning, output),
        written=min(_tokens(details.get("cache_write_tokens")), read - cached),
    )


def read_model(payload: Mapping[str, Any], *, asked: str) -> str:
    """The name of the model that answered, which need not be the one that was asked."""
    told = payload.get("model")
    return told[:NAME_CHARS_MAX] if isinstance(told, str) and told else asked


def read_text(content: object) -> str | None:
    """The text for the customer in a content field: a string, or a list of parts. None if there is none.

    What the model thought is never part of it, whether in parts of its own or between tags.
    """
    if isinstance(content, list):
        parts = [mapping(part) for part in content]
        texts = [part.get("text") for part in parts if part.get("type", "text") in ("text", "output_text")]
        content = "".join(text for text in texts if isinstance(text, str))
    if not isinstance(content, str):
        return None
    said = _THOUGHT.sub("", content, count=1)
    return said.lstrip() if said.strip() else None


def read_arguments(arguments: object) -> str:
    """A call's arguments as text: none are an empty object, and some local servers forget to make them text."""
    if isinstance(arguments, dict):
        arguments = msgspec.json.encode(arguments).decode()
    if not isinstance(arguments, str | None):
        raise NoAnswerError("a tool call whose arguments are no text")
    return arguments or "{}"


def read_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise NoAnswerError("a tool call without a name")
    return name


def read_id(told: object) -> str:
    """The id that a call came with, or an empty one."""
    return told if isinstance(told, str) and len(told) <= NAME_CHARS_MAX else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What a provider says is wrong. All of it its own words, for logs."""

    codes: tuple[str, ...] = ()
    parameter: str = ""
    message: str = ""

    def __str__(self) -> str:
        said = [*self.codes, f"parameter {self.parameter}" if self.parameter else "", self.message]
        return ", ".join(part for part in said if part)


def read_problem(body: bytes) -> Problem:
    """The error in a body: an object, a list of them (Gemini), a bare text, or none that can be read."""
    try:
        said = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return Problem()
    if isinstance(said, list) and said:
        said = said[0]
    return problem_of(mapping(said).get("error", said))


def problem_of(error: object) -> Problem:
    """The same of a decoded error."""
    if isinstance(error, str):
        return Problem(message=_one_line(error))
    fields = mapping(error)
    codes = (_one_line(fields.get(name)) for name in ("code", "type", "status"))
    return Problem(
        codes=tuple(dict.fromkeys(code for code in codes if code)),
        parameter=_one_line(fields.get("param")),
        message=_one_line(fields.get("message")),
    )


def read_payload(body: bytes) -> dict[str, Any]:
    """The object in the body of a 200. Raises NoAnswerError for anything else, an error in disguise included."""
    if rb"\u0000" in body:
        raise NoAnswerError("a NUL character, which Postgres can't keep")
    try:
        payload = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        kind = "HTML" if body.lstrip()[:1] == b"<" else "something else"
        raise NoAnswerError(f"{kind} instead of JSON") from None
    if isinstance(payload, list):
        raise NoAnswerError(f"a list instead of an answer: {read_problem(body)}")
    if not isinstance(payload, dict):
        raise NoAnswerError("no JSON object")
    return payload


def no_answer(why: NoAnswerError, *, usage: Usage, model: str) -> ModelFailure:
    """The failure to raise, outside the `except`: what was received holds customers' texts."""
    return ModelFailure(why.kind, str(why), usage=usage, model=model)


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _tokens(value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return max(0, min(value, TOKENS_MAX))


def _one_line(value: object) -> str:
    """A provider's word for a log: one printable line, cut."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    line = " ".join(str(value)[: 4 * DETAIL_CHARS_MAX].split())
    return "".join(char if char.isprintable() else "�" for char in line)[:DETAIL_CHARS_MAX]


_FORMATS: Mapping[str, str] = {"audio/mpeg": "mp3", "audio/mp4": "m4a"}


def audio_out(message: UserMedia) -> dict[str, str]:
    """A recording as both interfaces spell it: base64, and its format by the usual file ending."""
    ending = _FORMATS.get(message.mime, message.mime.partition("/")[2])
    return {"data": base64.b64encode(message.content).decode(), "format": ending}


def data_url(message: UserMedia) -> str:
    """A picture as a data URL (RFC 2397)."""
    return f"data:{message.mime};base64,{base64.b64encode(message.content).decode()}"
