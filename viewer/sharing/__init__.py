"""Share links: what they lead to, who makes them, and when they work."""

from viewer.sharing.links import is_alive, link_for, link_state, make_link
from viewer.sharing.subjects import Shared, Subject, find_shared, subject_in

__all__ = [
    "Shared",
    "Subject",
    "find_shared",
    "is_alive",
    "link_for",
    "link_state",
    "make_link",
    "subject_in",
]
