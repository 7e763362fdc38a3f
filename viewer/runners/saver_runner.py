"""Reads the checkpoint saver of a project, deletes checkpoints with the engine's own, or copies some.

<the project's interpreter> saver_runner.py serve <folder> <module:name> <end>
<the project's interpreter> saver_runner.py copy <folder> <module:name> <end> <checkpoint key> <new file>
<the project's interpreter> saver_runner.py prune <end>
<the project's interpreter> saver_runner.py send <end>

``serve`` answers at the Unix socket that is its standard input. ``copy`` writes an SQLite file. ``prune``
lists or deletes what the request on its standard input names, and ``send`` writes an SQLite file for another
host. All end when the pipe ``end`` is closed. The modules that are imported below document what they do.
"""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # Before the engine is imported, which reads it once: values may then only name classes that hold data.
    os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

    # With PYTHONSAFEPATH, Python leaves this folder out, and PYTHONPATH could name other modules.
    sys.path.insert(0, str(Path(__file__).resolve().parent))

    # Not above: processes that the project's code starts with ``multiprocessing`` import this file again,
    # without the folder of the runners.
    from forkline_langgraph import pruning, saver_reader, scratch_store

    arguments = sys.argv[1:]
    # The project's code may parse command-line arguments when it is imported, and these are not its own.
    del sys.argv[1:]
    function = {"prune": pruning.pruned, "send": scratch_store.write_for_other_host}.get(arguments[0])
    status = saver_reader.answer(arguments[1], function) if function else saver_reader.main(arguments)
    # Without waiting for threads of the project, such as those of aiosqlite.
    os._exit(status)
