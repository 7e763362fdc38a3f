"""What has changed in a project's code since the job ran that wrote a checkpoint."""

from dataclasses import dataclass

from django.utils.translation import gettext, ngettext

from viewer.formats import count_text
from viewer.host_requests import ChangedFile, HostAway, ListCodeChanges, ask
from viewer.models import Checkpoint, Job, Project, RecordedCode

MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class CodeChanges:
    """The code that the job recorded, and the files that have changed since."""

    code: RecordedCode
    files: list[ChangedFile]

    @property
    def sentence(self) -> str:
        """How many files have changed."""
        if not self.files and self.code.is_complete:
            return gettext("The code has not changed since this ran.")
        if not self.files:
            return gettext("The recorded files have not changed since this ran. The project has more.")
        text = ngettext(
            "%(count)s file changed since this ran.",
            "%(count)s files changed since this ran.",
            len(self.files),
        )
        return text % {"count": count_text(len(self.files))}

    @property
    def shown(self) -> list[ChangedFile]:
        return self.files[:MAX_SHOWN]

    @property
    def left_out(self) -> int:
        return len(self.files[MAX_SHOWN:])


def code_changes(checkpoint: Checkpoint, project: Project | None) -> CodeChanges | None:
    """Return what has changed in this project since the checkpoint was written.

    None if no job of this project wrote it, if none of its code was recorded, or if the host is away.
    """
    code = recorded_code(checkpoint, project)
    if code is None or project is None:
        return None
    try:
        return CodeChanges(code, ask(ListCodeChanges(project.pk, code.pk)))
    except HostAway:
        return None


def recorded_code(checkpoint: Checkpoint, project: Project | None) -> RecordedCode | None:
    """Return the code that the job recorded which wrote this checkpoint with this project."""
    if project is None:
        return None
    jobs = Job.objects.filter(run=checkpoint.run_id, project=project, code__isnull=False)
    wrote = jobs.filter(events__kind="checkpoint", events__data__id=checkpoint.checkpoint_id)
    job = wrote.select_related("code").order_by("-started_at").first()
    return job.code if job else None
