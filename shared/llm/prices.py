"""What a call cost: by ``LEEWAY_PRICES``, else by the list inside the genai-prices package (no network).

Unknown is None, never 0.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from importlib.metadata import version

from genai_prices import Usage as Billed
from genai_prices import calc_price

from shared.llm.port import Usage
from shared.llm.tariffs import Tariff

OWN = "LEEWAY_PRICES"
LIST = f"genai-prices {version('genai-prices')}"

_DATE = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|latest)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The prices of one configured model, and of whatever its provider answers with instead.

    `listed` is the provider's name in the list, None for one that it doesn't have: a self-hosted model may cost
    nothing, or a GPU. The list guesses at providers it is not told, so it is told.
    """

    listed: str | None
    asked: str
    own: Mapping[str, Tariff] = field(default_factory=dict)

    def price(self, usage: Usage, *, model: str, at: datetime | None = None) -> Decimal | None:
        """US dollars for `usage` of the model that answered, at the price of `at` (now). None if unknown."""
        if not usage.told:
            return None
        tariff = self._own(model)
        return tariff.of(usage) if tariff else self._by_list(usage, model=model, at=at)

    def source(self, *, model: str) -> str | None:
        """Where the price of a model comes from, with its version; None if there is none."""
        if self._own(model):
            return OWN
        return LIST if self._by_list(Usage(input=1), model=model, at=None) is not None else None

    def _own(self, model: str) -> Tariff | None:
        """By the name that answered, also without its date. A server of one's own may call itself anything."""
        names = [model, _DATE.sub("", model), *((self.asked,) if self.listed is None else ())]
        return next((self.own[name] for name in names if name in self.own), None)

    def _by_list(self, usage: Usage, *, model: str, at: datetime | None) -> Decimal | None:
        if self.listed is None or not model:
            return None
        cached = min(usage.cached, usage.input)
        billed = Billed(
            input_tokens=usage.input,
            cache_read_tokens=cached,
            cache_write_tokens=min(usage.written, usage.input - cached),
            output_tokens=usage.output,
        )
        name = model.removeprefix("models/")  # Gemini's full names
        try:
            return calc_price(billed, name, provider_id=self.listed, genai_request_timestamp=at).total_price
        except LookupError:
            return None
