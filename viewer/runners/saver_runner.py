"""Reads the checkpoint saver of a project, or deletes checkpoints with the engine's own.

<the project's interpreter> saver_runner.py serve <folder> <module:name> <end>
<the project's interpreter> saver_runner.py copy <folder> <module:name> <end> <checkpoint key> <new file>
<the project's interpreter> saver_runner.py prune <end>

``serve`` answers at the Unix socket that is its standard input. ``copy`` writes an SQLite file. ``prune``
lists or deletes what the request on its standard input names. All end when the pipe ``end`` is closed.
forkline_langgraph/saver_reader.py and forkline_langgraph/pruning.py document what they do.
"""

import os
import sys

# Before the engine is imported, which reads it once: values may then only name classes that hold data.
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

from forkline_langgraph import pruning, saver_reader

if __name__ == "__main__":
    arguments = sys.argv[1:]
    is_prune = arguments[0] == "prune"
    # Without waiting for threads of the project, such as those of aiosqlite.
    os._exit(pruning.main(*arguments[1:]) if is_prune else saver_reader.main(arguments))
