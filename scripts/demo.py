"""``make demo``: runs the demo project for real, once, then serves. ``--clean`` takes it back."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from checkpoint_site.settings import DATA_DIR, DATABASES, PORT
from scripts import demo_rows, demo_runs
from viewer.supervision.lifeline import end_with_parent
from viewer.supervision.ports import holder_of, is_taken

ROOT = Path(__file__).resolve().parent.parent
FOLDER = DATA_DIR / "demo"
# Written when everything has run: until then, the next start begins again.
FINISHED = FOLDER / "finished"
# Seconds between two pieces of an answer.
DELAY = os.environ.get("DEMO_DELAY") or "0.06"


def main() -> None:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--clean", action="store_true", help="take back what the demo made")
    parser.add_argument("--prepare", action="store_true", help="run it, but do not serve")
    parser.add_argument("--parent", type=int, help="end when the parent process, which has this id, ends")
    options = parser.parse_args()
    end_with_parent(options.parent)
    if options.clean:
        print("Taking back what the demo made." if FOLDER.exists() else "There is nothing of the demo.")
        demo_rows.take_back(FOLDER)
        return
    if not options.prepare:
        refuse_taken_port()
    # Without its database, what was run cannot be shown.
    is_finished = FINISHED.exists() and Path(str(DATABASES["default"]["NAME"])).exists()
    if not is_finished:
        demo_rows.take_back(FOLDER)
    model = start_model()
    assert model.stdin and model.stdout
    demo_runs.write_environment(FOLDER, model.stdout.readline().strip())
    if not is_finished:
        demo_runs.run_everything(FOLDER)
        FINISHED.touch()
    if not options.prepare:
        serve(model.stdin.fileno(), options.parent)


def refuse_taken_port() -> None:
    """End the program where something is served already: its demo would lose its model to this one."""
    if is_taken("127.0.0.1", PORT):
        holder = holder_of(PORT)
        by = (
            f" by {holder}. Stop that process"
            if holder
            else ": is the demo running already? Stop what runs there"
        )
        sys.exit(f"127.0.0.1:{PORT} is taken{by}, or choose another port with PORT=…")


def start_model() -> subprocess.Popen[str]:
    """The offline model, for as long as anyone holds the other end of its standard input."""
    return subprocess.Popen(
        [sys.executable, "-m", "offline_model", "--port", "0", "--delay", DELAY],
        cwd=ROOT / "demo",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C is for the server, which takes the model with it.
        start_new_session=True,
    )


def serve(model_input: int, parent: int | None) -> None:
    """Become the server, and keep hold of the model: it ends when the server does, however that ends."""
    os.set_inheritable(model_input, True)
    command = [sys.executable, str(ROOT / "manage.py"), "up"]
    os.execv(sys.executable, [*command, *(["--parent", str(parent)] if parent else [])])


if __name__ == "__main__":
    main()
