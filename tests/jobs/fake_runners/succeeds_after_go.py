"""Succeeds when the file ``go`` exists in the project's folder."""

import tiny

spool = tiny.begin()
tiny.wait_for("go")
spool.write("ended", status="succeeded", result="all done", error="", traceback="")
