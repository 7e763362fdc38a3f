"""What model calls cost, in US dollars. Prices come with a package and from a file."""

import hashlib
import logging
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Q

from viewer.models import Job, JobEvent, Location, Run
from viewer.models.rows import update_many, usage_values
from viewer.stores.protocol import ModelCall, ModelUsage, count_of, usage_by_model
from viewer.validation import InvalidInput, content_of

# The prices in a file that override the package's.


MAX_FILE_BYTES = 1024 * 1024
PER = 1_000_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FilePrice:
    """The price of one model, in US dollars for a million tokens."""

    tokens_in: float
    tokens_out: float
    cached: float

    def of(self, tokens_in: int, tokens_out: int, cached: int) -> float:
        """The price of these tokens, where ``cached`` are among ``tokens_in``."""
        uncached = (tokens_in - cached) * self.tokens_in
        return (uncached + cached * self.cached + tokens_out * self.tokens_out) / PER


@dataclass(frozen=True, slots=True)
class PriceFile:
    """The prices of a file by model. ``fault`` says why it cannot be used; ``digest`` changes with it."""

    prices: Mapping[str, FilePrice] = field(default_factory=dict)
    digest: str = ""
    fault: str = ""


NO_FILE = PriceFile()


def read_price_file(path: Path | None) -> PriceFile:
    """The prices of a file, read again whenever it changes. Without a path there are none."""
    if path is None:
        return NO_FILE
    try:
        status = path.stat()
    except OSError as error:
        return _faulty(path, str(error.strerror))
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, changed: int, size: int) -> PriceFile:
    """The prices of a file with this modification time and size."""
    if size > MAX_FILE_BYTES:
        return _faulty(path, f"more than {MAX_FILE_BYTES} bytes")
    try:
        data = content_of(str(path), MAX_FILE_BYTES)
        tables = tomllib.loads(data.decode())
        prices = {model: _price(model, table) for model, table in tables.items()}
    except InvalidInput as error:
        return _faulty(path, f"not {error.wanted}")
    except ValueError as error:
        return _faulty(path, str(error))
    return PriceFile(prices, hashlib.sha256(data).hexdigest())


@lru_cache(maxsize=4)
def _faulty(path: Path, why: str) -> PriceFile:
    """No prices. Cached, so that it is logged once."""
    logger.error("the file of prices %s cannot be used: %s", path, why)
    return PriceFile(fault=why)


def _price(model: str, table: Any) -> FilePrice:
    """The price in a table of the file. Raises ValueError."""
    if not isinstance(table, dict) or not {"input", "output"} <= table.keys():
        raise ValueError(f"[{model}] needs input and output")
    if unknown := table.keys() - {"input", "output", "cached_input"}:
        raise ValueError(f"[{model}] has an unknown key: {sorted(unknown)[0]}")
    values = [table["input"], table["output"], table.get("cached_input", table["input"])]
    for value in values:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= sys.float_info.max:
            raise ValueError(f"[{model}]: a price is a number of at least 0")
    return FilePrice(*map(float, values))


# The price of a model's tokens: from the file of one's own, else from the package ``genai-prices``.
#
# The package holds its prices as data. It is imported when the first price is needed, since that takes most
# of a second and 40 MB.


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

    def cost(self, usage: Iterable[ModelUsage | ModelCall], at: datetime | None = None) -> Cost:
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
    known = (_PROVIDERS.get(prefix, prefix), name) if slash else (None, model)
    try:
        calc_price(Usage(input_tokens=1, output_tokens=1), known[1], provider_id=known[0])
    except (LookupError, ValueError):
        return None
    return known


# Store what runs and jobs cost, whenever their usage or the prices have changed.


# Runs that one import prices. The others follow with the next one.
BATCH = 500


def price_runs(location: Location) -> bool:
    """Store the cost of runs whose usage or prices have changed. Returns whether there were any."""
    prices = current_prices()
    if location.price_digest != prices.digest:
        location.runs.exclude(usage=[]).update(is_priced=False)
        Location.objects.filter(pk=location.pk).update(price_digest=prices.digest)
        location.price_digest = prices.digest
    due = list(location.runs.filter(is_priced=False).order_by()[:BATCH])
    costs = [prices.cost(usage_of(run), run.last_at) for run in due]
    rows = [(cost.amount, cost.unpriced_calls, True, run.pk) for run, cost in zip(due, costs, strict=True)]
    update_many(Run, ("cost", "unpriced_calls", "is_priced"), rows)
    return bool(due)


def price_job(job: Job) -> None:
    """Store what the calls of a job used, by model, and what they cost."""
    events = JobEvent.objects.filter(job=job).filter(Q(kind="model_completed") | Q(kind="cache_warmed"))
    usage = usage_by_model(call_in(data) for data in events.values_list("data", flat=True))
    cost = current_prices().cost(usage, job.started_at)
    names = dict(zip(Job.USAGE_COLUMNS, usage_values([list(one) for one in usage]), strict=True))
    # The total is counted while the job runs, since limits depend on it.
    del names["tokens"]
    names |= {"cost": cost.amount, "unpriced_calls": cost.unpriced_calls}
    Job.objects.filter(pk=job.pk).update(**names)
    for name, value in names.items():
        setattr(job, name, value)


def usage_of(row: Run | Job) -> list[ModelUsage]:
    """The stored usage of a run or a job, by model."""
    return [ModelUsage(*used) for used in row.usage]


def call_in(data: dict[str, object]) -> ModelCall:
    """The call of a job's event."""
    tokens, tokens_in, tokens_out, cached = (
        count_of(data.get(name)) for name in ("tokens", "tokens_in", "tokens_out", "cached")
    )
    return ModelCall(tokens, tokens_in, tokens_out, cached, str(data.get("model") or ""))
