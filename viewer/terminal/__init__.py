"""What ``manage.py checkpoints`` can be asked: one file for each question, listed here."""

from viewer.terminal import fork, resume
from viewer.terminal.answer import Subcommand

# Each module holds HELP, add_arguments(parser) and answer(options).
SUBCOMMANDS: dict[str, Subcommand] = {"fork": fork, "resume": resume}
