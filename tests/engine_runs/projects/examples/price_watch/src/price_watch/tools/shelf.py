"""A tool that is made with the name of a shop."""

from typing import Any

from crewai.tools import BaseTool


class ShelfTool(BaseTool):
    name: str = "shelf"
    description: str = "Reads the price of a product in one shop."
    shop: str = ""

    def __init__(self, shop: str, **settings: Any) -> None:
        super().__init__(**{**settings, "shop": shop})

    def _run(self, product: str) -> str:
        return f"{product} in shop {self.shop}: 12"
