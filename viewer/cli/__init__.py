"""The subcommands of ``manage.py checkpoints``, one module each in ``commands``."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from viewer.cli.output import Subcommand

# Each module has HELP, add_arguments(parser) and answer(options).
NAMES = (
    *("list", "info", "note", "diff", "search", "fork", "resume", "publish", "sweep", "run", "answer"),
    *("score", "export", "prune", "clean", "backup", "restore", "doctor"),
)
# Former names that still work.
ALIASES = {"vary": "sweep"}


class Subcommands(Mapping[str, Subcommand]):
    """The subcommands by name, aliases included. A module is imported at its lookup."""

    def __getitem__(self, name: str) -> Subcommand:
        name = ALIASES.get(name, name)
        if name not in NAMES:
            raise KeyError(name)
        module: Subcommand = import_module(f"viewer.cli.commands.{name}")
        return module

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


SUBCOMMANDS = Subcommands()
