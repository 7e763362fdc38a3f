"""The ``forkline`` command. It runs the same commands as ``manage.py``.

forkline                    serve the checkpoints of the current folder
forkline up LOCATION        serve a location
forkline list LOCATION      any subcommand of ``manage.py checkpoints``
forkline login-link NAME    any other command of ``manage.py``
forkline --server URL list  the same on a server elsewhere
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill

PROGRAM = "forkline"
SERVER, VARIABLE = "--server", "FORKLINE_SERVER"
# The locations that CrewAI uses by default.
DEFAULT_LOCATIONS = (".checkpoints", ".checkpoints.db")
# The commands of manage.py, by their names as subcommands of ``forkline``.
COMMANDS = {
    "up": "up",
    "web": "web",
    "worker": "worker",
    "import": "import_checkpoints",
    "login-link": "login_link",
}
USAGE = """\
usage: forkline [--server URL] [COMMAND] [OPTIONS]

Without a command, serve .checkpoints or .checkpoints.db of the current folder.

  up [LOCATION]           Serve a folder or database of checkpoints.
  import LOCATION         Import a location without serving it.
  login-link [NAME]       Print a link that logs in, once.
  web                     Serve the dashboard without a worker.
  worker                  Run queued jobs.
  {subcommands}
                          Work with checkpoints in the terminal.

With --server URL before it, or with FORKLINE_SERVER, a command is sent to a server elsewhere, with the API
token of FORKLINE_TOKEN.

"forkline COMMAND --help" shows the options of a command."""


def main() -> None:
    """Run the command line of this process, and exit with its status."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")
    arguments = sys.argv[1:]
    if arguments and (arguments[0] == SERVER or arguments[0].startswith(f"{SERVER}=")):
        arguments = with_server(arguments)
    if not arguments:
        # The folder may be gone.
        with one_line_errors(arguments):
            arguments = ["up", default_location(Path.cwd())]
    if arguments[0] in {"-h", "--help", "help"}:
        with one_line_errors(arguments):
            sys.stdout.write(f"{usage()}\n")
        return
    if arguments[0] in COMMANDS and os.environ.get(VARIABLE):
        sys.exit(
            f"forkline {arguments[0]} needs the machine itself. Run it there, without {SERVER} and"
            f" {VARIABLE}."
        )
    run([PROGRAM, *django_arguments(arguments)])


def run(arguments: list[str]) -> None:
    """Run a command of Django. An error that no command has caught ends the process with one line."""
    with one_line_errors(arguments):
        from django.core.management import execute_from_command_line

        execute_from_command_line(arguments)


@contextmanager
def one_line_errors(arguments: list[str]) -> Iterator[None]:
    """End the process with one line on an error, and with none if nobody reads the output any more."""
    try:
        try:
            yield
        finally:
            # The interpreter's last flush would print a traceback.
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        from viewer.management import PIPE_CLOSED, let_go_of_stdout

        let_go_of_stdout()
        sys.exit(PIPE_CLOSED)
    except Exception as error:
        if "--traceback" in arguments:
            raise
        from viewer.validation import brief

        text = f"Unexpected error: {type(error).__name__}: {error}. Repeat the command with --traceback."
        sys.exit(brief(text))


def with_server(arguments: list[str]) -> list[str]:
    """Set FORKLINE_SERVER to the address that arguments begin with, and return the others. May exit."""
    option, mark, address = arguments[0].partition("=")
    rest = arguments[1:]
    if not mark and rest:
        address, *rest = rest
    if not (address and rest):
        sys.exit(f"Name a server and a command: forkline {option} URL COMMAND\n\n{usage()}")
    os.environ[VARIABLE] = address
    return rest


def default_location(folder: Path) -> str:
    """Return the default location in this folder. Raises SystemExit with the usage if there is none."""
    for name in DEFAULT_LOCATIONS:
        if (folder / name).exists():
            return str(folder / name)
    names = " or ".join(DEFAULT_LOCATIONS)
    sys.exit(f"There is no {names} in {folder}. Name a location: forkline up LOCATION\n\n{usage()}")


def django_arguments(arguments: list[str]) -> list[str]:
    """Return the equivalent arguments of ``manage.py``."""
    command, *rest = arguments
    if command in COMMANDS:
        return [COMMANDS[command], *rest]
    return ["checkpoints", *arguments]


def usage() -> str:
    """Return the text of ``forkline --help``."""
    import django

    django.setup()
    from viewer.cli import SUBCOMMANDS

    return USAGE.format(subcommands=fill(", ".join(SUBCOMMANDS), 78, subsequent_indent="  "))
