"""Reads the checkpoint saver of a project; forkline_langgraph/saver_reader.py documents what it does.

<the project's interpreter> saver_runner.py serve <folder> <module:name> <end>
<the project's interpreter> saver_runner.py copy <folder> <module:name> <end> <checkpoint key> <new file>

``serve`` answers at the Unix socket that is its standard input. ``copy`` writes an SQLite file. Both end when
the pipe ``end`` is closed.
"""

import os
import sys

# Before the engine is imported, which reads it once: values may then only name classes that hold data.
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

from forkline_langgraph import saver_reader

if __name__ == "__main__":
    # Without waiting for threads of the project, such as those of aiosqlite.
    os._exit(saver_reader.main(sys.argv[1:]))
