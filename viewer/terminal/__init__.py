"""What ``manage.py checkpoints`` can be asked: one file for each question, listed here."""

from viewer.terminal import fork, info, listing, resume
from viewer.terminal.answer import Subcommand

# Each module holds HELP, add_arguments(parser) and answer(options).
SUBCOMMANDS: dict[str, Subcommand] = {
    "list": listing,
    "info": info,
    "fork": fork,
    "resume": resume,
}
