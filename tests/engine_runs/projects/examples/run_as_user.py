"""Starts an example as its user does.

run_as_user.py main.py [ANSWER...]     python main.py, with its questions answered
run_as_user.py MODULE:FUNCTION SRC     a script of pyproject.toml, with SRC installed as editable
"""

import importlib
import io
import runpy
import sys
import threading
from pathlib import Path

from crewai.events.event_bus import crewai_event_bus

# A run that ends before its checkpoints are written loses some of them.
emit = crewai_event_bus.emit


def emit_and_wait(source, event):
    future = emit(source, event)
    if future is not None and not threading.current_thread().name.startswith("CrewAISyncHandler"):
        future.exception(20)
    return future


def main(target: str, *more: str) -> None:
    crewai_event_bus.emit = emit_and_wait
    module, _, function = target.partition(":")
    sys.path.pop(0)
    if function:
        sys.path.append(more[0])
        getattr(importlib.import_module(module), function)()
    else:
        sys.stdin = io.StringIO("".join(f"{answer}\n" for answer in more))
        sys.path.insert(0, str(Path(target).resolve().parent))
        runpy.run_path(target, run_name="__main__")
    crewai_event_bus.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
