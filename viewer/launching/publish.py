"""Publishes a fork: copies the checkpoints in its scratch store unchanged to its location."""

from dataclasses import dataclass

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.entry_points import RootKind
from viewer.engines.protocol import kind_of
from viewer.launching.options import PUBLISH_INTO, SCRATCH
from viewer.launching.refusals import CheckedLaunch, Code, LaunchRefused, Refusal, project_refusals
from viewer.launching.requests import PublishRequest
from viewer.launching.start import earlier_job, queued
from viewer.messages.message import UserMessage
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Job, JobEvent
from viewer.records.bodies import stored_contents
from viewer.records.lineage.tree import free_name
from viewer.records.runner_requests import request_for_publication

NEW_THREAD, THREAD = PUBLISH_INTO.choices
MAX_THREAD_NAME = 200


@dataclass(slots=True, kw_only=True)
class PublishPreview(CheckedLaunch):
    """``count`` is the number of checkpoints, ``published`` the runs that already have them."""

    request: PublishRequest
    kind: RootKind
    count: int
    published: list[str]

    @property
    def key(self) -> str:
        """The key of the run that will have the checkpoints."""
        checkpoint = self.request.checkpoint
        return checkpoint.run.key if self.request.into == THREAD else new_thread_of(self.request)


def new_thread_of(request: PublishRequest) -> str:
    """The name of the new thread: the typed one, else the id of the fork's job."""
    return request.thread.strip() or request.checkpoint.scratch_job


def proposed_thread(checkpoint: Checkpoint) -> str:
    """A name for the new thread that no run of the location has: that of the branch."""
    keys = checkpoint.location.runs.filter(key__startswith=checkpoint.branch).values_list("key", flat=True)
    return free_name(checkpoint.branch, set(keys))


def preview_publish(request: PublishRequest) -> PublishPreview:
    """What the publication would write, and why it cannot start."""
    checkpoint = request.checkpoint
    contents = stored_contents(checkpoint)
    kind = kind_of(engine_of(contents), contents.kind)
    rows = _rows(checkpoint)
    preview = PublishPreview(
        request=request, kind=kind, count=rows.count(), published=published_as(checkpoint)
    )
    preview.checks = project_refusals(request.project, request.options)
    if message := _refusal(checkpoint, kind, request.into) or _refused_name(request):
        preview.checks.append(Refusal(Code.PUBLISH, message))
    return preview


def _rows(checkpoint: Checkpoint) -> QuerySet[Checkpoint]:
    prefix = f"{Checkpoint.SCRATCH}{checkpoint.scratch_job}/"
    return Checkpoint.objects.filter(location=checkpoint.location, source_key__startswith=prefix)


def _refusal(checkpoint: Checkpoint, kind: RootKind, into: str) -> str:
    """Why the fork of this checkpoint cannot be written there; empty if it can."""
    job = Job.objects.filter(pk=checkpoint.scratch_job).first() if checkpoint.is_scratch else None
    if not checkpoint.is_scratch or into not in dict(kind.fork_targets) or into == SCRATCH:
        return _("Only a draft, which is a fork in Forkline only, can be published.")
    if checkpoint.location.is_only_read:
        return translate(UserMessage("saver.no_runs"))
    if checkpoint.location.replaced_by:
        return _("The location was replaced after it was added, so nothing is written to it.")
    if job is not None and not job.has_ended:
        return _("The fork is still running. Publish it once it has ended.")
    first = _rows(checkpoint).filter(run=checkpoint.run).order_by("checkpoint_id").first()
    if into == THREAD and first is not None and checkpoint.run.head > first.checkpoint_id:
        return _("The thread has continued since the fork began: the fork would not become its head.")
    return ""


def _refused_name(request: PublishRequest) -> str:
    """Why the new thread cannot have the typed name; empty if it can."""
    name = request.thread.strip()
    if request.into == THREAD or not name:
        return ""
    if len(name) > MAX_THREAD_NAME or not name.isprintable():
        return _("A name has at most %(most)d characters, all of which can be printed.") % {
            "most": MAX_THREAD_NAME
        }
    location = request.checkpoint.location
    if name not in published_as(request.checkpoint) and location.runs.filter(key=name).exists():
        return _("The location has %(name)s already. Choose another name.") % {"name": name}
    return ""


def published_as(checkpoint: Checkpoint) -> list[str]:
    """The keys of the runs that the fork of a scratch checkpoint was published as."""
    if not checkpoint.is_scratch:
        return []
    published = JobEvent.objects.filter(kind="published", job_id=checkpoint.scratch_job)
    prefix = f"{Checkpoint.SCRATCH}{checkpoint.scratch_job}/"
    later = JobEvent.objects.filter(
        kind="published", job__kind=Job.Kind.PUBLISH, job__checkpoint__source_key__startswith=prefix
    )
    return sorted({str(event.data.get("thread")) for event in [*published, *later]})


def publish(preview: PublishPreview) -> Job:
    """Queue the publication, once per request key. Raises LaunchRefused."""
    request = preview.request
    job_request = request_for_publication(request.checkpoint, request.into, new_thread_of(request))
    if earlier := earlier_job(request, job_request):
        return earlier
    if preview.checks:
        raise LaunchRefused(preview.checks)
    return queued(request, Job.Kind.PUBLISH, job_request, [])
