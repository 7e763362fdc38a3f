"""The child program: runs, resumes or forks with CrewAI, and tells its spool.

    <the project's interpreter> crewai_runner.py <job folder>

It runs beside the user's code, so it may import the engine, the standard library, and its own parts.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import sys
import threading
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkline_crewai.restore import edits, effects, original, sanitizing
from forkline_crewai.run import project
from forkline_guard import guard
from forkline_runner import interrupts, program_input
from forkline_runner.limits import Limits
from forkline_runner.messages import Words, words
from forkline_runner.messages import gettext_noop as _
from forkline_runner.questions import Questions
from forkline_runner.refusal import Refused
from forkline_runner.reporting import Reporter, secrets_of, shortened

if TYPE_CHECKING:
    from viewer.jobs.spool import Request

HERE = Path(__file__).resolve().parent
# The first whose checkpoints know their parent and branch.
OLDEST_ENGINE = "1.14.2"
SECONDS_TO_CLEAN_UP = 2
SECONDS_TO_LEAVE = 2


def main(folder: Path) -> int:
    """Run the job of this folder to its last line. 0 where it succeeded, 1 where not, 130 where cancelled."""
    spool = _spool_module()
    request: Request = json.loads((folder / spool.REQUEST).read_text())
    # Before anything of the project or of the checkpoint is imported.
    guard.install_from(os.environ)
    guard.protect(request.get("protected") or [])
    reporter = Reporter(spool.Spool(folder, hide=secrets_of(os.environ)))
    reporter.questions = Questions(folder, reporter, spool.answer_name)
    if request["kind"] == "preflight":
        program_input.refuse_during_preflight()
    else:
        program_input.ask_a_person(reporter.questions)
    interrupts.listen(partial(_interrupted, reporter), partial(_leave_now, reporter, 143))
    most = (request.get("options") or {}).get("limits") or {}
    reporter.limits = Limits(most, folder / spool.STOP, reporter.questions.is_waiting)
    reporter.limits.watch_time(reporter)
    try:
        result = run(request, folder / spool.SCRATCH, reporter)
    except BaseException as error:
        _flush()
        return _end(reporter, error)
    reporter.limits.lift()
    _flush()
    reporter.end("succeeded", result=result)
    return 0


def run(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Prepare the engine's state from the checkpoint and run what is left. The result, as text."""
    if request["kind"] in ("preflight", "effects"):
        return _look(request, scratch, reporter)
    _begin(reporter)
    original.refuse_other_place(request)
    if request["kind"] == "run":
        return _run_from_the_start(request, reporter)
    body = original.read_original(request)
    root = edits.root_of(body, request["entity"])
    if request["entity"] == "crew":
        edits.edit_crew(root, request)
    elif request["entity"] == "flow":
        if not request["entry_point"]:
            raise Refused(
                _("A flow needs its own code. Name its entry point, such as module:MyFlow or flow.yaml.")
            )
        edits.edit_state(root, request)
    project.enter(request["folder"])
    effects.refuse_unaccepted(effects.effects_of(root, request, os.environ), request)
    effects.pin_modules(root, request)
    entities, lost = _entities(root, request)
    if lost:
        reporter.warn(
            _(
                "Not restored from the checkpoint, which could name anything: %(lost)s. Name the crew's "
                "entry point to have them from the project's own code."
            ),
            lost=", ".join(lost),
        )
    _settle()
    return _run_engine(request, body, root, entities, scratch, reporter)


