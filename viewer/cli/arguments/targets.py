"""Where a fork is written to, from the arguments of ``fork`` and ``publish``."""

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.protocol import Contents, kind_of


def target_of(contents: Contents, target: str) -> str:
    """The target. Raises CommandError if forks of this checkpoint have no such target."""
    if target not in dict(kind_of(engine_of(contents), contents.kind).fork_targets):
        raise CommandError(_("--into %s works only for checkpoints whose forks run as drafts.") % target)
    return target
