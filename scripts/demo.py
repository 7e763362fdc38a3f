"""``make demo``: serves the demo project while it runs, once. ``--clean`` deletes what it created."""

import argparse
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management import execute_from_command_line

from checkpoint_site.settings import DATA_DIR, DATABASES, PORT
from scripts import demo_rows, demo_runs
from viewer.cli.supervision import end_with_parent, holder_of, is_taken

ROOT = Path(__file__).resolve().parent.parent
# Not in the data folder, in which no location may be.
FOLDER = DATA_DIR.with_name(f"{DATA_DIR.name}-demo")
# Where an earlier version had it.
FORMER_FOLDER = DATA_DIR / "demo"
# Seconds between two chunks of an answer.
DELAY = os.environ.get("DEMO_DELAY") or "0.06"


def main() -> None:
    """Run the demo, or delete what it created."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--clean", action="store_true", help="delete what the demo created")
    parser.add_argument("--prepare", action="store_true", help="run it, but do not serve")
    parser.add_argument("--parent", type=int, help="end when the parent process, which has this id, ends")
    options = parser.parse_args()
    end_with_parent(options.parent)
    if options.clean:
        found = [folder for folder in (FORMER_FOLDER, FOLDER) if folder.exists()]
        print("Deleting what the demo created." if found else "Nothing to delete.")
        for folder in found:
            demo_rows.clean_up(folder)
        return
    if not options.prepare:
        refuse_taken_port()
    # Without its database, the finished runs cannot be shown.
    is_finished = demo_runs.is_finished(FOLDER) and Path(str(DATABASES["default"]["NAME"])).exists()
    if not is_finished:
        demo_rows.clean_up(FORMER_FOLDER)
        demo_rows.clean_up(FOLDER)
    model, address = start_model()
    demo_runs.write_environment(FOLDER, address)
    if not is_finished:
        demo_runs.make_locations(FOLDER)
    if options.prepare:
        if not is_finished:
            demo_runs.run_everything(FOLDER)
        return
    if is_finished:
        serve([])
    else:
        start_runs()
        serve([str(demo_runs.first_location(FOLDER))])
    # The model ends when this pipe is closed, however this process ends.
    assert model.stdin
    model.stdin.close()


def refuse_taken_port() -> None:
    """Exit if the port is in use: another demo would lose its model to this one."""
    if is_taken("127.0.0.1", PORT):
        holder = holder_of(PORT)
        by = (
            f" by {holder}. Stop that process"
            if holder
            else ": is the demo running already? Stop what runs there"
        )
        sys.exit(f"127.0.0.1:{PORT} is in use{by}, or choose another port with PORT=…")


def start_model() -> tuple[subprocess.Popen[str], str]:
    """The offline model, for as long as anyone holds the other end of its standard input, and its address.

    It need not be waited for: its socket accepts connections from now on.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        descriptor = listening.fileno()
        model = subprocess.Popen(
            [sys.executable, "-m", "offline_model", "--listening", str(descriptor), "--delay", DELAY],
            cwd=ROOT / "demo",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(descriptor,),
            text=True,
            # Ctrl-C is for the server. The model ends with it.
            start_new_session=True,
        )
    reap(model)
    return model, address


def start_runs() -> None:
    """Start the demo's runs in the background. They stop when this process ends."""
    lifeline, _held = os.pipe()
    runs = subprocess.Popen(
        [sys.executable, "-m", "scripts.demo_runs", str(FOLDER), str(lifeline)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        pass_fds=(lifeline,),
        # Ctrl-C is for the server. When it ends, it closes the other end of the pipe.
        start_new_session=True,
    )
    os.close(lifeline)
    reap(runs)


def reap(process: "subprocess.Popen[Any]") -> None:
    """Collect the exit status when the process ends. Until then, it would remain as a zombie."""
    threading.Thread(target=process.wait, name=f"reap {process.pid}", daemon=True).start()


def serve(arguments: Sequence[str]) -> None:
    """Run ``manage.py up`` in this process: another one would import Django again."""
    os.environ.setdefault("NOTICE_FILE", str(demo_runs.notice_file(FOLDER)))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")
    execute_from_command_line(["manage.py", "up", *arguments])


if __name__ == "__main__":
    main()
