"""Forks on another host that has the same project: where one can run, and why it cannot.

A fork starts from the stored copy of the checkpoint, or from a copy of what it needs of its store, which the
other host asks for. Nothing may have to be redacted in either. It writes to a location of the other host,
never to that of the checkpoint.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from viewer.host_requests import CompareCode, HostAway, NotReadable, ask
from viewer.launching.refusals import Code, Refusal
from viewer.launching.requests import ACCEPT_ALL, ForkRequest, redactor_of
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Location, RecordedCode
from viewer.records.bodies import copy_digest, copy_to_send


@dataclass(frozen=True, slots=True)
class OtherHostCheck:
    """What a start on another host accepts, and why it cannot start there.

    ``code`` identifies the code there, if it differs or may differ; empty if it is the same. ``copy`` is the
    digest of the stored copy.
    """

    code: str = ""
    copy: str = ""
    refusals: Sequence[Refusal] = ()

    @property
    def accepted(self) -> dict[str, str]:
        """What the job's request records, and its host compares again before the start."""
        return {"code": self.code, "copy": self.copy}


def other_locations(checkpoint: Checkpoint) -> list[Location]:
    """Return the locations of other hosts to which forks may write: those of a project of the same name."""
    own = checkpoint.location
    if own.project is None or not own.project.name:
        return []
    found = Location.objects.filter(
        engine=own.engine,
        replaced_by="",
        project__confirmed_at__isnull=False,
        project__folder__endswith=f"/{own.project.name}",
    )
    states = Location.StoreKind.STATES
    others = found.exclude(host=own.host_id).select_related("project__host", "host", "pool")
    return [
        one
        for one in others.order_by("host__name", "path")
        if (one.store_kind == states if own.store_kind == states else one.takes_runs)
        and one.project
        and one.project.host_id == one.host_id
        and one.project.name == own.project.name
    ]


def check_other_host(request: ForkRequest) -> OtherHostCheck:
    """Return what a start on another host accepts; nothing for a fork on the checkpoint's own host."""
    if request.on is None:
        return OtherHostCheck()
    try:
        copy = copy_to_send(request.checkpoint)
    except NotReadable as error:
        return OtherHostCheck(refusals=[Refusal(Code.CHECKPOINT, translate(error))])
    refusals = []
    if request.on not in other_locations(request.checkpoint):
        refusals.append(Refusal(Code.TARGET, _("This host has no location of the same project any more.")))
    if not request.entry_point:
        text = _(
            "Another host starts from the stored copy with the project's own code: name the entry point."
        )
        refusals.append(Refusal(Code.ENTRY_POINT, text, "entry-point", _("Entry point")))
    if request.into not in ("", request.target_on_other_host):
        text = _("On another host, a fork is always written to the location there: choose no other target.")
        refusals.append(Refusal(Code.PUBLISH, text, "into"))
    if _has_secret(request):
        host = request.checkpoint.location.host
        text = _("Your edits contain a secret of %(host)s, and secrets do not leave their host.")
        refusals.append(Refusal(Code.PLAN, text % {"host": host.name}))
    difference = _code_difference(request)
    if difference and request.accepted.code not in (ACCEPT_ALL, difference):
        text = _("The code on %(host)s is not the same, or it is not known to be. Accept it to start there.")
        refusals.append(Refusal(Code.CODE, text % {"host": request.on.host.name}, "accept-code", _("Code")))
    return OtherHostCheck(difference, copy_digest(copy), refusals)


def _has_secret(request: ForkRequest) -> bool:
    """Whether a typed value is a secret of the checkpoint's project that the other host would not redact.

    False while the checkpoint's host, which knows the secrets, does not answer.
    """
    edits, settings = request.edits, request.settings
    edited = (edits.inputs, edits.outputs, edits.state, edits.answers)
    typed = [dict(values or {}) for values in (*edited, settings.configurable, settings.context)]
    if not any(typed):
        return False
    there = redactor_of(request.project)(typed) or redactor_of(None)(typed)
    here = redactor_of(request.checkpoint.location.project)(there)
    return here is not None and here != there


def _code_difference(request: ForkRequest) -> str:
    """Return what identifies the code of the other host if it differs, or may differ; empty if it does not.

    Also empty for the recorded commit, and while the other host is away: it compares the code again before
    the start.
    """
    if request.project is None or request.uses_recorded_code:
        return ""
    recorded = RecordedCode.of(request.checkpoint, request.project)
    try:
        return ask(CompareCode(request.project.pk, recorded.pk if recorded else None))
    except HostAway:
        return ""
