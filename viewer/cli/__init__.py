"""The subcommands of ``manage.py checkpoints``, one module each in a folder of ``commands``."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from viewer.cli.output import Subcommand

# The names by folder. Each module has HELP, add_arguments(parser) and handle(options).
COMMANDS = {
    "checkpoints": ("list", "info", "note", "diff", "search", "export", "shares"),
    "launching": ("fork", "resume", "publish", "sweep", "run", "answer", "cancel", "score"),
    "maintenance": ("prune", "remove", "clean", "backup", "restore", "move", "doctor", "hosts"),
}
FOLDERS = {name: folder for folder, names in COMMANDS.items() for name in names}


class Subcommands(Mapping[str, Subcommand]):
    """The subcommands by name. A module is imported at its lookup."""

    def __getitem__(self, name: str) -> Subcommand:
        module: Subcommand = import_module(f"viewer.cli.commands.{FOLDERS[name]}.{name}")
        return module

    def __iter__(self) -> Iterator[str]:
        return iter(FOLDERS)

    def __len__(self) -> int:
        return len(FOLDERS)


SUBCOMMANDS = Subcommands()
