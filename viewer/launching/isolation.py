"""Changes how the runs of a project are isolated."""

from django.db import transaction

from viewer.host_requests import ListOpenFolders, ask
from viewer.models import Project
from viewer.records.audit import Action, Audited, record
from viewer.records.isolation import Isolation


def change_isolation(project: Project, isolation: Isolation) -> None:
    """Store what a person asks for, and what is open to the project's runs now: a run may change that.

    Raises HostRefusal, such as HostAway: only the project's host knows it.
    """
    data = isolation.as_data()
    if isolation.is_sandboxed:
        found = ask(ListOpenFolders(project.pk, list(isolation.read), list(isolation.write)))
        data["trusted"] = sorted([*found.read, *found.write])
        data["trusted_write"] = found.write
    with transaction.atomic():
        project.change_isolation(data)
        record(Action.CHANGED, Audited.PROJECT, project.pk, f"isolation: {isolation.launcher}")
