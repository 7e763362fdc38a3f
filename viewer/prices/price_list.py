"""The price of a model's tokens: from the file of one's own, else from the package ``genai-prices``.

The package holds its prices as data. It is imported when the first price is needed, since that takes most of
a second and 40 MB.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from importlib.metadata import version

from django.conf import settings

from viewer.prices.price_file import PriceFile, read_price_file
from viewer.stores.model_calls import ModelUsage

# How LiteLLM names providers before a model, where the package names them differently.
_PROVIDERS = {"gemini": "google", "vertex_ai": "google", "bedrock": "aws", "together_ai": "together"}


@dataclass(frozen=True, slots=True)
class Cost:
    """What some calls cost, in US dollars; None if no call has a known price.

    ``unpriced_calls`` are those without a known price, which ``amount`` leaves out.
    """

    amount: float | None
    unpriced_calls: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        known = [amount for amount in (self.amount, other.amount) if amount is not None]
        return Cost(sum(known) if known else None, self.unpriced_calls + other.unpriced_calls)


UNKNOWN = Cost(None)


@dataclass(frozen=True, slots=True)
class PriceList:
    """All prices that are known at present."""

    file: PriceFile

    @property
    def digest(self) -> str:
        """A text that changes whenever a price may have changed."""
        return f"{version('genai-prices')}:{self.file.digest[:40]}"

    @property
    def fault(self) -> str:
        """Why the file of prices cannot be used; empty if it can."""
        return self.file.fault

    def price(
        self, model: str, tokens_in: int, tokens_out: int, cached: int = 0, at: datetime | None = None
    ) -> float | None:
        """The price of these tokens in US dollars, as it was at a time; None if it is not known.

        ``cached`` is the part of ``tokens_in`` that was read from a prompt cache.
        """
        if not model or not tokens_in + tokens_out:
            return None
        if (price := self.file.prices.get(model)) is not None:
            return price.of(tokens_in, tokens_out, cached)
        return _published(model, tokens_in, tokens_out, cached, at)

    def cost(self, usage: Iterable[ModelUsage], at: datetime | None = None) -> Cost:
        """What calls cost, added up by model."""
        total = UNKNOWN
        for used in usage:
            amount = self.price(used.model, used.tokens_in, used.tokens_out, used.cached, at)
            # Calls that used nothing have no price to be missed.
            total += Cost(amount, used.calls if amount is None and used.tokens else 0)
        return total


def current_prices() -> PriceList:
    """The present prices."""
    return PriceList(read_price_file(settings.PRICES_FILE))


def _published(model: str, tokens_in: int, tokens_out: int, cached: int, at: datetime | None) -> float | None:
    """The price that the package has for these tokens; None if it does not know the model."""
    from genai_prices import Usage, calc_price

    known = _known(model)
    if known is None:
        return None
    provider, name = known
    usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out, cache_read_tokens=cached)
    try:
        found = calc_price(usage, name, provider_id=provider, genai_request_timestamp=at)
    except (LookupError, ValueError):
        return None
    return float(found.total_price)


@lru_cache(maxsize=500)
def _known(model: str) -> tuple[str | None, str] | None:
    """The provider and name by which the package knows a model, such as ``openai/gpt-4o``; None if none."""
    from genai_prices import Usage, calc_price

    prefix, slash, name = model.partition("/")
    tried = [(_PROVIDERS.get(prefix, prefix), name)] if slash else [(None, model)]
    for provider, name in tried:
        try:
            calc_price(Usage(input_tokens=1, output_tokens=1), name, provider_id=provider)
        except (LookupError, ValueError):
            continue
        return provider, name
    return None