def _look(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Nothing runs: the engine's state is made of a copy, and thrown away."""
    _settle()
    from forkline_crewai import preflight

    return preflight.look(request, scratch, reporter, _begin)


def _run_from_the_start(request: Request, reporter: Reporter) -> str:
    if request["location"]["provider"] == "sqlite":
        original.use_recent_sqlite()
    project.enter(request["folder"])
    _settle()
    from forkline_crewai.run import new_runs

    return new_runs.run(request, reporter)


def _run_engine(
    request: Request,
    body: dict[str, Any],
    root: dict[str, Any],
    entities: list[Any],
    scratch: Path,
    reporter: Reporter,
) -> str:
    # The engine takes seconds to import: not before everything that can be refused without it.
    from forkline_crewai.restore import restoring
    from forkline_crewai.run import engine_patches

    tasks = root.get("tasks") or [] if request["entity"] == "crew" else []
    positions = {str(task["id"]): position for position, task in enumerate(tasks, 1)}
    engine_patches.apply_all(request, reporter, positions)
    record = sanitizing.clean_record(body.get("event_record"))
    copy = restoring.copied({**body, "entities": entities, "event_record": record}, request, scratch)
    try:
        state = restoring.restored(copy, request)
    finally:
        shutil.rmtree(scratch)
    return _run_on(state, root, body, request, reporter)


def _run_on(
    state: Any, root: dict[str, Any], body: dict[str, Any], request: Request, reporter: Reporter
) -> str:
    """Run what is left of a crew, a flow or an agent. The result, as text."""
    from forkline_crewai.patches import pausing_providers
    from forkline_crewai.restore import pending_feedback
    from forkline_crewai.run import agents, crews, flows

    if request["entity"] == "crew":
        crew = crews.prepare(state, root, body, request, reporter)
        reporter.write("steps", steps=_steps(request, [root, *(root.get("tasks") or [])]))
        return crews.run(crew)
    if request["entity"] == "flow":
        flow = flows.prepare(state, root, body, request, reporter)
        pausing_providers.apply_to_methods(flow, reporter.questions)
        pending_feedback.continue_pending(flow, root, body, request, reporter.questions)
        flows.replay_finished(flow, root, body, reporter)
        reporter.write("steps", steps=flows.steps_of(flow, request))
        return flows.run(flow)
    agent = agents.prepare(state, root, body, request, reporter)
    reporter.write("steps", steps=_steps(request, [root]))
    return agents.run(agent, body, request)


def _entities(root: dict[str, Any], request: Request) -> tuple[list[Any], list[str]]:
    """What the engine restores of the checkpoint, and what is lost by that. Nothing, where the project's
    own code makes it: then only texts and values are taken over."""
    if request["entry_point"] or request["entity"] == "flow":
        return [], []
    clean = sanitizing.clean_crew if request["entity"] == "crew" else sanitizing.clean_agent
    entity, lost = clean(root, project.may_import, os.environ)
    return [entity], lost


def _steps(request: Request, units: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = ("name", "description", "role")
    titles = {
        str(unit.get("id")): next((unit[name] for name in names if unit.get(name)), "") for unit in units
    }
    return [
        {
            "unit": step["task"],
            "position": position,
            "title": shortened(titles.get(step["task"], ""), 200),
            "action": step["action"],
        }
        for position, step in enumerate(request["steps"], 1)
    ]


def _begin(reporter: Reporter) -> None:
    try:
        version = importlib.metadata.version("crewai")
    except importlib.metadata.PackageNotFoundError as error:
        raise Refused(
            _("CrewAI is not installed in the project's environment (%(python)s)."), python=sys.executable
        ) from error
    if project.is_older(version, OLDEST_ENGINE):
        raise Refused(
            _(
                "The project's environment has CrewAI %(version)s, which cannot fork and writes no "
                "parents into its checkpoints. Install %(oldest)s or newer: %(python)s -m pip "
                "install -U crewai"
            ),
            version=version,
            oldest=OLDEST_ENGINE,
            python=sys.executable,
        )
    reporter.write(
        "started",
        pid=os.getpid(),
        engine="crewai",
        engine_version=version,
        python_version=platform.python_version(),
    )


def _settle() -> None:
    """A run asks nobody at a terminal, and reports to nobody else."""
    for name, value in {
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_DISABLE_TRACKING": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "CREWAI_TESTING": "true",
        "OTEL_SDK_DISABLED": "true",
    }.items():
        os.environ.setdefault(name, value)


def _end(reporter: Reporter, error: BaseException) -> int:
    """The last line of a run that did not succeed, in words."""
    if isinstance(error, KeyboardInterrupt):
        reporter.end("cancelled")
        return 130
    message: str | Words = f"{type(error).__name__}: {error}"
    if isinstance(error, Refused | program_input.InputDuringPreflight):
        message = error.words
    elif isinstance(error, SystemExit):
        ended = _("The project's code ended the program itself (sys.exit(%(code)s)).")
        message = words(ended, code=repr(error.code))
    elif type(error).__name__ == "PanicException":
        gave_up = _("The engine gave up while it wrote a checkpoint (%(error)s). Resume from the last one.")
        message = words(gave_up, error=error)
    shown = "" if isinstance(error, Refused) else "".join(traceback.format_exception(error))
    reporter.end("failed", error=message, traceback=shown)
    return 1


def _flush() -> None:
    """Wait for the last checkpoint's write, if the engine has come into play at all."""
    writes: Any = sys.modules.get("forkline_crewai.report.writes")
    if writes is not None:
        try:
            writes.flush()
        except BaseException:
            traceback.print_exc()


def _interrupted(reporter: Reporter) -> None:
    """After SIGINT: the project's code may clean up, but not wait for a model that is still answering."""
    if reporter.limits:
        reporter.limits.lift()
    leaving = threading.Timer(SECONDS_TO_CLEAN_UP, _leave_now, (reporter, 130))
    leaving.daemon = True
    leaving.start()


def _leave_now(reporter: Reporter, status: int) -> None:
    """A moment for a checkpoint that is being written, the last line, and out."""
    for last in (_flush, partial(reporter.end, "cancelled")):
        # The main thread may hold the lock that this takes, and never give it back.
        ending = threading.Thread(target=last, daemon=True)
        ending.start()
        ending.join(SECONDS_TO_LEAVE)
    os._exit(status)


def _spool_module() -> Any:
    """viewer/jobs/spool.py by its path: a project may have a package called ``viewer`` too."""
    spec = importlib.util.spec_from_file_location("forkline_spool", HERE.parent / "jobs" / "spool.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    status = main(Path(sys.argv[1]).resolve())
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of the project's code may still wait for something: nobody waits for them.
    os._exit(status)
