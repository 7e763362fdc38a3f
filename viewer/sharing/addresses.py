"""The object that the address of a page shows."""

from urllib.parse import parse_qs, urlsplit

from django.urls import Resolver404, resolve

from viewer.models import ShareLink
from viewer.sharing.subjects import Subject, subject_in

Kind = ShareLink.Kind


def subject_of(address: str, *, whole_run: bool = False) -> Subject | None:
    """Return what a page of this address, copied from a browser, is about; None if that cannot be shared.

    The page of a run with a selected checkpoint is about the checkpoint, unless ``whole_run``.
    """
    try:
        parts = urlsplit(address)
        found = resolve(parts.path)
    except (ValueError, Resolver404):
        return None
    if found.url_name == "run":
        selected = parse_qs(parts.query, max_num_fields=100).get("at", [""])[0]
        if selected and not whole_run:
            return subject_in(Kind.CHECKPOINT, f"{found.kwargs['uid']}/{selected}")
        return subject_in(Kind.RUN, str(found.kwargs["uid"]))
    if found.url_name == "job":
        return subject_in(Kind.JOB, str(found.kwargs["pk"]))
    kinds = {"compare": Kind.COMPARISON, "search": Kind.SEARCH}
    return subject_in(kinds[found.url_name], parts.query) if found.url_name in kinds else None
