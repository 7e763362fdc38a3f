"""What a fork or resume would do, and why it may not start. Nothing is started here."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.launching.preview.findings import CheckedLaunch, read_findings
from viewer.launching.preview.plan_preview import PlanPreview, preview_plan
from viewer.launching.preview.redacted_parts import digest_of, find_redacted_parts
from viewer.launching.refusals import (
    Code,
    Refusal,
    checkpoint_refusals,
    project_refusals,
    settings_refusals,
    text_refusals,
)
from viewer.launching.requests.requests import ACCEPT_ALL, CheckpointRequest, ForkRequest
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Job


@dataclass(slots=True, kw_only=True)
class LaunchPreview(CheckedLaunch):
    """The preview of a request, whose edits include those that ``again_stale`` adds."""

    request: ForkRequest
    plan: PlanPreview
    redacted_parts: list[str] = field(default_factory=list)

    @property
    def needs_preflight(self) -> bool:
        """Whether a preflight check is useful: no other refusal is final."""
        passable = {Code.BRANCH, Code.REDACTED_PARTS}
        return self.request.project is not None and all(one.code in passable for one in self.checks)

    @property
    def plan_digest(self) -> str:
        """A digest of the plan. A form sends the digest of the plan that it showed."""
        steps = "\n".join(f"{step.unit} {step.action}" for step in self.plan.steps)
        return sha256(steps.encode()).hexdigest()[:16]

    @property
    def redacted_digest(self) -> str:
        """The digest that a form sends to accept exactly these redacted parts."""
        return digest_of(self.redacted_parts)

    @property
    def accepts_redacted(self) -> bool:
        return self.request.accepted.redacted_parts in (ACCEPT_ALL, self.redacted_digest)

    @property
    def warnings(self) -> list[str]:
        """What a person should know before it starts."""
        return [one for one in (self.unrestored, self.stale_agents) if one]

    @property
    def unrestored(self) -> str:
        """What a run without the project's code would lack; empty if a preflight check has the details."""
        return "" if self.findings else unrestored(self.request)

    @property
    def stale_agents(self) -> str:
        """The agents that would continue with the former value of an edited input."""
        request = self.request
        if request.entry_point or not self.plan.running_count:
            return ""
        former = engine_of(request.contents).former_values(request.contents, request.edits)
        return translate(former) if former else ""


def preview_launch(request: ForkRequest) -> LaunchPreview:
    """The plan of a fork or resume, and its refusals. ``preview_fork`` checks the branch of a fork."""
    contents, is_fork = request.contents, request.kind == Job.Kind.FORK
    source = source_of(request)
    plan = preview_plan(contents, request.edits, request.furthest, is_fork, source)
    if is_fork and request.again_stale and plan.stale:
        again = request.edits.again | {step.unit for step in plan.stale}
        edits = replace(request.edits, again=again, keep=request.edits.keep - again)
        request = replace(request, edits=edits)
        plan = preview_plan(contents, edits, request.furthest, is_fork, source)
    preview = LaunchPreview(request=request, plan=plan)
    preview.checks = source_refusals(request)
    if not request.checkpoint.has_no_copy:
        preview.checks += [Refusal(Code.PLAN, message) for message in plan.refusals]
    edits = request.edits
    preview.checks += text_refusals(edits.inputs, edits.outputs, edits.state, edits.answers)
    if request.checkpoint.state == Checkpoint.State.PRUNED:
        preview.redacted_parts = find_redacted_parts(contents, request.edits, plan.steps)
        if preview.redacted_parts and not preview.accepts_redacted:
            preview.checks.append(redacted_refusal(preview.redacted_parts))
    if request.preflight:
        preview.findings = read_findings(request.preflight, request.answers, request.accepted.losses)
    return preview


def unrestored(request: CheckpointRequest) -> str:
    """What a run without the project's code would lack; empty if nothing, or if it has the code."""
    missing = None if request.entry_point else engine_of(request.contents).missing_code(request.contents)
    return translate(missing) if missing else ""


def source_refusals(request: CheckpointRequest) -> list[Refusal]:
    """Why nothing can start from this checkpoint in this project."""
    kind = kind_of(engine_of(request.contents), request.contents.kind)
    found = checkpoint_refusals(request.checkpoint, request.entry_point, kind)
    return [*found, *settings_refusals(request.settings, kind), *project_refusals(request.project)]


def source_of(request: CheckpointRequest) -> Any:
    """What the engine reads of the entry point's source; None without a project's folder."""
    if request.folder is None:
        return None
    contents = request.contents
    return engine_of(contents).read_source(request.folder, request.entry_point, contents.kind)


def redacted_refusal(parts: Sequence[str]) -> Refusal:
    """The refusal if a person has to edit or accept these redacted parts."""
    message = _(
        "This checkpoint was pruned, and its stored copy lacks what was redacted in: %(places)s. Edit these, "
        "or accept sending them as they are."
    ) % {"places": ", ".join(parts)}
    return Refusal(Code.REDACTED_PARTS, message, "accept-hidden", _("Redacted parts"))
