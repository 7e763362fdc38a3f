"""A user's settings for the appearance and notifications of pages."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy as _


class ReaderSettings(models.Model):
    """The settings of one user. A user without a row has the defaults."""

    class Theme(models.TextChoices):
        SYSTEM = "system", _("As the system")
        LIGHT = "light", _("Light")
        DARK = "dark", _("Dark")

    class TimeZone(models.TextChoices):
        SERVER = "server", _("Time zone of the server")
        LOCAL = "local", _("Time zone of your browser")
        UTC = "utc", _("UTC")

    class Clock(models.TextChoices):
        HOURS_24 = "24", _("24 hours")
        HOURS_12 = "12", _("12 hours")

    class Density(models.TextChoices):
        COMFORTABLE = "comfortable", _("Comfortable")
        COMPACT = "compact", _("Compact")

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="reader_settings"
    )
    theme = models.CharField(max_length=20, choices=Theme, default=Theme.SYSTEM)
    time_zone = models.CharField(max_length=20, choices=TimeZone, default=TimeZone.SERVER)
    clock = models.CharField(max_length=20, choices=Clock, default=Clock.HOURS_24)
    density = models.CharField(max_length=20, choices=Density, default=Density.COMFORTABLE)
    # A code of LANGUAGES; empty for the browser's language.
    language = models.CharField(max_length=20, blank=True, default="")
    # Whether an open page shows a desktop notification when its job ends or asks.
    notifies = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.user_id}: {self.theme}"


def settings_of(user: Any) -> ReaderSettings:
    """Return the settings of a user; the defaults, not stored, if there are none."""
    if not user.is_authenticated:
        return ReaderSettings()
    # Django caches the result on the user, so each request queries once.
    try:
        found: ReaderSettings = user.reader_settings
    except ReaderSettings.DoesNotExist:
        return ReaderSettings(user=user)
    return found


def chosen_language(user: Any) -> str:
    """Return the code of the language that a user has chosen; empty for the browser's."""
    language = settings_of(user).language
    return language if language in dict(settings.LANGUAGES) else ""


def settings_context(request: HttpRequest) -> dict[str, Any]:
    """Return the settings of the user, which are only read where a template uses them."""
    return {
        "reader_settings": SimpleLazyObject(lambda: settings_of(request.user)),
        "server_zone": settings.TIME_ZONE,
    }
