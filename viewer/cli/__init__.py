"""What ``manage.py checkpoints`` can be asked: one file for each question, listed here."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from viewer.cli.output import Subcommand

# Each module in ``commands`` has HELP, add_arguments(parser) and answer(options).
NAMES = ("list", "info", "fork", "resume", "vary", "run", "answer", "backup", "restore", "doctor")


class Subcommands(Mapping[str, Subcommand]):
    """The subcommands by name. Each is imported when it is asked for: most need what others do not."""

    def __getitem__(self, name: str) -> Subcommand:
        if name not in NAMES:
            raise KeyError(name)
        module: Subcommand = import_module(f"viewer.cli.commands.{name}")
        return module

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


SUBCOMMANDS = Subcommands()
