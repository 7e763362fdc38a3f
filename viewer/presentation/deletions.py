"""What a deletion has deleted, in sentences for the page and the terminal."""

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from viewer.formats import count_text
from viewer.host_requests import Pruned
from viewer.models import Location

# Checkpoints that are named.
MAX_NAMED = 3


def deleted_texts(location: Location, done: Pruned) -> list[str]:
    """Return a sentence that names the deleted checkpoints, the first ones at least, and one for copies."""
    texts, count = [], len(done.deleted)
    if done.deleted:
        text = ngettext(
            "Deleted %(count)s checkpoint of %(location)s: %(names)s.",
            "Deleted %(count)s checkpoints of %(location)s: %(names)s.",
            count,
        )
        names = ", ".join(done.deleted[:MAX_NAMED])
        if count > MAX_NAMED:
            names = _("%(ids)s and %(count)s more") % {
                "ids": names,
                "count": count_text(count - MAX_NAMED),
            }
        texts.append(text % {"count": count_text(count), "location": location.name, "names": names})
    if done.copies:
        text = ngettext(
            "Deleted %(count)s stored copy of %(location)s.",
            "Deleted %(count)s stored copies of %(location)s.",
            done.copies,
        )
        texts.append(text % {"count": count_text(done.copies), "location": location.name})
    return texts or [_("Nothing was deleted.")]
