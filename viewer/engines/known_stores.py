"""Where programs keep checkpoints of an engine unless their users say otherwise."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownStore:
    """A file or folder that a program writes, by its English name.

    ``path`` begins with ``~/`` or an environment variable, or is how any path ends; ``*`` is any name.
    ``advice`` is the template that says why such a store is not read, and what to do; empty if it is read.
    """

    title: str
    path: str
    advice: str = ""
