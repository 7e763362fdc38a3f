"""Writes the audit trail, in the transaction of what it records, and deletes what its retention allows.

Nothing is recorded unless the setting AUDIT is on.
"""

import json
import logging
import os
import pwd
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from viewer.models import ApiToken, AuditEntry, AuditRetention
from viewer.redaction.values import redact
from viewer.validation import shortened

Action = AuditEntry.Action
ActorKind = AuditEntry.ActorKind
Audited = AuditEntry.Kind
Result = AuditEntry.Result
# Entries that are deleted in one transaction.
BATCH = 1000
# Writes each entry to AUDIT_FILE (checkpoint_site/settings.py).
sink = logging.getLogger("forkline.audit")


@dataclass
class Actor:
    """Who acts, and from which address. ``user`` is the account of a person with a login.

    Through a share link, a person asks hosts for no more than a visitor. ``token`` is the key of the API
    token with which a program acts for the person.
    """

    kind: str
    name: str
    address: str = ""
    user: User | None = None
    token: int | None = None
    is_through_link: bool = False
    # What a request opened, as ``opens`` named it, and how many entries it has stored.
    opened: tuple[Audited, str, str] | None = None
    recorded: int = 0


# Who has sent the present request. None at the terminal, and for what the program does unasked.
acting: ContextVar[Actor | None] = ContextVar("acting", default=None)
# Whether nobody is at the terminal of this process.
_is_unattended = False


def act_unattended() -> None:
    """Have this process act for nobody unless a request says so, as the web server and the worker do."""
    global _is_unattended  # noqa: PLW0603
    _is_unattended = True


def present_actor() -> Actor:
    """Return who acts: the sender of a request, a person at the terminal, or the program itself."""
    itself = Actor(ActorKind.SERVER, "") if _is_unattended else Actor(ActorKind.TERMINAL, _account())
    return acting.get() or itself


def is_at_terminal() -> bool:
    """Whether a person at a terminal of this machine acts, who may name its files."""
    return present_actor().kind == ActorKind.TERMINAL


def record(
    action: Action, kind: Audited, key: object = "", detail: str = "", result: Result = Result.DONE
) -> None:
    """Store an entry about the present actor, in the present transaction."""
    if not settings.AUDIT:
        return
    actor = present_actor()
    entry = AuditEntry.objects.create(
        actor_kind=actor.kind,
        actor=_text(actor.name, 150),
        token=actor.token,
        address=_text(actor.address, 50),
        action=action,
        kind=kind,
        key=_text(str(key), 200),
        detail=_text(detail, 300),
        result=result,
    )
    actor.recorded += 1
    if settings.AUDIT_FILE:
        transaction.on_commit(lambda: sink.info(line_of(entry)))


def opens(kind: Audited, key: object, detail: str = "") -> None:
    """Name what the present request opens, if its address does not."""
    if actor := acting.get():
        actor.opened = (kind, str(key), detail)


def opens_row(kind: Audited, key: object) -> None:
    """Name the row that the present request opens, if it is one that only opens something."""
    if (actor := acting.get()) and actor.opened:
        opens(kind, key)


def act_as(user: User) -> None:
    """Name a person who has logged in, or created their account, as the actor of the present request."""
    if actor := acting.get():
        actor.kind, actor.name, actor.user = ActorKind.USER, user.get_username(), user


def act_as_link(key: int) -> None:
    """Name a share link as what the present request opens, and as its actor if nobody is logged in."""
    opens(Audited.SHARE, key)
    if (actor := acting.get()) and actor.kind == ActorKind.VISITOR:
        actor.kind, actor.name = ActorKind.SHARE, str(key)


def actor_as_data() -> dict[str, Any]:
    """Return the present actor for another host, which checks and records what it does for them."""
    actor = present_actor()
    user = actor.user.pk if actor.user else None
    kind = ActorKind.VISITOR if actor.is_through_link else actor.kind
    return {"kind": kind, "name": actor.name, "address": actor.address, "user": user, "token": actor.token}


@contextmanager
def acting_for(data: Mapping[str, Any]) -> Iterator[None]:
    """Within the block, act for the sender of a request, as ``actor_as_data`` described it."""
    user = User.objects.filter(pk=data["user"]).first() if data.get("user") else None
    if token := data.get("token"):
        found = ApiToken.objects.select_related("user").filter(pk=token, user=user).first()
        user = found.limited_user if found and found.works else None
    former = acting.set(Actor(data["kind"], data["name"], data.get("address", ""), user, token))
    try:
        yield
    finally:
        acting.reset(former)


def _text(text: str, most: int) -> str:
    """The text as one line without secrets: the name of an account or of a folder may be anything."""
    return shortened(str(redact(text)), most - 1)[:most]


def _account() -> str:
    """The name of the account that runs this process."""
    with suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_name
    return str(os.getuid())


# Reading the entries.


COLUMNS = (
    *("id", "at", "actor_kind", "actor", "token", "address"),
    *("action", "kind", "key", "detail", "result"),
)


def entries_of(
    actor: str = "",
    action: str = "",
    kind: str = "",
    key: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
) -> QuerySet[AuditEntry]:
    """Return the entries that match all that is given, the newest first. ``until`` is not included."""
    wanted = {"actor": actor, "action": action, "kind": kind, "key": key}
    found = AuditEntry.objects.filter(**{name: value for name, value in wanted.items() if value})
    within = (Q(at__gte=since) if since else Q()) & (Q(at__lt=until) if until else Q())
    return found.filter(within).order_by("-pk")


def document_of(entry: AuditEntry) -> dict[str, Any]:
    """Return an entry as a JSON document."""
    return {name: getattr(entry, name) for name in COLUMNS} | {"at": entry.at.isoformat()}


def line_of(entry: AuditEntry) -> str:
    """Return an entry as a line of JSON, in ASCII."""
    return json.dumps(document_of(entry))


# Retention.


def delete_before(days: int) -> int:
    """Delete the entries that are older than this many days, and record their number. Return it.

    The only way to delete any: the database refuses it unless a row of AuditRetention allows it.
    """
    before = timezone.now() - timedelta(days=days)
    deleted = 0
    while True:
        with transaction.atomic():
            allowed = AuditRetention.objects.create(before=before)
            old = AuditEntry.objects.filter(at__lt=before).order_by("pk").values_list("pk", flat=True)[:BATCH]
            count = AuditEntry.objects.filter(pk__in=list(old)).delete()[0]
            allowed.delete()
            if count:
                record(Action.PRUNED, Audited.AUDIT, detail=f"{count} older than {days} days")
        deleted += count
        if count < BATCH:
            return deleted
