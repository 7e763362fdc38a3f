"""Succeeds once a file called ``go`` stands in the project's folder."""

import tiny

spool = tiny.begin()
tiny.wait_for("go")
spool.write("ended", status="succeeded", result="all done", error="", traceback="")
