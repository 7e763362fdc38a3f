"""Runs with the commit that an earlier run has recorded, although the project's code has changed since."""

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import ENTRY_POINT, recorded_after
from quality.compatibility.sandbox import Sandbox, grown
from tests.engine_runs.runs import PRESS, request_for
from tests.jobs.code.repositories import changed_since


@row("code", "a fork with the recorded commit")
def recorded_commit(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "simple", 2)
    folder, variables = changed_since(PRESS, sandbox.folder, "press_parts.py")
    request = request_for(start, location, entry_point=ENTRY_POINT, folder=folder)
    sandbox.continued(request, "Write Title", **variables)
    grown(location, before, start, "try-it")
