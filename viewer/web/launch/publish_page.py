"""The page on which a person publishes a fork."""

from collections.abc import Sequence
from dataclasses import dataclass

from django import forms
from django.utils.translation import gettext_lazy as _

from viewer.launching.options import NEW_THREAD_NAME, PUBLISH_INTO, SCRATCH
from viewer.launching.publish import NEW_THREAD, PublishPreview, preview_publish, proposed_thread, publish
from viewer.launching.requests import LaunchOptions, PublishRequest
from viewer.models import Checkpoint, Job
from viewer.web.fields import ChoiceField, OptionField, valid_values
from viewer.web.launch.page import LaunchPage
from viewer.web.launch.prefilled import Submission


class PublishForm(forms.Form):
    """Where a fork is published, under which name, and that a person agreed to it."""

    into = ChoiceField(PUBLISH_INTO, "into")
    thread = OptionField(NEW_THREAD_NAME, "thread")
    waits_for_host = forms.BooleanField(required=False)
    agreed = forms.CharField(
        label=_("What is written"),
        error_messages={"required": _("Confirm what is written, and press the button again.")},
    )


@dataclass(kw_only=True)
class PublishPage(LaunchPage[PublishPreview, Job]):
    """The page with the preview of its request."""

    form: PublishForm
    preview: PublishPreview

    @property
    def forms(self) -> Sequence[forms.Form]:
        return (self.form,)

    @property
    def request(self) -> PublishRequest:
        return self.preview.request

    @property
    def targets(self) -> list[tuple[str, str]]:
        """The threads that it can be written to, each with its label."""
        return [one for one in self.preview.kind.fork_targets if one[0] != SCRATCH]

    @property
    def is_same_run(self) -> bool:
        """Whether the thread that was forked gets the checkpoints."""
        return self.preview.key == self.request.checkpoint.run.key

    def launch(self) -> Job:
        return publish(self.preview)


def publish_page(checkpoint: Checkpoint, submission: Submission, into: str) -> PublishPage:
    """The page in its initial state for the target that a link names, or with the submitted values."""
    form = PublishForm(submission.data)
    values = {"into": into, "thread": proposed_thread(checkpoint)}
    if form.is_bound:
        values = valid_values(form)
    request = PublishRequest(
        checkpoint=checkpoint,
        into=values.get("into") or NEW_THREAD,
        thread=values.get("thread") or "",
        project=checkpoint.location.project,
        options=LaunchOptions(waits_for_host=bool(values.get("waits_for_host"))),
        key=submission.key,
        requested_by=submission.user,
    )
    return PublishPage(**submission.page_values, form=form, preview=preview_publish(request))
