"""The viewer as a Django application."""

from django.apps import AppConfig


class ViewerConfig(AppConfig):
    """The viewer application."""

    name = "viewer"
