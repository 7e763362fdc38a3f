"""``file://`` URLs, as browsers and editors copy them, and the paths that they name."""

import re
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from django.utils.translation import gettext as _

FILE_URL = re.compile(r"file:/", re.IGNORECASE)
LOCAL_HOSTS = {"", "localhost"}


class NotLocal(ValueError):
    """The URL does not name a file on this machine. The message is for a person."""


def path_of(text: str | Path) -> Path:
    """The path that a person typed, as a path or a ``file://`` URL. Raises NotLocal."""
    if isinstance(text, Path) or not FILE_URL.match(text):
        return Path(text)
    try:
        url = urlsplit(text)
    except ValueError:
        raise NotLocal(_("This path cannot be opened.")) from None
    if url.netloc.lower() not in LOCAL_HOSTS:
        raise NotLocal(
            _("%(url)s names a file on the host %(host)s. Only files on this machine can be opened.")
            % {"url": text, "host": url.netloc}
        )
    if url.query or url.fragment:
        raise NotLocal(_("%s is not a path. Write ? and # in a file name as %%3F and %%23.") % text)
    return Path(unquote_to_bytes(url.path).decode("utf-8", "surrogateescape"))
