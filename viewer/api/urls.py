"""The addresses of the HTTP interface."""

from viewer.api import reading, starting
from viewer.api.interface import addresses

__all__ = ["reading", "starting"]
urlpatterns = addresses()
