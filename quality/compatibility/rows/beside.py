"""What a crew has beside its tasks: knowledge, memory, hooks around its kickoff, files that it writes."""

import shutil
from pathlib import Path

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import after
from quality.compatibility.stage import Stage, grown, holds, same, storage_in, succeeded, tasks_called
from tests.runners.children import PRESS, Ended, marks, request_for, saved_in

MARIGOLD = "The archive's key is kept under the marigold."
HELIOTROPE = "The press's house word is heliotrope."


def told(run: Ended, words: str) -> bool:
    return any(words in line["message"] for line in run.of("warning"))


@row("parts", "knowledge")
def knowledge(stage: Stage) -> None:
    location = stage.recorded("knowing")
    start, before = after(location, 2), marks(location)
    own = request_for(start, location, entry_point="press_memory:knowing")
    run = stage.run(own, **storage_in(location.parent))
    succeeded(run)
    same("tasks called", tasks_called(stage.model), ["Write", "Title"])
    asked = [prompt for prompt in stage.model.prompts() if "Current Task" in prompt]
    for prompt in asked:
        holds("the model is sent the crew's knowledge", MARIGOLD in prompt)
        holds("the model is sent the agent's knowledge", HELIOTROPE in prompt)
    same("finished tasks at the end", grown(location, before, start, "try-it")[-1].done, 4)


@row("parts", "knowledge, without the project's code")
def knowledge_alone(stage: Stage) -> None:
    location = stage.recorded("knowing")
    start, before = after(location, 2), marks(location)
    stage.model.forget()
    run = stage.run(request_for(start, location), **storage_in(location.parent))
    succeeded(run)
    holds("it is told that the knowledge is lost", told(run, "knowledge"))
    same("model calls", len(stage.model.requests), 2)
    known = [prompt for prompt in stage.model.prompts() if MARIGOLD in prompt or HELIOTROPE in prompt]
    same("prompts with what a checkpoint's file paths name", known, [])
    same("finished tasks at the end", grown(location, before, start, "try-it")[-1].done, 4)


@row("parts", "memory")
def memory(stage: Stage) -> None:
    remembered(stage, "remembering")


@row("parts", "memory as an object of its own")
def memory_apart(stage: Stage) -> None:
    remembered(stage, "remembering apart")


def remembered(stage: Stage, kind: str) -> None:
    """The engine's own run gives up after its first checkpoint; a run that goes on from it writes all."""
    location = stage.recorded(kind)
    start = saved_in(location)[0]
    entry_point = f"press_memory:{kind.replace(' ', '_')}"
    storage = storage_in(location.parent)
    run = stage.run(request_for(start, location, branch="first", entry_point=entry_point), **storage)
    succeeded(run)
    asked = [prompt for prompt in stage.model.prompts() if "Current Task" in prompt]
    holds("the first task is sent what the recorded run remembered", "Relevant memories" in asked[0])
    holds("what else the memory holds is told", told(run, "no part of a checkpoint"))
    ours = next(saved for saved in saved_in(location) if saved.branch == "first" and saved.done == 2)
    before = marks(location)
    stage.model.forget()
    run = stage.run(request_for(ours, location, entry_point=entry_point), **storage)
    succeeded(run)
    asked = [prompt for prompt in stage.model.prompts() if "Current Task" in prompt]
    same("tasks called", len(asked), 2)
    for prompt in asked:
        holds("the model is sent memories", "Relevant memories" in prompt)
    same("finished tasks at the end", grown(location, before, ours, "try-it")[-1].done, 4)


@row("parts", "hooks around the kickoff, and a model that streams")
def hooks(stage: Stage) -> None:
    location = stage.recorded("hooked")
    start, before = after(location, 2), marks(location)
    request = request_for(start, location, entry_point="press_hooks:hooked", folder=own_folder(stage))
    run = stage.run(request)
    succeeded(run)
    same("called", stage.traced(), ["before AI!", "after"])
    same("tasks called", tasks_called(stage.model), ["Write"])
    holds("the inputs are those that the hook once made", "Write about AI!" in stage.model.prompts()[0])
    holds("the hook behind the kickoff has its say", run.end["result"].endswith("(signed)"))
    streamed = "".join(line["text"] for line in run.of("text"))
    holds("what the model streams is told", streamed.strip() and streamed.strip() in run.end["result"])
    last = grown(location, before, start, "try-it")[-1]
    same("saved inputs", last.root["checkpoint_inputs"]["topic"], "AI!")
    folder = Path(request["folder"])
    same(
        "files of kept tasks",
        [(folder / f"{name}.txt").exists() for name in ("collected", "checked")],
        [False] * 2,
    )
    same("the file of the task that ran", (folder / "on-AI!.txt").read_text(), last.tasks[2]["output"]["raw"])


def own_folder(stage: Stage) -> Path:
    """The project at a place of its own, for what its tasks write."""
    return Path(shutil.copytree(PRESS, stage.folder / "project"))
