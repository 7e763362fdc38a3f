"""Creates and deletes the demo's rows in the database."""

import io
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")
# Everything that the demo creates in its folder.
MADE = {".env", "newsroom", "support", "logs", "draft.md", "finished", "notice.txt"}
ENTRY_POINTS = ["newsroom.crew:Newsroom", "newsroom.flow:DigestFlow", "newsroom.interviewer:interviewer"]


def import_store(path: Path) -> None:
    """Import the checkpoints of a store."""
    django.setup()
    from django.core.management import call_command

    call_command("import_checkpoints", str(path), stdout=io.StringIO())


def record_project(
    stores: Path,
    project: Path,
    python: Path,
    environment_file: Path,
    entry_points: Sequence[str] = ENTRY_POINTS,
) -> None:
    """Record a project of the demo. It is confirmed, because a person ran ``make demo``."""
    from viewer.models import Location, Project
    from viewer.records.accounts import owner

    values = {"interpreter": str(python), "entry_points": list(entry_points)}
    recorded, _ = Project.objects.update_or_create(
        folder=str(project), environment_file=str(environment_file), defaults=values
    )
    recorded.confirm(owner())
    Location.objects.filter(path__startswith=f"{stores}/").update(project=recorded)


def clean_up(folder: Path) -> None:
    """Delete the demo's runs, stores and rows.

    Exit if one of its jobs is running, or if the folder is not the demo's.
    """
    if not folder.exists():
        return
    refuse_anothers(folder)
    django.setup()
    from viewer.data_folder import prepare_data_folder
    from viewer.models import Job, Location, Project

    prepare_data_folder()
    jobs = Job.objects.filter(location__path__startswith=f"{folder}/")
    if jobs.under_way().exists():
        sys.exit("A run of the demo is under way: wait for it, or cancel it in the browser.")
    (folder / "finished").unlink(missing_ok=True)
    for job in jobs:
        shutil.rmtree(job.folder, ignore_errors=True)
    Location.objects.filter(path__startswith=f"{folder}/").delete()
    Project.objects.filter(environment_file__startswith=f"{folder}/").delete()
    shutil.rmtree(folder)


def refuse_anothers(folder: Path) -> None:
    """Exit if the folder holds files that the demo did not create."""
    others = sorted(path.name for path in folder.iterdir() if path.name not in MADE)
    if folder.is_symlink() or others:
        names = f": it holds {', '.join(others[:3])}" if others else ""
        what_to_do = "Nothing was removed: choose another folder with DATA_DIR=…"
        sys.exit(f"{folder} is not the demo's own{names}. {what_to_do}")
