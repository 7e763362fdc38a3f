"""What has changed in a project's code since the job ran that wrote a checkpoint."""

from dataclasses import dataclass

from django.utils.translation import gettext, ngettext

from viewer.formats import count_text
from viewer.host_requests import ChangedFile, HostAway, ListCodeChanges, ask
from viewer.models import Checkpoint, Project, RecordedCode

MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class CodeChanges:
    """The code that the job recorded, and the files that have changed since.

    ``has_commit``: whether the recorded commit can be run, as the project's repository has it.
    """

    code: RecordedCode
    files: list[ChangedFile]
    has_commit: bool = False

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
    def commit_note(self) -> str:
        """Why running the recorded commit may differ from the recorded run; empty if nothing is known."""
        if self.code.is_dirty:
            return gettext(
                "The code differed from this commit when the run started, so the recorded state cannot be "
                "reproduced exactly."
            )
        if self.code.is_dirty is None:
            return gettext("It is not known whether the code differed from this commit when the run started.")
        return ""

    @property
    def shown(self) -> list[ChangedFile]:
        return self.files[:MAX_SHOWN]

    @property
    def left_out(self) -> int:
        return len(self.files[MAX_SHOWN:])


def code_changes(checkpoint: Checkpoint, project: Project | None) -> CodeChanges | None:
    """Return what has changed in this project since the checkpoint was written.

    The project may be that of another host on which the checkpoint is forked. None if no job of the
    checkpoint's project wrote it, if none of its code was recorded, or if the host is away.
    """
    code = RecordedCode.of(checkpoint, project)
    if code is None or project is None:
        return None
    try:
        found = ask(ListCodeChanges(project.pk, code.pk))
    except HostAway:
        return None
    return CodeChanges(code, found.files, found.has_commit)
