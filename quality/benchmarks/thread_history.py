"""Opens LangGraph threads of 10,000 checkpoints, next to LangGraph's own ``get_state_history`` of them.

One thread has a small state, the other is a conversation that LangGraph itself has written. Theirs is what a
user of LangGraph calls to see a thread: the list of its states from the compiled graph. Ours is what a user
waits for: from the request of a thread that was never opened to the page with its newest rows and branches.

python -m quality.benchmarks.thread_history [CHECKPOINTS]
"""

import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from quality.benchmarks import many_threads
from quality.benchmarks.large_location import corpus
from quality.benchmarks.timing import Seconds, timed
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT, logged_in, temporary_data_folder

PYTHON = ROOT / "demo/support/.venv/bin/python"
PROGRAM = Path(__file__).with_name("conversation.py")
COUNT, ROUNDS = 10_000, 3
CONVERSATION = "conversation"
GOAL_TIMES = 20
# A turn writes an input, the start of the graph, and the answer of its node.
CHECKPOINTS_OF_TURN = 3
# Compared with a run of CrewAI.
SUPER_STEPS, GOAL_OF_RUN = 5_000, 2


def main() -> None:
    """Write the threads, measure, and print the tables."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    many_threads.LONG_STEPS = count
    with temporary_data_folder() as folder:
        small, conversation = folder / "threads.db", folder / "conversation.db"
        many_threads.generate(small, 10, 2)
        program("write", conversation, str(count // CHECKPOINTS_OF_TURN))
        for title, database, thread in (
            ("A small state", small, many_threads.LONG_THREAD),
            ("A conversation", conversation, CONVERSATION),
        ):
            print_comparison(title, database, thread)
        print_run(*compared_with_run(folder))


def print_comparison(title: str, database: Path, thread: str) -> None:
    """Measure a thread, and print the table."""
    lines = [line.split() for line in program("history", database, thread)]
    theirs = _median([Seconds(float(used), float(passed)) for _count, used, passed in lines])
    megabytes = database.stat().st_size / 2**20
    print(f"\n{title}: {int(lines[0][0]):,} checkpoints, {megabytes:,.0f} MB\n")
    print_heading("", "processor seconds", "seconds", "times faster", "goal")
    print_row("`list(graph.get_state_history(config))`", f"{theirs.used:.2f}", f"{theirs.passed:.2f}", "", "")
    for what, ours in measure(database, thread).items():
        goal = GOAL_TIMES if what.startswith("open the") else ""
        print_row(what, f"{ours.used:.2f}", f"{ours.passed:.2f}", f"{theirs.used / ours.used:.1f}", goal)


def print_run(thread: float, run: float) -> None:
    """Print the table of a thread next to a run."""
    print(f"\n{SUPER_STEPS:,} super-steps, next to a CrewAI run of as many checkpoints\n")
    print_heading("", "processor seconds", "goal")
    print_row("open the run for the first time", f"{run:.2f}", "")
    goal = f"{GOAL_OF_RUN * run:.2f}"
    print_row("open the thread for the first time, and list all of it", f"{thread:.2f}", goal)


def program(action: str, database: Path, argument: str) -> list[str]:
    """The lines that the program of a LangGraph project prints."""
    command = [str(PYTHON), str(PROGRAM), action, str(database), argument]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def measure(database: Path, thread: str) -> dict[str, Seconds]:
    """The medians of opening a thread that was never opened, of listing the rest, and of opening it again."""
    from viewer.host.locations.adding import open_location
    from viewer.host.locations.importing import import_location
    from viewer.host.locations.indexing import import_run
    from viewer.host.project_secrets import forget_index

    client, location = logged_in(), open_location(database)
    for _twice in range(2):
        import_location(location)
    run = location.runs.select_related("location").get(key=thread)
    rounds = []
    # The first round loads code and templates, as a server has.
    for _round in range(ROUNDS + 1):
        forget_index(location)
        rounds.append(
            (
                timed(lambda: client.get(run.get_absolute_url())),
                timed(lambda: import_run(run)),
                timed(lambda: client.get(run.get_absolute_url())),
            )
        )
        assert run.checkpoints.count() > 1
    names = ("open the thread: newest rows, all branches", "list the rest in the background", "open it again")
    return {name: _median(some) for name, some in zip(names, zip(*rounds[1:], strict=True), strict=True)}


def _median(some: Any) -> Seconds:
    return Seconds(*(median(values) for values in zip(*some, strict=True)))


def compared_with_run(folder: Path) -> tuple[float, float]:
    """Processor seconds from nothing to the page of a thread, and to that of a CrewAI run of its size."""
    from viewer.host.locations.adding import open_location
    from viewer.host.locations.importing import import_location
    from viewer.host.locations.indexing import import_run

    many_threads.LONG_STEPS = SUPER_STEPS
    many_threads.generate(folder / "shorter.db", 10, 2)
    corpus.write_run(folder / "run", 0, corpus.START, SUPER_STEPS, 0)
    thread, run = (open_location(folder / name) for name in ("shorter.db", "run"))
    import_location(thread)
    client = logged_in()
    long = thread.runs.select_related("location").get(key=many_threads.LONG_THREAD)

    def shown_thread() -> None:
        client.get(long.get_absolute_url())
        import_run(long)

    def shown_run() -> None:
        import_location(run)
        client.get(run.runs.get().get_absolute_url())

    return timed(shown_thread).used, timed(shown_run).used


if __name__ == "__main__":
    main()
