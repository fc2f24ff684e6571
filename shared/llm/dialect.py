"""What one endpoint and model takes beside model, messages and tools, and what is left when it refuses some of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from shared.llm.port import Request, ToolSpec
from shared.llm.schemas import SchemaForm, flat, strict

TEMPERATURE = 0.2  # left out where a model refuses it
ROOM_TOKENS = 2_000  # for thinking that can't be switched off: it counts against the limit on the output
REASONING = frozenset({"reasoning", "reasoning_effort", "thinking"})  # what keeps thinking off, or short

_WORD = re.compile(r"[a-z_]+")
_REFUSING = re.compile(
    r"support|unknown|unrecogni|unexpected|permitted|extra|invalid|cannot find|not allowed|deprecated|only",
    re.IGNORECASE,
)


class Api(StrEnum):
    """The two interfaces that the openai client speaks, by the path under the base URL."""

    CHAT = "/chat/completions"
    RESPONSES = "/responses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The parameters of one endpoint and model."""

    api: Api = Api.CHAT
    limit: str = "max_tokens"
    other_limit: str | None = "max_completion_tokens"  # what the limit is called where `limit` is refused
    room: int = 0  # tokens for thinking, on top of the request's limit
    fixed: Mapping[str, Any] = field(default_factory=lambda: {"temperature": TEMPERATURE})
    beside_tools: Mapping[str, Any] = field(default_factory=dict)  # sent only where tools are
    schemas: SchemaForm = SchemaForm.AS_IS
    cache_key: str | None = None  # the parameter for Request.cache_key, where there is one
    customer: str | None = None  # the same for Request.customer

    def parameters(self, request: Request) -> dict[str, Any]:
        """The parameters of one request."""
        given: dict[str, Any] = {**self.fixed, self.limit: request.max_output_tokens + self.room}
        if request.tools:
            given |= self.beside_tools
        if self.cache_key and request.cache_key:
            given[self.cache_key] = request.cache_key
        if self.customer and request.customer:
            given[self.customer] = request.customer
        return given

    def schema(self, tool: ToolSpec) -> tuple[Mapping[str, Any], bool | None]:
        """The tool's schema as it goes out, and whether it is strict; None where the word is not known."""
        match self.schemas:
            case SchemaForm.STRICT:
                form = strict(tool.parameters)
                return (tool.parameters, False) if form is None else (form, True)
            case SchemaForm.FLAT:
                return flat(tool.parameters), None
            case SchemaForm.AS_IS:
                return tool.parameters, None

    def without(self, parameter: str) -> "Dialect | None":
        """The dialect for a model that refuses `parameter`; None if that is none of ours to leave out.

        The limit on the output is not left out but called by its other name. A strict schema that is refused
        goes out as it is. A model that can't be told not to think gets room for it.
        """
        name = (_WORD.match(parameter) or [""])[0]  # of reasoning.effort, or tools[0].function.parameters
        room = self.room or (ROOM_TOKENS if name in REASONING else 0)
        if name in self.fixed:
            return replace(self, fixed=_less(self.fixed, name), room=room)
        if name in self.beside_tools:
            return replace(self, beside_tools=_less(self.beside_tools, name))
        if name == "tools" and self.schemas is SchemaForm.STRICT:
            return replace(self, schemas=SchemaForm.AS_IS)
        if name and name == self.cache_key:
            return replace(self, cache_key=None)
        if name and name == self.customer:
            return replace(self, customer=None)
        if name == self.limit and self.other_limit:
            return replace(self, limit=self.other_limit, other_limit=None)
        return None

    def named_in(self, message: str) -> str:
        """The parameter that a refusal speaks of, for providers that name it in a sentence only; or nothing."""
        if not _REFUSING.search(message):
            return ""
        ours = {*self.fixed, *self.beside_tools, self.cache_key, self.customer, self.limit}
        return next((word for word in _WORD.findall(message) if word in ours), "")


def _less(parameters: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in parameters.items() if key != name}
