"""The real settings, with a database of PostgreSQL, which is named by libpq's environment variables."""

import os

from checkpoint_site.settings import *  # noqa: F403
from checkpoint_site.settings import INSTALLED_APPS as OWN_APPS

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["PGDATABASE"],
        "CONN_MAX_AGE": None,
    }
}
IS_DATABASE_SHARED = True
INSTALLED_APPS = [*OWN_APPS, "procrastinate.contrib.django"]
