"""A temporary data folder, with Django set up on it, and a logged-in client of its pages."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.test import Client

    from viewer.models import Location

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def temporary_data_folder(settings: str = "checkpoint_site.settings") -> Iterator[Path]:
    """Yield a temporary folder, with Django set up on a data folder inside it."""
    with tempfile.TemporaryDirectory(prefix="forkline-quality-") as folder:
        os.environ |= {"DATA_DIR": f"{folder}/data", "DJANGO_SETTINGS_MODULE": settings}
        import django

        django.setup()
        from viewer.data_folder import prepare_data_folder

        prepare_data_folder()
        yield Path(folder)


def made_location(folder: Path) -> "Location":
    """Create a confirmed project of this folder, and an empty location in it. Needs Django to be set up."""
    from django.utils import timezone

    from viewer.models import Location, Project

    (folder / "checkpoints").mkdir()
    project = Project.objects.create(
        folder=str(folder), interpreter=sys.executable, confirmed_at=timezone.now()
    )
    return Location.objects.create(path=str(folder / "checkpoints"), store_kind="json", project=project)


def logged_in(*, is_superuser: bool = True) -> "Client":
    """Return a client of a user who may run, or only read. Needs Django to be set up."""
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    from viewer.models import Level, Role

    client = Client(headers={"host": f"{settings.ALLOWED_HOSTS[0]}:{settings.PORT}"})
    user, is_new = User.objects.get_or_create(username="bench", is_superuser=is_superuser)
    if is_new:
        Role.objects.create(user=user, level=Level.VIEWER)
    client.force_login(user)
    return client
