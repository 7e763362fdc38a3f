"""Writes a Python script that repeats a fork, a resume or a new run with CrewAI itself."""

from urllib.parse import quote

from viewer.engines.crewai.contents import Contents
from viewer.engines.crewai.planning import agent_prompt
from viewer.engines.crewai.recorded_calls import recorded_calls, spans
from viewer.engines.crewai.structs import STATE
from viewer.engines.recorded_calls import Sources
from viewer.engines.reproduction import RecordedRun, Reproduction, heading, literal, loaded

_CLASSES = {"crew": "Crew", "flow": "Flow", "agent": "Agent"}
_TITLES = {
    "fork": "Fork a checkpoint with CrewAI.",
    "resume": "Resume a checkpoint with CrewAI.",
    "run": "Run an entry point with CrewAI.",
}


def script(what: Reproduction) -> str:
    """The source of the script. The script writes checkpoints to the location of the original.

    Empty for an answer to a flow: the flow no longer waits for it.
    """
    if what.entity == STATE and not what.starts_over:
        return ""
    lines = heading(what, _TITLES[what.kind])
    if what.entity == STATE:
        return "\n".join([*lines, *_from_state(what), ""])
    lines += _new_run(what) if what.kind == "run" else _restored(what)
    lines += _kickoff(what)
    return "\n".join([*lines, ""])


def _restored(what: Reproduction) -> list[str]:
    """The lines that restore the checkpoint and apply the edits."""
    lines = [*_config(what), ""]
    owner = _CLASSES.get(what.entity, "Crew")
    if what.entity == "flow":
        # A flow that is restored through the base class runs nothing.
        lines += [
            *loaded(what.entry_point, "made"),
            "restored = made if isinstance(made, type) else type(made())",
        ]
    else:
        lines += [f"from crewai import {owner}", "", f"restored = {owner}"]
    call = (
        f"restored.fork(config, branch={what.branch!r})"
        if what.kind == "fork"
        else "restored.from_checkpoint(config)"
    )
    lines += [f"run = {call}", *_checkpoints(what)]
    if what.entity == "crew":
        lines += _edited_tasks(what)
    if what.state:
        lines += ["", f"for name, value in {literal(dict(what.state))}.items():"]
        lines += ["    if isinstance(run.state, dict):", "        run.state[name] = value"]
        lines += ["    else:", "        setattr(run.state, name, value)"]
    return lines


def _from_state(what: Reproduction) -> list[str]:
    """The lines that run a flow with a state. It writes its states to another file."""
    values = f"{{**json.loads(state), **{literal(dict(what.state))}}}" if what.state else "json.loads(state)"
    address = f"file:{quote(what.source.rpartition('#')[0])}?mode=ro"
    rowid = int(what.checkpoint_id.rpartition("_")[2], 16)
    return [
        "import json",
        "import sqlite3",
        "",
        "from crewai.flow.persistence import SQLiteFlowPersistence",
        "",
        f"source = sqlite3.connect({address!r}, uri=True)",
        'query = "SELECT flow_uuid, method_name, state_json FROM flow_states WHERE rowid = ?"',
        f"flow, method, state = source.execute(query, ({rowid},)).fetchone()",
        'copy = SQLiteFlowPersistence("fork.db")',
        f"copy.save_state(flow, method, {values})",
        "",
        *loaded(what.entry_point, "made"),
        "run = made(persistence=copy) if isinstance(made, type) else made()",
        "run.persistence = copy",
        "",
        "result = run.kickoff(restore_from_state_id=flow)",
        "print(result)",
    ]


def _config(what: Reproduction) -> list[str]:
    return [
        "from crewai.state.checkpoint_config import CheckpointConfig",
        *_provider(what),
        "",
        f"config = CheckpointConfig(restore_from={what.source!r}, provider=provider)",
    ]


def _provider(what: Reproduction) -> list[str]:
    module, name = (
        ("sqlite_provider", "SqliteProvider")
        if what.store_kind == "sqlite"
        else ("json_provider", "JsonProvider")
    )
    return [f"from crewai.state.provider.{module} import {name}", "", f"provider = {name}()"]


def _checkpoints(what: Reproduction) -> list[str]:
    """The lines that set where the run writes checkpoints. A restored run would write none, or elsewhere."""
    config = f"CheckpointConfig(location={what.location!r}, provider=provider, on_events=events)"
    return [
        'events = run.checkpoint.on_events if getattr(run, "checkpoint", None) else ["task_completed"]',
        f"run.checkpoint = {config}",
    ]


def _edited_tasks(what: Reproduction) -> list[str]:
    if not what.outputs and not what.again:
        return []
    lines = [
        "",
        "import json",
        "",
        f"outputs = {literal(dict(what.outputs))}",
        f"again = {literal(set(what.again))}",
    ]
    return [
        *lines,
        "for task in run.tasks:",
        "    if str(task.id) in again:",
        "        task.output = None",
        "    elif str(task.id) in outputs:",
        "        value = outputs[str(task.id)]",
        "        task.output.raw = value if isinstance(value, str) else json.dumps(value)",
        "        if task.output.json_dict is not None:",
        "            task.output.json_dict = json.loads(task.output.raw)",
        # The engine restores a Pydantic model without its class, so only its text and JSON value are valid.
        "        task.output.pydantic = None",
        "        task.output.messages = []",
    ]


def _new_run(what: Reproduction) -> list[str]:
    """The lines that make the root entity of a new run."""
    if ":" not in what.entry_point:
        maker = "Flow.from_declaration(path={!r})" if what.entity == "flow" else "load_crew({!r})[0]"
        source = (
            "crewai.flow.flow import Flow" if what.entity == "flow" else "crewai.project import load_crew"
        )
        lines = [f"from {source}", "", f"run = {maker.format(what.entry_point)}"]
    else:
        lines = [*loaded(what.entry_point, "made"), "", "run = made() if callable(made) else made"]
        if what.entity == "crew":
            lines += ['run = run.crew() if hasattr(run, "crew") and not hasattr(run, "kickoff") else run']
    provided = ["", "from crewai.state.checkpoint_config import CheckpointConfig", *_provider(what)]
    return [*lines, *provided, *_checkpoints(what)]


def _kickoff(what: Reproduction) -> list[str]:
    if what.entity == "agent":
        prompt = what.inputs.get("messages", "")
        return ["", f"result = run.kickoff({literal(prompt)})", "print(result)"]
    given = f"inputs={literal(dict(what.inputs))}" if what.inputs else ""
    return ["", f"result = run.kickoff({given})", "print(result)"]


def recorded_run(sources: Sources) -> RecordedRun | None:
    """The inputs and outputs of a run without resumes; None for another one, whose record mixes both."""
    contents = sources[-1].contents if sources else None
    if not isinstance(contents, Contents) or any(span.kind == "gap" for span in spans(sources)):
        return None
    if contents.kind == "crew":
        outputs = {f"task {task.position}": task.output for task in contents.tasks}
        return RecordedRun(contents.inputs, outputs) if None not in outputs.values() else None
    if contents.kind == "flow" and contents.flow_state is not None:
        # The id of the state is another one in each run.
        state = {name: value for name, value in contents.flow_state.items() if name != "id"}
        return RecordedRun(contents.inputs, state)
    calls, prompt = list(recorded_calls(contents)), agent_prompt(contents)
    if contents.kind == "agent" and calls and prompt is not None:
        return RecordedRun({"messages": prompt}, {"output": calls[-1].result})
    return None
