"""What an endpoint of Chat Completions takes beside model, messages and tools: it differs, and changes.

Facts about providers come from their own pages of November 2026.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shared.llm.port import Request

TEMPERATURE = 0.2  # left out where a model refuses it

_TAKES_EFFORT = re.compile(r"\bgpt-(5\.\d|[6-9])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The parameters of one endpoint and model."""

    limit: str = "max_tokens"
    other_limit: str | None = "max_completion_tokens"  # what the limit is called where `limit` is refused
    fixed: Mapping[str, Any] = field(default_factory=lambda: {"temperature": TEMPERATURE})
    cache_key: str | None = None  # the parameter for Request.cache_key, where there is one
    customer: str | None = None  # the same for Request.customer

    def parameters(self, request: Request) -> dict[str, Any]:
        """The parameters of one request."""
        given: dict[str, Any] = {**self.fixed, self.limit: request.max_output_tokens}
        if self.cache_key and request.cache_key:
            given[self.cache_key] = request.cache_key
        if self.customer and request.customer:
            given[self.customer] = request.customer
        return given

    def without(self, parameter: str) -> "Dialect | None":
        """The dialect for a model that refuses `parameter`; None if that is none of ours to leave out.

        The limit on the output is not left out but called by its other name.
        """
        if parameter in self.fixed:
            return replace(self, fixed={key: value for key, value in self.fixed.items() if key != parameter})
        if parameter == self.cache_key:
            return replace(self, cache_key=None)
        if parameter == self.customer:
            return replace(self, customer=None)
        if parameter == self.limit and self.other_limit:
            return replace(self, limit=self.other_limit, other_limit=None)
        return None


def openai_dialect(model: str) -> Dialect:
    """OpenAI's own.

    From gpt-5.6 on, Chat Completions takes tools only with reasoning off; gpt-4 refuses the parameter.
    """
    fixed: dict[str, Any] = {"store": False, "temperature": TEMPERATURE}
    if _TAKES_EFFORT.search(model):
        fixed["reasoning_effort"] = "none"
    return Dialect(
        limit="max_completion_tokens",
        other_limit="max_tokens",
        fixed=fixed,
        cache_key="prompt_cache_key",
        customer="safety_identifier",
    )
