"""The prices in a file that override the package's."""

import hashlib
import logging
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from viewer.validation import InvalidInput, content_of

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
        if not is_number or not math.isfinite(value) or value < 0:
            raise ValueError(f"[{model}]: a price is a number of at least 0")
    return FilePrice(*map(float, values))
