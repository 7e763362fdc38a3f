"""The subcommands of ``manage.py checkpoints``, in the modules of ``commands``."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from viewer.cli.output import Subcommand

# The module of each, which has a Subcommand of its name in capitals.
MODULES = {
    "list": "runs",
    "info": "checkpoints",
    "note": "annotations",
    "comments": "annotations",
    "diff": "checkpoints",
    "call": "calls",
    "replay": "calls",
    "search": "search",
    "export": "sharing",
    "shares": "sharing",
    "collection": "collections",
    "fork": "launches",
    "resume": "launches",
    "publish": "launches",
    "sweep": "sweeps",
    "bulk": "sweeps",
    "run": "launches",
    "answer": "launches",
    "cancel": "launches",
    "score": "launches",
    "prune": "stored_data",
    "remove": "stored_data",
    "clean": "stored_data",
    "backup": "stored_data",
    "restore": "stored_data",
    "move": "stored_data",
    "doctor": "doctor",
    "hosts": "hosts",
    "audit": "audit",
    "isolation": "projects",
    "roles": "access",
    "invitations": "access",
    "keys": "projects",
    "tokens": "access",
}


class Subcommands(Mapping[str, Subcommand]):
    """The subcommands by name. A module is imported at its lookup."""

    def __getitem__(self, name: str) -> Subcommand:
        module = import_module(f"viewer.cli.commands.{MODULES[name]}")
        found: Subcommand = getattr(module, name.upper())
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


SUBCOMMANDS = Subcommands()
