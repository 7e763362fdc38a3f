"""What model calls cost, in US dollars. Prices come with a package and from a file, not from the network."""

from viewer.prices.price_list import PriceList, current_prices
from viewer.prices.pricing import price_job, price_runs

__all__ = ["PriceList", "current_prices", "price_job", "price_runs"]
