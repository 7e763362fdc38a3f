"""Scores checkpoints: calls a function of the project with the contents of each, in a job."""

from uuid import UUID, uuid4

from django.contrib.auth.models import AbstractBaseUser

from viewer.host_requests import JobRefused
from viewer.launching.enqueue import start_job
from viewer.launching.options import SCORE, parse_function
from viewer.launching.refusals import Code, LaunchRefused, Refusal, copy_refusals, project_refusals
from viewer.launching.requests import LaunchOptions
from viewer.launching.values import InvalidValue
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Job, Project
from viewer.records.runner_requests import request_for_score
from viewer.records.sweep_scores import SCORE_SECONDS


def function_refusals(function: str) -> list[Refusal]:
    """The refusals of a text that is not ``module:function``."""
    try:
        parse_function(function)
    except InvalidValue as invalid:
        return [Refusal(Code.SCORE, str(invalid), "score-function", str(SCORE.label))]
    return []


def score(
    checkpoint: Checkpoint,
    function: str,
    project: Project | None = None,
    requested_by: AbstractBaseUser | None = None,
    key: UUID | None = None,
) -> Job:
    """Queue the call of ``module:function`` with the checkpoint's contents. Raises LaunchRefused.

    Returns the job that an earlier call stored with the same key, if any. ``project`` defaults to that of the
    checkpoint's location.
    """
    project = project or checkpoint.location.project
    if refusals := [*copy_refusals(checkpoint), *project_refusals(project), *function_refusals(function)]:
        raise LaunchRefused(refusals)
    try:
        return start_job(
            checkpoint,
            project,
            Job.Kind.SCORE,
            checkpoint.recorded_branch,
            request_for_score(checkpoint, function),
            [],
            requested_by=requested_by,
            idempotency_key=key or uuid4(),
            options=LaunchOptions(limits={"seconds": SCORE_SECONDS}),
        )
    except JobRefused as refused:
        raise LaunchRefused([Refusal(Code.START, translate(refused))]) from refused
