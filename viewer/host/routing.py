"""Sends each request to the machine that has what it names: this one, or another host.

A host answers only what the sender has a right to, and over the network only for its own rows and in its
allowed folders (``viewer.host.permitted``).
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from django.conf import settings
from django.utils.translation import gettext as _

from viewer import host_requests as asked
from viewer.host import answers
from viewer.host.jobs import savers  # noqa: F401 - registers how locations open checkpoint savers
from viewer.host.permitted import host_of, refuse_actor
from viewer.messages.message import UserMessage
from viewer.models import Host
from viewer.models.roles import unrestricted

Reply = TypeVar("Reply")


# A host acts for the rows that a request names, whatever else its sender may see.
@unrestricted()
def answer(
    request: asked.Request[Reply], report: asked.Report | None = None, host: int | None = None
) -> Reply:
    """Return the reply of the host that has what the request names. Raises HostRefusal.

    ``report`` receives the progress of an import on this machine.
    """
    refuse_actor(request)
    if not settings.IS_DATABASE_SHARED:
        return answers.answer(request, report)
    own, key = Host.own(), host_of(request) or host
    is_typed_here = key is None and isinstance(request, asked.OpenLocation)
    if is_typed_here and own is None:
        _claim_unregistered()
    if key is None or (own is not None and own.pk == key):
        return answers.answer(request, report)
    return cast(Reply, _answer_of(key, request))


def _claim_unregistered() -> None:
    """Make this machine the host that no machine has been yet. Raises UnknownLocation if there is none."""
    # Only a machine that is no host loads the worker.
    from viewer.host.worker import claim_unregistered

    if not claim_unregistered():
        raise asked.UnknownLocation(
            _("This machine is no host of the database. Start a worker first: forkline worker --host NAME")
        )


def _answer_of(key: int, request: asked.Request[Any]) -> Any:
    """Return the reply of another host, or what is known without it. Raises HostRefusal."""
    # Only processes that ask other hosts load the queue.
    from viewer.host import remote

    if isinstance(request, asked.PrepareImport):
        return None
    host = Host.objects.get(pk=key)
    if isinstance(request, asked.RevealValue):
        raise asked.NotReadable("reveal.other_host", host=host.name)
    try:
        return remote.answer_of(host, request)
    except asked.HostAway as away:
        if type(request) in WITHOUT_HOST:
            return WITHOUT_HOST[type(request)](away.message)
        raise REFUSALS.get(type(request), asked.HostAway).saying(away.message) from None


# What a page shows while the host does not answer.
WITHOUT_HOST: dict[type[asked.Request[Any]], Callable[[UserMessage], Any]] = {
    asked.ImportLocation: lambda message: asked.ImportResult(read_error=message),
    asked.ImportRun: lambda message: asked.ImportResult(read_error=message),
    asked.ReadBodies: lambda _message: [],
    asked.FindStores: lambda _message: [],
    asked.CompletePath: lambda _message: [],
    asked.ListDatabases: lambda _message: [],
    asked.ListOverlaps: lambda _message: [],
    asked.IsLocationGone: lambda _message: False,
    asked.ListCheckpointEvents: lambda _message: [],
    # The host checks these before a start that waits for it.
    asked.MatchEntryPoint: lambda _message: "",
    asked.ReadSource: lambda _message: None,
    asked.ReadInterpreter: lambda _message: asked.InterpreterFacts("", "", "", is_outside=False),
    asked.ListEntryPointKinds: lambda _message: {},
    asked.ListInputNames: lambda _message: [],
    asked.FindEntryPoints: lambda _message: [],
    asked.CheckCheckpoint: lambda _message: asked.CheckReply("", ""),
    asked.CheckNewRun: lambda _message: asked.CheckReply("", ""),
    # The rest follows when the host is back.
    asked.FindEnds: lambda _message: None,
    asked.Prewarm: lambda _message: None,
    asked.DeliverAnswer: lambda _message: None,
}
# The refusals that the callers of these requests expect.
REFUSALS: dict[type[asked.Request[Any]], type[asked.HostRefusal]] = {
    asked.ReadBody: asked.NotReadable,
    asked.CopyStore: asked.NotReadable,
    asked.OpenLocation: asked.UnknownLocation,
    asked.ChangePath: asked.UnknownLocation,
    asked.RemoveLocation: asked.WouldBeLost,
    asked.ListPrunable: asked.PruneRefused,
    asked.Prune: asked.PruneRefused,
    asked.FindWriteTarget: asked.UnknownLocation,
    asked.CheckWriteTarget: asked.UnknownLocation,
    asked.OpenWriteTarget: asked.UnknownLocation,
    asked.CheckProject: asked.JobRefused,
    asked.ListNextUnits: asked.JobRefused,
    asked.ListNewEffects: asked.JobRefused,
}
