"""The addresses of the HTTP interface."""

from viewer.api import commands, reading, starting
from viewer.api.interface import addresses

__all__ = ["commands", "reading", "starting"]
urlpatterns = addresses()
