"""Forks on another host that has the same project: where one can run, and why it cannot.

A fork starts from the stored copy of the checkpoint, or from a copy of what it needs of its store, which the
other host asks for. Nothing may have to be redacted in either. It writes to a location of the other host,
never to that of the checkpoint.
"""

from contextlib import suppress
from dataclasses import dataclass

from django.utils.translation import gettext as _

from viewer.host_requests import CompareCode, HostAway, NotReadable, Redact, ask
from viewer.launching.refusals import Code, Refusal
from viewer.launching.requests import ACCEPT_ALL, ForkRequest
from viewer.models import Checkpoint, Location, RecordedCode
from viewer.records.bodies import copy_digest, copy_to_send


@dataclass(frozen=True, slots=True)
class OtherHostCheck:
    """What a start on another host accepts, and what is known of both hosts.

    ``code`` identifies the code there, if it differs or may differ; empty if it is the same. ``copy`` is the
    digest of the stored copy; ``not_readable`` says why nothing can be sent. ``has_secret`` is whether a
    typed value is a secret of the checkpoint's project that the other host would not redact.
    """

    code: str = ""
    copy: str = ""
    not_readable: NotReadable | None = None
    has_location: bool = True
    has_secret: bool = False

    @property
    def accepted(self) -> dict[str, str]:
        """What the job's request records, and its host compares again before the start."""
        return {"code": self.code, "copy": self.copy}

    def refusals_of(self, request: ForkRequest) -> list[Refusal]:
        """Why the request cannot start on the other host; nothing for a fork on the checkpoint's own host."""
        if request.on is None:
            return []
        if self.not_readable:
            return [Refusal(Code.CHECKPOINT, self.not_readable)]
        found = []
        if not self.has_location:
            found.append(Refusal(Code.TARGET, _("This host has no location of the same project any more.")))
        if not request.entry_point:
            text = _(
                "Another host starts from the stored copy with the project's own code: name the entry point."
            )
            found.append(Refusal(Code.ENTRY_POINT, text, "entry-point", _("Entry point")))
        if request.into not in ("", request.target_on_other_host):
            text = _(
                "On another host, a fork is always written to the location there: choose no other target."
            )
            found.append(Refusal(Code.PUBLISH, text, "into"))
        if self.has_secret:
            text = _("Your edits contain a secret of %(host)s, and secrets do not leave their host.")
            host = request.checkpoint.location.host
            found.append(Refusal(Code.PLAN, text % {"host": host.name}))
        if self.code and request.accepted.code not in (ACCEPT_ALL, self.code):
            text = _(
                "The code on %(host)s is not the same, or it is not known to be. Accept it to start there."
            )
            text %= {"host": request.on.host.name}
            found.append(Refusal(Code.CODE, text, "accept-code", _("Code")))
        return found


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
    """Ask both hosts what a start on the other one needs. Nothing is asked for a fork on the own host.

    While a host is away, a secret or a difference is not known: the other host checks it before the start.
    """
    if request.on is None:
        return OtherHostCheck()
    own, project = request.checkpoint.location, request.project
    recorded, others = RecordedCode.of(request.checkpoint, project), other_locations(request.checkpoint)
    edits, settings = request.edits, request.settings
    edited = (edits.inputs, edits.outputs, edits.state, edits.answers)
    typed = [dict(values or {}) for values in (*edited, settings.configurable, settings.context)]
    try:
        copy = copy_to_send(request.checkpoint, request.root_kind)
    except NotReadable as error:
        return OtherHostCheck(not_readable=error)
    code, has_secret = "", False
    with suppress(HostAway):
        if any(typed):
            try:
                there = ask(Redact(project.pk if project else None, typed))
            except HostAway:
                there = ask(Redact(None, typed))
            has_secret = ask(Redact(own.project_id, there)) != there
    with suppress(HostAway):
        if project and not request.uses_recorded_code:
            code = ask(CompareCode(project.pk, recorded.pk if recorded else None))
    return OtherHostCheck(code, copy_digest(copy), None, request.on in others, has_secret)
