"""Reads the checkpoint saver of a project; forkline_langgraph/saver_reader.py documents what it does.

<the project's interpreter> saver_runner.py serve <folder> <module:name> <end>
<the project's interpreter> saver_runner.py copy <folder> <module:name> <checkpoint key> <new SQLite file>

``serve`` answers at the Unix socket that is its standard input, until the pipe ``end`` is closed.
"""

import os
import sys

# Before the engine is imported, which reads it once: values may then only name classes that hold data.
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

from forkline_langgraph import saver_reader

if __name__ == "__main__":
    sys.exit(saver_reader.main(sys.argv[1:]))
