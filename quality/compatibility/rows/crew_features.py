"""Features of a crew besides tasks: knowledge, memory, kickoff hooks, output files."""

import shutil
from pathlib import Path

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import recorded_after
from quality.compatibility.sandbox import Sandbox, grown, holds, same, storage_in, tasks_called
from tests.engine_runs.runs import PRESS, Ended, marks, request_for, saved_in

MARIGOLD = "The archive's key is kept under the marigold."
HELIOTROPE = "The press's house word is heliotrope."


def warns(run: Ended, text: str) -> bool:
    return any(text in line["message"] for line in run.of("warning"))


@row("components", "knowledge")
def knowledge(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "knowing", 2)
    own = request_for(start, location, entry_point="press_memory:knowing")
    sandbox.continued(own, "Write Title", **storage_in(location.parent))
    asked = [prompt for prompt in sandbox.model.prompts() if "Current Task" in prompt]
    for prompt in asked:
        holds("the model is sent the crew's knowledge", MARIGOLD in prompt)
        holds("the model is sent the agent's knowledge", HELIOTROPE in prompt)
    same("finished tasks at the end", grown(location, before, start, "try-it")[-1].done, 4)


@row("components", "knowledge, without the project's code")
def knowledge_alone(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "knowing", 2)
    sandbox.model.reset()
    run = sandbox.completed(request_for(start, location), **storage_in(location.parent))
    holds("it is reported that the knowledge is lost", warns(run, "knowledge"))
    same("model calls", len(sandbox.model.requests), 2)
    known = [prompt for prompt in sandbox.model.prompts() if MARIGOLD in prompt or HELIOTROPE in prompt]
    same("prompts with what a checkpoint's file paths name", known, [])
    same("finished tasks at the end", grown(location, before, start, "try-it")[-1].done, 4)


@row("components", "memory")
def memory(sandbox: Sandbox) -> None:
    remembered(sandbox, "remembering")


@row("components", "memory as a separate object")
def memory_apart(sandbox: Sandbox) -> None:
    remembered(sandbox, "remembering apart")


def remembered(sandbox: Sandbox, kind: str) -> None:
    """Check a run with memory: the engine writes one checkpoint, the resumed run writes all."""
    location = sandbox.recorded(kind)
    start = saved_in(location)[0]
    entry_point = f"press_memory:{kind.replace(' ', '_')}"
    storage = storage_in(location.parent)
    run = sandbox.completed(request_for(start, location, branch="first", entry_point=entry_point), **storage)
    asked = [prompt for prompt in sandbox.model.prompts() if "Current Task" in prompt]
    holds("the first task is sent what the recorded run remembered", "Relevant memories" in asked[0])
    holds("what else the memory holds is reported", warns(run, "not part of a checkpoint"))
    ours = next(saved for saved in saved_in(location) if saved.branch == "first" and saved.done == 2)
    before = marks(location)
    sandbox.model.reset()
    run = sandbox.completed(request_for(ours, location, entry_point=entry_point), **storage)
    asked = [prompt for prompt in sandbox.model.prompts() if "Current Task" in prompt]
    same("tasks called", len(asked), 2)
    for prompt in asked:
        holds("the model is sent memories", "Relevant memories" in prompt)
    same("finished tasks at the end", grown(location, before, ours, "try-it")[-1].done, 4)


@row("components", "kickoff hooks and a streaming model")
def hooks(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "hooked", 2)
    request = request_for(start, location, entry_point="press_hooks:hooked", folder=own_folder(sandbox))
    run = sandbox.completed(request)
    same("called", sandbox.traced(), ["before AI!", "after"])
    same("tasks called", tasks_called(sandbox.model), ["Write"])
    holds("the inputs are those that the hook once made", "Write about AI!" in sandbox.model.prompts()[0])
    holds("the hook behind the kickoff has its say", run.end["result"].endswith("(signed)"))
    streamed = "".join(line["text"] for line in run.of("text"))
    holds("what the model streams is reported", streamed.strip() and streamed.strip() in run.end["result"])
    last = grown(location, before, start, "try-it")[-1]
    same("saved inputs", last.root["checkpoint_inputs"]["topic"], "AI!")
    folder = Path(request["folder"])
    same(
        "files of kept tasks",
        [(folder / f"{name}.txt").exists() for name in ("collected", "checked")],
        [False] * 2,
    )
    same("the file of the task that ran", (folder / "on-AI!.txt").read_text(), last.tasks[2]["output"]["raw"])


def own_folder(sandbox: Sandbox) -> Path:
    """Return a copy of the project, for the files that its tasks write."""
    return Path(shutil.copytree(PRESS, sandbox.folder / "project"))
